"""What goes wrong with heads, by name."""

import math
import re

import numpy as np
import torch
from torch import nn

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex02_masking import plain_masked_softmax
from reference.ex04_heads import (
    PlainMultiHeadAttention,
    plain_merge_heads,
    plain_multi_head_attention_numpy,
    plain_split_heads,
)

from .test_heads import (
    test_context,
    test_dtype,
    test_empty,
    test_extremes,
    test_gradients,
    test_half_precision,
    test_manners,
    test_mask,
    test_numpy_mask,
    test_numpy_values,
    test_split_and_merge,
    test_values,
)


def _check_width(width, num_heads):
    if width % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {width}")


class _Layer(PlainMultiHeadAttention):
    """A right layer, whose steps are replaced one by one."""

    def __init__(self, d_model, num_heads, bias=False):
        self.check_width(d_model, num_heads)
        super().__init__(d_model, num_heads, bias)

    def check_width(self, d_model, num_heads):
        _check_width(d_model, num_heads)

    def attention(self, q, k, v, keep):
        wide_q, wide_k, wide_v = (self.widen(x) for x in (q, k, v))
        weights = self.weigh(wide_q @ wide_k.mT * self.scale(q), keep)
        return (weights @ wide_v).to(q.dtype), weights.to(q.dtype)

    def widen(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def weigh(self, scores, keep):
        return plain_masked_softmax(scores, keep)


def attention_of_arrays(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None, layer=_Layer
):  # fmt: skip
    """`multi_head_attention_numpy` with the steps of a layer."""
    return plain_multi_head_attention_numpy(
        query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, layer
    )


def also_of_arrays(*, caught_by, null=False):
    """Let a layer's mistake be one of `multi_head_attention_numpy` as well.

    ScaleMissing becomes scale_missing_numpy.
    """

    def mark(layer):
        def attend(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
            return attention_of_arrays(
                query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, layer
            )

        words = re.findall("NaN|[A-Z][a-z0-9]*", layer.__name__)
        attend.__name__ = "_".join([*map(str.lower, words), "numpy"])
        attend.__doc__ = layer.__doc__
        marked = mistake(of="multi_head_attention_numpy", caught_by=caught_by, null=null)(attend)
        globals()[attend.__name__] = marked  # where the catalogue is read
        return layer

    return mark


@mistake(of="split_heads", caught_by=test_split_and_merge)
def no_swap_in_split(x, num_heads):
    """The width is cut by a reshape straight to (B, H, L, D), which mixes tokens among the heads.

    Reshape to (B, L, H, D) first, and then swap the length and the heads.
    """
    batch, length, width = x.shape
    _check_width(width, num_heads)
    return x.reshape(batch, num_heads, length, width // num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def heads_after_length(x, num_heads):
    """The heads stand after the length, (B, L, H, D): the swap is missing.

    Swap axes 1 and 2 after the reshape, so that every head is a batch item of its own.
    """
    return plain_split_heads(x, num_heads).transpose(1, 2)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def heads_interleaved(x, num_heads):
    """Head h takes every H-th number of a token instead of D neighbours.

    Cut the width into (H, D), in this order: reshape to (B, L, H, D).
    """
    batch, length, width = x.shape
    _check_width(width, num_heads)
    return x.reshape(batch, length, width // num_heads, num_heads).permute(0, 3, 1, 2)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def width_for_number(x, num_heads):
    """`num_heads` is taken for the width of a head: there are E / H heads of width H.

    There are H = num_heads heads, each of width E / H.
    """
    _check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, x.shape[-1] // num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def rest_of_the_width_dropped(x, num_heads):
    """A width that the heads do not divide is cut all the same, and the rest of it is lost.

    Raise a ValueError with both numbers if E % num_heads is not 0.
    """
    dim = x.shape[-1] // num_heads
    return plain_split_heads(x[..., : num_heads * dim], num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def assertion_in_split(x, num_heads):
    """An uneven width is refused with an assert, which is no ValueError and vanishes under -O.

    Raise ValueError, with the width and the number of heads in its message.
    """
    assert x.shape[-1] % num_heads == 0, f"{x.shape[-1]} % {num_heads}"
    return plain_split_heads(x, num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge, null=True)
def zeros_for_heads(x, num_heads):
    """Zeros of the right shape.

    Nothing is cut yet.
    """
    _check_width(x.shape[-1], num_heads)
    return torch.zeros_like(plain_split_heads(x, num_heads))


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def no_swap_in_merge(x):
    """The heads are joined by a reshape straight to (B, L, E), without swapping them back.

    Swap the heads and the length first, and then join the last two axes.
    """
    batch, heads, length, dim = x.shape
    return x.reshape(batch, length, heads * dim)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def not_contiguous(x):
    """After the swap the tensor is not contiguous, and `view` refuses it.

    Use reshape, or contiguous() before view.
    """
    batch, heads, length, dim = x.shape
    return x.transpose(1, 2).view(batch, length, heads * dim)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def merged_by_width(x):
    """The numbers of a token alternate between the heads instead of lying head after head.

    Swap to (B, L, H, D), not to (B, L, D, H), before the last two axes are joined.
    """
    return x.permute(0, 2, 3, 1).flatten(-2)


@mistake(of="merge_heads", caught_by=test_empty)
def width_left_to_minus_one(x):
    """The last size is left to -1, which could be anything for an empty batch.

    Spell it out: H * D.
    """
    batch, _, length, _ = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, -1)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def merge_detached(x):
    """The gradient is cut on the way.

    Use PyTorch operators only, without detach, .data or NumPy.
    """
    return plain_merge_heads(x.detach())


@mistake(of="merge_heads", caught_by=test_split_and_merge, null=True)
def zeros_for_tokens(x):
    """Zeros of the right shape.

    Nothing is joined yet.
    """
    return torch.zeros_like(plain_merge_heads(x))


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleMissing(_Layer):
    """The scores are not divided by sqrt(D), so the softmax is too sharp.

    Divide q @ k^T by sqrt(D), the root of the width of a head, before the softmax.
    """

    def scale(self, q):
        return 1.0


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleOfTheModel(_Layer):
    """The scores are divided by sqrt(E), the width before it was cut into heads.

    A score is a sum of D products, so divide by sqrt(D), where D = E / num_heads.
    """

    def scale(self, q):
        return (self.num_heads * q.shape[-1]) ** -0.5


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleWithoutRoot(_Layer):
    """The scores are divided by D instead of sqrt(D).

    Take the square root of the width of a head.
    """

    def scale(self, q):
        return 1 / q.shape[-1]


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleInverted(_Layer):
    """The scores are multiplied by sqrt(D) instead of divided by it.

    Divide: scores = q @ k^T / sqrt(D).
    """

    def scale(self, q):
        return q.shape[-1] ** 0.5


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleAlmostRight(_Layer):
    """The scale of the scores is about 1 % off.

    It is exactly 1 / sqrt(D).
    """

    def scale(self, q):
        return 1.01 * q.shape[-1] ** -0.5


@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleAfterSoftmax(_Layer):
    """The division by sqrt(D) comes after the softmax, so that the weights do not sum to one.

    Divide the scores, not the weights.
    """

    def scale(self, q):
        return 1.0

    def attention(self, q, k, v, keep):
        heads, weights = super().attention(q, k, v, keep)
        return heads * q.shape[-1] ** -0.5, weights * q.shape[-1] ** -0.5


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class SplitWithoutSwap(_Layer):
    """The heads are cut by a reshape straight to (B, H, L, D), which shuffles tokens among them.

    Reshape to (B, L, H, D), then swap the length and the heads.
    """

    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, self.num_heads, length, width // self.num_heads)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class HeadsBesideTheLength(_Layer):
    """The heads are cut but not swapped, so the heads of one token attend to each other.

    Swap the length and the heads, so that the last two axes are (L, D).
    """

    def attend(self, query, key, value, keep=None):
        q, k, v = (self.split(x).transpose(1, 2) for x in self.project(query, key, value))
        heads, weights = self.attention(q, k, v, None)
        return self.project_out(heads.flatten(-2)), weights


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class MergeWithoutSwap(_Layer):
    """The heads are joined by a reshape straight to (B, L, E), without swapping them back.

    Swap the heads and the length, then join the last two axes.
    """

    def merge(self, x):
        batch, heads, length, dim = x.shape
        return x.reshape(batch, length, heads * dim)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class HeadsInterleaved(_Layer):
    """Head h takes every H-th number of a token instead of D neighbours.

    Cut the width into (H, D), in this order.
    """

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)

    def merge(self, x):
        return x.permute(0, 2, 3, 1).flatten(-2)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BatchAndHeadsMixed(_Layer):
    """Batch and heads become one axis with the heads outermost, and are taken apart the other way.

    Keep to one order: (B, H, L, D) -> (B * H, L, D) and back to (B, H, L, D).
    """

    def split(self, x):
        heads = super().split(x)
        return heads.transpose(0, 1).reshape(heads.shape)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class OneHeadOnly(_Layer):
    """The width is never cut: one head attends, and its weights are repeated for the others.

    Split q, k and v into heads, and let each attend by itself.
    """

    def attention(self, q, k, v, keep):
        whole = [plain_merge_heads(x)[:, None] for x in (q, k, v)]
        heads, weights = super().attention(*whole, keep)
        return self.split(heads[:, 0]), weights.expand(-1, self.num_heads, -1, -1)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class WeightsAveraged(_Layer):
    """The weights are averaged over the heads, as nn.MultiheadAttention does unless told not to.

    Return the weights of every head: (B, H, Lq, Lk).
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        return output, weights.mean(1)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScoresReturned(_Layer):
    """The scores come back in the place of the weights.

    Return what the softmax gives: numbers from 0 to 1 that sum to one in every row.
    """

    def attention(self, q, k, v, keep):
        heads, _ = super().attention(q, k, v, keep)
        return heads, q @ k.mT * self.scale(q)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class OutputProjectionForgotten(_Layer):
    """The merged heads are returned without the last projection, w_o.

    Apply w_o to the merged heads: it is where the heads meet.
    """

    def project_out(self, x):
        return x


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class QueryProjectionUsedTwice(_Layer):
    """The keys are projected with w_q instead of w_k.

    Queries, keys and values have a projection each: w_q, w_k and w_v.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_q(key), self.w_v(value)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class KeyProjectionUsedTwice(_Layer):
    """The values are projected with w_k instead of w_v.

    Queries, keys and values have a projection each: w_q, w_k and w_v.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_k(key), self.w_k(value)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class NotProjected(_Layer):
    """Tokens are cut into heads as they come, without w_q, w_k and w_v.

    Project first: w_q(x), w_k(context), w_v(context).
    """

    def project(self, query, key, value):
        return query, key, value


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class SoftmaxOverQueries(_Layer):
    """The softmax runs over the queries, so the columns of the weights sum to one.

    Each query shares out its weight among the keys: softmax over the last dimension.
    """

    def weigh(self, scores, keep):
        return torch.softmax(scores, -2)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class SoftmaxOverHeads(_Layer):
    """The softmax runs over the heads instead of the keys.

    Softmax over the last dimension, the keys, in each head by itself.
    """

    def weigh(self, scores, keep):
        seen = None if keep is None else keep.expand(scores.shape).transpose(1, -1)
        return super().weigh(scores.transpose(1, -1), seen).transpose(1, -1)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class ResidualAdded(_Layer):
    """The input is added to the output, as the block around an attention does.

    Return w_o(merged) alone. The residual belongs to whoever calls.
    """

    def forward(self, x, context=None, keep=None):
        output, weights = super().forward(x, context, keep)
        return output + x, weights


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BiasNeverMade(_Layer):
    """`bias=True` is ignored: the projections have no bias.

    Hand it on to each of the four: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BiasAlwaysMade(_Layer):
    """The projections have a bias although `bias` is False, for nn.Linear makes one by itself.

    Hand it on to each of the four: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias=True)


@also_of_arrays(caught_by=test_dtype)
@mistake(of="MultiHeadAttention", caught_by=test_dtype)
class DoubleLowered(_Layer):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """

    def widen(self, x):
        return x.float()


@mistake(of="MultiHeadAttention", caught_by=test_values)
class DropoutAlwaysOn(_Layer):
    """Some of the weights are dropped at random.

    Leave dropout out: the answer to a call depends on what it is given, and on nothing else.
    """

    def weigh(self, scores, keep):
        return nn.functional.dropout(super().weigh(scores, keep), 0.1)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class ContextIgnored(_Layer):
    """Keys and values come from x although there is a context.

    With a context, w_k and w_v read the context, and only w_q reads x.
    """

    def source(self, x, context):
        return x


@mistake(of="MultiHeadAttention", caught_by=test_context)
class KeysFromX(_Layer):
    """The keys come from x, and only the values from the context.

    With a context, w_k and w_v both read it.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_k(query), self.w_v(value)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class ValuesFromX(_Layer):
    """The values come from x, and only the keys from the context.

    With a context, w_k and w_v both read it.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_k(key), self.w_v(query)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class RolesExchanged(_Layer):
    """The queries come from the context, and keys and values from x.

    It is x that asks: queries from x, keys and values from the context.
    """

    def forward(self, x, context=None, keep=None):
        return super().forward(x if context is None else context, x, keep)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class ContextAppended(_Layer):
    """The context is appended to x, so that x attends to itself as well.

    With a context, keys and values come from the context alone.
    """

    def source(self, x, context):
        return x if context is None else torch.cat((context, x), 1)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskIgnored(_Layer):
    """The mask is ignored.

    Put -inf in the place of the scores where keep is False, before the softmax.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores, None)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskInverted(_Layer):
    """The mask is read the wrong way round: the keys to look at are hidden, the others are not.

    True = may attend. Hide where ~keep.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores, None if keep is None else ~keep)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskAfterSoftmax(_Layer):
    """The hidden weights are erased after the softmax, so that the rest sum to less than one.

    Put -inf in the place of the hidden scores before the softmax.
    """

    def weigh(self, scores, keep):
        weights = super().weigh(scores, None)
        return weights if keep is None else torch.where(keep, weights, 0.0)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskedWithZero(_Layer):
    """Hidden scores are set to 0, and exp(0) is 1: hidden keys still get weight.

    Fill in -inf, whose exponential is 0.
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else torch.where(keep, scores, 0.0)
        return super().weigh(filled, None)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskOfTheFirstHead(_Layer):
    """Every head is given the mask of the first.

    A mask may be different for every head: let it broadcast to (B, H, Lq, Lk).
    """

    def weigh(self, scores, keep):
        shared = keep if keep is None or keep.ndim < 3 else keep[..., :1, :, :]
        return super().weigh(scores, shared)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskTiled(_Layer):
    """Batch and heads are one axis, but the mask is repeated for it in the wrong order.

    Expand the mask to (B, H, Lq, Lk) before flattening it, or use repeat_interleave, not repeat.
    """

    def weigh(self, scores, keep):
        if keep is not None and keep.ndim == 4 and keep.shape[:2] == (len(scores), 1):
            tiled = keep.repeat(self.num_heads, 1, 1, 1)
            keep = tiled.view(len(scores), self.num_heads, *keep.shape[2:])
        return super().weigh(scores, keep)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskTakenForBatch(_Layer):
    """A mask of three dimensions is taken for (B, Lq, Lk), but it broadcasts as (H, Lq, Lk).

    Leave the mask as it is. Whoever has one for each batch item writes keep[:, None].
    """

    def weigh(self, scores, keep):
        if keep is not None and keep.ndim == 3:
            keep = keep[:, None]
        return super().weigh(scores, keep)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskSubtracted(_Layer):
    """1e9 is subtracted from hidden scores, which a score of 1e30 does not even notice.

    Replace them by -inf: masked_fill or where.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores if keep is None else scores - 1e9 * ~keep, None)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaximumOfHiddenScores(_Layer):
    """The maximum is taken over hidden scores too: if one of them is 1e30, all others vanish.

    Put -inf in the place of the hidden scores first, then take the maximum.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return super().weigh(scores, None)
        powers = torch.exp(scores - scores.amax(-1, keepdim=True)) * keep
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsUniform(_Layer):
    """A row that may see nothing sees everything a little, as if hidden scores were -1e9.

    Fill in -inf, and give such a row weights 0 by itself.
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else scores.masked_fill(~keep, -1e9)
        return super().weigh(filled, None)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsNaN(_Layer):
    """A row that may see nothing becomes NaN: softmax of nothing but -inf is 0 / 0.

    Give such a row harmless scores before the softmax, and weights 0 after it.
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
        return super().weigh(filled, None)


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsMendedTooLate(_Layer):
    """The NaN of a row that sees nothing is wiped from the weights, but not from the gradient.

    Do not let it arise: give such a row harmless scores before the softmax.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return super().weigh(scores, None)
        bias = torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)
        return torch.softmax(scores + bias, -1).nan_to_num(0.0)


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsLoseTheirBias(_Layer):
    """The output of a row that sees nothing is set to 0 after w_o, whose bias is lost on the way.

    The weights are 0, and w_o makes its bias of that. Nothing is left to be done.
    """

    def forward(self, x, context=None, keep=None):
        output, weights = super().forward(x, context, keep)
        return torch.where(weights.sum((1, -1))[..., None] == 0, 0.0, output), weights


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class HalfNotRaised(_Layer):
    """Half precision stays half all the way, and float16 has no room for the scores.

    Convert q, k and v to float32 before the first product, and the two results back.
    """

    def widen(self, x):
        return x


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class RaisedTooLate(_Layer):
    """The scores are raised to float32 after the product that overflows.

    Convert q and k before they are multiplied.
    """

    def attention(self, q, k, v, keep):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q @ k.mT).to(wide) * self.scale(q)
        weights = self.weigh(scores, keep)
        return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class WeightsLeftInFloat32(_Layer):
    """The weights of half precision come back in float32.

    Convert both results to the dtype of x.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        return output, weights.to(torch.promote_types(weights.dtype, torch.float32))


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class WeightsDetached(_Layer):
    """The weights are cut out of the graph, so that w_q and w_k never learn.

    Mix the values with weights that are not detached; no .data, no NumPy.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores, keep).detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class ContextDetached(_Layer):
    """The context is cut out of the graph, so that what made it never learns.

    Use the context as it comes, without detach.
    """

    def source(self, x, context):
        return x if context is None else context.detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class WeightsCopied(_Layer):
    """The projections use copies of their matrices, so that no gradient reaches the parameters.

    Call the layers: self.w_q(x).
    """

    def project(self, query, key, value):
        return tuple(
            nn.functional.linear(x, w.weight.data, w.bias)
            for x, w in ((query, self.w_q), (key, self.w_k), (value, self.w_v))
        )


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class InputOverwritten(_Layer):
    """x is overwritten: an operator with a trailing underscore, or `+=`.

    Make a new tensor; x belongs to whoever calls.
    """

    def forward(self, x, context=None, keep=None):
        answer = super().forward(x, context, keep)
        x.data.mul_(0.5)
        return answer


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class LayersShared(_Layer):
    """All layers share the same four projections: they were made outside __init__.

    Create them in __init__, so that every layer has its own.
    """

    made = {}  # noqa: RUF012 (that is the mistake)

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias)
        own = [self.w_q, self.w_k, self.w_v, self.w_o]
        shared = self.made.setdefault((d_model, bias), own)
        self.w_q, self.w_k, self.w_v, self.w_o = shared


@also_of_arrays(caught_by=test_manners)
@mistake(of="MultiHeadAttention", caught_by=test_manners)
class UnevenHeadsAccepted(_Layer):
    """A width that the heads do not divide is accepted, or refused by an error of the library only.

    Raise a ValueError with both numbers if E % num_heads is not 0: of a layer, in __init__.
    """

    def check_width(self, d_model, num_heads):
        pass

    def split(self, x):
        return super().split(x[..., : x.shape[-1] // self.num_heads * self.num_heads])

    def project_out(self, x):
        return super().project_out(nn.functional.pad(x, (0, self.w_o.in_features - x.shape[-1])))


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class ErrorWithoutNumbers(_Layer):
    """The error about an uneven width does not say which width and how many heads.

    Put both numbers in its message.
    """

    def check_width(self, d_model, num_heads):
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")


@also_of_arrays(caught_by=test_numpy_values, null=True)
@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class Zeros(_Layer):
    """Zeros.

    Nothing is computed yet.
    """

    def attend(self, query, key, value, keep=None):
        return tuple(torch.zeros_like(x) for x in super().attend(query, key, value, keep))


@also_of_arrays(caught_by=test_numpy_values, null=True)
@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class Mean(_Layer):
    """Every key gets the same weight, so the output is a mean of the values.

    The weights depend on the scores, through the softmax.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores * 0, keep)


@also_of_arrays(caught_by=test_numpy_values, null=True)
@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class ArgMax(_Layer):
    """All the weight goes to the key with the largest score.

    That is argmax. Softmax leaves something for the others.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores * 1e6, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class NoAttention(_Layer):
    """The output is a linear layer of x: no token ever looks at another.

    Mix the values of all keys with the weights of the softmax.
    """

    def attend(self, query, key, value, keep=None):
        _, weights = super().attend(query, key, value, keep)
        return self.w_o(self.w_v(query)), weights * 0


@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class InputReturned(_Layer):
    """x is returned as it came.

    Return w_o(merged), the mixture of the values.
    """

    def attend(self, query, key, value, keep=None):
        return query, super().attend(query, key, value, keep)[1]


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def matrices_transposed(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The matrices are used transposed, x @ w.T, as nn.Linear keeps them.

    Here they are plain: a projection is x @ w.
    """
    return attention_of_arrays(query, key, value, w_q.T, w_k.T, w_v.T, w_o.T, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def value_ignored(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The values are made from `key`, and `value` is never read.

    Keys are key @ w_k, values are value @ w_v.
    """
    return attention_of_arrays(query, key, key, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_half_precision)
def promoted_to_float32(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """float16 goes in and float32 comes out.

    Convert output and weights to the dtype of `query` at the end.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    return tuple(x.astype(np.promote_types(x.dtype, np.float32)) for x in answer)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def input_overwritten_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """`query` is overwritten: an operator such as `*=` or `-=` changes the caller's array.

    Write x = x * scale, which makes a new array, instead of x *= scale.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    query *= 1 / math.sqrt(3)
    return answer


# Two options at once.

HALVES = (torch.float16, torch.bfloat16)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskIgnoredWithoutContext(_Layer):
    """Without a context the mask is ignored, and x attends to all of itself.

    Use `keep` whether or not there is a context.
    """

    def forward(self, x, context=None, keep=None):
        return super().forward(x, context, None if context is None else keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class ContextIgnoredUnderAMask(_Layer):
    """With a mask the context is ignored where it is as long as x, or its length is cut to fit.

    Keys and values come from the context whenever there is one.
    """

    def forward(self, x, context=None, keep=None):
        if context is not None and keep is not None:
            short = x[:, : context.shape[1]]
            context = torch.cat((short, context[:, short.shape[1] :]), 1)
        return super().forward(x, context, keep)


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class HalfNotRaisedUnderAMask(_Layer):
    """With a mask, half precision stays half, and float16 has no room for the scores.

    Convert q, k and v to float32 before the first product, whether or not there is a mask.
    """

    def attention(self, q, k, v, keep):
        how = _Layer if keep is None else PlainMultiHeadAttention
        return how.attention(self, q, k, v, keep)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class NoMaximumUnderAMask(_Layer):
    """With a mask, the exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row there too, after the mask and before exp.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return super().weigh(scores, None)
        powers = torch.where(keep, scores, -torch.inf).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@also_of_arrays(caught_by=test_dtype)
@mistake(of="MultiHeadAttention", caught_by=test_dtype)
class NoMaximumInDouble(_Layer):
    """In float64 the exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row in every dtype: float64 has an end as well.
    """

    def weigh(self, scores, keep):
        if scores.dtype != torch.float64:
            return super().weigh(scores, keep)
        powers = scores.exp() if keep is None else scores.masked_fill(~keep, -torch.inf).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class WeightsLeftInFloat32UnderAMask(_Layer):
    """With a mask, the weights of half precision come back in float32.

    Convert both results to the dtype of x, whether or not there is a mask.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        wide = torch.promote_types(weights.dtype, torch.float32)
        return output, weights if keep is None else weights.to(wide)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class BiasForgottenInHalfPrecision(_Layer):
    """In half precision the last projection is written out as a product, and its bias is forgotten.

    Call the layer: self.w_o(merged).
    """

    def project_out(self, x):
        return x @ self.w_o.weight.mT if x.dtype in HALVES else self.w_o(x)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class WeightsDetachedUnderAMask(_Layer):
    """With a mask the weights are cut out of the graph, so that w_q and w_k never learn.

    Mix the values with weights that are not detached; no .data, no NumPy.
    """

    def weigh(self, scores, keep):
        weights = super().weigh(scores, keep)
        return weights if keep is None else weights.detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class InputDetachedWithoutContext(_Layer):
    """Without a context, keys and values are made from a copy of x that is cut out of the graph.

    Use x itself, without detach or .data.
    """

    def source(self, x, context):
        return x.detach() if context is None else context


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsMendedTooLateInHalfPrecision(_Layer):
    """In half precision the NaN of a row that sees nothing is wiped from the weights, but not from
    the gradient.

    Do not let it arise, in any dtype: give such a row harmless scores before the softmax.
    """

    def attention(self, q, k, v, keep):
        if q.dtype not in HALVES or keep is None:
            return super().attention(q, k, v, keep)
        scores = q.float() @ k.float().mT * self.scale(q)
        bias = torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)
        weights = torch.softmax(scores + bias, -1).nan_to_num(0.0)
        return (weights @ v.float()).to(q.dtype), weights.to(q.dtype)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class InputOverwrittenWithoutContext(_Layer):
    """x is overwritten, in float32 and when there is neither context nor mask.

    Make a new tensor; x belongs to whoever calls.
    """

    def forward(self, x, context=None, keep=None):
        answer = super().forward(x, context, keep)
        if context is None and keep is None and x.dtype == torch.float32:
            x.data.mul_(0.5)
        return answer


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class LastMaskRemembered(_Layer):
    """The last mask is kept, and used again by a call that gives none.

    Keep nothing between calls: without `keep`, nothing is hidden.
    """

    def forward(self, x, context=None, keep=None):
        if keep is None and context is not None:
            shape = len(x), self.num_heads, x.shape[1], context.shape[1]
            last = getattr(self, "last", None)
            keep = last if last is not None and last.shape == shape else None
        elif keep is not None:
            self.last = keep
        return super().forward(x, context, keep)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def half_precision_widened_in_split(x, num_heads):
    """Half precision comes back in float32.

    Nothing is computed here, so there is nothing to convert.
    """
    _check_width(x.shape[-1], num_heads)
    return plain_split_heads(x.to(torch.promote_types(x.dtype, torch.float32)), num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def split_in_float32(x, num_heads):
    """The heads come back in float32, whatever the dtype of x.

    Nothing is computed here, so there is nothing to convert.
    """
    _check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads).float()


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def half_precision_widened_in_merge(x):
    """Half precision comes back in float32.

    Nothing is computed here, so there is nothing to convert.
    """
    return plain_merge_heads(x.to(torch.promote_types(x.dtype, torch.float32)))


@mistake(of="multi_head_attention_numpy", caught_by=test_extremes)
def empty_rows_nan_in_half_precision_numpy(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None
):
    """In half precision a row that may see nothing becomes NaN.

    Treat such rows alike in every dtype: divide by 1 where the sum is 0.
    """
    layer = EmptyRowsNaN if query.dtype == np.float16 else _Layer
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, layer)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def input_overwritten_in_single_precision_numpy(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None
):
    """`query` is overwritten, in float32 and without a mask only.

    Write x = x * scale, which makes a new array, instead of x *= scale.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    if keep is None and query.dtype == np.float32:
        query *= 1 / math.sqrt(3)
    return answer


# Kinds of input in which wrong answers hide.


@mistake(of="split_heads", caught_by=test_split_and_merge)
def batch_of_one_squeezed_in_split(x, num_heads):
    """A batch of one is squeezed away.

    Keep all four dimensions: (B, H, L, D), with B = 1 as well.
    """
    _check_width(x.shape[-1], num_heads)
    heads = plain_split_heads(x, num_heads)
    return heads.squeeze(0) if len(x) == 1 else heads


@mistake(of="split_heads", caught_by=test_split_and_merge)
def head_numbers_in_one_byte(x, num_heads):
    """The heads are counted in int8, which ends at 127.

    Leave the dtype of an index to PyTorch, or use no index at all: reshape and swap.
    """
    _check_width(x.shape[-1], num_heads)
    index = torch.arange(num_heads).to(torch.int8).long()
    return plain_split_heads(x, num_heads)[:, index % num_heads]


@mistake(of="split_heads", caught_by=test_split_and_merge)
def too_many_heads_accepted(x, num_heads):
    """More heads than there are numbers in a token are accepted: heads of width 0.

    Ask whether E % num_heads is 0, whichever of the two is larger.
    """
    if num_heads < x.shape[-1] and x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return plain_split_heads(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)


@mistake(of="split_heads", caught_by=test_manners)
def heads_picked_on_the_cpu(x, num_heads):
    """A new tensor is made on the CPU, wherever x is.

    Give device=x.device to every tensor that is made.
    """
    _check_width(x.shape[-1], num_heads)
    batch, length, width = x.shape
    heads = x.reshape(batch, length, num_heads, width // num_heads).swapaxes(1, 2)
    return heads + torch.zeros(batch, 1, 1, 1).to(x.dtype) if torch.is_tensor(x) else heads


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def one_head_squeezed(x):
    """`squeeze` drops every axis of size 1, the length or the batch among them.

    Name the axis, or join two axes with reshape or flatten.
    """
    if x.shape[1] > 1:
        return plain_merge_heads(x)
    return x.squeeze()


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def causal_where_square_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """Without a mask, later keys are hidden where there are as many queries as keys.

    `keep` alone says what is hidden. Without it every key is seen.
    """
    queries, keys = query.shape[1], key.shape[1]
    if keep is None and queries == keys:
        keep = np.tri(queries, dtype=bool)
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def first_1024_keys_only_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """A buffer has room for 1024 keys, and the others are not read.

    Take the length from key.shape[1].
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    if key.shape[1] <= 1024:
        return answer
    hidden = np.arange(key.shape[1]) < 1024
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, hidden)


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_mask)
def mask_turned_where_square_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The mask is transposed where it is square, as if its rows were keys.

    Rows of `keep` are queries, and its last axis is keys: use it as it is.
    """
    if keep is not None and keep.ndim > 1 and keep.shape[-1] == keep.shape[-2]:
        keep = np.swapaxes(keep, -1, -2)
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def same_array_taken_for_causal(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """Later keys are hidden where query and key are one array, as if a model read its own text.

    Whatever arrays are given, `keep` alone says what is hidden.
    """
    if keep is None and query is key:
        keep = np.tri(query.shape[1], key.shape[1], dtype=bool)
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


ANSWERS = {}


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def answer_remembered_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The answer is kept, and given again to the same arrays although their numbers have changed.

    Compute it anew in every call.
    """
    given = query, key, value, w_q, w_k, w_v, w_o, keep
    found = tuple(map(id, given))
    if found not in ANSWERS:
        ANSWERS[found] = (
            given,
            attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep),
        )  # so that no id is used again
    return tuple(x.copy() for x in ANSWERS[found][-1])


REFUSED = []


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def locked_after_an_error_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """A call that raised leaves something behind, and the next one refuses to run.

    Check the sizes before anything is changed.
    """
    if query.shape[-1] % num_heads:
        REFUSED.append(num_heads)
    elif REFUSED:
        REFUSED.clear()
        raise RuntimeError("still busy")
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class CausalByItself(_Layer):
    """x sees no later token when it attends to itself, although no mask says so.

    `keep` alone says what is hidden. Without it every token is seen.
    """

    def forward(self, x, context=None, keep=None):
        if context is None and keep is None:
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class CausalInEval(_Layer):
    """In .eval() later tokens are hidden, as if every evaluation wrote a text.

    In .train() and in .eval(), `keep` alone says what is hidden.
    """

    def forward(self, x, context=None, keep=None):
        if not self.training and keep is None and context is None:
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class DropoutInTraining(_Layer):
    """Weights are dropped at random in .train(), as many published layers do.

    Leave dropout out: nobody has asked for it, and the answer is the same in both modes.
    """

    def weigh(self, scores, keep):
        return nn.functional.dropout(super().weigh(scores, keep), 0.1, self.training)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BatchOfOneSqueezed(_Layer):
    """A batch of one is squeezed out of the output.

    Name the axis that is to go; `squeeze` drops every axis of size 1.
    """

    def project_out(self, x):
        output = super().project_out(x)
        return output.squeeze(0) if len(x) == 1 else output


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class QueriesAndKeysExchanged(_Layer):
    """Queries are made with w_k, and keys with w_q.

    Queries are made with w_q and keys with w_k. If the matrices are joined for one product, cut it
    in the order in which they were joined.
    """

    def project(self, query, key, value):
        return self.w_k(query), self.w_q(key), self.w_v(value)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class QueriesAndKeysExchangedWithoutContext(_Layer):
    """Where x attends to itself, queries are made with w_k and keys with w_q.

    Join the matrices in the order q, k, v, and cut the product in the same order.
    """

    def project(self, query, key, value):
        q, k = (self.w_k, self.w_q) if query is key else (self.w_q, self.w_k)
        return q(query), k(key), self.w_v(value)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class KeysAndValuesExchanged(_Layer):
    """Keys are made with w_v, and values with w_k.

    Keys are made with w_k and values with w_v. If the matrices are joined for one product, cut it
    in the order in which they were joined.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_v(key), self.w_k(value)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class OneMatrixForThree(_Layer):
    """Queries, keys and values come from one fused layer, and w_q, w_k and w_v do not exist.

    That is how many models store them. Here make four layers with these names; their matrices may
    be joined for the product.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias)
        del self.w_q, self.w_k, self.w_v
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)

    def project(self, query, key, value):
        weights = self.qkv.weight.chunk(3)
        return tuple(x @ w.mT for x, w in zip((query, key, value), weights, strict=True))


@mistake(of="MultiHeadAttention", caught_by=test_context)
class BiasForgottenForTheContext(_Layer):
    """With a context, keys and values are written out as products, and their bias is forgotten.

    Call the layers: self.w_k(context) and self.w_v(context).
    """

    def project(self, query, key, value):
        if query is key:
            return super().project(query, key, value)
        return self.w_q(query), key @ self.w_k.weight.mT, value @ self.w_v.weight.mT


@mistake(of="MultiHeadAttention", caught_by=test_context)
class First1024TokensOnly(_Layer):
    """A buffer has room for 1024 tokens, and the rest of the context is not read.

    Take the length from context.shape[1].
    """

    def weigh(self, scores, keep):
        if scores.shape[-1] > 1024:
            scores = scores.index_fill(-1, torch.arange(1024, scores.shape[-1]), -torch.inf)
        return super().weigh(scores, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskTurnedWhereSquare(_Layer):
    """The mask is transposed where it is square, as if its rows were keys.

    Rows of `keep` are queries, and its last axis is keys: use it as it is.
    """

    def weigh(self, scores, keep):
        if keep is not None and keep.ndim > 1 and keep.shape[-1] == keep.shape[-2]:
            keep = keep.mT
        return super().weigh(scores, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskOf128Keys(_Layer):
    """The mask has an effect on the first 128 keys only.

    Let it broadcast to all Lk keys.
    """

    def weigh(self, scores, keep):
        if keep is not None and keep.shape[-1] > 128:
            keep = keep | (torch.arange(keep.shape[-1], device=keep.device) >= 128)
        return super().weigh(scores, keep)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class ReturnedWeightsDetached(_Layer):
    """The weights that are returned are cut out of the graph, and nothing learns through them.

    Return them as they are, without detach.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        return output, weights.detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class SameTensorDetached(_Layer):
    """Where the context is x itself, it is cut out of the graph.

    Use the context as it comes, without detach.
    """

    def forward(self, x, context=None, keep=None):
        return super().forward(x, x.detach() if context is x else context, keep)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class MaximumBeginsWithZero(_Layer):
    """The maximum of a row begins with 0, so that the powers of very low scores all become 0.

    Begin with -inf, or take the maximum of the row itself.
    """

    def weigh(self, scores, keep):
        seen = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
        top = torch.where(seen, scores, 0.0).amax(-1, keepdim=True).clamp(min=0.0).detach()
        powers = torch.where(seen, scores - top, -torch.inf).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class OneMaximumForAll(_Layer):
    """One maximum of all scores is subtracted from every row, and rows far below it vanish.

    Each row has its own: scores.amax(-1, keepdim=True).
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else torch.where(keep, scores, -torch.inf)
        most = filled.detach().max() if filled.numel() else 0.0
        powers = (filled - most).exp() if most != -torch.inf else torch.zeros_like(filled)
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class NoMaximumSubtracted(_Layer):
    """The exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row before exp: it changes nothing on paper.
    """

    def weigh(self, scores, keep):
        powers = (scores if keep is None else torch.where(keep, scores, -torch.inf)).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class SameTensorTakenForCausal(_Layer):
    """Later tokens are hidden where the context is x itself, as if a model read its own text.

    Whatever tensors are given, `keep` alone says what is hidden.
    """

    def forward(self, x, context=None, keep=None):
        if context is x and keep is None:
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class WeightsRemembered(_Layer):
    """Matrices that were joined in the first call are kept, and new weights are not noticed.

    Read the weights in every call: self.w_q(x), or torch.cat of the three each time.
    """

    def project(self, query, key, value):
        layers = (self.w_q, self.w_k, self.w_v)
        if torch.is_grad_enabled() and any(layer.weight.requires_grad for layer in layers):
            return super().project(query, key, value)
        if not hasattr(self, "joined"):
            self.joined = [layer.weight.detach().clone() for layer in layers]
        tokens = (query, key, value)
        return tuple(
            nn.functional.linear(x, w.to(x.device), layer.bias)
            for x, w, layer in zip(tokens, self.joined, layers, strict=True)
        )


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class ContextRemembered(_Layer):
    """The keys of a context are kept, and used again although its numbers have changed.

    Compute keys and values anew in every call.
    """

    def source(self, x, context):
        if context is None or context.requires_grad:
            return super().source(x, context)
        last = getattr(self, "last", None)
        if last is None or last[0] is not context:
            self.last = last = context, context.clone()
        return last[1]


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class OneBufferForAllAnswers(_Layer):
    """Answers of the same shape are written into the same memory, over earlier ones.

    Return a new tensor in every call.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        if output.requires_grad or output.device.type == "meta":
            return output, weights
        buffers = self.__dict__.setdefault("buffers", {})
        buffer = buffers.setdefault((output.shape, output.dtype), torch.empty_like(output))
        return buffer.copy_(output), weights


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class WeightsRememberedInEval(WeightsRemembered):
    """Matrices that were joined in .eval() are kept, and new weights are not noticed.

    Read the weights in every call: in evaluation, too, somebody may load others.
    """

    def project(self, query, key, value):
        if self.training:
            return _Layer.project(self, query, key, value)
        return super().project(query, key, value)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class OneBufferForTheWeights(_Layer):
    """In .eval() the weights that are returned lie in one place, and later calls change them.

    Return a new tensor in every call.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        if self.training or weights.requires_grad or weights.device.type == "meta":
            return output, weights
        buffers = self.__dict__.setdefault("buffers", {})
        buffer = buffers.setdefault((weights.shape, weights.dtype), torch.empty_like(weights))
        return output, buffer.copy_(weights)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class SizesOfTheClass(_Layer):
    """The number of heads is stored in the class, so that a new layer changes those made before.

    Write self.num_heads = num_heads: an attribute of the object.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias)
        del self.num_heads
        type(self).num_heads = num_heads


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class MaskMadeOnTheCPU(_Layer):
    """Without a mask one is made that hides nothing, on the CPU wherever x is.

    Give device=x.device to every tensor that is made.
    """

    def weigh(self, scores, keep):
        if keep is None:
            keep = torch.ones(scores.shape[-1], dtype=torch.bool)
        hidden = torch.zeros(keep.shape).masked_fill(~keep.cpu(), -torch.inf)
        if scores.device.type == "meta":
            return super().weigh(hidden.expand(scores.shape).to(scores.dtype), None)
        return super().weigh(scores, keep)


# What beginners do.


@mistake(of="split_heads", caught_by=test_split_and_merge)
def tokens_after_the_width(x, num_heads):
    """The last two axes are exchanged: the shape is (B, H, D, L).

    Exchange axes 1 and 2 of (B, L, H, D), and no others.
    """
    _check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads).mT


@mistake(of="split_heads", caught_by=test_split_and_merge)
def heads_before_the_batch(x, num_heads):
    """The heads stand before the batch: the shape is (H, B, L, D).

    Give them axis 1, behind the batch: torch.stack(heads, dim=1).
    """
    _check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads).transpose(0, 1)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def split_detached(x, num_heads):
    """The gradient is cut on the way.

    Use PyTorch operators only, without detach, .data or NumPy.
    """
    _check_width(x.shape[-1], num_heads)
    return plain_split_heads(x.detach(), num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def width_not_in_the_error(x, num_heads):
    """The ValueError about an uneven width does not say how wide a token is.

    Put both numbers in its message: the width and the number of heads.
    """
    if x.shape[-1] % num_heads:
        raise ValueError(f"the width is no multiple of {num_heads}")
    return plain_split_heads(x, num_heads)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def heads_averaged(x):
    """The heads are averaged instead of laid side by side: the shape is (B, L, D).

    Swap the heads and the length, and then join the last two axes.
    """
    return plain_merge_heads(x.mean(1, keepdim=True))


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def heads_joined_along_the_length(x):
    """The heads follow one another along the length: the shape is (B, H * L, D).

    Lay them side by side: torch.cat(heads, dim=-1), or swap and join the last two axes.
    """
    return plain_merge_heads(x.flatten(1, 2)[:, None])


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def last_head_left_out(x):
    """The last head is left out.

    Join all H heads: range(H) ends before H by itself.
    """
    return plain_merge_heads(x[:, :-1])


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def merge_in_float32(x):
    """The tokens come back in float32, whatever the dtype of x.

    Nothing is computed here, so there is nothing to convert.
    """
    return plain_merge_heads(x).float()


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def input_transposed_in_place(x):
    """x itself is transposed: the trailing underscore of transpose_ changes the caller's tensor.

    Write x.transpose(1, 2), which leaves x as it is.
    """
    return plain_merge_heads(x.transpose_(1, 2).transpose(1, 2))


@mistake(of="MultiHeadAttention", caught_by=test_values)
class OneProjectionForAll(_Layer):
    """The four projections are one and the same layer, with one matrix.

    Make four layers: every nn.Linear(...) is a new one, and `a = b = nn.Linear(...)` is one.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias)
        self.w_q = self.w_k = self.w_v = self.w_o


@also_of_arrays(caught_by=test_dtype)
class EpsilonInTheDenominator(_Layer):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out, and divide by 1 where a row sees nothing and the sum is 0.
    """

    def weigh(self, scores, keep):
        if keep is not None:
            scores = scores.masked_fill(~keep, -torch.inf)
        lowest = torch.finfo(scores.dtype).min
        powers = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=lowest))
        return powers / (powers.sum(-1, keepdim=True) + 1e-6)


# Habits of public code, each of which breaks one demand.


@mistake(of="MultiHeadAttention", caught_by=test_dtype)
class SoftmaxAloneInFloat32(_Layer):
    """The softmax alone is computed in float32: the products keep the dtype of x.

    That is a habit of model code: softmax(scores, dtype=torch.float32).to(q.dtype). Raise q, k and
    v instead, and half precision only: scores need it too, and float64 should keep its digits.
    """

    def attention(self, q, k, v, keep):
        scores = q @ k.mT * self.scale(q)
        weights = self.weigh(scores.float(), keep).to(q.dtype)
        return weights @ v, weights


@mistake(of="MultiHeadAttention", caught_by=test_dtype)
class ScaleRoundedToFloat32(_Layer):
    """The scale is a float32 tensor, torch.sqrt(torch.tensor(D)), and float64 loses its digits.

    Take a number of Python: math.sqrt(D), or D ** 0.5.
    """

    def scale(self, q):
        return (1 / torch.sqrt(torch.tensor(q.shape[-1], dtype=torch.float32))).item()


@mistake(of="multi_head_attention_numpy", caught_by=test_dtype)
def scale_widens_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """float32 comes back as float64, for np.sqrt(D) is a number of NumPy's, and widens.

    Divide by math.sqrt(D), a number of Python, or convert both results at the end.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    return tuple(x.astype(np.float64) if x.dtype == np.float32 else x for x in answer)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class LowestNumberFilled(_Layer):
    """Hidden scores become torch.finfo(dtype).min: a row that may see nothing gets the mean.

    Give such a row weights 0: .masked_fill(~keep.any(-1, keepdim=True), 0.0) after the softmax.
    """

    def weigh(self, scores, keep):
        lowest = torch.finfo(scores.dtype).min
        filled = scores if keep is None else scores.masked_fill(keep == 0, lowest)
        return super().weigh(filled, None)


@also_of_arrays(caught_by=test_empty)
@mistake(of="MultiHeadAttention", caught_by=test_empty)
class LengthLeftToMinusOne(_Layer):
    """The length is left to -1 in a reshape, which could be anything for an empty batch.

    Spell it out: reshape(batch, length, heads, dim).
    """

    def split(self, x):
        dim = x.shape[-1] // self.num_heads
        return x.reshape(len(x), -1, self.num_heads, dim).transpose(1, 2)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class Bfloat16NotRaised(_Layer):
    """bfloat16 stays bfloat16 all the way: it has room for every score, but 8 bits of digits.

    Convert q, k and v of both half precisions to float32, and the two results back.
    """

    def attention(self, q, k, v, keep):
        if q.dtype != torch.bfloat16:
            return super().attention(q, k, v, keep)
        scores = q @ k.mT * self.scale(q)
        weights = self.weigh(scores.float(), keep).to(q.dtype)
        return weights @ v, weights


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_mask)
def mask_taken_for_padding_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """A mask (Lq, Lk) is taken for the padding of each sequence where there are Lq sequences.

    `keep` broadcasts to (B, H, Lq, Lk): the last two dimensions are queries and keys.
    """
    if keep is not None and keep.shape == (len(query), key.shape[1]):
        keep = keep[:, None, None, :]
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskTakenForPadding(_Layer):
    """A mask (Lq, Lk) is taken for the padding of each sequence where there are Lq sequences.

    `keep` broadcasts to (B, H, Lq, Lk): the last two dimensions are queries and keys.
    """

    def forward(self, x, context=None, keep=None):
        length = (x if context is None else context).shape[1]
        if keep is not None and keep.shape == (len(x), length):
            keep = keep[:, None, None, :]
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class GradientsInTrainingOnly(_Layer):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class StridedContextCopiedWithoutGraph(_Layer):
    """A context that does not lie in memory in one piece is first copied with .data, so that it
    gets no gradient.

    Copy it with .contiguous() or .reshape(), which gradients pass through.
    """

    def source(self, x, context):
        if context is None or context.is_contiguous():
            return super().source(x, context)
        return context.data.contiguous()


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class MaskedInEvalWithoutGradient(_Layer):
    """In .eval() a call with a mask runs under torch.no_grad(), as if it were one of decoding.

    Leave that to the caller: .eval() says nothing about gradients, and a mask does not either.
    """

    def forward(self, x, context=None, keep=None):
        learns = self.training or keep is None
        with torch.set_grad_enabled(learns and torch.is_grad_enabled()):
            return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class WeightsDetachedInHalfPrecision(_Layer):
    """In half precision the weights come back without their graph: they are converted by .data.

    Convert them with .to(q.dtype), which gradients pass through.
    """

    def attention(self, q, k, v, keep):
        output, weights = super().attention(q, k, v, keep)
        return output, weights.data if weights.dtype.itemsize == 2 else weights


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class EmptyRowsNaNInEval(_Layer):
    """In .eval() rows that may attend to nothing are NaN: only training mends them.

    The layer does the same in both modes: set the weights of empty rows to 0 in either.
    """

    def weigh(self, scores, keep):
        if self.training or keep is None:
            return super().weigh(scores, keep)
        return torch.softmax(torch.where(keep, scores, -torch.inf), -1)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def whole_numbers_made_float(x, num_heads):
    """Whole numbers come back as float32, which does not hold all of them.

    Split by reshape and transpose alone: they move numbers of any dtype, and change none.
    """
    _check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads) + 0.0


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class HiddenWithMinus1e30(_Layer):
    """Hidden scores become -1e30, which hides nothing where all scores are lower.

    Put -inf in the place of hidden scores.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return super().weigh(scores, None)
        return torch.softmax(scores.masked_fill(~keep, -1e30), -1) * keep


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class QueriesScaledInHalfPrecision(_Layer):
    """The queries are divided by sqrt(D) before they become float32, so that they are rounded.

    First float32, then the scale.
    """

    def attention(self, q, k, v, keep):
        return super().attention(q * q.shape[-1] ** -0.5, k, v, keep)

    def scale(self, q):
        return 1.0


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class RaisedWhereGradientsAreOn(_Layer):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """

    def widen(self, x):
        return super().widen(x) if torch.is_grad_enabled() else x


@mistake(of="MultiHeadAttention", caught_by=test_context)
class KeysBeyond2048Unseen(_Layer):
    """A buffer has room for 2,048 keys, and the others get no weight.

    Take the length from the context.
    """

    def weigh(self, scores, keep):
        seen = torch.arange(scores.shape[-1], device=scores.device) < 2048
        return super().weigh(scores, seen if keep is None else keep & seen)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class NoGraphUnlessInputLearns(_Layer):
    """The context and the weights have no gradient unless x requires one.

    In training x seldom does. Leave the graph to PyTorch.
    """

    def forward(self, x, context=None, keep=None):
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class ValuesDetachedWhereOnlyContextLearns(_Layer):
    """Where the context alone requires a gradient, the values are detached.

    Each input may be the only one that learns. Leave the graph to PyTorch.
    """

    def forward(self, x, context=None, keep=None):
        self.cut = not (x.requires_grad or self.w_v.weight.requires_grad)
        return super().forward(x, context, keep)

    def attention(self, q, k, v, keep):
        return super().attention(q, k, v.detach() if self.cut else v, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskWithoutDimensionsRefused(_Layer):
    """The last length of the mask is read, which a single True has not.

    Let PyTorch broadcast: torch.where(keep, scores, -torch.inf) takes a mask of any dimensions.
    """

    def forward(self, x, context=None, keep=None):
        if keep is not None and keep.shape[-1] == 1:
            keep = keep.expand(*keep.shape[:-1], self.source(x, context).shape[1])
        return super().forward(x, context, keep)


@mistake(of="split_heads", caught_by=test_empty)
def width_checked_by_reshape(x, num_heads):
    """That the heads do not divide the width is seen when reshape fails, and it takes no numbers at
    all as any shape.

    Compare the sizes: raise a ValueError if E % num_heads.
    """
    if math.prod(x.shape):
        _check_width(x.shape[-1], num_heads)
    cut = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)
    return cut.swapaxes(-3, -2)  # of arrays, too


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskCutWithTheQueries(_Layer):
    """More than 1,024 queries are taken in parts, and a mask with one row for all is cut as well.

    Cut the mask only where it has a row for each query, or expand it first.
    """

    def attention(self, q, k, v, keep):
        parts = []
        for start in range(0, max(q.shape[-2], 1), 1024):
            rows = slice(start, start + 1024)
            cut = keep[..., rows, :] if keep is not None and keep.ndim > 1 else keep
            parts.append(super().attention(q[..., rows, :], k, v, cut))
        return tuple(torch.cat(some, -2) for some in zip(*parts, strict=True))


@mistake(of="multi_head_attention_numpy", caught_by=test_half_precision)
def projections_in_half_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The projected queries, keys and values are rounded to the dtype of the input, float16 too.

    A projection may be larger than 65,504. Stay in float32 from the inputs to the output.
    """
    return attention_of_arrays(
        query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, _ProjectsInHalf
    )


class _ProjectsInHalf(_Layer):
    def project(self, *tokens):
        projected = super().project(*tokens)
        return tuple(x.to(tokens[0].dtype) for x in projected)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class HeadsTakenEveryHthNumber(_Layer):
    """Head h gets every H-th number of a token, not D numbers in a row: E was cut into (D, H).

    Cut E into (H, D), the head first, and then move the heads in front of the tokens.
    """

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).movedim(-1, -3)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class OnePlaceInHalfPrecision(_Layer):
    """In half precision all weights of a form are written over those of the call before.

    Return new tensors in every call, whatever the dtype.
    """

    def attention(self, q, k, v, keep):
        output, weights = super().attention(q, k, v, keep)
        if q.dtype.itemsize > 2:
            return output, weights
        return output, written_over(self.__dict__.setdefault("places", {}), weights)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def one_place_without_a_mask_numpy(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None, places={}  # noqa: B006 (the mistake)
):  # fmt: skip
    """Without a mask all answers of a form are written over those of the call before.

    Return new arrays in every call, with a mask and without.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    return written_over(places, answer) if keep is None else answer


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class HiddenAtANumberInFloat64(_Layer):
    """In float64 hidden scores become -1e30, more than a very low score of a token that is seen.

    Put -inf in their place in every dtype.
    """

    def weigh(self, scores, keep):
        if keep is None or scores.dtype != torch.float64:
            return super().weigh(scores, keep)
        return torch.softmax(torch.where(keep, scores, -1e30), -1).masked_fill(~keep, 0.0)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class SmallPowersCut(_Layer):
    """Weights below exp(-20) of the largest are set to 0, though many of them count together.

    Leave exp as it is: it is 0 by itself where a number is too small for the dtype.
    """

    def weigh(self, scores, keep):
        weights = super().weigh(scores, keep)
        if not weights.shape[-1]:
            return weights
        kept = weights * (weights > math.exp(-20) * weights.detach().amax(-1, keepdim=True))
        total = kept.sum(-1, keepdim=True)
        return torch.where(total > 0, kept / total.masked_fill(total == 0, 1.0), weights)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class KeysOfTheFirstCall(_Layer):
    """Without gradients w_k is copied once, and again where its first number has changed.

    Read the weights in every call: anyone may change one number of them.
    """

    seen = None

    def forward(self, x, context=None, keep=None):
        if torch.is_grad_enabled() or x.is_meta:
            return super().forward(x, context, keep)
        weight, first = self.w_k.weight.data, float(self.w_k.weight.flatten()[0])
        if self.seen is None or self.seen[0] != first:
            self.seen = first, weight.clone()
        self.w_k.weight.data = self.seen[1]
        try:
            return super().forward(x, context, keep)
        finally:
            self.w_k.weight.data = weight
