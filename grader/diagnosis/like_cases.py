"""The cases that are like a failed one, the cheapest first, with the student's fault in each."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from grader.diagnosis.plainest import count_call_numbers
from grader.diagnosis.student_runs import StudentRuns
from grader.judging.case import StudentFault
from grader.judging.judge import CheckFailure
from grader.judging.marks import CheckCase

FRESH_DRAWS = 3  # times that the failed case runs again with other inputs
MAX_OTHER_CASES = 4  # further cases of the check that run


@dataclass(frozen=True, slots=True)
class LikeCase:
    """A case of a failed check, or the failed case with other inputs."""

    case: CheckCase
    again: tuple[str, ...]
    fault: StudentFault | None  # the student's; None if the case passes


class LikeCases:
    """The cases that tell mistakes apart for one failed check; the answer runs as each is read.

    All of them decide together, so their order does not matter: those with the fewest numbers in
    their last call come first, because most mistakes differ in them already. A case that has not
    run yet comes later.
    """

    def __init__(self, failure: CheckFailure, runs: StudentRuns) -> None:
        self.failure = failure
        self._known: list[LikeCase] = []
        self._rest = _run_like_cases(failure, runs)

    def __iter__(self) -> Iterator[LikeCase]:
        yield from self._known
        for one in self._rest:
            self._known.append(one)
            yield one

    def without_fresh(self) -> Iterator[LikeCase]:
        """Yield the cases of the suite alone, where trials have run on fresh inputs."""
        return islice(self, 1 + len(self.failure.more[:MAX_OTHER_CASES]))

    def list_failing(self, most: int) -> list[LikeCase]:
        """Return the cheapest cases that the student fails."""
        return list(islice((one for one in self if one.fault is not None), most))


def _run_like_cases(failure: CheckFailure, runs: StudentRuns) -> Iterator[LikeCase]:
    cases = [failure.case, *failure.more[:MAX_OTHER_CASES]]
    ran = [case for case in cases if runs.has(case)]
    ran.sort(key=lambda case: count_call_numbers(runs.run(case).last_call))
    for case in [*ran, *(case for case in cases if case not in ran)]:
        yield LikeCase(case, (), runs.run(case).fault)
    for n in range(FRESH_DRAWS):
        again = "again", str(n)
        yield LikeCase(failure.case, again, runs.run(failure.case, *again).fault)
