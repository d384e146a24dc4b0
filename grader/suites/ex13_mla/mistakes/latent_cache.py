"""Wrong answers to `LatentCache`."""

from typing import ClassVar

import torch

from grader.judging import mistake
from reference.mla import PlainLatentCache

from ..test_mla import (
    test_cache,
    test_cache_contents,
    test_cache_refuses,
)


@mistake(of="LatentCache", caught_by=test_cache)
class WritesAtZero(PlainLatentCache):
    """Every append writes at position 0, over what was there.

    Write from self.length on, and move it only when that is done.
    """

    def write(self, start, latent, k_rope):
        super().write(0, latent, k_rope)


@mistake(of="LatentCache", caught_by=test_cache)
class SharedByAll(PlainLatentCache):
    """Caches of the same sizes share their memory: it belongs to the class, or to a default.

    Make the buffers in __init__ and keep them in self.
    """

    buffers: ClassVar[dict] = {}

    def __init__(self, *sizes, dtype=torch.float32, device=None):
        super().__init__(*sizes[:4], sizes[4] if sizes[4:] else dtype, device)
        shape = self.latents.shape, self.k_ropes.shape, self.latents.dtype
        self.latents, self.k_ropes = self.buffers.setdefault(shape, (self.latents, self.k_ropes))


@mistake(of="LatentCache", caught_by=test_cache)
class KeptTwice(PlainLatentCache):
    """The latents are kept twice, as keys and as values: the cache takes nearly double the bytes.

    One latent serves both. Keep batch * max_len * (kv_rank + rope_dim) numbers, no more.
    """

    @property
    def nbytes(self):
        return super().nbytes + self.latents.nbytes


@mistake(of="LatentCache", caught_by=test_cache_contents)
class MoreThanItSays(PlainLatentCache):
    """The cache keeps more tensors than `latents` and `k_ropes`, and nbytes is silent about them.

    All that is kept of a token lies in these two: leave out what is kept beside them.
    """

    def __init__(self, *sizes, dtype=torch.float32, device=None):
        super().__init__(*sizes[:4], sizes[4] if sizes[4:] else dtype, device)
        self.values = torch.zeros_like(self.latents)


@mistake(of="LatentCache", caught_by=test_cache_contents)
class GrownByCat(PlainLatentCache):
    """What is appended is joined to a tensor that grows; `latents` and `k_ropes` stay empty.

    Write into the two buffers, from self.length on, and return views of their filled part.
    """

    grown = None

    def write(self, start, latent, k_rope):
        new = tuple(x.to(self.latents.dtype, copy=True) for x in (latent, k_rope))
        joined = [torch.cat(pair, 1) for pair in zip(self.grown or new, new, strict=True)]
        self.grown = tuple(joined) if start else new

    def so_far(self):
        return self.grown


@mistake(of="LatentCache", caught_by=test_cache_contents)
class BuffersNotRead(GrownByCat):
    """`latents` and `k_ropes` are written, and nobody reads them: append answers from a copy.

    Return views of the two buffers, self.latents[:, :self.length] and the same of the keys.
    """

    def write(self, start, latent, k_rope):
        super().write(start, latent, k_rope)
        PlainLatentCache.write(self, start, latent, k_rope)


@mistake(of="LatentCache", caught_by=test_cache_contents)
class CopiedAtEveryAppend(PlainLatentCache):
    """Every append makes new buffers and copies all that was there.

    Take the memory once, in __init__, and write into it: buffer[:, self.length:end] = new.
    """

    def write(self, start, latent, k_rope):
        self.latents, self.k_ropes = self.latents.clone(), self.k_ropes.clone()
        super().write(start, latent, k_rope)


@mistake(of="LatentCache", caught_by=test_cache)
class InputsReferredTo(GrownByCat):
    """The tensors that are appended are kept as they are, and change when their owner changes them.

    Copy them into the buffers.
    """

    def write(self, start, latent, k_rope):
        PlainLatentCache.write(self, start, latent, k_rope)
        self.pieces = [*(self.pieces if start else ()), (latent, k_rope)]

    def so_far(self):
        pairs = zip(*self.pieces, strict=True)
        return tuple(torch.cat(pair, 1).to(self.latents.dtype) for pair in pairs)


@mistake(of="LatentCache", caught_by=test_cache)
class LastPlaceLeft(PlainLatentCache):
    """The cache refuses tokens that would fill it to the last place.

    Refuse more than max_len tokens: `end > max_len`, not `end >= max_len`.
    """

    def check(self, latent, k_rope):
        super().check(latent, k_rope)
        if self.length + latent.shape[1] == self.latents.shape[1]:
            raise ValueError(f"{self.latents.shape[1]} tokens fill the cache")


@mistake(of="LatentCache", caught_by=test_cache)
class DeviceIgnored(PlainLatentCache):
    """`k_ropes` lies on the CPU, whatever `device` says.

    Hand device on to torch.zeros, for both buffers.
    """

    def __init__(self, *sizes, dtype=torch.float32, device=None):
        super().__init__(*sizes[:4], sizes[4] if sizes[4:] else dtype, device)
        self.k_ropes = torch.zeros(self.k_ropes.shape, dtype=self.k_ropes.dtype)


@mistake(of="LatentCache", caught_by=test_cache_contents)
class ResetTakesNewMemory(PlainLatentCache):
    """reset() makes new buffers.

    self.length = 0 is all that it needs: memory is taken once.
    """

    def reset(self):
        self.length = 0
        self.latents, self.k_ropes = self.latents.clone(), self.k_ropes.clone()


@mistake(of="LatentCache", caught_by=test_cache)
class DtypeIgnored(PlainLatentCache):
    """The buffers are float32 whatever `dtype` says.

    Hand dtype and device on to torch.zeros.
    """

    def __init__(self, batch, max_len, rank, rope, dtype=torch.float32, device=None):
        super().__init__(batch, max_len, rank, rope, device=device)


@mistake(of="LatentCache", caught_by=test_cache)
class ResetForgetsNothing(PlainLatentCache):
    """reset() does not set `length` to 0.

    self.length = 0 is all that it needs.
    """

    def reset(self):
        pass


@mistake(of="LatentCache", caught_by=test_cache_refuses)
class FullRefusesNoTokens(PlainLatentCache):
    """A full cache refuses an append of no tokens, which fits.

    Refuse only if length + t is more than max_len.
    """

    def check(self, latent, k_rope):
        super().check(latent, k_rope)
        if self.length == self.latents.shape[1]:
            raise ValueError(f"{self.length} of {self.length} places are taken")


@mistake(of="LatentCache", caught_by=test_cache_refuses)
class NoTokensNotChecked(PlainLatentCache):
    """Where latent has no tokens, append returns before it compares the shape of k_rope.

    Compare both shapes first, whatever t is.
    """

    def append(self, latent, k_rope):
        return super().append(latent, k_rope) if latent.shape[1] else self.so_far()


@mistake(of="LatentCache", caught_by=test_cache_refuses)
class OverflowCut(PlainLatentCache):
    """Tokens that do not fit are dropped without a word.

    Before writing, raise ValueError with the length that would be needed and max_len.
    """

    def append(self, latent, k_rope):
        free = self.latents.shape[1] - self.length
        return super().append(latent[:, :free], k_rope[:, :free])


@mistake(of="LatentCache", caught_by=test_cache_refuses)
class CountedBeforeItIsChecked(PlainLatentCache):
    """The latents are counted before the shape of k_rope is compared: a refusal leaves them there.

    Compare both shapes and the room first, then write, then count.
    """

    def append(self, latent, k_rope):
        before = self.length
        try:
            return super().append(latent, k_rope)
        except ValueError:
            if k_rope.shape[1:] != (latent.shape[1], self.k_ropes.shape[2]):
                self.length = min(before + latent.shape[1], self.latents.shape[1])
            raise


@mistake(of="LatentCache", caught_by=test_cache_refuses)
class BatchBroadcast(PlainLatentCache):
    """A batch of 1 is copied into every row of a larger cache.

    Compare the whole shape, the batch among it, before writing.
    """

    def check(self, latent, k_rope):
        batch = len(self.latents)
        super().check(*(x.expand(batch, -1, -1) for x in (latent, k_rope)))


@mistake(of="LatentCache", caught_by=test_cache, null=True)
class NothingStored(PlainLatentCache):
    """append returns zeros: nothing is ever stored.

    Write the latents and the keys into the buffers.
    """

    def write(self, start, latent, k_rope):
        pass
