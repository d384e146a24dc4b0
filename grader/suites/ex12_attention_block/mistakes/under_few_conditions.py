"""Wrong answers that show under a few conditions only."""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F

from grader.judging import mistake
from reference.blocks import (
    PlainFeedForward,
    plain_angles,
    plain_weights,
)
from reference.ex02_masking import plain_masked_softmax

from ..test_attention_block import (
    test_cross_manners,
    test_cross_precision,
    test_dropout,
    test_feed_forward,
    test_rope,
    test_self,
    test_self_manners,
    test_self_precision,
)
from .shared import Cross, Self, at_least_float32


@mistake(of="SelfAttention", caught_by=test_dropout)
class TurnedWithoutDropout(Self):
    """With RoPE no weights are dropped.

    Whatever turns q and k, the weights come out of one softmax: drop them behind it.
    """

    def drop(self, weights):
        return super().drop(weights) if self.rope_base is None else weights


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedBesideTheGraph(Self):
    """Gradients flow as if no weight had been dropped.

    Multiply the weights themselves by what F.dropout makes of ones, or use F.dropout on them.
    """

    def drop(self, weights):
        return weights + (super().drop(weights) - weights).detach()


@mistake(of="SelfAttention", caught_by=test_self_manners)
class ColumnTakenForARow(Self):
    """A mask (L, 1), which says what each query sees, is laid over the keys instead.

    Let `keep` broadcast to (B, H, L, L) as it is: its last axis is that of the keys, even if it
    has a size of 1.
    """

    def attend(self, q, k, v, keep):
        column = keep is not None and keep.ndim > 1 and keep.shape[-1] == 1
        return super().attend(q, k, v, keep.mT if column else keep)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class LargestOfNoKeys(Cross):
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
class DetachedOnItself(Cross):
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
class HiddenTextOfMinus1e20(Cross):
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
class WeightsOfManyKeysInHalf(Cross):
    """The weights of more than 4,096 keys are rounded to half precision, to save memory.

    Keep the weights in float32, whatever their number.
    """

    def attend(self, q, k, v, keep):
        if k.shape[1] <= 4096:
            return super().attend(q, k, v, keep)
        q, k, v = at_least_float32(q, self.split(k), self.split(v))
        return plain_weights(q, k, keep).half().to(q.dtype) @ v


@mistake(of="SelfAttention", caught_by=test_rope)
class TableOf8192(Self):
    """The table of angles ends at position 8191: what stands further out is turned as if it did.

    Compute the angles of as many tokens as there are in every call, or let the table grow.
    """

    def angles(self, x):
        places = torch.arange(x.shape[-2], device=x.device).clamp(max=8191)
        return super().angles(x)[..., places, :]


@mistake(of="SelfAttention", caught_by=test_self_manners)
class FusedBiasesRemembered(Self):
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
class AnglesOfTheFirstDtype(Self):
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
class FusedWithoutBiases(Self):
    """With `fused` the biases of q, k and v are left out.

    Give F.linear the biases as well, joined like the weights.
    """

    def joined(self, layers):
        return super().joined(layers)[0], None


@mistake(of="SelfAttention", caught_by=test_rope)
class AnglesOfHalfTheExponent(Self):
    """The exponent of the angles lacks its 2: base**(-i/D), and the angles fall too slowly.

    Pair i of a head of width D turns by p * base**(-2i/D).
    """

    def angles(self, x):
        return plain_angles(x, None if self.rope_base is None else self.rope_base**0.5)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class DoubleScoresClamped(Self):
    """In float64 scores are kept above -1e30: lower ones are all alike.

    Leave the scores as they are: softmax takes its maximum away first.
    """

    def attend(self, q, k, v, keep):
        if q.dtype != torch.float64:
            return super().attend(q, k, v, keep)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).clamp(min=-1e30)
        return self.drop(plain_masked_softmax(scores, keep)) @ v


@mistake(of="SelfAttention", caught_by=test_self_manners)
class HiddenPowersReplaced(Self):
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
class AnglesByWholeBases(Self):
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
class NoMaximumWithoutGradients(Self):
    """Where no gradients are needed exp is taken of the scores as they are: those of hundreds
    overflow.

    Take the maximum away first, with gradients or without.
    """

    def attend(self, q, k, v, keep):
        if torch.is_grad_enabled() or self.rope_base is None:
            return super().attend(q, k, v, keep)
        kind, (q, k, v) = q.dtype, at_least_float32(q, k, v)
        powers = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
        powers = powers if keep is None else powers * keep
        return (powers / powers.sum(-1, keepdim=True).clamp(min=1e-30) @ v).to(kind)


@mistake(of="SelfAttention", caught_by=test_self_manners)
class KeepsTheJoined(Self):
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
class FewKeysNotDropped(Self):
    """Of 8 keys or fewer no weight is dropped.

    Drop each weight with the same probability, however many there are.
    """

    def drop(self, weights):
        return weights if weights.shape[-1] <= 8 else super().drop(weights)


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedTwoByTwo(Self):
    """Neighbouring keys are dropped together: one number is drawn for two weights.

    Draw for each weight by itself: F.dropout does so.
    """

    def drop(self, weights):
        ones = torch.ones_like(weights[..., ::2])
        drawn = super().drop(ones).repeat_interleave(2, -1)
        return weights * drawn[..., : weights.shape[-1]]


@mistake(of="SelfAttention", caught_by=test_dropout)
class DroppedBothWays(Self):
    """Key j of query i is dropped where key i of query j is: one number is drawn for two weights.

    Draw for each weight by itself: F.dropout does so.
    """

    def drop(self, weights):
        drawn = super().drop(torch.ones_like(weights)).tril()
        return weights * (drawn + drawn.tril(-1).mT)


@mistake(of="SelfAttention", caught_by=test_self_precision)
class DoubleTinyWeightsLeftOut(Self):
    """In float64 weights below 1e-12 become 0, and the largest value counts for nothing then.

    Leave the weights as the softmax gives them.
    """

    def drop(self, weights):
        tiny = (weights < 1e-12) & (weights.dtype == torch.float64)
        return super().drop(weights.masked_fill(tiny, 0.0))


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class TinyWeightsOfTextLeftOut(Cross):
    """Weights below 1e-12 become 0, and the largest value counts for nothing then.

    Leave the weights as the softmax gives them.
    """

    def attend(self, q, k, v, keep):
        if q.dtype.itemsize == 2 or not k.shape[-2]:
            return super().attend(q, k, v, keep)
        weights = plain_weights(q, self.split(k), keep)
        return weights.masked_fill(weights < 1e-12, 0.0) @ self.split(v)
