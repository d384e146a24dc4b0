"""Shows of each failed check the plainest case that fails: float32, no mask, small."""

import re
from collections.abc import Sequence
from dataclasses import replace

from grader.core.records import CheckResult, Exercise
from grader.diagnosis import location
from grader.diagnosis.student_runs import StudentRuns
from grader.diagnosis.time_limit import is_diagnosis_time_left
from grader.judging.case import StudentFault
from grader.judging.judge import CheckFailure, Judge
from grader.worker.parent.faults import may_be_worker_overload

MAX_MORE_CASES = 6  # of a check, that run after its first failure
SMALL_CALL = 32  # numbers in a call that nothing need be smaller than
_SHAPE = re.compile(r"\((\d+(?:, ?\d+)*),?\)")

# half precision or the device meta, a gradient, a mask, how many numbers: the smaller the plainer
Plainness = tuple[int, bool, bool, int]


def find_plainest_failures(
    judge: Judge, runs: StudentRuns | None = None
) -> dict[str, CheckFailure]:
    """Return for each failed check its plainest failure, from a few more of its cases.

    The number of cases is limited, and so is the time of a whole diagnosis.
    """
    runs = runs or StudentRuns(judge)
    return {f.check: _find_plainest_failure(f, judge, runs) for f in judge.failures}


def show_plainest_failures(
    exercise: Exercise, checks: Sequence[CheckResult], failures: dict[str, CheckFailure]
) -> tuple[CheckResult, ...]:
    """Return the checks with the sentence, the case and the wrong places of these failures."""
    return tuple(
        _show_failure(exercise, c, failures[c.id]) if c.id in failures else c for c in checks
    )


def _find_plainest_failure(failure: CheckFailure, judge: Judge, runs: StudentRuns) -> CheckFailure:
    if judge.is_replayed or not _is_worth_more_cases(failure.fault):
        return failure
    best, least = failure, measure_plainness(failure.fault, failure.last_call)
    for case in failure.more[:MAX_MORE_CASES]:
        if not is_diagnosis_time_left() or (
            least[:3] == (0, False, False) and least[3] <= SMALL_CALL
        ):
            break
        try:
            ran = runs.run(case)
        except Exception:  # of the suite's, in a case on which no verdict depends
            break
        if ran.fault is None:
            continue
        if not _is_worth_more_cases(ran.fault):
            break
        plainness = measure_plainness(ran.fault, ran.last_call)
        if plainness < least:
            others = tuple(c for c in (failure.case, *failure.more) if c is not case)
            best, least = CheckFailure(
                check=failure.check, case=case, more=others, fault=ran.fault,
                calls=ran.calls, asked=ran.asked, last_call=ran.last_call,
            ), plainness  # fmt: skip
    return best


def _is_worth_more_cases(fault: StudentFault) -> bool:
    """Return whether another case can tell more: not if nothing is written, or if it hangs."""
    return not fault.says_all_itself and not may_be_worker_overload(str(fault))


def measure_plainness(fault: StudentFault, last_call: str) -> Plainness:
    """Measure how plain a failure is, by the call that failed as it is written."""
    differs = fault.differs
    call = last_call if differs is None else differs.call
    precision = 2 if "float16" in call else 1 if "float64" in call else 0  # bfloat16 too
    precision = 3 if "'meta'" in call else precision  # a device without numbers
    gradient = differs is not None and differs.subject.startswith("gradient")
    return precision, gradient, "bool (" in call, count_call_numbers(call)


def count_call_numbers(call: str) -> int:
    """Return how many numbers the arguments of a call have, by the call as it is written."""
    return sum(map(_count_numbers, _SHAPE.findall(call)))


def _count_numbers(shape: str) -> int:
    count = 1
    for size in shape.split(","):
        count *= int(size)
    return count


def _show_failure(exercise: Exercise, check: CheckResult, failure: CheckFailure) -> CheckResult:
    if check.why == str(failure.fault):
        return check
    known = check.diagnosis
    if known is not None:
        places = location.locate_wrong_places(exercise, failure.fault.differs)
        known = replace(known, places=places)
    return replace(
        check, why=str(failure.fault), where=failure.case.name.partition("[")[2].rstrip("]"),
        line=failure.fault.line, diagnosis=known,
    )  # fmt: skip
