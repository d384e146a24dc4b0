"""Wrong answers to `PagedKVCache`."""

import torch

from grader.judging import mistake
from grader.suites.ex16_paged_cache.test_paged_cache import (
    test_blocks,
    test_cache,
    test_empty,
    test_pool,
    test_refused,
)
from reference.ex16_paged_cache import (
    PlainPagedKVCache,
)


@mistake(of="PagedKVCache", caught_by=test_cache)
class OneBlockForOneAppend(PlainPagedKVCache):
    """All tokens of an append go to one block, so that those behind its end begin it again.

    Find the block of every token by itself: token p lies in table[p // block_size].
    """

    def append(self, sequence, k, v):
        self.start = self.length(sequence)
        super().append(sequence, k, v)

    def write(self, rows, k, v):
        size = self.block_size
        places = [(self.start + i) % size for i in range(len(rows))]
        super().write([rows[0] // size * size + place for place in places], k, v)


@mistake(of="PagedKVCache", caught_by=test_cache)
class DividedByTheNumberOfBlocks(PlainPagedKVCache):
    """Tokens are looked for with num_blocks where block_size belongs.

    Token p lies in table[p // block_size], at place p % block_size.
    """

    def rows(self, sequence, start, end):
        table, n = self.tables[sequence], self.num_blocks
        return [table[p // n] * self.block_size + p % n for p in range(start, end)]


@mistake(of="PagedKVCache", caught_by=test_cache)
class LastBlockWhole(PlainPagedKVCache):
    """gather returns whole blocks: the places behind the last token come with it.

    Return as many tokens as the sequence has; what lies behind them is nobody's.
    """

    def gather(self, sequence):
        rows = self.rows(sequence, 0, len(self.tables[sequence]) * self.block_size)
        return self.read(rows)


@mistake(of="PagedKVCache", caught_by=test_cache)
class TableOfFixedWidth(PlainPagedKVCache):
    """A block table has room for 256 blocks, so that longer sequences fail while blocks are free.

    Let a table grow with its sequence: at most, one sequence holds all num_blocks.
    """

    def needed(self, sequence, end):
        more = super().needed(sequence, end)
        if len(self.tables[sequence]) + more > 256:
            raise IndexError("index 256 is out of bounds for dimension 0 with size 256")
        return more


@mistake(of="PagedKVCache", caught_by=test_blocks)
class NewBlocksForEveryAppend(PlainPagedKVCache):
    """Every append takes new blocks, though the last one has room.

    The new length takes ceil(length / block_size) blocks in all: take those that are missing.
    """

    def needed(self, sequence, end):
        return -(-(end - self.lengths[sequence]) // self.block_size)


@mistake(of="PagedKVCache", caught_by=test_blocks)
class OneBlockAhead(PlainPagedKVCache):
    """A block is taken as soon as the last one is full, before a token needs it.

    n tokens take ceil(n / block_size) blocks, -(-n // block_size); n // block_size + 1 is one more
    at every border.
    """

    def needed(self, sequence, end):
        more = end // self.block_size + 1 - len(self.tables[sequence])
        return more if more <= self.free_blocks else super().needed(sequence, end)


@mistake(of="PagedKVCache", caught_by=test_blocks)
class OneBlockTooManyAsked(PlainPagedKVCache):
    """A block is asked for as soon as the last one is full, and the append refused if none is free.

    n tokens take ceil(n / block_size) blocks, -(-n // block_size); n // block_size + 1 is one more
    at every border.
    """

    def needed(self, sequence, end):
        return end // self.block_size + 1 - len(self.tables[sequence])


@mistake(of="PagedKVCache", caught_by=test_blocks)
class BlocksKept(PlainPagedKVCache):
    """free forgets the sequence, but its blocks do not go back to the pool.

    Put the numbers in its table back on the list of free blocks.
    """

    def free(self, sequence):
        self.check(sequence)
        del self.tables[sequence], self.lengths[sequence]


@mistake(of="PagedKVCache", caught_by=test_blocks)
class TableBackwards(PlainPagedKVCache):
    """block_table names the newest block first.

    It is in the order of the tokens: the block of token 0 comes first.
    """

    def block_table(self, sequence):
        return super().block_table(sequence).flip(0)


class _Copies(PlainPagedKVCache):
    """Keeps all that is appended, sequence by sequence, and gathers that."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.copies = {}

    def append(self, sequence, k, v):
        super().append(sequence, k, v)
        new = (x.to(self.keys.dtype) for x in (k, v))
        both = zip(self._copy(sequence), new, strict=True)
        self.copies[sequence] = tuple(torch.cat(parts, 1) for parts in both)

    def gather(self, sequence):
        self.check(sequence)
        return self._copy(sequence)

    def _copy(self, sequence):
        nothing = self.keys[0, :0].transpose(0, 1)
        return self.copies.get(sequence, (nothing, nothing))


@mistake(of="PagedKVCache", caught_by=test_pool)
class NoPool(_Copies):
    """Every sequence has tensors of its own that grow: nothing is written to keys and values.

    Blocks that are only counted save no memory. Write each token to its place in the two pools,
    keys[table[p // block_size], p % block_size], and gather it from there.
    """

    def write(self, rows, k, v):
        pass


@mistake(of="PagedKVCache", caught_by=test_pool)
class CopiesGathered(_Copies):
    """gather returns copies taken by append, kept beside keys and values, and not what these hold.

    Keep nothing beside the pools, for that is twice the memory: read them whenever you gather.
    """


@mistake(of="PagedKVCache", caught_by=test_pool)
class GatheredOnce(PlainPagedKVCache):
    """gather remembers what it returned, and returns it again until the sequence is longer.

    That is a second memory beside keys and values: read them whenever you gather.
    """

    def gather(self, sequence):
        kept, n = self.__dict__.setdefault("kept", {}), self.length(sequence)
        if sequence not in kept or kept[sequence][0].shape[1] != n:
            kept[sequence] = super().gather(sequence)
        return kept[sequence]


@mistake(of="PagedKVCache", caught_by=test_pool)
class PoolsSwapped(PlainPagedKVCache):
    """Keys lie in the pool called values, and values in the one called keys.

    self.keys[blocks, places] = k, and self.values[blocks, places] = v.
    """

    def write(self, rows, k, v):
        super().write(rows, v, k)

    def read(self, rows):
        return super().read(rows)[::-1]


@mistake(of="PagedKVCache", caught_by=test_pool)
class PoolMadeAnew(PlainPagedKVCache):
    """append makes a new tensor of the whole pool, with the new tokens in it.

    Write in place, self.keys[blocks, places] = ...: a pool is never copied.
    """

    def write(self, rows, k, v):
        self.keys, self.values = self.keys.clone(), self.values.clone()
        super().write(rows, k, v)


@mistake(of="PagedKVCache", caught_by=test_pool)
class PoolThatGrows(PlainPagedKVCache):
    """keys and values begin without a block, and grow when one is taken.

    Take the memory once, in __init__: torch.zeros(num_blocks, block_size, num_heads, head_dim).
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.block = torch.zeros_like(self.keys[:1])
        self.keys, self.values = self.keys[:0], self.values[:0]

    def take(self, needed):
        taken = super().take(needed)
        while len(self.keys) <= max(taken, default=-1):
            self.keys, self.values = (torch.cat([x, self.block]) for x in (self.keys, self.values))
        return taken


@mistake(of="PagedKVCache", caught_by=test_pool)
class PoolHeadsFirst(PlainPagedKVCache):
    """In a block of keys and values the heads come before the places.

    A pool is (num_blocks, block_size, num_heads, head_dim): k.transpose(0, 1) brings tokens first.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys, self.values = (x.transpose(1, 2) for x in (self.keys, self.values))

    def write(self, rows, k, v):
        for pool, x in ((self.keys, k), (self.values, v)):
            pool.transpose(1, 2).flatten(0, 1)[rows] = x.transpose(0, 1).to(pool.dtype)

    def read(self, rows):
        pools = (x.transpose(1, 2).flatten(0, 1) for x in (self.keys, self.values))
        return tuple(pool[rows].transpose(0, 1) for pool in pools)


@mistake(of="PagedKVCache", caught_by=test_pool)
class BlocksFilledBackwards(PlainPagedKVCache):
    """The first token of a block lies in its last place.

    Token p lies at place p % block_size: whoever reads the pools by the table looks there.
    """

    def rows(self, sequence, start, end):
        last = self.block_size - 1
        return [
            row + last - 2 * (row % self.block_size) for row in super().rows(sequence, start, end)
        ]


@mistake(of="PagedKVCache", caught_by=test_pool)
class PoolAlwaysFloat32(PlainPagedKVCache):
    """keys and values are float32 where the cache is in half precision: twice the memory.

    Make the pools in the dtype of the cache, torch.zeros(..., dtype=dtype).
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dtype = self.keys.dtype
        wide = torch.promote_types(self.dtype, torch.float32)
        self.keys, self.values = self.keys.to(wide), self.values.to(wide)

    def read(self, rows):
        return tuple(x.to(self.dtype) for x in super().read(rows))


@mistake(of="PagedKVCache", caught_by=test_pool)
class DeviceIgnored(PlainPagedKVCache):
    """The pools are made on the CPU, whatever `device` says.

    torch.zeros(..., dtype=dtype, device=device), for both pools.
    """

    def __init__(
        self, num_blocks, block_size, num_heads, head_dim, dtype=torch.float32, device=None
    ):
        super().__init__(num_blocks, block_size, num_heads, head_dim, dtype)


@mistake(of="PagedKVCache", caught_by=test_empty)
class TokenlessAppendTakesABlock(PlainPagedKVCache):
    """An append of no tokens to an empty sequence takes a block.

    A block is taken when a token needs it: ceil(0 / block_size) is 0, so leave out max(1, ...).
    """

    def needed(self, sequence, end):
        more = max(1, -(-end // self.block_size)) - len(self.tables[sequence])
        return min(more, self.free_blocks) if end == 0 else super().needed(sequence, end)


@mistake(of="PagedKVCache", caught_by=test_empty)
class EmptyTableOfFloats(PlainPagedKVCache):
    """The table of an empty sequence is float32: torch.tensor([]) does not know that it is whole.

    Say the dtype: torch.tensor(table, dtype=torch.int64).
    """

    def block_table(self, sequence):
        self.check(sequence)
        return torch.tensor(self.tables[sequence])


@mistake(of="PagedKVCache", caught_by=test_empty)
class NothingGatheredInFloat32(PlainPagedKVCache):
    """Keys and values of an empty sequence are float32, whatever the dtype of the cache.

    Make them in the dtype of the pools, or read no places from these.
    """

    def gather(self, sequence):
        k, v = super().gather(sequence)
        return (k, v) if k.shape[1] else (k.float(), v.float())


@mistake(of="PagedKVCache", caught_by=test_refused)
class FreedWhenEmptyStays(PlainPagedKVCache):
    """free does nothing for a sequence that holds no block, so that it is still there.

    Forget the sequence in any case; there may be nothing to give back.
    """

    def free(self, sequence):
        self.check(sequence)
        if self.tables[sequence]:
            super().free(sequence)


@mistake(of="PagedKVCache", caught_by=test_refused)
class FreedStillThere(PlainPagedKVCache):
    """A freed sequence can still be read, although its blocks serve others.

    Forget its table and its length, so that its number is refused with a ValueError.
    """

    def free(self, sequence):
        self.check(sequence)
        self.unused += self.tables[sequence]


@mistake(of="PagedKVCache", caught_by=test_refused)
class MissingSequenceIsAKeyError(PlainPagedKVCache):
    """A sequence that is not there raises a KeyError, as the dict does.

    Look first, and raise a ValueError with the number of the sequence.
    """

    def check(self, sequence):
        self.tables[sequence]


class _Listed(dict):
    def __missing__(self, number):
        return list(self.values())[number]


@mistake(of="PagedKVCache", caught_by=test_refused)
class NumbersBelowZero(PlainPagedKVCache):
    """A number below 0 is no error: a list counts it from its end, and finds somebody's sequence.

    Refuse a number that add has not given out, -1 too; a dict does not count backwards.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tables, self.lengths = _Listed(), _Listed()

    def check(self, sequence):
        if not -len(self.tables) <= sequence < 0:
            super().check(sequence)


@mistake(of="PagedKVCache", caught_by=test_blocks)
class NumbersGivenOutAgain(PlainPagedKVCache):
    """The number of a new sequence is how many there are, which one of them may have already.

    Count the sequences that were ever added, and do not count back when one is freed.
    """

    def add(self):
        self.numbers = iter([len(self.tables)])
        return super().add()


@mistake(of="PagedKVCache", caught_by=test_refused)
class TakenBeforeRefused(PlainPagedKVCache):
    """A refused append has taken the last free blocks already.

    Work out how many blocks are needed, compare, raise; only then take any.
    """

    def append(self, sequence, k, v):
        try:
            super().append(sequence, k, v)
        except ValueError:
            if sequence in self.tables:
                self.tables[sequence] += super().take(self.free_blocks)
            raise


@mistake(of="PagedKVCache", caught_by=test_refused)
class RoomForgottenInTheMessage(PlainPagedKVCache):
    """The ValueError says how many blocks the new tokens fill, without the room in the last block.

    Of n tokens in all, ceil(n / block_size) blocks are needed, less those that are held.
    """

    def append(self, sequence, k, v):
        try:
            super().append(sequence, k, v)
        except ValueError:
            if sequence not in self.tables:
                raise
            needed = -(-k.shape[1] // self.block_size)
            raise ValueError(f"{needed} blocks are needed, {self.free_blocks} are free") from None


@mistake(of="PagedKVCache", caught_by=test_refused)
class HalfWritten(PlainPagedKVCache):
    """A refused append has written the tokens for which there was room.

    Compare before the first token is written, so that nothing is changed.
    """

    def append(self, sequence, k, v):
        try:
            super().append(sequence, k, v)
        except ValueError:
            if sequence in self.tables:
                held = len(self.tables[sequence]) + self.free_blocks
                room = held * self.block_size - self.lengths[sequence]
                super().append(sequence, k[:, :room], v[:, :room])
            raise


@mistake(of="PagedKVCache", caught_by=test_refused)
class LastBlockFilled(PlainPagedKVCache):
    """A refused append has filled up the last block, though the sequence is no longer for it.

    Compare before the first token is written, so that nothing is changed: not the pools either.
    """

    def append(self, sequence, k, v):
        try:
            super().append(sequence, k, v)
        except ValueError:
            if sequence in self.tables:
                n, room = self.lengths[sequence], -self.lengths[sequence] % self.block_size
                self.write(self.rows(sequence, n, n + room), k[:, :room], v[:, :room])
            raise


@mistake(of="PagedKVCache", caught_by=test_refused)
class RefusedWithoutNumbers(PlainPagedKVCache):
    """The ValueError says that the pool is full, but not how many blocks are needed and free.

    Put both numbers into the message.
    """

    def take(self, needed):
        if needed > self.free_blocks:
            raise ValueError("out of blocks")
        return super().take(needed)


@mistake(of="PagedKVCache", caught_by=test_pool)
class SharedPool(PlainPagedKVCache):
    """The pool belongs to the class, so that one cache writes over what another one holds.

    Make it in __init__ as attributes of self, for every cache anew.
    """

    shared = {}  # noqa: RUF012 (that is the mistake)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        known = self.shared.setdefault((self.keys.shape, self.keys.dtype), self)
        self.keys, self.values = known.keys, known.values


@mistake(of="PagedKVCache", caught_by=test_pool)
class TablesOfTheClass(PlainPagedKVCache):
    """The block tables belong to the class, so that sequences of two caches share one table.

    Make them in __init__ as attributes of self, for every cache anew.
    """

    shared_tables = {}  # noqa: RUF012 (that is the mistake)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tables = self.shared_tables


@mistake(of="PagedKVCache", caught_by=test_pool)
class TablesAndLengthsOfTheClass(TablesOfTheClass):
    """The block tables and the lengths belong to the class: two caches have the same sequences.

    Make them in __init__ as attributes of self, for every cache anew.
    """

    shared_lengths = {}  # noqa: RUF012 (that is the mistake)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lengths = self.shared_lengths


@mistake(of="PagedKVCache", caught_by=test_pool)
class DtypeNotConverted(PlainPagedKVCache):
    """append fails when the tokens have another dtype than the cache.

    An indexed assignment wants equal dtypes: write k.to(pool.dtype).
    """

    def write(self, rows, k, v):
        self.keys.flatten(0, 1)[rows] = k.transpose(0, 1)
        self.values.flatten(0, 1)[rows] = v.transpose(0, 1)


@mistake(of="PagedKVCache", caught_by=test_cache, null=True)
class Emptiness(PlainPagedKVCache):
    """gather returns zeros of the right shape: nothing is ever stored.

    Write k and v into the pool.
    """

    def write(self, rows, k, v):
        pass


@mistake(of="PagedKVCache", caught_by=test_pool)
class BlocksOfOneViewed(PlainPagedKVCache):
    """With blocks of one token the keys are written as they lie in memory, (H, t, D) as (t, H, D).

    Exchange the two dimensions with transpose; a view keeps the order in memory.
    """

    def append(self, sequence, k, v):
        if self.block_size == 1 and k.dtype != self.keys.dtype:
            heads, t, width = k.shape
            k = k.reshape(t, heads, width).transpose(0, 1)
        super().append(sequence, k, v)


@mistake(of="PagedKVCache", caught_by=test_blocks)
class TableOfOneMemory(PlainPagedKVCache):
    """A table is a view of a row that serves again for a later sequence: what was returned changes.

    Return a new tensor: torch.tensor(table, dtype=torch.int64).
    """

    def __init__(self, num_blocks, *sizes, **options):
        super().__init__(num_blocks, *sizes, **options)
        self.rows_of, self.spare = {}, []
        self.one_row = (num_blocks,)

    def block_table(self, sequence):
        table = super().block_table(sequence)
        if sequence not in self.rows_of:
            fresh = torch.zeros(self.one_row, dtype=torch.int64)
            self.rows_of[sequence] = self.spare.pop() if self.spare else fresh
        self.rows_of[sequence][: len(table)] = table
        return self.rows_of[sequence][: len(table)]

    def append(self, sequence, k, v):
        super().append(sequence, k, v)
        self.block_table(sequence)

    def free(self, sequence):
        super().free(sequence)
        if sequence in self.rows_of:
            self.spare.append(self.rows_of.pop(sequence))


@mistake(of="PagedKVCache", caught_by=test_pool)
class PoolsMadeAnewWhenEmpty(PlainPagedKVCache):
    """Once the last block has come back, the pools are made anew.

    Whoever holds keys and values looks at those of before. Make the pools once, and write in place.
    """

    def free(self, sequence):
        super().free(sequence)
        if self.free_blocks == self.num_blocks:
            self.keys, self.values = torch.zeros_like(self.keys), torch.zeros_like(self.values)


@mistake(of="PagedKVCache", caught_by=test_cache)
class PlaceCountedFromTheAppend(PlainPagedKVCache):
    """The place in a block is counted from the first token of the append, not of the sequence.

    Token p of the sequence lies at place p % block_size: count on from the length.
    """

    def write(self, rows, k, v):
        size = self.block_size
        super().write([row // size * size + i % size for i, row in enumerate(rows)], k, v)


@mistake(of="PagedKVCache", caught_by=test_pool)
class InfinitiesMadeFinite(PlainPagedKVCache):
    """gather replaces infinite numbers, so that what it gives is not what the pools hold.

    Only the sequence's own places are read, and those as they are.
    """

    def gather(self, sequence):
        return tuple(x.nan_to_num() for x in super().gather(sequence))
