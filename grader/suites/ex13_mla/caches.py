"""Compares the contents and the memory of caches of latents, from outside."""

from contextlib import suppress

import torch
from torch import Tensor

from grader.judging import agree, expect, on_meta, same, untouched
from grader.judging.case import StudentFault
from reference import ex13_mla as reference

BUFFERS = "latents", "k_ropes"
BESIDE = 1.5  # times nbytes: a table of positions or the like may stand beside the buffers


def new_caches(student, device, *sizes):
    """Return an empty cache of the student's, and the reference's."""
    options = {} if device.type == "cpu" else {"device": device}
    return student.LatentCache(*sizes, **options), reference.LatentCache(*sizes, device=device)


def append(cache, right, latent, k_rope):
    """Append to both caches, and compare the answers."""
    before = f"after {right.length} earlier token(s)"
    latents, k_ropes = untouched(lambda: cache.append(latent, k_rope))
    right_latents, right_k_ropes = right.append(latent, k_rope)
    agree(latents, right_latents, says=f"{before}, latents")
    agree(k_ropes, right_k_ropes, says=f"{before}, k_ropes")
    same(cache.length, right.length)


def agree_buffers(cache, right):
    """Compare the beginning of the buffers, in their own dtype, with all appended tokens."""
    for name, expected in zip(BUFFERS, right.so_far(), strict=True):
        held = f"{name}[:, :{right.length}] of the cache"
        agree(getattr(cache, name)[:, : right.length], expected, says=held)


def lies_on_meta(student, dtype):
    """Check that buffers and append's answers are on the device meta, in this dtype."""
    cache = student.LatentCache(2, 3, 5, 4, dtype=dtype, device="meta")
    for name in BUFFERS:
        got = cache.read(f"{name}.device"), cache.read(f"{name}.dtype")
        wanted = torch.device("meta"), dtype
        expect(got == wanted, f"{name} is {got[1]} on {got[0]}, but should be {dtype} on meta")
    new = (torch.zeros(2, 1, width, dtype=dtype, device="meta") for width in (5, 4))
    on_meta(cache.append, *new)


def branch(student, device, cache, seen):
    """Return a new cache with a copy of this cache's contents, and the reference's likewise."""
    batch, room, rank = seen.plain.latents.shape
    copy, right = new_caches(student, device, batch, room, rank, seen.k_ropes.shape[-1])
    copy.append(*(getattr(cache, name)[:, : seen.length].clone() for name in BUFFERS))
    right.plain.append(*seen.plain.so_far())
    right.append_exact(seen.latents, seen.k_ropes)
    return copy, right


def multiply(cache, right, factor):
    """Multiply the numbers in the buffers in place.

    No other change is fair, as a layer may keep the places of a key in any order.
    """
    for name in BUFFERS:
        getattr(cache, f"{name}.mul_")(factor)
    right.multiply(factor)


def stay(cache, call):
    """Make a call and return its answer; fail if a buffer lies elsewhere in memory afterwards."""
    before = [_address(cache, name) for name in BUFFERS]
    result = call()
    for name, then in zip(BUFFERS, before, strict=True):
        moved = f"{name} moved to other memory, but should be written in place"
        expect(_address(cache, name) == then, moved)
    return result


def agree_bytes(cache, right):
    """Compare `nbytes` with the right one; fail if the cache keeps tensors of more bytes."""
    same(cache.nbytes, right.nbytes)
    kept, few = _kept(cache), cache.nbytes
    expect(
        kept <= BESIDE * few, f"the cache keeps tensors of {kept} bytes, but its nbytes are {few}"
    )


def _kept(cache):
    """Return the bytes of the tensors that a cache keeps; shared memory counts once."""
    fields = {}
    with suppress(StudentFault):  # one with __slots__ has none
        fields = cache.read("__dict__")
    fields = fields if isinstance(fields, dict) else {}
    tensors = {n: x for n, x in fields.items() if isinstance(x, Tensor) and n[:2] != "__"}
    pieces = sorted((_address(cache, name), x.nbytes) for name, x in tensors.items())
    end = total = 0
    for start, size in pieces:
        total += max(0, start + size - max(start, end))
        end = max(end, start + size)
    # In lists they may be views of the others, of which nothing tells: these count by themselves.
    nested = [x for x in fields.values() if not isinstance(x, Tensor)]
    return max(total, sum(x.nbytes for x in _tensors(nested)))


def _tensors(value):
    """Return every tensor in nested lists, tuples and dicts."""
    match value:
        case Tensor():
            return [value]
        case list() | tuple():
            return [x for item in value for x in _tensors(item)]
        case dict():
            return _tensors(list(value.values()))
    return []


def _address(cache, name):
    address = getattr(cache, f"{name}.data_ptr")()
    return address if type(address) is int else 0
