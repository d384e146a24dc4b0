"""Wrong answers to `ragged_attention`."""

from itertools import pairwise

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from grader.suites.ex16_paged_cache.test_paged_cache import (
    test_float64,
    test_half,
    test_ragged,
    test_ragged_apart,
    test_ragged_manners,
)
from reference.ex16_paged_cache import (
    plain_ragged_attention,
)

from .shared import ahead, causally, mean_of_one, plain_attention, top_left_of_one, unmasked


def _each(q, k, v, cu_q, cu_k, attend):
    """A ragged batch in which each sequence attends in this way; bounds may be lists."""
    output = q.new_zeros(*q.shape[:2], v.shape[2])
    for (q0, q1), (k0, k1) in zip(pairwise(list(cu_q)), pairwise(list(cu_k)), strict=False):
        one = (x.transpose(0, 1) for x in (q[q0:q1], k[k0:k1], v[k0:k1]))
        output[q0:q1] = attend(*one).transpose(0, 1)
    return output


@mistake(of="ragged_attention", caught_by=test_ragged)
def one_triangle_for_all(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """One causal triangle lies over the whole batch, so that a sequence reads those before it.

    Every sequence has a triangle of its own: slice it out, or hide what belongs to others.
    """
    return _each(q, k, v, [0, len(q)], [0, len(k)], causally)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def one_sequence_sees_nothing(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Where there is one sequence, with more queries than keys, all of its rows are 0.

    Only its first queries see nothing, as in any other sequence with fewer keys than queries.
    """
    output = _each(q, k, v, cu_seqlens_q, cu_seqlens_k, causally)
    return torch.zeros_like(output) if len(cu_seqlens_q) == 2 and len(q) > len(k) else output


@mistake(of="ragged_attention", caught_by=test_ragged)
def not_causal(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Sequences are kept apart, but within them nothing is hidden.

    With t queries and n keys, query i sees the keys 0 to i + n - t.
    """
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, unmasked)


@mistake(of="ragged_attention", caught_by=test_ragged)
def top_left(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The triangle of a sequence starts at its first key.

    With t queries and n keys, query i sits at position i + n - t: tril(n - t).
    """
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, top_left_of_one)


@mistake(of="ragged_attention", caught_by=test_ragged)
def bounds_read_as_lengths(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """cu_seqlens is read as the lengths: a sequence reaches from cu[i] over cu[i + 1] tokens.

    It holds bounds: sequence i is cu[i]:cu[i + 1], and its length is the difference.
    """
    output = q.new_zeros(*q.shape[:2], v.shape[2])
    ends = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True)
    for (q0, q1), (k0, k1) in ends:
        one = (x.transpose(0, 1) for x in (q[q0:][:q1], k[k0:][:k1], v[k0:][:k1]))
        output[q0:][:q1] = causally(*one).transpose(0, 1)
    return output


@mistake(of="ragged_attention", caught_by=test_ragged)
def scores_not_scaled(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The scores are not scaled.

    Divide them by math.sqrt(q.shape[-1]).
    """
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, lambda *one: causally(*one, 1.0))


@mistake(of="ragged_attention", caught_by=test_ragged)
def scale_not_quite(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt(q.shape[-1]) itself: no constant added to it, no rounded number.
    """
    scale = 0.99 * q.shape[-1] ** -0.5
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, lambda *one: causally(*one, scale))


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def unseeing_query_nan(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """A query that sees nothing gives NaN: softmax of nothing but -inf.

    Fill the weights with 0 where they are hidden, after the softmax.
    """

    def attend(q, k, v):
        nothing = ahead(q, k).all(-1, keepdim=True) & (k.shape[1] > 0)
        return causally(q, k, v).masked_fill(nothing, torch.nan)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def hidden_with_a_finite_number(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """A query that sees nothing averages what is hidden, as if hidden scores were -1e9.

    Hide with -inf: masked_fill(hidden, -torch.inf), and put 0 where that leaves NaN.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(ahead(q, k), -1e9), -1)
        return (weights @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_half)
def half_precision_kept_throughout(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute in float32 (q.float() and so on) and convert the output back at the end.
    """
    return plain_ragged_attention(q, k, v, cu_seqlens_q, cu_seqlens_k)


@mistake(of="ragged_attention", caught_by=test_half)
def softmax_alone_in_float32(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Only the softmax is in float32: the scores were half precision, and infinite, before it.

    softmax(scores, dtype=torch.float32) comes too late: convert q and k before their product.
    """

    def attend(q, k, v):
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(ahead(q, k), -torch.inf)
        weights = torch.softmax(scores, -1, dtype=torch.promote_types(q.dtype, torch.float32))
        return weights.masked_fill(ahead(q, k), 0.0).to(q.dtype) @ v

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_half)
def packed_scores_rounded(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The scores are rounded to half precision before the softmax, where close hundreds are alike.

    Keep the scores in float32 until the softmax is done: q.float() @ k.float().mT.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5).to(q.dtype).to(wide)
        scores = scores.clamp(-6e4, 6e4) if q.dtype is torch.float16 else scores
        weights = torch.softmax(scores.masked_fill(ahead(q, k), -torch.inf), -1)
        return (weights.masked_fill(ahead(q, k), 0.0) @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def packed_hidden_with_minus_1e30(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Hidden scores are -1e30: where the seen ones are lower still, the hidden keys win.

    Hide with -torch.inf: no score is lower than that.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(ahead(q, k), -1e30), -1)
        return (weights.masked_fill(ahead(q, k), 0.0) @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def packed_values_learn_only_with_queries(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Where q needs no gradient, none is recorded, so that k and v learn nothing either.

    Leave it to PyTorch which inputs need gradients: write no torch.no_grad and no detach.
    """
    with torch.set_grad_enabled(torch.is_grad_enabled() and q.requires_grad):
        return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, causally)


@mistake(of="ragged_attention", caught_by=test_float64)
def packed_in_float32(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """float64 is computed in float32: .float() belongs to half precision alone.

    Compute in torch.promote_types(q.dtype, torch.float32), which leaves float64 as it is.
    """
    wide = (x.float() for x in (q, k, v))
    return _each(*wide, cu_seqlens_q, cu_seqlens_k, causally).to(q.dtype)


@mistake(of="ragged_attention", caught_by=test_ragged)
def triangle_of_1024(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The triangle is cut out of a table of 1024 by 1024, which longer sequences do not fit.

    Make it from the lengths of the sequence: torch.ones(t, n).tril(n - t).
    """

    def attend(q, k, v):
        t, n = q.shape[1], k.shape[1]
        seen = torch.ones(1024, 1024, dtype=torch.bool, device=q.device).tril()
        if t > n:
            return causally(q, k, v)
        return plain_attention(q, k, v, ~seen[n - t : n, :n])

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def keys_by_the_bounds_of_queries(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Where there are as many keys as queries in all, both are cut by cu_seqlens_q.

    Cut the keys by cu_seqlens_k: equal totals do not mean equal sequences.
    """
    bounds_k = cu_seqlens_q if len(q) == len(k) else cu_seqlens_k
    return _each(q, k, v, cu_seqlens_q, bounds_k, causally)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def powers_without_the_maximum(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """exp(scores) overflows at scores above 88, and is 0 everywhere below -103.

    Subtract the maximum of the row before exp, as torch.softmax does.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        powers = torch.exp(q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5)
        powers = powers.masked_fill(ahead(q, k), 0.0)
        blind = ahead(q, k).all(-1, keepdim=True)
        weights = powers / powers.sum(-1, keepdim=True).masked_fill(blind, 1.0)
        return (weights @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


_BOUNDS: dict[tuple[int, ...], list[list[int]]] = {}


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def bounds_remembered(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The bounds of one batch are kept, and used for every other with as many tokens.

    Read cu_seqlens_q and cu_seqlens_k in every call.
    """
    key = len(q), len(k), len(cu_seqlens_q)
    bounds = [cu_seqlens_q.tolist(), cu_seqlens_k.tolist()]
    return _each(q, k, v, *_BOUNDS.setdefault(key, bounds), causally)


_KEY_BOUNDS: dict[tuple[int, ...], list[int]] = {}


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def bounds_of_keys_remembered(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The bounds of the keys are kept, and used for every batch with the same bounds of queries.

    Read cu_seqlens_k in every call, too.
    """
    bounds = cu_seqlens_q.tolist()
    kept = _KEY_BOUNDS.setdefault((len(k), *bounds), cu_seqlens_k.tolist())
    return _each(q, k, v, bounds, kept, causally)


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def graph_cut(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The gradient is cut: torch.no_grad(), .data, .detach() or NumPy on the way.

    Use PyTorch operators only, from the inputs to the output.
    """
    return _each(q.detach(), k.detach(), v.detach(), cu_seqlens_q, cu_seqlens_k, causally)


@mistake(of="ragged_attention", caught_by=test_ragged, null=True)
def all_zeros(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The output is zeros.

    Nothing is computed yet: slice each sequence out, and attend causally within it.
    """
    return q.new_zeros(*q.shape[:2], v.shape[2])


@mistake(of="ragged_attention", caught_by=test_ragged, null=True)
def plain_average(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The output is the plain average of the values that are seen: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, mean_of_one)


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def ragged_in_one_place(q, k, v, cu_seqlens_q, cu_seqlens_k, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, _each(q, k, v, cu_seqlens_q, cu_seqlens_k, causally))


@mistake(of="ragged_attention", caught_by=test_ragged)
def values_by_the_bounds_of_queries(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The values are cut by cu_seqlens_q: they fit the keys only where the lengths are equal.

    Cut keys and values by cu_seqlens_k.
    """
    output = q.new_zeros(*q.shape[:2], v.shape[2])
    bounds = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True)
    for (q0, q1), (k0, k1) in bounds:
        one = (x.transpose(0, 1) for x in (q[q0:q1], k[k0:k1], v[q0:q1]))
        output[q0:q1] = causally(*one).transpose(0, 1)
    return output


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def later_powers_replaced(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The powers of later scores are replaced by 0: that of 1e30 is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """

    def attend(q, k, v):
        if q.dtype != torch.float32:
            return causally(q, k, v)
        hidden, scores = ahead(q, k), q @ k.mT * q.shape[-1] ** -0.5
        top = scores.detach().masked_fill(hidden, -torch.inf)
        top = top.amax(-1, keepdim=True) if k.shape[1] else 0.0
        powers = torch.where(hidden | (top == -torch.inf), 0.0, (scores - top).exp())
        return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30) @ v

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def equal_lengths_are_cut(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Sequences of equal lengths are copied into one batch without their graph.

    Reshape or stack the tensors themselves: autograd follows both.
    """
    lengths = set(cu_seqlens_q.diff().tolist()), set(cu_seqlens_k.diff().tolist())
    if len(cu_seqlens_q) > 2 and max(map(len, lengths)) == 1:
        k, v = k.detach(), v.detach()
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, causally)


@mistake(of="ragged_attention", caught_by=test_float64)
def double_keys_alone_are_cut(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """In float64 the graph is cut where no query needs a gradient; a key may need one.

    Leave it to autograd, which keeps what any input needs.
    """
    if q.dtype == torch.float64 and not q.requires_grad:
        k = k.detach()
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, causally)
