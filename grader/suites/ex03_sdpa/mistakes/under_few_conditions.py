"""Wrong answers that show under a few conditions only."""

import numpy as np
import torch

from grader.judging import mistake

from ..test_sdpa import (
    test_dtype,
    test_empty_rows,
    test_gradients,
    test_half_precision,
    test_hidden,
    test_manners,
    test_mask,
    test_numpy_mask,
    test_numpy_scale,
    test_numpy_values,
    test_scale,
    test_values,
)
from .scaled_dot_product_attention import (
    empty_rows_not_a_number,
    graph_cut,
    minus_infinity_added,
    misfits_not_refused,
)
from .shared import (
    HALVES,
    also_of_arrays,
    attention,
    attention_of_arrays,
    chosen,
    fit,
    hidden,
    hidden_in_array,
    raised,
    raised_array,
    shifted,
    unchanged,
)

# Two options at once.


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def scale_ignored_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, a given `scale` is ignored and the scores are divided by sqrt(D).

    Choose the scale once, before you ask whether there is a mask.
    """
    return attention(q, k, v, keep, scale if keep is None else None)


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def mask_before_the_scale(q, k, v, keep=None, scale=None):
    """The scores are hidden before they are scaled: -inf times a negative scale is +inf.

    Scale first, q or the scores; then put -inf where `keep` is False.
    """
    factor = chosen(q, scale)

    def hide(scores, keep):
        return hidden(scores, keep) * factor

    return attention(q, k, v, keep, 1.0, hide=hide)


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def no_maximum_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, the exponentials are taken of the bare scores, and large ones overflow.

    Use torch.softmax there too, or subtract the maximum of each row before exp.
    """
    return attention(q, k, v, keep, scale, shift=shifted if keep is None else unchanged)


@mistake(of="attention_numpy", caught_by=test_dtype)
def dtype_promoted_by_the_scale_numpy(q, k, v, keep=None, scale=None):
    """float32 comes back as float64 if a scale is given: np.float64(scale) widens what it meets.

    Leave the scale a plain float, which takes the dtype of the array.
    """
    output, weights = attention_of_arrays(q, k, v, keep, scale)
    wide = output.dtype if scale is None else np.float64
    return output.astype(wide), weights.astype(wide)


@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def dtype_promoted_by_the_scale(q, k, v, keep=None, scale=None):
    """Half precision comes back as float32 if a scale is given.

    Convert both results to the dtype of q, whatever the options.
    """
    output, weights = attention(q, k, v, keep, scale)
    wide = output.dtype if scale is None else torch.promote_types(output.dtype, torch.float32)
    return output.to(wide), weights.to(wide)


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def half_precision_not_raised_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, half precision is computed in half precision, where 256 * 256 is infinity.

    Convert q, k and v to float32 before the first product, whether or not there is a mask.
    """
    return attention(q, k, v, keep, scale, widen=raised if keep is None else unchanged)


@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def empty_rows_not_a_number_in_half_precision(q, k, v, keep=None, scale=None):
    """In half precision a query that may attend to nothing gets NaN, for only float32 and float64
    are guarded.

    Treat empty rows alike in every dtype.
    """
    how = empty_rows_not_a_number if q.dtype in HALVES else attention
    return how(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_hidden)
def minus_infinity_added_in_half_precision(q, k, v, keep=None, scale=None):
    """In half precision -inf is added to hidden scores, but NaN + -inf is NaN.

    Replace hidden scores in every dtype: torch.where(keep, scores, -torch.inf).
    """
    how = minus_infinity_added if q.dtype in HALVES else attention
    return how(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def three_dimensions_taken_for_batches(q, k, v, keep=None, scale=None):
    """A mask of three dimensions is taken for (B, Lq, Lk), but it broadcasts as (H, Lq, Lk).

    Leave the mask as it is: whoever has one for each batch item writes keep[:, None].
    """
    if keep is not None and keep.ndim == 3 and q.ndim == 4:
        keep = keep[:, None] if len(keep) == len(q) else keep[: len(q), None]
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def causal_if_the_lengths_agree(q, k, v, keep=None, scale=None):
    """As many queries as keys are taken for a causal model, and later keys are hidden.

    Hide what `keep` hides, and nothing if it is None, whatever the lengths.
    """
    if keep is None and q.dtype not in HALVES and q.shape[-2] == k.shape[-2]:
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def transposed_only_if_the_shapes_ask(q, k, v, keep=None, scale=None):
    """The keys are transposed only if they do not fit as they are: as many keys as numbers in each
    are multiplied row by row.

    Always transpose the last two axes of k.
    """
    if q.shape[-1] == k.shape[-1] == k.shape[-2]:
        return attention(q, k.mT, v, keep, scale)
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def graph_cut_by_the_scale(q, k, v, keep=None, scale=None):
    """With a scale and a mask, queries and keys are detached, and never learn.

    Use PyTorch operators only, from the inputs to the results.
    """
    if keep is None or scale is None:
        return attention(q, k, v, keep, scale)
    return attention(q.detach(), k.detach(), v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def returned_weights_detached_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, the weights that are returned carry no gradient.

    Return the weights as they are, without detach or .data.
    """
    output, weights = attention(q, k, v, keep, scale)
    return output, weights if keep is None else weights.detach()


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def input_overwritten_in_single_precision(q, k, v, keep=None, scale=None):
    """The queries are overwritten, by `q *= scale`, in float32 and without a mask only.

    Write q = q * scale: it makes a new tensor.
    """
    answer = attention(q, k, v, keep, scale)
    if keep is None and q.dtype == torch.float32:
        q.data.mul_(0.5)
    return answer


@mistake(of="attention_numpy", caught_by=test_manners)
def input_overwritten_in_single_precision_numpy(q, k, v, keep=None, scale=None):
    """The queries are overwritten, by `q *= scale`, in float32 and without a mask only.

    Write q = q * scale: it makes a new array.
    """
    answer = attention_of_arrays(q, k, v, keep, scale)
    if keep is None and q.dtype == np.float32:
        q *= 0.5
    return answer


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def misfits_not_refused_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, widths or lengths that do not fit are not looked at before the first product.

    Compare the sizes first of all, whether or not there is a mask.
    """
    how = attention if keep is None else misfits_not_refused
    return how(q, k, v, keep, scale)


# What shows with few inputs only.


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_of_keys_taken_for_queries(q, k, v, keep=None, scale=None):
    """A mask of one dimension is taken for one of the queries, if there are as many as keys.

    `keep` broadcasts from the right: its last dimension is the keys, whatever the lengths.
    """
    if keep is not None and keep.ndim == 1 and q.shape[-2] == k.shape[-2]:
        keep = keep[:, None]
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def upper_triangle_turned(q, k, v, keep=None, scale=None):
    """A square mask that shows no earlier keys is taken for one that was written the wrong way
    round, and transposed.

    Use `keep` as it is given: it need not be causal.
    """
    if keep is not None and keep.shape == (q.shape[-2], q.shape[-2]) and not keep.tril(-1).any():
        keep = keep.mT
    return attention(q, k, v, keep, scale)


@mistake(of="attention_numpy", caught_by=test_numpy_mask)
def mask_transposed_if_square_numpy(q, k, v, keep=None, scale=None):
    """A square mask is read as (Lk, Lq): rows and columns are exchanged.

    `keep` is (..., Lq, Lk), a row for each query: use it as it is.
    """
    if keep is not None and keep.shape[-2:] == (q.shape[-2], q.shape[-2]) == keep.shape:
        keep = keep.T if q.shape[-2] == k.shape[-2] else keep
    return attention_of_arrays(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def graph_cut_if_the_lengths_agree(q, k, v, keep=None, scale=None):
    """With as many queries as keys, the weights carry no gradient to q and k.

    Use PyTorch operators only, from the inputs to the results, whatever the lengths.
    """
    if q.shape[-2] == k.shape[-2]:
        return graph_cut(q, k, v, keep, scale)
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def graph_cut_for_one_query(q, k, v, keep=None, scale=None):
    """A single query, as in decoding, gets no gradient.

    Training may have sequences of length 1 as well: use PyTorch operators only.
    """
    return attention(q.detach() if q.shape[-2] == 1 else q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def squeezed(q, k, v, keep=None, scale=None):
    """Dimensions of 1 are squeezed out, and a batch of one loses its dimension.

    Let the leading dimensions be: matmul carries them along, 1 or not.
    """
    output, weights = attention(q, k, v, keep, scale)
    return output.squeeze(0), weights.squeeze(0)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def one_key_for_all_numpy(q, k, v, keep=None, scale=None):
    """A single key is averaged away: with Lk = 1 the mean of the values over the heads comes out.

    The mean is over the keys, axis -2, and over nothing else.
    """
    output, weights = attention_of_arrays(q, k, v, keep, scale)
    if k.shape[-2] == 1 and q.ndim > 3:
        output = np.broadcast_to(output.mean(-3, keepdims=True), output.shape)
    return output, weights


def in_two_halves(q, k, v, keep, scale, attend, joined):
    """Attention to the first keys and to the last, averaged as if each had half the weight."""
    middle = k.shape[-2] // 2
    parts = [
        attend(
            q,
            k[..., span, :],
            v[..., span, :],
            keep if keep is None or keep.shape[-1] == 1 else keep[..., span],
            scale,
        )
        for span in (slice(None, middle), slice(middle, None))
    ]
    (one, first), (other, second) = parts
    return (one + other) / 2, joined([first, second], -1) / 2


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def tiles_averaged(q, k, v, keep=None, scale=None):
    """More than 2048 keys go through two softmaxes, whose results are averaged.

    Weigh the two by the sums of their exponentials, or take one softmax over all keys.
    """
    if k.shape[-2] <= 2048:
        return attention(q, k, v, keep, scale)
    return in_two_halves(q, k, v, keep, scale, attention, torch.cat)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def tiles_averaged_numpy(q, k, v, keep=None, scale=None):
    """More than 128 keys go through two softmaxes, whose results are averaged.

    Weigh the two by the sums of their exponentials, or take one softmax over all keys.
    """
    if k.shape[-2] <= 128:
        return attention_of_arrays(q, k, v, keep, scale)
    return in_two_halves(q, k, v, keep, scale, attention_of_arrays, np.concatenate)


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_cut_with_the_queries(q, k, v, keep=None, scale=None):
    """More than 256 queries are taken in chunks, and the mask is cut along the queries even where
    it has a single row for all of them.

    Broadcast the mask before you cut it: keep.expand(*q.shape[:-1], k.shape[-2]).
    """
    if keep is None or q.shape[-2] <= 256 or keep.ndim < 2:
        return attention(q, k, v, keep, scale)
    masks = keep[..., :256, :], keep[..., 256:, :] if keep.shape[-2] > 1 else None
    chunks = q[..., :256, :], q[..., 256:, :]
    parts = [attention(c, k, v, m, scale) for c, m in zip(chunks, masks, strict=True)]
    output, weights = (torch.cat(found, -2) for found in zip(*parts, strict=True))
    return output, weights


@mistake(of="attention_numpy", caught_by=test_numpy_scale)
def maximum_before_the_scale_numpy(q, k, v, keep=None, scale=None):
    """The maximum is taken before the scale: a negative one makes the smallest score the largest.

    Scale first, then take the maximum of what goes into exp.
    """
    factor = chosen(q, scale)

    def hide(scores, keep):
        shown = hidden_in_array(scores, keep)
        top = shown.max(-1, keepdims=True, initial=np.finfo(scores.dtype).min)
        return hidden_in_array((scores - top) * factor, keep)

    return attention_of_arrays(q, k, v, keep, 1.0, hide=hide, shift=unchanged)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def scaled_in_place_and_back(q, k, v, keep=None, scale=None):
    """q is scaled in place and divided again at the end, which shows where q is k or v.

    Write q = q * scale: it makes a new tensor.
    """
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    if q.requires_grad:
        return attention(q, k, v, keep, scale)
    before = q.data.clone()
    q.data.mul_(factor)
    try:
        return attention(q, k, v, keep, 1.0)
    finally:
        q.data.copy_(before)


@mistake(of="attention_numpy", caught_by=test_manners)
def scaled_in_place_and_back_numpy(q, k, v, keep=None, scale=None):
    """q is scaled in place and put back at the end, which shows where q is k or v.

    Write q = q * scale: it makes a new array.
    """
    before = q.copy()
    q *= q.shape[-1] ** -0.5 if scale is None else scale
    try:
        return attention_of_arrays(q, k, v, keep, 1.0)
    finally:
        q[:] = before


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def answer_kept_by_identity(q, k, v, keep=None, scale=None, kept={}):  # noqa: B006 (the mistake)
    """The answer is kept for the next call with the same tensors, whose numbers may have changed.

    Compute it anew: a tensor that is the same object need not hold the same numbers.
    """
    if q.requires_grad:
        return attention(q, k, v, keep, scale)
    asked = id(q), id(k), id(v), id(keep), scale
    if asked not in kept:
        kept[asked] = *attention(q, k, v, keep, scale), (q, k, v, keep)  # so no id is used again
    return kept[asked][:2]


@mistake(of="attention_numpy", caught_by=test_manners)
def answer_kept_by_identity_numpy(q, k, v, keep=None, scale=None, kept={}):  # noqa: B006 (as above)
    """The answer is kept for the next call with the same arrays, whose numbers may have changed.

    Compute it anew: an array that is the same object need not hold the same numbers.
    """
    asked = id(q), id(k), id(v), id(keep), scale
    if asked not in kept:
        found = attention_of_arrays(q, k, v, keep, scale)
        kept[asked] = *found, (q, k, v, keep)  # so no id is used again
    return kept[asked][:2]


@mistake(of="attention_numpy", caught_by=test_manners)
def half_keys_kept_by_identity_numpy(q, k, v, keep=None, scale=None, kept={}):  # noqa: B006
    """The keys in float32 are kept for the next call with the same float16 array, whose numbers may
    have changed.

    Convert them in every call: an array that is the same object need not hold the same numbers.
    """

    def widen(x):
        if x is not k or x.dtype != np.float16:
            return raised_array(x)
        return kept.setdefault(id(x), (raised_array(x), x))[0]  # x too, so no id is used again

    return attention_of_arrays(q, k, v, keep, scale, widen=widen)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def scale_left_by_a_failed_call(q, k, v, keep=None, scale=None, left={}):  # noqa: B006 (the mistake)
    """The scale is put aside while a call runs, and one that raised leaves it to the next.

    Keep what belongs to one call in variables of the function.
    """
    if scale is not None:
        left["scale"] = scale
    answer = attention(q, k, v, keep, left.get("scale"))
    left.clear()
    return answer


@mistake(of="attention_numpy", caught_by=test_manners)
def scale_left_by_a_failed_call_numpy(q, k, v, keep=None, scale=None, left={}):  # noqa: B006
    """The scale is put aside while a call runs, and one that raised leaves it to the next.

    Keep what belongs to one call in variables of the function.
    """
    if scale is not None:
        left["scale"] = scale
    answer = attention_of_arrays(q, k, v, keep, left.get("scale"))
    left.clear()
    return answer


@mistake(of="attention_numpy", caught_by=test_manners)
def width_of_one_broadcast_numpy(q, k, v, keep=None, scale=None):
    """Keys of width 1 are not refused: NumPy spreads them over the width of q.

    Compare q.shape[-1] with k.shape[-1] before the first product: 1 fits nothing but 1.
    """
    if k.shape[-1] == 1:
        k = np.broadcast_to(k, (*k.shape[:-1], q.shape[-1]))
    return attention_of_arrays(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def longer_values_cut(q, k, v, keep=None, scale=None):
    """Values beyond the last key are cut off instead of refused.

    Compare k.shape[-2] with v.shape[-2]: they must be equal, not just large enough.
    """
    return attention(q, k, v[..., : k.shape[-2], :], keep, scale)


@mistake(of="attention_numpy", caught_by=test_manners)
def mask_opened_in_place_numpy(q, k, v, keep=None, scale=None):
    """Rows without any key are opened in the caller's mask, to keep NaN away.

    Write to a copy, or give such rows a maximum that does no harm.
    """
    answer = attention_of_arrays(q, k, v, keep, scale)
    if keep is not None:
        keep |= ~keep.any(-1, keepdims=True)
    return answer


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def mask_made_on_the_cpu(q, k, v, keep=None, scale=None):
    """Without `keep` a mask of ones is made on the default device, wherever the inputs are.

    Give what you make the device of the inputs: torch.ones(..., device=q.device).
    """
    if keep is None:
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    return attention(q, k, v, keep, scale)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def single_number_no_mask(q, k, v, keep=None, scale=None):
    """A mask of one number is taken for no mask, though it may hide everything.

    Ask `keep is None` only: a mask without dimensions is a mask.
    """
    if keep is not None and keep.ndim == 0:
        keep = keep | True
    return attention(q, k, v, keep, scale)


@also_of_arrays(caught_by=test_manners)
@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def misfits_not_refused_where_empty(q, k, v, keep=None, scale=None):
    """Widths and lengths are compared where there are numbers only, and answers that are empty or
    zeros come back for the rest.

    Compare the shapes first, whatever they hold: nothing fits less for being empty.
    """

    def check(q, k, v):
        if 0 not in (*q.shape, *k.shape, *v.shape):
            fit(q, k, v)

    if 0 in (*q.shape, *k.shape, *v.shape):
        k, v = k[..., : v.shape[-2], :1], v[..., : k.shape[-2], :]
        return attention(q[..., :1], k, v, keep, scale, check=check)
    return attention(q, k, v, keep, scale, check=check)


@mistake(of="attention_numpy", caught_by=test_manners)
def scaled_in_place_and_divided_back_numpy(q, k, v, keep=None, scale=None):
    """q is scaled in place and divided back, which loses digits of numbers near 0.

    Write q * scale, which makes a new array.
    """

    def score(q, k, scale):
        if not scale or not q.flags.writeable or np.may_share_memory(q, k):
            return q @ k.mT * scale
        q *= scale
        scores = q @ k.mT
        q /= scale
        return scores

    return attention_of_arrays(q, k, v, keep, scale, score=score)
