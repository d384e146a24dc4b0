"""A class with something of everything in it."""

from dataclasses import replace

from grader.core import catalog
from grader.core.diagnosis_records import Diagnosis, NamedMistake
from grader.core.records import Exercise, Interval, Score, Verdict
from grader.core.translation import Words
from grader.reporting.class_page import render_class_page
from grader.reporting.class_summary import (
    Adjustment,
    ClassSummary,
    GradedStudent,
    summarise_class_reports,
)
from tests.reporting.markup import Page
from tests.reporting.samples import (
    FAULT,
    MEASURED,
    NOT_STARTED,
    REFUSED,
    RIGHT,
    SCORED,
    check,
    exercise,
    report,
)

CORE = tuple(catalog.find_catalog_exercise(name) for name in ("ex01", "ex02", "ex03"))
FURTHER = replace(catalog.find_catalog_exercise("ex04"), track="further")
EXERCISES: tuple[Exercise, ...] = (*CORE, FURTHER)

SCALED = NamedMistake(id="own_1", says="Divided by D.", mend="Divide by `sqrt(D)`.")
FORGOT = NamedMistake(id="own_2", says="Not divided.", mend="Divide.")


def score(earned: int, possible: int = 10, not_run: int = 0) -> Score:
    return Score(earned=earned, possible=possible, not_run=not_run)


def right(slug: str, points: int = 10, **more):
    return replace(RIGHT, slug=slug, score=score(points), **more)


def wrong(slug: str, points: int = 4, mistakes=(), why="out[0] is 1, but should be 2", **more):
    found = (
        check("own_a", Verdict.PASSED),
        check("own_b", Verdict.FAILED, why=why, diagnosis=Diagnosis(mistakes=tuple(mistakes))),
        check("own_c", Verdict.FAILED, why=why, diagnosis=Diagnosis(mistakes=tuple(mistakes))),
    )
    default = {"speed": None, "score": score(points), "checks": found}
    return exercise(slug, **(default | more))


def timed(slug: str, ratio: float, width: float = 0.1, **more):
    interval = Interval(low=ratio - width, middle=ratio, high=ratio + width)
    speed = replace(
        SCORED, fraction=0.5, measured=replace(MEASURED, ratio=interval), **more
    )  # fmt: skip
    return right(slug, speed=speed)


def other(of, slug: str, **more):
    """A report such as `of`, on another exercise."""
    return replace(of, slug=slug, **more)


def missing(slug: str):
    sentence = f"{slug}.py is not there. `make reset EX={slug}` writes it."
    return other(NOT_STARTED, slug, state="missing", sentence=sentence, score=score(0))


def not_started(slug: str):
    return other(NOT_STARTED, slug, score=score(0))


def refused(slug: str):
    blocked = check("own_a", Verdict.BLOCKED, why=REFUSED.sentence)
    return other(REFUSED, slug, score=score(0), speed=None, checks=(blocked,))


def fault(slug: str):
    return other(FAULT, slug)


def inconclusive(slug: str):
    busy = "the machine was too busy to time the grader's own two: try again"
    return timed(slug, 1.0, verdict="inconclusive", earned=0, why=busy)


def graded(name: str, *exercises, **more) -> GradedStudent:
    return GradedStudent(report=report(*exercises, student=name, seed=None), **more)


def of(*students: GradedStudent) -> ClassSummary:
    return summarise_class_reports(students, EXERCISES)


ONE, TWO, THREE, FOUR = (e.slug for e in EXERCISES)

CLASS = (
    graded(
        "grace", right(ONE), right(TWO), timed(THREE, 0.9), right(FOUR, 3), page="s/grace/r.html"
    ),
    graded("ada", right(ONE), wrong(TWO, mistakes=[SCALED]), timed(THREE, 1.5), missing(FOUR)),
    graded(
        "emmy", wrong(ONE, mistakes=[SCALED, FORGOT]), wrong(TWO, mistakes=[SCALED]), missing(THREE),
        notes=("notes.txt belongs to no exercise.",),
        adjustments={TWO: Adjustment(points=-7, why="two days late")},
    ),
    graded("alan", fault(ONE), refused(TWO), inconclusive(THREE)),
    graded("mary", missing(ONE), missing(TWO), missing(THREE), missing(FOUR)),
)  # fmt: skip


def everywhere(text: str) -> ClassSummary:
    """A class in which `text` stands wherever a student, or a person, could put it."""
    given = {ONE: Adjustment(points=1, why=text)}
    hurt = [fault(ONE), refused(TWO), timed(THREE, 1.2, why=text), wrong(FOUR, why=text)]
    told = [replace(e, sentence=text) for e in hurt]
    return of(graded(text, *told, notes=(text,), adjustments=given, page=f"s/{text}/r.html"))


FACTS = {"Versions": "torch 2.13.0", "Wall": "locked"}


def drawn(summary: ClassSummary, language: str = "en", **more) -> str:
    return render_class_page(
        summary, Words(language), **({"title": "Spring", "facts": FACTS} | more)
    )


def page(summary: ClassSummary, language: str = "en", **more) -> Page:
    return Page(drawn(summary, language, **more))
