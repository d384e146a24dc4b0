"""`grader show EX`: an answer behind a wall, beside the reference."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.core.records import Exercise
from grader.core.translation import Words
from grader.judging.author_error import tell_author_errors
from grader.practice.show import picture
from grader.practice.show.example import trace_example_to_show
from grader.practice.show.recorded_answers import show_answer_behind_wall
from grader.practice.show.sentence import CannotShow, ShownSentence, split_sentence_to_show
from grader.practice.show.show_view import View, check_shown_picture_suffix
from grader.practice.show.trace import Trace
from grader.worker.parent.walls import Wall, hide_grader_from_workers


def show_example(
    exercise: Exercise, place: Path, console: Console, *, wall: Wall, words: Words, tokens: str,
    embedding: str = "drawn", head: int | None = None, output: Path | None = None,
) -> None:  # fmt: skip
    """Print the example of an exercise, the answer in `place` beside it if there is one.

    With `output`, also write the heat maps to that file. `CannotShow` says why something fails.
    """
    said = split_sentence_to_show(tokens, embedding)
    if output is not None:
        check_shown_picture_suffix(output)
    with tell_author_errors(exercise):
        found = _trace_answer_to_show(exercise, place, said, head, wall, words, console)
    view = View(trace=found, words=words)
    console.print(view)
    if output is None:
        if found.head is None and found.heads > 1:
            hint = words("HEAD=1 shows another head, OUT=weights.png all of them as heat maps.")
            console.print(Text(f"\n{hint}", style="dim"))
        return
    view.save(output)
    console.print(Text("\n" + words("Heat maps: {path}", path=output)))
    if picture.lacks_font_to_show(found, words):
        console.print(Text(words(
            "No font of this machine has these letters: the heat maps number the tokens instead."
        )))  # fmt: skip


def _trace_answer_to_show(
    exercise: Exercise, place: Path, said: ShownSentence, head: int | None, wall: Wall,
    words: Words,
    console: Console,
) -> Trace:  # fmt: skip
    """Return the trace with the answer; if it cannot run, print why and return the reference."""
    alone = trace_example_to_show(
        exercise, said, None, head
    )  # wrong arguments fail before the answer is run
    hide_grader_from_workers()
    try:
        with show_answer_behind_wall(exercise, place, wall) as student:
            return trace_example_to_show(exercise, said, student, head)
    except CannotShow as problem:
        console.print(Text(words.said(str(problem)), style="red"))
        return alone
