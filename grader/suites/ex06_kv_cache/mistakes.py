"""What goes wrong around a key/value cache: one step of `steps.py` is another."""

from functools import partial

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from .steps import (
    Cache,
    Layer,
    attended,
    filled,
    inverse_root,
    joined,
    raised,
    softmax,
    triangle,
    unchanged,
)
from .test_kv_cache import (
    test_cache,
    test_cache_own,
    test_cache_refuses,
    test_chunks,
    test_empty,
    test_gradient,
    test_hidden,
    test_layer,
    test_layer_with_cache,
    test_precision,
    test_values,
)


def in_front(old, new):
    return torch.cat([new, old], -2)


def along(axis):
    """A step that joins along another axis than the length."""

    def join(old, new):
        return torch.cat([old, new], axis)

    return partial(joined, keys=join, values=join)


def new_alone(known, new):
    return new


def cut_to_float32(scores, keep):
    """Scores within the range of float32, those of later tokens hidden."""
    most = torch.finfo(torch.float32).max
    return scores.clamp(-most, most).masked_fill(~keep, -torch.inf)


def everywhere(q, k):
    return triangle(q, k, k.shape[-2])


def from_the_first_key(q, k):
    return triangle(q, k, 0)


def moved(q, k, places):
    """The triangle with its diagonal some places too far to the right."""
    return triangle(q, k, k.shape[-2] - q.shape[-2] + places)


def added(low):
    """A step that adds a low number to hidden scores."""
    return lambda scores, keep: scores + torch.zeros_like(scores).masked_fill(~keep, low)


def without_maximum(hidden, keep):
    powers = hidden.exp()
    return powers / powers.sum(-1, keepdim=True)


def multiplied(weights, keep):
    return weights * keep


# Task 1: the past as a tuple


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


# Task 2: the preallocated cache


@mistake(of="KVCache", caught_by=test_cache)
class PositionRestarts(Cache):
    """Every append writes at position 0, over what was there.

    Write from self.length on: self.keys[:, :, self.length : self.length + t] = k.
    """

    def write(self, start, k, v):
        super().write(0, k, v)


@mistake(of="KVCache", caught_by=test_cache)
class FirstSequenceOnly(Cache):
    """Only the first sequence of the batch is written.

    Write the whole batch: self.keys[:, :, self.length : self.length + t] = k.
    """

    def write(self, start, k, v):
        self.keys[:1, :, start : start + k.shape[-2]] = k[:1]
        self.values[:1, :, start : start + v.shape[-2]] = v[:1]


@mistake(of="KVCache", caught_by=test_cache)
class LengthStandsStill(Cache):
    """`length` never moves.

    After writing t tokens, add t to self.length.
    """

    def append(self, k, v):
        so_far = super().append(k, v)
        self.length = 0
        return so_far


@mistake(of="KVCache", caught_by=test_cache)
class LengthMovesByOne(Cache):
    """`length` moves by 1 however many tokens are appended.

    Add the number of new tokens, k.shape[2].
    """

    def advance(self, t):
        self.length += 1


@mistake(of="KVCache", caught_by=test_cache)
class LengthMovesFirst(Cache):
    """`length` moves before the write, so the tokens land one append too far.

    Write from the old length on, then move it.
    """

    def write(self, start, k, v):
        super().write(start + k.shape[2], k, v)


@mistake(of="KVCache", caught_by=test_cache)
class OnePlaceTooFar(Cache):
    """The tokens are written one place too far: place 0 stays empty.

    The first free place is self.length, not self.length + 1.
    """

    def write(self, start, k, v):
        super().write(start + 1, k, v)


@mistake(of="KVCache", caught_by=test_cache)
class NewOnesReturned(Cache):
    """append returns the new keys and values only.

    Return all so far: self.keys[:, :, : self.length], and the same of the values.
    """

    def append(self, k, v):
        super().append(k, v)
        return k, v


@mistake(of="KVCache", caught_by=test_cache)
class NewPlacesReturned(Cache):
    """append returns only the places that it has just written.

    Return all so far: self.keys[:, :, : self.length], and the same of the values.
    """

    def append(self, k, v):
        start = self.length
        return tuple(x[:, :, start:] for x in super().append(k, v))


@mistake(of="KVCache", caught_by=test_cache)
class WholeBufferReturned(Cache):
    """append returns the whole buffer, empty places among the keys.

    Return the filled part: self.keys[:, :, : self.length]. An empty key would take weight.
    """

    def so_far(self):
        return self.keys, self.values


@mistake(of="KVCache", caught_by=test_cache)
class ValuesReturnedFirst(Cache):
    """append returns the values first, and then the keys.

    Return them in the order in which they came: keys, then values.
    """

    def so_far(self):
        return super().so_far()[::-1]


@mistake(of="KVCache", caught_by=test_cache)
class KeysWrittenTwice(Cache):
    """The keys are written into the buffer of the values, too.

    self.values[:, :, start:end] = v.
    """

    def write(self, start, k, v):
        super().write(start, k, k)


@mistake(of="KVCache", caught_by=test_cache)
class OneBufferForBoth(Cache):
    """Keys and values are two names of one buffer: `self.keys = self.values = torch.zeros(...)`.

    Make two tensors.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.values = self.keys


@mistake(of="KVCache", caught_by=test_cache)
class NewBeforeOld(Cache):
    """New tokens are put before the old ones.

    Time runs along the length: new tokens go behind the last one.
    """

    def write(self, start, k, v):
        t = k.shape[2]
        self.keys, self.values = self.keys.roll(t, 2), self.values.roll(t, 2)
        super().write(0, k, v)


@mistake(of="KVCache", caught_by=test_cache)
class LengthIsATensor(Cache):
    """`length` is a tensor.

    It is a Python int: count with k.shape[2].
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.length = torch.tensor(0)


@mistake(of="KVCache", caught_by=test_cache_own)
class SharedBetweenCaches(Cache):
    """The buffers belong to the class, so that one cache writes over what another one holds.

    Make them in __init__ as self.keys and self.values, for every object anew.
    """

    shared = {}  # noqa: RUF012 (that is the mistake)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        known = self.shared.setdefault((self.keys.shape, self.keys.dtype), self)
        self.keys, self.values = known.keys, known.values


@mistake(of="KVCache", caught_by=test_cache_own)
class DtypeIgnored(Cache):
    """`dtype` is ignored: the buffers are float32 whatever was asked for.

    torch.zeros(shape, dtype=dtype, device=device).
    """

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        super().__init__(batch, num_heads, max_len, head_dim, device=device)


@mistake(of="KVCache", caught_by=test_cache_own)
class DtypeOfTheTokens(Cache):
    """append answers in the dtype of what it was given, not in that of the cache.

    Copy the tokens into buffers of the cache's dtype, and return these.
    """

    def append(self, k, v):
        keys, values = super().append(k, v)
        return keys.to(k.dtype), values.to(v.dtype)


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetKeepsTheLength(Cache):
    """reset clears the buffers, but the next append goes on where the last one stopped.

    Set self.length = 0. The buffers need not be cleared.
    """

    def reset(self):
        self.keys.zero_()
        self.values.zero_()


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetForgetsTheDtype(Cache):
    """reset makes new buffers, and makes them float32 whatever the cache was asked to be.

    Set self.length = 0 and keep the buffers: what lies beyond `length` is never read.
    """

    def reset(self):
        self.__init__(*self.keys.shape, device=self.keys.device)


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetTakesNewMemory(Cache):
    """reset takes new memory, so that the cache lies elsewhere afterwards.

    Set self.length = 0 and keep the buffers: what lies beyond `length` is never read.
    """

    def reset(self):
        super().reset()
        self.keys, self.values = torch.zeros_like(self.keys), torch.zeros_like(self.values)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class NothingCompared(Cache):
    """append writes at once, and PyTorch complains when it does not fit, or copies and is silent.

    Compare the shapes and the room first, and raise a ValueError with both numbers.
    """

    def check(self, k, v):
        pass


@mistake(of="KVCache", caught_by=test_cache_refuses)
class RoomNotCompared(Cache):
    """The room is not compared, or only with the length before the append: PyTorch complains when
    tokens do not fit.

    Raise a ValueError with both numbers if self.length + t is more than max_len.
    """

    def check_room(self, needed, room):
        pass


@mistake(of="KVCache", caught_by=test_cache_refuses)
class FullRefusesNoTokens(Cache):
    """A full cache refuses an append of no tokens, which fits.

    Refuse only if length + t is more than max_len.
    """

    def check_room(self, needed, room):
        super().check_room(needed, room)
        if self.length == room:
            raise ValueError(f"{room} of {room} places are taken")


@mistake(of="KVCache", caught_by=test_cache_refuses)
class NoTokensNotChecked(Cache):
    """Where k has no tokens, append returns before it compares the shape of v.

    Compare both shapes first, whatever t is.
    """

    def append(self, k, v):
        return super().append(k, v) if k.shape[2] else self.so_far()


@mistake(of="KVCache", caught_by=test_cache_refuses)
class OverflowCut(Cache):
    """What does not fit is dropped without a word.

    Compare self.length + t with max_len, and raise a ValueError with both before writing anything.
    """

    def check_room(self, needed, room):
        pass

    def write(self, start, k, v):
        room = self.keys.shape[2] - start
        super().write(start, k[:, :, :room], v[:, :, :room])

    def advance(self, t):
        self.length = min(self.length + t, self.keys.shape[2])


@mistake(of="KVCache", caught_by=test_cache_refuses)
class OverflowWrapsAround(Cache):
    """A full cache begins again at position 0 and forgets its oldest tokens.

    That is a sliding window. This cache raises a ValueError when it is full.
    """

    def append(self, k, v):
        if self.length + k.shape[2] > self.keys.shape[2]:
            self.length = 0
            k, v = k[:, :, -self.keys.shape[2] :], v[:, :, -self.keys.shape[2] :]
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class CacheGrows(Cache):
    """A full cache grows instead of refusing.

    `max_len` is a promise about memory: raise a ValueError with the length needed and max_len.
    """

    def append(self, k, v):
        missing = max(self.length + k.shape[2] - self.keys.shape[2], 0)
        pad = (0, 0, 0, missing)
        self.keys = torch.nn.functional.pad(self.keys, pad)
        self.values = torch.nn.functional.pad(self.values, pad)
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class CheckedTooLate(Cache):
    """The overflow is noticed after `length` has moved, so the cache is spoiled by the refusal.

    Compute the new length, compare, raise; only then write and move self.length.
    """

    def check_room(self, needed, room):
        if needed > room:
            self.length = needed
        super().check_room(needed, room)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class FullOneTooEarly(Cache):
    """The last place can never be used: `>=` where `>` is meant.

    max_len tokens fit. Refuse if self.length + t > max_len.
    """

    def check_room(self, needed, room):
        if needed >= room:
            raise ValueError(f"{needed} of {room}")


@mistake(of="KVCache", caught_by=test_cache_refuses)
class RefusedWithoutNumbers(Cache):
    """The ValueError says that the cache is full, but not how full and of how many.

    Put the length that would be needed and max_len into the message.
    """

    def check(self, k, v):
        try:
            super().check(k, v)
        except ValueError:
            raise ValueError("the cache is full") from None


@mistake(of="KVCache", caught_by=test_cache_refuses)
class RefusedWithAnAssertion(Cache):
    """The refusal is an AssertionError.

    Asserts are for what cannot happen. Raise ValueError(f"... {end} ... {max_len}").
    """

    def check(self, k, v):
        try:
            super().check(k, v)
        except ValueError as error:
            raise AssertionError(str(error)) from None


@mistake(of="KVCache", caught_by=test_cache_refuses)
class BatchBroadcast(Cache):
    """Shapes are not compared, so a batch of 1 is copied into every row of the cache.

    Compare k.shape and v.shape with (batch, num_heads, t, head_dim) before writing.
    """

    def check_shapes(self, k, v):
        batch = len(self.keys)
        super().check_shapes(k.expand(batch, -1, -1, -1), v.expand(batch, -1, -1, -1))


@mistake(of="KVCache", caught_by=test_cache_refuses)
class ValuesNotChecked(Cache):
    """Only the shape of the keys is compared, so values of another shape are broadcast.

    Compare v.shape as well.
    """

    def check_shapes(self, k, v):
        super().check_shapes(k, k)


@mistake(of="KVCache", caught_by=test_cache, null=True)
class Emptiness(Cache):
    """append returns zeros of the right shape: nothing is ever stored.

    Write k and v into the buffers.
    """

    def write(self, start, k, v):
        pass


@mistake(of="KVCache", caught_by=test_cache_own)
class Concatenating(Cache):
    """Every append joins old and new by torch.cat, and so copies all that was there.

    Take the memory once, in __init__, and write the new tokens into it from self.length on.
    """

    def write(self, start, k, v):
        t = k.shape[2]
        parts = [(self.keys, k), (self.values, v)]
        self.keys, self.values = (
            torch.cat([x[:, :, :start], new.to(x), x[:, :, start + t :]], 2) for x, new in parts
        )


@mistake(of="KVCache", caught_by=test_cache_own)
class MemoryGrowsWithTheText(Cache):
    """The memory begins empty and grows with the text.

    torch.zeros(batch, num_heads, max_len, head_dim) in __init__: its whole length at once.
    """

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        super().__init__(batch, num_heads, 0, head_dim, dtype, device)
        self.max_len = max_len

    def append(self, k, v):
        if self.length + k.shape[2] > self.max_len:
            raise ValueError(f"{self.length + k.shape[2]} tokens, {self.max_len} places")
        pad = (0, 0, 0, k.shape[2])
        self.keys = torch.nn.functional.pad(self.keys[:, :, : self.length], pad)
        self.values = torch.nn.functional.pad(self.values[:, :, : self.length], pad)
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_cache_own)
class MemoryForShow(Cache):
    """`keys` and `values` are written and never read: append returns a second store, a tuple that
    grows by torch.cat.

    Return what lies in the memory: self.keys[:, :, : self.length].
    """

    past = None

    def append(self, k, v):
        super().append(k, v)
        self.past = joined(k.detach().to(self.keys), v.detach().to(self.values), self.past)
        return self.past

    def reset(self):
        super().reset()
        self.past = None


@mistake(of="KVCache", caught_by=test_cache_own)
class FullTextKept(Cache):
    """A text that fills the empty cache at once is kept as it came, not copied.

    Copy it into the memory; the caller may change his tensors afterwards.
    """

    def write(self, start, k, v):
        if k.shape == self.keys.shape and k.dtype == self.keys.dtype:
            self.keys, self.values = k, v
        else:
            super().write(start, k, v)


@mistake(of="KVCache", caught_by=test_cache_own)
class DeviceIgnored(Cache):
    """`device` is ignored: the memory is on the default device whatever was asked for.

    torch.zeros(shape, dtype=dtype, device=device).
    """

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        super().__init__(batch, num_heads, max_len, head_dim, dtype)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class HalfWrittenWhenRefused(Cache):
    """Of what does not fit the first tokens are written, and only then comes the ValueError.

    Compare before anything is written: a refused call leaves the cache as it was.
    """

    def check(self, k, v):
        room = self.keys.shape[2] - self.length
        try:
            super().check(k, v)
        except ValueError:
            if (
                k.shape == v.shape
                and k.shape[2] > room
                and k[:, :, :0].shape == self.keys[:, :, :0].shape
            ):
                self.write(self.length, k[:, :, :room], v[:, :, :room])
                self.length += room
            raise


@mistake(of="KVCache", caught_by=test_cache_refuses)
class NumbersOfThisCallOnly(Cache):
    """The ValueError of a full cache has the number of new tokens, not the length they would make.

    Put self.length + t and max_len into the message.
    """

    def check_room(self, needed, room):
        if needed > room:
            raise ValueError(f"no room for {needed - self.length} in {room}")


@mistake(of="KVCache", caught_by=test_cache_refuses)
class OneTokenAlwaysFits(Cache):
    """A single token goes into a full cache: it is written over the last one.

    Compare self.length + t with max_len for every t, 1 too.
    """

    def append(self, k, v):
        if k.shape[2] == 1 and v.shape == k.shape and self.length == self.keys.shape[2]:
            self.length -= 1
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_empty)
class NoTokensRefused(Cache):
    """An append of no tokens raises an error.

    t may be 0: then nothing is written, and all so far comes back.
    """

    def check(self, k, v):
        super().check(k, v)
        if k.shape[2] == 0:
            raise ValueError("there is nothing to append")


@mistake(of="KVCache", caught_by=test_cache)
class At1024ItWraps(Cache):
    """Positions are counted modulo 1024, so that a longer text writes over its beginning.

    Write from self.length on, as far as max_len goes.
    """

    def write(self, start, k, v):
        super().write(start % 1024, k, v)


# Task 3: the layer


@mistake(of="CachedAttention", caught_by=test_layer)
class NotCausal(Layer):
    """Without a cache nothing is hidden: a token sees those that come after it.

    Mask in every call: query i sees the keys 0 to i + n - t.
    """

    def visible(self, q, k):
        return everywhere(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class WeightsRememberedInEval(Layer):
    """In .eval() the output projection of the first call is kept, and new weights are not noticed.

    Call self.w_o(heads) each time: in evaluation, too, somebody may load others.
    """

    def forward(self, x, cache=None):
        if self.training or x.device.type == "meta":
            return super().forward(x, cache)
        kept = self.__dict__.setdefault("kept", self.w_o.weight.detach().clone())
        now = self.w_o.weight.data
        self.w_o.weight.data = kept.to(now)
        try:
            return super().forward(x, cache)
        finally:
            self.w_o.weight.data = now


@mistake(of="CachedAttention", caught_by=test_layer)
class SplitWithoutTranspose(Layer):
    """The heads are split with one view, which cuts the tokens and not the width.

    First view as (B, t, H, D), then transpose(1, 2).
    """

    def split(self, x):
        batch, t, width = x.shape
        return x.reshape(batch, self.num_heads, t, width // self.num_heads)


@mistake(of="CachedAttention", caught_by=test_layer)
class MergeWithoutTranspose(Layer):
    """The heads are merged with one view, which mixes tokens and heads.

    First transpose(1, 2), then flatten the last two dimensions.
    """

    def merge(self, x):
        batch, heads, t, width = x.shape
        return x.reshape(batch, t, heads * width)


@mistake(of="CachedAttention", caught_by=test_layer)
class NoTranspose(SplitWithoutTranspose, MergeWithoutTranspose):
    """Heads are split and merged by one view each, so that tokens and heads get mixed up.

    A view moves no number. View as (B, t, H, D), then transpose; transpose back to merge.
    """


@mistake(of="CachedAttention", caught_by=test_layer)
class HeadsInterleaved(Layer):
    """A head takes every H-th number of the width instead of a run of D numbers.

    Split the width as (H, D), in this order.
    """

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)

    def merge(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


@mistake(of="CachedAttention", caught_by=test_layer)
class OneHead(Layer):
    """The width is not split: one head does all the work.

    Split queries, keys and values into num_heads heads of D = E / H.
    """

    def split(self, x):
        return x.unsqueeze(1)


@mistake(of="CachedAttention", caught_by=test_layer)
class ScaleOfTheModel(Layer):
    """The scores are divided by sqrt(d_model) instead of the root of a head's width.

    Divide by sqrt(D), with D = d_model / num_heads.
    """

    def scale(self, q, k):
        return (q.shape[-1] * self.num_heads) ** -0.5


@mistake(of="CachedAttention", caught_by=test_layer)
class Unscaled(Layer):
    """The scores are not divided by the root of a head's width.

    Divide by sqrt(D), with D = d_model / num_heads.
    """

    def scale(self, q, k):
        return 1.0


@mistake(of="CachedAttention", caught_by=test_layer)
class DividedByTheWidth(Layer):
    """The scores are divided by the width of a head, and not by its root.

    Divide by sqrt(D), with D = d_model / num_heads.
    """

    def scale(self, q, k):
        return 1 / q.shape[-1]


@mistake(of="CachedAttention", caught_by=test_layer)
class OneKeyTooMany(Layer):
    """Each token sees one key beyond its own position.

    The last key that query i may see is key i + n - t: tril(n - t), not n - t + 1.
    """

    def visible(self, q, k):
        return moved(q, k, 1)


@mistake(of="CachedAttention", caught_by=test_layer)
class ScaleOnePerCentOff(Layer):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt of a head's width itself: no constant added to it, no rounded number.
    """

    def scale(self, q, k):
        return 0.99 * inverse_root(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class KeysFromTheValuesProjection(Layer):
    """One projection is used twice: w_k for keys and values.

    Keys come from w_k, values from w_v.
    """

    def project(self, x):
        q, k, _ = super().project(x)
        return q, k, k


@mistake(of="CachedAttention", caught_by=test_layer)
class OutputProjectionForgotten(Layer):
    """The merged heads are returned without the last projection.

    Return self.w_o(merged).
    """

    def project_out(self, x):
        return x


@mistake(of="CachedAttention", caught_by=test_layer)
class BiasIgnored(Layer):
    """The projections have no bias although one was asked for.

    Hand it on: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads)


@mistake(of="CachedAttention", caught_by=test_empty)
class EmptyBatchNotAppended(Layer):
    """A batch of no texts is given back at once, and the cache does not count its tokens.

    Append whatever comes: a batch of no texts may have tokens.
    """

    def forward(self, x, cache=None):
        return super().forward(x, cache) if x.numel() else x.clone()


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class CacheNotRead(Layer):
    """With a cache, too, the tokens attend to those of this call alone.

    Append them, and go on with what append returns: k, v = cache.append(k, v).
    """

    def remember(self, k, v, cache):
        super().remember(k, v, cache)
        return k, v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class TopLeftWithCache(Layer):
    """With a cache the causal triangle starts at the first key: the newest token sees only that.

    Query i sits at position i + n - t: move the diagonal, tril(n - t).
    """

    def visible(self, q, k):
        return from_the_first_key(q, k)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class NoMaskWithCache(Layer):
    """With a cache nothing is hidden: of several new tokens, the first sees the last.

    A step of one token needs no mask. A chunk does: query i sees the keys 0 to i + n - t.
    """

    def visible(self, q, k):
        return everywhere(q, k) if self.cached else triangle(q, k)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class NoMaskAfterEarlierTokens(Layer):
    """As soon as the cache holds earlier tokens nothing is hidden: of several new tokens, the first
    sees the last.

    A step of one token needs no mask. A chunk does: query i sees the keys 0 to i + n - t.
    """

    def visible(self, q, k):
        return everywhere(q, k) if k.shape != q.shape else triangle(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class OneProjectionForQueriesAndKeys(Layer):
    """One projection is used twice: w_q for queries and keys.

    Queries come from w_q, keys from w_k.
    """

    def project(self, x):
        q, _, v = super().project(x)
        return q, q, v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class AppendedTwice(Layer):
    """append is called twice in one step, once for the keys and once for the values.

    Call it once: k, v = cache.append(k, v).
    """

    def remember(self, k, v, cache):
        if cache is None:
            return k, v
        return cache.append(k, v)[0], cache.append(k, v)[1]


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class RemembersTheLastCache(Layer):
    """The layer keeps the last cache, and uses it when it is called without one.

    The cache belongs to the caller: use the argument of this call, and no attribute.
    """

    def remember(self, k, v, cache):
        self.cache = cache if cache is not None else vars(self).get("cache")
        return super().remember(k, v, self.cache)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class ValuesAppendedAsKeys(Layer):
    """The two results of append are taken in the wrong order, or given in the wrong order.

    Keys first, values second: k, v = cache.append(k, v).
    """

    def remember(self, k, v, cache):
        if cache is None:
            return k, v
        v, k = cache.append(k, v)
        return k, v


@mistake(of="CachedAttention", caught_by=test_gradient)
class KeysDetached(Layer):
    """Keys and values are detached, so that w_k and w_v learn nothing.

    Without a cache the graph stays whole; cut it, if at all, only on the way into the cache.
    """

    def remember(self, k, v, cache):
        return super().remember(k.detach(), v.detach(), cache)


@mistake(of="CachedAttention", caught_by=test_precision)
class HalfPrecisionNotRaised(Layer):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute them in float32 and convert the heads back to the dtype of x before w_o.
    """

    def widen(self, x):
        return x


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class MaskBuiltOnce(Layer):
    """The mask is built in the first call and kept, so that it fits no later one.

    Build it in every call from t and n. It costs next to nothing.
    """

    def visible(self, q, k):
        kept = vars(self).setdefault("keep", triangle(q, k))
        return triangle(q, k, kept.shape[1] - kept.shape[0])


@mistake(of="CachedAttention", caught_by=test_layer)
class InputOverwritten(Layer):
    """x is changed in place.

    Write y = x + ... instead of x += ...: the first makes a new tensor.
    """

    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        x.data.add_(output.detach())
        return output


@mistake(of="CachedAttention", caught_by=test_layer)
class AnyNumberOfHeads(Layer):
    """A width that does not divide into the heads is accepted.

    Raise a ValueError with d_model and num_heads in it if d_model % num_heads.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, 1, bias)
        self.num_heads = num_heads


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class CacheInEvaluationOnly(Layer):
    """In training the cache is left out, as if it belonged to evaluation.

    The caller says by `cache` whether there is one; .train() and .eval() change nothing.
    """

    def remember(self, k, v, cache):
        return super().remember(k, v, None if self.training else cache)


@mistake(of="CachedAttention", caught_by=test_layer)
class DropoutInTraining(Layer):
    """In training a tenth of the output is dropped.

    There is no dropout here: .train() and .eval() give the same.
    """

    def forward(self, x, cache=None):
        return torch.nn.functional.dropout(super().forward(x, cache), 0.1, self.training)


@mistake(of="CachedAttention", caught_by=test_layer)
class CausalInEvaluationOnly(Layer):
    """In training the causal mask is left out.

    Mask in both: a token never sees those that come after it.
    """

    def visible(self, q, k):
        return everywhere(q, k) if self.training else triangle(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class AlwaysWithBias(Layer):
    """The projections have a bias although none was asked for.

    Hand it on: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, True)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class ValueBiasLostInDecode(Layer):
    """A single new token with a cache gets its value without the bias of w_v.

    Call the projection, w_v(x), for one token as for many.
    """

    def project(self, x):
        q, k, v = super().project(x)
        decode = self.cached and x.shape[1] == 1
        return q, k, self.split(x @ self.w_v.weight.mT) if decode else v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class NoPastForOneText(Layer):
    """With a batch of one and several new tokens, the earlier tokens are left out.

    Go on with what append returns, whatever the batch is.
    """

    def remember(self, k, v, cache):
        keys, values = super().remember(k, v, cache)
        return (k, v) if len(k) == 1 and k.shape[2] > 1 else (keys, values)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class OverflowComputedWithoutCache(Layer):
    """When the cache is full the layer goes on without it, and nobody hears of it.

    Let the cache's ValueError through.
    """

    def remember(self, k, v, cache):
        try:
            return super().remember(k, v, cache)
        except ValueError:
            return k, v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class Window1024WithCache(Layer):
    """With a cache the new tokens attend to the last 1024 keys only.

    Attend to all that append returns.
    """

    def remember(self, k, v, cache):
        k, v = super().remember(k, v, cache)
        return (k, v) if cache is None else (k[:, :, -1024:], v[:, :, -1024:])


@mistake(of="CachedAttention", caught_by=test_empty)
class MergedByAGuess(Layer):
    """The heads are merged by view(-1, t, E), which an empty batch does not allow.

    Give the sizes, reshape(batch, t, E), or use flatten(2).
    """

    def merge(self, x):
        _, heads, t, width = x.shape
        return x.transpose(1, 2).reshape(-1, t, heads * width)


@mistake(of="CachedAttention", caught_by=test_precision)
class SoftmaxInFloat32(Layer):
    """Only the softmax is computed in float32: the scores of half precision have overflowed by
    then, and float64 loses its digits.

    Convert queries and keys before the product, and raise half precision only.
    """

    def widen(self, x):
        return x

    def weigh(self, hidden, keep):
        return torch.softmax(hidden, -1, dtype=torch.float32).to(hidden.dtype)


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class Zeros(Layer):
    """The output is zeros.

    Nothing is computed yet: project, split, attend, merge, project.
    """

    def forward(self, x, cache=None):
        return torch.zeros_like(x)


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class InputReturned(Layer):
    """x is returned as it came.

    Project it, attend, and project again.
    """

    def forward(self, x, cache=None):
        return x.clone()


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class OwnValues(Layer):
    """Tokens do not attend: each is projected by w_v and w_o alone.

    The values are mixed before w_o, weighted by softmax(q k^T / sqrt(D)).
    """

    def forward(self, x, cache=None):
        return self.w_o(self.w_v(x))


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class MeanOfTheValues(Layer):
    """The values so far are averaged: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """

    def scale(self, q, k):
        return 0.0


# Right by themselves, wrong together


def _half(x):
    return x.dtype in (torch.float16, torch.bfloat16)


@mistake(of="attend_with_past", caught_by=test_precision)
def no_maximum_with_a_past(q, k, v, past=None):
    """With a past, exp of the scores is divided by its sum without the maximum taken off.

    Use one softmax for both ways, and one that subtracts the maximum: torch.softmax.
    """
    return attended(q, k, v, past, weigh=softmax if past is None else without_maximum)


@mistake(of="attend_with_past", caught_by=test_hidden)
def finite_number_with_a_past(q, k, v, past=None):
    """With a past, later tokens are hidden with -1e9 added, which a large key outweighs.

    Put -inf in the place of hidden scores, with and without a past.
    """
    return attended(q, k, v, past, hide=filled(-torch.inf) if past is None else added(-1e9))


@mistake(of="attend_with_past", caught_by=test_hidden)
def minus_10_000_with_a_past(q, k, v, past=None):
    """With a past, the scores of later tokens become -10,000, as low as true ones may be.

    Put -inf in the place of hidden scores, with and without a past.
    """
    return attended(q, k, v, past, hide=filled(-torch.inf if past is None else -1e4))


@mistake(of="attend_with_past", caught_by=test_precision)
def half_precision_not_raised_with_a_past(q, k, v, past=None):
    """With a past, the scores are computed in half precision.

    Compute in float32 with and without a past, and convert the output back at the end.
    """
    return attended(q, k, v, past, widen=raised if past is None else unchanged)


@mistake(of="attend_with_past", caught_by=test_precision)
def half_precision_not_raised_in_decode(q, k, v, past=None):
    """The way for a single new token is computed in half precision.

    One token overflows as well as many: q.float() there, too.
    """
    return attended(q, k, v, past, widen=raised if q.shape[-2] > 1 else unchanged)


@mistake(of="attend_with_past", caught_by=test_precision)
def top_left_in_half_precision(q, k, v, past=None):
    """In half precision the causal triangle starts at the first key.

    Query i sits at position i + n - t in every dtype.
    """
    corner = from_the_first_key if _half(q) and q.shape[-2] > 1 else triangle
    return attended(q, k, v, past, visible=corner)


@mistake(of="attend_with_past", caught_by=test_precision)
def graph_cut_in_half_precision(q, k, v, past=None):
    """In half precision the gradient is cut: x.detach().float(), or a new tensor from the numbers.

    x.float() converts and keeps the graph.
    """
    output, known = attended(q, k, v, past)
    return output.detach() if _half(q) else output, known


@mistake(of="attend_with_past", caught_by=test_gradient)
def graph_cut_in_decode(q, k, v, past=None):
    """A single new token gets no gradient: its way is taken under torch.no_grad().

    Whether gradients are wanted is the caller's choice.
    """
    output, known = attended(q, k, v, past)
    return output.detach() if q.shape[-2] == 1 else output, known


@mistake(of="attend_with_past", caught_by=test_gradient)
def past_returned_detached(q, k, v, past=None):
    """The past that is returned is detached, so that later tokens teach the earlier ones nothing.

    Return the joined keys and values as they are.
    """
    return attended(q, k, v, past, store=lambda known, new: tuple(x.detach() for x in known))


@mistake(of="attend_with_past", caught_by=test_chunks)
def queries_overwritten_without_a_past(q, k, v, past=None):
    """Without a past, the caller's queries are scaled in place.

    Write q = q / math.sqrt(D): it makes a new tensor.
    """
    answer = attended(q.clone(), k, v, past)
    if past is None:
        q.data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_precision)
def queries_overwritten_in_half_precision(q, k, v, past=None):
    """In half precision the caller's queries are scaled in place.

    Write q = q / math.sqrt(D): it makes a new tensor.
    """
    answer = attended(q.clone(), k, v, past)
    if _half(q):
        q.data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_chunks)
def past_overwritten_in_decode(q, k, v, past=None):
    """With a single new token, the caller's past is changed in place.

    A past may be shared by several continuations of one text: make new tensors with torch.cat.
    """
    answer = attended(q, k, v, past)
    if past is not None and q.shape[-2] == 1:
        past[0].data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_chunks)
def view_of_strided_memory_in_decode(q, k, v, past=None):
    """With a single new token the past is reshaped by view, which fails if it is strided in memory.

    Use reshape or flatten, which copy where they must; or leave the dimensions: @ takes any.
    """
    if past is not None and q.shape[-2] == 1:
        past = tuple(x.view(-1, *x.shape[-2:]).view(x.shape) for x in past)
    return attended(q, k, v, past)


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetKeepsTheRoomUsed(Cache):
    """reset sets `length` back, but not the count that the room is judged by.

    Keep one number: self.length.
    """

    used = 0

    def check(self, k, v):
        super().check(k, v)
        if self.used + k.shape[2] > self.keys.shape[2]:
            raise ValueError(f"{self.used} + {k.shape[2]} tokens, {self.keys.shape[2]} places")
        self.used += k.shape[2]


@mistake(of="KVCache", caught_by=test_cache_refuses)
class KeysNotChecked(Cache):
    """Only the shape of the values is compared, so a batch of keys of 1 is broadcast.

    Compare k.shape as well.
    """

    def check_shapes(self, k, v):
        super().check_shapes(v, v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class HeadsOfTheValuesBroadcast(Cache):
    """Values of one head are copied into every head of the cache.

    Compare all of v.shape with the shape of the cache, its heads too.
    """

    def check_shapes(self, k, v):
        super().check_shapes(k, v.expand(-1, k.shape[1], -1, -1) if v.shape[1] == 1 else v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class WidthOfTheValuesBroadcast(Cache):
    """Values of width 1 are copied into the whole width of the cache.

    Compare all of v.shape with the shape of the cache, its width too.
    """

    def check_shapes(self, k, v):
        super().check_shapes(k, v.expand(-1, -1, -1, k.shape[3]) if v.shape[3] == 1 else v)


@mistake(of="CachedAttention", caught_by=test_precision)
class NoMaximumWithCache(Layer):
    """With a cache, exp of the scores is divided by its sum without the maximum taken off.

    Use torch.softmax, with a cache and without: it subtracts the maximum.
    """

    def weigh(self, hidden, keep):
        return without_maximum(hidden, keep) if self.cached else super().weigh(hidden, keep)


@mistake(of="CachedAttention", caught_by=test_precision)
class NoMaximum(Layer):
    """exp of the scores is divided by its sum without the maximum taken off.

    Use torch.softmax: it subtracts the maximum.
    """

    def weigh(self, hidden, keep):
        return without_maximum(hidden, keep)


@mistake(of="CachedAttention", caught_by=test_hidden)
class HiddenWithMinus10000(Layer):
    """With a cache, the scores of later tokens become -10,000, as low as true ones may be.

    Put -inf in their place: masked_fill(~keep, -torch.inf).
    """

    def hide(self, scores, keep):
        return scores.masked_fill(~keep, -1e4 if self.cached else -torch.inf)


@mistake(of="CachedAttention", caught_by=test_precision)
class HalfPrecisionNotRaisedWithCache(Layer):
    """With a cache, the scores are computed in half precision.

    Compute them in float32, with a cache and without.
    """

    def widen(self, x):
        return x if self.cached else super().widen(x)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class InputOverwrittenWithCache(Layer):
    """With a cache, x is changed in place.

    Write y = x + ... instead of x += ...: the first makes a new tensor.
    """

    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        if cache is not None:
            x.data.add_(output.detach())
        return output


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class BiasNeededByTheCache(Layer):
    """With a cache the biases are added by hand, and fail where there are none.

    Call the projections, w_k(x): they know whether they have a bias.
    """

    def project(self, x):
        return super().project(x + 0 * self.w_k.bias if self.cached else x)


@mistake(of="CachedAttention", caught_by=test_gradient)
class GraphCutInFloat32(Layer):
    """No gradient reaches the projections for any dtype but float64.

    Leave .detach() and torch.no_grad() out, for every dtype.
    """

    def remember(self, k, v, cache):
        if k.dtype != torch.float64:
            k, v = k.detach(), v.detach()
        return super().remember(k, v, cache)


@mistake(of="CachedAttention", caught_by=test_precision)
class GraphCutInHalfPrecision(Layer):
    """No gradient reaches w_k and w_v in half precision: x.detach().float().

    x.float() converts and keeps the graph.
    """

    def remember(self, k, v, cache):
        if _half(k):
            k, v = k.detach(), v.detach()
        return super().remember(k, v, cache)


@mistake(of="CachedAttention", caught_by=test_gradient)
class GraphCutForOneToken(Layer):
    """A text of one token gets no gradient: its way is taken under torch.no_grad().

    Whether gradients are wanted is the caller's choice.
    """

    def remember(self, k, v, cache):
        if k.shape[2] == 1:
            k, v = k.detach(), v.detach()
        return super().remember(k, v, cache)


@mistake(of="CachedAttention", caught_by=test_precision)
class InputOverwrittenInHalfPrecision(Layer):
    """In half precision x is changed in place.

    Write y = x + ... instead of x += ...: the first makes a new tensor.
    """

    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        if _half(x):
            x.data.add_(output.detach())
        return output


@mistake(of="CachedAttention", caught_by=test_gradient)
class GradientsInTrainingOnly(Layer):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


def _in_one_piece(x):
    """The tensor, copied with .data if it does not lie in memory in one piece."""
    return x if x.is_contiguous() else x.data.contiguous()


@mistake(of="attend_with_past", caught_by=test_chunks)
def strided_past_copied_without_graph(q, k, v, past=None):
    """A past that does not lie in memory in one piece is first copied with .data, so that it gets
    no gradient.

    torch.cat takes it as it is. Where a copy is needed, make it with .contiguous().
    """
    return attended(q, k, v, past and tuple(map(_in_one_piece, past)))


@mistake(of="KVCache", caught_by=test_cache_own)
class DtypeOfTheTokensAfterAReset(Cache):
    """After a reset the memory takes the dtype of the tokens that come next.

    The memory is taken once, in the dtype given to __init__; copy tokens into it, which converts.
    """

    emptied = False

    def reset(self):
        super().reset()
        self.emptied = True

    def append(self, k, v):
        if self.emptied:
            self.keys, self.values = self.keys.to(k.dtype), self.values.to(v.dtype)
        return super().append(k, v)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class HeadsInTheDtypeOfTheCache(Layer):
    """The heads come back in the dtype of the cache, which w_o does not take if x has another.

    Convert the result of attention to the dtype of x before the last projection.
    """

    def forward(self, x, cache=None):
        q, k, v = self.project(x)
        keys, values = self.remember(k, v, cache)
        heads = self.merge(self.attend(q, keys, values))
        return self.project_out(heads if cache is None else heads.to(cache.keys.dtype))


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class StridedInputCopiedWithoutGraph(Layer):
    """An x that does not lie in memory in one piece is first copied with .data, so that it gets no
    gradient.

    nn.Linear takes it as it is. Where a copy is needed, make it with .contiguous().
    """

    def project(self, x):
        return super().project(_in_one_piece(x))


@mistake(of="attend_with_past", caught_by=test_precision)
def bfloat16_not_raised(q, k, v, past=None):
    """float16 is computed in float32, but bfloat16 is not, which tells scores of 512 and 513
    apart no longer.

    Raise both: torch.promote_types(q.dtype, torch.float32).
    """

    def widen(x):
        return x.float() if x.dtype == torch.float16 else x

    return attended(q, k, v, past, widen=widen)


@mistake(of="attend_with_past", caught_by=test_precision)
def queries_scaled_in_half_precision(q, k, v, past=None):
    """The queries are divided by sqrt(D) before they become float32, so that they are rounded.

    First q.float(), then the scale.
    """
    return attended(q * inverse_root(q, k), k, v, past, scale=lambda q, k: 1.0)


@mistake(of="attend_with_past", caught_by=test_hidden)
def filled_with_minus_1e30(q, k, v, past=None):
    """The scores of later tokens become -1e30, which hides nothing where all scores are lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, past, hide=filled(-1e30))


@mistake(of="attend_with_past", caught_by=test_precision)
def filled_with_the_lowest_of_float16(q, k, v, past=None):
    """For half precision the scores of later tokens become -65,504, the lowest number of float16;
    but the scores are float32, and may be lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, past, hide=filled(-65504.0 if _half(q) else -torch.inf))


@mistake(of="attend_with_past", caught_by=test_gradient)
def no_graph_unless_queries_learn(q, k, v, past=None):
    """No gradient reaches k, v and the past unless q requires one.

    Each input may be the only one that learns. Leave the graph to PyTorch.
    """
    with torch.set_grad_enabled(q.requires_grad):
        return attended(q, k, v, past)


@mistake(of="attend_with_past", caught_by=test_empty)
def no_past_of_no_tokens(q, k, v, past=None):
    """Where there are no new tokens, the past comes back as it was: None, if there was none.

    Return a pair in every case: without a past and with t = 0 it is (k, v), of no tokens.
    """
    output, known = attended(q, k, v, past)
    return output, known if q.shape[-2] else past


@mistake(of="KVCache", caught_by=test_cache_refuses)
class KeysWrittenBeforeTheValuesAreChecked(Cache):
    """The keys are written before the values are compared with the cache: if these do not fit, the
    cache is not as it was.

    Compare k, v and the room first, and write only then.
    """

    def check(self, k, v):
        try:
            super().check(k, v)
        except ValueError:
            room = self.keys[:, :, self.length : self.length + k.shape[2]]
            if k.shape == room.shape:
                room.copy_(k)
            raise


@mistake(of="CachedAttention", caught_by=test_precision)
class Bfloat16NotRaised(Layer):
    """The scores are computed in bfloat16, which tells 512 and 513 apart no longer.

    Compute them in float32, as for float16.
    """

    def widen(self, x):
        return x.float() if x.dtype == torch.float16 else x


@mistake(of="CachedAttention", caught_by=test_hidden)
class HiddenWithMinus1e30(Layer):
    """The scores of later tokens become -1e30, which hides nothing where all scores are lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """

    def hide(self, scores, keep):
        return scores.masked_fill(~keep, -1e30)


@mistake(of="CachedAttention", caught_by=test_precision)
class QueriesInTheDtypeOfTheCache(Layer):
    """The queries are converted to the dtype of the cache, and lose digits if it is a lower one.

    Convert what comes from the cache to the dtype of x, not the other way round.
    """

    def forward(self, x, cache=None):
        q, k, v = self.project(x)
        keys, values = self.remember(k, v, cache)
        if cache is not None:
            q = q.to(cache.keys.dtype).to(x.dtype)
        return self.project_out(self.merge(self.attend(q, keys, values)))


@mistake(of="CachedAttention", caught_by=test_gradient)
class NoGraphUnlessInputLearns(Layer):
    """The weights have no gradient unless x requires one.

    In training x seldom does. Leave the graph to PyTorch.
    """

    def forward(self, x, cache=None):
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            return super().forward(x, cache)


@mistake(of="attend_with_past", caught_by=test_precision)
def raised_where_gradients_are_on(q, k, v, past=None):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """
    return attended(q, k, v, past, widen=raised if torch.is_grad_enabled() else unchanged)


@mistake(of="CachedAttention", caught_by=test_precision)
class RaisedWhereGradientsAreOn(Layer):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """

    def widen(self, x):
        return super().widen(x) if torch.is_grad_enabled() else x


@mistake(of="attend_with_past", caught_by=test_precision)
def double_scores_cut_to_float32(q, k, v, past=None):
    """Scores are clamped to what float32 can hold, in float64 too, where larger ones become equal.

    Leave scores as they are: the softmax subtracts the largest.
    """
    return attended(q, k, v, past, hide=cut_to_float32)


@mistake(of="CachedAttention", caught_by=test_precision)
class DoubleScoresCutToFloat32(Layer):
    """Scores are clamped to what float32 can hold, in float64 too, where larger ones become equal.

    Leave scores as they are: the softmax subtracts the largest.
    """

    def hide(self, scores, keep):
        return cut_to_float32(scores, keep)


@mistake(of="KVCache", caught_by=test_cache_own)
class OldAnswerForNoTokens(Cache):
    """An append of no tokens returns the copies that an earlier append made.

    Return what lies in the memory now: self.keys[:, :, : self.length].
    """

    copies = None

    def append(self, k, v):
        so_far = super().append(k, v)
        if self.copies is None or k.shape[2]:
            self.copies = tuple(x.clone() for x in so_far)
        return self.copies

    def reset(self):
        super().reset()
        self.copies = None


@mistake(of="attend_with_past", caught_by=test_chunks)
def one_place_in_half_precision(q, k, v, past=None, places={}):  # noqa: B006 (that is the mistake)
    """In half precision all outputs of a form are written over the one before.

    Return a new tensor in every call, whatever the dtype.
    """
    output, known = attended(q, k, v, past)
    return output if q.dtype.itemsize > 2 else written_over(places, output), known


@mistake(of="attend_with_past", caught_by=test_precision)
def past_cut_off_in_half_precision(q, k, v, past=None):
    """In half precision the past is cut off from its gradient where q needs none.

    Leave detach() out: the past alone may learn.
    """
    alone = past is not None and q.dtype.itemsize == 2 and not q.requires_grad
    return attended(q, k, v, tuple(x.detach() for x in past) if alone else past)


@mistake(of="attend_with_past", caught_by=test_precision)
def distance_capped_at_50(q, k, v, past=None):
    """No distance from the largest score counts for more than 50.

    A small weight counts where its value is large. exp needs no limit below.
    """

    def weigh(hidden, keep):
        if not hidden.numel():
            return softmax(hidden, keep)
        distances = hidden - hidden.detach().amax(-1, keepdim=True)
        powers = distances.clamp(min=-50.0).exp() * keep
        return powers / powers.sum(-1, keepdim=True)

    return attended(q, k, v, past, weigh=weigh)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class OnePlaceWithACache(Layer):
    """With a cache all outputs of a form are written over the one before.

    Return a new tensor in every call, with a cache and without.
    """

    def project_out(self, x):
        output = super().project_out(x)
        return (
            written_over(self.__dict__.setdefault("places", {}), output) if self.cached else output
        )


@mistake(of="CachedAttention", caught_by=test_layer)
class KeysOfTheFirstCall(Layer):
    """The weights of w_k are copied once, and again if their first number changes.

    Read the weights in every call: anyone may change one number of them.
    """

    seen = None

    def forward(self, x, cache=None):
        if self.w_k.weight.requires_grad or x.is_meta:
            return super().forward(x, cache)
        weight, first = self.w_k.weight.data, float(self.w_k.weight.flatten()[0])
        if self.seen is None or self.seen[0] != first:
            self.seen = first, weight.clone()
        self.w_k.weight.data = self.seen[1]
        try:
            return super().forward(x, cache)
        finally:
            self.w_k.weight.data = weight
