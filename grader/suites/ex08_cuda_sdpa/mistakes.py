"""What goes wrong on the fast path, by name."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from grader.judging import mistake
from reference.ex08_cuda_sdpa import PlainFusedAttention
from reference.fused import best_backend, fused_attention

from .test_cuda_sdpa import (
    test_backend,
    test_causal,
    test_gradient,
    test_groups,
    test_manners,
    test_mask_and_bias,
    test_module,
    test_precision,
    test_values,
)


def _fits(q, k, v):
    heads = (q.shape[-3], k.shape[-3])
    pairs = [(q.shape[-1], k.shape[-1]), (k.shape[-2], v.shape[-2]), (k.shape[-3], v.shape[-3])]
    for one, other in [*pairs, *([heads] if heads[0] % heads[1] else [])]:
        if one != other:
            raise ValueError(f"{one} and {other} do not fit")


def _right(q, k, v, *rest, **options):
    """As it should be."""
    _fits(q, k, v)
    return fused_attention(q, k, v, *rest, **options)


def _behind(q, k, corner=None):
    """The causal mask; `corner` moves its diagonal away from the last key."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    table = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device)
    return table.tril(k_len - q_len if corner is None else corner)


def _visible(q, k, keep, causal):
    behind = _behind(q, k) if causal else None
    return keep if behind is None else behind if keep is None else keep & behind


def _written_out(q, k, v, keep, causal, scale, bias, weigh=None, wide=None):
    """The formula with all scores stored; `weigh(scores, keep)` gives the weights."""
    _fits(q, k, v)
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    wide = wide or torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q.to(wide) @ k.to(wide).mT * scale
    scores = scores if bias is None else scores + bias
    weights = (weigh or _weights)(scores, _visible(q, k, keep, causal))
    return (weights @ v.to(wide)).to(q.dtype)


def _weights(scores, keep):
    if keep is None:
        return scores.softmax(-1)
    return torch.where(keep, scores, -torch.inf).softmax(-1).masked_fill(~keep, 0.0)


@mistake(of="fast_attention", caught_by=test_causal)
def top_left(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """is_causal=True lines up the first query with the first key: queries after a cache see only
    the beginning of the text.

    Where Lq and Lk differ, use causal_lower_right(Lq, Lk), or a mask with .tril(Lk - Lq).
    """
    if not causal or keep is not None or bias is not None:
        return _right(q, k, v, keep, causal, scale, bias)
    return _right(q, k, v, _behind(q, k, 0), False, scale)


@mistake(of="fast_attention", caught_by=test_causal)
def top_left_when_decoding(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A single new query is sent with is_causal=True, and sees the first key only.

    One query at the end sees every key: leave out is_causal when Lq is 1.
    """
    if causal and q.shape[-2] == 1 and keep is None and bias is None:
        return _right(q, k, v, _behind(q, k, 0), False, scale)
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def own_key_hidden(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The diagonal is hidden too: a query does not see its own key.

    Hide only what lies ahead: .tril(Lk - Lq) keeps the diagonal.
    """
    if not causal or keep is not None or bias is not None:
        return _right(q, k, v, keep, causal, scale, bias)
    return _right(q, k, v, _behind(q, k, k.shape[-2] - q.shape[-2] - 1), False, scale)


@mistake(of="fast_attention", caught_by=test_causal)
def one_key_ahead(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Every query sees one key ahead of its own.

    Query i sits at position i + Lk - Lq and sees the keys up to that position.
    """
    if not causal or keep is not None or bias is not None:
        return _right(q, k, v, keep, causal, scale, bias)
    return _right(q, k, v, _behind(q, k, k.shape[-2] - q.shape[-2] + 1), False, scale)


@mistake(of="fast_attention", caught_by=test_causal)
def nan_before_the_first_key(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With more queries than keys, the queries that stand before every key give NaN.

    They see nothing, so their output is 0: fill it in after the call.
    """
    output = _right(q, k, v, keep, causal, scale, bias)
    before = q.shape[-2] - k.shape[-2]
    if causal and keep is None and bias is None and before > 0:
        return torch.cat([output[..., :before, :] + torch.nan, output[..., before:, :]], -2)
    return output


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_dropped_with_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the keep mask is dropped, because the operator refuses both at once.

    Put causality into the mask: keep & ones(Lq, Lk).tril(Lk - Lq).
    """
    return _right(q, k, v, None if causal else keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_three_dimensions_by_sequence(
    q, k, v, keep=None, causal=False, scale=None, bias=None
):  # fmt: skip
    """A mask of three dimensions counts as one for each sequence, where there is one for each head.

    Shapes are compared from the right: (H, Lq, Lk) is a mask for each head, in every sequence.
    """
    if keep is not None and keep.ndim == 3 and q.ndim == 4 and len(keep) == len(q):
        keep = keep[:, None]
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def causal_dropped_with_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask or a bias, causal=True is ignored, and queries see what lies ahead.

    Put causality into the mask: keep & ones(Lq, Lk).tril(Lk - Lq).
    """
    return _right(q, k, v, keep, causal and keep is None and bias is None, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def negative_scale_shows_the_future(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True a scale that is 0 or negative gives NaN: the kernel hides scores with -inf
    before it scales them.

    Put the sign into the queries, -q with -scale; and for a scale of 0, 0 * q with the scale 1.
    """
    output = _right(q, k, v, keep, causal, scale, bias)
    square = q.shape[-2] == k.shape[-2] and keep is None and bias is None
    if causal and square and scale is not None and scale <= 0:
        return torch.full_like(output, torch.nan)
    return output


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def scale_of_zero_is_none(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A scale of 0 is taken for none: `scale or 1 / math.sqrt(D)`.

    Ask whether it is None: 0 is a number like any other.
    """
    return _right(q, k, v, keep, causal, scale or None, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def causal_or_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """keep and causality are joined by "or": a key is seen if either of them shows it.

    Both must show it: keep & behind.
    """
    if causal and keep is not None:
        keep, causal = keep | _behind(q, k), False
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_dropped_with_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the bias is dropped.

    Both fit into one mask of numbers: torch.where(keep, bias, -torch.inf).
    """
    return _right(q, k, v, keep, causal, scale, bias if keep is None else None)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_as_numbers(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The boolean mask becomes numbers, 0 and 1, and is added: it hides nothing.

    Pass keep as bool; or, with a bias, write torch.where(keep, bias, -torch.inf).
    """
    if keep is not None:
        bias = keep.to(q.dtype) + (0.0 if bias is None else bias)
    return _right(q, k, v, None, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_inverted(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The mask is read the wrong way round: keys with keep=True are hidden.

    True means "may attend", as in PyTorch's operator. Pass keep as it is.
    """
    return _right(q, k, v, None if keep is None else ~keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_one_head(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """All heads get the mask of the first head.

    keep may differ from head to head: keep its dimension of heads.
    """
    if keep is not None and keep.ndim > 2:
        keep = keep[..., :1, :, :]
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def finite_fill(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A row that sees nothing gets an even mixture of all values instead of 0, as if hidden scores
    were -1e9.

    Fill with -torch.inf, and set the output of empty rows to 0.
    """
    return _written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: (s if keep is None else s.masked_fill(~keep, -1e9)).softmax(-1),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def finite_mask_added(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """-10,000 is added to hidden scores: a large enough hidden key is seen all the same.

    Add -torch.inf, or give the operator a boolean mask.
    """

    def weigh(scores, keep):
        if keep is None:
            return scores.softmax(-1)
        weights = (scores + torch.where(keep, 0.0, -1e4)).softmax(-1)
        return weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def hidden_scores_of_zero(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Hidden scores are set to 0, and exp(0) is 1: hidden keys get a share like any other.

    Set them to -torch.inf, or give the operator a boolean mask.
    """
    return _written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: (s if keep is None else s.masked_fill(~keep, 0.0)).softmax(-1),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def masked_after_softmax(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Weights are set to 0 after the softmax, and the rest no longer sums to one.

    Hide the scores before the softmax, with -torch.inf.
    """
    return _written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: s.softmax(-1) if keep is None else s.softmax(-1).masked_fill(~keep, 0.0),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_is_scaled(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The bias is added before the scores are scaled, and is scaled with them.

    Scale first, then add: that is what attn_mask does with numbers.
    """
    if bias is not None:
        bias = bias * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_after_softmax(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The bias is added to the weights, after the softmax.

    Add it to the scaled scores, before the softmax.
    """
    return _written_out(
        q, k, v, keep, causal, scale, None,
        lambda s, keep: _weights(s, keep) + (0.0 if bias is None else bias),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_multiplied(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scores are multiplied by the bias.

    A bias is added.
    """
    if bias is None:
        return _right(q, k, v, keep, causal, scale)
    return _written_out(
        q, k, v, keep, causal, scale, None, lambda s, keep: _weights(s * bias, keep)
    )


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def empty_rows_nan(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A query that sees no key gets NaN: the softmax of nothing but -inf.

    Let such a row see everything, and set its output to 0 afterwards.
    """
    return _written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: (s if keep is None else s.masked_fill(~keep, -torch.inf)).softmax(-1),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def empty_rows_see_everything(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A query that sees no key attends to all of them: its row is opened and never set to 0.

    After the call, masked_fill(~keep.any(-1, keepdim=True), 0).
    """
    keep = _visible(q, k, keep, causal)
    keep = None if keep is None else keep | ~keep.any(-1, keepdim=True)
    return _right(q, k, v, keep, False, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def empty_rows_poison_the_gradient(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The NaN of an empty row is covered up in the output, but not in the gradient of the values.

    Let the row see everything before the softmax, then no NaN arises, and set its output to 0.
    """
    output = empty_rows_nan(q, k, v, keep, causal, scale, bias)
    keep = _visible(q, k, keep, causal)
    return output if keep is None else output.masked_fill(~keep.any(-1, keepdim=True), 0.0)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The gradient is cut: inputs are detached, or the call stands under no_grad.

    Call the operator on the tensors as they come, without detach, .data or no_grad.
    """
    return _right(q.detach(), k.detach(), v.detach(), keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def bias_cut(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """No gradient reaches the bias: it was detached to please a kernel.

    A learned bias needs its gradient. PyTorch finds a kernel that gives one.
    """
    return _right(q, k, v, keep, causal, scale, None if bias is None else bias.detach())


@mistake(of="fast_attention", caught_by=test_values)
def dropout(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Dropout is active: weights are dropped at random and the rest is enlarged.

    dropout_p is for training only. Here it stays 0.
    """
    return _right(F.dropout(q, 0.1), k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def lowered_for_the_kernel(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """float32 is lowered to half precision, because the fastest kernel takes nothing else.

    Keep the dtype that came: precision is the caller's to choose.
    """
    half = [x.to(torch.bfloat16) if x.dtype == torch.float32 else x for x in (q, k, v)]
    bias = bias if bias is None else bias.to(half[0].dtype)
    return _right(*half, keep, causal, scale, bias).to(q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def float64_lowered(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """float64 is computed in float32, and the digits are gone.

    Keep the dtype that came; on CUDA float64 runs on math, which is slow and right.
    """
    bias = bias if bias is None else bias.float()
    return _right(q.float(), k.float(), v.float(), keep, causal, scale, bias).to(q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The formula is written out in half precision: in float16 large scores become inf, then NaN.

    The fused kernels add up in float32: give them the tensors as they are.
    """
    return _written_out(q, k, v, keep, causal, scale, bias, wide=q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def dtype_promoted(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Half precision comes back in float32.

    The result has the dtype of the input. The kernels need no raising: they add up in float32.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    bias = bias if bias is None else bias.to(wide)
    return _right(q.to(wide), k.to(wide), v.to(wide), keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scale_of_the_padded_width(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale comes from the width after padding to a multiple of 8.

    Take it from the width that came, before padding, and pass it as scale=.
    """
    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    return _right(q, k, v, keep, causal, 1 / math.sqrt(width) if scale is None else scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scale_of_the_values(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale comes from the width of the values.

    It comes from the width of the queries, q.shape[-1].
    """
    width = v.shape[-1]
    return _right(q, k, v, keep, causal, 1 / math.sqrt(width) if scale is None else scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scale_one_percent_off(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale is off by 1 %.

    It is exactly 1 / math.sqrt(D), or exactly the one that is given.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return _right(q, k, v, keep, causal, scale * 1.01, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scaled_twice(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The queries are scaled by hand, and the operator scales them once more.

    Pass scale= to the operator, and leave the queries alone.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return _right(q * scale, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def no_scale(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scores are not scaled unless a scale is given.

    scale=None means 1 / math.sqrt(D).
    """
    return _right(q, k, v, keep, causal, 1.0 if scale is None else scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def given_scale_ignored(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is ignored.

    Pass it on: scale=scale.
    """
    return _right(q, k, v, keep, causal, None, bias)


@mistake(of="fast_attention", caught_by=test_groups)
def tiled(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Query head h reads key/value head h % Hk, as if the heads were tiled: k0 k1 k0 k1.

    Groups are consecutive: enable_gqa=True, or repeat_interleave instead of repeat.
    """
    _fits(q, k, v)
    k, v = (torch.cat([x] * (q.shape[-3] // x.shape[-3]), -3) for x in (k, v))
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def all_on_head_zero(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Every query head reads key/value head 0.

    Head h reads head h // (H // Hk): only with Hk = 1 do all of them read the first.
    """
    _fits(q, k, v)
    return _right(q, k[..., :1, :, :], v[..., :1, :, :], keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_groups)
def equal_heads_only(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Grouped heads are refused: the operator was called without enable_gqa=True.

    Say enable_gqa=True where k has fewer heads than q.
    """
    if q.shape[-3] != k.shape[-3]:
        raise RuntimeError(f"{q.shape[-3]} heads must match {k.shape[-3]} at dimension -3")
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def padding_not_cut(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The padding is left on the output: it is as wide as the padded values.

    Cut it: output[..., : v.shape[-1]].
    """
    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    output = _right(q, k, v, keep, causal, scale, bias)
    return F.pad(output, (0, width - v.shape[-1]))


@mistake(of="fast_attention", caught_by=test_manners)
def four_dimensions_only(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Only four dimensions are taken: `B, H, L, D = q.shape` fails for any other number.

    Reshape to four with q.reshape(q.shape[:-3].numel(), *q.shape[-3:]), and back at the end.
    """
    _, _, _, _ = q.shape
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def bias_overwritten(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """-inf is written into the caller's bias: an operator with a trailing underscore.

    Make a new tensor: torch.where(keep, bias, -torch.inf), or masked_fill without the underscore.
    """
    if causal and bias is not None and bias.shape == (q.shape[-2], k.shape[-2]):
        bias.data.masked_fill_(~_behind(q, k), -torch.inf)
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def misfits_not_refused(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Tensors that do not fit are passed on, and PyTorch complains in its own way, or not at all.

    Compare widths, lengths and heads first, and raise ValueError with both numbers.
    """
    return fused_attention(q, k, v, keep, causal, scale, bias)


def _unstable(q, k, v, keep, causal, scale, bias):
    """exp of the scores as they are."""

    def weigh(scores, keep):
        powers = scores.exp() if keep is None else scores.exp().where(keep, 0.0)
        total = powers.sum(-1, keepdim=True)
        return torch.where(total > 0, powers / total, 0.0)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, or subtract the maximum of each row first.
    """
    return _unstable(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, with a mask as without.
    """
    wrong = keep is not None
    return (_unstable if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted_with_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a bias the softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, with a bias as without.
    """
    wrong = bias is not None and keep is None
    return (_unstable if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted_when_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, causal or not.
    """
    wrong = causal and keep is None and bias is None
    return (_unstable if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the formula is written out in half precision, and large scores become inf.

    The fused kernels add up in float32 and take a mask: give them the tensors as they are.
    """
    wrong = keep is not None
    return (half_not_raised if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised_with_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a bias the formula is written out in half precision, and large scores become inf.

    The fused kernels add up in float32 and take a bias: give them the tensors as they are.
    """
    wrong = bias is not None
    return (half_not_raised if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised_when_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the formula is written out in half precision: large scores become inf.

    The fused kernels add up in float32: give them the tensors as they are.
    """
    wrong = causal
    return (half_not_raised if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def dtype_promoted_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask, half precision comes back in float32.

    The result has the dtype of q on every path.
    """
    wrong = keep is not None
    return (dtype_promoted if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def given_scale_ignored_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is ignored where there is a keep mask.

    Pass it on, scale=scale, on every path.
    """
    wrong = keep is not None and bias is None
    return (given_scale_ignored if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_scaled_by_the_given_scale(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A bias alone is multiplied by the scale that is given.

    Scale first, then add: that is what attn_mask does with numbers.
    """
    wrong = bias is not None and keep is None and scale is not None
    return (bias_is_scaled if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def given_scale_ignored_when_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is ignored with causal=True.

    Pass it on, scale=scale, on every path.
    """
    wrong = causal
    return (given_scale_ignored if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def scale_of_the_padded_width_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the scale comes from the width after padding to a multiple of 8.

    Take it from the width that came, before padding, and pass it as scale=.
    """
    wrong = keep is not None
    return (scale_of_the_padded_width if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def top_left_with_a_mask_and_more_queries(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask and more queries than keys, the first query is lined up with the first key.

    Query i sits at position i + Lk - Lq, where Lk < Lq too: .tril(Lk - Lq).
    """
    if causal and keep is not None and q.shape[-2] > k.shape[-2]:
        keep, causal = keep & _behind(q, k, 0), False
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def top_left_with_a_bias_when_decoding(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A single query with a bias is lined up with the first key.

    One query at the end sees every key: the mask is .tril(Lk - Lq).
    """
    if causal and bias is not None and q.shape[-2] == 1:
        behind = _behind(q, k, 0)
        keep, causal = behind if keep is None else keep & behind, False
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def empty_rows_see_everything_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision a query that sees no key attends to all of them.

    After the call, masked_fill(~keep.any(-1, keepdim=True), 0), in every dtype.
    """
    wrong = q.dtype.itemsize == 2 and keep is not None
    return (empty_rows_see_everything if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def graph_cut_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision the gradient is cut: inputs are detached when they are converted.

    Call the operator on the tensors as they come, without detach, .data or no_grad.
    """
    wrong = q.dtype.itemsize == 2
    return (graph_cut if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut_in_float32(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Without a mask or a bias the gradient is cut in float32.

    Call the operator on the tensors as they come, without detach, .data or no_grad.
    """
    wrong = q.dtype == torch.float32 and keep is None and bias is None and not causal
    return (graph_cut if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def bias_cut_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In float32, no gradient reaches the bias where there is a keep mask.

    Join them with torch.where(keep, bias, -torch.inf), which gradients pass.
    """
    wrong = keep is not None and bias is not None and q.dtype == torch.float32
    return (bias_cut if wrong else _right)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def bias_overwritten_when_not_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """-inf is written into the caller's bias where keep hides a key.

    Make a new tensor: torch.where(keep, bias, -torch.inf).
    """
    output = _right(q, k, v, keep, causal, scale, bias)
    if keep is not None and bias is not None and not causal and q.dtype == torch.float32:
        bias.data.fill_(-torch.inf)
    return output


@mistake(of="fast_attention", caught_by=test_manners)
def queries_overwritten_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision the caller's queries are scaled in place.

    Write q = q * scale instead of q *= scale: the first makes a new tensor.
    """
    output = _right(q, k, v, keep, causal, scale, bias)
    if q.dtype.itemsize == 2 and causal and keep is not None:
        q.data.mul_(1 / math.sqrt(q.shape[-1]))
    return output


@mistake(of="fast_attention", caught_by=test_manners)
def empty_rows_opened_in_place(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The rows of the caller's keep that hide everything are set to True.

    Make a new mask: keep | ~keep.any(-1, keepdim=True).
    """
    output = _right(q, k, v, keep if keep is None else keep.clone(), causal, scale, bias)
    if keep is not None:
        keep |= ~keep.any(-1, keepdim=True)
    return output


@mistake(of="fast_attention", caught_by=test_values, null=True)
def zeros(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Zeros.

    Nothing is computed yet.
    """
    return torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)


@mistake(of="fast_attention", caught_by=test_values, null=True)
def mean_of_values(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Every query gets the mean of all values, whatever it asks for.

    The weights depend on q and k.
    """
    means = v.mean(-2, keepdim=True).repeat_interleave(q.shape[-3] // v.shape[-3], -3)
    return means.expand(*q.shape[:-1], v.shape[-1]).clone()


@mistake(of="fast_attention", caught_by=test_values, null=True)
def best_key_only(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Every query gets the value of its best key.

    That is argmax. The softmax mixes the values of all keys.
    """
    return _written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: torch.zeros_like(s).scatter(-1, s.argmax(-1, keepdim=True), 1.0),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_values, null=True)
def query_returned(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The queries come back, cut or padded to the width of the values.

    The output is a mixture of values.
    """
    return F.pad(q, (0, v.shape[-1] - q.shape[-1]))


@mistake(of="best_backend", caught_by=test_backend, null=True)
def always_math(q, k, v, keep=None, causal=False):
    """The answer is always math, because can_use_flash_attention and its sisters say no on the CPU.

    They know about CUDA only. The CPU has a fused kernel too, and it counts as flash.
    """
    return "math: flash, efficient and cudnn will not run"


@mistake(of="best_backend", caught_by=test_backend, null=True)
def always_flash(q, k, v, keep=None, causal=False):
    """The answer is always flash.

    Ask for the call at hand: where there is no key, nothing but math runs.
    """
    return "flash: it is the fastest"


@mistake(of="best_backend", caught_by=test_backend, null=True)
def no_kernel_named(q, k, v, keep=None, causal=False):
    """The answer names no kernel.

    Begin with flash, efficient, cudnn or math, a colon and a space.
    """
    return "the fastest kernel that there is"


@mistake(of="best_backend", caught_by=test_backend)
def no_reason(q, k, v, keep=None, causal=False):
    """math is named without a reason.

    Write after ": " why the fused kernels will not run.
    """
    return best_backend(q, k, v, keep, causal).partition(":")[0] + ": "


@mistake(of="best_backend", caught_by=test_backend)
def name_of_the_enum(q, k, v, keep=None, causal=False):
    """The answer begins with PyTorch's name of the kernel, SDPBackend.FLASH_ATTENTION.

    Begin with the short name in lower case: flash, efficient, cudnn or math.
    """
    name, _, reason = best_backend(q, k, v, keep, causal).partition(":")
    return f"SDPBackend.{name.upper()}_ATTENTION:{reason}"


@mistake(of="best_backend", caught_by=test_backend)
def cuda_rules_on_the_cpu(q, k, v, keep=None, causal=False):
    """The rules for CUDA are applied on the CPU: masks and float32 are said to need efficient.

    On the CPU there is one fused kernel, which takes both. Ask where the tensors are: q.is_cuda.
    """
    right = best_backend(q, k, v, keep, causal)
    if right.startswith("math") or (keep is None and q.dtype.itemsize == 2):
        return right
    return "efficient: flash takes half precision without a mask only"


class _TwoPaths(PlainFusedAttention):
    """As it should be: the mistakes below override one step each."""

    def attend(self, q, k, v, keep):
        return (self.fast if self.fused else self.slow)(q, k, v, keep)

    def fast(self, q, k, v, keep):
        return fused_attention(q, k, v, keep)

    def slow(self, q, k, v, keep):
        return _written_out(q, k, v, keep, False, None, None)


@mistake(of="FusedAttention", caught_by=test_module)
class LaidOutByHead(_TwoPaths):
    """The outputs of qkv are taken apart as (H, 3, D), as some models have them.

    Here they are three blocks of H heads: unflatten(-1, (3, H, D)).
    """

    def split(self, qkv):
        heads = qkv.unflatten(-1, (self.num_heads, 3, -1))  # (..., L, H, 3, D)
        return tuple(part.transpose(-3, -2) for part in heads.unbind(-2))


@mistake(of="FusedAttention", caught_by=test_module)
class LaidOutByNumber(_TwoPaths):
    """The outputs of qkv are taken apart as (H, D, 3): every third number is a query's.

    Here they are three blocks of H heads: unflatten(-1, (3, H, D)).
    """

    def split(self, qkv):
        heads = qkv.unflatten(-1, (self.num_heads, -1, 3))  # (..., L, H, D, 3)
        return tuple(part.transpose(-3, -2) for part in heads.unbind(-1))


@mistake(of="FusedAttention", caught_by=test_module)
class BlocksInAnotherOrder(_TwoPaths):
    """The blocks are taken as k, q and v.

    The first block of qkv makes the queries, the second the keys, the third the values.
    """

    def split(self, qkv):
        q, k, v = super().split(qkv)
        return k, q, v


@mistake(of="FusedAttention", caught_by=test_module)
class ViewedAsHeads(_TwoPaths):
    """Each block is reshaped to (H, L, D) without a transpose: heads are made of other tokens.

    Reshape to (L, H, D), then exchange L and H.
    """

    def split(self, qkv):
        length, width = qkv.shape[-2], qkv.shape[-1] // 3 // self.num_heads
        shape = (*qkv.shape[:-2], self.num_heads, length, width)
        return tuple(part.reshape(shape) for part in qkv.chunk(3, -1))


@mistake(of="FusedAttention", caught_by=test_module)
class MergedWithoutTranspose(_TwoPaths):
    """The heads are put together by a reshape without a transpose, so that tokens are mixed.

    Exchange H and L first, then flatten the heads: .transpose(-3, -2).flatten(-2).
    """

    def combine(self, heads):
        *lead, num_heads, length, width = heads.shape
        return self.proj(heads.reshape(*lead, length, num_heads * width))


@mistake(of="FusedAttention", caught_by=test_module)
class NormOverTheWholeWidth(_TwoPaths):
    """q_norm and k_norm are made for the whole model width, E.

    They normalise each head's queries and keys: nn.LayerNorm(E // H).
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        if qk_norm:
            self.q_norm, self.k_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)


@mistake(of="FusedAttention", caught_by=test_module)
class StatisticsOfTheWholeWidth(_TwoPaths):
    """The mean and variance of q_norm and k_norm are taken over all heads together.

    Each head has statistics of its own: apply the norm to (..., H, L, D).
    """

    def normalise(self, q, k):
        return self._over_all(q, self.q_norm), self._over_all(k, self.k_norm)

    def _over_all(self, x, norm):
        if not isinstance(norm, nn.LayerNorm):
            return x
        together = x.transpose(-3, -2)  # (..., L, H, D)
        unit = F.layer_norm(together, together.shape[-2:], eps=norm.eps)
        return (unit * norm.weight + norm.bias).transpose(-3, -2)


@mistake(of="FusedAttention", caught_by=test_module)
class KeysNotNormalised(_TwoPaths):
    """Only the queries are normalised.

    k_norm belongs to the keys: q, k = self.q_norm(q), self.k_norm(k).
    """

    def normalise(self, q, k):
        return self.q_norm(q), k


@mistake(of="FusedAttention", caught_by=test_module)
class OneNormForBoth(_TwoPaths):
    """q_norm normalises the keys as well.

    The keys have a norm of their own, with weights of its own: k_norm.
    """

    def normalise(self, q, k):
        return self.q_norm(q), self.q_norm(k)


@mistake(of="FusedAttention", caught_by=test_module)
class RootMeanSquare(_TwoPaths):
    """The norms do not subtract the mean: that is RMSNorm.

    nn.LayerNorm(D) subtracts the mean and divides by the standard deviation.
    """

    def normalise(self, q, k):
        if not isinstance(self.q_norm, nn.LayerNorm):
            return q, k
        norms = ((q, self.q_norm), (k, self.k_norm))
        return tuple(F.rms_norm(x, x.shape[-1:], n.weight, n.eps) + n.bias for x, n in norms)


@mistake(of="FusedAttention", caught_by=test_module)
class AlwaysFused(_TwoPaths):
    """The attribute `fused` is there, but forward does not read it.

    In forward: fast_attention(...) if self.fused, else the formula written out.
    """

    def attend(self, q, k, v, keep):
        return self.fast(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SwitchReadOnce(_TwoPaths):
    """`fused` is read when the module is made, so that setting it later changes nothing.

    Read self.fused in forward.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        self.attend = self.fast if fused else self.slow


@mistake(of="FusedAttention", caught_by=test_module)
class AlwaysMadeFused(_TwoPaths):
    """The argument `fused` is ignored: every module begins on the fused path.

    self.fused = fused in the constructor.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutMask(_TwoPaths):
    """The path that is written out ignores keep.

    Fill the hidden scores with -torch.inf before the softmax.
    """

    def slow(self, q, k, v, keep):
        return super().slow(q, k, v, None)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutScale(_TwoPaths):
    """The path that is written out does not scale the scores.

    Divide by math.sqrt(D), with D = q.shape[-1].
    """

    def slow(self, q, k, v, keep):
        return _written_out(q, k, v, keep, False, 1.0, None)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithNan(_TwoPaths):
    """The path that is written out gives NaN for a token that may attend to nothing.

    After the softmax: masked_fill(~keep, 0).
    """

    def slow(self, q, k, v, keep):
        return empty_rows_nan(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowScaleOnePercentOff(_TwoPaths):
    """The scale of the path that is written out is off by 1 %.

    It is exactly 1 / math.sqrt(D).
    """

    def slow(self, q, k, v, keep):
        return _written_out(q, k, v, keep, False, 1.01 / math.sqrt(q.shape[-1]), None)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutGraph(_TwoPaths):
    """No gradient flows through the path that is written out.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def slow(self, q, k, v, keep):
        with torch.no_grad():
            return super().slow(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowInBfloat16(_TwoPaths):
    """The path that is written out lowers its inputs to bfloat16.

    Keep their dtype, or raise half precision to float32.
    """

    def slow(self, q, k, v, keep):
        return super().slow(*(x.bfloat16() for x in (q, k, v)), keep).to(q.dtype)


@mistake(of="FusedAttention", caught_by=test_module)
class CausalByHabit(_TwoPaths):
    """Tokens do not see the tokens after them: is_causal=True was left on.

    This module is causal only if keep says so.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, _visible(q, k, keep, True))


@mistake(of="FusedAttention", caught_by=test_module)
class DropoutInEval(_TwoPaths):
    """Dropout is active on the output.

    Nothing is dropped here, in training or in evaluation.
    """

    def combine(self, heads):
        return F.dropout(super().combine(heads), 0.1)


@mistake(of="FusedAttention", caught_by=test_module)
class NotProjected(_TwoPaths):
    """The heads come back side by side, without the output projection.

    Apply self.proj to them.
    """

    def combine(self, heads):
        return heads.transpose(-3, -2).flatten(-2)


@mistake(of="FusedAttention", caught_by=test_module)
class ProjectedWithoutBias(_TwoPaths):
    """The output projection has no bias.

    proj is nn.Linear(E, E) with its bias; qkv_bias is about qkv only.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        self.proj = nn.Linear(d_model, d_model, bias=False)


@mistake(of="FusedAttention", caught_by=test_module)
class AlwaysWithBias(_TwoPaths):
    """qkv has a bias, whether qkv_bias asks for one or not.

    nn.Linear(E, 3 * E, bias=qkv_bias).
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, True, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_module)
class GraphCut(_TwoPaths):
    """The gradient is cut: something in between is detached.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q.detach(), k.detach(), v, keep)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowHalfNotRaised(_TwoPaths):
    """The path that is written out multiplies half precision in half precision: in float16 large
    scores become inf, then NaN.

    Convert q, k and v with .float() first, and the output back at the end.
    """

    def slow(self, q, k, v, keep):
        return half_not_raised(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowHalfNotRaisedWithMask(_TwoPaths):
    """With a mask, the path that is written out multiplies half precision in half precision.

    Convert q, k and v with .float() first, whether there is a mask or not.
    """

    def slow(self, q, k, v, keep):
        return super().slow(q, k, v, keep) if keep is None else half_not_raised(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutGraphInFloat32(_TwoPaths):
    """In float32 no gradient flows through the path that is written out.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def slow(self, q, k, v, keep):
        with torch.set_grad_enabled(q.dtype != torch.float32):
            return super().slow(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutGraphWithoutMask(_TwoPaths):
    """Without a mask no gradient flows through the path that is written out.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def slow(self, q, k, v, keep):
        with torch.set_grad_enabled(keep is not None):
            return super().slow(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class WeightsCut(_TwoPaths):
    """The weights of qkv are detached, so that they never learn.

    Call self.qkv(x), without .data and without detach.
    """

    def forward(self, x, keep=None):
        bias = None if self.qkv.bias is None else self.qkv.bias.detach()
        q, k, v = self.split(F.linear(x, self.qkv.weight.detach(), bias))
        return self.combine(self.attend(*self.normalise(q, k), v, keep))


@mistake(of="FusedAttention", caught_by=test_module)
class SlowPaddingIgnored(_TwoPaths):
    """The path that is written out ignores a mask with a single row for all queries.

    keep broadcasts: masked_fill takes it as it is.
    """

    def slow(self, q, k, v, keep):
        return super().slow(q, k, v, None if keep is not None and keep.shape[-2] == 1 else keep)


@mistake(of="FusedAttention", caught_by=test_manners)
class UnevenHeads(_TwoPaths):
    """A width that the heads do not divide is accepted.

    Compare d_model % num_heads with 0, and raise ValueError with both numbers.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model - d_model % num_heads, num_heads, qkv_bias, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_module, null=True)
class NoAttention(_TwoPaths):
    """The values of each token are projected: no token sees another.

    Attend: mix the values of all tokens.
    """

    def attend(self, q, k, v, keep):
        return v


@mistake(of="FusedAttention", caught_by=test_module, null=True)
class InputReturned(_TwoPaths):
    """The input comes back.

    Project it, attend, and project the result.
    """

    def forward(self, x, keep=None):
        return x * 1.0


@mistake(of="FusedAttention", caught_by=test_module, null=True)
class MeanOfTokens(_TwoPaths):
    """Every token gets the mean of all values.

    The weights depend on the queries and the keys.
    """

    def attend(self, q, k, v, keep):
        return v.mean(-2, keepdim=True).expand(v.shape)


# Habits, each of which loses the check of what it leaves out.


@mistake(of="fast_attention", caught_by=test_causal)
def called_as_it_comes(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """PyTorch's operator is called with the arguments as they came: its causal lines up the first
    query with the first key, and a bias and grouped heads are left out.

    Keep the call and prepare it: a bottom-right rule, enable_gqa=True, one mask for all options.
    """
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=causal, scale=scale)


@mistake(of="fast_attention", caught_by=test_precision)
def softmax_alone_in_float32(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The softmax alone is computed in float32: the products are in the dtype of q.

    This is a habit of model code, softmax(scores, dtype=torch.float32).to(q.dtype). Scores need
    float32 too, and float64 should not become float32: leave it to the operator.
    """

    def weigh(scores, keep):
        return _weights(scores.float(), keep).to(scores.dtype)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh, q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def scale_rounded_to_float32(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale is a float32 tensor, torch.sqrt(torch.tensor(D)), so that float64 loses digits.

    Use a number of Python's: math.sqrt(D), or D ** 0.5.
    """
    if scale is None:
        scale = (1 / torch.sqrt(torch.tensor(float(q.shape[-1])))).item()
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def bias_rounded_to_float32(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The bias is converted to float32, so that float64 loses digits.

    Leave the bias in the dtype of q.
    """
    bias = bias if bias is None else bias.float().to(q.dtype)
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def reshaped_by_minus_one(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """q.reshape(-1, ...) fails for an empty batch: of no numbers, -1 may be anything.

    Count the batch: q.shape[:-3].numel() in the place of -1.
    """
    return _right(q.reshape(-1, *q.shape[-3:]).reshape(q.shape), k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def nan_without_keys(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Without any keys the output is NaN: the mean of nothing.

    A query that sees no key gets 0, where there is none at all too.
    """
    output = _right(q, k, v, keep, causal, scale, bias)
    return output if k.shape[-2] else output + torch.nan


# What shows on few inputs alone.


@mistake(of="fast_attention", caught_by=test_values)
def causal_if_the_lengths_agree(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With as many queries as keys, the keys ahead are hidden without being asked.

    Only `causal` and `keep` hide keys, whatever the lengths.
    """
    causal = causal or (q.shape[-2] == k.shape[-2] and keep is None and bias is None)
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut_if_the_lengths_agree(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With as many queries as keys, no gradient flows to the keys.

    Call the operator on the tensors as they come, whatever the lengths.
    """
    k = k.detach() if q.shape[-2] == k.shape[-2] else k
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def squeezed(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Dimensions of size 1 are squeezed away, so that a single head or query loses one.

    Give back the shape that came: output.reshape(*q.shape[:-1], v.shape[-1]).
    """
    return _right(q, k, v, keep, causal, scale, bias).squeeze()


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_one_key_for_all_queries(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a single key the mask of the first query is used for all of them.

    keep has a row for each query, however many keys there are.
    """
    if keep is not None and keep.ndim > 1 and k.shape[-2] == 1:
        keep = keep[..., :1, :]
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def tiles_averaged(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """More than 1024 keys are taken in two tiles, whose outputs are averaged.

    Weigh each tile by the sum of its exponentials, or leave the tiles to the operator.
    """
    if k.shape[-2] <= 1024 or causal or keep is not None or bias is not None:
        return _right(q, k, v, keep, causal, scale, bias)
    halves = zip(k.split(1024, -2), v.split(1024, -2), strict=True)
    return sum(_right(q, *half, scale=scale) for half in halves) / 2


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_cut_with_the_queries(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """More than 256 queries are taken in tiles, of which all get the first rows of the mask.

    Cut a mask with a row for each query like the queries; leave one with a single row alone.
    """
    if keep is None or causal or bias is not None or q.shape[-2] <= 256:
        return _right(q, k, v, keep, causal, scale, bias)
    keep = keep.expand(*q.shape[:-1], k.shape[-2])
    tiles = q.split(256, -2)
    parts = [_right(x, k, v, keep[..., : x.shape[-2], :], False, scale) for x in tiles]
    return torch.cat(parts, -2)


@mistake(of="fast_attention", caught_by=test_causal)
def sign_of_the_scale_dropped(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the sign of a negative scale is dropped, to please the kernel.

    Put the sign into the queries: -q with -scale.
    """
    scale = abs(scale) if causal and scale is not None else scale
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def maximum_begins_with_zero(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The maximum of a row begins with 0, so that far below 0 all exponentials become 0.

    Begin with -inf, or leave the softmax to the operator.
    """

    def weigh(scores, keep):
        scores = scores if keep is None else torch.where(keep, scores, -torch.inf)
        powers = (scores - scores.amax(-1, keepdim=True).clamp(min=0).detach()).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total > 0, total, 1.0)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_precision)
def scores_clamped(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scores are clamped to plus or minus 80, so that exp cannot overflow.

    Subtract the maximum of each row instead, or leave the softmax to the operator.
    """
    return _written_out(
        q, k, v, keep, causal, scale, bias, lambda s, keep: _weights(s.clamp(-80, 80), keep)
    )


@mistake(of="fast_attention", caught_by=test_manners)
def scaled_in_place_and_back(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The queries are scaled in place and back at the end; where q is k or v, this shows.

    Pass scale= to the operator, or write q = q * scale, which makes a new tensor.
    """
    _fits(q, k, v)
    if q.requires_grad or q.device.type == "meta":
        return _right(q, k, v, keep, causal, scale, bias)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    before = q.clone()
    q *= factor
    output = _right(q, k, v, keep, causal, 1.0, bias)
    q.copy_(before)
    return output


_ANSWERS = {}


@mistake(of="fast_attention", caught_by=test_manners)
def answer_kept_by_identity(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The output is kept and given back for the same tensors, whose numbers may have changed.

    Compute it again: the same tensor may hold other numbers.
    """
    key = (id(q), id(k), id(v), id(keep), id(bias), causal, scale)
    if key not in _ANSWERS or _ANSWERS[key][0] is not q:
        _ANSWERS.clear()
        _ANSWERS[key] = q, _right(q, k, v, keep, causal, scale, bias)
    return _ANSWERS[key][1]


_LOCKED = []


@mistake(of="fast_attention", caught_by=test_manners)
def locked_after_an_error(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A call that raises leaves a mark, and the next call does not run.

    Compare all sizes before anything is changed.
    """
    if _LOCKED:
        _LOCKED.clear()
        raise RuntimeError("attention is still running")
    _LOCKED.append(True)
    output = _right(q, k, v, keep, causal, scale, bias)
    _LOCKED.clear()
    return output


@mistake(of="fast_attention", caught_by=test_manners)
def mask_made_on_the_cpu(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The causal mask is made on the CPU, wherever the queries are.

    Give device=q.device to every tensor that is made.
    """
    if causal and keep is not None:
        behind = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        keep, causal = keep & behind.tril(k.shape[-2] - q.shape[-2]), False
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="best_backend", caught_by=test_backend)
def math_with_a_mask(q, k, v, keep=None, causal=False):
    """With a mask the answer is math, although the kernel of the CPU takes one.

    On the CPU the fused kernel takes masks: flash.
    """
    if keep is not None:
        return "math: flash takes no mask"
    return best_backend(q, k, v, keep, causal)


@mistake(of="best_backend", caught_by=test_backend)
def no_queries_forgotten(q, k, v, keep=None, causal=False):
    """Only the number of keys is looked at: without queries the answer is flash.

    Where there are no queries, no fused kernel runs either.
    """
    return best_backend(q, k, v, keep, causal) if not k.shape[-2] else "flash: it is the fastest"


@mistake(of="FusedAttention", caught_by=test_manners)
class ThreeDimensionsOnly(_TwoPaths):
    """Only three dimensions are taken: `B, L, E = x.shape` fails for any other number.

    Take what is in front as it comes: unflatten(-1, (3, H, D)), and unbind(-3).
    """

    def forward(self, x, keep=None):
        _, _, _ = x.shape
        return super().forward(x, keep)


@mistake(of="FusedAttention", caught_by=test_manners)
class ReshapedByMinusOne(_TwoPaths):
    """The heads are put together by reshape(B, L, -1), which fails for an empty batch.

    Name the width, or flatten the heads: .flatten(-2).
    """

    def combine(self, heads):
        together = heads.transpose(-3, -2)
        return self.proj(together.reshape(*together.shape[:-2], -1))


@mistake(of="FusedAttention", caught_by=test_manners)
class SlowMaskOnTheCpu(_TwoPaths):
    """The path that is written out makes a mask of its own on the CPU, wherever x is.

    Give device=q.device to every tensor that is made.
    """

    def slow(self, q, k, v, keep):
        everything = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        return super().slow(q, k, v, everything if keep is None else keep)


@mistake(of="FusedAttention", caught_by=test_module)
class DropoutInTraining(_TwoPaths):
    """In .train() a tenth of the output is dropped.

    Nothing is dropped here, in training or in evaluation.
    """

    def combine(self, heads):
        return F.dropout(super().combine(heads), 0.1, self.training)


@mistake(of="FusedAttention", caught_by=test_module)
class CausalInEval(_TwoPaths):
    """In .eval() tokens do not see the tokens after them, as if each evaluation were generation.

    In .train() and .eval() alike, `keep` alone says what is hidden.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, keep if self.training else _visible(q, k, keep, True))


@mistake(of="FusedAttention", caught_by=test_module)
class WeightsRemembered(_TwoPaths):
    """The weight of qkv is copied at the first call, and new weights are never seen.

    Call self.qkv(x) each time.
    """

    def forward(self, x, keep=None):
        if getattr(self, "_first", None) is None or self._first.dtype != x.dtype:
            self._first = self.qkv.weight.detach().clone()
        known = self._first
        if self.training and x.requires_grad:
            known = self.qkv.weight
        q, k, v = self.split(F.linear(x, known, self.qkv.bias))
        return self.combine(self.attend(*self.normalise(q, k), v, keep))


@mistake(of="FusedAttention", caught_by=test_module)
class SizesOfTheClass(_TwoPaths):
    """The number of heads is kept in the class, so that a new module changes older ones.

    Write self.num_heads = num_heads: each module has its own.
    """

    heads = 1

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        type(self).heads = num_heads

    def forward(self, x, keep=None):
        self.num_heads = type(self).heads
        return super().forward(x, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class NormsWithoutBias(_TwoPaths):
    """With qk_norm, qkv has no bias, even where qkv_bias asks for one.

    The two options do not depend on each other: nn.Linear(E, 3 * E, bias=qkv_bias).
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias and not qk_norm, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutNorms(_TwoPaths):
    """The path that is written out does not normalise queries and keys.

    Apply q_norm and k_norm before the paths part.
    """

    def normalise(self, q, k):
        return super().normalise(q, k) if self.fused else (q, k)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowUnstable(_TwoPaths):
    """The path that is written out takes exp of the scores as they are, and large ones overflow.

    Use softmax, or subtract the maximum of each row first.
    """

    def slow(self, q, k, v, keep):
        return _unstable(q, k, v, keep, False, None, None)


@mistake(of="FusedAttention", caught_by=test_module)
class GradientsInTrainingOnly(_TwoPaths):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of="fast_attention", caught_by=test_manners)
def values_shared_without_their_sum(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Values wider than the keys are copied for the heads of a group, and only one copy is given a
    gradient.

    A value that several heads read adds up the gradients of all: use repeat_interleave.
    """
    group = q.shape[-3] // k.shape[-3]
    if group > 1 and v.shape[-1] > q.shape[-1]:
        first = v.unsqueeze(-3)
        others = first.detach().expand(*v.shape[:-2], group - 1, *v.shape[-2:])
        v = torch.cat([first, others], -3).flatten(-4, -3)
        k = k.repeat_interleave(group, -3)
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def bias_of_five_dimensions_is_detached(
    q, k, v, keep=None, causal=False, scale=None, bias=None
):  # fmt: skip
    """A bias of more than four dimensions is copied into a new tensor, and gets no gradient.

    Reshape it: reshape keeps the way of the gradient.
    """
    if bias is not None and bias.ndim > 4:
        bias = bias.detach().clone()
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_manners)
class MaskOfHeadsBySequence(_TwoPaths):
    """A mask of three dimensions is taken as one for each sequence, if there are as many of them.

    It broadcasts to (B, H, L, L) from the right: three dimensions are one mask for each head.
    """

    def forward(self, x, keep=None):
        if keep is not None and keep.ndim == 3 and x.ndim == 3 and len(keep) == len(x):
            keep = keep.unsqueeze(1)
        return super().forward(x, keep)


@mistake(of="best_backend", caught_by=test_backend)
def dash_for_a_reason(q, k, v, keep=None, causal=False):
    """After math stands a dash, or the name of a kernel, and no reason.

    Say what the fused kernel dislikes: there are no queries, or no keys.
    """
    right = best_backend(q, k, v, keep, causal)
    return "math: flash -" if right.startswith("math") else right


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def finite_fill_beside_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Beside a bias hidden scores are filled with -1e9: where the bias is lower still, hidden keys
    take all the weight.

    Fill with -torch.inf: torch.where(keep, bias, -torch.inf).
    """
    if keep is None or bias is None or q.dtype.itemsize == 2:
        return _right(q, k, v, keep, causal, scale, bias)

    def weigh(scores, keep):
        weights = scores.masked_fill(~keep, -1e9).softmax(-1)
        return weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_one_dimension_at_least(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The size of the last dimension of a mask is read, which a single number has not.

    A mask of no dimension broadcasts too: it is one answer for all queries and keys.
    """
    for mask in (keep, bias):
        if mask is not None:
            _ = mask.shape[-1]
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_manners)
class SwitchedByTheForward(_TwoPaths):
    """forward sets `fused` to False while it runs, and a call that raises leaves it so.

    Only the caller sets `fused`: pass on what was read from it.
    """

    def attend(self, q, k, v, keep):
        was, self.fused = self.fused, False
        output = (self.fast if was else self.slow)(q, k, v, keep)
        self.fused = was
        return output


@mistake(of="FusedAttention", caught_by=test_manners)
class HeadsOfNoWidth(_TwoPaths):
    """More heads than places are told by a ZeroDivisionError: the width of a head is 0.

    Ask d_model % num_heads, which is not 0 then either, and raise a ValueError.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        if d_model % (d_model // num_heads * num_heads):
            raise ValueError(f"{num_heads} heads do not divide {d_model}")
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowScoresInHalf(_TwoPaths):
    """The slow path keeps its scores in half precision, where scores of hundreds that differ by 1
    are the same number.

    Raise q and k with .float() before the product, not the scores after it.
    """

    def slow(self, q, k, v, keep):
        if q.dtype.itemsize > 2:
            return super().slow(q, k, v, keep)
        wide = [x.float() for x in (q * q.shape[-1] ** -0.5, k, v)]
        scores = (wide[0] @ wide[1].mT).to(q.dtype).float()
        weights = scores.softmax(-1) if keep is None else _weights(scores, keep)
        return (weights @ wide[2]).to(q.dtype)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowFiniteFill(_TwoPaths):
    """The slow path fills hidden scores with -1e9: where the seen ones are lower still, hidden keys
    take all the weight.

    Fill with -torch.inf before the softmax.
    """

    def slow(self, q, k, v, keep):
        def weigh(scores, keep):
            if keep is None:
                return scores.softmax(-1)
            return scores.masked_fill(~keep, -1e9).softmax(-1).masked_fill(~keep, 0.0)

        return _written_out(q, k, v, keep, False, None, None, weigh)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def finite_fill_without_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Hidden scores are filled with -1e9: where the seen ones are lower still, hidden keys take all
    the weight.

    Fill with -torch.inf, or give the operator a boolean mask.
    """
    if keep is None or bias is not None:
        return _right(q, k, v, keep, causal, scale, bias)

    def weigh(scores, keep):
        return scores.masked_fill(~keep, -1e9).softmax(-1).masked_fill(~keep, 0.0)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut_where_values_alone_learn(
    q, k, v, keep=None, causal=False, scale=None, bias=None
):  # fmt: skip
    """The graph is cut where neither the queries nor the keys need a gradient; the values may.

    Let autograd see to it: it keeps what any input needs.
    """
    learned = q.requires_grad or k.requires_grad or (bias is not None and bias.requires_grad)
    v = v if learned else v.detach()
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_gradient)
class FrozenCutsTheGraph(_TwoPaths):
    """The graph is cut where no weight needs a gradient; x may need one.

    Let autograd see to it: it keeps what any input needs.
    """

    def forward(self, x, keep=None):
        learned = any(p.requires_grad for p in self.parameters())
        return super().forward(x if learned else x.detach(), keep)


@mistake(of="fast_attention", caught_by=test_manners)
def masks_without_the_batch(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A mask of five dimensions that is one for all of the first and for all queries loses the
    second.

    Expand the mask to all leading dimensions before they are made one.
    """
    if keep is not None and keep.ndim == 5 and keep.shape[0] == 1 < q.shape[0]:
        keep = keep[:, :1] if keep.shape[-3] == keep.shape[-2] == 1 else keep
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_module)
class SwitchedForMasks(_TwoPaths):
    """forward sets `fused` to False where a mask comes, and leaves it so.

    Only the caller sets `fused`: pass on what was read from it.
    """

    def attend(self, q, k, v, keep):
        self.fused = self.fused and keep is None
        return super().attend(q, k, v, keep)


@mistake(of="fast_attention", caught_by=test_precision)
def queries_scaled_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is multiplied into the queries in their dtype: in float16, 3 * 30,000 is inf.

    Pass scale= to the operator, which scales sums of float32.
    """
    if scale is None:
        return _right(q, k, v, keep, causal, scale, bias)
    return _right(q * scale, k, v, keep, causal, 1.0, bias)


def _hidden_powers_replaced(scores, keep):
    if keep is None:
        return scores.softmax(-1)
    top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
    powers = (scores - top.nan_to_num(neginf=0.0).detach()).exp()
    powers = torch.where(keep, powers, 0.0)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def hidden_powers_replaced(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The powers of hidden scores are replaced by 0: that of 1e30 is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """
    _fits(q, k, v)
    return _written_out(q, k, v, keep, causal, scale, bias, _hidden_powers_replaced)


@mistake(of="fast_attention", caught_by=test_causal)
def later_powers_replaced(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The powers of later scores are replaced by 0: that of 1e30 is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """
    if not causal or keep is not None or bias is not None or q.shape[-2] > k.shape[-2]:
        return _right(q, k, v, keep, causal, scale, bias)
    _fits(q, k, v)

    def weigh(scores, keep):
        top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
        powers = torch.where(keep, (scores - top.detach()).exp(), 0.0)
        return powers / powers.sum(-1, keepdim=True)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_precision)
def half_cut_where_keys_alone_learn(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision the graph is cut where no query needs a gradient; a key may need one.

    Leave it to autograd, which keeps what any input needs.
    """
    if q.dtype.itemsize == 2 and not q.requires_grad:
        k = k.detach()
    return _right(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def double_scores_clamped(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In float64, where there is no mask, scores are kept above -1e30: lower ones are all alike.

    Leave the scores as they are: softmax takes its maximum away first.
    """
    if q.dtype != torch.float64 or keep is not None or bias is not None or causal or not k.numel():
        return _right(q, k, v, keep, causal, scale, bias)
    wide = torch.float64

    def weigh(scores, _):
        return scores.clamp(min=-1e30).softmax(-1)

    return _written_out(q, k, v, keep, causal, scale, bias, weigh, wide)


@mistake(of="FusedAttention", caught_by=test_precision)
class ShortcutWithoutGradients(_TwoPaths):
    """Where no gradients are needed the slow path takes exp of the scores as they are: those of
    hundreds overflow.

    Use softmax on both ways, which takes the maximum of a row away first.
    """

    def slow(self, q, k, v, keep):
        def weigh(scores, keep):
            powers = scores.exp() if keep is None else scores.exp().masked_fill(~keep, 0.0)
            return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)

        return _written_out(q, k, v, keep, False, None, None, None if q.requires_grad else weigh)


@mistake(of="FusedAttention", caught_by=test_module)
class KeepsAWeight(_TwoPaths):
    """A copy of a weight is kept until other weights are loaded; an optimiser changes it in place.

    Read self.qkv.weight in every call.
    """

    def load_state_dict(self, *args, **options):
        self.kept = None
        return super().load_state_dict(*args, **options)

    def to(self, *args, **options):
        self.kept = None
        return super().to(*args, **options)

    def forward(self, x, keep=None):
        if torch.is_grad_enabled():
            return super().forward(x, keep)
        if getattr(self, "kept", None) is None:
            self.kept = self.qkv.weight.clone()
        q, k, v = self.split(F.linear(x, self.kept, self.qkv.bias))
        return self.combine(self.attend(*self.normalise(q, k), v, keep))


@mistake(of="FusedAttention", caught_by=test_precision)
class HiddenPowersReplaced(_TwoPaths):
    """The slow path replaces the powers of hidden scores by 0: that of 1e30 is infinite, and 0
    times its gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """

    def slow(self, q, k, v, keep):
        def weigh(scores, keep):
            if keep is None:
                return scores.softmax(-1)
            top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
            powers = (scores - top.nan_to_num(neginf=0.0).detach()).exp()
            powers = torch.where(keep, powers, 0.0)
            return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)

        return _written_out(q, k, v, keep, False, None, None, weigh)
