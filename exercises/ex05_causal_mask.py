# Skeleton ex05_causal_mask 08433cfd13106130. The lesson: docs/lessons/ex05_causal_mask.en.md
"""Causal masks: write the bodies, then run `make grade EX=ex05_causal_mask`.

Not allowed: PyTorch's fused attention operator and its attention modules. Write it with a matrix
product, the mask, torch.softmax and a second matrix product.
"""

import math

import torch


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> torch.Tensor:
    """Say which keys each query may attend to when it must not look ahead.

    q_len   number of queries, 0 or more; query i stands at position i + k_len - q_len
    k_len   number of keys, 0 or more; key j stands at position j. Two queries may have 200,000
            keys: build nothing of (k_len, k_len)
    device  where the mask is built; None is PyTorch's default
    returns keep (q_len, k_len), boolean, True = may attend; rows of False where a query
            stands before the first key; a new tensor at every call, which its caller may change
    """
    raise NotImplementedError(
        "Say which keys each query may attend to when it must not look ahead."
    )


def sliding_window_mask(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """Say which keys each query may attend to when it sees the last `window` keys only.

    q_len   number of queries, 0 or more; query i stands at position i + k_len - q_len
    k_len   number of keys, 0 or more; key j stands at position j. Here, too, two queries may have
            200,000 keys
    window  how many keys a query sees at most, its own among them; at least 1, and it may be much
            larger than k_len (sys.maxsize, say)
    device  where the mask is built; None is PyTorch's default
    returns keep (q_len, k_len), boolean, True = may attend; a new tensor at every call, which its
            caller may change
    """
    raise NotImplementedError(
        "Say which keys each query may attend to when it sees the last `window` keys only."
    )


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend without looking ahead, and without computing what would be thrown away.

    q       (..., Lq, D); query i stands at position i + Lk - Lq
    k       (..., Lk, D)
    v       (..., Lk, Dv)
    returns output (..., Lq, Dv) in the dtype and on the device of q; 0 where a query stands
            before the first key

    The scale is 1/sqrt(D). Later keys and values have no influence, not even 1e30 in both of them
    or NaN in a key. float16 and bfloat16 are computed in float32 and converted back at the end;
    float64 is computed in float64. Scores may be very large or very low: if all of q k^T, before
    the scale and the mask, fits the dtype that is computed in, nothing overflows, and weights lose
    no digits. Gradients flow to q, k and v in every dtype and, of finite inputs, are never NaN.
    There may be any number of leading dimensions, and the batch may be 0; Lq and Lk are at least 1.
    Tensors may be strided or expanded. The function changes neither its inputs nor tensors that it
    returned earlier.
    """
    raise NotImplementedError(
        "Attend without looking ahead, and without computing what would be thrown away."
    )
