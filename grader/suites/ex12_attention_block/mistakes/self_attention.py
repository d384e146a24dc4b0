"""Wrong answers to `SelfAttention`."""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F

from grader.judging import mistake
from reference.blocks import (
    PlainSelfAttention,
)
from reference.ex02_masking import plain_masked_softmax
from reference.ex04_heads import plain_merge_heads, plain_split_heads

from ..test_attention_block import (
    test_dropout,
    test_fused,
    test_rope,
    test_self,
    test_self_manners,
    test_self_norms,
    test_self_precision,
)
from .shared import Self, at_least_float32


@mistake(of="SelfAttention", caught_by=test_self)
class CutInTheWrongOrder(Self):
    """With `fused`, the product is cut into k, q and v instead of q, k and v, or joined so.

    Join the weights and cut the product in one order: q, k, v.
    """

    def project(self, x):
        q, k, v = super().project(x)
        return (k, q, v) if self.fused else (q, k, v)


@mistake(of="SelfAttention", caught_by=test_self)
class JoinedOnce(Self):
    """With `fused`, the weights are joined once and kept: what is loaded later is not seen.

    Join them in every call. That costs little, and gradients reach the three of them.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        if "kept" not in vars(self):
            vars(self)["kept"] = [y.detach() for y in self.joined((self.q, self.k, self.v))]
        return F.linear(x, *(y.to(x.dtype) for y in self.kept)).chunk(3, -1)


@mistake(of="SelfAttention", caught_by=test_self)
class JoinedOnceInEval(JoinedOnce):
    """With `fused`, the weights are joined once in .eval() and kept: what is loaded later is lost.

    Join them in every call, in .train() and in .eval().
    """

    def project(self, x):
        if self.training:
            vars(self).pop("kept", None)
            return Self.project(self, x)
        return super().project(x)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class JoinedDetached(Self):
    """With `fused`, no gradient reaches q, k and v: their weights are joined as .data or detached.

    torch.cat of the parameters themselves keeps the graph.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        weight, bias = self.joined((self.q, self.k, self.v))
        return F.linear(x, weight.detach(), bias.detach()).chunk(3, -1)


@mistake(of="SelfAttention", caught_by=test_fused)
class FusedIgnored(Self):
    """The attribute `fused` changes nothing: the same products are made with it and without.

    With `fused`, multiply once by the three weights below each other; without, by each of them.
    """

    project = PlainSelfAttention.project


@mistake(of="SelfAttention", caught_by=test_fused)
class ThreeConvolutions(Self):
    """With `fused`, q, k and v come from three products still, which are written as convolutions.

    However a product is written, PyTorch makes one: multiply once by the three weights.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        layers = (self.q, self.k, self.v)
        return [F.conv1d(x.mT, y.weight[..., None], y.bias).mT for y in layers]


@mistake(of="SelfAttention", caught_by=test_fused)
class ThreeBilinearMaps(Self):
    """With `fused`, q, k and v come from three products still, which are written as bilinear maps.

    However a product is written, PyTorch makes one: multiply once by the three weights.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        one = torch.ones_like(x[..., :1])
        layers = (self.q, self.k, self.v)
        return [F.bilinear(x, one, y.weight[..., None], y.bias) for y in layers]


@mistake(of="SelfAttention", caught_by=test_fused)
class ThreeSumsOfProducts(Self):
    """With `fused`, q, k and v are three sums of elementwise products, so that no product is left.

    With `fused`, multiply once by the three weights below each other, with F.linear or @.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        return [(x[..., None, :] * y.weight).sum(-1) + y.bias for y in (self.q, self.k, self.v)]


@mistake(of="SelfAttention", caught_by=test_fused)
class AlwaysFused(Self):
    """One product gives q, k and v without `fused` too, and two more are made for nothing.

    Without `fused`, multiply by each of the three weights, as a plain self-attention does.
    """

    def project(self, x):
        if not self.fused:
            self.q(x)
            self.k(x)
        return F.linear(x, *self.joined((self.q, self.k, self.v))).chunk(3, -1)


@mistake(of="SelfAttention", caught_by=test_fused)
class ProductsForNothing(Self):
    """Three products give q, k and v in any case; without `fused`, two more are made for nothing.

    With `fused`, multiply once by the three weights below each other; without, by each of them.
    """

    def project(self, x):
        if not self.fused:
            self.q(x)
            self.k(x)
        return PlainSelfAttention.project(self, x)


@mistake(of="SelfAttention", caught_by=test_self_norms)
class NormPerHead(Self):
    """The mean square is taken of each head by itself.

    Normalise q and k as they come out of the projections, over the whole width; split afterwards.
    """

    def normalise(self, q, k, v):
        return self.per_head(q, self.norm_q), self.per_head(k, self.norm_k), v

    def per_head(self, x, norm):
        return norm.scaled(norm.unit(x.unflatten(-1, (self.num_heads, -1))).flatten(-2))


@mistake(of="SelfAttention", caught_by=test_self_norms)
class NormsOfTheHeadWidth(Self):
    """norm_q and norm_k come after the split: they have the width of a head, not of the model.

    RMSNorm(d_model): they stand before the heads are split.
    """

    def __init__(self, d_model, num_heads, *args, **options):
        super().__init__(d_model, num_heads, *args, **options)
        if self.qk_norm:
            width = d_model // num_heads
            self.norm_q, self.norm_k = self.norm(width), self.norm(width)


@mistake(of="SelfAttention", caught_by=test_self_norms)
class ValuesNormalised(Self):
    """The values are normalised too.

    Only q and k are: the values carry what is said, in its own size.
    """

    def normalise(self, q, k, v):
        return self.norm_q(q), self.norm_k(k), self.norm_k(v)


@mistake(of="SelfAttention", caught_by=test_self_norms)
class KeysNotNormalised(Self):
    """The keys are not normalised: norm_k is never called.

    q goes through norm_q, and k through norm_k.
    """

    def normalise(self, q, k, v):
        return self.norm_q(q), k, v


@mistake(of="SelfAttention", caught_by=test_self_norms)
class KeysThroughNormQ(Self):
    """The keys go through norm_q instead of norm_k.

    Each norm has a weight of its own: q goes through norm_q, and k through norm_k.
    """

    def normalise(self, q, k, v):
        return self.norm_q(q), self.norm_q(k), v


@mistake(of="SelfAttention", caught_by=test_rope)
class NormsExchanged(Self):
    """The queries go through norm_k, and the keys through norm_q, which RoPE brings to light.

    Each norm has a weight of its own: q goes through norm_q, and k through norm_k.
    """

    def normalise(self, q, k, v):
        return self.norm_k(q), self.norm_q(k), v


@mistake(of="SelfAttention", caught_by=test_rope)
class RotatedBeforeTheNorm(Self):
    """RoPE comes before the norms, whose weights then stretch the pairs out of their angle.

    Normalise first, then split, then rotate.
    """

    def prepare(self, q, k, v):
        if self.rope_base is None or not self.qk_norm:
            return super().prepare(q, k, v)
        heads = self.rotate(*(plain_split_heads(y, self.num_heads) for y in (q, k, v)))
        turned = self.normalise(*(plain_merge_heads(y) for y in heads))
        return tuple(plain_split_heads(y, self.num_heads) for y in turned)


@mistake(of="SelfAttention", caught_by=test_rope)
class ValuesRotated(Self):
    """The values are rotated as well.

    Only q and k are: where a token stands decides who reads it, not what it says.
    """

    def rotate(self, q, k, v):
        return self.turn(q), self.turn(k), self.turn(v)


@mistake(of="SelfAttention", caught_by=test_rope)
class TurnedBeforeTheSplit(Self):
    """RoPE turns q and k before they are split into heads, with frequencies over the whole width.

    Split first: each head of D places has the frequencies base**(-2i/D).
    """

    def prepare(self, q, k, v):
        if self.qk_norm:
            q, k, v = self.normalise(q, k, v)
        if self.rope_base is not None:
            q, k, v = self.rotate(q, k, v)
        return tuple(plain_split_heads(x, self.num_heads) for x in (q, k, v))


@mistake(of="SelfAttention", caught_by=test_rope)
class HalvesPaired(Self):
    """RoPE pairs place i with place i + D/2, as in Llama's published code.

    The pairs are neighbours here, (2i, 2i + 1): x[..., 0::2] and x[..., 1::2].
    """

    def turn(self, x):
        cos, sin = self.angles(x).cos(), self.angles(x).sin()
        a, b = at_least_float32(*x.chunk(2, -1))
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


@mistake(of="SelfAttention", caught_by=test_rope)
class TurnedTheOtherWay(Self):
    """RoPE turns by minus the angle: the signs of both sines are the wrong way round.

    (a, b) becomes (a cos - b sin, a sin + b cos): the minus stands in the first.
    """

    def angles(self, x):
        return -super().angles(x)


class _Pairs(Self):
    """Turns each pair (a, b) as a mistake says."""

    def turn(self, x):
        cos, sin = self.angles(x).cos(), self.angles(x).sin()
        [wide] = at_least_float32(x)
        both = self.turned(wide[..., 0::2], wide[..., 1::2], cos, sin)
        return torch.stack(both, -1).flatten(-2).to(x.dtype)


@mistake(of="SelfAttention", caught_by=test_rope)
class NoMinusInThePair(_Pairs):
    """A pair (a, b) becomes (a cos + b sin, a sin + b cos), which is no rotation.

    The minus is missing: (a cos - b sin, a sin + b cos).
    """

    def turned(self, a, b, cos, sin):
        return a * cos + b * sin, a * sin + b * cos


@mistake(of="SelfAttention", caught_by=test_rope)
class TwoMinusesInThePair(_Pairs):
    """A pair (a, b) becomes (a cos - b sin, b cos - a sin), which is no rotation.

    One minus is too many: (a cos - b sin, a sin + b cos).
    """

    def turned(self, a, b, cos, sin):
        return a * cos - b * sin, b * cos - a * sin


@mistake(of="SelfAttention", caught_by=test_self_precision)
class AnglesInHalfPrecision(Self):
    """Positions and angles are computed in half precision, which has no number for position 257.

    Compute them in float32; convert the sines and cosines, if anything.
    """

    def angles(self, x):
        positions = torch.arange(x.shape[-2], device=x.device).to(x.dtype)
        steps = torch.arange(x.shape[-1] // 2, dtype=torch.float64, device=x.device)
        speeds = (self.rope_base ** (-2 * steps / x.shape[-1])).to(x.dtype)
        return at_least_float32(positions[:, None] * speeds)[0]


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SpeedsInHalfPrecision(Self):
    """The powers of the base are rounded to half precision: far out, their errors are whole turns.

    Compute base ** (-2i/D) in float32, and keep no table of it that `module.to` would round.
    """

    def angles(self, x):
        steps = torch.arange(x.shape[-1] // 2, dtype=torch.float64, device=x.device)
        speeds = (self.rope_base ** (-2 * steps / x.shape[-1])).to(x.dtype)
        (speeds,) = at_least_float32(speeds)
        return torch.arange(x.shape[-2], dtype=speeds.dtype, device=x.device)[:, None] * speeds


@mistake(of="SelfAttention", caught_by=test_rope)
class TableOfAnotherModule(Self):
    """A table of angles is kept for each size, and serves modules with another base as well.

    Compute the angles from rope_base in every call, or keep the table in the module.
    """

    tables: ClassVar[dict] = {}

    def angles(self, x):
        sizes = tuple(x.shape[-2:]), x.dtype, x.device
        return self.tables.setdefault(sizes, super().angles(x))


@mistake(of="SelfAttention", caught_by=test_rope)
class TableTooShort(Self):
    """The table of angles ends at position 2047: what stands further out is turned as if it did.

    Compute the angles of as many tokens as there are in every call, or let the table grow.
    """

    def angles(self, x):
        found = super().angles(x)
        return found[torch.arange(len(found), device=x.device).clamp(max=2047)]


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SoftmaxAskedForFloat32(Self):
    """The softmax is asked for dtype=torch.float32: the scores were in half precision before it,
    and float64 loses half of its digits in it.

    Raise q and k before the scores, with torch.promote_types(x.dtype, torch.float32).
    """

    def attend(self, q, k, v, keep):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if keep is None:
            weights = torch.softmax(scores, -1, dtype=torch.float32)
        else:
            weights = plain_masked_softmax(scores.float(), keep)
        return self.drop(weights.to(q.dtype)) @ v


@mistake(of="SelfAttention", caught_by=test_self_precision)
class FloatFirst(Self):
    """q, k and v are made float32 with .float(), which is right in half precision and throws away
    half of the digits of float64.

    Raise half precision only: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        return super().attend(q.float(), k.float(), v.float(), keep).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SoftmaxInHalfPrecision(Self):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute scores and softmax in float32, and convert the heads back before o.
    """

    def attend(self, q, k, v, keep):
        return PlainSelfAttention.attend(self, q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SoftmaxInBfloat16(Self):
    """Of half precision only float16 is raised: bfloat16 has no fractions where scores are large.

    Raise both: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        if q.dtype == torch.float16:
            return super().attend(q, k, v, keep)
        return PlainSelfAttention.attend(self, q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_rope)
class OddHeadsWithoutNorms(Self):
    """Without norms an odd head width with RoPE is not refused.

    Raise the ValueError in __init__ whatever qk_norm is.
    """

    def __init__(self, d_model, num_heads, qk_norm=True, rope_base=None, dropout=0.0):
        checked = rope_base if qk_norm else None
        super().__init__(d_model, num_heads, qk_norm, checked, dropout)
        self.rope_base = rope_base


@mistake(of="SelfAttention", caught_by=test_self)
class ScaleOnePerCentOff(Self):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt of the head width itself: no constant added to it, no rounded number.
    """

    def attend(self, q, k, v, keep):
        return super().attend(0.99 * q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_self)
class MaskInverted(Self):
    """The mask is taken the wrong way round: what it keeps is hidden.

    True means may attend. Fill the scores where ~keep.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, keep if keep is None else ~keep)


@mistake(of="SelfAttention", caught_by=test_self)
class MaskOfTheFirstText(Self):
    """Where every text has a mask for each of its heads, all are given that of the first.

    Let `keep` broadcast to (B, H, L, L) as it is: nothing is cut off it.
    """

    def attend(self, q, k, v, keep):
        of_all = keep is not None and keep.ndim == 4 and keep.shape[1] > 1
        return super().attend(q, k, v, keep[:1] if of_all else keep)


@mistake(of="SelfAttention", caught_by=test_self)
class MaskOfTwoIsForTexts(Self):
    """A mask of two dimensions is read as (B, Lk), where there are as many texts as tokens.

    Leave it as it is: of (L, L) the first is the query, for every text.
    """

    def attend(self, q, k, v, keep):
        if keep is not None and keep.shape == (len(q), k.shape[-2]):
            keep = keep[:, None, None]
        return super().attend(q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class EmptyInAllHeadsOnly(Self):
    """Weights of a token that sees nothing are set to 0 only if it sees nothing in any head.

    Ask each row of `keep` by itself: keep.any(-1, keepdim=True).
    """

    def attend(self, q, k, v, keep):
        if keep is None or keep.ndim != 4:
            return super().attend(q, k, v, keep)
        wide = at_least_float32(q, k, v)
        scores = (wide[0] @ wide[1].mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -torch.inf)
        empty = ~keep.any(-1, keepdim=True).any(1, keepdim=True)
        weights = torch.softmax(scores, -1).masked_fill(empty, 0.0)
        return (self.drop(weights) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class LowestScoreInEmptyRows(Self):
    """Hidden scores are the lowest number that there is: a token that sees nothing gets the mean
    of all values.

    Set the weights of such rows to 0 after the softmax: masked_fill(~keep, 0.0).
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        wide = at_least_float32(q, k, v)
        scores = wide[0] @ wide[1].mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(keep == 0, torch.finfo(scores.dtype).min)
        return (self.drop(torch.softmax(scores, -1)) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class BillionSubtracted(Self):
    """1e9 is subtracted from hidden scores: a hidden token that is large enough is seen.

    Replace the scores by -inf (masked_fill) instead of adding a large number to them.
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        wide = at_least_float32(q, k, v)
        scores = wide[0] @ wide[1].mT / math.sqrt(q.shape[-1]) - 1e9 * ~keep
        empty = ~keep.any(-1, keepdim=True)
        weights = torch.softmax(scores, -1).masked_fill(empty, 0.0)
        return (self.drop(weights) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self)
class BatchOfOneSqueezed(Self):
    """Sizes of 1 vanish on the way: a batch of one loses its axis.

    Leave out squeeze(), or name the axis that should go.
    """

    def forward(self, x, keep=None):
        return super().forward(x, keep).squeeze()


@mistake(of="SelfAttention", caught_by=test_self_manners)
class NaNInTheGradient(Self):
    """-inf is added to the scores: the NaN of a row that sees nothing is overwritten, but its
    gradient is NaN as well.

    Put -inf in the place of the scores (masked_fill), or give such a row finite scores.
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        wide = at_least_float32(q, k, v)
        scores = wide[0] @ wide[1].mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores + torch.where(keep, 0.0, -torch.inf), -1)
        weights = weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)
        return (self.drop(weights) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedInEvaluation(Self):
    """Weights are dropped in evaluation, too: F.dropout(weights, p) alone does.

    Pass training=self.training, or use nn.Dropout, which knows.
    """

    def drop(self, weights):
        return F.dropout(weights, self.dropout)


@mistake(of="SelfAttention", caught_by=test_dropout)
class NotRescaled(Self):
    """The weights that stay are left as they were, so that their mean shrinks.

    Divide them by 1 - dropout.
    """

    def drop(self, weights):
        return super().drop(weights) * (1 - self.dropout if self.training else 1.0)


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedBeforeTheSoftmax(Self):
    """Dropout falls on the scores, or on what they are made of, so that no weight becomes 0.

    Drop the weights, after the softmax.
    """

    def attend(self, q, k, v, keep):
        if not (self.training and self.dropout):
            return super().attend(q, k, v, keep)
        q, k, v = at_least_float32(q, k, v)
        scores = self.drop(q @ k.mT / math.sqrt(q.shape[-1]))
        return (plain_masked_softmax(scores, keep) @ v).to(self.o.weight.dtype)


@mistake(of="SelfAttention", caught_by=test_dropout)
class OutputDropped(Self):
    """Dropout falls on the output instead of the attention weights.

    Drop the weights, between the softmax and the product with v.
    """

    def forward(self, x, keep=None):
        return F.dropout(super().forward(x, keep), self.dropout, self.training)

    def drop(self, weights):
        return weights


@mistake(of="SelfAttention", caught_by=test_self, null=True)
class Zeros(Self):
    """The output is zeros.

    Nothing is computed yet: project, normalise, split, rotate, attend, merge, project.
    """

    def forward(self, x, keep=None):
        return torch.zeros_like(x)


@mistake(of="SelfAttention", caught_by=test_self, null=True)
class MeanOfTheValues(Self):
    """The values are averaged: the scores play no part.

    Weight the values by the softmax of q k^T / sqrt(D).
    """

    def attend(self, q, k, v, keep):
        return super().attend(0 * q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class LearnsOnlyWithItsQueries(Self):
    """Where the weight of q needs no gradient, no other weight gets one, as if all were frozen.

    Leave it to PyTorch which tensors need gradients: write no torch.no_grad and no detach.
    """

    def forward(self, x, keep=None):
        learns = self.q.weight.requires_grad or x.requires_grad
        with torch.set_grad_enabled(torch.is_grad_enabled() and learns):
            return super().forward(x, keep)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class WeightsKeptInAList(Self):
    """The weights are kept in a list as well, and parameters put in their place are not read.

    Read self.q.weight and the others in every call.
    """

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.kept = [layer.weight for layer in (self.q, self.k, self.v)]

    def project(self, x):
        biases = torch.cat([layer.bias for layer in (self.q, self.k, self.v)])
        return F.linear(x, torch.cat(self.kept), biases).chunk(3, -1)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class MinusABillionInHiddenPlaces(Self):
    """Hidden scores become -1e9 or -1e30, which is more than scores may be that are seen.

    Fill with -inf: then what is hidden has no weight beside any score.
    """

    def attend(self, q, k, v, keep):
        if keep is None or q.dtype.itemsize == 2:
            return super().attend(q, k, v, keep)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -1e30)
        return self.drop(plain_masked_softmax(scores, keep.any(-1, keepdim=True))) @ v


@mistake(of="SelfAttention", caught_by=test_self_manners)
class SelfWithoutGradientsInEval(Self):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)
