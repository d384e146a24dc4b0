"""Finds reasons for a person to look at what a student handed in.

The sentences are in English and include their values: `Words.said` translates such sentences.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.core.records import Exercise, ExerciseReport, Speed, Verdict

NOT_BEGUN_STATES = ("missing", "not_started")
MAX_REVIEW_NOTES = 10  # of one student
MAX_SENTENCE_CHARACTERS = 500  # of one sentence
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

ReviewedAnswers = Sequence[tuple[Exercise, ExerciseReport]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewReason:
    """One sentence, and the slug of its exercise; no slug if it concerns all exercises."""

    says: str
    slug: str = ""


def flatten_reported_line(text: str) -> str:
    """Return `text` in one line without control characters or lone surrogates.

    A mark replaces each of them, so that a name made to look like another one differs from it.
    """
    return _CONTROL_CHARACTERS.sub("\ufffd", text)


def report_reasons_for_review(
    asked: ReviewedAnswers, notes: Sequence[str], total: float, weights: Mapping[str, float]
) -> Iterator[ReviewReason]:
    """Yield the reasons for a review: of each exercise, then of all together, then the notes.

    asked    the exercises with their reports, in their order
    total    the total of the exercises that count, with adjustments
    weights  the weight of each exercise, by slug; 0 if it does not count
    """
    for _, e in asked:
        yield from (
            ReviewReason(slug=e.slug, says=_cut_reported_sentence(says))
            for says in _report_exercise_reasons(e)
        )
    counted = [(e, report) for e, report in asked if weights[e.slug]]
    yield from (
        ReviewReason(says=says) for says in _report_class_work_reasons(asked, counted, total)
    )
    few = len(notes) <= MAX_REVIEW_NOTES + 1  # the last may count those that were left out before
    shown = notes if few else notes[:MAX_REVIEW_NOTES]
    yield from (ReviewReason(says=_cut_reported_sentence(note)) for note in shown)
    if more := len(notes) - len(shown):
        yield ReviewReason(says=f"{more} more notes on what was handed in.")


def _cut_reported_sentence(text: str) -> str:
    told = flatten_reported_line(" ".join(text.split()))
    return told if len(told) <= MAX_SENTENCE_CHARACTERS else f"{told[:MAX_SENTENCE_CHARACTERS]}…"


def _report_exercise_reasons(e: ExerciseReport) -> Iterator[str]:
    if e.score is None:
        yield _report_grader_fault(e)
    elif e.state in ("unreadable", "refused"):
        yield e.sentence
    elif e.speed is not None:
        yield from _report_speed_reasons(e.speed, e)


def _report_grader_fault(e: ExerciseReport) -> str:
    faults = [c.why for c in e.checks if c.verdict is Verdict.GRADER_FAULT]
    why = next(filter(None, [e.sentence, *faults]), "")
    return f"grader fault: no score ({why})" if why else "grader fault: no score"


def _report_speed_reasons(s: Speed, e: ExerciseReport) -> Iterator[str]:
    """Yield what is odd about a speed. A wrong answer normally has none: that is not reported."""
    wrong = any(c.verdict not in (Verdict.PASSED, Verdict.NOT_RUN) for c in e.checks)
    if s.verdict == "inconclusive":
        yield "could not be timed: run again"
    elif s.why and (s.verdict == "scored" or (s.verdict == "failed" and not wrong)):
        yield s.why


def _report_class_work_reasons(
    asked: ReviewedAnswers, counted: ReviewedAnswers, total: float
) -> Iterator[str]:
    states = {e.state for _, e in asked}
    missing = [e.slug for _, e in counted if e.state == "missing"]
    if states <= {"missing"}:
        yield "handed in nothing"
    elif states <= set(NOT_BEGUN_STATES):
        yield "handed in nothing but skeletons"
    elif missing:
        yield f"not handed in: {', '.join(missing)}"
    if total == 0 and any(_is_zero_worth_reporting(e) for _, e in counted):
        yield "a total of 0, though something was begun"


def _is_zero_worth_reporting(e: ExerciseReport) -> bool:
    """Return whether a student began an exercise that had points to be earned."""
    return e.state not in NOT_BEGUN_STATES and e.score is not None and e.score.possible > 0
