"""Wrong answers to `fast_attention`."""

import math

import torch
import torch.nn.functional as F

from grader.judging import mistake
from reference.fused import fused_attention

from ..test_cuda_sdpa import (
    test_causal,
    test_gradient,
    test_groups,
    test_manners,
    test_mask_and_bias,
    test_precision,
    test_values,
)
from .shared import (
    causal_keep,
    correct,
    fits,
    softmax_weights,
    unstable,
    visible,
    written_out,
)


@mistake(of="fast_attention", caught_by=test_causal)
def top_left(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """is_causal=True lines up the first query with the first key: queries after a cache see only
    the beginning of the text.

    Where Lq and Lk differ, use causal_lower_right(Lq, Lk), or a mask with .tril(Lk - Lq).
    """
    if not causal or keep is not None or bias is not None:
        return correct(q, k, v, keep, causal, scale, bias)
    return correct(q, k, v, causal_keep(q, k, 0), False, scale)


@mistake(of="fast_attention", caught_by=test_causal)
def top_left_but_when_decoding(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """is_causal=True lines up the first of several queries with the first key; only a single query
    is sent without it.

    Where Lq and Lk differ, use causal_lower_right(Lq, Lk), or a mask with .tril(Lk - Lq).
    """
    return top_left(q, k, v, keep, causal and q.shape[-2] > 1, scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def top_left_with_masks_too(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Every triangle begins at the first key, that of is_causal=True and that of .tril() beside a
    mask or a bias: queries after a cache see only the beginning of the text.

    Move the diagonal to the last key: .tril(Lk - Lq), or causal_lower_right(Lq, Lk).
    """
    if causal:
        corner = causal_keep(q, k, 0)
        keep = corner if keep is None else keep & corner
    return correct(q, k, v, keep, False, scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def top_left_when_decoding(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A single new query is sent with is_causal=True, and sees the first key only.

    One query at the end sees every key: leave out is_causal when Lq is 1.
    """
    if causal and q.shape[-2] == 1 and keep is None and bias is None:
        return correct(q, k, v, causal_keep(q, k, 0), False, scale)
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def own_key_hidden(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The diagonal is hidden too: a query does not see its own key.

    Hide only what lies ahead: .tril(Lk - Lq) keeps the diagonal.
    """
    if not causal or keep is not None or bias is not None:
        return correct(q, k, v, keep, causal, scale, bias)
    return correct(q, k, v, causal_keep(q, k, k.shape[-2] - q.shape[-2] - 1), False, scale)


@mistake(of="fast_attention", caught_by=test_causal)
def one_key_ahead(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Every query sees one key ahead of its own.

    Query i sits at position i + Lk - Lq and sees the keys up to that position.
    """
    if not causal or keep is not None or bias is not None:
        return correct(q, k, v, keep, causal, scale, bias)
    return correct(q, k, v, causal_keep(q, k, k.shape[-2] - q.shape[-2] + 1), False, scale)


@mistake(of="fast_attention", caught_by=test_causal)
def nan_before_the_first_key(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With more queries than keys, the queries that stand before every key give NaN.

    They see nothing, so their output is 0: fill it in after the call.
    """
    output = correct(q, k, v, keep, causal, scale, bias)
    before = q.shape[-2] - k.shape[-2]
    if causal and keep is None and bias is None and before > 0:
        return torch.cat([output[..., :before, :] + torch.nan, output[..., before:, :]], -2)
    return output


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_dropped_with_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the keep mask is dropped, because the operator refuses both at once.

    Put causality into the mask: keep & ones(Lq, Lk).tril(Lk - Lq).
    """
    return correct(q, k, v, None if causal else keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_three_dimensions_by_sequence(
    q, k, v, keep=None, causal=False, scale=None, bias=None
):  # fmt: skip
    """A mask of three dimensions counts as one for each sequence, where there is one for each head.

    Shapes are compared from the right: (H, Lq, Lk) is a mask for each head, in every sequence.
    """
    if keep is not None and keep.ndim == 3 and q.ndim == 4 and len(keep) == len(q):
        keep = keep[:, None]
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def causal_dropped_with_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask or a bias, causal=True is ignored, and queries see what lies ahead.

    Put causality into the mask: keep & ones(Lq, Lk).tril(Lk - Lq).
    """
    return correct(q, k, v, keep, causal and keep is None and bias is None, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def negative_scale_shows_the_future(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True a scale that is 0 or negative gives NaN: the kernel hides scores with -inf
    before it scales them.

    Put the sign into the queries, -q with -scale; and for a scale of 0, 0 * q with the scale 1.
    """
    output = correct(q, k, v, keep, causal, scale, bias)
    square = q.shape[-2] == k.shape[-2] and keep is None and bias is None
    if causal and square and scale is not None and scale <= 0:
        return torch.full_like(output, torch.nan)
    return output


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def scale_of_zero_is_none(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A scale of 0 is taken for none: `scale or 1 / math.sqrt(D)`.

    Ask whether it is None: 0 is a number like any other.
    """
    return correct(q, k, v, keep, causal, scale or None, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def causal_or_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """keep and causality are joined by "or": a key is seen if either of them shows it.

    Both must show it: keep & behind.
    """
    if causal and keep is not None:
        keep, causal = keep | causal_keep(q, k), False
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_dropped_with_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the bias is dropped.

    Both fit into one mask of numbers: torch.where(keep, bias, -torch.inf).
    """
    return correct(q, k, v, keep, causal, scale, bias if keep is None else None)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_dropped_with_any_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The bias is dropped wherever there is a mask, be it keep or the causal one.

    Both fit into one mask of numbers: torch.where(keep, bias, -torch.inf).
    """
    bare = keep is None and (not causal or q.shape[-2] == 1)
    return correct(q, k, v, keep, causal, scale, bias if bare else None)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_added_to_the_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The boolean mask is added to the bias: True counts 1 and False 0, so that nothing is hidden.

    Write torch.where(keep, bias, -torch.inf).
    """
    seen = visible(q, k, keep, causal)
    if bias is None or seen is None:
        return correct(q, k, v, keep, causal, scale, bias)
    output = correct(q, k, v, None, False, scale, bias + seen)
    return output.masked_fill(~seen.any(-1, keepdim=True), 0.0)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_as_numbers(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The boolean mask becomes numbers, 0 and 1, and is added: it hides nothing.

    Pass keep as bool; or, with a bias, write torch.where(keep, bias, -torch.inf).
    """
    if keep is not None:
        bias = keep.to(q.dtype) + (0.0 if bias is None else bias)
    return correct(q, k, v, None, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_inverted(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The mask is read the wrong way round: keys with keep=True are hidden.

    True means "may attend", as in PyTorch's operator. Pass keep as it is.
    """
    return correct(q, k, v, None if keep is None else ~keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_one_head(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """All heads get the mask of the first head.

    keep may differ from head to head: keep its dimension of heads.
    """
    if keep is not None and keep.ndim > 2:
        keep = keep[..., :1, :, :]
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def finite_fill(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A row that sees nothing gets an even mixture of all values instead of 0, as if hidden scores
    were -1e9.

    Fill with -torch.inf, and set the output of empty rows to 0.
    """
    return written_out(
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

    return written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def hidden_scores_of_zero(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Hidden scores are set to 0, and exp(0) is 1: hidden keys get a share like any other.

    Set them to -torch.inf, or give the operator a boolean mask.
    """
    return written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: (s if keep is None else s.masked_fill(~keep, 0.0)).softmax(-1),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def masked_after_softmax(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Weights are set to 0 after the softmax, and the rest no longer sums to one.

    Hide the scores before the softmax, with -torch.inf.
    """
    return written_out(
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
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_after_softmax(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The bias is added to the weights, after the softmax.

    Add it to the scaled scores, before the softmax.
    """
    return written_out(
        q, k, v, keep, causal, scale, None,
        lambda s, keep: softmax_weights(s, keep) + (0.0 if bias is None else bias),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_multiplied(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scores are multiplied by the bias.

    A bias is added.
    """
    if bias is None:
        return correct(q, k, v, keep, causal, scale)
    return written_out(
        q, k, v, keep, causal, scale, None, lambda s, keep: softmax_weights(s * bias, keep)
    )


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def empty_rows_nan(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A query that sees no key gets NaN: the softmax of nothing but -inf.

    Let such a row see everything, and set its output to 0 afterwards.
    """
    return written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: (s if keep is None else s.masked_fill(~keep, -torch.inf)).softmax(-1),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def empty_rows_see_everything(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A query that sees no key attends to all of them: its row is opened and never set to 0.

    After the call, masked_fill(~keep.any(-1, keepdim=True), 0).
    """
    keep = visible(q, k, keep, causal)
    keep = None if keep is None else keep | ~keep.any(-1, keepdim=True)
    return correct(q, k, v, keep, False, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def empty_rows_poison_the_gradient(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The NaN of an empty row is covered up in the output, but not in the gradient of the values.

    Let the row see everything before the softmax, then no NaN arises, and set its output to 0.
    """
    output = empty_rows_nan(q, k, v, keep, causal, scale, bias)
    keep = visible(q, k, keep, causal)
    return output if keep is None else output.masked_fill(~keep.any(-1, keepdim=True), 0.0)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The gradient is cut: inputs are detached, or the call stands under no_grad.

    Call the operator on the tensors as they come, without detach, .data or no_grad.
    """
    return correct(q.detach(), k.detach(), v.detach(), keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def bias_cut(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """No gradient reaches the bias: it was detached to please a kernel.

    A learned bias needs its gradient. PyTorch finds a kernel that gives one.
    """
    return correct(q, k, v, keep, causal, scale, None if bias is None else bias.detach())


@mistake(of="fast_attention", caught_by=test_values)
def dropout(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Dropout is active: weights are dropped at random and the rest is enlarged.

    dropout_p is for training only. Here it stays 0.
    """
    return correct(F.dropout(q, 0.1), k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def lowered_for_the_kernel(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """float32 is lowered to half precision, because the fastest kernel takes nothing else.

    Keep the dtype that came: precision is the caller's to choose.
    """
    half = [x.to(torch.bfloat16) if x.dtype == torch.float32 else x for x in (q, k, v)]
    bias = bias if bias is None else bias.to(half[0].dtype)
    return correct(*half, keep, causal, scale, bias).to(q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def float64_lowered(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """float64 is computed in float32, and the digits are gone.

    Keep the dtype that came; on CUDA float64 runs on math, which is slow and right.
    """
    bias = bias if bias is None else bias.float()
    return correct(q.float(), k.float(), v.float(), keep, causal, scale, bias).to(q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The formula is written out in half precision: in float16 large scores become inf, then NaN.

    The fused kernels add up in float32: give them the tensors as they are.
    """
    return written_out(q, k, v, keep, causal, scale, bias, wide=q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def dtype_promoted(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Half precision comes back in float32.

    The result has the dtype of the input. The kernels need no raising: they add up in float32.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    bias = bias if bias is None else bias.to(wide)
    return correct(q.to(wide), k.to(wide), v.to(wide), keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scale_of_the_padded_width(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale comes from the width after padding to a multiple of 8.

    Take it from the width that came, before padding, and pass it as scale=.
    """
    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    return correct(q, k, v, keep, causal, 1 / math.sqrt(width) if scale is None else scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scale_of_the_values(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale comes from the width of the values.

    It comes from the width of the queries, q.shape[-1].
    """
    width = v.shape[-1]
    return correct(q, k, v, keep, causal, 1 / math.sqrt(width) if scale is None else scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scale_one_percent_off(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale is off by 1 %.

    It is exactly 1 / math.sqrt(D), or exactly the one that is given.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return correct(q, k, v, keep, causal, scale * 1.01, bias)


@mistake(of="fast_attention", caught_by=test_values)
def scaled_twice(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The queries are scaled by hand, and the operator scales them once more.

    Pass scale= to the operator, and leave the queries alone.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return correct(q * scale, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def no_scale(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scores are not scaled unless a scale is given.

    scale=None means 1 / math.sqrt(D).
    """
    return correct(q, k, v, keep, causal, 1.0 if scale is None else scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def given_scale_ignored(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is ignored.

    Pass it on: scale=scale.
    """
    return correct(q, k, v, keep, causal, None, bias)


@mistake(of="fast_attention", caught_by=test_groups)
def tiled(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Query head h reads key/value head h % Hk, as if the heads were tiled: k0 k1 k0 k1.

    Groups are consecutive: enable_gqa=True, or repeat_interleave instead of repeat.
    """
    fits(q, k, v)
    k, v = (torch.cat([x] * (q.shape[-3] // x.shape[-3]), -3) for x in (k, v))
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def all_on_head_zero(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Every query head reads key/value head 0.

    Head h reads head h // (H // Hk): only with Hk = 1 do all of them read the first.
    """
    fits(q, k, v)
    return correct(q, k[..., :1, :, :], v[..., :1, :, :], keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_groups)
def equal_heads_only(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Grouped heads are refused: the operator was called without enable_gqa=True.

    Say enable_gqa=True where k has fewer heads than q.
    """
    if q.shape[-3] != k.shape[-3]:
        raise RuntimeError(f"{q.shape[-3]} heads must match {k.shape[-3]} at dimension -3")
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def padding_not_cut(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The padding is left on the output: it is as wide as the padded values.

    Cut it: output[..., : v.shape[-1]].
    """
    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    output = correct(q, k, v, keep, causal, scale, bias)
    return F.pad(output, (0, width - v.shape[-1]))


@mistake(of="fast_attention", caught_by=test_manners)
def four_dimensions_only(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Only four dimensions are taken: `B, H, L, D = q.shape` fails for any other number.

    Reshape to four with q.reshape(q.shape[:-3].numel(), *q.shape[-3:]), and back at the end.
    """
    _, _, _, _ = q.shape
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def bias_overwritten(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """-inf is written into the caller's bias: an operator with a trailing underscore.

    Make a new tensor: torch.where(keep, bias, -torch.inf), or masked_fill without the underscore.
    """
    if causal and bias is not None and bias.shape == (q.shape[-2], k.shape[-2]):
        bias.data.masked_fill_(~causal_keep(q, k), -torch.inf)
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def misfits_not_refused(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Tensors that do not fit are passed on, and PyTorch complains in its own way, or not at all.

    Compare widths, lengths and heads first, and raise ValueError with both numbers.
    """
    return fused_attention(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, or subtract the maximum of each row first.
    """
    return unstable(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, with a mask as without.
    """
    wrong = keep is not None
    return (unstable if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted_with_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a bias the softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, with a bias as without.
    """
    wrong = bias is not None and keep is None
    return (unstable if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def no_maximum_subtracted_when_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the softmax takes exp of the scores as they are, and large ones overflow.

    Leave the softmax to the operator, causal or not.
    """
    wrong = causal and keep is None and bias is None
    return (unstable if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the formula is written out in half precision, and large scores become inf.

    The fused kernels add up in float32 and take a mask: give them the tensors as they are.
    """
    wrong = keep is not None
    return (half_not_raised if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised_with_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a bias the formula is written out in half precision, and large scores become inf.

    The fused kernels add up in float32 and take a bias: give them the tensors as they are.
    """
    wrong = bias is not None
    return (half_not_raised if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def half_not_raised_when_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the formula is written out in half precision: large scores become inf.

    The fused kernels add up in float32: give them the tensors as they are.
    """
    wrong = causal
    return (half_not_raised if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def dtype_promoted_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask, half precision comes back in float32.

    The result has the dtype of q on every path.
    """
    wrong = keep is not None
    return (dtype_promoted if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def given_scale_ignored_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is ignored where there is a keep mask.

    Pass it on, scale=scale, on every path.
    """
    wrong = keep is not None and bias is None
    return (given_scale_ignored if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def bias_scaled_by_the_given_scale(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A bias alone is multiplied by the scale that is given.

    Scale first, then add: that is what attn_mask does with numbers.
    """
    wrong = bias is not None and keep is None and scale is not None
    return (bias_is_scaled if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def given_scale_ignored_when_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is ignored with causal=True.

    Pass it on, scale=scale, on every path.
    """
    wrong = causal
    return (given_scale_ignored if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def scale_of_the_padded_width_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask the scale comes from the width after padding to a multiple of 8.

    Take it from the width that came, before padding, and pass it as scale=.
    """
    wrong = keep is not None
    return (scale_of_the_padded_width if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def top_left_with_a_mask_and_more_queries(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a keep mask and more queries than keys, the first query is lined up with the first key.

    Query i sits at position i + Lk - Lq, where Lk < Lq too: .tril(Lk - Lq).
    """
    if causal and keep is not None and q.shape[-2] > k.shape[-2]:
        keep, causal = keep & causal_keep(q, k, 0), False
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def top_left_with_a_bias_when_decoding(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A single query with a bias is lined up with the first key.

    One query at the end sees every key: the mask is .tril(Lk - Lq).
    """
    if causal and bias is not None and q.shape[-2] == 1:
        behind = causal_keep(q, k, 0)
        keep, causal = behind if keep is None else keep & behind, False
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def empty_rows_see_everything_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision a query that sees no key attends to all of them.

    After the call, masked_fill(~keep.any(-1, keepdim=True), 0), in every dtype.
    """
    wrong = q.dtype.itemsize == 2 and keep is not None
    return (empty_rows_see_everything if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def graph_cut_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision the gradient is cut: inputs are detached when they are converted.

    Call the operator on the tensors as they come, without detach, .data or no_grad.
    """
    wrong = q.dtype.itemsize == 2
    return (graph_cut if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut_in_float32(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Without a mask or a bias the gradient is cut in float32.

    Call the operator on the tensors as they come, without detach, .data or no_grad.
    """
    wrong = q.dtype == torch.float32 and keep is None and bias is None and not causal
    return (graph_cut if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def bias_cut_with_a_mask(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In float32, no gradient reaches the bias where there is a keep mask.

    Join them with torch.where(keep, bias, -torch.inf), which gradients pass.
    """
    wrong = keep is not None and bias is not None and q.dtype == torch.float32
    return (bias_cut if wrong else correct)(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def bias_overwritten_when_not_causal(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """-inf is written into the caller's bias where keep hides a key.

    Make a new tensor: torch.where(keep, bias, -torch.inf).
    """
    output = correct(q, k, v, keep, causal, scale, bias)
    if keep is not None and bias is not None and not causal and q.dtype == torch.float32:
        bias.data.fill_(-torch.inf)
    return output


@mistake(of="fast_attention", caught_by=test_manners)
def queries_overwritten_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision the caller's queries are scaled in place.

    Write q = q * scale instead of q *= scale: the first makes a new tensor.
    """
    output = correct(q, k, v, keep, causal, scale, bias)
    if q.dtype.itemsize == 2 and causal and keep is not None:
        q.data.mul_(1 / math.sqrt(q.shape[-1]))
    return output


@mistake(of="fast_attention", caught_by=test_manners)
def empty_rows_opened_in_place(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The rows of the caller's keep that hide everything are set to True.

    Make a new mask: keep | ~keep.any(-1, keepdim=True).
    """
    output = correct(q, k, v, keep if keep is None else keep.clone(), causal, scale, bias)
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
    return written_out(
        q, k, v, keep, causal, scale, bias,
        lambda s, keep: torch.zeros_like(s).scatter(-1, s.argmax(-1, keepdim=True), 1.0),
    )  # fmt: skip


@mistake(of="fast_attention", caught_by=test_values, null=True)
def query_returned(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The queries come back, cut or padded to the width of the values.

    The output is a mixture of values.
    """
    return F.pad(q, (0, v.shape[-1] - q.shape[-1]))


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
        return softmax_weights(scores.float(), keep).to(scores.dtype)

    return written_out(q, k, v, keep, causal, scale, bias, weigh, q.dtype)


@mistake(of="fast_attention", caught_by=test_precision)
def scale_rounded_to_float32(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scale is a float32 tensor, torch.sqrt(torch.tensor(D)), so that float64 loses digits.

    Use a number of Python's: math.sqrt(D), or D ** 0.5.
    """
    if scale is None:
        scale = (1 / torch.sqrt(torch.tensor(float(q.shape[-1])))).item()
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def bias_rounded_to_float32(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The bias is converted to float32, so that float64 loses digits.

    Leave the bias in the dtype of q.
    """
    bias = bias if bias is None else bias.float().to(q.dtype)
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def reshaped_by_minus_one(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """q.reshape(-1, ...) fails for an empty batch: of no numbers, -1 may be anything.

    Count the batch: q.shape[:-3].numel() in the place of -1.
    """
    return correct(q.reshape(-1, *q.shape[-3:]).reshape(q.shape), k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def nan_without_keys(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Without any keys the output is NaN: the mean of nothing.

    A query that sees no key gets 0, where there is none at all too.
    """
    output = correct(q, k, v, keep, causal, scale, bias)
    return output if k.shape[-2] else output + torch.nan
