"""Wrong answers to `multi_head_attention_numpy`."""

import math

import numpy as np

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..test_heads import (
    test_dtype,
    test_half_precision,
    test_manners,
    test_numpy_mask,
    test_numpy_values,
)
from .shared import Layer, attention_of_arrays


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def matrices_transposed(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The matrices are used transposed, x @ w.T, as nn.Linear keeps them.

    Here they are plain: a projection is x @ w.
    """
    return attention_of_arrays(query, key, value, w_q.T, w_k.T, w_v.T, w_o.T, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def value_ignored(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The values are made from `key`, and `value` is never read.

    Keys are key @ w_k, values are value @ w_v.
    """
    return attention_of_arrays(query, key, key, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_half_precision)
def promoted_to_float32(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """float16 goes in and float32 comes out.

    Convert output and weights to the dtype of `query` at the end.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    return tuple(x.astype(np.promote_types(x.dtype, np.float32)) for x in answer)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def input_overwritten_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """`query` is overwritten: an operator such as `*=` or `-=` changes the caller's array.

    Write x = x * scale, which makes a new array, instead of x *= scale.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    query *= 1 / math.sqrt(3)
    return answer


@mistake(of="multi_head_attention_numpy", caught_by=test_dtype)
def scale_widens_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """float32 comes back as float64, for np.sqrt(D) is a number of NumPy's, and widens.

    Divide by math.sqrt(D), a number of Python, or convert both results at the end.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    return tuple(x.astype(np.float64) if x.dtype == np.float32 else x for x in answer)


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_mask)
def mask_taken_for_padding_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """A mask (Lq, Lk) is taken for the padding of each sequence where there are Lq sequences.

    `keep` broadcasts to (B, H, Lq, Lk): the last two dimensions are queries and keys.
    """
    if keep is not None and keep.shape == (len(query), key.shape[1]):
        keep = keep[:, None, None, :]
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_half_precision)
def projections_in_half_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The projected queries, keys and values are rounded to the dtype of the input, float16 too.

    A projection may be larger than 65,504. Stay in float32 from the inputs to the output.
    """
    return attention_of_arrays(
        query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, _ProjectsInHalf
    )


class _ProjectsInHalf(Layer):
    def project(self, *tokens):
        projected = super().project(*tokens)
        return tuple(x.to(tokens[0].dtype) for x in projected)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def one_place_without_a_mask_numpy(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None, places={}  # noqa: B006 (the mistake)
):  # fmt: skip
    """Without a mask all answers of a form are written over those of the call before.

    Return new arrays in every call, with a mask and without.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    return written_over(places, answer) if keep is None else answer
