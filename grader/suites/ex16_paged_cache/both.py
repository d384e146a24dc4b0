"""Feeds the student's cache and the oracle's alike, and compares them."""

from itertools import accumulate

import torch
from torch import float32, int32

from grader.judging import agree, expect, rejects, same, untouched
from reference import ex16_paged_cache as reference

POOLS = "keys", "values"


class Both:
    """The student's cache beside the oracle's; `there` maps the student's sequence numbers."""

    def __init__(self, student, device, *sizes):
        self.sizes, self.dtype, self.device = sizes[:4], (*sizes, float32)[4], device
        self.cache = student.PagedKVCache(*sizes, device=device)
        self.right = reference.PagedKVCache(*sizes, device=device)
        self.there, self.gone, self.tables = {}, [], {}

    def add(self):
        number = self.cache.add()
        new = number not in self.there and number not in self.gone
        expect(new, f"sequence is {number}, but should be a number that no other has had")
        self.there[number] = self.right.add()
        return number

    def append(self, number, k, v):
        untouched(lambda: self.cache.append(number, k, v))
        self.right.append(self.there[number], k, v)

    def grow(self, draw, number, t):
        """Append t tokens to a sequence."""
        _, _, heads, width = self.sizes
        self.append(number, *pair(draw, heads, t, width, self.dtype))

    def spoil(self):
        """Leave NaN in every block of the pools."""
        blocks, size, heads, width = self.sizes
        number, shape = self.add(), (heads, blocks * size, width)
        nothing = torch.full(shape, torch.nan, dtype=self.dtype, device=self.device)
        self.append(number, nothing, nothing)
        self.free(number)
        return number

    def fill(self, draw, lengths):
        """Add sequences of these lengths, appended in turn, so that their blocks alternate."""
        numbers = [self.add() for _ in lengths]
        for parts in ([n // 2 for n in lengths], [n - n // 2 for n in lengths]):
            for number, t in zip(numbers, parts, strict=True):
                if t:
                    self.grow(draw, number, t)
        return numbers

    def overwrite(self, draw):
        """Write other numbers into the place of every token, and NaN into all other places."""
        self.count()
        pools = [draw.normal(*self.sizes, dtype=self.dtype) for _ in POOLS]
        nobodys = torch.ones(self.sizes[:2], dtype=torch.bool, device=self.device)
        for number in self.there:
            nobodys[self._places(number)] = False
        for name, pool in zip(POOLS, pools, strict=True):
            pool[nobodys] = torch.nan
            getattr(self.cache, f"{name}.copy_")(pool)
        for number, right in self.there.items():
            self.right.overwrite(right, *self._read(number, pools))

    def free_ends(self):
        """Free the sequences that hold the first and the last block; return the others."""
        self.count()
        ends = {0, self.sizes[0] - 1}
        for number in [n for n, table in self.tables.items() if ends & set(table)]:
            self.free(number)
        return list(self.there)

    def free(self, number):
        self.cache.free(number)
        self.right.free(self.there.pop(number))
        self.gone.append(number)
        self.tables.pop(number, None)

    def refuses(self, number, k, v):
        """Check that all methods refuse an unknown sequence number, and pools do not change."""
        cache = self.cache
        for new in ((k, v), (k[:, :0], v[:, :0])):
            self.unwritten(lambda new=new: rejects(lambda: cache.append(number, *new), number))
        for method in (cache.gather, cache.length, cache.block_table, cache.free):
            rejects(lambda ask=method: ask(number), number)

    def step(self, q, numbers):
        return reference.paged_attention(q, self.right, [self.there[n] for n in numbers])

    def prefill(self, q, k, v, number, chunk_size):
        return reference.chunked_prefill(q, k, v, self.right, self.there[number], chunk_size)

    def steps(self, draw, student, numbers, says="output"):
        """Compare a decoding step of these sequences; twice, with other queries."""
        q = draw.normal(len(numbers), *self.sizes[2:], dtype=self.dtype)
        for _ in range(2):
            agree(student.paged_attention(q, self.cache, numbers), self.step(q, numbers), says=says)
            q.neg_()

    def agree(self, *numbers, when=""):
        """Compare the contents of these sequences (of all, if none is named)."""
        for number in numbers or self.there:
            right = self.there[number]
            for name, got, expected in zip(
                "kv", self.cache.gather(number), self.right.gather(right), strict=True
            ):
                agree(got, expected, says=when and f"{when}, {name}")
            same(self.cache.length(number), self.right.length(right))

    def agree_pools(self):
        """Compare every token in the pools, at its place by the table of its sequence."""
        self.count()
        for i, (name, pool) in enumerate(zip(POOLS, self.cache.read_each(POOLS), strict=True)):
            for number, right in self.there.items():
                [got], expected = self._read(number, [pool]), self.right.gather(right)[i]
                agree(got, expected, says=f"in {name}, by the block table, {name[0]}")

    def unwritten(self, call):
        """Make a call, and fail if the pools hold other numbers afterwards."""
        before = list(self.cache.read_each(POOLS))
        call()
        for name, held, now in zip(POOLS, before, self.cache.read_each(POOLS), strict=True):
            same(now, held, says=f"after a refused append, {name}")

    def stay(self, call):
        """Make a call, and fail if the pools lie elsewhere in memory afterwards."""
        before = [self._address(name) for name in POOLS]
        call()
        for name, then in zip(POOLS, before, strict=True):
            now = self._address(name)
            stays = {type(then), type(now)} == {int} and then == now
            moved = f"cache.{name} moved to other memory"
            expect(stays, f"{moved}, but should be written in place")

    def _address(self, name):
        return getattr(self.cache, f"{name}.data_ptr")()

    def _read(self, number, pools):
        """Read a sequence, whose blocks have been counted, from these pools, (H, n, D) each."""
        return [pool[self._places(number)].transpose(0, 1) for pool in pools]

    def _places(self, number):
        """Return the blocks of a sequence's tokens, and their places in these."""
        token = torch.arange(self.right.length(self.there[number]))
        table = torch.tensor(self.tables[number], dtype=torch.int64)
        return table[token // self.sizes[1]], token % self.sizes[1]

    def count(self):
        """Check that each block is in one table or free, and no table has too many blocks."""
        same(self.cache.free_blocks, self.right.free_blocks)
        for number, right in self.there.items():
            table, before = self._table(number), self.tables.get(number, [])
            needs = self.right.blocks(right)
            says = f"the number of blocks is {len(table)}, but should be {needs}"
            expect(len(table) == needs, f"{says} for {self.right.length(right)} tokens")
            same(table[: len(before)], before, says=f"blocks[:{len(before)}] after another append")
            self.tables[number] = table
        held = sorted(block for table in self.tables.values() for block in table)
        different = len(set(held))
        says = f"the number of different blocks in all tables is {different}"
        expect(different == len(held), f"{says}, but should be {len(held)}")
        inside = not held or 0 <= held[0] <= held[-1] < self.sizes[0]
        expect(inside, f"blocks is {held}, but should be numbers from 0 to {self.sizes[0] - 1}")

    def _table(self, number):
        if not self.right.length(self.there[number]):  # its dtype has a check of its own
            return self.cache.block_table(number).tolist()
        return self.whole(number)

    def whole(self, number):
        """Return the table of a sequence; fail if the table is not int64."""
        table = self.cache.block_table(number)
        dtype = str(table.dtype).removeprefix("torch.")
        expect(dtype == "int64", f"blocks.dtype is {dtype}, but should be int64")
        return table.tolist()


def pair(draw, heads, t, width, dtype=float32):
    """Draw keys and values of t tokens."""
    return draw.normal(heads, t, width, dtype=dtype), draw.normal(heads, t, width, dtype=dtype)


def packed(draw, device, q_lens, k_lens, heads, width, value_width, dtype=float32, whole=int32):
    """Draw q, k and v of sequences laid end to end; return these and the sequences' bounds."""
    tokens = (sum(q_lens), width), (sum(k_lens), width), (sum(k_lens), value_width)
    given = [draw.normal(t, heads, d, dtype=dtype) for t, d in tokens]
    for lens in (q_lens, k_lens):
        given.append(torch.tensor([0, *accumulate(lens)], dtype=whole, device=device))
    return given


def scored(draw, heads, n, width):
    """Draw hard scores: return queries (H, n, D) that are all alike, and keys (H, n, D) by kind.
    Their products, less the scale, are the scores to the last bit (D is 4 or 16).
    """
    q, found = torch.zeros(heads, n, width), {}
    q[..., 0] = width**0.5
    scores = draw.scores(heads, n)
    low = torch.full_like(scores["falling"], -1e5)  # so low that -1e4 would hide nothing beside it
    for name, wanted in (scores | {"low": low}).items():
        found[name] = draw.normal(heads, n, width)
        found[name][..., 0] = wanted
    return q.to(low), found
