"""Wrong answers to `KVCache`."""

import torch

from grader.judging import mistake

from ..steps import (
    Cache,
    joined,
)
from ..test_kv_cache import (
    test_cache,
    test_cache_own,
    test_cache_refuses,
    test_empty,
)


@mistake(of="KVCache", caught_by=test_cache)
class PositionRestarts(Cache):
    """Every append writes at position 0, over what was there.

    Write from self.length on: self.keys[:, :, self.length : self.length + t] = k.
    """

    def write(self, start, k, v):
        super().write(0, k, v)


@mistake(of="KVCache", caught_by=test_cache)
class FirstSequenceOnly(Cache):
    """Only the first sequence of the batch is written.

    Write the whole batch: self.keys[:, :, self.length : self.length + t] = k.
    """

    def write(self, start, k, v):
        self.keys[:1, :, start : start + k.shape[-2]] = k[:1]
        self.values[:1, :, start : start + v.shape[-2]] = v[:1]


@mistake(of="KVCache", caught_by=test_cache)
class LengthStandsStill(Cache):
    """`length` never moves.

    After writing t tokens, add t to self.length.
    """

    def append(self, k, v):
        so_far = super().append(k, v)
        self.length = 0
        return so_far


@mistake(of="KVCache", caught_by=test_cache)
class LengthMovesByOne(Cache):
    """`length` moves by 1 however many tokens are appended.

    Add the number of new tokens, k.shape[2].
    """

    def advance(self, t):
        self.length += 1


@mistake(of="KVCache", caught_by=test_cache)
class LengthMovesFirst(Cache):
    """`length` moves before the write, so the tokens land one append too far.

    Write from the old length on, then move it.
    """

    def write(self, start, k, v):
        super().write(start + k.shape[2], k, v)


@mistake(of="KVCache", caught_by=test_cache)
class OnePlaceTooFar(Cache):
    """The tokens are written one place too far: place 0 stays empty.

    The first free place is self.length, not self.length + 1.
    """

    def write(self, start, k, v):
        super().write(start + 1, k, v)


@mistake(of="KVCache", caught_by=test_cache)
class NewOnesReturned(Cache):
    """append returns the new keys and values only.

    Return all so far: self.keys[:, :, : self.length], and the same of the values.
    """

    def append(self, k, v):
        super().append(k, v)
        return k, v


@mistake(of="KVCache", caught_by=test_cache)
class NewPlacesReturned(Cache):
    """append returns only the places that it has just written.

    Return all so far: self.keys[:, :, : self.length], and the same of the values.
    """

    def append(self, k, v):
        start = self.length
        return tuple(x[:, :, start:] for x in super().append(k, v))


@mistake(of="KVCache", caught_by=test_cache)
class WholeBufferReturned(Cache):
    """append returns the whole buffer, empty places among the keys.

    Return the filled part: self.keys[:, :, : self.length]. An empty key would take weight.
    """

    def so_far(self):
        return self.keys, self.values


@mistake(of="KVCache", caught_by=test_cache)
class ValuesReturnedFirst(Cache):
    """append returns the values first, and then the keys.

    Return them in the order in which they came: keys, then values.
    """

    def so_far(self):
        return super().so_far()[::-1]


@mistake(of="KVCache", caught_by=test_cache)
class KeysWrittenTwice(Cache):
    """The keys are written into the buffer of the values, too.

    self.values[:, :, start:end] = v.
    """

    def write(self, start, k, v):
        super().write(start, k, k)


@mistake(of="KVCache", caught_by=test_cache)
class OneBufferForBoth(Cache):
    """Keys and values are two names of one buffer: `self.keys = self.values = torch.zeros(...)`.

    Make two tensors.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.values = self.keys


@mistake(of="KVCache", caught_by=test_cache)
class NewBeforeOld(Cache):
    """New tokens are put before the old ones.

    Time runs along the length: new tokens go behind the last one.
    """

    def write(self, start, k, v):
        t = k.shape[2]
        self.keys, self.values = self.keys.roll(t, 2), self.values.roll(t, 2)
        super().write(0, k, v)


@mistake(of="KVCache", caught_by=test_cache)
class LengthIsATensor(Cache):
    """`length` is a tensor.

    It is a Python int: count with k.shape[2].
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.length = torch.tensor(0)


@mistake(of="KVCache", caught_by=test_cache_own)
class SharedBetweenCaches(Cache):
    """The buffers belong to the class, so that one cache writes over what another one holds.

    Make them in __init__ as self.keys and self.values, for every object anew.
    """

    shared = {}  # noqa: RUF012 (that is the mistake)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        known = self.shared.setdefault((self.keys.shape, self.keys.dtype), self)
        self.keys, self.values = known.keys, known.values


@mistake(of="KVCache", caught_by=test_cache_own)
class DtypeIgnored(Cache):
    """`dtype` is ignored: the buffers are float32 whatever was asked for.

    torch.zeros(shape, dtype=dtype, device=device).
    """

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        super().__init__(batch, num_heads, max_len, head_dim, device=device)


@mistake(of="KVCache", caught_by=test_cache_own)
class DtypeOfTheTokens(Cache):
    """append answers in the dtype of what it was given, not in that of the cache.

    Copy the tokens into buffers of the cache's dtype, and return these.
    """

    def append(self, k, v):
        keys, values = super().append(k, v)
        return keys.to(k.dtype), values.to(v.dtype)


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetKeepsTheLength(Cache):
    """reset clears the buffers, but the next append goes on where the last one stopped.

    Set self.length = 0. The buffers need not be cleared.
    """

    def reset(self):
        self.keys.zero_()
        self.values.zero_()


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetForgetsTheDtype(Cache):
    """reset makes new buffers, and makes them float32 whatever the cache was asked to be.

    Set self.length = 0 and keep the buffers: what lies beyond `length` is never read.
    """

    def reset(self):
        self.__init__(*self.keys.shape, device=self.keys.device)


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetTakesNewMemory(Cache):
    """reset takes new memory, so that the cache lies elsewhere afterwards.

    Set self.length = 0 and keep the buffers: what lies beyond `length` is never read.
    """

    def reset(self):
        super().reset()
        self.keys, self.values = torch.zeros_like(self.keys), torch.zeros_like(self.values)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class NothingCompared(Cache):
    """append writes at once, and PyTorch complains when it does not fit, or copies and is silent.

    Compare the shapes and the room first, and raise a ValueError with both numbers.
    """

    def check(self, k, v):
        pass


@mistake(of="KVCache", caught_by=test_cache_refuses)
class RoomNotCompared(Cache):
    """The room is not compared, or only with the length before the append: PyTorch complains when
    tokens do not fit.

    Raise a ValueError with both numbers if self.length + t is more than max_len.
    """

    def check_room(self, needed, room):
        pass


@mistake(of="KVCache", caught_by=test_cache_refuses)
class FullRefusesNoTokens(Cache):
    """A full cache refuses an append of no tokens, which fits.

    Refuse only if length + t is more than max_len.
    """

    def check_room(self, needed, room):
        super().check_room(needed, room)
        if self.length == room:
            raise ValueError(f"{room} of {room} places are taken")


@mistake(of="KVCache", caught_by=test_cache_refuses)
class NoTokensNotChecked(Cache):
    """Where k has no tokens, append returns before it compares the shape of v.

    Compare both shapes first, whatever t is.
    """

    def append(self, k, v):
        return super().append(k, v) if k.shape[2] else self.so_far()


@mistake(of="KVCache", caught_by=test_cache_refuses)
class OverflowCut(Cache):
    """What does not fit is dropped without a word.

    Compare self.length + t with max_len, and raise a ValueError with both before writing anything.
    """

    def check_room(self, needed, room):
        pass

    def write(self, start, k, v):
        room = self.keys.shape[2] - start
        super().write(start, k[:, :, :room], v[:, :, :room])

    def advance(self, t):
        self.length = min(self.length + t, self.keys.shape[2])


@mistake(of="KVCache", caught_by=test_cache_refuses)
class OverflowWrapsAround(Cache):
    """A full cache begins again at position 0 and forgets its oldest tokens.

    That is a sliding window. This cache raises a ValueError when it is full.
    """

    def append(self, k, v):
        if self.length + k.shape[2] > self.keys.shape[2]:
            self.length = 0
            k, v = k[:, :, -self.keys.shape[2] :], v[:, :, -self.keys.shape[2] :]
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class CacheGrows(Cache):
    """A full cache grows instead of refusing.

    `max_len` is a promise about memory: raise a ValueError with the length needed and max_len.
    """

    def append(self, k, v):
        missing = max(self.length + k.shape[2] - self.keys.shape[2], 0)
        pad = (0, 0, 0, missing)
        self.keys = torch.nn.functional.pad(self.keys, pad)
        self.values = torch.nn.functional.pad(self.values, pad)
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class CheckedTooLate(Cache):
    """The overflow is noticed after `length` has moved, so the cache is spoiled by the refusal.

    Compute the new length, compare, raise; only then write and move self.length.
    """

    def check_room(self, needed, room):
        if needed > room:
            self.length = needed
        super().check_room(needed, room)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class FullOneTooEarly(Cache):
    """The last place can never be used: `>=` where `>` is meant.

    max_len tokens fit. Refuse if self.length + t > max_len.
    """

    def check_room(self, needed, room):
        if needed >= room:
            raise ValueError(f"{needed} of {room}")


@mistake(of="KVCache", caught_by=test_cache_refuses)
class RefusedWithoutNumbers(Cache):
    """The ValueError says that the cache is full, but not how full and of how many.

    Put the length that would be needed and max_len into the message.
    """

    def check(self, k, v):
        try:
            super().check(k, v)
        except ValueError:
            raise ValueError("the cache is full") from None


@mistake(of="KVCache", caught_by=test_cache_refuses)
class RefusedWithAnAssertion(Cache):
    """The refusal is an AssertionError.

    Asserts are for what cannot happen. Raise ValueError(f"... {end} ... {max_len}").
    """

    def check(self, k, v):
        try:
            super().check(k, v)
        except ValueError as error:
            raise AssertionError(str(error)) from None


@mistake(of="KVCache", caught_by=test_cache_refuses)
class BatchBroadcast(Cache):
    """Shapes are not compared, so a batch of 1 is copied into every row of the cache.

    Compare k.shape and v.shape with (batch, num_heads, t, head_dim) before writing.
    """

    def check_shapes(self, k, v):
        batch = len(self.keys)
        super().check_shapes(k.expand(batch, -1, -1, -1), v.expand(batch, -1, -1, -1))


@mistake(of="KVCache", caught_by=test_cache_refuses)
class ValuesNotChecked(Cache):
    """Only the shape of the keys is compared, so values of another shape are broadcast.

    Compare v.shape as well.
    """

    def check_shapes(self, k, v):
        super().check_shapes(k, k)


@mistake(of="KVCache", caught_by=test_cache, null=True)
class Emptiness(Cache):
    """append returns zeros of the right shape: nothing is ever stored.

    Write k and v into the buffers.
    """

    def write(self, start, k, v):
        pass


@mistake(of="KVCache", caught_by=test_cache_own)
class Concatenating(Cache):
    """Every append joins old and new by torch.cat, and so copies all that was there.

    Take the memory once, in __init__, and write the new tokens into it from self.length on.
    """

    def write(self, start, k, v):
        t = k.shape[2]
        parts = [(self.keys, k), (self.values, v)]
        self.keys, self.values = (
            torch.cat([x[:, :, :start], new.to(x), x[:, :, start + t :]], 2) for x, new in parts
        )


@mistake(of="KVCache", caught_by=test_cache_own)
class MemoryGrowsWithTheText(Cache):
    """The memory begins empty and grows with the text.

    torch.zeros(batch, num_heads, max_len, head_dim) in __init__: its whole length at once.
    """

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        super().__init__(batch, num_heads, 0, head_dim, dtype, device)
        self.max_len = max_len

    def append(self, k, v):
        if self.length + k.shape[2] > self.max_len:
            raise ValueError(f"{self.length + k.shape[2]} tokens, {self.max_len} places")
        pad = (0, 0, 0, k.shape[2])
        self.keys = torch.nn.functional.pad(self.keys[:, :, : self.length], pad)
        self.values = torch.nn.functional.pad(self.values[:, :, : self.length], pad)
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_cache_own)
class MemoryForShow(Cache):
    """`keys` and `values` are written and never read: append returns a second store, a tuple that
    grows by torch.cat.

    Return what lies in the memory: self.keys[:, :, : self.length].
    """

    past = None

    def append(self, k, v):
        super().append(k, v)
        self.past = joined(k.detach().to(self.keys), v.detach().to(self.values), self.past)
        return self.past

    def reset(self):
        super().reset()
        self.past = None


@mistake(of="KVCache", caught_by=test_cache_own)
class FullTextKept(Cache):
    """A text that fills the empty cache at once is kept as it came, not copied.

    Copy it into the memory; the caller may change his tensors afterwards.
    """

    def write(self, start, k, v):
        if k.shape == self.keys.shape and k.dtype == self.keys.dtype:
            self.keys, self.values = k, v
        else:
            super().write(start, k, v)


@mistake(of="KVCache", caught_by=test_cache_own)
class DeviceIgnored(Cache):
    """`device` is ignored: the memory is on the default device whatever was asked for.

    torch.zeros(shape, dtype=dtype, device=device).
    """

    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        super().__init__(batch, num_heads, max_len, head_dim, dtype)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class HalfWrittenWhenRefused(Cache):
    """Of what does not fit the first tokens are written, and only then comes the ValueError.

    Compare before anything is written: a refused call leaves the cache as it was.
    """

    def check(self, k, v):
        room = self.keys.shape[2] - self.length
        try:
            super().check(k, v)
        except ValueError:
            if (
                k.shape == v.shape
                and k.shape[2] > room
                and k[:, :, :0].shape == self.keys[:, :, :0].shape
            ):
                self.write(self.length, k[:, :, :room], v[:, :, :room])
                self.length += room
            raise


@mistake(of="KVCache", caught_by=test_cache_refuses)
class NumbersOfThisCallOnly(Cache):
    """The ValueError of a full cache has the number of new tokens, not the length they would make.

    Put self.length + t and max_len into the message.
    """

    def check_room(self, needed, room):
        if needed > room:
            raise ValueError(f"no room for {needed - self.length} in {room}")


@mistake(of="KVCache", caught_by=test_cache_refuses)
class OneTokenAlwaysFits(Cache):
    """A single token goes into a full cache: it is written over the last one.

    Compare self.length + t with max_len for every t, 1 too.
    """

    def append(self, k, v):
        if k.shape[2] == 1 and v.shape == k.shape and self.length == self.keys.shape[2]:
            self.length -= 1
        return super().append(k, v)


@mistake(of="KVCache", caught_by=test_empty)
class NoTokensRefused(Cache):
    """An append of no tokens raises an error.

    t may be 0: then nothing is written, and all so far comes back.
    """

    def check(self, k, v):
        super().check(k, v)
        if k.shape[2] == 0:
            raise ValueError("there is nothing to append")


@mistake(of="KVCache", caught_by=test_cache)
class At1024ItWraps(Cache):
    """Positions are counted modulo 1024, so that a longer text writes over its beginning.

    Write from self.length on, as far as max_len goes.
    """

    def write(self, start, k, v):
        super().write(start % 1024, k, v)
