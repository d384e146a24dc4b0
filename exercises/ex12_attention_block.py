# Skeleton ex12_attention_block 6bd3bdf06cc660a9. The lesson: docs/lessons/ex12_attention_block.en.md
"""An attention block: write the bodies, then run `make grade EX=ex12_attention_block`.

Not allowed: PyTorch's fused attention operator and its attention modules, PyTorch's own RMSNorm.
Write it with matrix products and a softmax; torch.softmax, nn.Linear and dropout are allowed.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """Rows divided by the root of their mean square, times a weight for each column.

    weight   nn.Parameter (dim,), ones at first
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        """Create the weight of the norm, `dim` ones.

        eps   what is added to the mean square, 0 or more
        """
        super().__init__()
        raise NotImplementedError("Create the weight of the norm, `dim` ones.")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Divide every row by sqrt(mean square + eps), then multiply by the weight.

        The mean square of half precision is computed in float32, where it neither overflows nor
        vanishes; float64 is computed in float64. It uses the weight as it is at the time of the
        call, in .train() and in .eval(). Gradients reach x and the weight. Tensors returned earlier
        do not change.

        x       (..., E), where E is `dim`, in the dtype of the weight, left as it is; it may be
                strided, and have no rows
        returns (..., E), in the dtype of x
        raises  ValueError if the width of x is not `dim`, naming both numbers
        """
        raise NotImplementedError(
            "Divide every row by sqrt(mean square + eps), then multiply by the weight."
        )


class SelfAttention(nn.Module):
    """Self-attention with normalised queries and keys, rotary positions and dropout.

    q, k, v, o       nn.Linear(d_model, d_model), with bias
    norm_q, norm_k   RMSNorm(d_model), there only with `qk_norm`
    fused            whether one product gives q, k and v, or three do
    """

    fused: bool

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qk_norm: bool = True,
        rope_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        """Create the projections and the norms of self-attention, with `fused` True.

        rope_base   the base of the angles of RoPE, or None for no RoPE. After the norms RoPE turns
                    the numbers 2i and 2i + 1 of each head of q and k by the angle
                    p * base**(-2i/D) at position p, for any number of tokens
        dropout     the probability, below 1, with which each attention weight is dropped
                    independently, after the softmax and in .train() alone; the others are divided
                    by 1 - dropout
        raises      ValueError if `d_model` is not divisible by `num_heads`, or with RoPE if the
                    width of a head is odd; with `d_model` and `num_heads`
        """
        super().__init__()
        raise NotImplementedError(
            "Create the projections and the norms of self-attention, with `fused` True."
        )

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Attend from every token to every token that `keep` allows.

        Norms, angles, scores and softmax of half precision are computed in float32, where a sum of
        64 products of 256 and 256 is finite; in float64 everything is computed in float64. Scores
        may be of any size. It uses the weights as they are at the time of the call, in .train() and
        in .eval(). Hidden tokens count for nothing, however large their numbers (1e10). A token
        that may attend to nothing in a head has zeros there, before `o`. Gradients reach x and
        every parameter, and no empty row makes them NaN. Tensors returned earlier do not change.

        x       (B, L, E), left as it is; it may be strided, and B may be 0
        keep    None, or bool that broadcasts to (B, H, L, L), True = may attend; one of shape
                (H, L, L) has a mask for each head; left as it is
        returns the output (B, L, E), in the dtype of x
        """
        raise NotImplementedError("Attend from every token to every token that `keep` allows.")


class CrossAttention(nn.Module):
    """Attention to a context whose first tokens may be an image, read apart from the text.

    q, k, v, o       nn.Linear(d_model, d_model), with bias
    norm_q, norm_k   RMSNorm(d_model)
    k_img, v_img, norm_k_img   the same for the image, there only with image tokens
    """

    def __init__(self, d_model: int, num_heads: int, image_tokens: int = 0) -> None:
        """Create the projections and the norms of cross-attention.

        image_tokens   how many tokens at the front of every context are an image
        raises         ValueError if `d_model` is not divisible by `num_heads`, naming both numbers
        """
        super().__init__()
        raise NotImplementedError("Create the projections and the norms of cross-attention.")

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attend from x to the text and to the image of the context, and add the two.

        Norms, scores and softmax of half precision are computed in float32; in float64 everything
        is computed in float64. Scores may be of any size. It uses the weights as they are at the
        time of the call, in .train() and in .eval(). Hidden tokens count for nothing, however large
        their numbers (1e10). A query without text to attend to gets zeros for the text, in the
        heads where that is so. Gradients reach x, the context and every parameter, and no empty row
        makes them NaN. Tensors returned earlier do not change.

        x         (B, L, E), left as it is; it may be strided, and B may be 0
        context   (B, Lc, E), of which the first `image_tokens` are the image; it may be x itself,
                  or the image alone; left as it is, and it may be strided
        keep      None, or bool that broadcasts to (B, H, L, Lc - image_tokens): the text's keys;
                  left as it is
        returns   the output (B, L, E), in the dtype of x
        raises    ValueError if Lc is less than `image_tokens`, naming both numbers
        """
        raise NotImplementedError(
            "Attend from x to the text and to the image of the context, and add the two."
        )


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them.

    w1, w2   nn.Linear(d_model, hidden) and nn.Linear(hidden, d_model), with bias
    """

    def __init__(self, d_model: int, hidden: int) -> None:
        """Create the two layers of the feed-forward."""
        super().__init__()
        raise NotImplementedError("Create the two layers of the feed-forward.")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply w1, ReLU and w2 to every token.

        It uses the weights as they are at the time of the call, in any dtype, in .train() and in
        .eval(). Gradients reach x and every parameter. Tensors returned earlier do not change.

        x       (..., E), in the dtype of the weights, left as it is; it may be strided, and have no
                tokens
        returns (..., E), in the dtype of x
        """
        raise NotImplementedError("Apply w1, ReLU and w2 to every token.")
