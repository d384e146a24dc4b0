"""`grader show EX`: an answer behind a wall, beside the reference."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.core.records import Exercise
from grader.core.translation import Words
from grader.practice.show import picture
from grader.practice.show.example import trace
from grader.practice.show.recorded_answers import behind_a_wall
from grader.practice.show.sentence import CannotShow, Sentence, sentence
from grader.practice.show.show_view import View, check_ending
from grader.practice.show.trace import Trace
from grader.worker.walls import Wall, hide_this_process


def show(
    exercise: Exercise, place: Path, console: Console, *, wall: Wall, words: Words, tokens: str,
    embedding: str = "drawn", head: int | None = None, output: Path | None = None,
) -> None:  # fmt: skip
    """Print the example of an exercise, the answer in `place` beside it if there is one.

    With `output` the heat maps are written there as well. `CannotShow` says what is not possible.
    """
    said = sentence(tokens, embedding)
    if output is not None:
        check_ending(output)
    found = _traced(exercise, place, said, head, wall, words, console)
    view = View(trace=found, words=words)
    console.print(view)
    if output is None:
        if found.head is None and found.heads > 1:
            hint = words("HEAD=1 shows another head, OUT=weights.png all of them as heat maps.")
            console.print(Text(f"\n{hint}", style="dim"))
        return
    view.save(output)
    console.print(Text("\n" + words("Heat maps: {path}", path=output)))
    if picture.unwritable(found, words):
        console.print(Text(words(
            "No font of this machine has these letters: the heat maps number the tokens instead."
        )))  # fmt: skip


def _traced(
    exercise: Exercise, place: Path, said: Sentence, head: int | None, wall: Wall, words: Words,
    console: Console,
) -> Trace:  # fmt: skip
    """The trace with the answer; if that cannot be run, a sentence, and the reference alone."""
    alone = trace(exercise, said, None, head)  # what is asked wrongly is said before all else
    hide_this_process()
    try:
        with behind_a_wall(exercise, place, wall) as student:
            return trace(exercise, said, student, head)
    except CannotShow as problem:
        console.print(Text(words.said(str(problem)), style="red"))
        return alone
