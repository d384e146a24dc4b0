"""Wrong answers to `GroupedQueryAttention`."""

import torch
from torch import nn

from grader.judging import mistake

from ..steps import (
    Layer,
    attended,
)
from ..test_mqa_gqa import (
    test_layer,
    test_manners,
    test_precision,
    test_step,
)
from .grouped_query_attention import mean_of_the_values
from .shared import in_a_row


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class KeyHeadsTiled(Layer):
    """Query head h reads key/value head h % Hk, as if the heads were tiled.

    Groups are consecutive: head h reads head h // (H // Hk). Use repeat_interleave, not repeat.
    """

    def attend(self, q, k, v, keep):
        return attended(q, k, v, keep, keys=in_a_row, values=in_a_row)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class FullWidthKeys(Layer):
    """w_k and w_v are as wide as w_q, so that nothing is saved.

    They map d_model to num_kv_heads * D, with D = d_model // num_heads.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads, bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class OtherNames(Layer):
    """The projections have other names than w_q, w_k, w_v and w_o, so weights cannot be loaded.

    Name them self.w_q, self.w_k, self.w_v and self.w_o.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads, bias)
        for new, old in zip("qkvo", ("w_q", "w_k", "w_v", "w_o"), strict=True):
            setattr(self, f"{new}_proj", self._modules.pop(old))


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class WidthDividedByKeyHeads(Layer):
    """w_k and w_v have the width d_model // num_kv_heads: fewer heads make them wider.

    Each of their num_kv_heads heads is D = d_model // num_heads wide: num_kv_heads * D in all.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads, bias)
        self.w_k = nn.Linear(d_model, d_model // num_kv_heads, bias=bias)
        self.w_v = nn.Linear(d_model, d_model // num_kv_heads, bias=bias)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class SplitWithoutTranspose(Layer):
    """The width is cut into heads by a reshape alone, so that a head is made of wrong tokens.

    Split the last axis into (heads, D), then transpose heads and length.
    """

    def split(self, x, heads):
        return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class HeadsInnermost(Layer):
    """The width is split as (D, heads) instead of (heads, D).

    A head is D neighbouring numbers: unflatten the last axis into (heads, D).
    """

    def split(self, x, heads):
        return x.unflatten(-1, (-1, heads)).movedim(-1, -3)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class MergeWithoutTranspose(Layer):
    """The heads are merged by a reshape alone, so that tokens and heads get mixed up.

    Transpose heads and length back first, then flatten (H, D) into E.
    """

    def combine(self, x):
        return self.w_o(x.reshape(*x.shape[:-3], x.shape[-2], -1))


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class NoTranspose(SplitWithoutTranspose, MergeWithoutTranspose):
    """Heads are split and merged by reshapes alone: tokens and heads get mixed up.

    A reshape moves no number. Split into (L, heads, D), then transpose; transpose back to merge.
    """


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class OneProjectionTwice(Layer):
    """Keys and values come from the same projection.

    Keys are w_k(x), values are w_v(x).
    """

    def project(self, x):
        q, k, _ = super().project(x)
        return q, k, k


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class OutputProjectionForgotten(Layer):
    """The merged heads are returned without the output projection.

    Finish with self.w_o(...).
    """

    def combine(self, x):
        return x.transpose(-3, -2).flatten(-2)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class BiasIgnored(Layer):
    """`bias` is ignored: the projections never have one.

    Hand bias=bias to all four nn.Linear.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class BiasByDefault(Layer):
    """The projections have a bias where none is asked for.

    Give bias the default False, and hand bias=bias to all four nn.Linear.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=True):
        super().__init__(d_model, num_heads, num_kv_heads, bias)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class MaskNotPassedOn(Layer):
    """`keep` does not reach the attention.

    Hand keep on to grouped_query_attention.
    """

    def forward(self, x, keep=None):
        return super().forward(x)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class WeightsCutFromTheGraph(Layer):
    """The weights of the key projection are detached, so that w_k never learns.

    Call self.w_k(x), without .data and without detach.
    """

    def project(self, x):
        q, _, v = super().project(x)
        bias = None if self.w_k.bias is None else self.w_k.bias.detach()
        k = nn.functional.linear(x, self.w_k.weight.detach(), bias)
        return q, self.split(k, self.num_kv_heads), v


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class AlwaysCausal(Layer):
    """forward hides the tokens that come later, although nobody asked for it.

    In forward only `keep` hides. It is step that is causal.
    """

    def forward(self, x, keep=None):
        causal = self.causal(x.shape[-2], x.shape[-2]).to(x.device)
        return super().forward(x, causal if keep is None else causal & keep)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepLooksAhead(Layer):
    """Within a step a token sees those that come after it.

    step is causal: new token i sees the past and the first i + 1 of the new tokens.
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class CausalFromTopLeft(Layer):
    """The causal mask starts at the first key of the past: a new token 0 sees key 0 alone.

    New token i stands at position n + i: use .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).tril()


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class OneKeyTooMany(Layer):
    """Each new token sees the token after it, too: the triangle is off by one.

    The last row of the mask sees everything: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len + 1)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class DiagonalHidden(Layer):
    """A new token does not see itself: the triangle is off by one.

    The last row of the mask sees everything: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len - 1)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepLooksAheadOnly(Layer):
    """Within a step a token sees itself and those that come after it, and nothing before it.

    The upper triangle is kept where the lower one is meant: .tril(k_len - q_len), not triu.
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).triu(k_len - q_len)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class CausalMaskInverted(Layer):
    """The causal mask is the wrong way round: a new token sees only those that come after it.

    True = may attend: the mask is .tril(k_len - q_len), and .triu(k_len - q_len + 1) is what is
    hidden.
    """

    def causal(self, q_len, k_len):
        return ~super().causal(q_len, k_len)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class UpperTriangleFromTopLeft(Layer):
    """The upper triangle is kept, from the first key of the past on: new token i sees key i and
    what follows it.

    New token i stands at position n + i, and sees what comes before: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).triu()


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class InvertedFromTopLeft(Layer):
    """What a causal mask without a past would hide is kept, .triu(1), and the rest is hidden.

    True = may attend, and new token i stands at position n + i: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).triu(1)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastNotUsed(Layer):
    """The past is stored but not looked at: a step attends to its own tokens only.

    Join the past and the new keys and values first, then attend to all of them.
    """

    def look(self, joined, new):
        return new


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastRepeated(Layer):
    """The past holds a copy for every query head, which is the memory that sharing should save.

    Store keys and values with Hk heads, and share them only inside the attention.
    """

    def step(self, x, past=None):
        n = self.num_heads // self.num_kv_heads
        if past is not None:
            past = past[0][..., ::n, :, :], past[1][..., ::n, :, :]
        output, (k, v) = super().step(x, past)
        return output, (k.repeat_interleave(n, -3), v.repeat_interleave(n, -3))


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class NewKeysFirst(Layer):
    """The new keys and values are put before the past.

    Put them behind it: torch.cat([past[0], k], dim=-2).
    """

    def extend(self, past, k, v):
        if past is None:
            return k, v
        return torch.cat([k, past[0]], -2), torch.cat([v, past[1]], -2)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class OnlyNewKeysReturned(Layer):
    """The past that comes back holds the new keys and values only.

    Return everything so far: (B, Hk, n + t, D).
    """

    def store(self, joined, new):
        return tuple(new)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class JoinedAlongTheHeads(Layer):
    """Past and new keys are joined along the heads instead of the length.

    The length is dimension -2: torch.cat([past[0], k], dim=-2).
    """

    def extend(self, past, k, v):
        if past is None:
            return k, v
        return torch.cat([past[0], k], -3), torch.cat([past[1], v], -3)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class KeysStoredAsValues(Layer):
    """The second half of the past holds the keys once more instead of the values.

    The past is (keys, values), each joined with its own kind.
    """

    def store(self, joined, new):
        return joined[0], joined[0]


@mistake(of="GroupedQueryAttention", caught_by=test_precision)
class PastInFloat32(Layer):
    """The past is kept in float32 whatever the dtype of the tokens.

    Return keys and values in the dtype in which they were computed.
    """

    def step(self, x, past=None):
        if past is not None:
            past = past[0].to(x.dtype), past[1].to(x.dtype)
        output, (k, v) = super().step(x, past)
        return output, (k.float(), v.float())


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastOverwritten(Layer):
    """The past that was handed in is changed, so that it cannot be continued twice.

    Join the past and the new keys into a new tensor with torch.cat.
    """

    def extend(self, past, k, v):
        joined = super().extend(past, k, v)
        for old in past or ():
            old.zero_()
        return joined


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastKeptInTheLayer(Layer):
    """The layer remembers the last past itself, so that two texts get into each other.

    Use the past that is handed in, and return the new one. Keep nothing in self.
    """

    remembered = None

    def step(self, x, past=None):
        output, self.remembered = super().step(x, self.remembered if past is not None else None)
        return output, self.remembered


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepWithoutGraph(Layer):
    """No gradient flows through step: it stands under torch.no_grad().

    Leave it to the caller whether gradients are wanted.
    """

    def step(self, x, past=None):
        with torch.no_grad():
            return super().step(x, past)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastDetached(Layer):
    """The keys and values of the past are detached, so that no gradient reaches earlier tokens.

    Join past and new keys as they are.
    """

    def extend(self, past, k, v):
        return super().extend(past and tuple(x.detach() for x in past), k, v)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class ReturnedPastDetached(Layer):
    """The keys and values that step returns are detached: no gradient goes from step to step.

    Return them as they are.
    """

    def store(self, joined, new):
        return tuple(x.detach() for x in super().store(joined, new))


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepWithoutBias(Layer):
    """step leaves out the biases of the keys.

    Project as forward does: self.w_k(x).
    """

    def step(self, x, past=None):
        bias, self.w_k.bias = self.w_k.bias, None
        result = super().step(x, past)
        self.w_k.bias = bias
        return result


@mistake(of="GroupedQueryAttention", caught_by=test_precision)
class PastOfHalfInFloat32(Layer):
    """In half precision the past is kept in float32.

    Return keys and values in the dtype in which they were computed.
    """

    def step(self, x, past=None):
        past = past and tuple(y.to(x.dtype) for y in past)
        output, (k, v) = super().step(x, past)
        return output, (k, v) if k.dtype == torch.float64 else (k.float(), v.float())


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class GraphCutUnlessFloat64(Layer):
    """The input is detached unless it is in float64, so that nothing below the layer learns.

    Use x as it comes, without detach, .data or NumPy.
    """

    def forward(self, x, keep=None):
        return super().forward(x if x.dtype == torch.float64 else x.detach(), keep)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class WeightsCutInFloat32(Layer):
    """In float32 the weights of the value projection are detached, so that w_v never learns.

    Call self.w_v(x), without .data and without detach.
    """

    def project(self, x):
        q, k, v = super().project(x)
        return q, k, v if x.dtype == torch.float64 else self._cut(x)

    def _cut(self, x):
        bias = None if self.w_v.bias is None else self.w_v.bias.detach()
        return self.split(
            nn.functional.linear(x, self.w_v.weight.detach(), bias), self.num_kv_heads
        )


@mistake(of="GroupedQueryAttention", caught_by=test_manners)
class UnevenHeadsAccepted(Layer):
    """The constructor accepts heads that do not divide evenly.

    Raise a ValueError with both numbers if d_model % num_heads or num_heads % num_kv_heads.
    """

    def check(self, d_model, num_heads, num_kv_heads):
        pass


@mistake(of="GroupedQueryAttention", caught_by=test_layer, null=True)
class LinearOnly(Layer):
    """The layer projects, but there is no attention between the projections.

    Attend with the queries to the keys, and mix the values.
    """

    def attend(self, q, k, v, keep):
        return q


@mistake(of="GroupedQueryAttention", caught_by=test_layer, null=True)
class MeanOfTheValues(Layer):
    """Every token gets the mean of the values.

    The weights depend on the scores of the query with each key.
    """

    def attend(self, q, k, v, keep):
        return mean_of_the_values(q, k, v)
