"""The cases that are like a failed one, the cheapest first, with the student's fault in each."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from grader.judging.case import StudentFault
from grader.judging.judge import CheckFailure, Judge
from grader.judging.marks import CheckCase
from grader.judging.mistake_catalogue import MistakeCatalogue

FRESH_DRAWS = 3  # times that the failed case runs again with other inputs
MAX_OTHER_CASES = 4  # further cases of the check that run


@dataclass(frozen=True, slots=True)
class LikeCase:
    """A case of a failed check, or the failed case with other inputs."""

    case: CheckCase
    again: tuple[str, ...]
    fault: StudentFault | None  # the student's; None if the case passes


class LikeCases:
    """The cases that tell mistakes apart for one failed check; the student runs when one is read.

    All of them decide together, so their order does not matter: those that take the right answer
    least time come first, because most mistakes differ in them already.
    """

    def __init__(self, failure: CheckFailure, judge: Judge, known: MistakeCatalogue) -> None:
        self.failure = failure
        self._known: list[LikeCase] = []
        self._rest = _run_like_cases(failure, judge, known)

    def __iter__(self) -> Iterator[LikeCase]:
        yield from self._known
        for one in self._rest:
            self._known.append(one)
            yield one

    def list_failing(self, most: int) -> list[LikeCase]:
        """Return the cheapest cases that the student fails."""
        return list(islice((one for one in self if one.fault is not None), most))


def _run_like_cases(
    failure: CheckFailure, judge: Judge, known: MistakeCatalogue
) -> Iterator[LikeCase]:
    cases = [failure.case, *failure.more[:MAX_OTHER_CASES]]
    if right := known.right:
        seconds = []
        for case in cases:
            started = time.process_time()
            judge.ask(right, case)
            seconds.append(time.process_time() - started)
        cases = [case for _, case in sorted(zip(seconds, cases, strict=True), key=lambda p: p[0])]
    for case in cases:
        is_first = case is failure.case
        yield LikeCase(case, (), failure.fault if is_first else judge.ask(judge.student, case))
    for n in range(FRESH_DRAWS):
        again = "again", str(n)
        yield LikeCase(failure.case, again, judge.ask(judge.student, failure.case, *again))
