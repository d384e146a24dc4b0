"""Wrong answers to `MultiHeadAttention`."""

import math

import torch
from torch import nn

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex04_heads import (
    plain_merge_heads,
)

from ..test_heads import (
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
    test_values,
)
from .shared import Layer, also_of_arrays


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleMissing(Layer):
    """The scores are not divided by sqrt(D), so the softmax is too sharp.

    Divide q @ k^T by sqrt(D), the root of the width of a head, before the softmax.
    """

    def scale(self, q):
        return 1.0


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleOfTheModel(Layer):
    """The scores are divided by sqrt(E), the width before it was cut into heads.

    A score is a sum of D products, so divide by sqrt(D), where D = E / num_heads.
    """

    def scale(self, q):
        return (self.num_heads * q.shape[-1]) ** -0.5


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleWithoutRoot(Layer):
    """The scores are divided by D instead of sqrt(D).

    Take the square root of the width of a head.
    """

    def scale(self, q):
        return 1 / q.shape[-1]


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleInverted(Layer):
    """The scores are multiplied by sqrt(D) instead of divided by it.

    Divide: scores = q @ k^T / sqrt(D).
    """

    def scale(self, q):
        return q.shape[-1] ** 0.5


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleAlmostRight(Layer):
    """The scale of the scores is about 1 % off.

    It is exactly 1 / sqrt(D).
    """

    def scale(self, q):
        return 1.01 * q.shape[-1] ** -0.5


@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScaleAfterSoftmax(Layer):
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
class SplitWithoutSwap(Layer):
    """The heads are cut by a reshape straight to (B, H, L, D), which shuffles tokens among them.

    Reshape to (B, L, H, D), then swap the length and the heads.
    """

    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, self.num_heads, length, width // self.num_heads)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class HeadsBesideTheLength(Layer):
    """The heads are cut but not swapped, so the heads of one token attend to each other.

    Swap the length and the heads, so that the last two axes are (L, D).
    """

    def attend(self, query, key, value, keep=None):
        q, k, v = (self.split(x).transpose(1, 2) for x in self.project(query, key, value))
        heads, weights = self.attention(q, k, v, None)
        return self.project_out(heads.flatten(-2)), weights


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class MergeWithoutSwap(Layer):
    """The heads are joined by a reshape straight to (B, L, E), without swapping them back.

    Swap the heads and the length, then join the last two axes.
    """

    def merge(self, x):
        batch, heads, length, dim = x.shape
        return x.reshape(batch, length, heads * dim)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class HeadsInterleaved(Layer):
    """Head h takes every H-th number of a token instead of D neighbours.

    Cut the width into (H, D), in this order.
    """

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)

    def merge(self, x):
        return x.permute(0, 2, 3, 1).flatten(-2)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BatchAndHeadsMixed(Layer):
    """Batch and heads become one axis with the heads outermost, and are taken apart the other way.

    Keep to one order: (B, H, L, D) -> (B * H, L, D) and back to (B, H, L, D).
    """

    def split(self, x):
        heads = super().split(x)
        return heads.transpose(0, 1).reshape(heads.shape)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class OneHeadOnly(Layer):
    """The width is never cut: one head attends, and its weights are repeated for the others.

    Split q, k and v into heads, and let each attend by itself.
    """

    def attention(self, q, k, v, keep):
        whole = [plain_merge_heads(x)[:, None] for x in (q, k, v)]
        heads, weights = super().attention(*whole, keep)
        return self.split(heads[:, 0]), weights.expand(-1, self.num_heads, -1, -1)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class WeightsAveraged(Layer):
    """The weights are averaged over the heads, as nn.MultiheadAttention does unless told not to.

    Return the weights of every head: (B, H, Lq, Lk).
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        return output, weights.mean(1)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class ScoresReturned(Layer):
    """The scores come back in the place of the weights.

    Return what the softmax gives: numbers from 0 to 1 that sum to one in every row.
    """

    def attention(self, q, k, v, keep):
        heads, _ = super().attention(q, k, v, keep)
        return heads, q @ k.mT * self.scale(q)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class OutputProjectionForgotten(Layer):
    """The merged heads are returned without the last projection, w_o.

    Apply w_o to the merged heads: it is where the heads meet.
    """

    def project_out(self, x):
        return x


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class QueryProjectionUsedTwice(Layer):
    """The keys are projected with w_q instead of w_k.

    Queries, keys and values have a projection each: w_q, w_k and w_v.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_q(key), self.w_v(value)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class KeyProjectionUsedTwice(Layer):
    """The values are projected with w_k instead of w_v.

    Queries, keys and values have a projection each: w_q, w_k and w_v.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_k(key), self.w_k(value)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class NotProjected(Layer):
    """Tokens are cut into heads as they come, without w_q, w_k and w_v.

    Project first: w_q(x), w_k(context), w_v(context).
    """

    def project(self, query, key, value):
        return query, key, value


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class SoftmaxOverQueries(Layer):
    """The softmax runs over the queries, so the columns of the weights sum to one.

    Each query shares out its weight among the keys: softmax over the last dimension.
    """

    def weigh(self, scores, keep):
        return torch.softmax(scores, -2)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class SoftmaxOverHeads(Layer):
    """The softmax runs over the heads instead of the keys.

    Softmax over the last dimension, the keys, in each head by itself.
    """

    def weigh(self, scores, keep):
        seen = None if keep is None else keep.expand(scores.shape).transpose(1, -1)
        return super().weigh(scores.transpose(1, -1), seen).transpose(1, -1)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class SoftmaxOverHiddenHeads(Layer):
    """The softmax runs over the heads instead of the keys: a key that no head may see gives NaN.

    Softmax over the last dimension, the keys, in each head by itself.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return scores.softmax(1)
        empty = ~keep.expand(scores.shape).any(-1, keepdim=True)
        shown = scores.masked_fill(~keep, -torch.inf).masked_fill(empty, 0.0)
        return shown.softmax(1).masked_fill(empty, 0.0)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class ResidualAdded(Layer):
    """The input is added to the output, as the block around an attention does.

    Return w_o(merged) alone. The residual belongs to whoever calls.
    """

    def forward(self, x, context=None, keep=None):
        output, weights = super().forward(x, context, keep)
        return output + x, weights


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BiasNeverMade(Layer):
    """`bias=True` is ignored: the projections have no bias.

    Hand it on to each of the four: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BiasAlwaysMade(Layer):
    """The projections have a bias although `bias` is False, for nn.Linear makes one by itself.

    Hand it on to each of the four: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias=True)


@also_of_arrays(caught_by=test_dtype)
@mistake(of="MultiHeadAttention", caught_by=test_dtype)
class DoubleLowered(Layer):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """

    def widen(self, x):
        return x.float()


@mistake(of="MultiHeadAttention", caught_by=test_values)
class DropoutAlwaysOn(Layer):
    """Some of the weights are dropped at random.

    Leave dropout out: the answer to a call depends on what it is given, and on nothing else.
    """

    def weigh(self, scores, keep):
        return nn.functional.dropout(super().weigh(scores, keep), 0.1)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class ContextIgnored(Layer):
    """Keys and values come from x although there is a context.

    With a context, w_k and w_v read the context, and only w_q reads x.
    """

    def source(self, x, context):
        return x


@mistake(of="MultiHeadAttention", caught_by=test_context)
class KeysFromX(Layer):
    """The keys come from x, and only the values from the context.

    With a context, w_k and w_v both read it.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_k(query), self.w_v(value)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class ValuesFromX(Layer):
    """The values come from x, and only the keys from the context.

    With a context, w_k and w_v both read it.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_k(key), self.w_v(query)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class RolesExchanged(Layer):
    """The queries come from the context, and keys and values from x.

    It is x that asks: queries from x, keys and values from the context.
    """

    def forward(self, x, context=None, keep=None):
        return super().forward(x if context is None else context, x, keep)


@mistake(of="MultiHeadAttention", caught_by=test_context)
class ContextAppended(Layer):
    """The context is appended to x, so that x attends to itself as well.

    With a context, keys and values come from the context alone.
    """

    def source(self, x, context):
        return x if context is None else torch.cat((context, x), 1)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskIgnored(Layer):
    """The mask is ignored.

    Put -inf in the place of the scores where keep is False, before the softmax.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores, None)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskInverted(Layer):
    """The mask is read the wrong way round: the keys to look at are hidden, the others are not.

    True = may attend. Hide where ~keep.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores, None if keep is None else ~keep)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskAfterSoftmax(Layer):
    """The hidden weights are erased after the softmax, so that the rest sum to less than one.

    Put -inf in the place of the hidden scores before the softmax.
    """

    def weigh(self, scores, keep):
        weights = super().weigh(scores, None)
        return weights if keep is None else torch.where(keep, weights, 0.0)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskedWithZero(Layer):
    """Hidden scores are set to 0, and exp(0) is 1: hidden keys still get weight.

    Fill in -inf, whose exponential is 0.
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else torch.where(keep, scores, 0.0)
        return super().weigh(filled, None)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskOfTheFirstHead(Layer):
    """Every head is given the mask of the first.

    A mask may be different for every head: let it broadcast to (B, H, Lq, Lk).
    """

    def weigh(self, scores, keep):
        shared = keep if keep is None or keep.ndim < 3 else keep[..., :1, :, :]
        return super().weigh(scores, shared)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskTiled(Layer):
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
class MaskTakenForBatch(Layer):
    """A mask of three dimensions is taken for (B, Lq, Lk), but it broadcasts as (H, Lq, Lk).

    Leave the mask as it is. Whoever has one for each batch item writes keep[:, None].
    """

    def weigh(self, scores, keep):
        if keep is not None and keep.ndim == 3:
            keep = keep[:, None]
        return super().weigh(scores, keep)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskSubtracted(Layer):
    """1e9 is subtracted from hidden scores, which a score of 1e30 does not even notice.

    Replace them by -inf: masked_fill or where.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores if keep is None else scores - 1e9 * ~keep, None)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaximumOfHiddenScores(Layer):
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
class EmptyRowsUniform(Layer):
    """A row that may see nothing sees everything a little, as if hidden scores were -1e9.

    Fill in -inf, and give such a row weights 0 by itself.
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else scores.masked_fill(~keep, -1e9)
        return super().weigh(filled, None)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsNaN(Layer):
    """A row that may see nothing becomes NaN: softmax of nothing but -inf is 0 / 0.

    Give such a row harmless scores before the softmax, and weights 0 after it.
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
        return super().weigh(filled, None)


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsMendedTooLate(Layer):
    """The NaN of a row that sees nothing is wiped from the weights, but not from the gradient.

    Do not let it arise: give such a row harmless scores before the softmax.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return super().weigh(scores, None)
        bias = torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)
        return torch.softmax(scores + bias, -1).nan_to_num(0.0)


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsLoseTheirBias(Layer):
    """The output of a row that sees nothing is set to 0 after w_o, whose bias is lost on the way.

    The weights are 0, and w_o makes its bias of that. Nothing is left to be done.
    """

    def forward(self, x, context=None, keep=None):
        output, weights = super().forward(x, context, keep)
        return torch.where(weights.sum((1, -1))[..., None] == 0, 0.0, output), weights


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class HalfNotRaised(Layer):
    """Half precision stays half all the way, and float16 has no room for the scores.

    Convert q, k and v to float32 before the first product, and the two results back.
    """

    def widen(self, x):
        return x


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class RaisedTooLate(Layer):
    """The scores are raised to float32 after the product that overflows.

    Convert q and k before they are multiplied.
    """

    def attention(self, q, k, v, keep):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q @ k.mT).to(wide) * self.scale(q)
        weights = self.weigh(scores, keep)
        return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class WeightsLeftInFloat32(Layer):
    """The weights of half precision come back in float32.

    Convert both results to the dtype of x.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        return output, weights.to(torch.promote_types(weights.dtype, torch.float32))


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class WeightsDetached(Layer):
    """The weights are cut out of the graph, so that w_q and w_k never learn.

    Mix the values with weights that are not detached; no .data, no NumPy.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores, keep).detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class ContextDetached(Layer):
    """The context is cut out of the graph, so that what made it never learns.

    Use the context as it comes, without detach.
    """

    def source(self, x, context):
        return x if context is None else context.detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class WeightsCopied(Layer):
    """The projections use copies of their matrices, so that no gradient reaches the parameters.

    Call the layers: self.w_q(x).
    """

    def project(self, query, key, value):
        return tuple(
            nn.functional.linear(x, w.weight.data, w.bias)
            for x, w in ((query, self.w_q), (key, self.w_k), (value, self.w_v))
        )


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class InputOverwritten(Layer):
    """x is overwritten: an operator with a trailing underscore, or `+=`.

    Make a new tensor; x belongs to whoever calls.
    """

    def forward(self, x, context=None, keep=None):
        answer = super().forward(x, context, keep)
        x.data.mul_(0.5)
        return answer


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class LayersShared(Layer):
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
class UnevenHeadsAccepted(Layer):
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
class ErrorWithoutNumbers(Layer):
    """The error about an uneven width does not say which width and how many heads.

    Put both numbers in its message.
    """

    def check_width(self, d_model, num_heads):
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")


@also_of_arrays(caught_by=test_numpy_values, null=True)
@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class Zeros(Layer):
    """Zeros.

    Nothing is computed yet.
    """

    def attend(self, query, key, value, keep=None):
        return tuple(torch.zeros_like(x) for x in super().attend(query, key, value, keep))


@also_of_arrays(caught_by=test_numpy_values, null=True)
@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class Mean(Layer):
    """Every key gets the same weight, so the output is a mean of the values.

    The weights depend on the scores, through the softmax.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores * 0, keep)


@also_of_arrays(caught_by=test_numpy_values, null=True)
@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class ArgMax(Layer):
    """All the weight goes to the key with the largest score.

    That is argmax. Softmax leaves something for the others.
    """

    def weigh(self, scores, keep):
        return super().weigh(scores * 1e6, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class NoAttention(Layer):
    """The output is a linear layer of x: no token ever looks at another.

    Mix the values of all keys with the weights of the softmax.
    """

    def attend(self, query, key, value, keep=None):
        _, weights = super().attend(query, key, value, keep)
        return self.w_o(self.w_v(query)), weights * 0


@mistake(of="MultiHeadAttention", caught_by=test_values, null=True)
class InputReturned(Layer):
    """x is returned as it came.

    Return w_o(merged), the mixture of the values.
    """

    def attend(self, query, key, value, keep=None):
        return query, super().attend(query, key, value, keep)[1]


@mistake(of="MultiHeadAttention", caught_by=test_values)
class OneProjectionForAll(Layer):
    """The four projections are one and the same layer, with one matrix.

    Make four layers: every nn.Linear(...) is a new one, and `a = b = nn.Linear(...)` is one.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias)
        self.w_q = self.w_k = self.w_v = self.w_o


@also_of_arrays(caught_by=test_dtype)
class EpsilonInTheDenominator(Layer):
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
class SoftmaxAloneInFloat32(Layer):
    """The softmax alone is computed in float32: the products keep the dtype of x.

    That is a habit of model code: softmax(scores, dtype=torch.float32).to(q.dtype). Raise q, k and
    v instead, and half precision only: scores need it too, and float64 should keep its digits.
    """

    def attention(self, q, k, v, keep):
        scores = q @ k.mT * self.scale(q)
        weights = self.weigh(scores.float(), keep).to(q.dtype)
        return weights @ v, weights


@mistake(of="MultiHeadAttention", caught_by=test_dtype)
class ScaleRoundedToFloat32(Layer):
    """The scale is a float32 tensor, torch.sqrt(torch.tensor(D)), and float64 loses its digits.

    Take a number of Python: math.sqrt(D), or D ** 0.5.
    """

    def scale(self, q):
        return (1 / torch.sqrt(torch.tensor(q.shape[-1], dtype=torch.float32))).item()


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class LowestNumberFilled(Layer):
    """Hidden scores become torch.finfo(dtype).min: a row that may see nothing gets the mean.

    Give such a row weights 0: .masked_fill(~keep.any(-1, keepdim=True), 0.0) after the softmax.
    """

    def weigh(self, scores, keep):
        lowest = torch.finfo(scores.dtype).min
        filled = scores if keep is None else scores.masked_fill(keep == 0, lowest)
        return super().weigh(filled, None)


@also_of_arrays(caught_by=test_empty)
@mistake(of="MultiHeadAttention", caught_by=test_empty)
class LengthLeftToMinusOne(Layer):
    """The length is left to -1 in a reshape, which could be anything for an empty batch.

    Spell it out: reshape(batch, length, heads, dim).
    """

    def split(self, x):
        dim = x.shape[-1] // self.num_heads
        return x.reshape(len(x), -1, self.num_heads, dim).transpose(1, 2)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class Bfloat16NotRaised(Layer):
    """bfloat16 stays bfloat16 all the way: it has room for every score, but 8 bits of digits.

    Convert q, k and v of both half precisions to float32, and the two results back.
    """

    def attention(self, q, k, v, keep):
        if q.dtype != torch.bfloat16:
            return super().attention(q, k, v, keep)
        scores = q @ k.mT * self.scale(q)
        weights = self.weigh(scores.float(), keep).to(q.dtype)
        return weights @ v, weights


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskTakenForPadding(Layer):
    """A mask (Lq, Lk) is taken for the padding of each sequence where there are Lq sequences.

    `keep` broadcasts to (B, H, Lq, Lk): the last two dimensions are queries and keys.
    """

    def forward(self, x, context=None, keep=None):
        length = (x if context is None else context).shape[1]
        if keep is not None and keep.shape == (len(x), length):
            keep = keep[:, None, None, :]
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class GradientsInTrainingOnly(Layer):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class StridedContextCopiedWithoutGraph(Layer):
    """A context that does not lie in memory in one piece is first copied with .data, so that it
    gets no gradient.

    Copy it with .contiguous() or .reshape(), which gradients pass through.
    """

    def source(self, x, context):
        if context is None or context.is_contiguous():
            return super().source(x, context)
        return context.data.contiguous()


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class MaskedInEvalWithoutGradient(Layer):
    """In .eval() a call with a mask runs under torch.no_grad(), as if it were one of decoding.

    Leave that to the caller: .eval() says nothing about gradients, and a mask does not either.
    """

    def forward(self, x, context=None, keep=None):
        learns = self.training or keep is None
        with torch.set_grad_enabled(learns and torch.is_grad_enabled()):
            return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class WeightsDetachedInHalfPrecision(Layer):
    """In half precision the weights come back without their graph: they are converted by .data.

    Convert them with .to(q.dtype), which gradients pass through.
    """

    def attention(self, q, k, v, keep):
        output, weights = super().attention(q, k, v, keep)
        return output, weights.data if weights.dtype.itemsize == 2 else weights


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class EmptyRowsNaNInEval(Layer):
    """In .eval() rows that may attend to nothing are NaN: only training mends them.

    The layer does the same in both modes: set the weights of empty rows to 0 in either.
    """

    def weigh(self, scores, keep):
        if self.training or keep is None:
            return super().weigh(scores, keep)
        return torch.softmax(torch.where(keep, scores, -torch.inf), -1)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class HiddenWithMinus1e30(Layer):
    """Hidden scores become -1e30, which hides nothing where all scores are lower.

    Put -inf in the place of hidden scores.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return super().weigh(scores, None)
        return torch.softmax(scores.masked_fill(~keep, -1e30), -1) * keep


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class QueriesScaledInHalfPrecision(Layer):
    """The queries are divided by sqrt(D) before they become float32, so that they are rounded.

    First float32, then the scale.
    """

    def attention(self, q, k, v, keep):
        return super().attention(q * q.shape[-1] ** -0.5, k, v, keep)

    def scale(self, q):
        return 1.0


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class RaisedWhereGradientsAreOn(Layer):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """

    def widen(self, x):
        return super().widen(x) if torch.is_grad_enabled() else x


@mistake(of="MultiHeadAttention", caught_by=test_context)
class KeysBeyond2048Unseen(Layer):
    """A buffer has room for 2,048 keys, and the others get no weight.

    Take the length from the context.
    """

    def weigh(self, scores, keep):
        seen = torch.arange(scores.shape[-1], device=scores.device) < 2048
        return super().weigh(scores, seen if keep is None else keep & seen)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class NoGraphUnlessInputLearns(Layer):
    """The context and the weights have no gradient unless x requires one.

    In training x seldom does. Leave the graph to PyTorch.
    """

    def forward(self, x, context=None, keep=None):
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class ValuesDetachedWhereOnlyContextLearns(Layer):
    """Where the context alone requires a gradient, the values are detached.

    Each input may be the only one that learns. Leave the graph to PyTorch.
    """

    def forward(self, x, context=None, keep=None):
        self.cut = not (x.requires_grad or self.w_v.weight.requires_grad)
        return super().forward(x, context, keep)

    def attention(self, q, k, v, keep):
        return super().attention(q, k, v.detach() if self.cut else v, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskWithoutDimensionsRefused(Layer):
    """The last length of the mask is read, which a single True has not.

    Let PyTorch broadcast: torch.where(keep, scores, -torch.inf) takes a mask of any dimensions.
    """

    def forward(self, x, context=None, keep=None):
        if keep is not None and keep.shape[-1] == 1:
            keep = keep.expand(*keep.shape[:-1], self.source(x, context).shape[1])
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskCutWithTheQueries(Layer):
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


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class HeadsTakenEveryHthNumber(Layer):
    """Head h gets every H-th number of a token, not D numbers in a row: E was cut into (D, H).

    Cut E into (H, D), the head first, and then move the heads in front of the tokens.
    """

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).movedim(-1, -3)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class OnePlaceInHalfPrecision(Layer):
    """In half precision all weights of a form are written over those of the call before.

    Return new tensors in every call, whatever the dtype.
    """

    def attention(self, q, k, v, keep):
        output, weights = super().attention(q, k, v, keep)
        if q.dtype.itemsize > 2:
            return output, weights
        return output, written_over(self.__dict__.setdefault("places", {}), weights)


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class HiddenAtANumberInFloat64(Layer):
    """In float64 hidden scores become -1e30, more than a very low score of a token that is seen.

    Put -inf in their place in every dtype.
    """

    def weigh(self, scores, keep):
        if keep is None or scores.dtype != torch.float64:
            return super().weigh(scores, keep)
        return torch.softmax(torch.where(keep, scores, -1e30), -1).masked_fill(~keep, 0.0)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class SmallPowersCut(Layer):
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
class KeysOfTheFirstCall(Layer):
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
