"""Checks a cache of latents alone, by the answers of `append`."""

from torch import float16

from grader.judging import Hard, same

from .caches import append, lies_on_meta, new_caches
from .cases import CACHES, hard_caches


def filled(student, draw, device):
    """Check a cache while it fills in several appends."""
    cache, right = new_caches(student, device, 2, 17, 5, 4)
    same(cache.length, 0, says="length of a new cache")
    for t in (1, 4, 1, 1, 7, 3):
        append(cache, right, draw.normal(2, t, 5), draw.normal(2, t, 4))


def changed_inputs(student, draw, device):
    """Check a cache while appended tensors change afterwards, and are appended again."""
    draw.hard(Hard.CHANGED)
    cache, right = new_caches(student, device, 2, 4, 5, 4)
    new = draw.normal(2, 1, 5), draw.normal(2, 1, 4)
    for _ in range(4):
        append(cache, right, *new)
        for x in new:
            x.mul_(-0.7)


def several(student, draw, device):
    """Check caches of several dtypes, filled in turn, also from another dtype; one is reset."""
    draw.hard(Hard.OPTIONS)
    draw.hard(Hard.FULL)
    pairs = [new_caches(student, device, *sizes) for sizes, _ in CACHES]
    for t in (1, 5, 2, 1):  # two of them are full then
        for pair, (sizes, dtype) in zip(pairs, CACHES, strict=True):
            append(*pair, *(draw.strided(sizes[0], t, n, dtype=dtype) for n in sizes[2:4]))
        if t == 5:
            for first in pairs[0]:
                first.reset()
        for cache, right in pairs:
            same(cache.length, right.length)
            same(cache.nbytes, right.nbytes)


def long_caches(student, draw, device):
    """Check caches of long sizes, filled to the last place."""
    for sizes in hard_caches(draw):
        batch, room, rank, rope = sizes
        cache, right = new_caches(student, device, *sizes)
        for t in (room - 1, 1):
            append(cache, right, draw.normal(batch, t, rank), draw.normal(batch, t, rope))


def devices(student, draw, device):
    """Check a cache on another device."""
    draw.hard(Hard.DEVICE)
    lies_on_meta(student, float16)
