"""Builds the student's caches beside the reference's, and compares them."""

from grader.judging import agree, expect, same, untouched
from reference import ex06_kv_cache as reference

BUFFERS = "keys", "values"


def new_caches(student, device, *sizes):
    """Return an empty cache of the student's, and the reference's."""
    return student.KVCache(*sizes, device=device), reference.KVCache(*sizes, device=device)


def append(cache, right, k, v):
    """Append to both caches, and compare the answers."""
    before = f"after {right.length} earlier token(s)"
    keys, values = untouched(lambda: cache.append(k, v))
    right_keys, right_values = right.append(k, v)
    agree(keys, right_keys, says=f"{before}, keys")
    agree(values, right_values, says=f"{before}, values")
    same(cache.length, right.length)


def agree_buffers(cache, right):
    """Compare the beginning of the buffers with all appended tokens; ignore the rest."""
    for name, expected in zip(BUFFERS, right.so_far(), strict=True):
        held = f"{name}[:, :, :{right.length}] of the cache"
        agree(getattr(cache, name)[:, :, : right.length], expected, says=held)


def stay(cache, call):
    """Make a call and return its answer; fail if a buffer lies elsewhere in memory afterwards."""
    before = [_address(cache, name) for name in BUFFERS]
    result = call()
    for name, then in zip(BUFFERS, before, strict=True):
        moved = f"{name} of the cache moved to other memory, but should be written in place"
        expect(_address(cache, name) == then, moved)
    return result


def negate(cache, right):
    """Negate the numbers in the buffers in place."""
    for name in BUFFERS:
        getattr(cache, f"{name}.neg_")()
    right.negate()


def _address(cache, name):
    """Return the address of a buffer; 0 if it is no integer."""
    address = getattr(cache, f"{name}.data_ptr")()
    return address if type(address) is int else 0
