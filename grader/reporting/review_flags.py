"""Why a person should look at what a student handed in.

The sentences are in English, their values in them: `Words.said` says them in another language.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.core.records import Exercise, ExerciseReport, Speed, Verdict

NOT_BEGUN = ("missing", "not_started")
MOST_NOTES = 10  # of one student
LONGEST = 500  # characters of a sentence
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Asked = Sequence[tuple[Exercise, ExerciseReport]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One sentence, and the exercise that it is about; none if it is about all of them."""

    says: str
    slug: str = ""


def line(text: str) -> str:
    """`text` in one line without control characters or lone surrogates.

    A mark stands in the place of each, so that a name made to look like another is not that name.
    """
    return _ODD.sub("\ufffd", text)


def reasons(
    asked: Asked, notes: Sequence[str], total: float, weights: Mapping[str, float]
) -> Iterator[Reason]:
    """Why somebody should look: exercise by exercise, then at all of them, then the notes.

    asked    the exercises with what became of them, in their order
    total    of what counts, with adjustments
    weights  by slug; 0 for what does not count
    """
    for _, e in asked:
        yield from (Reason(slug=e.slug, says=_sentence(says)) for says in _of_exercise(e))
    counted = [(e, report) for e, report in asked if weights[e.slug]]
    yield from (Reason(says=says) for says in _of_all(asked, counted, total))
    yield from (Reason(says=_sentence(note)) for note in notes[:MOST_NOTES])
    if len(notes) > MOST_NOTES:
        more = len(notes) - MOST_NOTES
        yield Reason(says=f"{more} more notes on what was handed in.")


def _sentence(text: str) -> str:
    told = line(" ".join(text.split()))
    return told if len(told) <= LONGEST else f"{told[:LONGEST]}…"


def _of_exercise(e: ExerciseReport) -> Iterator[str]:
    if e.score is None:
        yield _fault(e)
    elif e.state in ("unreadable", "refused"):
        yield e.sentence
    elif e.speed is not None:
        yield from _of_speed(e.speed, e)


def _fault(e: ExerciseReport) -> str:
    faults = [c.why for c in e.checks if c.verdict is Verdict.GRADER_FAULT]
    why = next(filter(None, [e.sentence, *faults]), "")
    return f"grader fault: no score ({why})" if why else "grader fault: no score"


def _of_speed(s: Speed, e: ExerciseReport) -> Iterator[str]:
    """What is odd about a speed; not that a wrong answer has none."""
    wrong = any(c.verdict not in (Verdict.PASSED, Verdict.NOT_RUN) for c in e.checks)
    if s.verdict == "inconclusive":
        yield "could not be timed: run again"
    elif s.why and (s.verdict == "scored" or (s.verdict == "failed" and not wrong)):
        yield s.why


def _of_all(asked: Asked, counted: Asked, total: float) -> Iterator[str]:
    states = {e.state for _, e in asked}
    missing = [e.slug for _, e in counted if e.state == "missing"]
    if states <= {"missing"}:
        yield "handed in nothing"
    elif states <= set(NOT_BEGUN):
        yield "handed in nothing but skeletons"
    elif missing:
        yield f"not handed in: {', '.join(missing)}"
    if total == 0 and any(_could_earn(e) for _, e in counted):
        yield "a total of 0, though something was begun"


def _could_earn(e: ExerciseReport) -> bool:
    """Whether somebody worked on it and there were points to be had."""
    return e.state not in NOT_BEGUN and e.score is not None and e.score.possible > 0
