"""Checks the dtype of what is empty."""

from grader.judging import same

from .both import Both, packed


def empty_keep_their_dtype(student, draw, device, dtype):
    """Compare what an empty sequence holds, and answers of no tokens, to the last bit of dtype."""
    both, nothing = Both(student, device, 2, 4, 2, 3, dtype), draw.normal(2, 0, 3, dtype=dtype)
    number = both.add()
    for name, held in zip("kv", both.cache.gather(number), strict=True):
        same(held, nothing, says=f"{name} of an empty sequence")
    same(student.chunked_prefill(*[nothing] * 3, both.cache, number, 2), nothing)
    q = draw.normal(1, 2, 3, dtype=dtype)
    same(student.paged_attention(q, both.cache, [number]), 0 * q)
    same(student.paged_attention(q[:0], both.cache, []), q[:0])
    given = packed(draw, device, (), (), 2, 4, 3, dtype)
    same(student.ragged_attention(*given), given[2])
