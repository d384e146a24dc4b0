"""No right answer comes near to being rejected."""

import pytest

from grader.authoring.headroom import measure
from grader.authoring.headroom_table import lines
from grader.worker import packages
from tests.proof.conftest import EXERCISES

SEEDS, WEEKLY_SEEDS, WEEKLY_SEEDS_OF_VARIANTS = 3, 1000, 200
HERE = [e for e in EXERCISES if not packages.lacking(packages.required(e, on_cuda=False))]


def far_from_limits(found):
    assert [line for line in lines(found) if "BEYOND" in line or "REJECTED" in line] == []
    assert found.cases > 0
    assert found.right


def test_the_solutions_keep_far_from_their_limits():
    far_from_limits(measure(HERE, SEEDS, variants=False))


@pytest.mark.weekly
def test_the_solutions_keep_far_from_their_limits_over_many_seeds():
    far_from_limits(measure(HERE, WEEKLY_SEEDS, variants=False))


@pytest.mark.weekly
def test_the_variants_keep_far_from_their_limits():
    far_from_limits(measure(HERE, WEEKLY_SEEDS_OF_VARIANTS, solutions=False))
