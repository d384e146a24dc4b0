"""The student's cache and the oracle's, fed alike."""

import torch
from torch import float32

from grader.judging import agree, expect, same, untouched
from reference import ex16_paged_cache as reference


class Both:
    """The student's cache and, beside it, the oracle's; `there` maps the numbers of sequences."""

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
        """Append t tokens."""
        _, _, heads, width = self.sizes
        self.append(number, *pair(draw, heads, t, width, self.dtype))

    def spoil(self):
        """Leave NaN in every block."""
        blocks, size, heads, width = self.sizes
        number, shape = self.add(), (heads, blocks * size, width)
        nothing = torch.full(shape, torch.nan, dtype=self.dtype, device=self.device)
        self.append(number, nothing, nothing)
        self.free(number)
        return number

    def fill(self, draw, lengths):
        """New sequences of these lengths, appended in turn, so that their blocks alternate."""
        numbers = [self.add() for _ in lengths]
        for parts in ([n // 2 for n in lengths], [n - n // 2 for n in lengths]):
            for number, t in zip(numbers, parts, strict=True):
                if t:
                    self.grow(draw, number, t)
        return numbers

    def free(self, number):
        self.cache.free(number)
        self.right.free(self.there.pop(number))
        self.gone.append(number)
        self.tables.pop(number, None)

    def step(self, q, numbers):
        return reference.paged_attention(q, self.right, [self.there[n] for n in numbers])

    def prefill(self, q, k, v, number, chunk_size):
        return reference.chunked_prefill(q, k, v, self.right, self.there[number], chunk_size)

    def agree(self, *numbers, when=""):
        """These sequences (all, if none is named) hold what they should."""
        for number in numbers or self.there:
            right = self.there[number]
            for name, got, expected in zip(
                "kv", self.cache.gather(number), self.right.gather(right), strict=True
            ):
                agree(got, expected, says=when and f"{when}, {name}")
            same(self.cache.length(number), self.right.length(right))

    def count(self):
        """Every block is in one table or free, and no table has more of them than it needs."""
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
        table = self.cache.block_table(number)
        dtype = str(table.dtype).removeprefix("torch.")
        expect(dtype == "int64", f"blocks.dtype is {dtype}, but should be int64")
        return table.tolist()


def pair(draw, heads, t, width, dtype=float32):
    """Keys and values of t tokens."""
    return draw.normal(heads, t, width, dtype=dtype), draw.normal(heads, t, width, dtype=dtype)
