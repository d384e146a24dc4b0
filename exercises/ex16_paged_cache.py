# Skeleton ex16_paged_cache dd76cc5e25eaf4d6. The lesson: docs/lessons/ex16_paged_cache.en.md
"""Paged cache, ragged batches: write the bodies, then run `make grade EX=ex16_paged_cache`.

Not allowed: PyTorch's fused attention operator and its attention modules. Write it with matrix
products and a softmax; torch.softmax is allowed.
"""

import math

import torch


class PagedKVCache:
    """The keys and values of many sequences, in one pool of blocks.

    keys, values  the pools (num_blocks, block_size, H, D), in the dtype of the cache: token p of a
                  sequence lies in block table[p // block_size], at place p % block_size
    free_blocks   how many blocks no sequence holds
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
        """Make `keys` and `values`: room for `num_blocks` blocks of `block_size` tokens each."""
        raise NotImplementedError(
            "Make `keys` and `values`: room for `num_blocks` blocks of `block_size` tokens each."
        )

    @property
    def free_blocks(self) -> int:
        """Count the blocks that no sequence holds."""
        raise NotImplementedError("Count the blocks that no sequence holds.")

    def add(self) -> int:
        """Begin a sequence of length 0, and return a number that no other sequence has had."""
        raise NotImplementedError(
            "Begin a sequence of length 0, and return a number that no other sequence has had."
        )

    def append(self, sequence: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write the keys and values of t tokens behind what the sequence has.

        k, v    (H, t, D); they are kept in the dtype of the cache
        raises  ValueError if the sequence is not there (with its number), or if the pool has too
                few free blocks (with the number of blocks that would have to be taken, and the
                number that are free); either way nothing is changed
        """
        raise NotImplementedError(
            "Write the keys and values of t tokens behind what the sequence has."
        )

    def gather(self, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all keys and values of a sequence in order, (H, n, D) each.

        raises  ValueError if the sequence is not there, with its number
        """
        raise NotImplementedError(
            "Return all keys and values of a sequence in order, (H, n, D) each."
        )

    def length(self, sequence: int) -> int:
        """Return how many tokens a sequence has; a ValueError if it is not there."""
        raise NotImplementedError(
            "Return how many tokens a sequence has; a ValueError if it is not there."
        )

    def block_table(self, sequence: int) -> torch.Tensor:
        """Return the numbers of a sequence's blocks in the order of its tokens, int64.

        raises  ValueError if the sequence is not there, with its number
        """
        raise NotImplementedError(
            "Return the numbers of a sequence's blocks in the order of its tokens, int64."
        )

    def free(self, sequence: int) -> None:
        """Give a sequence's blocks back to the pool, and forget it.

        raises  ValueError if the sequence is not there, with its number
        """
        raise NotImplementedError("Give a sequence's blocks back to the pool, and forget it.")


def paged_attention(q: torch.Tensor, cache: PagedKVCache, sequences: list[int]) -> torch.Tensor:
    """Attend from the newest token of every sequence to all that the sequence has.

    q          (N, H, D), one token for each of `sequences`
    cache      holds their keys and values already, those of the newest tokens among them
    sequences  N numbers
    returns    the output (N, H, D), 0 for a sequence of length 0
    raises     ValueError if a sequence is not there, with its number
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
    k, v          (Tk, H, D) and (Tk, H, Dv)
    cu_seqlens_q  (N + 1,) integers from 0 to Tq: the queries of sequence i are
                  cu_seqlens_q[i]:cu_seqlens_q[i + 1]; cu_seqlens_k likewise for keys and values
    returns       the output (Tq, H, Dv); a query that sees nothing gives 0
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

    q, k, v     (H, L, D), the prompt's queries, keys and values
    cache       where the sequence may have a past
    chunk_size  tokens in a chunk; the last one may be shorter
    returns     the output (H, L, D), in the dtype of q
    raises      ValueError as `append` does; the chunks before stay in the cache
    """
    raise NotImplementedError(
        "Append a prompt to a sequence chunk by chunk, attending from each chunk to all so far."
    )
