# Skeleton ex16_paged_cache a409dc184197a1da. The lesson: docs/lessons/ex16_paged_cache.en.md
"""Paged cache, ragged batches: write the bodies, then run `make grade EX=ex16_paged_cache`.

Not allowed: PyTorch's fused attention operator and its attention modules. Write it with matrix
products and a softmax; torch.softmax is allowed.
"""

import math

import torch


class PagedKVCache:
    """The keys and values of many sequences, in one pool of blocks.

    keys, values  the pools (num_blocks, block_size, H, D), in the dtype and on the device of the
                  cache: token p of a sequence lies in block table[p // block_size], at place
                  p % block_size. They are made once and written in place, and every
                  method reads them. NaN that a freed block still holds reaches no result
    free_blocks   how many blocks no sequence holds: n tokens hold ceil(n / block_size)

    A number that `add` has not given out, or that was freed, is a ValueError in every method.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Make `keys` and `values`: room for `num_blocks` blocks of `block_size` tokens each.

        Two caches share nothing.
        """
        raise NotImplementedError(
            "Make `keys` and `values`: room for `num_blocks` blocks of `block_size` tokens each."
        )

    @property
    def free_blocks(self) -> int:
        """Count the blocks that no sequence holds."""
        raise NotImplementedError("Count the blocks that no sequence holds.")

    def add(self) -> int:
        """Begin a sequence of length 0, and return a number that no other sequence has had.

        It takes no block.
        """
        raise NotImplementedError(
            "Begin a sequence of length 0, and return a number that no other sequence has had."
        )

    def append(self, sequence: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write the keys and values of t tokens behind what the sequence has.

        k, v    (H, t, D), of any dtype and any strides, and maybe the same tensor; they are kept in
                the dtype of the cache. With t = 0 nothing is taken
        raises  ValueError if the sequence is not there (with its number), or if the pool has too
                few free blocks (with the number of blocks that would have to be taken, and the
                number that are free); either way nothing is changed
        """
        raise NotImplementedError(
            "Write the keys and values of t tokens behind what the sequence has."
        )

    def gather(self, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all keys and values of a sequence in order, (H, n, D) each, out of the pools.

        raises  ValueError if the sequence is not there, with its number
        """
        raise NotImplementedError(
            "Return all keys and values of a sequence in order, (H, n, D) each, out of the pools."
        )

    def length(self, sequence: int) -> int:
        """Return how many tokens a sequence has; a ValueError if it is not there."""
        raise NotImplementedError(
            "Return how many tokens a sequence has; a ValueError if it is not there."
        )

    def block_table(self, sequence: int) -> torch.Tensor:
        """Return the numbers of a sequence's blocks in the order of its tokens, (n,) int64.

        An empty sequence has an empty table, int64 too.

        raises  ValueError if the sequence is not there, with its number
        """
        raise NotImplementedError(
            "Return the numbers of a sequence's blocks in the order of its tokens, (n,) int64."
        )

    def free(self, sequence: int) -> None:
        """Give a sequence's blocks back to the pool, if it has any, and forget it.

        raises  ValueError if the sequence is not there, with its number
        """
        raise NotImplementedError(
            "Give a sequence's blocks back to the pool, if it has any, and forget it."
        )


def paged_attention(q: torch.Tensor, cache: PagedKVCache, sequences: list[int]) -> torch.Tensor:
    """Attend from the newest token of every sequence to all that the sequence has.

    q          (N, H, D), one token for each of `sequences`; N may be 0
    cache      holds their keys and values already, those of the newest tokens among them
    sequences  N numbers in any order, some of them twice
    returns    the output (N, H, D) in the dtype of q, 0 for a sequence of length 0
    raises     ValueError if a sequence is not there, with its number

    Compute half precision in float32 (so that products of 256s and long sums do not overflow), and
    float64 in float64. Scores may be hundreds, or all below -1e30. q is left alone.
    """
    raise NotImplementedError(
        "Attend from the newest token of every sequence to all that the sequence has."
    )


def ragged_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
) -> torch.Tensor:
    """Attend causally within each of the sequences that lie end to end.

    q             (Tq, H, D), the queries of all sequences
    k, v          (Tk, H, D) and (Tk, H, Dv), in the dtype of q; any strides, maybe q itself
    cu_seqlens_q  (N + 1,) integers (int32 or int64) from 0 to Tq: the queries of sequence i are
                  cu_seqlens_q[i]:cu_seqlens_q[i + 1]; cu_seqlens_k likewise for keys and values.
                  Sequences may be empty, and N may be 0
    returns       the output (Tq, H, Dv) in the dtype of q; a query that sees nothing gives 0

    No number up to 1e30 in what a query may not see reaches its output or its gradient. Compute
    half precision in float32 (so that products of 256s and the weights of 70,000 keys do not
    overflow), and float64 in float64. Scores may be hundreds, or all below -1e30. The gradients of
    q, k and v are graded; those of a query that sees nothing are 0. The inputs are left alone, and
    read in every call.
    """
    raise NotImplementedError("Attend causally within each of the sequences that lie end to end.")


def chunked_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: PagedKVCache,
    sequence: int,
    chunk_size: int,
) -> torch.Tensor:
    """Append a prompt to a sequence chunk by chunk, attending from each chunk to all so far.

    q, k, v     (H, L, D), the prompt's queries, keys and values; any strides, maybe one tensor.
                L may be 0 (whether the sequence is there is not graded then)
    cache       where the sequence may have a past
    chunk_size  tokens in a chunk, 1 or more; the last one may be shorter
    returns     the output (H, L, D), in the dtype of q
    raises      ValueError as `append` does; the chunks before stay in the cache

    A chunk attends to its own keys and values as the cache holds them, in its dtype. Compute half
    precision in float32 (so that products of 256s do not overflow), and float64 in float64. Scores
    may be hundreds, or all below -1e30. q, k and v are left alone.
    """
    raise NotImplementedError(
        "Append a prompt to a sequence chunk by chunk, attending from each chunk to all so far."
    )
