"""A paged key/value cache (Kwon et al. 2023, "PagedAttention"), packed batches, chunked prefill.

The oracle's cache knows no blocks: every sequence is an array that grows, and its blocks are
counted by arithmetic. The yardstick's is a pool of blocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count, pairwise

import numpy as np
import torch
from torch import Tensor

from reference.ex03_sdpa import exact_attention, plain_attention
from reference.ex05_causal_mask import exact_causal_attention, plain_causal_attention
from reference.expected import Array, Expected, attended, f64, gradients, largest, with_nudges


class PlainPagedKVCache:
    """The yardstick of `PagedKVCache`; a mistake overrides one of its steps."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        shape = (num_blocks, block_size, num_heads, head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.unused = list(range(num_blocks))
        self.tables: dict[int, list[int]] = {}
        self.lengths: dict[int, int] = {}
        self.numbers = count()

    @property
    def free_blocks(self) -> int:
        """How many blocks nobody holds."""
        return len(self.unused)

    def add(self) -> int:
        """The number of a new sequence."""
        sequence = next(self.numbers)
        self.tables[sequence], self.lengths[sequence] = [], 0
        return sequence

    def append(self, sequence: int, k: Tensor, v: Tensor) -> None:
        """Write k and v (H, t, D) behind what the sequence has."""
        self.check(sequence)
        start = self.lengths[sequence]
        end = start + k.shape[1]
        needed = self.needed(sequence, end)
        self.tables[sequence] += self.take(needed)
        self.write(self.rows(sequence, start, end), k, v)
        self.lengths[sequence] = end

    def gather(self, sequence: int) -> tuple[Tensor, Tensor]:
        """Keys and values (H, n, D) of a sequence."""
        self.check(sequence)
        return self.read(self.rows(sequence, 0, self.lengths[sequence]))

    def length(self, sequence: int) -> int:
        """How many tokens a sequence has."""
        self.check(sequence)
        return self.lengths[sequence]

    def block_table(self, sequence: int) -> Tensor:
        """The blocks of a sequence, in order."""
        self.check(sequence)
        return torch.tensor(self.tables[sequence], dtype=torch.int64)

    def free(self, sequence: int) -> None:
        """Forget a sequence and give its blocks back."""
        self.check(sequence)
        self.unused += self.tables.pop(sequence)
        del self.lengths[sequence]

    def check(self, sequence: int) -> None:
        """ValueError unless the sequence is there."""
        if sequence not in self.tables:
            raise ValueError(f"no sequence {sequence}")

    def needed(self, sequence: int, end: int) -> int:
        """How many blocks more a length of `end` takes."""
        return -(-end // self.block_size) - len(self.tables[sequence])

    def take(self, needed: int) -> list[int]:
        """So many blocks off the list of those that nobody holds; ValueError if it has fewer."""
        if needed > self.free_blocks:
            raise ValueError(f"{needed} blocks are needed, {self.free_blocks} are free")
        taken, self.unused = self.unused[:needed], self.unused[needed:]
        return taken

    def rows(self, sequence: int, start: int, end: int) -> list[int]:
        """Where in the pool, were its blocks one, the tokens from `start` to `end` lie."""
        table, size = self.tables[sequence], self.block_size
        return [table[p // size] * size + p % size for p in range(start, end)]

    def write(self, rows: list[int], k: Tensor, v: Tensor) -> None:
        """Store k and v (H, t, D) in these rows of the pool."""
        self.keys.flatten(0, 1)[rows] = k.transpose(0, 1).to(self.keys.dtype)
        self.values.flatten(0, 1)[rows] = v.transpose(0, 1).to(self.values.dtype)

    def read(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """What lies in these rows of the pool, (H, n, D) each."""
        k, v = (pool.flatten(0, 1)[rows].transpose(0, 1) for pool in (self.keys, self.values))
        return k, v


class PagedKVCache:
    """The oracle of the cache: float64 arrays that grow, and a yardstick that is fed alongside.

    Keys and values are rounded to the dtype of the cache, as in the student's.
    """

    def __init__(
        self, num_blocks: int, block_size: int, num_heads: int, head_dim: int,
        dtype: torch.dtype = torch.float32, device: torch.device | str | None = None,
    ) -> None:  # fmt: skip
        self.plain = PlainPagedKVCache(num_blocks, block_size, num_heads, head_dim, dtype, device)
        self._empty: Array = np.empty((num_heads, 0, head_dim))
        self.exact: dict[int, tuple[Array, Array]] = {}  # keys and values (H, n, D)

    @property
    def free_blocks(self) -> int:
        """All blocks less those that the sequences must hold."""
        return self.plain.num_blocks - sum(map(self.blocks, self.exact))

    def blocks(self, sequence: int) -> int:
        """How many blocks a sequence must hold."""
        return -(-self.length(sequence) // self.plain.block_size)

    def add(self) -> int:
        """The number of a new sequence."""
        sequence = self.plain.add()
        self.exact[sequence] = self._empty, self._empty
        return sequence

    def append(self, sequence: int, k: Tensor, v: Tensor) -> None:
        """Write k and v (H, t, D) behind what the sequence has."""
        self.plain.append(sequence, k, v)
        self.remember(sequence, k, v)

    def remember(self, sequence: int, k: Tensor, v: Tensor) -> None:
        """The oracle's half of `append`."""
        new = (f64(x.to(self.plain.keys.dtype)) for x in (k, v))
        both = zip(self.exact[sequence], new, strict=True)
        keys, values = (np.concatenate(parts, axis=1) for parts in both)
        self.exact[sequence] = keys, values

    def overwrite(self, sequence: int, k: Tensor, v: Tensor) -> None:
        """Hold k and v (H, n, D), in the dtype of the cache, where other n tokens were."""
        self.plain.write(self.plain.rows(sequence, 0, self.length(sequence)), k, v)
        self.exact[sequence] = f64(k), f64(v)

    def gather(self, sequence: int) -> tuple[Expected, Expected]:
        """Keys and values (H, n, D) of a sequence."""
        both = zip(self.exact[sequence], self.plain.gather(sequence), strict=True)
        k, v = (Expected(x, plain, largest(x[np.isfinite(x)])) for x, plain in both)
        return k, v

    def length(self, sequence: int) -> int:
        """How many tokens a sequence has."""
        return int(self.exact[sequence][0].shape[1])

    def free(self, sequence: int) -> None:
        """Forget a sequence."""
        self.plain.free(sequence)
        del self.exact[sequence]


def paged_attention(q: Tensor, cache: PagedKVCache, sequences: Sequence[int]) -> Expected:
    """The output (N, H, D) of q (N, H, D), one newest token of each of the sequences."""
    exact, wide = np.zeros(q.shape), f64(q)
    places = _places_of_sequences(sequences)
    for sequence, rows in places.items():
        keys, values = cache.exact[sequence]
        if keys.shape[1]:
            output, _ = exact_attention(np.swapaxes(wide[rows], 0, 1), keys, values)  # (H, n, D)
            exact[rows] = np.swapaxes(output, 0, 1)
    given = q, *_gather_for_queries(q, cache.plain, places)
    sizes = (attended(q, cache.exact[sequence][1]) for sequence in places)
    expected = Expected(exact, _attend_to_gathered(places, *given), max(sizes, default=0.0))
    return with_nudges([expected], lambda *given: [_attend_to_gathered(places, *given)], *given)[0]


def ragged_attention(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor
) -> Expected:
    """The output (Tq, H, Dv) of packed q (Tq, H, D), k (Tk, H, D), v (Tk, H, Dv)."""
    exact = np.zeros((*q.shape[:2], v.shape[2]))
    for queries, keys in packed(cu_seqlens_q, cu_seqlens_k):
        one = (np.swapaxes(f64(x), 0, 1) for x in (q[queries], k[keys], v[keys]))
        exact[queries] = np.swapaxes(exact_causal_attention(*one), 0, 1)
    given = q, k, v, cu_seqlens_q, cu_seqlens_k
    expected = Expected(exact, plain_ragged_attention(*given), attended(q, v))
    return with_nudges([expected], lambda *given: [plain_ragged_attention(*given)], *given)[0]


def ragged_attention_gradients(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, *, upstream: Tensor
) -> tuple[Expected, ...]:
    """The gradients of the output with respect to q, k and v, for the gradient `upstream` of it."""
    return gradients(
        lambda q, k, v: plain_ragged_attention(q, k, v, cu_seqlens_q, cu_seqlens_k),
        *(q, k, v),
        upstream=upstream,
        magnitude=largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k)),
    )


def chunked_prefill(
    q: Tensor, k: Tensor, v: Tensor, cache: PagedKVCache, sequence: int, chunk_size: int
) -> Expected:
    """The output (H, L, D) of q, k, v (H, L, D); for the oracle, of dense attention at once."""
    plain = plain_chunked_prefill(q, k, v, cache.plain, sequence, chunk_size)
    cache.remember(sequence, k, v)
    keys, values = cache.exact[sequence]
    exact = exact_causal_attention(f64(q), keys, values)
    given = q, *_gather_for_queries(q, cache.plain, [sequence])
    return with_nudges(
        [Expected(exact, plain, attended(q, values))],
        lambda *given: [plain_causal_attention(*given)],
        *given,
    )[0]


def packed(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor) -> list[tuple[slice, slice]]:
    """For every sequence, where its queries and where its keys lie."""
    sides = [cu.tolist() for cu in (cu_seqlens_q, cu_seqlens_k)]
    queries, keys = ([slice(*ends) for ends in pairwise(bounds)] for bounds in sides)
    return list(zip(queries, keys, strict=True))


def plain_paged_attention(q: Tensor, cache: PlainPagedKVCache, sequences: Sequence[int]) -> Tensor:
    """The yardstick of `paged_attention`: all queries of a sequence at once."""
    places = _places_of_sequences(sequences)
    return _attend_to_gathered(places, q, *_gather_for_queries(q, cache, places))


def _attend_to_gathered(places: Mapping[int, list[int]], q: Tensor, *gathered: Tensor) -> Tensor:
    """All queries of a sequence at once, to its keys and values; those of all lie side by side."""
    output = torch.zeros_like(q)
    for rows, k, v in zip(places.values(), gathered[::2], gathered[1::2], strict=True):
        output[rows] = plain_attention(q[rows].transpose(0, 1), k, v)[0].transpose(0, 1)
    return output


def _gather_for_queries(
    q: Tensor, cache: PlainPagedKVCache, sequences: Iterable[int]
) -> list[Tensor]:
    """Keys and values (H, n, D) of each sequence, in the dtype of q."""
    return [x.to(q.dtype) for sequence in sequences for x in cache.gather(sequence)]


def _places_of_sequences(sequences: Sequence[int]) -> dict[int, list[int]]:
    """Where each sequence stands in a batch, which may name it more than once."""
    places: dict[int, list[int]] = {}
    for i, sequence in enumerate(sequences):
        places.setdefault(sequence, []).append(i)
    return places


def plain_ragged_attention(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor
) -> Tensor:
    """The yardstick of `ragged_attention`."""
    parts = [
        plain_causal_attention(*(x.transpose(0, 1) for x in (q[queries], k[keys], v[keys])))
        for queries, keys in packed(cu_seqlens_q, cu_seqlens_k)
    ]
    return torch.cat([v.new_zeros(q.shape[1], 0, v.shape[2]), *parts], 1).transpose(0, 1)


def plain_chunked_prefill(
    q: Tensor, k: Tensor, v: Tensor, cache: PlainPagedKVCache, sequence: int, chunk_size: int
) -> Tensor:
    """The yardstick of `chunked_prefill`."""
    output = torch.zeros_like(q)
    for start in range(0, q.shape[1], chunk_size):
        chunk = slice(start, start + chunk_size)
        cache.append(sequence, k[:, chunk], v[:, chunk])
        keys, values = (x.to(q.dtype) for x in cache.gather(sequence))
        output[:, chunk] = plain_causal_attention(q[:, chunk], keys, values)
    return output
