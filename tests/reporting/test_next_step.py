"""Which failed check a student is sent to first."""

import pytest

from grader.core.diagnosis_records import Diagnosis, Fact, NamedMistake
from grader.core.records import CheckResult, Verdict
from grader.reporting.next_step import find_failure_to_mend
from tests.reporting.samples import check, exercise

NAMED = Diagnosis(mistakes=(NamedMistake(id="m", says="It is wrong.", mend="Mend it."),))
FACTS = Diagnosis(facts=(Fact(key="all_zero"),))


def failed(id: str, diagnosis: Diagnosis | None = None, line: int = 0) -> CheckResult:
    return check(id, Verdict.FAILED, diagnosis=diagnosis, line=line)


@pytest.mark.parametrize(
    "checks, wanted",
    [
        ([failed("first"), failed("second")], "first"),
        ([failed("first"), failed("second", FACTS), failed("third", NAMED)], "third"),
        ([failed("first", FACTS), failed("second", NAMED)], "first"),
        ([failed("first", line=3), failed("second", NAMED)], "first"),
    ],
)
def test_a_check_of_which_nothing_is_known_comes_after_one_with_a_name(checks, wanted):
    found = find_failure_to_mend(exercise(checks=tuple(checks)))
    assert found is not None
    assert found.id == wanted


def test_where_nothing_failed_there_is_none():
    assert find_failure_to_mend(exercise(checks=())) is None
