"""A benchmark fails when a ratio is much worse than the recorded one, and only then."""

import tomllib

import pytest

from tests.bench.ratios import RECORDED, WORSE, is_worse, print_ratios


@pytest.mark.parametrize(
    "ratio, more_is_better, worse",
    [
        (10.0, False, False),
        (14.9, False, False),
        (15.1, False, True),
        (0.1, False, False),
        (7.0, True, False),
        (6.0, True, True),
        (90.0, True, False),
    ],
)
def test_worse_is_half_as_much_again(ratio, more_is_better, worse):
    assert WORSE == 1.5
    assert is_worse(ratio, {"ratio": 10.0, "more_is_better": more_is_better}) == worse


def test_every_recorded_ratio_has_its_goal():
    for part in tomllib.loads(RECORDED.read_text()).values():
        for known in part.values():
            assert known.keys() - {"more_is_better"} == {"ratio", "goal"}


def test_only_a_check_fails(capsys):
    slow = {"nothing changed": 1000.0}
    print_ratios("times import torch", slow, check=False)
    with pytest.raises(SystemExit) as ended:
        print_ratios("times import torch", slow, check=True)
    assert ended.value.code == "More than 1.5 times worse than recorded: nothing changed."
    assert "1000.00" in capsys.readouterr().out
