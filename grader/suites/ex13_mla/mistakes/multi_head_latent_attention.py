"""Wrong answers to `MultiHeadLatentAttention`."""

import torch

from grader.judging import mistake
from reference.mla import PlainMultiHeadLatentAttention, plain_rope

from ..test_mla import (
    test_absorbed,
    test_absorbed_with_cache,
    test_cache_contents,
    test_empty,
    test_far,
    test_float64,
    test_half_precision,
    test_manners,
    test_parameters,
    test_values,
    test_with_cache,
)
from .shared import OF, Layer, absorbed_with


def _even(x):
    """So many places of x as make pairs, and the one that may be left."""
    return x[..., : x.shape[-1] // 2 * 2], x[..., x.shape[-1] // 2 * 2 :]


def with_bias(layer):
    """A new nn.Linear of the same widths, with a bias."""
    return torch.nn.Linear(layer.in_features, layer.out_features)


# The rotation


@mistake(of=OF, caught_by=test_values)
class PairedWithTheOtherHalf(Layer):
    """RoPE pairs place i with place i + rope_dim / 2, as code with a `rotate_half` does.

    Here the pairs are interleaved: places 2i and 2i + 1, x[..., 0::2] and x[..., 1::2].
    """

    def rotate(self, x, start):
        order = torch.arange(x.shape[-1], device=x.device).reshape(2, -1).mT.flatten()
        return super().rotate(x[..., order], start)[..., order.argsort()]


@mistake(of=OF, caught_by=test_values)
class TurnedTheOtherWay(Layer):
    """RoPE turns by minus the angle: a sign is the wrong way round.

    (a, b) becomes (a cos - b sin, a sin + b cos): the minus stands in the first.
    """

    def rotate(self, x, start):
        swapped = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        turned = super().rotate(swapped, start)
        return turned.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


@mistake(of=OF, caught_by=test_values)
class AnglesFallTooSlowly(Layer):
    """The exponent of the angles is -i / d where -2i / d is meant: they fall off too slowly.

    Pair i turns by position * base ** (-2i / rope_dim): take torch.arange(0, rope_dim, 2).
    """

    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.base **= 0.5


@mistake(of=OF, caught_by=test_values)
class NothingRotated(Layer):
    """There is no RoPE: neither queries nor keys know where they stand.

    Rotate the rope_dim places of each query and of the shared key by their positions.
    """

    def rotate(self, x, start):
        return x


@mistake(of=OF, caught_by=test_values)
class ValuesRotated(Layer):
    """The values are rotated too.

    RoPE is for queries and keys: values are mixed as they are.
    """

    def naive(self, q_nope, q_rope, latents, k_ropes):
        w_k, w_v = self.expansion()
        turned, rest = _even(latents[:, None] @ w_v.mT)
        v = torch.cat([self.rotate(turned, 0), rest], -1)
        scores = self.up(q_nope) @ (latents[:, None] @ w_k.mT).mT
        return self.weights(scores + self.up(q_rope) @ k_ropes[:, None].mT) @ v


@mistake(of=OF, caught_by=test_float64)
class AnglesInFloat32(Layer):
    """The angles are computed in float32 for a layer in float64, whose digits are then gone.

    Make positions and exponents in the dtype of x, and in float32 for half precision only.
    """

    def rotate(self, x, start):
        positions = torch.arange(start, start + x.shape[-2], device=x.device)
        ones = torch.ones(x.shape[-2], x.shape[-1] // 2, device=x.device)
        pairs = torch.stack([ones, 0 * ones], -1).flatten(-2)
        cos_sin = plain_rope(pairs, positions, self.base).to(self.up(x).dtype)
        a, b = self.up(x)[..., 0::2], self.up(x)[..., 1::2]
        cos, sin = cos_sin[..., 0::2], cos_sin[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


@mistake(of=OF, caught_by=test_half_precision)
class AnglesInHalfPrecision(Layer):
    """The angles are computed in half precision, where distant positions are rounded away.

    Compute positions, angles, cosines and sines in float32, and round only the rotated numbers.
    """

    def rotate(self, x, start):
        positions = torch.arange(start, start + x.shape[-2], device=x.device).to(x.dtype)
        places = torch.arange(0, x.shape[-1], 2, device=x.device).to(x.dtype)
        angles = positions[:, None] * self.base ** (-places / x.shape[-1])
        a, b, cos, sin = x[..., 0::2], x[..., 1::2], angles.cos(), angles.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@mistake(of=OF, caught_by=test_half_precision)
class StepPositionInHalfPrecision(Layer):
    """The position of a single new token is a number of the dtype of x, which rounds distant ones.

    Count positions in whole numbers, and compute the angles in float32.
    """

    def rotate(self, x, start):
        alone = x.shape[-2] == 1
        return super().rotate(x, int(torch.tensor(start).to(x.dtype)) if alone else start)


@mistake(of=OF, caught_by=test_half_precision)
class RatesInHalfPrecision(Layer):
    """The rates of RoPE are rounded to half precision: far out, their errors add up to whole turns.

    Compute base ** (-2i / rope_dim) in float32, and keep no table that `module.to` would round.
    """

    def rotate(self, x, start):
        wide = self.up(x)
        positions = torch.arange(start, start + x.shape[-2], dtype=wide.dtype, device=x.device)
        places = torch.arange(0, x.shape[-1], 2, dtype=wide.dtype, device=x.device)
        rates = (self.base ** (-places / x.shape[-1])).to(x.dtype).to(wide.dtype)
        angles = positions[:, None] * rates
        a, b, cos, sin = wide[..., 0::2], wide[..., 1::2], angles.cos(), angles.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


@mistake(of=OF, caught_by=test_far)
class TableTooShort(Layer):
    """The table of angles ends at position 2047: what stands further out is turned as if it did.

    Compute the angles of the positions that are asked for, or let the table grow.
    """

    def rotate(self, x, start):
        positions = torch.arange(start, start + x.shape[-2], device=x.device).clamp(max=2047)
        return plain_rope(self.up(x), positions, self.base).to(x.dtype)


@mistake(of=OF, caught_by=test_values)
class TableOf1024(Layer):
    """The table of angles ends at position 1023: what stands further out is turned as if it did.

    Compute the angles of the positions that are asked for, or let the table grow.
    """

    def rotate(self, x, start):
        positions = torch.arange(start, start + x.shape[-2], device=x.device).clamp(max=1023)
        return plain_rope(self.up(x), positions, self.base).to(x.dtype)


@mistake(of=OF, caught_by=test_values)
class BaseOfAnotherModel(Layer):
    """With a q_rank the base of the angles is 10000, whatever rope_base says.

    Use rope_base for all layers, with a q_rank and without.
    """

    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        if self.q_rank is not None:
            self.base = 10000.0


@mistake(of=OF, caught_by=test_manners)
class PairsSeenAsComplex(Layer):
    """Pairs are seen as complex numbers where they lie: this fails for one token and an odd rank.

    There .contiguous() copies nothing, and a pair begins at an odd place of memory: copy with
    .clone(), or take the pairs as x[..., 0::2] and x[..., 1::2].
    """

    def rotate(self, x, start):
        pairs = torch.view_as_complex(self.up(x).contiguous().unflatten(-1, (-1, 2)))
        one = torch.view_as_real(torch.ones_like(pairs)).flatten(-2)
        turns = torch.view_as_complex(super().rotate(one, start).unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


# The scale


@mistake(of=OF, caught_by=test_values)
class ScaleOfTheValue(Layer):
    """The scores are divided by the root of value_dim.

    A score is a dot product over nope_dim + rope_dim places: divide by the root of these.
    """

    def scale(self):
        return self.value**-0.5


@mistake(of=OF, caught_by=test_values)
class ScaleOfTheNopePart(Layer):
    """The scores are divided by the root of nope_dim alone.

    The rotated places belong to the key too: divide by math.sqrt(nope_dim + rope_dim).
    """

    def scale(self):
        return self.nope**-0.5


@mistake(of=OF, caught_by=test_values)
class ScaleOnePerCentOff(Layer):
    """The scale is not quite 1 / sqrt(nope_dim + rope_dim).

    Use math.sqrt itself: no constant added to it, no rounded number.
    """

    def scale(self):
        return 0.99 * super().scale()


@mistake(of=OF, caught_by=test_absorbed)
class AbsorbedScaleOfTheRank(Layer):
    """With absorbed=True the scores are divided by the root of the widths that meet there.

    The scores are the same numbers both ways, so the scale is too: of nope_dim + rope_dim.
    """

    def absorbed(self, *parts):
        return absorbed_with(self, parts, *self.expansion(), (self.kv_rank + self.rope) ** -0.5)


# The norms


@mistake(of=OF, caught_by=test_values)
class LatentNotNormalised(Layer):
    """The latent is not normalised.

    kv_a_layernorm comes between kv_a_proj_with_mqa and kv_b_proj.
    """

    def norm(self, layer, x):
        return x if layer is self.kv_a_layernorm else super().norm(layer, x)


@mistake(of=OF, caught_by=test_values)
class LatentNormalisedTwice(Layer):
    """The latent is normalised twice: before it is cached, and again when it is used.

    Normalise the new tokens' latents once, and use what is in the cache as it is.
    """

    def remember(self, latent, k_rope, cache):
        latents, k_ropes = super().remember(latent, k_rope, cache)
        return self.norm(self.kv_a_layernorm, latents), k_ropes


@mistake(of=OF, caught_by=test_values)
class QueryNotNormalised(Layer):
    """With a q_rank, q_a_layernorm is left out.

    q_b_proj(q_a_layernorm(q_a_proj(x))): three steps, the norm in the middle.
    """

    def norm(self, layer, x):
        return super().norm(layer, x) if layer is self.kv_a_layernorm else x


@mistake(of=OF, caught_by=test_values)
class MeanSubtracted(Layer):
    """The norm subtracts the mean: that is a LayerNorm.

    RMSNorm divides by the root of the mean of squares, and subtracts nothing.
    """

    def norm(self, layer, x):
        return super().norm(layer, x - x.mean(-1, keepdim=True))


@mistake(of=OF, caught_by=test_values)
class EpsilonOfAnotherModel(Layer):
    """The norms add another number than 1e-6 to the mean of squares.

    The epsilon is 1e-6, inside the root: sqrt(mean(x**2) + 1e-6).
    """

    def norm(self, layer, x):
        wide = self.up(x)
        size = torch.sqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return (layer.weight * wide / size).to(x.dtype)


@mistake(of=OF, caught_by=test_half_precision)
class NormInHalfPrecision(Layer):
    """The mean of squares is computed in half precision, where the square of 300 is infinity.

    Convert to float32 for the norm, and back when it is done.
    """

    def norm(self, layer, x):
        return layer(x)


# Layouts


@mistake(of=OF, caught_by=test_values)
class AllKeysThenAllValues(Layer):
    """kv_b_proj is cut into all keys and all values, and these into heads.

    It is laid out by heads: reshape to (num_heads, nope_dim + value_dim) first, then split.
    """

    def expansion(self):
        weight = self.up(self.kv_b_proj.weight)
        w_k, w_v = weight.split([self.heads * self.nope, self.heads * self.value])
        return w_k.unflatten(0, (self.heads, -1)), w_v.unflatten(0, (self.heads, -1))


@mistake(of=OF, caught_by=test_values)
class NaiveAllKeysThenAllValues(AllKeysThenAllValues):
    """With absorbed=False kv_b_proj is cut into all keys and all values, and these into heads.

    It is laid out by heads: reshape to (num_heads, nope_dim + value_dim) first, then split.
    """

    def absorbed(self, *parts):
        return absorbed_with(self, parts, *Layer.expansion(self))


@mistake(of=OF, caught_by=test_values)
class ValueBeforeKey(Layer):
    """In each head of kv_b_proj the value is taken from the front.

    Of each head the key comes first, nope_dim places, then the value.
    """

    def expansion(self):
        weight = torch.cat(super().expansion(), 1)
        return weight[:, self.value :], weight[:, : self.value]


@mistake(of=OF, caught_by=test_values)
class RotaryKeyFromTheFront(Layer):
    """The rotary key is taken from the front of kv_a_proj_with_mqa.

    The first kv_rank numbers are the latent, the last rope_dim the key.
    """

    def compress(self, x):
        both = self.kv_a_proj_with_mqa(x)
        return self.norm(self.kv_a_layernorm, both[..., self.rope :]), both[..., : self.rope]


@mistake(of=OF, caught_by=test_values)
class RotatedPlacesFirst(Layer):
    """The rotated places of a query are taken from its front.

    A head's query is nope_dim places, then rope_dim places.
    """

    def parts_of_queries(self, q):
        whole = torch.cat(super().parts_of_queries(q), -1)
        return whole[..., self.rope :], whole[..., : self.rope]


# Scores and masks


@mistake(of=OF, caught_by=test_values)
class NotCausal(Layer):
    """Nothing is hidden: a token sees those that come after it.

    With n tokens in all, query i of t sees the keys 0 to i + n - t.
    """

    def keep(self, t, n):
        return torch.ones(t, n, dtype=torch.bool)


@mistake(of=OF, caught_by=test_absorbed)
class AbsorbedWithoutTheRotaryTerm(Layer):
    """With absorbed=True the scores have no rotary term.

    Add q_rope @ k_rope^T to the product of absorbed queries and latents.
    """

    def absorbed(self, q_nope, q_rope, latents, k_ropes):
        return super().absorbed(q_nope, 0 * q_rope, latents, k_ropes)


@mistake(of=OF, caught_by=test_absorbed)
class AbsorbedValueOfTheKey(Layer):
    """With absorbed=True the output goes through the key's matrix where the two are as wide.

    The value's matrix, the last value_dim rows of each head of kv_b_proj, makes the output.
    """

    def absorbed(self, *parts):
        w_k, w_v = self.expansion()
        return absorbed_with(self, parts, w_k, w_k if w_k.shape == w_v.shape else w_v)


@mistake(of=OF, caught_by=test_absorbed)
class AbsorbedNotCausal(Layer):
    """With absorbed=True nothing is hidden, which is right for a single new token only.

    Mask as on the naive way: query i of t sees the keys 0 to i + n - t.
    """

    def absorbed(self, q_nope, q_rope, *past):
        rows = zip(q_nope.split(1, 2), q_rope.split(1, 2), strict=True)
        return torch.cat([absorbed_with(self, (*row, *past), *self.expansion()) for row in rows], 2)


@mistake(of=OF, caught_by=test_manners)
class HiddenWithAFiniteNumber(Layer):
    """-1e9 is added to the scores of later tokens, which is not enough if those are large.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """

    def weights(self, scores):
        keep = self.keep(*scores.shape[-2:]).to(scores.device)
        bias = torch.zeros_like(scores).masked_fill(~keep, -1e9)
        return torch.softmax(scores * self.scale() + bias, -1)


@mistake(of=OF, caught_by=test_manners)
class HiddenWithMinusTenThousand(Layer):
    """-1e4 is put in the place of the scores of later tokens, and others may be lower still.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """

    def weights(self, scores):
        keep = self.keep(*scores.shape[-2:]).to(scores.device)
        return torch.softmax((scores * self.scale()).masked_fill(~keep, -1e4), -1)


@mistake(of=OF, caught_by=test_manners)
class ExpWithoutTheMaximum(Layer):
    """The softmax takes exp of the scores as they are, and exp(100) is infinity in float32.

    Subtract the largest score of each row first, or call torch.softmax.
    """

    def weights(self, scores):
        keep = self.keep(*scores.shape[-2:]).to(scores.device)
        powers = torch.exp((scores * self.scale()).masked_fill(~keep, -torch.inf))
        return powers / powers.sum(-1, keepdim=True)


@mistake(of=OF, caught_by=test_values)
class MaskOf256(Layer):
    """The causal mask is a table for 256 tokens.

    Make the mask from the numbers of queries and keys, or let the table grow.
    """

    def keep(self, t, n):
        return torch.ones(256, 256, dtype=torch.bool).tril()[n - t : n, :n]


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedIgnored(Layer):
    """absorbed=True makes keys and values of every head all the same.

    Multiply the query by the key matrix and attend to the latents: keys are never made.
    """

    def absorbed(self, *parts):
        return self.naive(*parts)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedValuesExpanded(Layer):
    """With absorbed=True keys are never made, but the values of all tokens are.

    Mix the latents, and put the value matrix into the one vector that comes out.
    """

    def absorbed(self, q_nope, q_rope, latents, k_ropes):
        w_k, w_v = self.expansion()
        scores = self.up(q_nope) @ w_k @ latents[:, None].mT
        weights = self.weights(scores + self.up(q_rope) @ k_ropes[:, None].mT)
        return weights @ (latents[:, None] @ w_v.mT)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedForOneTokenOnly(Layer):
    """absorbed=True is heard for a single new token only; with more, keys and values are made.

    Go the absorbed way for any number of new tokens: they need a mask, and nothing else.
    """

    def forward(self, x, cache=None, absorbed=False):
        return super().forward(x, cache, absorbed and x.shape[1] == 1)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedWithACacheOnly(Layer):
    """absorbed=True is heard with a cache only; without one, keys and values are made.

    Go the absorbed way wherever the latents come from.
    """

    def forward(self, x, cache=None, absorbed=False):
        return super().forward(x, cache, absorbed and cache is not None)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedNotInPrefill(Layer):
    """absorbed=True is not heard while the cache is empty: keys and values of a prefill are made.

    Go the absorbed way whatever is in the cache, be it nothing.
    """

    def forward(self, x, cache=None, absorbed=False):
        empty = cache is not None and not cache.length
        return super().forward(x, cache, absorbed and not empty)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedForFewTokensOnly(Layer):
    """With a cache absorbed=True is heard for one or two new tokens; with more, keys are made.

    Go the absorbed way for any number of new tokens: they need a mask, and nothing else.
    """

    def forward(self, x, cache=None, absorbed=False):
        return super().forward(x, cache, absorbed and (cache is None or x.shape[1] <= 2))


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedValuesExpandedInPrefill(Layer):
    """With absorbed=True keys are never made, but the values are where no token came before.

    Mix the latents of a prefill too, and put the value matrix into what comes out.
    """

    def absorbed(self, q_nope, q_rope, latents, k_ropes):
        w_k, w_v = self.expansion()
        if q_nope.shape[2] < latents.shape[1]:
            return super().absorbed(q_nope, q_rope, latents, k_ropes)
        scores = self.up(q_nope) @ w_k @ latents[:, None].mT
        weights = self.weights(scores + self.up(q_rope) @ k_ropes[:, None].mT)
        return weights @ (latents[:, None] @ w_v.mT)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedExpandedToScale(Layer):
    """absorbed=True makes keys and values all the same, if divided by their largest weight.

    Multiply the query by the key matrix and attend to the latents: keys of no size are made.
    """

    def absorbed(self, q_nope, q_rope, latents, k_ropes):
        w_k, w_v = self.expansion()
        most_k, most_v = (w.abs().amax(-1) for w in (w_k, w_v))  # (H, nope), (H, value)
        k = latents[:, None] @ (w_k / most_k[..., None]).mT
        v = latents[:, None] @ (w_v / most_v[..., None]).mT
        scores = (self.up(q_nope) * most_k[:, None]) @ k.mT
        weights = self.weights(scores + self.up(q_rope) @ k_ropes[:, None].mT)
        return weights @ v * most_v[:, None]


# With a cache


@mistake(of=OF, caught_by=test_with_cache)
class PositionsRestart(Layer):
    """The positions begin at 0 in every call, whatever is in the cache.

    The first token of x stands at position cache.length.
    """

    def start(self, cache):
        return 0


@mistake(of=OF, caught_by=test_with_cache)
class StepAtZero(Layer):
    """A single new token stands at position 0, whatever is in the cache.

    It stands at position cache.length, as the first of many would.
    """

    def forward(self, x, cache=None, absorbed=False):
        self.alone = x.shape[1] == 1
        return super().forward(x, cache, absorbed)

    def start(self, cache):
        return 0 if self.alone else super().start(cache)


@mistake(of=OF, caught_by=test_with_cache)
class QueriesAtZero(Layer):
    """The queries are rotated from position 0 on in every call; the keys are at their places.

    Query and key of one token stand at one position: the first at cache.length.
    """

    def rotate(self, x, start):
        return super().rotate(x, 0)

    def rotate_key(self, x, start):
        return super().rotate(x, start)


@mistake(of=OF, caught_by=test_with_cache)
class KeysAtZero(Layer):
    """The keys are rotated from position 0 on in every call; the queries are at their places.

    Query and key of one token stand at one position: the first at cache.length.
    """

    def rotate_key(self, x, start):
        return super().rotate(x, 0)


@mistake(of=OF, caught_by=test_with_cache)
class KeysRotatedTwice(Layer):
    """The keys that come out of the cache are rotated again.

    They were rotated when they went in. A key's position never changes.
    """

    def remember(self, latent, k_rope, cache):
        latents, k_ropes = super().remember(latent, k_rope, cache)
        return latents, k_ropes if cache is None else self.rotate(k_ropes, 0)


@mistake(of=OF, caught_by=test_with_cache)
class CacheNotRead(Layer):
    """With a cache, too, the tokens attend to those of this call alone.

    Append them, and go on with what append returns.
    """

    def remember(self, latent, k_rope, cache):
        super().remember(latent, k_rope, cache)
        return latent, k_rope


@mistake(of=OF, caught_by=test_with_cache)
class TopLeft(Layer):
    """The causal triangle starts at the first key, as if the new tokens were the first of the text.

    Query i sits at position i + n - t: move the diagonal, tril(n - t).
    """

    def keep(self, t, n):
        return torch.ones(t, n, dtype=torch.bool).tril()


@mistake(of=OF, caught_by=test_with_cache)
class OneTextInTheLayer(Layer):
    """The layer keeps the latents itself, so a second text goes on where the first one ended.

    All that outlives a call belongs into the cache that the caller hands in.
    """

    def remember(self, latent, k_rope, cache):
        if cache is None:
            return latent, k_rope
        cache.append(latent, k_rope)
        old = getattr(self, "kept", (latent[:, :0], k_rope[:, :0]))
        self.kept = tuple(torch.cat(x, 1) for x in zip(old, (latent, k_rope), strict=True))
        return self.kept


@mistake(of=OF, caught_by=test_manners)
class CountedThoughRefused(Layer):
    """The layer counts the tokens of a cache, also those of a call that the cache refused.

    Ask cache.length for the position at every call.
    """

    def start(self, cache):
        self.counts = getattr(self, "counts", {})
        counted = self.counts.get(id(cache), 0)
        return max(cache.length, counted) if cache is not None and cache.length else 0

    def remember(self, latent, k_rope, cache):
        self.counts[id(cache)] = self.start(cache) + latent.shape[1]
        return super().remember(latent, k_rope, cache)


@mistake(of=OF, caught_by=test_cache_contents)
class LengthRemembered(Layer):
    """The layer remembers how many tokens it put into each cache, and not what others put there.

    Ask cache.length for the position at every call.
    """

    def start(self, cache):
        if cache is None:
            return 0
        self.lengths = getattr(self, "lengths", {})
        return self.lengths.get(id(cache), 0) if cache.length else 0

    def remember(self, latent, k_rope, cache):
        start = self.start(cache)
        if cache is not None:
            self.lengths[id(cache)] = start + latent.shape[1]
        return super().remember(latent, k_rope, cache)


@mistake(of=OF, caught_by=test_with_cache)
class CacheInEvalOnly(Layer):
    """In training mode the cache is left as it was.

    A cache that is handed in is used in .train() as in .eval().
    """

    def remember(self, latent, k_rope, cache):
        return super().remember(latent, k_rope, None if self.training else cache)


@mistake(of=OF, caught_by=test_manners)
class AbsorbedWeightsKept(Layer):
    """In .eval() the parts of kv_b_proj are kept from the first call on, while the weights change.

    Take them from kv_b_proj.weight at every call: unflatten and split copy nothing.
    """

    def expansion(self):
        if self.training:
            return super().expansion()
        if not hasattr(self, "parts"):
            self.parts = tuple(part.clone() for part in super().expansion())
        return self.parts


@mistake(of=OF, caught_by=test_manners)
class OutputKept(Layer):
    """The output for a tensor is kept, and given again when that tensor has other numbers.

    Compute the output at every call.
    """

    last = None, None

    def forward(self, x, cache=None, absorbed=False):
        if self.last[0] is not x or cache is not None:
            self.last = x, super().forward(x, cache, absorbed)
        return self.last[1]


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedCacheNotRead(Layer):
    """With absorbed=True the tokens attend to those of this call alone.

    Attend to all latents and rotary keys that append returns.
    """

    def absorbed(self, q_nope, q_rope, latents, k_ropes):
        t = q_nope.shape[2]
        return super().absorbed(q_nope, q_rope, latents[:, -t:], k_ropes[:, -t:])


@mistake(of=OF, caught_by=test_cache_contents)
class RawLatentCached(Layer):
    """The latent is cached as it was projected, and normalised at every step.

    Normalise it once, before it is cached: what is cached needs no more work.
    """

    def compress(self, x):
        both = self.kv_a_proj_with_mqa(x)
        return both[..., : self.kv_rank], both[..., self.kv_rank :]

    def remember(self, latent, k_rope, cache):
        latents, k_ropes = super().remember(latent, k_rope, cache)
        return self.norm(self.kv_a_layernorm, latents), k_ropes


@mistake(of=OF, caught_by=test_cache_contents)
class KeyCachedUnrotated(Layer):
    """The keys are cached as they were projected, and all rotated at every step.

    Rotate each key once, by its own position, before it is cached.
    """

    def rotate_key(self, x, start):
        return x

    def remember(self, latent, k_rope, cache):
        latents, k_ropes = super().remember(latent, k_rope, cache)
        return latents, self.rotate(k_ropes, 0)


@mistake(of=OF, caught_by=test_cache_contents)
class ExpandedKeysKept(Layer):
    """The expanded keys are kept beside the latents, so that the cache is as large as ever.

    A cache keeps latents and rotary keys. Who wants to spare the expansion goes the absorbed way.
    """

    def remember(self, latent, k_rope, cache):
        latents, k_ropes = super().remember(latent, k_rope, cache)
        if cache is not None:
            keys = self.up(latent)[:, None] @ self.expansion()[0].mT  # (B, H, t, nope)
            room = keys.new_zeros(*keys.shape[:2], cache.latents.shape[1], self.nope)
            kept = room if latents.shape[1] == latent.shape[1] else cache.keys
            kept[:, :, latents.shape[1] - latent.shape[1] : latents.shape[1]] = keys
            cache.keys = kept
        return latents, k_ropes


@mistake(of=OF, caught_by=test_cache_contents)
class OwnCopyRead(Layer):
    """The layer keeps a copy of each cache, and attends to that: what lies in the cache is ignored.

    Go on with what append returns, and keep nothing in the layer from one call to the next.
    """

    def remember(self, latent, k_rope, cache):
        latents, k_ropes = super().remember(latent, k_rope, cache)
        if cache is None:
            return latents, k_ropes
        self.kept = getattr(self, "kept", {})
        if latents.shape[1] == latent.shape[1]:
            self.kept[id(cache)] = latent, k_rope
        else:
            pairs = zip(self.kept[id(cache)], (latent, k_rope), strict=True)
            self.kept[id(cache)] = tuple(torch.cat(pair, 1) for pair in pairs)
        return self.kept[id(cache)]


# Precision, gradients, manners, names


@mistake(of=OF, caught_by=test_half_precision)
class HalfPrecisionNotRaised(Layer):
    """The scores are computed in half precision, where large ones are infinity.

    Compute scores and softmax in float32 and convert the result back.
    """

    naive = PlainMultiHeadLatentAttention.naive

    def up(self, x):
        return x

    def norm(self, layer, x):
        return super().norm(lambda y: layer(Layer.up(self, y)), x)


@mistake(of=OF, caught_by=test_half_precision)
class SoftmaxAloneInFloat32(Layer):
    """The softmax is computed in float32, as softmax(scores, dtype=torch.float32) does; its scores
    were computed in half precision.

    Convert queries and keys to float32 before they meet: large scores are infinity in float16.
    """

    def weights(self, scores):
        return super().weights(scores.to(self.o_proj.weight.dtype).to(scores.dtype))


@mistake(of=OF, caught_by=test_half_precision)
class RoundedInBfloat16(Layer):
    """float16 alone is computed in float32: in bfloat16 close scores of hundreds are all alike.

    Convert bfloat16 to float32 as well: it does not overflow, but it has 8 bits.
    """

    def up(self, x):
        return x.float() if x.dtype is torch.float16 else x


@mistake(of=OF, caught_by=test_parameters)
class GraphOnlyForTheTokens(Layer):
    """Where x needs no gradient, none is recorded, so that the weights learn nothing either.

    Leave it to PyTorch which tensors need gradients: write no torch.no_grad and no detach.
    """

    def forward(self, x, cache=None, absorbed=False):
        with torch.set_grad_enabled(torch.is_grad_enabled() and x.requires_grad):
            return super().forward(x, cache, absorbed)


@mistake(of=OF, caught_by=test_manners)
class WeightKeptAside(Layer):
    """The weight of kv_b_proj is kept in a list too, and a parameter put in its place is not read.

    Read self.kv_b_proj.weight in every call.
    """

    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.kept = [self.kv_b_proj.weight]

    def expansion(self):
        sizes = (self.heads, self.nope + self.value, self.kv_rank)
        weight = self.up(self.kept[0]).reshape(sizes)
        return weight[:, : self.nope], weight[:, self.nope :]


@mistake(of=OF, caught_by=test_float64)
class SoftmaxInFloat32(Layer):
    """softmax(scores, dtype=torch.float32) is computed in float32, for scores in float64 too.

    Convert half precision to float32, and leave float64 as it is.
    """

    def weights(self, scores):
        return super().weights(scores.float()).to(scores.dtype)


@mistake(of=OF, caught_by=test_float64)
class FloatFirst(Layer):
    """All is computed in float32 by .float(), in float64 too.

    Convert half precision to float32, and leave float64 as it is.
    """

    def project(self, heads):
        return super().project(heads.float().to(heads.dtype))


@mistake(of=OF, caught_by=test_empty)
class WidthLeftToReshape(Layer):
    """reshape(B, t, H, -1) is left to find the width, which it cannot for an empty batch.

    Write the width out, nope_dim + rope_dim, or use unflatten(-1, (num_heads, -1)).
    """

    def parts_of_queries(self, q):
        q = q.reshape(q.shape[0], q.shape[1], self.heads, -1).transpose(1, 2)
        return q[..., : self.nope], q[..., self.nope :]


@mistake(of=OF, caught_by=test_parameters)
class LatentDetached(Layer):
    """No gradient reaches kv_a_proj_with_mqa: the latent is detached.

    Use it as it is. A caller who wants no gradient uses torch.no_grad().
    """

    def compress(self, x):
        return tuple(part.detach() for part in super().compress(x))


@mistake(of=OF, caught_by=test_with_cache)
class InputOverwritten(Layer):
    """x is changed in place.

    Make a new tensor: y = x * 2, not x *= 2.
    """

    def forward(self, x, cache=None, absorbed=False):
        output = super().forward(x, cache, absorbed)
        x.data.mul_(2)
        return output


@mistake(of=OF, caught_by=test_values)
class OutputWithABias(Layer):
    """o_proj has a bias, for nn.Linear makes one by itself.

    nn.Linear(H * value_dim, d_model, bias=False): no projection has a bias.
    """

    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.o_proj = with_bias(self.o_proj)


@mistake(of=OF, caught_by=test_values)
class BiasEverywhere(Layer):
    """The projections have biases, for nn.Linear makes them by itself.

    Give each nn.Linear bias=False: no projection has a bias.
    """

    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        for name, layer in list(self.named_children()):
            if isinstance(layer, torch.nn.Linear):
                setattr(self, name, with_bias(layer))

    def naive(self, q_nope, q_rope, latents, k_ropes):
        both = torch.nn.functional.linear(latents, *map(self.up, self.kv_b_proj.parameters()))
        k, v = both.unflatten(-1, (self.heads, -1)).transpose(1, 2).tensor_split((self.nope,), -1)
        scores = self.up(q_nope) @ k.mT + self.up(q_rope) @ k_ropes[:, None].mT
        return self.weights(scores) @ v


@mistake(of=OF, caught_by=test_parameters)
class FrequenciesInTheState(Layer):
    """The state dict has a table of frequencies beside the weights.

    Compute it when it is needed, or register it with persistent=False.
    """

    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        places = torch.arange(0, self.rope, 2) / self.rope
        self.register_buffer("inv_freq", self.base**-places)


@mistake(of=OF, caught_by=test_parameters)
class OddRopeDimWithQRank(Layer):
    """With a q_rank an odd rope_dim is not refused.

    Raise the ValueError in __init__ before anything depends on q_rank.
    """

    def __init__(self, d_model, heads, nope, rope, value, kv_rank, q_rank=None, rope_base=10000.0):
        there = 0 if q_rank is None else rope % 2
        super().__init__(d_model, heads, nope, rope + there, value, kv_rank, q_rank, rope_base)


# No attention at all


@mistake(of=OF, caught_by=test_values, null=True)
class Zeros(Layer):
    """The output is zeros.

    Nothing is computed yet: queries, latents, scores, softmax, values, o_proj.
    """

    def project(self, heads):
        return 0 * super().project(heads)


@mistake(of=OF, caught_by=test_values, null=True)
class OwnValues(Layer):
    """No token attends to another: each is given its own value.

    Mix the values with the weights softmax(scores).
    """

    def weights(self, scores):
        t, n = scores.shape[-2:]
        return torch.eye(n, dtype=scores.dtype, device=scores.device)[n - t :].expand_as(scores)


@mistake(of=OF, caught_by=test_values, null=True)
class MeanOfTheValues(Layer):
    """The output is the plain average of the values so far: the scores play no part.

    Weight the values by softmax(scores).
    """

    def weights(self, scores):
        return super().weights(0 * scores)


@mistake(of=OF, caught_by=test_parameters)
class GradientsInTrainingOnly(Layer):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of=OF, caught_by=test_manners)
class StepCountedInTheLayer(Layer):
    """The layer counts the position of a single new token itself, and not what others appended.

    Ask cache.length for the position at every call, however many tokens are new.
    """

    def forward(self, x, cache=None, absorbed=False):
        self.alone = x.shape[1] == 1
        y = super().forward(x, cache, absorbed)
        self.end = cache, cache.length if cache is not None else 0
        return y

    def start(self, cache):
        known = self.alone and getattr(self, "end", (None,))[0] is cache is not None
        return self.end[1] if known and cache.length else super().start(cache)
