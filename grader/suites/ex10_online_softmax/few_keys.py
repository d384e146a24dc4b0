"""Causal attention where whole tiles of queries see no key."""

import torch
from torch import float32

from grader.judging import agree, same
from reference import ex10_online_softmax as reference

ROWS = 8  # compared at once


def few_keys_agree(student, draw):
    """Compare causal attention of queries of which the first ones, tiles of them, see no key.

    Tiles are as long as people make them, from 64 to 2,048, and begin at either end.
    """
    for tile in (64, 256, 1024):
        more, few = draw.integer(20, 50), draw.integer(1, 9)
        blind_queries_agree(student, draw, 2 * tile + more, tile + few)
    for tile in (64, 256, 2048):
        blind_queries_agree(student, draw, tile + more, tile - few)


def blind_queries_agree(student, draw, q_len, k_len):
    """Compare those that see no key, those beside them, some in the middle, and the last ones."""
    shapes = (q_len, 4), (k_len, 4), (k_len, 3)
    q, k, v = (draw.normal(*shape, dtype=float32) for shape in shapes)
    output, lse = student.flash_attention(q, k, v, causal=True, block_size=512)
    blind = q_len - k_len
    zeros, lowest = q.new_zeros(blind, 3), q.new_full((blind,), -torch.inf)
    same(output[:blind], zeros, says="output of queries that see no key")
    same(lse[:blind], lowest, says="lse of queries that see no key")
    for start in blind - 3, blind + k_len // 2, q_len - ROWS:
        rows, keys = slice(start, start + ROWS), start + ROWS - blind
        right = reference.flash_attention(q[rows], k[:keys], v[:keys], causal=True)
        for name, got, one in zip(("output", "lse"), (output, lse), right, strict=True):
            agree(got[rows], one, says=f"{name} of queries from {start} on")
