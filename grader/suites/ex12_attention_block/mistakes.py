"""What goes wrong in an attention block, by name."""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F

from grader.judging import mistake
from reference.blocks import (
    PlainCrossAttention,
    PlainFeedForward,
    PlainRMSNorm,
    PlainSelfAttention,
    plain_angles,
    plain_turn,
    plain_weights,
)
from reference.ex02_masking import plain_masked_softmax
from reference.ex04_heads import plain_merge_heads, plain_split_heads

from .test_attention_block import (
    test_cross,
    test_cross_manners,
    test_cross_precision,
    test_dropout,
    test_feed_forward,
    test_fused,
    test_norm,
    test_norm_manners,
    test_norm_precision,
    test_rope,
    test_self,
    test_self_manners,
    test_self_norms,
    test_self_precision,
)


def _wide(*xs):
    """Half precision in float32, the rest as it is."""
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in xs]


class _Norm(PlainRMSNorm):
    """The right norm, half precision in float32; a mistake overrides `unit_of`."""

    def unit(self, x):
        return self.unit_of(*_wide(x)).to(x.dtype)

    def unit_of(self, x):
        return super().unit(x)


class _Self(PlainSelfAttention):
    """The right self-attention, half precision in float32."""

    norm = _Norm

    def project(self, x):
        if not self.fused:
            return super().project(x)
        return F.linear(x, *self.joined((self.q, self.k, self.v))).chunk(3, -1)

    def turn(self, x):
        return plain_turn(*_wide(x), self.angles(x)).to(x.dtype)

    def angles(self, x):
        return plain_angles(x, self.rope_base)

    def attend(self, q, k, v, keep):
        return super().attend(*_wide(q, k, v), keep).to(q.dtype)

    def joined(self, layers):
        """Weights and biases of several layers below each other."""
        return torch.cat([x.weight for x in layers]), torch.cat([x.bias for x in layers])


class _Cross(PlainCrossAttention):
    """The right cross-attention, half precision in float32."""

    norm = _Norm

    def attend(self, q, k, v, keep):
        return super().attend(*_wide(q, k, v), keep).to(q.dtype)


# Task 1: the norm


@mistake(of="RMSNorm", caught_by=test_norm)
class MeanSubtracted(_Norm):
    """The mean is subtracted from the row before it is divided: that is LayerNorm.

    RMSNorm takes one statistic only, the mean of the squares of x as it came.
    """

    def unit_of(self, x):
        return super().unit_of(x - x.mean(-1, keepdim=True))


@mistake(of="RMSNorm", caught_by=test_norm)
class EpsOutsideTheRoot(_Norm):
    """eps is added to the root instead of to the mean square.

    Add it first: torch.sqrt(x.square().mean(-1, keepdim=True) + eps).
    """

    def unit_of(self, x):
        return x / (x.square().mean(-1, keepdim=True).sqrt() + self.eps)


@mistake(of="RMSNorm", caught_by=test_norm)
class NoEps(_Norm):
    """eps is left out: a row of zeros is divided by zero.

    Add it to the mean square, under the root.
    """

    def unit_of(self, x):
        return x / x.square().mean(-1, keepdim=True).sqrt()


@mistake(of="RMSNorm", caught_by=test_norm)
class WeightIgnored(_Norm):
    """The weight plays no part.

    Multiply the quotient by self.weight.
    """

    def scaled(self, x):
        return x


@mistake(of="RMSNorm", caught_by=test_norm)
class EpsOfZeroReplaced(_Norm):
    """An eps of 0 is taken for none given, and the default stands in its place.

    Use self.eps as it is: `eps or 1e-6` is 1e-6 for 0.
    """

    def __init__(self, dim, eps=1e-6):
        super().__init__(dim, eps or 1e-6)


@mistake(of="RMSNorm", caught_by=test_norm)
class FirstThousandSquares(_Norm):
    """The mean square is taken of the first 1024 columns at most.

    Take the mean of all columns: wide.square().mean(-1, keepdim=True).
    """

    def unit_of(self, x):
        return x / (x[..., :1024].square().mean(-1, keepdim=True) + self.eps).sqrt()


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class NormInPlace(_Norm):
    """x itself is divided, so that the caller's numbers are lost.

    Write x / rms, without `/=` and div_: it makes a new tensor.
    """

    def forward(self, x):
        answer = super().forward(x)
        if not x.requires_grad and x.is_contiguous():
            x.copy_(self.unit(x))
        return answer


@mistake(of="RMSNorm", caught_by=test_norm_precision)
class HalfStatistics(PlainRMSNorm):
    """The mean square is computed in half precision, where squares overflow or vanish.

    Convert x to float32 before the squares are taken, and the quotient back at the end.
    """


@mistake(of="RMSNorm", caught_by=test_norm_precision)
class Float64Lowered(_Norm):
    """x.float() lowers float64 to float32, and half of the digits are gone.

    Raise half precision only: x.to(torch.promote_types(x.dtype, torch.float32)).
    """

    def unit_of(self, x):
        return super().unit_of(x.float())


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class WidthNotCompared(_Norm):
    """An x of another width is broadcast against the weight, or refused by PyTorch in its own way.

    Compare x.shape[-1] with dim first, and raise a ValueError with both numbers.
    """

    def forward(self, x):
        return self.scaled(self.unit(x))


@mistake(of="RMSNorm", caught_by=test_norm, null=True)
class NormOfZeros(_Norm):
    """The norm answers with zeros.

    Nothing is computed yet: take the mean square, its root, and divide.
    """

    def unit_of(self, x):
        return 0 * x


# Task 2: self-attention


@mistake(of="SelfAttention", caught_by=test_self)
class CutInTheWrongOrder(_Self):
    """With `fused`, the product is cut into k, q and v instead of q, k and v, or joined so.

    Join the weights and cut the product in one order: q, k, v.
    """

    def project(self, x):
        q, k, v = super().project(x)
        return (k, q, v) if self.fused else (q, k, v)


@mistake(of="SelfAttention", caught_by=test_self)
class JoinedOnce(_Self):
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
            return _Self.project(self, x)
        return super().project(x)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class JoinedDetached(_Self):
    """With `fused`, no gradient reaches q, k and v: their weights are joined as .data or detached.

    torch.cat of the parameters themselves keeps the graph.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        weight, bias = self.joined((self.q, self.k, self.v))
        return F.linear(x, weight.detach(), bias.detach()).chunk(3, -1)


@mistake(of="SelfAttention", caught_by=test_fused)
class FusedIgnored(_Self):
    """The attribute `fused` changes nothing: the same products are made with it and without.

    With `fused`, multiply once by the three weights below each other; without, by each of them.
    """

    project = PlainSelfAttention.project


@mistake(of="SelfAttention", caught_by=test_fused)
class ThreeConvolutions(_Self):
    """With `fused`, q, k and v come from three products still, which are written as convolutions.

    However a product is written, PyTorch makes one: multiply once by the three weights.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        layers = (self.q, self.k, self.v)
        return [F.conv1d(x.mT, y.weight[..., None], y.bias).mT for y in layers]


@mistake(of="SelfAttention", caught_by=test_fused)
class ThreeBilinearMaps(_Self):
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
class ThreeSumsOfProducts(_Self):
    """With `fused`, q, k and v are three sums of elementwise products, so that no product is left.

    With `fused`, multiply once by the three weights below each other, with F.linear or @.
    """

    def project(self, x):
        if not self.fused:
            return super().project(x)
        return [(x[..., None, :] * y.weight).sum(-1) + y.bias for y in (self.q, self.k, self.v)]


@mistake(of="SelfAttention", caught_by=test_fused)
class AlwaysFused(_Self):
    """One product gives q, k and v without `fused` too, and two more are made for nothing.

    Without `fused`, multiply by each of the three weights, as a plain self-attention does.
    """

    def project(self, x):
        if not self.fused:
            self.q(x)
            self.k(x)
        return F.linear(x, *self.joined((self.q, self.k, self.v))).chunk(3, -1)


@mistake(of="SelfAttention", caught_by=test_fused)
class ProductsForNothing(_Self):
    """Three products give q, k and v in any case; without `fused`, two more are made for nothing.

    With `fused`, multiply once by the three weights below each other; without, by each of them.
    """

    def project(self, x):
        if not self.fused:
            self.q(x)
            self.k(x)
        return PlainSelfAttention.project(self, x)


@mistake(of="SelfAttention", caught_by=test_self_norms)
class NormPerHead(_Self):
    """The mean square is taken of each head by itself.

    Normalise q and k as they come out of the projections, over the whole width; split afterwards.
    """

    def normalise(self, q, k, v):
        return self.per_head(q, self.norm_q), self.per_head(k, self.norm_k), v

    def per_head(self, x, norm):
        return norm.scaled(norm.unit(x.unflatten(-1, (self.num_heads, -1))).flatten(-2))


@mistake(of="SelfAttention", caught_by=test_self_norms)
class NormsOfTheHeadWidth(_Self):
    """norm_q and norm_k come after the split: they have the width of a head, not of the model.

    RMSNorm(d_model): they stand before the heads are split.
    """

    def __init__(self, d_model, num_heads, *args, **options):
        super().__init__(d_model, num_heads, *args, **options)
        if self.qk_norm:
            width = d_model // num_heads
            self.norm_q, self.norm_k = self.norm(width), self.norm(width)


@mistake(of="SelfAttention", caught_by=test_self_norms)
class ValuesNormalised(_Self):
    """The values are normalised too.

    Only q and k are: the values carry what is said, in its own size.
    """

    def normalise(self, q, k, v):
        return self.norm_q(q), self.norm_k(k), self.norm_k(v)


@mistake(of="SelfAttention", caught_by=test_self_norms)
class KeysNotNormalised(_Self):
    """The keys are not normalised: norm_k is never called.

    q goes through norm_q, and k through norm_k.
    """

    def normalise(self, q, k, v):
        return self.norm_q(q), k, v


@mistake(of="SelfAttention", caught_by=test_self_norms)
class KeysThroughNormQ(_Self):
    """The keys go through norm_q instead of norm_k.

    Each norm has a weight of its own: q goes through norm_q, and k through norm_k.
    """

    def normalise(self, q, k, v):
        return self.norm_q(q), self.norm_q(k), v


@mistake(of="SelfAttention", caught_by=test_rope)
class NormsExchanged(_Self):
    """The queries go through norm_k, and the keys through norm_q, which RoPE brings to light.

    Each norm has a weight of its own: q goes through norm_q, and k through norm_k.
    """

    def normalise(self, q, k, v):
        return self.norm_k(q), self.norm_q(k), v


@mistake(of="SelfAttention", caught_by=test_rope)
class RotatedBeforeTheNorm(_Self):
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
class ValuesRotated(_Self):
    """The values are rotated as well.

    Only q and k are: where a token stands decides who reads it, not what it says.
    """

    def rotate(self, q, k, v):
        return self.turn(q), self.turn(k), self.turn(v)


@mistake(of="SelfAttention", caught_by=test_rope)
class HalvesPaired(_Self):
    """RoPE pairs place i with place i + D/2, as in Llama's published code.

    The pairs are neighbours here, (2i, 2i + 1): x[..., 0::2] and x[..., 1::2].
    """

    def turn(self, x):
        cos, sin = self.angles(x).cos(), self.angles(x).sin()
        a, b = _wide(*x.chunk(2, -1))
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


@mistake(of="SelfAttention", caught_by=test_rope)
class TurnedTheOtherWay(_Self):
    """RoPE turns by minus the angle: the signs of both sines are the wrong way round.

    (a, b) becomes (a cos - b sin, a sin + b cos): the minus stands in the first.
    """

    def angles(self, x):
        return -super().angles(x)


class _Pairs(_Self):
    """Turns each pair (a, b) as a mistake says."""

    def turn(self, x):
        cos, sin = self.angles(x).cos(), self.angles(x).sin()
        [wide] = _wide(x)
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
class AnglesInHalfPrecision(_Self):
    """Positions and angles are computed in half precision, which has no number for position 257.

    Compute them in float32; convert the sines and cosines, if anything.
    """

    def angles(self, x):
        positions = torch.arange(x.shape[-2], device=x.device).to(x.dtype)
        steps = torch.arange(x.shape[-1] // 2, dtype=torch.float64, device=x.device)
        speeds = (self.rope_base ** (-2 * steps / x.shape[-1])).to(x.dtype)
        return _wide(positions[:, None] * speeds)[0]


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SpeedsInHalfPrecision(_Self):
    """The powers of the base are rounded to half precision: far out, their errors are whole turns.

    Compute base ** (-2i/D) in float32, and keep no table of it that `module.to` would round.
    """

    def angles(self, x):
        steps = torch.arange(x.shape[-1] // 2, dtype=torch.float64, device=x.device)
        speeds = (self.rope_base ** (-2 * steps / x.shape[-1])).to(x.dtype)
        (speeds,) = _wide(speeds)
        return torch.arange(x.shape[-2], dtype=speeds.dtype, device=x.device)[:, None] * speeds


@mistake(of="SelfAttention", caught_by=test_rope)
class TableOfAnotherModule(_Self):
    """A table of angles is kept for each size, and serves modules with another base as well.

    Compute the angles from rope_base in every call, or keep the table in the module.
    """

    tables: ClassVar[dict] = {}

    def angles(self, x):
        sizes = tuple(x.shape[-2:]), x.dtype, x.device
        return self.tables.setdefault(sizes, super().angles(x))


@mistake(of="SelfAttention", caught_by=test_rope)
class TableTooShort(_Self):
    """The table of angles ends at position 2047: what stands further out is turned as if it did.

    Compute the angles of as many tokens as there are in every call, or let the table grow.
    """

    def angles(self, x):
        found = super().angles(x)
        return found[torch.arange(len(found), device=x.device).clamp(max=2047)]


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SoftmaxAskedForFloat32(_Self):
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
class FloatFirst(_Self):
    """q, k and v are made float32 with .float(), which is right in half precision and throws away
    half of the digits of float64.

    Raise half precision only: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        return super().attend(q.float(), k.float(), v.float(), keep).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SoftmaxInHalfPrecision(_Self):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute scores and softmax in float32, and convert the heads back before o.
    """

    def attend(self, q, k, v, keep):
        return PlainSelfAttention.attend(self, q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class SoftmaxInBfloat16(_Self):
    """Of half precision only float16 is raised: bfloat16 has no fractions where scores are large.

    Raise both: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        if q.dtype == torch.float16:
            return super().attend(q, k, v, keep)
        return PlainSelfAttention.attend(self, q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_rope)
class OddHeadsWithoutNorms(_Self):
    """Without norms an odd head width with RoPE is not refused.

    Raise the ValueError in __init__ whatever qk_norm is.
    """

    def __init__(self, d_model, num_heads, qk_norm=True, rope_base=None, dropout=0.0):
        checked = rope_base if qk_norm else None
        super().__init__(d_model, num_heads, qk_norm, checked, dropout)
        self.rope_base = rope_base


@mistake(of="SelfAttention", caught_by=test_self)
class ScaleOnePerCentOff(_Self):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt of the head width itself: no constant added to it, no rounded number.
    """

    def attend(self, q, k, v, keep):
        return super().attend(0.99 * q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_self)
class MaskInverted(_Self):
    """The mask is taken the wrong way round: what it keeps is hidden.

    True means may attend. Fill the scores where ~keep.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, keep if keep is None else ~keep)


@mistake(of="SelfAttention", caught_by=test_self)
class MaskOfTheFirstText(_Self):
    """Where every text has a mask for each of its heads, all are given that of the first.

    Let `keep` broadcast to (B, H, L, L) as it is: nothing is cut off it.
    """

    def attend(self, q, k, v, keep):
        of_all = keep is not None and keep.ndim == 4 and keep.shape[1] > 1
        return super().attend(q, k, v, keep[:1] if of_all else keep)


@mistake(of="SelfAttention", caught_by=test_self)
class MaskOfTwoIsForTexts(_Self):
    """A mask of two dimensions is read as (B, Lk), where there are as many texts as tokens.

    Leave it as it is: of (L, L) the first is the query, for every text.
    """

    def attend(self, q, k, v, keep):
        if keep is not None and keep.shape == (len(q), k.shape[-2]):
            keep = keep[:, None, None]
        return super().attend(q, k, v, keep)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class EmptyInAllHeadsOnly(_Self):
    """Weights of a token that sees nothing are set to 0 only if it sees nothing in any head.

    Ask each row of `keep` by itself: keep.any(-1, keepdim=True).
    """

    def attend(self, q, k, v, keep):
        if keep is None or keep.ndim != 4:
            return super().attend(q, k, v, keep)
        wide = _wide(q, k, v)
        scores = (wide[0] @ wide[1].mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -torch.inf)
        empty = ~keep.any(-1, keepdim=True).any(1, keepdim=True)
        weights = torch.softmax(scores, -1).masked_fill(empty, 0.0)
        return (self.drop(weights) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class LowestScoreInEmptyRows(_Self):
    """Hidden scores are the lowest number that there is: a token that sees nothing gets the mean
    of all values.

    Set the weights of such rows to 0 after the softmax: masked_fill(~keep, 0.0).
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        wide = _wide(q, k, v)
        scores = wide[0] @ wide[1].mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(keep == 0, torch.finfo(scores.dtype).min)
        return (self.drop(torch.softmax(scores, -1)) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class BillionSubtracted(_Self):
    """1e9 is subtracted from hidden scores: a hidden token that is large enough is seen.

    Replace the scores by -inf (masked_fill) instead of adding a large number to them.
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        wide = _wide(q, k, v)
        scores = wide[0] @ wide[1].mT / math.sqrt(q.shape[-1]) - 1e9 * ~keep
        empty = ~keep.any(-1, keepdim=True)
        weights = torch.softmax(scores, -1).masked_fill(empty, 0.0)
        return (self.drop(weights) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_self)
class BatchOfOneSqueezed(_Self):
    """Sizes of 1 vanish on the way: a batch of one loses its axis.

    Leave out squeeze(), or name the axis that should go.
    """

    def forward(self, x, keep=None):
        return super().forward(x, keep).squeeze()


@mistake(of="SelfAttention", caught_by=test_self_manners)
class NaNInTheGradient(_Self):
    """-inf is added to the scores: the NaN of a row that sees nothing is overwritten, but its
    gradient is NaN as well.

    Put -inf in the place of the scores (masked_fill), or give such a row finite scores.
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        wide = _wide(q, k, v)
        scores = wide[0] @ wide[1].mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores + torch.where(keep, 0.0, -torch.inf), -1)
        weights = weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)
        return (self.drop(weights) @ wide[2]).to(q.dtype)


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedInEvaluation(_Self):
    """Weights are dropped in evaluation, too: F.dropout(weights, p) alone does.

    Pass training=self.training, or use nn.Dropout, which knows.
    """

    def drop(self, weights):
        return F.dropout(weights, self.dropout)


@mistake(of="SelfAttention", caught_by=test_dropout)
class NotRescaled(_Self):
    """The weights that stay are left as they were, so that their mean shrinks.

    Divide them by 1 - dropout.
    """

    def drop(self, weights):
        return super().drop(weights) * (1 - self.dropout if self.training else 1.0)


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedBeforeTheSoftmax(_Self):
    """Dropout falls on the scores, or on what they are made of, so that no weight becomes 0.

    Drop the weights, after the softmax.
    """

    def attend(self, q, k, v, keep):
        if not (self.training and self.dropout):
            return super().attend(q, k, v, keep)
        q, k, v = _wide(q, k, v)
        scores = self.drop(q @ k.mT / math.sqrt(q.shape[-1]))
        return (plain_masked_softmax(scores, keep) @ v).to(self.o.weight.dtype)


@mistake(of="SelfAttention", caught_by=test_dropout)
class OutputDropped(_Self):
    """Dropout falls on the output instead of the attention weights.

    Drop the weights, between the softmax and the product with v.
    """

    def forward(self, x, keep=None):
        return F.dropout(super().forward(x, keep), self.dropout, self.training)

    def drop(self, weights):
        return weights


@mistake(of="SelfAttention", caught_by=test_self, null=True)
class Zeros(_Self):
    """The output is zeros.

    Nothing is computed yet: project, normalise, split, rotate, attend, merge, project.
    """

    def forward(self, x, keep=None):
        return torch.zeros_like(x)


@mistake(of="SelfAttention", caught_by=test_self, null=True)
class MeanOfTheValues(_Self):
    """The values are averaged: the scores play no part.

    Weight the values by the softmax of q k^T / sqrt(D).
    """

    def attend(self, q, k, v, keep):
        return super().attend(0 * q, k, v, keep)


# Task 3: cross-attention


@mistake(of="CrossAttention", caught_by=test_cross)
class KeysFromX(_Cross):
    """Keys and values are made from x instead of the context.

    Queries come from x; keys and values come from the context.
    """

    def forward(self, x, context, keep=None):
        super().forward(x, context[:, -1:])  # what does not fit is refused
        q = self.split(self.norm_q(self.q(x)))
        heads = self.read_text(q, x, None)
        if self.image_tokens:
            heads = heads + self.read_image(q, context[:, : self.image_tokens], None)
        return self.o(plain_merge_heads(heads))


@mistake(of="CrossAttention", caught_by=test_cross)
class TextRememberedInEval(_Cross):
    """In .eval() the keys of the text are kept for a context, and new weights are not noticed.

    Compute keys and values in every call.
    """

    def read_text(self, q, text, keep):
        if self.training:
            return super().read_text(q, text, keep)
        last = getattr(self, "last", None)
        if last is None or last[0].shape != text.shape or not torch.equal(last[0], text):
            self.last = last = text.clone(), self.norm_k(self.k(text)), self.v(text)
        return self.attend(q, self.split(last[1]), self.split(last[2]), keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageThroughTheText(_Cross):
    """The image's keys and values go through k and v, like the text's.

    The image has projections of its own, k_img and v_img.
    """

    def read_image(self, q, image, keep):
        return self.read_text(q, image, None)


@mistake(of="CrossAttention", caught_by=test_cross)
class OneSoftmaxForBoth(_Cross):
    """Text and image share one softmax, so that they compete for the same weight.

    Attend to each with a softmax of its own, and add the results.
    """

    def forward(self, x, context, keep=None):
        if not self.image_tokens or context.shape[1] < self.image_tokens:
            return super().forward(x, context, keep)
        q = self.split(self.norm_q(self.q(x)))
        image, text = self.divide(context)
        k = torch.cat([self.norm_k_img(self.k_img(image)), self.norm_k(self.k(text))], 1)
        v = torch.cat([self.v_img(image), self.v(text)], 1)
        if keep is not None:
            keep = F.pad(keep, (self.image_tokens, 0), value=True)
        return self.o(plain_merge_heads(self.attend(q, k, v, keep)))


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageNotAdded(_Cross):
    """The image is cut off the context, and what it would answer is not added.

    Attend to it as well, through k_img, norm_k_img and v_img, and add the result.
    """

    def read_image(self, q, image, keep):
        return 0 * super().read_image(q, image, keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageAveraged(_Cross):
    """The mean of the two results is taken instead of their sum.

    Add them.
    """

    def read_text(self, q, text, keep):
        return super().read_text(q, text, keep) * (0.5 if self.image_tokens else 1.0)

    def read_image(self, q, image, keep):
        return super().read_image(q, image, keep) / 2


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageFromTheEnd(_Cross):
    """The last tokens of the context are taken for the image.

    The image stands at the front: context[:, :image_tokens].
    """

    def divide(self, context):
        text = context.shape[1] - self.image_tokens
        return context[:, text:], context[:, :text]


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageKeysNotNormalised(_Cross):
    """norm_k_img is forgotten: the image's keys are not normalised.

    Its keys are norm_k_img(k_img(image)).
    """

    def read_image(self, q, image, keep):
        return self.attend(q, self.k_img(image), self.v_img(image), None)


@mistake(of="CrossAttention", caught_by=test_cross)
class TextKeysThroughNormQ(_Cross):
    """The text's keys go through norm_q instead of norm_k.

    Each norm has a weight of its own: norm_q is for the queries alone.
    """

    def read_text(self, q, text, keep):
        return self.attend(q, self.norm_q(self.k(text)), self.v(text), keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageKeysThroughNormK(_Cross):
    """The image's keys go through norm_k, like the text's.

    The image has a norm of its own: norm_k_img(k_img(image)).
    """

    def read_image(self, q, image, keep):
        return self.attend(q, self.norm_k(self.k_img(image)), self.v_img(image), None)


@mistake(of="CrossAttention", caught_by=test_cross)
class MaskOnTheImage(_Cross):
    """The mask is applied to the image as well, as far as it reaches.

    `keep` is about the text's keys alone; every query may attend to the whole image.
    """

    def read_image(self, q, image, keep):
        if keep is None or not keep.shape[-1]:
            return super().read_image(q, image, keep)
        keep = F.pad(keep, (0, self.image_tokens), value=True)[..., : self.image_tokens]
        return self.attend(q, self.norm_k_img(self.k_img(image)), self.v_img(image), keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class MaskForgottenOnItself(_Cross):
    """Where the context is x itself, `keep` is ignored, as in self-attention without a mask.

    Treat a context that is x as any other.
    """

    def forward(self, x, context, keep=None):
        return super().forward(x, context, None if context is x else keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class MaskOfThreeIsForTexts(_Cross):
    """A mask of three axes is taken for (B, L, Lc), where there are as many texts as heads.

    It broadcasts to (B, H, L, Lc - image_tokens): with three axes the first is of the heads.
    """

    def read_text(self, q, text, keep):
        of_three = keep is not None and keep.ndim == 3 and len(keep) == len(q)
        return super().read_text(q, text, keep[:, None] if of_three else keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class CrossMaskOfTwoIsForTexts(_Cross):
    """A mask of two dimensions is read as (B, Lk), where there are as many texts as tokens.

    Leave it as it is: of (L, Lk) the first is the query, for every text.
    """

    def attend(self, q, k, v, keep):
        if keep is not None and keep.shape == (len(q), k.shape[-2]):
            keep = keep[:, None, None]
        return super().attend(q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class CrossMaskOfTheFirstHead(_Cross):
    """Where every head has a mask of its own for each text, all are given that of the first head.

    Let `keep` broadcast to (B, H, L, Lc - image_tokens) as it is: nothing is cut off it.
    """

    def read_text(self, q, text, keep):
        of_all = keep is not None and keep.ndim == 4
        return super().read_text(q, text, keep[:, :1] if of_all else keep)


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class CrossFloatFirst(_Cross):
    """q, k and v are made float32 with .float(), which is right in half precision and throws away
    half of the digits of float64.

    Raise half precision only: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        return super().attend(q.float(), k.float(), v.float(), keep).to(q.dtype)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class OnlyAThousandKeys(_Cross):
    """Tokens of the text beyond the first 1024 are left out.

    Attend to all of the context, however long it is.
    """

    def read_text(self, q, text, keep):
        return super().read_text(q, text[:, :1024], keep if keep is None else keep[..., :1024])


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class LowestScoreWithoutText(_Cross):
    """Hidden scores are the lowest number that there is: a query that sees no text gets the mean
    of all texts' values.

    Set the weights of such rows to 0 after the softmax: masked_fill(~keep, 0.0).
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        q, k, v = _wide(q, self.split(k), self.split(v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(keep == 0, torch.finfo(scores.dtype).min)
        return (torch.softmax(scores, -1) @ v).to(self.o.weight.dtype)


@mistake(of="CrossAttention", caught_by=test_cross)
class CausalWhereSquare(_Cross):
    """Where the text has as many tokens as there are queries, a query sees it up to its own place
    alone.

    The text has no order among the queries: only `keep` hides it.
    """

    def attend(self, q, k, v, keep):
        if keep is None and q.shape[-2] == k.shape[-2]:
            keep = torch.ones(q.shape[-2], k.shape[-2], device=q.device).tril().bool()
        return super().attend(q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class CrossInHalfPrecision(_Cross):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute scores and softmax in float32, and convert the heads back before o.
    """

    def attend(self, q, k, v, keep):
        return PlainCrossAttention.attend(self, q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class CrossInBfloat16(_Cross):
    """Of half precision only float16 is raised: in bfloat16 close scores of hundreds are all alike.

    Raise both: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        if q.dtype == torch.bfloat16:
            return PlainCrossAttention.attend(self, q, k, v, keep)
        return super().attend(q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class ContextLearnsOnlyWithTheTokens(_Cross):
    """Where x needs no gradient, the context and the weights get none either.

    Leave it to PyTorch which tensors need gradients: write no torch.no_grad and no detach.
    """

    def forward(self, x, context, keep=None):
        with torch.set_grad_enabled(torch.is_grad_enabled() and x.requires_grad):
            return super().forward(x, context, keep)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class LearnsOnlyWithItsQueries(_Self):
    """Where the weight of q needs no gradient, no other weight gets one, as if all were frozen.

    Leave it to PyTorch which tensors need gradients: write no torch.no_grad and no detach.
    """

    def forward(self, x, keep=None):
        learns = self.q.weight.requires_grad or x.requires_grad
        with torch.set_grad_enabled(torch.is_grad_enabled() and learns):
            return super().forward(x, keep)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class WeightsKeptInAList(_Self):
    """The weights are kept in a list as well, and parameters put in their place are not read.

    Read self.q.weight and the others in every call.
    """

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.kept = [layer.weight for layer in (self.q, self.k, self.v)]

    def project(self, x):
        biases = torch.cat([layer.bias for layer in (self.q, self.k, self.v)])
        return F.linear(x, torch.cat(self.kept), biases).chunk(3, -1)


@mistake(of="CrossAttention", caught_by=test_cross, null=True)
class NothingRead(_Cross):
    """The output is zeros.

    Nothing is computed yet: project, normalise, split, attend to text and image, add, project.
    """

    def forward(self, x, context, keep=None):
        return torch.zeros_like(x)


# Task 4: the feed-forward


@mistake(of="FeedForward", caught_by=test_feed_forward)
class Gelu(PlainFeedForward):
    """GELU stands between the layers.

    That is what many models take. Here it is ReLU: torch.relu.
    """

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


@mistake(of="FeedForward", caught_by=test_feed_forward)
class ReluAtTheEnd(PlainFeedForward):
    """ReLU comes after w2 instead of between the layers.

    w2(relu(w1(x))): the answer may be negative.
    """

    def forward(self, x):
        return torch.relu(self.w2(self.w1(x)))


@mistake(of="FeedForward", caught_by=test_feed_forward)
class OneAnswerForAll(PlainFeedForward):
    """The answer is written into a tensor that is kept, so that an earlier answer changes.

    Return what w2 gives: a new tensor in every call.
    """

    def forward(self, x):
        answer = super().forward(x)
        if x.requires_grad:
            return answer
        kept = vars(self).setdefault("kept", torch.empty_like(answer))
        if kept.shape != answer.shape or kept.dtype != answer.dtype:
            return answer
        return kept.detach().copy_(answer.detach())


@mistake(of="FeedForward", caught_by=test_feed_forward)
class HiddenInTheInput(PlainFeedForward):
    """In .eval() the hidden numbers are written into x, where there is room for them.

    Make a new tensor: x belongs to the caller, who may need it for a residual.
    """

    def forward(self, x):
        hidden = torch.relu(self.w1(x))
        if not self.training and hidden.shape == x.shape:
            hidden = x.copy_(hidden)
        return self.w2(hidden)


@mistake(of="FeedForward", caught_by=test_feed_forward, null=True)
class NoRelu(PlainFeedForward):
    """Nothing stands between the layers: together they are one linear layer.

    w2(relu(w1(x))).
    """

    def forward(self, x):
        return self.w2(self.w1(x))


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class DividedInPlaceWithoutGradients(_Norm):
    """Where no gradients are wanted, x itself is divided.

    Make a new tensor, with gradients or without: x * scale, not x.mul_(scale).
    """

    def forward(self, x):
        output = super().forward(x)
        if not torch.is_grad_enabled():
            x.copy_(output)
        return output


@mistake(of="SelfAttention", caught_by=test_self_precision)
class MinusABillionInHiddenPlaces(_Self):
    """Hidden scores become -1e9 or -1e30, which is more than scores may be that are seen.

    Fill with -inf: then what is hidden has no weight beside any score.
    """

    def attend(self, q, k, v, keep):
        if keep is None or q.dtype.itemsize == 2:
            return super().attend(q, k, v, keep)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -1e30)
        return self.drop(plain_masked_softmax(scores, keep.any(-1, keepdim=True))) @ v


@mistake(of="FeedForward", caught_by=test_feed_forward)
class FedWithoutGradientsInEval(PlainFeedForward):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class SelfWithoutGradientsInEval(_Self):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class CrossWithoutGradientsInEval(_Cross):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


# Wrong under two or three conditions at once


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class WidthComparedWhereThereAreRows(_Norm):
    """The width of an x that has no rows is not compared.

    Compare x.shape[-1] with dim before you ask for anything else.
    """

    def forward(self, x):
        return super().forward(x) if x.numel() else self.scaled(self.unit(x))


@mistake(of="RMSNorm", caught_by=test_norm_precision)
class LargerEpsInHalfPrecision(_Norm):
    """In half precision an eps of 0 becomes the default.

    Use eps as it is: in float32 the mean square of half precision does not vanish.
    """

    def unit(self, x):
        eps = max(self.eps, 1e-6) if x.dtype.itemsize == 2 else self.eps
        (wide,) = _wide(x)
        return (wide / torch.sqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


@mistake(of="SelfAttention", caught_by=test_dropout)
class TurnedWithoutDropout(_Self):
    """With RoPE no weights are dropped.

    Whatever turns q and k, the weights come out of one softmax: drop them behind it.
    """

    def drop(self, weights):
        return super().drop(weights) if self.rope_base is None else weights


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedBesideTheGraph(_Self):
    """Gradients flow as if no weight had been dropped.

    Multiply the weights themselves by what F.dropout makes of ones, or use F.dropout on them.
    """

    def drop(self, weights):
        return weights + (super().drop(weights) - weights).detach()


@mistake(of="SelfAttention", caught_by=test_self_manners)
class ColumnTakenForARow(_Self):
    """A mask (L, 1), which says what each query sees, is laid over the keys instead.

    Let `keep` broadcast to (B, H, L, L) as it is: its last axis is that of the keys, even if it
    has a size of 1.
    """

    def attend(self, q, k, v, keep):
        column = keep is not None and keep.ndim > 1 and keep.shape[-1] == 1
        return super().attend(q, k, v, keep.mT if column else keep)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class LargestOfNoKeys(_Cross):
    """Whether a query sees any text is read from the largest entry of its mask, which there is none
    of where the text is empty and a mask is given.

    Ask keep.any(-1, keepdim=True): it is False for no keys.
    """

    def attend(self, q, k, v, keep):
        if keep is not None:
            seen = keep.to(q.dtype).amax(-1, keepdim=True)
            return super().attend(q, k, v, keep & (seen > 0))
        return super().attend(q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class DetachedOnItself(_Cross):
    """Where the context is x itself, no gradient flows back through keys and values.

    x is used three times then, and the gradients of all uses are added: detach none of them.
    """

    def forward(self, x, context, keep=None):
        return super().forward(x, context.detach() if context is x else context, keep)


@mistake(of="FeedForward", caught_by=test_feed_forward)
class CutAtTheLargestHalf(PlainFeedForward):
    """The hidden numbers are cut at 65504, the largest of float16, in every dtype.

    A ReLU cuts at 0 alone: F.relu.
    """

    def forward(self, x):
        return self.w2(F.relu(self.w1(x)).clamp(max=65504.0))


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class HiddenTextOfMinus1e20(_Cross):
    """Hidden scores become -1e20, and float32 holds scores that are lower still.

    Fill with -torch.inf, and give rows that see nothing zeros.
    """

    def attend(self, q, k, v, keep):
        if keep is None or q.dtype.itemsize == 2:
            return super().attend(q, k, v, keep)
        k, v = self.split(k), self.split(v)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -1e20)
        return plain_masked_softmax(scores, keep.any(-1, keepdim=True)) @ v


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class WeightsOfManyKeysInHalf(_Cross):
    """The weights of more than 4,096 keys are rounded to half precision, to save memory.

    Keep the weights in float32, whatever their number.
    """

    def attend(self, q, k, v, keep):
        if k.shape[1] <= 4096:
            return super().attend(q, k, v, keep)
        q, k, v = _wide(q, self.split(k), self.split(v))
        return plain_weights(q, k, keep).half().to(q.dtype) @ v


@mistake(of="SelfAttention", caught_by=test_rope)
class TableOf8192(_Self):
    """The table of angles ends at position 8191: what stands further out is turned as if it did.

    Compute the angles of as many tokens as there are in every call, or let the table grow.
    """

    def angles(self, x):
        places = torch.arange(x.shape[-2], device=x.device).clamp(max=8191)
        return super().angles(x)[..., places, :]


@mistake(of="SelfAttention", caught_by=test_self_manners)
class FusedBiasesRemembered(_Self):
    """The joined weights are kept until a weight changes; a bias that changes is not noticed.

    Join weights and biases in every call, as they are then.
    """

    known: ClassVar[tuple] = None, None

    def joined(self, layers):
        seen = [(x.weight.data_ptr(), x.weight._version) for x in layers]
        if torch.is_grad_enabled() or self.known[0] != seen:
            self.known = seen, super().joined(layers)
        return self.known[1]


@mistake(of="SelfAttention", caught_by=test_self_precision)
class AnglesOfTheFirstDtype(_Self):
    """The angles are kept in the dtype of the first call: after .double() they are still those of
    float32.

    Compute the angles in every call, in float64 for an input in float64.
    """

    known = None

    def angles(self, x):
        if self.known is None or self.known.shape[-2] < x.shape[-2]:
            self.known = super().angles(x)
        return self.known[..., : x.shape[-2], :].to(x.dtype)


@mistake(of="SelfAttention", caught_by=test_self)
class FusedWithoutBiases(_Self):
    """With `fused` the biases of q, k and v are left out.

    Give F.linear the biases as well, joined like the weights.
    """

    def joined(self, layers):
        return super().joined(layers)[0], None


@mistake(of="SelfAttention", caught_by=test_rope)
class AnglesOfHalfTheExponent(_Self):
    """The exponent of the angles lacks its 2: base**(-i/D), and the angles fall too slowly.

    Pair i of a head of width D turns by p * base**(-2i/D).
    """

    def angles(self, x):
        return plain_angles(x, None if self.rope_base is None else self.rope_base**0.5)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class DoubleScoresClamped(_Self):
    """In float64 scores are kept above -1e30: lower ones are all alike.

    Leave the scores as they are: softmax takes its maximum away first.
    """

    def attend(self, q, k, v, keep):
        if q.dtype != torch.float64:
            return super().attend(q, k, v, keep)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).clamp(min=-1e30)
        return self.drop(plain_masked_softmax(scores, keep)) @ v


@mistake(of="SelfAttention", caught_by=test_self_manners)
class HiddenPowersReplaced(_Self):
    """The powers of hidden scores are replaced by 0: that of a huge one is infinite, and 0 times
    its gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """

    def attend(self, q, k, v, keep):
        if keep is None or q.dtype != torch.float32:
            return super().attend(q, k, v, keep)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
        powers = (scores - top.nan_to_num(neginf=0.0).detach()).exp()
        powers = torch.where(keep, powers, 0.0)
        return self.drop(powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)) @ v


@mistake(of="SelfAttention", caught_by=test_rope)
class AnglesByWholeBases(_Self):
    """Angles are kept for each whole base: those of 100.4 are the ones of 100.

    Keep nothing, or keep it by the base itself.
    """

    known: ClassVar = {}

    def angles(self, x):
        found = int(self.rope_base), x.shape, x.dtype, x.device
        if found not in self.known:
            self.known[found] = super().angles(x)
        return self.known[found]


@mistake(of="SelfAttention", caught_by=test_self_manners)
class NoMaximumWithoutGradients(_Self):
    """Where no gradients are needed exp is taken of the scores as they are: those of hundreds
    overflow.

    Take the maximum away first, with gradients or without.
    """

    def attend(self, q, k, v, keep):
        if torch.is_grad_enabled() or self.rope_base is None:
            return super().attend(q, k, v, keep)
        kind, (q, k, v) = q.dtype, _wide(q, k, v)
        powers = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
        powers = powers if keep is None else powers * keep
        return (powers / powers.sum(-1, keepdim=True).clamp(min=1e-30) @ v).to(kind)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class KeepsTheJoined(_Self):
    """Without gradients the joined weights are kept until others are loaded; an optimiser changes
    them in place.

    Join them in every call.
    """

    kept = None

    def load_state_dict(self, *args, **options):
        self.kept = None
        return super().load_state_dict(*args, **options)

    def to(self, *args, **options):
        self.kept = None
        return super().to(*args, **options)

    def joined(self, layers):
        if torch.is_grad_enabled():
            return super().joined(layers)
        self.kept = self.kept or super().joined(layers)
        return self.kept


@mistake(of="SelfAttention", caught_by=test_dropout)
class FewKeysNotDropped(_Self):
    """Of 8 keys or fewer no weight is dropped.

    Drop each weight with the same probability, however many there are.
    """

    def drop(self, weights):
        return weights if weights.shape[-1] <= 8 else super().drop(weights)
