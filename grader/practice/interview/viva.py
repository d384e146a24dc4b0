"""Asks the questions after an interview one at a time, and keeps them with both answers."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from rich.console import Console

from grader.core.questions import Question
from grader.core.translation import Words
from grader.practice.interview.keyboard import Keyboard

QUESTION_COUNT = 3


def draw_interview_questions(questions: Sequence[Question], seed: int) -> list[Question]:
    """Draw some of the questions, the same for the same seed."""
    return Random(f"questions {seed}").sample(questions, min(QUESTION_COUNT, len(questions)))


def ask_interview_questions(
    questions: Sequence[Question], slug: str, *, keyboard: Keyboard, console: Console,
    words: Words, path: Path,
) -> None:  # fmt: skip
    """Ask each question, read an answer, show the model answer; write all of them to `path`."""

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, highlight=False)

    if not questions:
        say(words("There are no questions on {slug} yet.", slug=slug))
        return
    with path.open("w", encoding="utf-8") as file:
        file.write(f"# {slug}\n")
        for number, question in enumerate(questions, 1):
            asks, model = words.question(slug, question.id, question.asks, question.answer)
            told = words("Question {number} of {count}", number=number, count=len(questions))
            say(f"\n{told}", style="bold")
            say(asks)
            say(words("Your answer, ended by an empty line (Enter alone to go on):"), style="dim")
            keyboard.forget()
            own = keyboard.text()
            say(words("A model answer:"), style="bold")
            say(model)
            file.writelines(_write_interview_question(number, asks, own, model, words))
            file.flush()


def _write_interview_question(
    number: int, asks: str, own: str, model: str, words: Words
) -> Iterator[str]:
    """Yield a question with its answers in Markdown; the person's lines are quoted."""
    quoted = "\n".join(f"> {line}".rstrip() for line in own.splitlines())
    yield f"\n## {number}. {asks}\n"
    yield f"\n{words('Your answer:')}\n\n{quoted or words('(none written)')}\n"
    yield f"\n{words('A model answer:')}\n\n{model}\n"
