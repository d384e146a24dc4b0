"""Examples asked in this process, and what they say."""

import io

from rich.console import Console

from grader.core import catalog
from grader.core.translation import Words
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.judging.student import Student
from grader.practice.show import show_text
from grader.practice.show.example import trace_example_to_show
from grader.practice.show.sentence import split_sentence_to_show
from grader.practice.show.trace import Trace
from grader.worker.parent.in_process import call_without_wall


def shown(
    slug: str, student: Student | None, tokens: str = "the cat sat on the mat", **how
) -> Trace:
    head = how.pop("head", None)
    return trace_example_to_show(
        catalog.find_catalog_exercise(slug), split_sentence_to_show(tokens, **how), student, head
    )


def solver(slug: str) -> Student:
    """A student whose answer is the solution."""
    from grader.authoring.mutants import load_solution_to_prove

    exercise = catalog.find_catalog_exercise(slug)
    return Student(exercise, call_without_wall(load_solution_to_prove(exercise)))


def mistaken(slug: str, mistake: str) -> Student:
    """A student who makes one mistake of the catalogue."""
    known = MistakeCatalogue(catalog.find_catalog_exercise(slug))
    return known.student(next(m for m in known.mistakes if m.id == mistake))


def written(found: Trace, lang: str = "en", width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(show_text.show_trace_lines(found, Words(lang)))
    return console.file.getvalue()
