"""The student's caches beside the reference's, and how they are compared."""

from grader.judging import agree, expect, same, untouched
from reference import ex06_kv_cache as reference

BUFFERS = "keys", "values"


def new_caches(student, device, *sizes):
    """An empty cache of the student's, and the reference's beside it."""
    return student.KVCache(*sizes, device=device), reference.KVCache(*sizes, device=device)


def append(cache, right, k, v):
    """Append to both caches, and compare what comes back."""
    before = f"after {right.length} earlier token(s)"
    keys, values = untouched(lambda: cache.append(k, v))
    right_keys, right_values = right.append(k, v)
    agree(keys, right_keys, says=f"{before}, keys")
    agree(values, right_values, says=f"{before}, values")
    same(cache.length, right.length)


def agree_buffers(cache, right):
    """The memory begins with all that was appended; nothing is asked of the rest."""
    for name, expected in zip(BUFFERS, right.so_far(), strict=True):
        held = f"{name}[:, :, :{right.length}] of the cache"
        agree(getattr(cache, name)[:, :, : right.length], expected, says=held)


def stay(cache, call):
    """What a call returns, before and after which both buffers lie in the same memory."""
    before = [_address(cache, name) for name in BUFFERS]
    result = call()
    for name, then in zip(BUFFERS, before, strict=True):
        moved = f"{name} of the cache lies elsewhere than before, but should be written in place"
        expect(_address(cache, name) == then, moved)
    return result


def negate(cache, right):
    """Change the sign of what lies in the buffers, where it lies."""
    for name in BUFFERS:
        getattr(cache, f"{name}.neg_")()
    right.negate()


def _address(cache, name):
    """Where the memory of a buffer begins."""
    address = getattr(cache, f"{name}.data_ptr")()
    return address if type(address) is int else 0
