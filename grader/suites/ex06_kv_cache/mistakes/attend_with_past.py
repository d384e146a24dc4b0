"""Wrong answers to `attend_with_past`."""

from functools import partial

import torch

from grader.judging import mistake

from ..steps import (
    attended,
    filled,
    inverse_root,
    joined,
    raised,
    softmax,
    triangle,
    unchanged,
)
from ..test_kv_cache import (
    test_chunks,
    test_empty,
    test_gradient,
    test_hidden,
    test_precision,
    test_values,
)
from .shared import added, everywhere, from_the_first_key, moved, without_maximum


def in_front(old, new):
    return torch.cat([new, old], -2)


def along(axis):
    """A step that joins along another axis than the length."""

    def join(old, new):
        return torch.cat([old, new], axis)

    return partial(joined, keys=join, values=join)


def new_alone(known, new):
    return new


def multiplied(weights, keep):
    return weights * keep


@mistake(of="attend_with_past", caught_by=test_values)
def joined_along_the_heads(q, k, v, past=None):
    """The new keys and values are joined to the old ones along the heads.

    Join along the length, the last axis but one: torch.cat([past[0], k], dim=-2).
    """
    return attended(q, k, v, past, join=along(-3))


@mistake(of="attend_with_past", caught_by=test_values)
def joined_along_axis_1(q, k, v, past=None):
    """The new keys and values are joined to the old ones along axis 1, which is the length of
    (B, t, D) and of no other shape.

    Count from the end: the length is the last axis but one, torch.cat([past[0], k], dim=-2).
    """
    return attended(q, k, v, past, join=along(1))


@mistake(of="attend_with_past", caught_by=test_values)
def joined_along_axis_2(q, k, v, past=None):
    """The new keys and values are joined to the old ones along axis 2, which is the length of
    (B, H, t, D) and of no other shape.

    Count from the end: the length is the last axis but one, torch.cat([past[0], k], dim=-2).
    """
    return attended(q, k, v, past, join=along(2))


@mistake(of="attend_with_past", caught_by=test_values)
def new_before_old(q, k, v, past=None):
    """The new keys and values are put before the old ones.

    Time runs along the length: the old ones first, torch.cat([past[0], k], dim=-2).
    """
    return attended(q, k, v, past, join=partial(joined, keys=in_front, values=in_front))


@mistake(of="attend_with_past", caught_by=test_values)
def new_values_before_old(q, k, v, past=None):
    """The new values are put before the old ones, and the keys behind them.

    Keys and values belong together: the old ones first in both, torch.cat([past[1], v], dim=-2).
    """
    return attended(q, k, v, past, join=partial(joined, values=in_front))


@mistake(of="attend_with_past", caught_by=test_values)
def past_not_attended(q, k, v, past=None):
    """The past grows, but the new tokens attend to each other alone.

    Join the keys and values first, and attend to all of them.
    """
    return attended(q, k, v, past, look=new_alone)


@mistake(of="attend_with_past", caught_by=test_values)
def past_replaced(q, k, v, past=None):
    """The past that is returned holds the new keys and values only.

    Return all of them, old and new, for the next call.
    """
    return attended(q, k, v, past, store=new_alone)


@mistake(of="attend_with_past", caught_by=test_values)
def past_never_grows(q, k, v, past=None):
    """The past is returned as it came, without the new keys and values.

    Return the joined keys and values.
    """
    return attended(q, k, v, past, store=lambda known, new: past or known)


@mistake(of="attend_with_past", caught_by=test_values)
def values_from_the_keys(q, k, v, past=None):
    """The values are joined from the keys: `k` or `past[0]` stands where `v` or `past[1]` should.

    Join past[1] and v for the values, as past[0] and k for the keys.
    """
    return attended(q, k, v, past, join=lambda k, v, past: joined(k, v, past)[:1] * 2)


@mistake(of="attend_with_past", caught_by=test_values)
def not_causal(q, k, v, past=None):
    """Nothing is hidden: every new token sees those that come after it.

    With n keys in all, query i of t sees the keys 0 to i + n - t.
    """
    return attended(q, k, v, past, visible=everywhere)


@mistake(of="attend_with_past", caught_by=test_values)
def top_left(q, k, v, past=None):
    """The causal triangle starts at the first key, as if the new tokens were the first of the text.

    Query i sits at position i + n - t: move the diagonal, tril(n - t).
    """
    return attended(q, k, v, past, visible=from_the_first_key)


@mistake(of="attend_with_past", caught_by=test_values)
def mask_only_without_a_past(q, k, v, past=None):
    """The causal mask is left out as soon as there is a past.

    That is right for one new token. Several of them must not see each other's future: mask always.
    """
    return attended(q, k, v, past, visible=everywhere if past else triangle)


@mistake(of="attend_with_past", caught_by=test_values)
def one_key_too_many(q, k, v, past=None):
    """Each query sees one key beyond its own position.

    The last key that query i may see is key i + n - t: tril(n - t), not n - t + 1.
    """
    return attended(q, k, v, past, visible=partial(moved, places=1))


@mistake(of="attend_with_past", caught_by=test_values)
def own_key_hidden(q, k, v, past=None):
    """A token does not see itself: the diagonal is hidden too.

    Query i sees its own key, the one at position i + n - t.
    """
    return attended(q, k, v, past, visible=partial(moved, places=-1))


@mistake(of="attend_with_past", caught_by=test_values)
def scale_missing(q, k, v, past=None):
    """The scores are not divided by sqrt(D).

    Multiply q @ k.mT by 1 / sqrt(D), where D is the width of the queries.
    """
    return attended(q, k, v, past, scale=lambda q, k: 1.0)


@mistake(of="attend_with_past", caught_by=test_values)
def divided_by_the_width(q, k, v, past=None):
    """The scores are divided by D instead of its square root.

    Multiply q @ k.mT by 1 / sqrt(D), where D is the width of the queries.
    """
    return attended(q, k, v, past, scale=lambda q, k: 1 / q.shape[-1])


@mistake(of="attend_with_past", caught_by=test_values)
def multiplied_by_the_root(q, k, v, past=None):
    """The scores are multiplied by sqrt(D) instead of divided by it.

    Divide: the wider the heads, the larger the raw scores.
    """
    return attended(q, k, v, past, scale=lambda q, k: q.shape[-1] ** 0.5)


@mistake(of="attend_with_past", caught_by=test_values)
def scale_of_the_length(q, k, v, past=None):
    """The scores are divided by the root of the number of keys instead of the width.

    The width of the queries, q.shape[-1], does not change as the past grows.
    """
    return attended(q, k, v, past, scale=lambda q, k: max(k.shape[-2], 1) ** -0.5)


@mistake(of="attend_with_past", caught_by=test_values)
def scale_one_per_cent_off(q, k, v, past=None):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt(q.shape[-1]) itself: no constant added to it, no rounded number.
    """
    return attended(q, k, v, past, scale=lambda q, k: 0.99 * inverse_root(q, k))


@mistake(of="attend_with_past", caught_by=test_precision)
def float64_lowered(q, k, v, past=None):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return attended(q, k, v, past, widen=torch.Tensor.float)


@mistake(of="attend_with_past", caught_by=test_hidden)
def hidden_with_a_finite_number(q, k, v, past=None):
    """-1e9 is added to the scores of later tokens, which is not enough if those are large.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, past, hide=added(-1e9))


@mistake(of="attend_with_past", caught_by=test_hidden)
def minus_10_000_added(q, k, v, past=None):
    """-10,000 is added to the scores of later tokens, which is not enough if those are large.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, past, hide=added(-1e4))


@mistake(of="attend_with_past", caught_by=test_values)
def scaled_keys_stored(q, k, v, past=None):
    """The keys are divided by sqrt(D) before they go into the past, and there again at each call.

    Scale the scores, or the queries: the past keeps the keys as they came.
    """

    def join(k, v, past):
        keys, values = joined(k, v, past)
        return keys * q.shape[-1] ** -0.5, values

    return attended(q, k, v, past, join=join, scale=lambda q, k: 1.0)


@mistake(of="attend_with_past", caught_by=test_hidden)
def filled_with_minus_10_000(q, k, v, past=None):
    """The scores of later tokens become -10,000, which hides nothing where all scores are lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, past, hide=filled(-1e4))


@mistake(of="attend_with_past", caught_by=test_values)
def masked_after_the_softmax(q, k, v, past=None):
    """The weights of later tokens are set to zero after the softmax, so the rest sum to too little.

    Hide the scores with -inf before the softmax.
    """
    return attended(q, k, v, past, hide=unchanged, close=multiplied)


@mistake(of="attend_with_past", caught_by=test_precision)
def logsumexp(q, k, v, past=None):
    """exp(scores - logsumexp(scores)) loses its small digits when the scores are large.

    Use torch.softmax: it subtracts the maximum and divides, and the division keeps the digits.
    """

    def weigh(hidden, keep):
        return (hidden - hidden.logsumexp(-1, keepdim=True)).exp()

    return attended(q, k, v, past, weigh=weigh)


@mistake(of="attend_with_past", caught_by=test_precision)
def no_maximum(q, k, v, past=None):
    """exp of the scores is divided by its sum without the maximum taken off: large ones overflow.

    Use torch.softmax: it subtracts the maximum.
    """
    return attended(q, k, v, past, weigh=without_maximum)


@mistake(of="attend_with_past", caught_by=test_precision)
def half_precision_not_raised(q, k, v, past=None):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute in float32 (q.float() and so on) and convert the output back at the end.
    """
    return attended(q, k, v, past, widen=unchanged)


@mistake(of="attend_with_past", caught_by=test_precision)
def output_left_in_float32(q, k, v, past=None):
    """The output of half precision comes back in float32.

    Convert it to the dtype of the queries: .to(q.dtype).
    """
    return attended(q, k, v, past, narrow=unchanged)


@mistake(of="attend_with_past", caught_by=test_precision)
def past_left_in_float32(q, k, v, past=None):
    """The past comes back in float32 although keys and values were in half precision.

    Convert copies for the computation, and return the keys and values as they were joined.
    """
    return attended(q, k, v, past, store=lambda known, new: tuple(map(raised, known)))


@mistake(of="attend_with_past", caught_by=test_gradient)
def past_detached(q, k, v, past=None):
    """No gradient reaches the past: it is detached.

    Join it as it is. A caller who wants no gradient detaches it, or uses torch.no_grad().
    """
    old = past and tuple(x.detach() for x in past)
    return attended(q, k, v, old)


@mistake(of="attend_with_past", caught_by=test_gradient)
def graph_cut(q, k, v, past=None):
    """The gradient is cut: torch.no_grad(), .data, .detach() or NumPy on the way.

    Use PyTorch operators only, from the inputs to the output.
    """
    output, known = attended(q, k, v, past)
    return output.detach(), known


@mistake(of="attend_with_past", caught_by=test_chunks)
def queries_scaled_in_place(q, k, v, past=None):
    """The caller's queries are scaled in place: `q /= ...`.

    Write q = q / math.sqrt(D): it makes a new tensor.
    """
    answer = attended(q.clone(), k, v, past)
    q.data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_chunks)
def past_scaled_in_place(q, k, v, past=None):
    """The caller's past is changed in place.

    A past may be shared by several continuations of one text: make new tensors with torch.cat.
    """
    answer = attended(q, k, v, past)
    if past is not None:
        past[0].data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_precision)
def positions_in_half_precision(q, k, v, past=None):
    """Positions are numbers of the dtype of q, and far ones are rounded in half precision.

    Compare positions as whole numbers: torch.arange without a dtype.
    """

    def visible(q, k):
        positions = torch.arange(k.shape[-2], dtype=q.dtype, device=q.device)
        return positions <= positions[k.shape[-2] - q.shape[-2] :, None]

    return attended(q, k, v, past, visible=visible)


@mistake(of="attend_with_past", caught_by=test_precision)
def scores_cut_at_the_end_of_float16(q, k, v, past=None):
    """Scores beyond float16 are cut to its largest number, so that all of them are alike.

    Compute the scores in float32, which holds them, and leave them as they are.
    """

    def hide(scores, keep):
        if q.dtype is torch.float16:
            most = 65504 * q.shape[-1] ** -0.5
            scores = scores.clamp(-most, most)
        return scores.masked_fill(~keep, -torch.inf)

    return attended(q, k, v, past, hide=hide)


@mistake(of="attend_with_past", caught_by=test_chunks)
def mask_on_the_default_device(q, k, v, past=None):
    """The mask lies on the CPU, wherever the queries are.

    Give torch.arange or torch.ones the device of q.
    """

    def visible(q, k):
        t, n = q.shape[-2], k.shape[-2]
        return torch.ones(t, n, dtype=torch.bool).tril(n - t)

    return attended(q, k, v, past, visible=visible)


@mistake(of="attend_with_past", caught_by=test_values, null=True)
def zeros(q, k, v, past=None):
    """The output is zeros.

    Nothing is computed yet: scores, softmax, and a mixture of the values.
    """
    return q.new_zeros(*q.shape[:-1], v.shape[-1]), joined(k, v, past)


@mistake(of="attend_with_past", caught_by=test_values, null=True)
def own_value(q, k, v, past=None):
    """The output of a token is its own value.

    It is a mixture of the values of all tokens so far, weighted by softmax(q k^T / sqrt(D)).
    """
    return v.clone(), joined(k, v, past)


@mistake(of="attend_with_past", caught_by=test_values, null=True)
def mean_of_the_values(q, k, v, past=None):
    """The output is the plain average of the values so far: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """
    return attended(q, k, v, past, scale=lambda q, k: 0.0)


@mistake(of="attend_with_past", caught_by=test_values, null=True)
def largest_score_only(q, k, v, past=None):
    """The output is the value with the largest score: that is argmax.

    Softmax leaves something for the others.
    """

    def largest(hidden, keep):
        return torch.zeros_like(hidden).scatter(-1, hidden.argmax(-1, keepdim=True), 1.0)

    return attended(q, k, v, past, weigh=largest)


@mistake(of="attend_with_past", caught_by=test_values, null=True)
def queries_returned(q, k, v, past=None):
    """The queries are returned, or a linear map of them.

    The output is a mixture of the values: weights @ v.
    """
    matrix = torch.ones(q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
    return q @ matrix, joined(k, v, past)


@mistake(of="attend_with_past", caught_by=test_precision)
def softmax_in_float32(q, k, v, past=None):
    """Only the softmax is computed in float32: softmax(scores, dim=-1, dtype=torch.float32). The
    scores of half precision have overflowed by then, and float64 loses its digits.

    Convert before the product: wide = torch.promote_types(q.dtype, torch.float32), q.to(wide).
    """

    def weigh(hidden, keep):
        return torch.softmax(hidden, -1, dtype=torch.float32).to(q.dtype)

    return attended(q, k, v, past, widen=unchanged, weigh=weigh)


@mistake(of="attend_with_past", caught_by=test_precision)
def root_in_float32(q, k, v, past=None):
    """The scores are divided by torch.sqrt(torch.tensor(D)), a number of float32, in float64 too.

    Use math.sqrt(D): a Python number has the digits of float64.
    """
    root = torch.sqrt(torch.tensor(q.shape[-1], dtype=torch.float32)).item()
    return attended(q, k, v, past, scale=lambda q, k: 1 / root)


@mistake(of="attend_with_past", caught_by=test_values)
def heads_beyond_64_forgotten(q, k, v, past=None):
    """Only the first 64 sequences or heads are computed; the rest is zeros.

    Leave every leading dimension whole: @ takes as many as there are.
    """
    output, known = attended(q, k, v, past)
    for axis in range(q.ndim - 2):
        kept = torch.arange(output.shape[axis], device=q.device) < 64
        output = output * kept.view(-1, *[1] * (q.ndim - axis - 1))
    return output, known


@mistake(of="attend_with_past", caught_by=test_values)
def recent_1024_only(q, k, v, past=None):
    """The new tokens attend to the last 1024 keys only, as if there were a window.

    Attend to all n keys; nothing is said of a window here.
    """
    return attended(q, k, v, past, visible=lambda q, k: triangle(q, k) & ~moved(q, k, -1024))


@mistake(of="attend_with_past", caught_by=test_values)
def no_past_for_one_sequence(q, k, v, past=None):
    """With a batch of one and several new tokens the past is left out.

    Use the past whenever it is not None; no size has a part in that.
    """
    alone = past is not None and q.ndim == 4 and len(q) == 1 and q.shape[-2] > 1
    return attended(q, k, v, past, look=new_alone if alone else unchanged)


@mistake(of="attend_with_past", caught_by=test_values)
def triangle_of_equal_lengths(q, k, v, past=None):
    """As many new tokens as old ones: the triangle is taken for that of a text without a past.

    Query i sits at position i + n - t, whatever t and n are.
    """
    equal = past is not None and past[0].shape[-2] == q.shape[-2]
    return attended(q, k, v, past, visible=from_the_first_key if equal else triangle)


@mistake(of="attend_with_past", caught_by=test_gradient)
def graph_cut_for_equal_lengths(q, k, v, past=None):
    """Where there are as many old tokens as new ones, no gradient reaches the past.

    Join the past as it is, whatever its length.
    """
    if past is not None and past[0].shape[-2] == q.shape[-2]:
        past = tuple(x.detach() for x in past)
    return attended(q, k, v, past)


@mistake(of="attend_with_past", caught_by=test_gradient)
def graph_cut_for_one_head(q, k, v, past=None):
    """With a single head, or a batch of one, no gradient reaches the keys.

    The gradient is the caller's choice, and no size has a part in it.
    """

    def look(known, new):
        keys, values = known
        return keys.detach() if keys.ndim == 4 and keys.shape[1] == 1 else keys, values

    return attended(q, k, v, past, look=look)


_kept = {}


@mistake(of="attend_with_past", caught_by=test_chunks)
def answer_kept_by_shape(q, k, v, past=None):
    """The joined keys of the last call are kept, and used again for a call of the same shapes.

    Keep nothing: the past that comes in is all that the function knows.
    """
    shapes = (q.shape, k.shape, v.shape, past and past[0].shape)

    def join(k, v, past):
        keys, values = joined(k, v, past)
        if past is not None and _kept.get("shapes") == shapes:
            keys = _kept["keys"]
        _kept.update(shapes=shapes, keys=keys.detach())
        return keys, values

    return attended(q, k, v, past, join=join)


@mistake(of="attend_with_past", caught_by=test_chunks)
def same_tensor_halved(q, k, v, past=None):
    """Where queries and keys are equal, each pair is counted once: the scores are halved.

    q @ k.mT is all there is to a score, whatever the tensors are.
    """
    half = 0.5 if q.shape == k.shape and torch.equal(q, k) else 1.0
    return attended(q, k, v, past, scale=lambda q, k: half * inverse_root(q, k))


@mistake(of="attend_with_past", caught_by=test_empty)
def flattened_by_a_guess(q, k, v, past=None):
    """Leading dimensions are flattened by view(-1, ...), which an empty batch does not allow.

    Leave the dimensions as they are, for @ takes any; or use flatten(0, -3).
    """
    output, known = attended(q, k, v, past)
    return output.reshape(-1, *output.shape[-2:]).reshape(output.shape), known


@mistake(of="attend_with_past", caught_by=test_empty)
def no_new_tokens_refused(q, k, v, past=None):
    """A call without new tokens raises, because the largest score of no scores is asked for.

    t may be 0: leave the largest score to torch.softmax, which takes empty tensors.
    """
    if q.shape[-2] == 0:
        raise RuntimeError("max(): Expected reduction dim to be specified")
    return attended(q, k, v, past)


@mistake(of="attend_with_past", caught_by=test_hidden)
def maximum_starts_at_zero(q, k, v, past=None):
    """The largest score is sought from 0 upward, so that scores which are all very low give 0 / 0.

    Begin with -inf, or with the first score; torch.softmax does it right.
    """

    def weigh(hidden, keep):
        if not hidden.numel():
            return hidden
        powers = (hidden - hidden.detach().amax(-1, keepdim=True).clamp(min=0)).exp()
        return powers / powers.sum(-1, keepdim=True)

    return attended(q, k, v, past, weigh=weigh)


@mistake(of="attend_with_past", caught_by=test_precision)
def no_maximum_with_a_past(q, k, v, past=None):
    """With a past, exp of the scores is divided by its sum without the maximum taken off.

    Use one softmax for both ways, and one that subtracts the maximum: torch.softmax.
    """
    return attended(q, k, v, past, weigh=softmax if past is None else without_maximum)
