"""Finds reasons for a person to look at what a student handed in.

The sentences are in English and include their values: `Words.said` translates such sentences.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.core.records import Exercise, ExerciseReport, Speed, Verdict

NOT_BEGUN = ("missing", "not_started")
MOST_NOTES = 10  # of one student
SENTENCE_CHARACTERS = 500  # of one sentence
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Asked = Sequence[tuple[Exercise, ExerciseReport]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One sentence, and the slug of its exercise; no slug if it concerns all exercises."""

    says: str
    slug: str = ""


def as_line(text: str) -> str:
    """Return `text` in one line without control characters or lone surrogates.

    A mark replaces each of them, so that a name made to look like another one differs from it.
    """
    return _CONTROL_CHARACTERS.sub("\ufffd", text)


def reasons_for_review(
    asked: Asked, notes: Sequence[str], total: float, weights: Mapping[str, float]
) -> Iterator[Reason]:
    """Yield the reasons for a review: by exercise, then of all exercises, then the notes.

    asked    the exercises with their reports, in their order
    total    of the exercises that count, with adjustments
    weights  by slug; 0 for an exercise that does not count
    """
    for _, e in asked:
        yield from (Reason(slug=e.slug, says=_cut_sentence(says)) for says in _exercise_reasons(e))
    counted = [(e, report) for e, report in asked if weights[e.slug]]
    yield from (Reason(says=says) for says in _class_work_reasons(asked, counted, total))
    yield from (Reason(says=_cut_sentence(note)) for note in notes[:MOST_NOTES])
    if len(notes) > MOST_NOTES:
        more = len(notes) - MOST_NOTES
        yield Reason(says=f"{more} more notes on what was handed in.")


def _cut_sentence(text: str) -> str:
    told = as_line(" ".join(text.split()))
    return told if len(told) <= SENTENCE_CHARACTERS else f"{told[:SENTENCE_CHARACTERS]}…"


def _exercise_reasons(e: ExerciseReport) -> Iterator[str]:
    if e.score is None:
        yield _fault_sentence(e)
    elif e.state in ("unreadable", "refused"):
        yield e.sentence
    elif e.speed is not None:
        yield from _speed_reasons(e.speed, e)


def _fault_sentence(e: ExerciseReport) -> str:
    faults = [c.why for c in e.checks if c.verdict is Verdict.GRADER_FAULT]
    why = next(filter(None, [e.sentence, *faults]), "")
    return f"grader fault: no score ({why})" if why else "grader fault: no score"


def _speed_reasons(s: Speed, e: ExerciseReport) -> Iterator[str]:
    """Yield what is odd about a speed; that a wrong answer has no speed is not odd."""
    wrong = any(c.verdict not in (Verdict.PASSED, Verdict.NOT_RUN) for c in e.checks)
    if s.verdict == "inconclusive":
        yield "could not be timed: run again"
    elif s.why and (s.verdict == "scored" or (s.verdict == "failed" and not wrong)):
        yield s.why


def _class_work_reasons(asked: Asked, counted: Asked, total: float) -> Iterator[str]:
    states = {e.state for _, e in asked}
    missing = [e.slug for _, e in counted if e.state == "missing"]
    if states <= {"missing"}:
        yield "handed in nothing"
    elif states <= set(NOT_BEGUN):
        yield "handed in nothing but skeletons"
    elif missing:
        yield f"not handed in: {', '.join(missing)}"
    if total == 0 and any(_can_have_earned_points(e) for _, e in counted):
        yield "a total of 0, though something was begun"


def _can_have_earned_points(e: ExerciseReport) -> bool:
    """Return whether a student began an exercise that had points to be earned."""
    return e.state not in NOT_BEGUN and e.score is not None and e.score.possible > 0
