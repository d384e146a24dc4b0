"""The kinds of input in which wrong answers hide, by name.

`Draw.hard` draws the sizes of a kind, `Draw.scores`, `Draw.ties` and `Draw.low` its numbers,
`Draw.combined` its calls; the other kinds are ways to call, which a check announces by `Draw.hard`
before it calls. The file `hard.toml` of a suite lists which check runs which kind on which function
of the student's; `make house` compares it with what was run.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

Sizes = dict[str, int]

LIMITS = (64, 128, 256, 1024)  # sizes at which tiles, buffers and tables of other people end
WHOLE = 256  # a length of two tiles and more, up to tiles of 128
MAX_BATCH = 64  # for `Hard.LONG`: nobody cuts a batch into tiles


class Hard(StrEnum):
    """A kind of input; the value is its name in `hard.toml`."""

    SQUARE = "square"  # as many queries as keys, and as many of both as sequences and heads
    ONE = "one"  # batch, heads, queries, keys or width of 1, with a mask where there is one
    LONG = "long"  # a length, width or head count beyond 64, 128, 256 and 1024; lengths of 256
    MODES = "modes"  # a module in .train() and in .eval()
    SAME = "same"  # the same tensor for several arguments (q is k is v)
    CHANGED = "changed"  # an input changed in place between two calls
    OPTIONS = "options"  # options at 0 or negative, and in pairs
    FAILED = "failed"  # what is left after a call that raised
    BRANCHES = "branches"  # two continuations of one cache
    FULL = "full"  # a cache that is filled to the last place, refuses more, and is reset
    DEVICE = "device"  # a device other than the default, such as `meta`
    COMBINED = "combined"  # each few of options, sizes, layouts and dtypes together
    SCORES = "scores"  # scores that fall, that are all negative, that jump by hundreds
    TIES = "ties"  # scores of hundreds that lie closer together than half precision can tell
    LOW = "low"  # scores of seen keys below any number that people fill in for hidden ones
    LEARN = "learn"  # a gradient of one input where no other learns


def make_square_case_sizes(sizes: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield the sizes with every length (a name that begins with L) set to the largest length.

    Then batch and heads get that size too, so that masks of different kinds have equal shapes.
    """
    length = max(n for name, n in sizes.items() if name.startswith("L"))
    yield {name: length if name.startswith("L") else n for name, n in sizes.items()}
    if "B" in sizes:
        yield {name: length if name[0] in "LBH" else n for name, n in sizes.items()}


def make_unit_case_sizes(sizes: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield the sizes with each size in turn set to 1, and then with all sizes set to 1."""
    for name in sizes:
        yield {**sizes, name: 1}
    yield dict.fromkeys(sizes, 1)


def make_long_case_sizes(sizes: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield the sizes with each size in turn set just beyond the last of `LIMITS`.

    What is beyond the last is beyond all: an answer that ends at 64 is found out by 1025 as well.
    A batch is 1 unless it is the one that is long. A length is `WHOLE`, too: tiles of any usual
    size fill it exactly.

    limits  by size, the last of `LIMITS` to go beyond, if 1024 would cost too much; 0 for none
    """
    few = {**sizes, "B": 1} if "B" in sizes else sizes
    for name in sizes:
        most = limits.get(name, MAX_BATCH if name == "B" else LIMITS[-1])
        passed = [limit for limit in LIMITS if limit <= most]
        if passed:
            yield {**few, name: passed[-1] + 1}
            if name.startswith("L"):
                yield {**few, name: min(WHOLE, passed[-1])}


def make_trial_case_sizes(sizes: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield the sizes with each size in turn set just beyond each of `LIMITS` (a batch: 64)."""
    for last in LIMITS:
        yield from make_long_case_sizes(sizes, dict.fromkeys(sizes, last) | {"B": MAX_BATCH})
