"""Steps that wrong answers to several tasks share."""

import re
import sys

import torch

from grader.judging import mistake
from reference.ex02_masking import plain_masked_softmax
from reference.ex04_heads import (
    PlainMultiHeadAttention,
    plain_multi_head_attention_numpy,
)


def check_width(width, num_heads):
    if width % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {width}")


class Layer(PlainMultiHeadAttention):
    """A right layer, whose steps are replaced one by one."""

    def __init__(self, d_model, num_heads, bias=False):
        self.check_width(d_model, num_heads)
        super().__init__(d_model, num_heads, bias)

    def check_width(self, d_model, num_heads):
        check_width(d_model, num_heads)

    def attention(self, q, k, v, keep):
        wide_q, wide_k, wide_v = (self.widen(x) for x in (q, k, v))
        weights = self.weigh(wide_q @ wide_k.mT * self.scale(q), keep)
        return (weights @ wide_v).to(q.dtype), weights.to(q.dtype)

    def widen(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def weigh(self, scores, keep):
        return plain_masked_softmax(scores, keep)


def attention_of_arrays(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None, layer=Layer
):  # fmt: skip
    """`multi_head_attention_numpy` with the steps of a layer."""
    return plain_multi_head_attention_numpy(
        query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, layer
    )


def also_of_arrays(*, caught_by, null=False):
    """Let a layer's mistake be one of `multi_head_attention_numpy` as well.

    ScaleMissing becomes scale_missing_numpy.
    """

    def mark(layer):
        def attend(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
            return attention_of_arrays(
                query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, layer
            )

        words = re.findall("NaN|[A-Z][a-z0-9]*", layer.__name__)
        attend.__name__ = "_".join([*map(str.lower, words), "numpy"])
        attend.__doc__ = layer.__doc__
        marked = mistake(of="multi_head_attention_numpy", caught_by=caught_by, null=null)(attend)
        setattr(sys.modules[layer.__module__], attend.__name__, marked)  # beside the layer's
        return layer

    return mark
