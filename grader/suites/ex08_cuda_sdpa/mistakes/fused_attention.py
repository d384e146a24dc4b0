"""Wrong answers to `FusedAttention`."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from grader.judging import mistake

from ..test_cuda_sdpa import (
    test_manners,
    test_module,
    test_precision,
)
from .fast_attention import empty_rows_nan, half_not_raised
from .shared import TwoPaths, visible, written_out


@mistake(of="FusedAttention", caught_by=test_module)
class LaidOutByHead(TwoPaths):
    """The outputs of qkv are taken apart as (H, 3, D), as some models have them.

    Here they are three blocks of H heads: unflatten(-1, (3, H, D)).
    """

    def split(self, qkv):
        heads = qkv.unflatten(-1, (self.num_heads, 3, -1))  # (..., L, H, 3, D)
        return tuple(part.transpose(-3, -2) for part in heads.unbind(-2))


@mistake(of="FusedAttention", caught_by=test_module)
class LaidOutByNumber(TwoPaths):
    """The outputs of qkv are taken apart as (H, D, 3): every third number is a query's.

    Here they are three blocks of H heads: unflatten(-1, (3, H, D)).
    """

    def split(self, qkv):
        heads = qkv.unflatten(-1, (self.num_heads, -1, 3))  # (..., L, H, D, 3)
        return tuple(part.transpose(-3, -2) for part in heads.unbind(-1))


@mistake(of="FusedAttention", caught_by=test_module)
class BlocksInAnotherOrder(TwoPaths):
    """The blocks are taken as k, q and v.

    The first block of qkv makes the queries, the second the keys, the third the values.
    """

    def split(self, qkv):
        q, k, v = super().split(qkv)
        return k, q, v


@mistake(of="FusedAttention", caught_by=test_module)
class ViewedAsHeads(TwoPaths):
    """Each block is reshaped to (H, L, D) without a transpose: heads are made of other tokens.

    Reshape to (L, H, D), then exchange L and H.
    """

    def split(self, qkv):
        length, width = qkv.shape[-2], qkv.shape[-1] // 3 // self.num_heads
        shape = (*qkv.shape[:-2], self.num_heads, length, width)
        return tuple(part.reshape(shape) for part in qkv.chunk(3, -1))


@mistake(of="FusedAttention", caught_by=test_module)
class MergedWithoutTranspose(TwoPaths):
    """The heads are put together by a reshape without a transpose, so that tokens are mixed.

    Exchange H and L first, then flatten the heads: .transpose(-3, -2).flatten(-2).
    """

    def combine(self, heads):
        *lead, num_heads, length, width = heads.shape
        return self.proj(heads.reshape(*lead, length, num_heads * width))


@mistake(of="FusedAttention", caught_by=test_module)
class NormOverTheWholeWidth(TwoPaths):
    """q_norm and k_norm are made for the whole model width, E.

    They normalise each head's queries and keys: nn.LayerNorm(E // H).
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        if qk_norm:
            self.q_norm, self.k_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)


@mistake(of="FusedAttention", caught_by=test_module)
class StatisticsOfTheWholeWidth(TwoPaths):
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
class KeysNotNormalised(TwoPaths):
    """Only the queries are normalised.

    k_norm belongs to the keys: q, k = self.q_norm(q), self.k_norm(k).
    """

    def normalise(self, q, k):
        return self.q_norm(q), k


@mistake(of="FusedAttention", caught_by=test_module)
class OneNormForBoth(TwoPaths):
    """q_norm normalises the keys as well.

    The keys have a norm of their own, with weights of its own: k_norm.
    """

    def normalise(self, q, k):
        return self.q_norm(q), self.q_norm(k)


@mistake(of="FusedAttention", caught_by=test_module)
class RootMeanSquare(TwoPaths):
    """The norms do not subtract the mean: that is RMSNorm.

    nn.LayerNorm(D) subtracts the mean and divides by the standard deviation.
    """

    def normalise(self, q, k):
        if not isinstance(self.q_norm, nn.LayerNorm):
            return q, k
        norms = ((q, self.q_norm), (k, self.k_norm))
        return tuple(F.rms_norm(x, x.shape[-1:], n.weight, n.eps) + n.bias for x, n in norms)


@mistake(of="FusedAttention", caught_by=test_module)
class RMSNormForLayerNorm(TwoPaths):
    """q_norm and k_norm are nn.RMSNorm, which subtracts no mean and has no bias.

    Write nn.LayerNorm(E // H), as the docstring says.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        if qk_norm:
            width = d_model // num_heads
            self.q_norm, self.k_norm = nn.RMSNorm(width), nn.RMSNorm(width)


@mistake(of="FusedAttention", caught_by=test_module)
class AlwaysFused(TwoPaths):
    """The attribute `fused` is there, but forward does not read it.

    In forward: fast_attention(...) if self.fused, else the formula written out.
    """

    def attend(self, q, k, v, keep):
        return self.fast(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SwitchReadOnce(TwoPaths):
    """`fused` is read when the module is made, so that setting it later changes nothing.

    Read self.fused in forward.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        self.attend = self.fast if fused else self.slow


@mistake(of="FusedAttention", caught_by=test_module)
class FusedInTraining(TwoPaths):
    """In .train() `fused` changes nothing: training always takes the fused path.

    Read self.fused alone, not self.training.
    """

    def attend(self, q, k, v, keep):
        return (self.fast if self.fused or self.training else self.slow)(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class WrittenOutInTraining(TwoPaths):
    """In .train() `fused` changes nothing: training always takes the path written out.

    Read self.fused alone, not self.training.
    """

    def attend(self, q, k, v, keep):
        return (self.fast if self.fused and not self.training else self.slow)(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class AlwaysMadeFused(TwoPaths):
    """The argument `fused` is ignored: every module begins on the fused path.

    self.fused = fused in the constructor.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutMask(TwoPaths):
    """The path that is written out ignores keep.

    Fill the hidden scores with -torch.inf before the softmax.
    """

    def slow(self, q, k, v, keep):
        return super().slow(q, k, v, None)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutScale(TwoPaths):
    """The path that is written out does not scale the scores.

    Divide by math.sqrt(D), with D = q.shape[-1].
    """

    def slow(self, q, k, v, keep):
        return written_out(q, k, v, keep, False, 1.0, None)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithNan(TwoPaths):
    """The path that is written out gives NaN for a token that may attend to nothing.

    After the softmax: masked_fill(~keep, 0).
    """

    def slow(self, q, k, v, keep):
        return empty_rows_nan(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowScaleOnePercentOff(TwoPaths):
    """The scale of the path that is written out is off by 1 %.

    It is exactly 1 / math.sqrt(D).
    """

    def slow(self, q, k, v, keep):
        return written_out(q, k, v, keep, False, 1.01 / math.sqrt(q.shape[-1]), None)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutGraph(TwoPaths):
    """No gradient flows through the path that is written out.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def slow(self, q, k, v, keep):
        with torch.no_grad():
            return super().slow(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowInBfloat16(TwoPaths):
    """The path that is written out lowers its inputs to bfloat16.

    Keep their dtype, or raise half precision to float32.
    """

    def slow(self, q, k, v, keep):
        return super().slow(*(x.bfloat16() for x in (q, k, v)), keep).to(q.dtype)


@mistake(of="FusedAttention", caught_by=test_module)
class CausalByHabit(TwoPaths):
    """Tokens do not see the tokens after them: is_causal=True was left on.

    This module is causal only if keep says so.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, visible(q, k, keep, True))


@mistake(of="FusedAttention", caught_by=test_module)
class DropoutInEval(TwoPaths):
    """Dropout is active on the output.

    Nothing is dropped here, in training or in evaluation.
    """

    def combine(self, heads):
        return F.dropout(super().combine(heads), 0.1)


@mistake(of="FusedAttention", caught_by=test_module)
class NotProjected(TwoPaths):
    """The heads come back side by side, without the output projection.

    Apply self.proj to them.
    """

    def combine(self, heads):
        return heads.transpose(-3, -2).flatten(-2)


@mistake(of="FusedAttention", caught_by=test_module)
class ProjectedWithoutBias(TwoPaths):
    """The output projection has no bias.

    proj is nn.Linear(E, E) with its bias; qkv_bias is about qkv only.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        self.proj = nn.Linear(d_model, d_model, bias=False)


@mistake(of="FusedAttention", caught_by=test_module)
class AlwaysWithBias(TwoPaths):
    """qkv has a bias, whether qkv_bias asks for one or not.

    nn.Linear(E, 3 * E, bias=qkv_bias).
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, True, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_module)
class GraphCut(TwoPaths):
    """The gradient is cut: something in between is detached.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q.detach(), k.detach(), v, keep)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowHalfNotRaised(TwoPaths):
    """The path that is written out multiplies half precision in half precision: in float16 large
    scores become inf, then NaN.

    Convert q, k and v with .float() first, and the output back at the end.
    """

    def slow(self, q, k, v, keep):
        return half_not_raised(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowHalfNotRaisedWithMask(TwoPaths):
    """With a mask, the path that is written out multiplies half precision in half precision.

    Convert q, k and v with .float() first, whether there is a mask or not.
    """

    def slow(self, q, k, v, keep):
        return super().slow(q, k, v, keep) if keep is None else half_not_raised(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutGraphInFloat32(TwoPaths):
    """In float32 no gradient flows through the path that is written out.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def slow(self, q, k, v, keep):
        with torch.set_grad_enabled(q.dtype != torch.float32):
            return super().slow(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutGraphWithoutMask(TwoPaths):
    """Without a mask no gradient flows through the path that is written out.

    Use the tensors as they come, without detach, .data or no_grad.
    """

    def slow(self, q, k, v, keep):
        with torch.set_grad_enabled(keep is not None):
            return super().slow(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class WeightsCut(TwoPaths):
    """The weights of qkv are detached, so that they never learn.

    Call self.qkv(x), without .data and without detach.
    """

    def forward(self, x, keep=None):
        bias = None if self.qkv.bias is None else self.qkv.bias.detach()
        q, k, v = self.split(F.linear(x, self.qkv.weight.detach(), bias))
        return self.combine(self.attend(*self.normalise(q, k), v, keep))


@mistake(of="FusedAttention", caught_by=test_module)
class SlowPaddingIgnored(TwoPaths):
    """The path that is written out ignores a mask with a single row for all queries.

    keep broadcasts: masked_fill takes it as it is.
    """

    def slow(self, q, k, v, keep):
        return super().slow(q, k, v, None if keep is not None and keep.shape[-2] == 1 else keep)


@mistake(of="FusedAttention", caught_by=test_manners)
class UnevenHeads(TwoPaths):
    """A width that the heads do not divide is accepted.

    Compare d_model % num_heads with 0, and raise ValueError with both numbers.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model - d_model % num_heads, num_heads, qkv_bias, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_module, null=True)
class NoAttention(TwoPaths):
    """The values of each token are projected: no token sees another.

    Attend: mix the values of all tokens.
    """

    def attend(self, q, k, v, keep):
        return v


@mistake(of="FusedAttention", caught_by=test_module, null=True)
class InputReturned(TwoPaths):
    """The input comes back.

    Project it, attend, and project the result.
    """

    def forward(self, x, keep=None):
        return x * 1.0


@mistake(of="FusedAttention", caught_by=test_module, null=True)
class MeanOfTokens(TwoPaths):
    """Every token gets the mean of all values.

    The weights depend on the queries and the keys.
    """

    def attend(self, q, k, v, keep):
        return v.mean(-2, keepdim=True).expand(v.shape)
