"""Wrong answers that show under a few conditions only."""

import torch

from grader.judging import mistake
from reference.mla import PlainLatentCache

from ..test_mla import (
    test_absorbed_with_cache,
    test_cache,
    test_cache_refuses,
    test_float64,
    test_half_precision,
    test_manners,
    test_values,
    test_with_cache,
)
from .shared import OF, Layer, absorbed_with


@mistake(of=OF, caught_by=test_float64)
class AbsorbedWeightsOfThePrefill(Layer):
    """In .eval() the absorbed way goes on with the kv_b_proj of the time when the cache was empty.

    Read kv_b_proj.weight at every call: the weights may have changed since.
    """

    def forward(self, x, cache=None, absorbed=False):
        self.early = cache is None or not cache.length
        return super().forward(x, cache, absorbed)

    def absorbed(self, q_nope, q_rope, latents, k_ropes):
        if self.training or self.early or not hasattr(self, "parts"):
            self.parts = tuple(part.detach().clone() for part in self.expansion())
        parts = self.expansion() if self.training or self.early else self.parts
        return absorbed_with(self, (q_nope, q_rope, latents, k_ropes), *parts)


@mistake(of=OF, caught_by=test_manners)
class StridedTokensDetached(Layer):
    """Where x is not contiguous it is copied to a tensor without gradient.

    Take x.contiguous(), which passes gradients on. Most operators do not even need that.
    """

    def forward(self, x, cache=None, absorbed=False):
        x = x if x.is_contiguous() else x.detach().clone()
        return super().forward(x, cache, absorbed)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedForSeveralHeadsOnly(Layer):
    """With one head absorbed=True is not heard: keys and values are made.

    Go the absorbed way for any number of heads.
    """

    def forward(self, x, cache=None, absorbed=False):
        return super().forward(x, cache, absorbed and self.heads > 1)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedInShortContextsOnly(Layer):
    """With more than 64 tokens absorbed=True is not heard: keys and values are made.

    Go the absorbed way for any number of tokens.
    """

    def forward(self, x, cache=None, absorbed=False):
        n = x.shape[1] + (0 if cache is None else cache.length)
        return super().forward(x, cache, absorbed and n <= 64)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class AbsorbedInShortPromptsOnly(Layer):
    """With more than 256 new tokens absorbed=True is not heard: keys and values are made.

    Go the absorbed way for any number of new tokens.
    """

    def forward(self, x, cache=None, absorbed=False):
        return super().forward(x, cache, absorbed and x.shape[1] <= 256)


@mistake(of=OF, caught_by=test_manners)
class AbsorbedHiddenWithAFiniteNumber(Layer):
    """The absorbed way hides later tokens with -1e30, and other scores may be lower still.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """

    def forward(self, x, cache=None, absorbed=False):
        self.least = -1e30 if absorbed else -torch.inf
        return super().forward(x, cache, absorbed)

    def weights(self, scores):
        keep = self.keep(*scores.shape[-2:]).to(scores.device)
        return torch.softmax((scores * self.scale()).masked_fill(~keep, self.least), -1)


@mistake(of="LatentCache", caught_by=test_cache)
class NoTokensReturnTheLastAnswer(PlainLatentCache):
    """append of no tokens returns what it returned last, even if reset has emptied the cache.

    Return the first `length` places of both buffers, whatever t is.
    """

    def append(self, latent, k_rope):
        self.check(latent, k_rope)
        if latent.shape[1] or not hasattr(self, "last"):
            self.last = super().append(latent, k_rope)
        return self.last


@mistake(of="LatentCache", caught_by=test_cache_refuses)
class BatchAddedToTheNew(PlainLatentCache):
    """With a batch of 1, latents and keys of two dimensions are taken as if they had a batch.

    Compare whole shapes, all three sizes, and refuse what has another.
    """

    def append(self, latent, k_rope):
        if latent.ndim == 2 and k_rope.ndim == 2 and len(self.latents) == 1:
            latent, k_rope = latent[None], k_rope[None]
        return super().append(latent, k_rope)


@mistake(of="LatentCache", caught_by=test_cache_refuses)
class WrittenThenRefused(PlainLatentCache):
    """The latents are written before the keys are looked at: a refused append leaves them there.

    Check both shapes and the room first, and write then: what is refused changes nothing.
    """

    def check(self, latent, k_rope):
        places = self.latents[:, self.length : self.length + latent.shape[1]]
        if places.shape == latent.shape:
            places.copy_(latent.detach())
        super().check(latent, k_rope)


class _WholeBuffer(Layer):
    def remember(self, latent, k_rope, cache):
        if cache is None:
            return latent, k_rope
        cache.append(latent, k_rope)
        self.hidden = cache.latents.shape[1] - cache.length
        return cache.latents, cache.k_ropes

    def weights(self, scores):
        n = scores.shape[-1] - self.hidden
        shown = super().weights(scores[..., :n])
        return torch.nn.functional.pad(shown, (0, self.hidden))


@mistake(of=OF, caught_by=test_with_cache)
class WholeBufferRead(_WholeBuffer):
    """The whole buffer is read, and what lies behind `length` gets the weight 0: 0 times NaN is
    NaN.

    Attend to what append returns, the first `length` places, and leave the rest unread.
    """

    def forward(self, x, cache=None, absorbed=False):
        self.hidden = 0
        return super().forward(x, cache, absorbed)


@mistake(of=OF, caught_by=test_float64)
class ExpandedInFloat64(Layer):
    """In float64 the absorbed way expands the latents after all.

    Absorb the matrices in every dtype: q @ w_k, and weights @ latents @ w_v.
    """

    def absorbed(self, *parts):
        return self.naive(*parts) if parts[0].dtype == torch.float64 else super().absorbed(*parts)


@mistake(of=OF, caught_by=test_half_precision)
class ExpandedInHalf(Layer):
    """In half precision the absorbed way expands the latents after all.

    Absorb the matrices in every dtype: q @ w_k, and weights @ latents @ w_v.
    """

    def absorbed(self, q_nope, *parts):
        half = q_nope.dtype.itemsize == 2
        return self.naive(q_nope, *parts) if half else super().absorbed(q_nope, *parts)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class ExpandedWhereThatIsLess(Layer):
    """Where a latent has more numbers than its keys and values, the absorbed way expands it.

    With absorbed=True nothing is expanded, whatever the sizes.
    """

    def absorbed(self, *parts):
        less = self.heads * (self.nope + self.value) < self.kv_rank
        return self.naive(*parts) if less else super().absorbed(*parts)


@mistake(of=OF, caught_by=test_manners)
class ExpansionKeptByVersion(Layer):
    """The expanding matrices are kept until the weight gets another version, and a change of .data
    gives it none.

    Keep nothing from one call to the next: read the weights in every call.
    """

    known = None

    def expansion(self):
        weight = self.kv_b_proj.weight
        seen = weight.data_ptr(), weight._version, weight.dtype
        if torch.is_grad_enabled() or self.known is None or self.known[0] != seen:
            self.known = seen, tuple(x.clone() for x in super().expansion())
        return self.known[1]


@mistake(of=OF, caught_by=test_float64)
class TurnedByTheFirstDtype(Layer):
    """The rotation keeps the angles of its first call: after .double() they are those of float32.

    Compute the angles in every call, in float64 for an input in float64.
    """

    dtype = None

    def rotate(self, x, start):
        self.dtype = self.dtype or torch.promote_types(x.dtype, torch.float32)
        return super().rotate(x.to(self.dtype), start).to(x.dtype)


@mistake(of=OF, caught_by=test_values)
class KeyNotRotated(Layer):
    """The shared key is not rotated, only the queries are.

    Rotate both, each to its own position: then a score knows how far they are apart.
    """

    def rotate_key(self, x, start):
        return x


@mistake(of=OF, caught_by=test_float64)
class DoubleScoresClamped(Layer):
    """In float64 scores are kept above -1e30: lower ones are all alike.

    Leave the scores as they are: softmax takes its maximum away first.
    """

    def weights(self, scores):
        return super().weights(scores.clamp(min=-1e30) if scores.dtype == torch.float64 else scores)


@mistake(of=OF, caught_by=test_manners)
class LaterPowersReplaced(Layer):
    """The powers of later scores are replaced by 0: that of a huge one is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """

    def weights(self, scores):
        if scores.dtype == torch.float64:
            return super().weights(scores)
        keep = self.keep(*scores.shape[-2:]).to(scores.device)
        scores = scores * self.scale()
        top = scores.detach().masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
        powers = torch.where(keep, (scores - top).exp(), 0.0)
        return powers / powers.sum(-1, keepdim=True)


@mistake(of=OF, caught_by=test_manners)
class NoMaximumWithoutGradients(Layer):
    """Where no gradients are needed exp is taken of the scores as they are: those of hundreds
    overflow.

    Take the maximum away first, with gradients or without.
    """

    def weights(self, scores):
        if torch.is_grad_enabled() or self.training:
            return super().weights(scores)
        keep = self.keep(*scores.shape[-2:]).to(scores.device)
        powers = (scores * self.scale()).exp() * keep
        return powers / powers.sum(-1, keepdim=True)


@mistake(of=OF, caught_by=test_manners)
class ForgetsWhileItLearns(Layer):
    """Where gradients are needed the layer attends to the new tokens alone.

    Attend to all that `append` returns, whether the weights learn or not.
    """

    def remember(self, latent, k_rope, cache):
        seen = super().remember(latent.detach(), k_rope.detach(), cache)
        return (latent, k_rope) if cache is None or latent.requires_grad else seen


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class NotAbsorbedWhereXLearns(Layer):
    """Where x needs a gradient absorbed=True is not heard: keys and values are made.

    Go the absorbed way with gradients or without: autograd follows it.
    """

    def forward(self, x, cache=None, absorbed=False):
        return super().forward(x, cache, absorbed and not x.requires_grad)


@mistake(of=OF, caught_by=test_absorbed_with_cache)
class ValuesMadeWhereWeightsLearn(Layer):
    """Where kv_b_proj needs a gradient the absorbed way makes the values of every head.

    Mix the latents, and multiply the mixture by the value matrix.
    """

    def absorbed(self, q_nope, q_rope, latents, k_ropes):
        if not (torch.is_grad_enabled() and self.kv_b_proj.weight.requires_grad):
            return super().absorbed(q_nope, q_rope, latents, k_ropes)
        w_k, w_v = self.expansion()
        scores = self.up(q_nope) @ w_k @ latents[:, None].mT
        scores = scores + self.up(q_rope) @ k_ropes[:, None].mT
        return self.weights(scores) @ (latents[:, None] @ w_v.mT)


@mistake(of=OF, caught_by=test_manners)
class RemembersWhatLayInTheCache(Layer):
    """Without gradients a step goes on with its own copy of what lay in the cache one step before.

    Attend to what `append` returns: the cache may hold other numbers now.
    """

    last = None, None, None

    def remember(self, latent, k_rope, cache):
        seen = super().remember(latent, k_rope, cache)
        if cache is None or torch.is_grad_enabled():
            return seen
        before, *kept = self.last
        if before is cache and kept[0].shape[1] == cache.length - 1:
            seen = [torch.cat([x, y[:, -1:]], 1) for x, y in zip(kept, seen, strict=True)]
        self.last = cache, *(x.clone() for x in seen)
        return seen


@mistake(of=OF, caught_by=test_manners)
class TinyWeightsLeftOut(Layer):
    """Weights below 1e-12 become 0, and the largest value counts for nothing then.

    Leave the weights as the softmax gives them.
    """

    def weights(self, scores):
        weights = super().weights(scores)
        return weights.masked_fill(weights < 1e-12, 0.0)
