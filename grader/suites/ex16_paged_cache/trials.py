"""Random calls that tell two answers apart."""

import re
from itertools import accumulate

import torch
from torch import bfloat16, float16, float32, float64, int32, int64

from grader.judging import attempt, called, differentiated, name_raised_kind, trial
from grader.judging.trials import RAISES

HALVES = float16, bfloat16
DTYPES = float32, float32, float64, *HALVES


NOBODY = -7, 999  # numbers that add gives to nobody


def refused(call, number, there):
    """What a call returns, or the kind of its exception and what its message names.

    A sequence may have any number, and the message of one that is not there names it. Of a fault
    only the message counts that the answer wrote: the rest tells where in the answer it was raised.
    """
    try:
        return call()
    except Exception as error:  # whatever a wrong answer raises is what the trial tells apart
        kind = RAISES + name_raised_kind(error)
        named = set(re.findall(r"-?\d+", getattr(error, "detail", str(error))))
        return kind, min(len(named), 2) if number in there else str(number) in named


def pools(cache, numbers, there):
    """What a cache holds, and how: any block may serve, so tables are told by what they find."""
    yield attempt(lambda: cache.free_blocks)
    yield [str(x.dtype) for x in (cache.keys, cache.values)]
    held = []
    for number in numbers:
        yield refused(lambda n=number: cache.length(n), number, there)
        yield refused(lambda n=number: cache.gather(n), number, there)
        table = refused(lambda n=number: cache.block_table(n), number, there)
        if not isinstance(table, torch.Tensor):
            yield table
            continue
        n = cache.length(number)
        yield str(table.dtype), table.shape
        yield [pool[table].flatten(0, 1)[:n] for pool in (cache.keys, cache.values)]
        held += table.tolist()
    yield len(held) - len(set(held)), all(0 <= block < len(cache.keys) for block in held)


def filled(student, draw, dtype, heads, width, lengths):
    """A cache with spare blocks, and sequences of these lengths whose blocks alternate."""
    size = draw.choice(1, 2, 4, 17)
    blocks = sum(-(-n // size) for n in lengths) + draw.integer(0, 4)
    cache = student.PagedKVCache(blocks + 1, size, heads, width, dtype)
    stale = cache.add()
    nan = torch.full((heads, (blocks + 1) * size, width), torch.nan)
    cache.append(stale, nan, nan)
    cache.free(stale)
    numbers = [cache.add() for _ in lengths]
    for part in (lambda n: n // 2, lambda n: n - n // 2):
        for number, n in zip(numbers, lengths, strict=True):
            k, v = (draw.normal(heads, part(n), width, dtype=dtype) for _ in "kv")
            cache.append(number, k, v)
    return cache, numbers


@trial(of="PagedKVCache")
def turns(student, draw):
    """Methods in any order, on sequences that are there or are not, until the pool is full."""
    size, heads, width = draw.integer(1, 5), draw.integer(1, 3), draw.integer(1, 4)
    blocks, dtype = draw.integer(0, 6), draw.choice({}, *[{"dtype": x} for x in DTYPES])
    device = draw.choice({}, {"device": "cpu"}, {"device": None})
    cache = student.PagedKVCache(blocks, size, heads, width, **dtype, **device)
    other = student.PagedKVCache(blocks, size, heads, width)
    numbers, others = [cache.add()], [other.add()]
    there = set(numbers)
    for _ in range(draw.integer(1, 6)):
        number = draw.choice(*numbers, *numbers, *NOBODY)
        match draw.choice("add", "append", "append", "append", "free", "other"):
            case "add":
                number = cache.add()
                yield type(number), number in numbers
                numbers.append(number)
                there.add(number)
            case "free":
                yield refused(lambda n=number: cache.free(n), number, there)
                there.discard(number)
            case "append":
                k, v = pair(draw, heads, width)
                yield refused(lambda n=number, k=k, v=v: cache.append(n, k, v), number, there)
            case "other":
                k, v = pair(draw, heads, width)
                yield refused(lambda k=k, v=v: other.append(others[0], k, v), others[0], others)
        yield attempt(lambda: cache.free_blocks)
        yield refused(lambda n=number: cache.gather(n), number, there)
    yield from pools(cache, [*numbers, *NOBODY], there)
    yield from pools(other, others, others)


def pair(draw, heads, width):
    """Keys and values of some tokens, of any dtype, or one tensor for both."""
    make, n = draw.choice(draw.normal, draw.strided), draw.choice(0, 1, 2, 3, 9)
    k = make(heads, n, width, dtype=draw.choice(*DTYPES))
    return k, draw.choice(k, -k, k[:1].expand(k.shape))


@trial(of="PagedKVCache")
def elsewhere(student, draw):
    """Sizes of every hard kind, pools that stay where they are, and a device without numbers."""
    s = draw.sizes(S=5, H=3, L=9, D=4)
    blocks = -(-s["L"] // s["S"]) + draw.integer(0, 2)
    cache = student.PagedKVCache(blocks, s["S"], s["H"], s["D"], draw.choice(*DTYPES))
    held, number = [cache.keys, cache.values], cache.add()
    k = draw.normal(s["H"], s["L"], s["D"])
    yield from called(cache.append, number, k, -k)
    yield [cache.keys.data_ptr(), cache.values.data_ptr()] == [x.data_ptr() for x in held]
    yield from pools(cache, [number], [number])
    for pool in held:
        pool.mul_(-2)
    yield from pools(cache, [number], [number])
    there = student.PagedKVCache(2, 3, 1, 2, device="meta")
    yield [(str(x.device), x.shape) for x in (there.keys, there.values)]


@trial(of="paged_attention")
def steps(student, draw):
    """Batches of any sequences, in any order, of any size and dtype."""
    s, dtype = draw.sizes(N=4, H=3, L=9, D=6), draw.choice(*DTYPES)
    lengths = [draw.choice(0, 1, s["L"], s["L"] // 2) for _ in range(min(s["N"], 3))]
    cache, numbers = filled(student, draw, dtype, s["H"], s["D"], lengths)
    batch = [draw.choice(*numbers) for _ in range(draw.choice(0, s["N"], s["N"]))]
    if draw.integer(0, 9) == 0:
        batch.append(draw.choice(*NOBODY))
    q = draw.normal(len(batch), s["H"], s["D"], dtype=draw.choice(dtype, dtype, *DTYPES))
    q *= draw.choice(1.0, 1.0, 30.0)
    for x in (q, -q):
        ask = x, cache, batch
        yield refused(lambda ask=ask: student.paged_attention(*ask), None, [None])
    yield q


@trial(of=("paged_attention", "chunked_prefill", "ragged_attention"))
def beyond_half_precision(student, draw):
    """Products of 256s in half precision, scores of hundreds, all far below 0."""
    dtype, n = draw.choice(*HALVES, float32), draw.integer(1, 20)
    q = torch.full((2, n, 64), 256.0, dtype=dtype)
    k = draw.choice(q, -q, draw.normal(2, n, 64, dtype=dtype, scale=300), q * draw.keep(n, 1))
    v = draw.normal(2, n, 64, dtype=dtype)
    cache = student.PagedKVCache(21, 2, 2, 64, dtype)
    number = cache.add()
    chunk = draw.integer(1, 9)
    yield attempt(lambda: student.chunked_prefill(q, k, v, cache, number, chunk))
    yield attempt(lambda: student.paged_attention(q[None, :, 0], cache, [number]))
    bounds = torch.tensor([0, n // 2, n])
    tokens = (x.transpose(0, 1) for x in (q, k, v))
    yield from called(student.ragged_attention, *tokens, bounds, bounds)


@trial(of="ragged_attention")
def packed(student, draw):
    """Sequences of any lengths end to end, empty or not, with fewer or more keys, and gradients."""
    s, dtype = draw.sizes(N=3, H=3, Lq=5, Lk=7, D=6, Dv=4), draw.choice(*DTYPES)
    lens = [[draw.choice(0, 1, 3, s[x]) for _ in range(min(s["N"], 5))] for x in ("Lq", "Lk")]
    lens = draw.choice(lens, lens, [lens[0], lens[0]], [[], []])
    cu_q, cu_k = (torch.tensor([0, *accumulate(n)], dtype=draw.choice(int32, int64)) for n in lens)
    widths = (sum(lens[0]), s["D"]), (sum(lens[1]), s["D"]), (sum(lens[1]), s["Dv"])
    make = draw.choice(draw.normal, draw.normal, draw.strided)
    q, k, v = (make(n, s["H"], width, dtype=dtype) for n, width in widths)
    if draw.integer(0, 3) == 0:
        k = k[:1].expand(k.shape)
    yield from differentiated(draw, student.ragged_attention, q, k, v, cu_q, cu_k)


@trial(of="chunked_prefill")
def prompts(student, draw):
    """Prompts behind a past, or none, in chunks of any size, until the pool is full, and on."""
    s, dtype = draw.sizes(H=3, L=9, D=6, C=5), draw.choice(*DTYPES)
    s["C"] = max(s["C"], s["L"] // 20)
    lengths = [draw.choice(0, 1, 5), draw.choice(0, 3)]
    cache, numbers = filled(student, draw, dtype, s["H"], s["D"], lengths)
    if draw.integer(0, 2):  # often with room enough
        cache = student.PagedKVCache(s["L"] + 3, 2, s["H"], s["D"], dtype)
        numbers = [cache.add(), cache.add()]
    number = draw.choice(*numbers, numbers[0], 999)
    given, make = draw.choice(dtype, *DTYPES), draw.choice(draw.normal, draw.strided)
    q, k, v = (make(s["H"], draw.choice(s["L"], s["L"]), s["D"], dtype=given) for _ in "qkv")
    q, k, v = draw.choice((q, k, v), (q, q, q), tuple(x[:, :0] for x in (q, k, v)), (q, k, v))
    for _ in range(2):
        ask = q, k, v, cache, number, s["C"]
        answer = refused(lambda ask=ask: student.chunked_prefill(*ask), number, numbers)
        yield from pools(cache, numbers, numbers)  # first: of a wrong output no more is compared
        yield answer
    yield [q, k, v]
