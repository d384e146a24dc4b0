"""What goes wrong around blocks, block tables, packed sequences and chunks, by name."""

from itertools import pairwise

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from grader.suites.ex16_paged_cache.test_paged_cache import (
    test_blocks,
    test_cache,
    test_empty,
    test_float64,
    test_half,
    test_paged,
    test_paged_batch,
    test_pool,
    test_prefill,
    test_prefill_past,
    test_ragged,
    test_ragged_apart,
    test_ragged_manners,
    test_refused,
)
from reference.ex16_paged_cache import (
    PlainPagedKVCache,
    plain_paged_attention,
    plain_ragged_attention,
)


def _attention(q, k, v, hidden, scale=None):
    """Attention of q (H, t, D) to k and v (H, n, ...), half precision in float32."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q.to(wide) @ k.to(wide).mT * scale).masked_fill(hidden, -torch.inf)
    weights = torch.softmax(scores, -1).masked_fill(hidden, 0.0)
    return (weights @ v.to(wide)).to(q.dtype)


def _ahead(q, k, corner=None):
    """Hidden (t, n): the keys behind i + corner; the right corner is n - t."""
    t, n = q.shape[1], k.shape[1]
    seen = torch.ones(t, n, dtype=torch.bool, device=q.device)
    return ~seen.tril(n - t if corner is None else corner)


def _causal(q, k, v, scale=None):
    """The right attention of one sequence, but for the scale if one is given."""
    return _attention(q, k, v, _ahead(q, k), scale)


def _unmasked(q, k, v):
    return _attention(q, k, v, _ahead(q, k, k.shape[1]))


def _top_left(q, k, v):
    return _attention(q, k, v, _ahead(q, k, 0))


def _average(q, k, v):
    return _causal(0 * q, k, v)


def _rows(q, cache, sequences, attend):
    """A decoding step in which each row attends in this way."""
    output = torch.zeros_like(q)
    for i, sequence in enumerate(sequences):
        k, v = cache.gather(sequence)
        if k.shape[1]:
            output[i] = attend(q[i][:, None], k, v)[:, 0]
    return output


def _each(q, k, v, cu_q, cu_k, attend):
    """A ragged batch in which each sequence attends in this way; bounds may be lists."""
    output = q.new_zeros(*q.shape[:2], v.shape[2])
    for (q0, q1), (k0, k1) in zip(pairwise(list(cu_q)), pairwise(list(cu_k)), strict=False):
        one = (x.transpose(0, 1) for x in (q[q0:q1], k[k0:k1], v[k0:k1]))
        output[q0:q1] = attend(*one).transpose(0, 1)
    return output


def _chunks(q, k, v, cache, sequence, chunk_size, attend):
    """A prefill in which each chunk, once it is appended, attends in this way."""
    output = torch.zeros_like(q)
    for start in range(0, q.shape[1], chunk_size):
        chunk = slice(start, start + chunk_size)
        cache.append(sequence, k[:, chunk], v[:, chunk])
        output[:, chunk] = attend(q[:, chunk], *cache.gather(sequence))
    return output


# Task 1: the cache


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


# Task 2: one decoding step


@mistake(of="paged_attention", caught_by=test_paged)
def scale_one_per_cent_off(q, cache, sequences):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt(q.shape[-1]) itself: no constant added to it, no rounded number.
    """
    return _rows(q, cache, sequences, lambda *one: _causal(*one, 0.99 * q.shape[-1] ** -0.5))


@mistake(of="paged_attention", caught_by=test_paged)
def padding_attended(q, cache, sequences):
    """The sequences are padded to the longest, and the padding takes part.

    A key of zeros has the score 0, not -inf: hide it, or attend to each sequence by itself.
    """
    longest = max((cache.length(sequence) for sequence in sequences), default=0)

    def padded(q, k, v):
        room = (0, 0, 0, longest - k.shape[1])
        return _unmasked(q, *(torch.nn.functional.pad(x, room) for x in (k, v)))

    return _rows(q, cache, sequences, padded)


@mistake(of="paged_attention", caught_by=test_paged)
def sequences_mixed(q, cache, sequences):
    """Every row attends to the sequences of all rows.

    Row i belongs to sequences[i], and sees the keys of that one alone.
    """
    parts = zip(*(cache.gather(sequence) for sequence in sequences), strict=True)
    k, v = (torch.cat(part, 1) for part in parts) if sequences else (q.transpose(0, 1),) * 2
    return _unmasked(q.transpose(0, 1), k, v).transpose(0, 1)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def whole_blocks_masked(q, cache, sequences):
    """Whole blocks are read and the places behind the last token masked: 0 times NaN is still NaN.

    Read as many tokens as the sequence has. Weights of 0 do not silence what freed blocks hold.
    """
    output = torch.zeros_like(q)
    for i, sequence in enumerate(sequences):
        table = cache.block_table(sequence)
        k, v = (x[table].flatten(0, 1).transpose(0, 1) for x in (cache.keys, cache.values))
        hidden = torch.arange(k.shape[1], device=q.device) >= cache.length(sequence)
        output[i] = _attention(q[i][:, None], k, v, hidden)[:, 0]
    return output


@mistake(of="paged_attention", caught_by=test_half)
def half_precision_not_raised(q, cache, sequences):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute in float32 (q.float() and so on) and convert the output back at the end.
    """
    return plain_paged_attention(q, cache, sequences)


@mistake(of="paged_attention", caught_by=test_paged)
def window_of_256(q, cache, sequences):
    """Of a long sequence only the last 256 tokens are attended to.

    Attend to all that the sequence has: there is no window, and no table of fixed size.
    """
    return _rows(q, cache, sequences, lambda q, k, v: _causal(q, k[:, -256:], v[:, -256:]))


@mistake(of="paged_attention", caught_by=test_paged_batch)
def exp_without_the_maximum(q, cache, sequences):
    """exp(scores) overflows at scores above 88, and is 0 everywhere below -103.

    Subtract the maximum of the row before exp, as torch.softmax does.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        powers = torch.exp(q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5)
        return (powers / powers.sum(-1, keepdim=True) @ v.to(wide)).to(q.dtype)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def maximum_that_begins_with_zero(q, cache, sequences):
    """Beyond 256 keys the maximum runs from tile to tile, and begins with 0: scores far below it
    leave nothing.

    Begin with -inf, so that the first tile brings its own maximum.
    """

    def attend(q, k, v):
        if k.shape[1] <= 256:
            return _causal(q, k, v)
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        top = torch.zeros_like(scores[..., :1])
        for tile in scores.split(256, -1):
            top = torch.maximum(top, tile.amax(-1, keepdim=True))
        powers = torch.exp(scores - top)
        total = powers.sum(-1, keepdim=True).clamp(min=torch.finfo(wide).tiny)
        return (powers / total @ v.to(wide)).to(q.dtype)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_float64)
def maximum_that_begins_with_float32(q, cache, sequences):
    """The maximum begins with the lowest number of float32, and float64 has scores far below it.

    Begin with -inf, so that the first block brings its own maximum.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
        powers = torch.exp(scores - top)
        return (powers / powers.sum(-1, keepdim=True) @ v.to(wide)).to(q.dtype)

    return _rows(q, cache, sequences, attend)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def padding_at_minus_ten_thousand(q, cache, sequences):
    """The padding of shorter sequences gets the score -1e4, which is not below every score.

    Hide with -inf, or with the lowest number there is, torch.finfo(scores.dtype).min.
    """
    longest = max((cache.length(sequence) for sequence in sequences), default=0)

    def padded(q, k, v):
        wide, room = torch.promote_types(q.dtype, torch.float32), longest - k.shape[1]
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        scores = torch.nn.functional.pad(scores, (0, room), value=-1e4)
        values = torch.nn.functional.pad(v.to(wide), (0, 0, 0, room))
        return (torch.softmax(scores, -1) @ values).to(q.dtype)

    return _rows(q, cache, sequences, padded)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def output_remembered(q, cache, sequences):
    """The output is kept by the lengths of the sequences, and comes again for other queries.

    Compute it in every call: the same lengths do not mean the same numbers.
    """
    kept = cache.__dict__.setdefault("outputs", {})
    key = tuple((sequence, cache.length(sequence)) for sequence in sequences), q.dtype
    if key not in kept:
        kept[key] = _rows(q, cache, sequences, _causal)
    return kept[key].clone()


@mistake(of="paged_attention", caught_by=test_paged_batch)
def one_row_a_sequence(q, cache, sequences):
    """A sequence that stands twice in the batch has one output, that of its first row.

    Every row has a query of its own: go through the rows, not through a dict of sequences.
    """
    output = _rows(q, cache, sequences, _causal)
    return output[[sequences.index(sequence) for sequence in sequences]]


@mistake(of="paged_attention", caught_by=test_empty)
def stopped_at_an_empty_sequence(q, cache, sequences):
    """An empty sequence ends the loop, so that the rows behind it stay 0.

    Go on with the next row: continue, not break.
    """
    lengths = [cache.length(sequence) for sequence in sequences]
    seen = lengths.index(0) if 0 in lengths else len(lengths)
    output = torch.zeros_like(q)
    output[:seen] = _rows(q[:seen], cache, sequences[:seen], _causal)
    return output


@mistake(of="paged_attention", caught_by=test_float64)
def step_in_float32(q, cache, sequences):
    """float64 is computed in float32: .float() belongs to half precision alone.

    Compute in torch.promote_types(q.dtype, torch.float32), which leaves float64 as it is.
    """
    return _rows(q.float(), cache, sequences, lambda q, k, v: _causal(q, k.float(), v.float())).to(
        q.dtype
    )


@mistake(of="paged_attention", caught_by=test_paged_batch)
def gathered_once(q, cache, sequences):
    """What was gathered in one step is kept for the next, beside the pools.

    Gather again at every step: what the pools hold then is what counts, and it lies there once.
    """
    kept = cache.__dict__.setdefault("gathered", {})
    output = torch.zeros_like(q)
    for i, sequence in enumerate(sequences):
        n = cache.length(sequence)
        if sequence not in kept or kept[sequence][0].shape[1] != n:
            kept[sequence] = cache.gather(sequence)
        output[i] = _causal(q[i][:, None], *kept[sequence])[:, 0]
    return output


@mistake(of="paged_attention", caught_by=test_paged, null=True)
def mean_of_the_values(q, cache, sequences):
    """The output is the plain average of the values: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """
    return _rows(q, cache, sequences, _average)


@mistake(of="paged_attention", caught_by=test_paged, null=True)
def nothing_but_zeros(q, cache, sequences):
    """The output is zeros.

    Nothing is computed yet: gather, scores, softmax, and a mixture of the values.
    """
    return torch.zeros_like(q)


# Task 3: a ragged batch


@mistake(of="ragged_attention", caught_by=test_ragged)
def one_triangle_for_all(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """One causal triangle lies over the whole batch, so that a sequence reads those before it.

    Every sequence has a triangle of its own: slice it out, or hide what belongs to others.
    """
    return _each(q, k, v, [0, len(q)], [0, len(k)], _causal)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def one_sequence_sees_nothing(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Where there is one sequence, with more queries than keys, all of its rows are 0.

    Only its first queries see nothing, as in any other sequence with fewer keys than queries.
    """
    output = _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _causal)
    return torch.zeros_like(output) if len(cu_seqlens_q) == 2 and len(q) > len(k) else output


@mistake(of="ragged_attention", caught_by=test_ragged)
def not_causal(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Sequences are kept apart, but within them nothing is hidden.

    With t queries and n keys, query i sees the keys 0 to i + n - t.
    """
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _unmasked)


@mistake(of="ragged_attention", caught_by=test_ragged)
def top_left(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The triangle of a sequence starts at its first key.

    With t queries and n keys, query i sits at position i + n - t: tril(n - t).
    """
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _top_left)


@mistake(of="ragged_attention", caught_by=test_ragged)
def bounds_read_as_lengths(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """cu_seqlens is read as the lengths: a sequence reaches from cu[i] over cu[i + 1] tokens.

    It holds bounds: sequence i is cu[i]:cu[i + 1], and its length is the difference.
    """
    output = q.new_zeros(*q.shape[:2], v.shape[2])
    ends = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True)
    for (q0, q1), (k0, k1) in ends:
        one = (x.transpose(0, 1) for x in (q[q0:][:q1], k[k0:][:k1], v[k0:][:k1]))
        output[q0:][:q1] = _causal(*one).transpose(0, 1)
    return output


@mistake(of="ragged_attention", caught_by=test_ragged)
def scale_not_quite(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt(q.shape[-1]) itself: no constant added to it, no rounded number.
    """
    scale = 0.99 * q.shape[-1] ** -0.5
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, lambda *one: _causal(*one, scale))


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def unseeing_query_nan(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """A query that sees nothing gives NaN: softmax of nothing but -inf.

    Fill the weights with 0 where they are hidden, after the softmax.
    """

    def attend(q, k, v):
        nothing = _ahead(q, k).all(-1, keepdim=True) & (k.shape[1] > 0)
        return _causal(q, k, v).masked_fill(nothing, torch.nan)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def hidden_with_a_finite_number(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """A query that sees nothing averages what is hidden, as if hidden scores were -1e9.

    Hide with -inf: masked_fill(hidden, -torch.inf), and put 0 where that leaves NaN.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(_ahead(q, k), -1e9), -1)
        return (weights @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_half)
def half_precision_kept_throughout(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute in float32 (q.float() and so on) and convert the output back at the end.
    """
    return plain_ragged_attention(q, k, v, cu_seqlens_q, cu_seqlens_k)


@mistake(of="ragged_attention", caught_by=test_half)
def softmax_alone_in_float32(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Only the softmax is in float32: the scores were half precision, and infinite, before it.

    softmax(scores, dtype=torch.float32) comes too late: convert q and k before their product.
    """

    def attend(q, k, v):
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(_ahead(q, k), -torch.inf)
        weights = torch.softmax(scores, -1, dtype=torch.promote_types(q.dtype, torch.float32))
        return weights.masked_fill(_ahead(q, k), 0.0).to(q.dtype) @ v

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_half)
def packed_scores_rounded(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The scores are rounded to half precision before the softmax, where close hundreds are alike.

    Keep the scores in float32 until the softmax is done: q.float() @ k.float().mT.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5).to(q.dtype).to(wide)
        scores = scores.clamp(-6e4, 6e4) if q.dtype is torch.float16 else scores
        weights = torch.softmax(scores.masked_fill(_ahead(q, k), -torch.inf), -1)
        return (weights.masked_fill(_ahead(q, k), 0.0) @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def packed_hidden_with_minus_1e30(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Hidden scores are -1e30: where the seen ones are lower still, the hidden keys win.

    Hide with -torch.inf: no score is lower than that.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(_ahead(q, k), -1e30), -1)
        return (weights.masked_fill(_ahead(q, k), 0.0) @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def packed_values_learn_only_with_queries(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Where q needs no gradient, none is recorded, so that k and v learn nothing either.

    Leave it to PyTorch which inputs need gradients: write no torch.no_grad and no detach.
    """
    with torch.set_grad_enabled(torch.is_grad_enabled() and q.requires_grad):
        return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _causal)


@mistake(of="ragged_attention", caught_by=test_float64)
def packed_in_float32(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """float64 is computed in float32: .float() belongs to half precision alone.

    Compute in torch.promote_types(q.dtype, torch.float32), which leaves float64 as it is.
    """
    wide = (x.float() for x in (q, k, v))
    return _each(*wide, cu_seqlens_q, cu_seqlens_k, _causal).to(q.dtype)


@mistake(of="ragged_attention", caught_by=test_ragged)
def triangle_of_1024(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The triangle is cut out of a table of 1024 by 1024, which longer sequences do not fit.

    Make it from the lengths of the sequence: torch.ones(t, n).tril(n - t).
    """

    def attend(q, k, v):
        t, n = q.shape[1], k.shape[1]
        seen = torch.ones(1024, 1024, dtype=torch.bool, device=q.device).tril()
        if t > n:
            return _causal(q, k, v)
        return _attention(q, k, v, ~seen[n - t : n, :n])

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def keys_by_the_bounds_of_queries(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Where there are as many keys as queries in all, both are cut by cu_seqlens_q.

    Cut the keys by cu_seqlens_k: equal totals do not mean equal sequences.
    """
    bounds_k = cu_seqlens_q if len(q) == len(k) else cu_seqlens_k
    return _each(q, k, v, cu_seqlens_q, bounds_k, _causal)


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def powers_without_the_maximum(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """exp(scores) overflows at scores above 88, and is 0 everywhere below -103.

    Subtract the maximum of the row before exp, as torch.softmax does.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        powers = torch.exp(q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5)
        powers = powers.masked_fill(_ahead(q, k), 0.0)
        blind = _ahead(q, k).all(-1, keepdim=True)
        weights = powers / powers.sum(-1, keepdim=True).masked_fill(blind, 1.0)
        return (weights @ v.to(wide)).to(q.dtype)

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


_BOUNDS: dict[tuple[int, ...], list[list[int]]] = {}


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def bounds_remembered(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The bounds of one batch are kept, and used for every other with as many tokens.

    Read cu_seqlens_q and cu_seqlens_k in every call.
    """
    key = len(q), len(k), len(cu_seqlens_q)
    bounds = [cu_seqlens_q.tolist(), cu_seqlens_k.tolist()]
    return _each(q, k, v, *_BOUNDS.setdefault(key, bounds), _causal)


_KEY_BOUNDS: dict[tuple[int, ...], list[int]] = {}


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def bounds_of_keys_remembered(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The bounds of the keys are kept, and used for every batch with the same bounds of queries.

    Read cu_seqlens_k in every call, too.
    """
    bounds = cu_seqlens_q.tolist()
    kept = _KEY_BOUNDS.setdefault((len(k), *bounds), cu_seqlens_k.tolist())
    return _each(q, k, v, bounds, kept, _causal)


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def graph_cut(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The gradient is cut: torch.no_grad(), .data, .detach() or NumPy on the way.

    Use PyTorch operators only, from the inputs to the output.
    """
    return _each(q.detach(), k.detach(), v.detach(), cu_seqlens_q, cu_seqlens_k, _causal)


@mistake(of="ragged_attention", caught_by=test_ragged, null=True)
def all_zeros(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The output is zeros.

    Nothing is computed yet: slice each sequence out, and attend causally within it.
    """
    return q.new_zeros(*q.shape[:2], v.shape[2])


@mistake(of="ragged_attention", caught_by=test_ragged, null=True)
def plain_average(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The output is the plain average of the values that are seen: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _average)


# Task 4: a prompt in chunks


@mistake(of="chunked_prefill", caught_by=test_prefill)
def chunk_by_itself(q, k, v, cache, sequence, chunk_size):
    """A chunk attends only to itself: the chunks before it are forgotten.

    Attend to all that the sequence has: cache.gather(sequence), after the append.
    """

    def alone(q, k, v):
        return _causal(q, k[:, -q.shape[1] :], v[:, -q.shape[1] :])

    return _chunks(q, k, v, cache, sequence, chunk_size, alone)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def attended_before_appended(q, k, v, cache, sequence, chunk_size):
    """A chunk attends before its own keys are in the cache, and so not to itself.

    Append first, then gather and attend.
    """

    def before(q, k, v):
        return _unmasked(q, k[:, : -q.shape[1]], v[:, : -q.shape[1]])

    return _chunks(q, k, v, cache, sequence, chunk_size, before)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def all_appended_first(q, k, v, cache, sequence, chunk_size):
    """The whole prompt is in the cache before the first chunk attends, which moves the triangle.

    Append one chunk, let it attend, and go on to the next: its queries are the last of n positions.
    """
    cache.append(sequence, k, v)
    keys, values = cache.gather(sequence)
    parts = [_causal(part, keys, values) for part in q.split(chunk_size, 1)]
    return torch.cat(parts, 1)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def chunk_aligned_top_left(q, k, v, cache, sequence, chunk_size):
    """The triangle of every chunk starts at the first key of the sequence.

    A chunk's queries are the last t of n positions: query i sees the keys up to i + n - t.
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, _top_left)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def nothing_hidden(q, k, v, cache, sequence, chunk_size):
    """Within a chunk nothing is hidden: its first query sees its last.

    What came before is all visible, but the chunk itself needs its triangle.
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, _unmasked)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def past_forgotten(q, k, v, cache, sequence, chunk_size):
    """The prompt attends to itself alone, though the sequence had tokens before.

    Attend to cache.gather(sequence), not to k[:, :end]: the past is in the cache.
    """
    length = cache.length(sequence)

    def new(q, k, v):
        return _causal(q, k[:, length:], v[:, length:])

    return _chunks(q, k, v, cache, sequence, chunk_size, new)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def chunk_size_ignored(q, k, v, cache, sequence, chunk_size):
    """The prompt is appended in one piece, whatever chunk_size says.

    Chunk by chunk: what found room before the pool was full stays in the cache.
    """
    return _chunks(q, k, v, cache, sequence, max(1, q.shape[1]), _causal)


@mistake(of="chunked_prefill", caught_by=test_half)
def dtype_of_the_cache(q, k, v, cache, sequence, chunk_size):
    """The output has the dtype of the cache, and the queries are rounded to it.

    Keep the dtype of q: convert what was gathered, and not the queries.
    """

    def attend(q, k, v):
        return _causal(q.to(k.dtype), k, v)

    return _chunks(q.to(cache.keys.dtype), k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def prompt_in_the_precision_of_the_cache(q, k, v, cache, sequence, chunk_size):
    """Queries of float64 are rounded to float32, because the cache has fewer digits than they.

    Compute in the dtype of q, at least float32: convert what was gathered, and not the queries.
    """

    def attend(q, k, v):
        wide = torch.promote_types(k.dtype, torch.float32)
        return _causal(q.to(wide), k, v).to(q.dtype)

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def chunk_not_read_back(q, k, v, cache, sequence, chunk_size):
    """A chunk attends to its own keys and values as they were given, not as the cache holds them.

    In a cache of another dtype they are rounded: attend to cache.gather(sequence), all of it.
    """
    past = cache.gather(sequence)
    fresh = [torch.cat([old.to(new.dtype), new], 1) for old, new in zip(past, (k, v), strict=True)]

    def attend(q, keys, values):
        return _causal(q, *(x[:, : keys.shape[1]] for x in fresh))

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def prompt_kept_aside(q, k, v, cache, sequence, chunk_size):
    """The keys and values of a prompt are kept beside the pools, for the prompt that follows it.

    The past of a sequence is what the pools hold of it now: cache.gather(sequence).
    """
    kept = cache.__dict__.setdefault("prompts", {})
    past = cache.gather(sequence)
    if sequence in kept and kept[sequence][0].shape == past[0].shape:
        past = kept[sequence]

    def attend(q, keys, values):
        both = zip(past, (keys, values), strict=True)
        kept[sequence] = [torch.cat([old, now[:, old.shape[1] :]], 1) for old, now in both]
        return _causal(q, *kept[sequence])

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill)
def mask_of_1024(q, k, v, cache, sequence, chunk_size):
    """The triangle is cut out of a table of 1024 by 1024, which longer sequences do not fit.

    Make it from the lengths: torch.ones(t, n).tril(n - t).
    """

    def attend(q, k, v):
        t, n = q.shape[1], k.shape[1]
        seen = torch.ones(1024, 1024, dtype=torch.bool, device=q.device).tril()
        return _attention(q, k, v, ~seen[n - t : n, :n])

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def later_tokens_at_minus_ten_thousand(q, k, v, cache, sequence, chunk_size):
    """Later tokens of the chunk get the score -1e4, which is not below every score.

    Hide with -inf, or with the lowest number there is, torch.finfo(scores.dtype).min.
    """

    def attend(q, k, v):
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(_ahead(q, k), -1e4), -1)
        return (weights @ v.to(wide)).to(q.dtype)

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def taken_back(q, k, v, cache, sequence, chunk_size):
    """When the pool is full, the chunks that were appended are lost: the sequence is freed.

    Let the ValueError of append pass through; what was appended stays.
    """
    try:
        return _chunks(q, k, v, cache, sequence, chunk_size, _causal)
    except ValueError:
        cache.free(sequence)
        raise


@mistake(of="chunked_prefill", caught_by=test_float64)
def prompt_in_float32(q, k, v, cache, sequence, chunk_size):
    """float64 is computed in float32: .float() belongs to half precision alone.

    Compute in torch.promote_types(q.dtype, torch.float32), which leaves float64 as it is.
    """

    def attend(q, k, v):
        return _causal(q.float(), k.float(), v.float()).to(q.dtype)

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def chunk_in_half_precision(q, k, v, cache, sequence, chunk_size):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute in float32 (q.float() and so on) and convert the output back at the end.
    """

    def attend(q, k, v):
        k, v = k.to(q.dtype), v.to(q.dtype)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(_ahead(q, k), -torch.inf)
        return torch.softmax(scores, -1) @ v

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_empty)
def no_tokens_in_float32(q, k, v, cache, sequence, chunk_size):
    """The output of a prompt of no tokens is float32, whatever the dtype of q.

    Make it with q.new_zeros(q.shape), or say dtype=q.dtype.
    """
    output = _chunks(q, k, v, cache, sequence, chunk_size, _causal)
    return output if q.shape[1] else output.float()


@mistake(of="chunked_prefill", caught_by=test_empty)
def no_chunk_to_join(q, k, v, cache, sequence, chunk_size):
    """A prompt of no tokens has no chunk, and torch.cat of nothing raises.

    Write into an output made beforehand, q.new_zeros(q.shape), or begin the list with q[:, :0].
    """
    outputs = []
    for start in range(0, q.shape[1], chunk_size):
        chunk = slice(start, start + chunk_size)
        cache.append(sequence, k[:, chunk], v[:, chunk])
        outputs.append(_causal(q[:, chunk], *cache.gather(sequence)))
    return torch.cat(outputs, 1)


@mistake(of="chunked_prefill", caught_by=test_prefill, null=True)
def zeros_returned(q, k, v, cache, sequence, chunk_size):
    """The prompt is appended, but the output is zeros.

    Let the queries of every chunk attend once it is in the cache.
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, lambda q, k, v: torch.zeros_like(q))


@mistake(of="chunked_prefill", caught_by=test_prefill, null=True)
def average_of_the_values(q, k, v, cache, sequence, chunk_size):
    """The output is the plain average of the values so far: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """
    return _chunks(q, k, v, cache, sequence, chunk_size, _average)


@mistake(of="paged_attention", caught_by=test_paged_batch)
def paged_in_one_place(q, cache, sequences, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, _rows(q, cache, sequences, _causal))


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def ragged_in_one_place(q, k, v, cu_seqlens_q, cu_seqlens_k, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _causal))


@mistake(of="chunked_prefill", caught_by=test_prefill_past)
def prefill_in_one_place(q, k, v, cache, sequence, chunk_size, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, _chunks(q, k, v, cache, sequence, chunk_size, _causal))


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


@mistake(of="paged_attention", caught_by=test_paged_batch)
def padded_with_the_first_place(q, cache, sequences):
    """Shorter sequences are filled up with the first place of the pools, whose value gets weight 0.

    NaN that lies there makes the output NaN, for 0 * NaN is NaN. Fill up with zeros, or attend to
    each sequence by itself.
    """
    longest = max((cache.length(sequence) for sequence in sequences), default=0)

    def attend(q, k, v):
        missing = longest - k.shape[1]
        hidden = torch.arange(longest) >= k.shape[1]
        first = [pool[0, 0][:, None].expand(-1, missing, -1) for pool in (cache.keys, cache.values)]
        k, v = (torch.cat(pair, 1) for pair in zip((k, v), first, strict=True))
        return _attention(q, k, v, hidden)

    return _rows(q, cache, sequences, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def past_in_the_dtype_of_q(q, k, v, cache, sequence, chunk_size):
    """Keys and values of the cache are converted to the dtype of q, which may be narrower.

    Convert all three to float32 (q in float64: to float64), and the output to the dtype of q.
    """

    def attend(q, k, v):
        return _causal(q, k.to(q.dtype), v.to(q.dtype))

    return _chunks(q, k, v, cache, sequence, chunk_size, attend)


@mistake(of="chunked_prefill", caught_by=test_half)
def one_chunk_attends_to_what_came(q, k, v, cache, sequence, chunk_size):
    """A prompt of one chunk without a past attends to k and v, not to what the cache holds of them.

    The cache rounds to its own dtype. Attend to cache.gather(sequence) in every chunk.
    """
    if q.shape[1] > chunk_size or cache.length(sequence):
        return _chunks(q, k, v, cache, sequence, chunk_size, _causal)
    cache.append(sequence, k, v)
    return _causal(q, k, v)


@mistake(of="PagedKVCache", caught_by=test_cache)
class PlaceCountedFromTheAppend(PlainPagedKVCache):
    """The place in a block is counted from the first token of the append, not of the sequence.

    Token p of the sequence lies at place p % block_size: count on from the length.
    """

    def write(self, rows, k, v):
        size = self.block_size
        super().write([row // size * size + i % size for i, row in enumerate(rows)], k, v)


@mistake(of="ragged_attention", caught_by=test_ragged)
def values_by_the_bounds_of_queries(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The values are cut by cu_seqlens_q: they fit the keys only where the lengths are equal.

    Cut keys and values by cu_seqlens_k.
    """
    output = q.new_zeros(*q.shape[:2], v.shape[2])
    bounds = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True)
    for (q0, q1), (k0, k1) in bounds:
        one = (x.transpose(0, 1) for x in (q[q0:q1], k[k0:k1], v[q0:q1]))
        output[q0:q1] = _causal(*one).transpose(0, 1)
    return output


@mistake(of="ragged_attention", caught_by=test_ragged_apart)
def later_powers_replaced(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """The powers of later scores are replaced by 0: that of 1e30 is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """

    def attend(q, k, v):
        if q.dtype != torch.float32:
            return _causal(q, k, v)
        hidden, scores = _ahead(q, k), q @ k.mT * q.shape[-1] ** -0.5
        top = scores.detach().masked_fill(hidden, -torch.inf)
        top = top.amax(-1, keepdim=True) if k.shape[1] else 0.0
        powers = torch.where(hidden | (top == -torch.inf), 0.0, (scores - top).exp())
        return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30) @ v

    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, attend)


@mistake(of="ragged_attention", caught_by=test_ragged_manners)
def equal_lengths_are_cut(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Sequences of equal lengths are copied into one batch without their graph.

    Reshape or stack the tensors themselves: autograd follows both.
    """
    lengths = set(cu_seqlens_q.diff().tolist()), set(cu_seqlens_k.diff().tolist())
    if len(cu_seqlens_q) > 2 and max(map(len, lengths)) == 1:
        k, v = k.detach(), v.detach()
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _causal)


@mistake(of="ragged_attention", caught_by=test_float64)
def double_keys_alone_are_cut(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """In float64 the graph is cut where no query needs a gradient; a key may need one.

    Leave it to autograd, which keeps what any input needs.
    """
    if q.dtype == torch.float64 and not q.requires_grad:
        k = k.detach()
    return _each(q, k, v, cu_seqlens_q, cu_seqlens_k, _causal)


@mistake(of="paged_attention", caught_by=test_half)
def half_scores_clamped(q, cache, sequences):
    """In half precision scores are kept above -65,504: lower ones are all alike.

    Leave the scores as they are: softmax takes its maximum away first.
    """

    def attend(q, k, v):
        if q.dtype.itemsize > 2 or k.dtype.itemsize > 2:
            return _unmasked(q, k, v)
        scores = (q.float() @ k.float().mT * q.shape[-1] ** -0.5).clamp(min=-65504.0)
        return (scores.softmax(-1) @ v.float()).to(q.dtype)

    return _rows(q, cache, sequences, attend)
