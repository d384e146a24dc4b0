"""Mistakes that act alike are told apart by the numbers that the answer writes."""

from types import SimpleNamespace

import pytest

from grader.diagnosis.written_numbers import keep_mistakes_of_written_numbers

SAYS = {
    "billion": "Hidden scores are set to -1e9.",
    "thousands": "-10,000 is added to hidden scores.",
    "epsilon": "1e-9 is added to the sum.",
    "half": "Half precision is summed in half precision; in float16, 66,000 ones are infinity.",
}
MISTAKES = [SimpleNamespace(id=id, says=says) for id, says in SAYS.items()]


@pytest.mark.parametrize(
    "source, kept",
    [
        ("scores.masked_fill(~keep, -1e9)", ["billion", "half"]),
        ("FILL = -10_000.0", ["thousands", "half"]),
        ("x = scores + (1 - keep) * -10000", ["thousands", "half"]),
        ("x / (x.sum(-1) + 1e-9)", ["epsilon", "half"]),
        ("x / (x.sum(-1) + 0.000000001) - 1e4", ["thousands", "epsilon", "half"]),
        ("torch.finfo(x.dtype).min", list(SAYS)),
        ("x = [1,2,3,66_000]", list(SAYS)),
        ("", list(SAYS)),
    ],
)
def test_a_number_that_is_not_written_is_not_named(source, kept):
    assert [m.id for m in keep_mistakes_of_written_numbers(MISTAKES, source)] == kept
