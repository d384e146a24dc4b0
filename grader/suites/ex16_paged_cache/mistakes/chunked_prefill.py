"""Wrong answers to `chunked_prefill`."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from grader.suites.ex16_paged_cache.test_paged_cache import (
    test_empty,
    test_float64,
    test_half,
    test_prefill,
    test_prefill_past,
)

from .shared import ahead, causally, mean_of_one, plain_attention, top_left_of_one, unmasked


def _chunks(q, k, v, cache, sequence, chunk_size, attend):
    """A prefill in which each chunk, once it is appended, attends in this way."""
    output = torch.zeros_like(q)
    for start in range(0, q.shape[1], chunk_size):
        chunk = slice(start, start + chunk_size)
        cache.append(sequence, k[:, chunk], v[:, chunk])
        output[:, chunk] = attend(q[:, chunk], *cache.gather(sequence))
    return output


@mistake(of="chunked_prefill", caught_by=test_prefill)
def chunk_by_itself(q, k, v, cache, sequence, chunk_size):
    """A chunk attends only to itself: the chunks before it are forgotten.

    Attend to all that the sequence has: cache.gather(sequence), after the append.
    """

    def alone(q, k, v):
        return causally(q, k[:, -q.shape[1] :], v[:, -q.shape[1] :])

    return _chunks(q, k, v, cache, sequence, chunk_size, alone)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def attended_before_appended(q, k, v, cache, sequence, chunk_size):
    """A chunk attends before its own keys are in the cache, and so not to itself.

    Append first, then gather and attend.
    """

    def before(q, k, v):
        return unmasked(q, k[:, : -q.shape[1]], v[:, : -q.shape[1]])

    return _chunks(q, k, v, cache, sequence, chunk_size, before)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def attended_before_appended_causally(q, k, v, cache, sequence, chunk_size):
    """A chunk attends before its own keys are in the cache, and its triangle lies on older ones.

    Append first, then gather and attend.
    """

    def before(q, k, v):
        return causally(q, k[:, : -q.shape[1]], v[:, : -q.shape[1]])

    return _chunks(q, k, v, cache, sequence, chunk_size, before)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def chunks_not_scaled(q, k, v, cache, sequence, chunk_size):
    """The scores are not scaled.

    Divide them by math.sqrt(q.shape[-1]).
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, lambda *one: causally(*one, 1.0))


@mistake(of="chunked_prefill", caught_by=test_prefill)
def all_appended_first(q, k, v, cache, sequence, chunk_size):
    """The whole prompt is in the cache before the first chunk attends, which moves the triangle.

    Append one chunk, let it attend, and go on to the next: its queries are the last of n positions.
    """
    cache.append(sequence, k, v)
    keys, values = cache.gather(sequence)
    parts = [causally(part, keys, values) for part in q.split(chunk_size, 1)]
    return torch.cat(parts, 1)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def chunk_aligned_top_left(q, k, v, cache, sequence, chunk_size):
    """The triangle of every chunk starts at the first key of the sequence.

    A chunk's queries are the last t of n positions: query i sees the keys up to i + n - t.
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, top_left_of_one)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def nothing_hidden(q, k, v, cache, sequence, chunk_size):
    """Within a chunk nothing is hidden: its first query sees its last.

    What came before is all visible, but the chunk itself needs its triangle.
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, unmasked)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def past_forgotten(q, k, v, cache, sequence, chunk_size):
    """The prompt attends to itself alone, though the sequence had tokens before.

    Attend to cache.gather(sequence), not to k[:, :end]: the past is in the cache.
    """
    length = cache.length(sequence)

    def new(q, k, v):
        return causally(q, k[:, length:], v[:, length:])

    return _chunks(q, k, v, cache, sequence, chunk_size, new)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def chunk_size_ignored(q, k, v, cache, sequence, chunk_size):
    """The prompt is appended in one piece, whatever chunk_size says.

    Chunk by chunk: what found room before the pool was full stays in the cache.
    """
    return _chunks(q, k, v, cache, sequence, max(1, q.shape[1]), causally)


@mistake(of="chunked_prefill", caught_by=test_half)
def dtype_of_the_cache(q, k, v, cache, sequence, chunk_size):
    """The output has the dtype of the cache, and the queries are rounded to it.

    Keep the dtype of q: convert what was gathered, and not the queries.
    """

    def attend(q, k, v):
        return causally(q.to(k.dtype), k, v)

    return _chunks(q.to(cache.keys.dtype), k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def prompt_in_the_precision_of_the_cache(q, k, v, cache, sequence, chunk_size):
    """Queries of float64 are rounded to float32, because the cache has fewer digits than they.

    Compute in the dtype of q, at least float32: convert what was gathered, and not the queries.
    """

    def attend(q, k, v):
        wide = torch.promote_types(k.dtype, torch.float32)
        return causally(q.to(wide), k, v).to(q.dtype)

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def chunk_not_read_back(q, k, v, cache, sequence, chunk_size):
    """A chunk attends to its own keys and values as they were given, not as the cache holds them.

    In a cache of another dtype they are rounded: attend to cache.gather(sequence), all of it.
    """
    past = cache.gather(sequence)
    fresh = [torch.cat([old.to(new.dtype), new], 1) for old, new in zip(past, (k, v), strict=True)]

    def attend(q, keys, values):
        return causally(q, *(x[:, : keys.shape[1]] for x in fresh))

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def prompt_kept_aside(q, k, v, cache, sequence, chunk_size):
    """The keys and values of a prompt are kept beside the pools, for the prompt that follows it.

    The past of a sequence is what the pools hold of it now: cache.gather(sequence).
    """
    kept = cache.__dict__.setdefault("prompts", {})
    past = cache.gather(sequence)
    if sequence in kept and kept[sequence][0].shape == past[0].shape:
        past = kept[sequence]

    def attend(q, keys, values):
        both = zip(past, (keys, values), strict=True)
        kept[sequence] = [torch.cat([old, now[:, old.shape[1] :]], 1) for old, now in both]
        return causally(q, *kept[sequence])

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def mask_of_1024(q, k, v, cache, sequence, chunk_size):
    """The triangle is cut out of a table of 1024 by 1024, which longer sequences do not fit.

    Make it from the lengths: torch.ones(t, n).tril(n - t).
    """

    def attend(q, k, v):
        t, n = q.shape[1], k.shape[1]
        seen = torch.ones(1024, 1024, dtype=torch.bool, device=q.device).tril()
        return plain_attention(q, k, v, ~seen[n - t : n, :n])

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def later_tokens_at_minus_ten_thousand(q, k, v, cache, sequence, chunk_size):
    """Later tokens of the chunk get the score -1e4, which is not below every score.

    Hide with -inf, or with the lowest number there is, torch.finfo(scores.dtype).min.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(ahead(q, k), -1e4), -1)
        return (weights @ v.to(wide)).to(q.dtype)

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def taken_back(q, k, v, cache, sequence, chunk_size):
    """When the pool is full, the chunks that were appended are lost: the sequence is freed.

    Let the ValueError of append pass through; what was appended stays.
    """
    try:
        return _chunks(q, k, v, cache, sequence, chunk_size, causally)
    except ValueError:
        cache.free(sequence)
        raise


@mistake(of="chunked_prefill", caught_by=test_float64)
def prompt_in_float32(q, k, v, cache, sequence, chunk_size):
    """float64 is computed in float32: .float() belongs to half precision alone.

    Compute in torch.promote_types(q.dtype, torch.float32), which leaves float64 as it is.
    """

    def attend(q, k, v):
        return causally(q.float(), k.float(), v.float()).to(q.dtype)

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def chunk_in_half_precision(q, k, v, cache, sequence, chunk_size):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute in float32 (q.float() and so on) and convert the output back at the end.
    """

    def attend(q, k, v):
        k, v = k.to(q.dtype), v.to(q.dtype)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(ahead(q, k), -torch.inf)
        return torch.softmax(scores, -1) @ v

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_empty)
def no_tokens_in_float32(q, k, v, cache, sequence, chunk_size):
    """The output of a prompt of no tokens is float32, whatever the dtype of q.

    Make it with q.new_zeros(q.shape), or say dtype=q.dtype.
    """
    output = _chunks(q, k, v, cache, sequence, chunk_size, causally)
    return output if q.shape[1] else output.float()


@mistake(of="chunked_prefill", caught_by=test_empty)
def no_chunk_to_join(q, k, v, cache, sequence, chunk_size):
    """A prompt of no tokens has no chunk, and torch.cat of nothing raises.

    Write into an output made beforehand, q.new_zeros(q.shape), or begin the list with q[:, :0].
    """
    outputs = []
    for start in range(0, q.shape[1], chunk_size):
        chunk = slice(start, start + chunk_size)
        cache.append(sequence, k[:, chunk], v[:, chunk])
        outputs.append(causally(q[:, chunk], *cache.gather(sequence)))
    return torch.cat(outputs, 1)


@mistake(of="chunked_prefill", caught_by=test_prefill, null=True)
def zeros_returned(q, k, v, cache, sequence, chunk_size):
    """The prompt is appended, but the output is zeros.

    Let the queries of every chunk attend once it is in the cache.
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, lambda q, k, v: torch.zeros_like(q))


@mistake(of="chunked_prefill", caught_by=test_prefill, null=True)
def average_of_the_values(q, k, v, cache, sequence, chunk_size):
    """The output is the plain average of the values so far: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, mean_of_one)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def prefill_in_one_place(q, k, v, cache, sequence, chunk_size, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, _chunks(q, k, v, cache, sequence, chunk_size, causally))


@mistake(of="chunked_prefill", caught_by=test_half)
def past_in_the_dtype_of_q(q, k, v, cache, sequence, chunk_size):
    """Keys and values of the cache are converted to the dtype of q, which may be narrower.

    Convert all three to float32 (q in float64: to float64), and the output to the dtype of q.
    """

    def attend(q, k, v):
        return causally(q, k.to(q.dtype), v.to(q.dtype))

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def one_chunk_attends_to_what_came(q, k, v, cache, sequence, chunk_size):
    """A prompt of one chunk without a past attends to k and v, not to what the cache holds of them.

    The cache rounds to its own dtype. Attend to cache.gather(sequence) in every chunk.
    """
    if q.shape[1] > chunk_size or cache.length(sequence):
        return _chunks(q, k, v, cache, sequence, chunk_size, causally)
    cache.append(sequence, k, v)
    return causally(q, k, v)
