"""Classifies reports on wrong answers: named, near, pinned, helped, nothing or false."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from grader.authoring.feedback_answers import WrongAnswer
from grader.authoring.feedback_truth import NameTruth, Truth
from grader.authoring.side_by_side import TrialValues
from grader.core.records import CheckResult, Verdict

NEAR_LINES = 1  # a line that a report gives may be so far from a wrong one


class FeedbackClass(StrEnum):
    """The best that a report says about an answer; one false name makes it false."""

    NAMED = "named and true"  # at least one name, and all are true
    NEAR = "near"  # none is false; one is nearly true, or cannot be decided
    PINNED = "pinned"  # no name; a line within `NEAR_LINES` of a wrong one
    TOLD = "told"  # neither; a sentence that says what is missing where a statement was removed
    HELPED = "helped"  # none of these; more than the first number that differs
    NOTHING = "nothing"
    FALSE = "false"  # a name is false


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """The mistakes that a report names for one check."""

    ids: tuple[str, ...]
    together: bool  # all at once; else one or another of them, which cannot be told apart


@dataclass(frozen=True, slots=True)
class FalseName:
    """Mistakes that a report names, and an input on which they differ from the answer."""

    ids: tuple[str, ...]
    told: TrialValues


def list_named_groups(checks: Sequence[CheckResult]) -> list[NamedGroup]:
    """Return the mistakes that a report names, each group once."""
    named = [c.diagnosis for c in checks if c.diagnosis is not None and c.diagnosis.mistakes]
    groups = (NamedGroup(tuple(m.id for m in d.mistakes), d.together) for d in named)
    return list(dict.fromkeys(groups))


def list_pinned_lines(checks: Sequence[CheckResult]) -> set[int]:
    """Return the lines of the answer that a report gives."""
    found = {c.diagnosis.pinned.line for c in checks if c.diagnosis and c.diagnosis.pinned}
    return found | {c.line for c in checks if c.line}


def is_check_helpful(check: CheckResult) -> bool:
    """Return whether a failed check says more than the first number that differs.

    More is a stage, wrong places, facts, a small example or a line; or a sentence that does not
    count differing entries: about an exception, a type, a shape, a dtype, a changed input, etc.
    """
    d = check.diagnosis
    if d is not None and (d.stage or d.places or d.facts or d.example or d.pinned):
        return True
    return bool(check.line) or "entries differ" not in check.why


def classify_feedback(
    answer: WrongAnswer, checks: Sequence[CheckResult], truth: NameTruth
) -> tuple[FeedbackClass, tuple[FalseName, ...]]:
    """Class a report; return also each name that is false."""
    failed = [c for c in checks if c.verdict is Verdict.FAILED]
    groups = list_named_groups(failed)
    verdicts = [_judge_group(group, answer, truth) for group in groups]
    if false := tuple(name for _, name in verdicts if name is not None):
        return FeedbackClass.FALSE, false
    if groups:
        true = all(found is Truth.TRUE for found, _ in verdicts)
        return FeedbackClass.NAMED if true else FeedbackClass.NEAR, ()
    if is_line_pinned(answer, list_pinned_lines(failed)):
        return FeedbackClass.PINNED, ()
    if any(text in c.why for c in failed for text in answer.missing):
        return FeedbackClass.TOLD, ()
    helped = any(map(is_check_helpful, failed))
    return FeedbackClass.HELPED if helped else FeedbackClass.NOTHING, ()


def _judge_group(
    group: NamedGroup, answer: WrongAnswer, truth: NameTruth
) -> tuple[Truth, FalseName | None]:
    """Return the truth of a group, and the false name if it is false."""
    found = [truth.judge_name(answer, ids) for ids in _list_claims(group)]
    for kind in (Truth.TRUE, Truth.NEAR, Truth.UNKNOWN):
        if any(one is kind for one, _ in found):
            return kind, None
    if group.together and answer.parts:
        each = [truth.judge_name(answer, (id,))[0] for id in group.ids]
        if all(one is Truth.TRUE for one in each):
            return Truth.TRUE, None
    if (
        answer.mistakes > 1 and not answer.parts and not group.together
    ):  # of a written answer neither alone is known
        return Truth.UNKNOWN, None
    told = next(told for _, told in found if told is not None)
    return Truth.FALSE, FalseName(group.ids, told)


def _list_claims(group: NamedGroup) -> Iterator[tuple[str, ...]]:
    """Yield the mistakes that are claimed at once; of those not told apart one must be true."""
    if group.together:
        yield group.ids
    else:
        yield from ((id,) for id in group.ids)


def is_line_pinned(answer: WrongAnswer, lines: Collection[int]) -> bool:
    """Return whether one of these lines is a wrong one of the answer, or next to one."""
    return any(abs(line - wrong) <= NEAR_LINES for line in lines for wrong in answer.lines)
