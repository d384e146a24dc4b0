"""pytest-benchmark's options among the words of `make bench`."""

import importlib.util

import pytest

from grader.timing.benchmark_options import BadOption, split_benchmark_options


@pytest.mark.parametrize(
    "words, names",
    [
        ([], []),
        (["ex05"], ["ex05"]),
        (["ex05", "--benchmark-sort", "mean"], ["ex05"]),
        (["ex05", "--benchmark-sort=mean", "ex03"], ["ex05", "ex03"]),
        (["ex05", "--benchmark-save", "ex03"], ["ex05"]),
        (["ex05", "--benchmark-autosave", "--benchmark-compare"], ["ex05"]),
    ],
)
def test_a_value_belongs_to_its_option(words, names):
    found, options = split_benchmark_options(words)
    assert found == names
    assert sorted(found + options) == sorted(words)


@pytest.mark.parametrize(
    "words, says",
    [
        (["--benchmark-sotr=mean"], "--benchmark-sotr=mean is no option of bench, and none of pytest-benchmark's. Did you mean --benchmark-sort?"),
        (["-x"], "-x is no option of bench"),
        (["ex05", "--benchmark-sort", "size"], "--benchmark-sort: Unacceptable value: 'size'"),
        (["--benchmark-save"], "expected one argument."),
        (["--benchmark-compare-fail=mean:x"], "Could not parse value: 'mean:x'."),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_told_before_anything_is_timed(words, says):
    with pytest.raises(BadOption) as told:
        split_benchmark_options(words)
    assert says in str(told.value)


def test_a_histogram_needs_what_draws_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadOption, match="-m pip install pygal pygaljs"):
        split_benchmark_options(["ex05", "--benchmark-histogram"])
