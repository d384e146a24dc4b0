"""Wrong answers to `paged_attention`."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from grader.suites.ex16_paged_cache.test_paged_cache import (
    test_empty,
    test_float64,
    test_half,
    test_paged,
    test_paged_batch,
)
from reference.ex16_paged_cache import (
    plain_paged_attention,
)

from .shared import causally, mean_of_one, plain_attention, unmasked


def _rows(q, cache, sequences, attend):
    """A decoding step in which each row attends in this way."""
    output = torch.zeros_like(q)
    for i, sequence in enumerate(sequences):
        k, v = cache.gather(sequence)
        if k.shape[1]:
            output[i] = attend(q[i][:, None], k, v)[:, 0]
    return output


@mistake(of="paged_attention", caught_by=test_paged)
def scale_missing(q, cache, sequences):
    """The scores are not scaled.

    Divide them by math.sqrt(q.shape[-1]).
    """
    return _rows(q, cache, sequences, lambda *one: causally(*one, 1.0))


@mistake(of="paged_attention", caught_by=test_paged)
def scale_one_per_cent_off(q, cache, sequences):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt(q.shape[-1]) itself: no constant added to it, no rounded number.
    """
    return _rows(q, cache, sequences, lambda *one: causally(*one, 0.99 * q.shape[-1] ** -0.5))


@mistake(of="paged_attention", caught_by=test_paged)
def padding_attended(q, cache, sequences):
    """The sequences are padded to the longest, and the padding takes part.

    A key of zeros has the score 0, not -inf: hide it, or attend to each sequence by itself.
    """
    longest = max((cache.length(sequence) for sequence in sequences), default=0)

    def padded(q, k, v):
        room = (0, 0, 0, longest - k.shape[1])
        return unmasked(q, *(torch.nn.functional.pad(x, room) for x in (k, v)))

    return _rows(q, cache, sequences, padded)


@mistake(of="paged_attention", caught_by=test_paged)
def sequences_mixed(q, cache, sequences):
    """Every row attends to the sequences of all rows.

    Row i belongs to sequences[i], and sees the keys of that one alone.
    """
    parts = zip(*(cache.gather(sequence) for sequence in sequences), strict=True)
    k, v = (torch.cat(part, 1) for part in parts) if sequences else (q.transpose(0, 1),) * 2
    return unmasked(q.transpose(0, 1), k, v).transpose(0, 1)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def whole_blocks_masked(q, cache, sequences):
    """Whole blocks are read and the places behind the last token masked: 0 times NaN is still NaN.

    Read as many tokens as the sequence has. Weights of 0 do not silence what freed blocks hold.
    """
    output = torch.zeros_like(q)
    for i, sequence in enumerate(sequences):
        table = cache.block_table(sequence)
        k, v = (x[table].flatten(0, 1).transpose(0, 1) for x in (cache.keys, cache.values))
        hidden = torch.arange(k.shape[1], device=q.device) >= cache.length(sequence)
        output[i] = plain_attention(q[i][:, None], k, v, hidden)[:, 0]
    return output


@mistake(of="paged_attention", caught_by=test_half)
def half_precision_not_raised(q, cache, sequences):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute in float32 (q.float() and so on) and convert the output back at the end.
    """
    return plain_paged_attention(q, cache, sequences)


@mistake(of="paged_attention", caught_by=test_paged)
def window_of_256(q, cache, sequences):
    """Of a long sequence only the last 256 tokens are attended to.

    Attend to all that the sequence has: there is no window, and no table of fixed size.
    """
    return _rows(q, cache, sequences, lambda q, k, v: causally(q, k[:, -256:], v[:, -256:]))


@mistake(of="paged_attention", caught_by=test_paged_batch)
def exp_without_the_maximum(q, cache, sequences):
    """exp(scores) overflows at scores above 88, and is 0 everywhere below -103.

    Subtract the maximum of the row before exp, as torch.softmax does.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        powers = torch.exp(q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5)
        return (powers / powers.sum(-1, keepdim=True) @ v.to(wide)).to(q.dtype)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def maximum_that_begins_with_zero(q, cache, sequences):
    """Beyond 256 keys the maximum runs from tile to tile, and begins with 0: scores far below it
    leave nothing.

    Begin with -inf, so that the first tile brings its own maximum.
    """

    def attend(q, k, v):
        if k.shape[1] <= 256:
            return causally(q, k, v)
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        top = torch.zeros_like(scores[..., :1])
        for tile in scores.split(256, -1):
            top = torch.maximum(top, tile.amax(-1, keepdim=True))
        powers = torch.exp(scores - top)
        total = powers.sum(-1, keepdim=True).clamp(min=torch.finfo(wide).tiny)
        return (powers / total @ v.to(wide)).to(q.dtype)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_float64)
def maximum_that_begins_with_float32(q, cache, sequences):
    """The maximum begins with the lowest number of float32, and float64 has scores far below it.

    Begin with -inf, so that the first block brings its own maximum.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
        powers = torch.exp(scores - top)
        return (powers / powers.sum(-1, keepdim=True) @ v.to(wide)).to(q.dtype)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def padding_at_minus_ten_thousand(q, cache, sequences):
    """The padding of shorter sequences gets the score -1e4, which is not below every score.

    Hide with -inf, or with the lowest number there is, torch.finfo(scores.dtype).min.
    """
    longest = max((cache.length(sequence) for sequence in sequences), default=0)

    def padded(q, k, v):
        wide, room = torch.promote_types(q.dtype, torch.float32), longest - k.shape[1]
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        scores = torch.nn.functional.pad(scores, (0, room), value=-1e4)
        values = torch.nn.functional.pad(v.to(wide), (0, 0, 0, room))
        return (torch.softmax(scores, -1) @ values).to(q.dtype)

    return _rows(q, cache, sequences, padded)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def output_remembered(q, cache, sequences):
    """The output is kept by the lengths of the sequences, and comes again for other queries.

    Compute it in every call: the same lengths do not mean the same numbers.
    """
    kept = cache.__dict__.setdefault("outputs", {})
    key = tuple((sequence, cache.length(sequence)) for sequence in sequences), q.dtype
    if key not in kept:
        kept[key] = _rows(q, cache, sequences, causally)
    return kept[key].clone()


@mistake(of="paged_attention", caught_by=test_paged_batch)
def one_row_a_sequence(q, cache, sequences):
    """A sequence that stands twice in the batch has one output, that of its first row.

    Every row has a query of its own: go through the rows, not through a dict of sequences.
    """
    output = _rows(q, cache, sequences, causally)
    return output[[sequences.index(sequence) for sequence in sequences]]


@mistake(of="paged_attention", caught_by=test_empty)
def stopped_at_an_empty_sequence(q, cache, sequences):
    """An empty sequence ends the loop, so that the rows behind it stay 0.

    Go on with the next row: continue, not break.
    """
    lengths = [cache.length(sequence) for sequence in sequences]
    seen = lengths.index(0) if 0 in lengths else len(lengths)
    output = torch.zeros_like(q)
    output[:seen] = _rows(q[:seen], cache, sequences[:seen], causally)
    return output


@mistake(of="paged_attention", caught_by=test_float64)
def step_in_float32(q, cache, sequences):
    """float64 is computed in float32: .float() belongs to half precision alone.

    Compute in torch.promote_types(q.dtype, torch.float32), which leaves float64 as it is.
    """
    return _rows(q.float(), cache, sequences, lambda q, k, v: causally(q, k.float(), v.float())).to(
        q.dtype
    )


@mistake(of="paged_attention", caught_by=test_paged_batch)
def gathered_once(q, cache, sequences):
    """What was gathered in one step is kept for the next, beside the pools.

    Gather again at every step: what the pools hold then is what counts, and it lies there once.
    """
    kept = cache.__dict__.setdefault("gathered", {})
    output = torch.zeros_like(q)
    for i, sequence in enumerate(sequences):
        n = cache.length(sequence)
        if sequence not in kept or kept[sequence][0].shape[1] != n:
            kept[sequence] = cache.gather(sequence)
        output[i] = causally(q[i][:, None], *kept[sequence])[:, 0]
    return output


@mistake(of="paged_attention", caught_by=test_paged, null=True)
def mean_of_the_values(q, cache, sequences):
    """The output is the plain average of the values: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """
    return _rows(q, cache, sequences, mean_of_one)


@mistake(of="paged_attention", caught_by=test_paged, null=True)
def nothing_but_zeros(q, cache, sequences):
    """The output is zeros.

    Nothing is computed yet: gather, scores, softmax, and a mixture of the values.
    """
    return torch.zeros_like(q)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def paged_in_one_place(q, cache, sequences, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, _rows(q, cache, sequences, causally))


@mistake(of="paged_attention", caught_by=test_paged_batch)
def padded_with_the_first_place(q, cache, sequences):
    """Shorter sequences are filled up with the first place of the pools, whose value gets weight 0.

    NaN that lies there makes the output NaN, for 0 * NaN is NaN. Fill up with zeros, or attend to
    each sequence by itself.
    """
    longest = max((cache.length(sequence) for sequence in sequences), default=0)

    def attend(q, k, v):
        missing = longest - k.shape[1]
        hidden = torch.arange(longest) >= k.shape[1]
        first = [pool[0, 0][:, None].expand(-1, missing, -1) for pool in (cache.keys, cache.values)]
        k, v = (torch.cat(pair, 1) for pair in zip((k, v), first, strict=True))
        return plain_attention(q, k, v, hidden)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_half)
def half_scores_clamped(q, cache, sequences):
    """In half precision scores are kept above -65,504: lower ones are all alike.

    Leave the scores as they are: softmax takes its maximum away first.
    """

    def attend(q, k, v):
        if q.dtype.itemsize > 2 or k.dtype.itemsize > 2:
            return unmasked(q, k, v)
        scores = (q.float() @ k.float().mT * q.shape[-1] ** -0.5).clamp(min=-65504.0)
        return (scores.softmax(-1) @ v.float()).to(q.dtype)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def newest_token_alone_read(q, cache, sequences):
    """A step goes on with the keys and values of the step before, and reads the newest token alone.

    The pools may hold other numbers now: read all tokens in every step.
    """
    kept = vars(cache).setdefault("kept", {})

    def attend(sequence, q):
        seen = cache.gather(sequence)
        old = kept.get(sequence, seen)
        if old[0].shape[1] == seen[0].shape[1] - 1:
            seen = [torch.cat([x, y[:, -1:]], 1) for x, y in zip(old, seen, strict=True)]
        kept[sequence] = seen
        return unmasked(q[:, None], *seen)[:, 0] if seen[0].shape[1] else 0 * q

    rows = [attend(*one) for one in zip(sequences, q, strict=True)]
    return torch.stack(rows) if rows else torch.zeros_like(q)


@mistake(of="paged_attention", caught_by=test_float64)
def tiny_weights_left_out(q, cache, sequences):
    """Weights below 1e-12 become 0, and the largest value counts for nothing then.

    Leave the weights as the softmax gives them.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        weights = (q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5).softmax(-1)
        return (weights.masked_fill(weights < 1e-12, 0.0) @ v.to(wide)).to(q.dtype)

    return _rows(q, cache, sequences, attend)
