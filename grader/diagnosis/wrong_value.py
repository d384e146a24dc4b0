"""Finds the first wrong value in the trace of a call."""

from collections.abc import Sequence

from grader.core.diagnosis_records import PinnedLine
from grader.diagnosis.right_values import (
    Explained,
    Explanation,
    RightValues,
    is_traced_value_plain_number,
)
from grader.diagnosis.traced_values import Trace, TracedValue, are_traced_values_equal


def has_trace_an_answer(trace: Trace) -> bool:
    """Return whether a call returned something; else it raised."""
    return any(one.kind == "answer" for one in trace)


def pin_wrong_value_in_trace(trace: Trace, known: RightValues, wanted: Trace) -> PinnedLine | None:
    """Return the line of the first wrong value in a trace with a wrong answer, or without one."""
    raised = not has_trace_an_answer(trace)  # an axis too many or too few is a likely cause
    explanations = known.explain_trace(trace, by_shape=raised)
    explained = [x.explained for x in explanations]
    users: list[list[int]] = [[] for _ in trace]
    for at, one in enumerate(trace):
        for source in one.sources:
            users[source].append(at)
    wrong = _list_wrong_answers_in_trace(trace, wanted)
    # A variable that is returned as it is is as surely wrong as what is returned.
    sure = {
        at
        for at, x in enumerate(trace)
        if any(_is_traced_value_returned(x, trace[one]) for one in wrong)
    }
    found = [
        at
        for at, one in enumerate(trace)
        if explained[at] < (Explained.YES if at in sure else Explained.PERHAPS)
        and (at in sure or _is_surely_other(one, explanations[at]))
        and explanations[at].instead
        and _does_traced_value_lead_only_to_wrong(
            at, users, [x.known for x in explanations], wrong, raised
        )
    ]
    if not found or len({trace[at].line for at in found}) > 1:
        return None
    one, instead = trace[found[0]], explanations[found[0]].instead
    if found[0] in sure:
        instead = _find_wanted_answer(one, trace, wanted) or instead
    got = () if one.value is None else one.value.shape
    return PinnedLine(line=one.line, name=one.name, got=got, right=_choose_shape(got, instead))


def _is_surely_other(one: TracedValue, explanation: Explanation) -> bool:
    """Return whether a value is almost surely wrong: not a right step that our answers lack.

    From a single value, many right steps lead to a value of the same shape.
    """
    if is_traced_value_plain_number(one) or one.value is None:
        return False
    shapes = {x.value.shape for x in explanation.instead if x.value is not None}
    if one.kind == "argument":
        return explanation.named
    if explanation.named:
        return explanation.sources > 1 or one.value.shape not in shapes
    return explanation.sources > 1 and one.value.shape in shapes


def _find_wanted_answer(one: TracedValue, trace: Trace, wanted: Trace) -> Trace:
    """Return what should have been returned in the place of a value; () if that is not known."""
    ours, theirs = ([x for x in y if x.kind == "answer"] for y in (trace, wanted))
    pairs = zip(ours, theirs, strict=False)
    return next(((x,) for mine, x in pairs if _is_traced_value_returned(one, mine)), ())


def _choose_shape(got: tuple[int, ...], instead: Trace) -> tuple[int, ...] | None:
    """Return the right shape: the one that is there, if it may be, else the only one."""
    shapes = {x.value.shape for x in instead if x.value is not None}
    return got if got in shapes else shapes.pop() if len(shapes) == 1 else None


def _list_wrong_answers_in_trace(trace: Trace, wanted: Trace) -> list[int]:
    """Return the places of the answers in a trace that are not those wanted."""
    ours = [at for at, x in enumerate(trace) if x.kind == "answer"]
    theirs = [x for x in wanted if x.kind == "answer"]
    if len(ours) != len(theirs):
        return ours
    pairs = zip(ours, theirs, strict=True)
    return [at for at, x in pairs if not are_traced_values_equal(trace[at], x)]


def _is_traced_value_returned(one: TracedValue, answer: TracedValue) -> bool:
    """Return whether a value is the one that is returned, in its shape too."""
    if one.value is None or answer.value is None:
        return False
    return one.value.shape == answer.value.shape and are_traced_values_equal(one, answer)


def _does_traced_value_lead_only_to_wrong(
    at: int, users: Sequence[Sequence[int]], known: Sequence[bool], wrong: Sequence[int],
    raised: bool,
) -> bool:  # fmt: skip
    """Return whether a wrong answer is computed from a value, and nothing that is right is.

    raised  an exception stands in the place of an answer
    """
    seen, waiting = {at}, [at]
    while waiting:
        for user in users[waiting.pop()]:
            if user not in seen:
                if known[user] and user not in wrong:
                    return False
                seen.add(user)
                waiting.append(user)
    return raised or bool(seen & set(wrong))
