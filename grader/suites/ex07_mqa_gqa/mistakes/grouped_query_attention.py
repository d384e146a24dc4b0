"""Wrong answers to `grouped_query_attention`."""

import math

import torch

from grader.judging import mistake

from ..steps import (
    attended,
    converted_back,
    copied,
    evenly_divided,
    filled,
    inverse_root,
    raised,
    softmax,
    unchanged,
    zero_in_empty_rows,
)
from ..test_mqa_gqa import (
    test_gradient,
    test_hidden_keys,
    test_layer,
    test_manners,
    test_mask,
    test_precision,
    test_values,
)
from .shared import HALVES, along_the_length, in_a_row, with_infinity


def first_head(x, n):
    return x[..., :1, :, :]


def group(q, k):
    """How many query heads share a key/value head."""
    evenly_divided(q.shape[-3], k.shape[-3])
    return q.shape[-3] // k.shape[-3]


def multiplied(weights, keep):
    return weights * keep


def less_a_billion(scores, keep):
    return scores - 1e9 * ~keep


def without_maximum(hidden, keep):
    powers = hidden.exp()
    return powers / powers.sum(-1, keepdim=True)


@mistake(of="grouped_query_attention", caught_by=test_values)
def tiled(q, k, v, keep=None):
    """Query head h reads key/value head h % Hk, as if the heads were tiled: k0 k1 k0 k1.

    Groups are consecutive: head h reads head h // (H // Hk). Use repeat_interleave, not repeat.
    """
    return attended(q, k, v, keep, keys=in_a_row, values=in_a_row)


@mistake(of="grouped_query_attention", caught_by=test_values)
def all_on_head_zero(q, k, v, keep=None):
    """Every query head reads key/value head 0.

    Head h reads head h // (H // Hk): only with Hk = 1 do all of them read the first.
    """
    return attended(q, k, v, keep, keys=first_head, values=first_head)


@mistake(of="grouped_query_attention", caught_by=test_values)
def keys_and_values_differ(q, k, v, keep=None):
    """Keys and values are repeated in different orders: the weights of one head mix another's.

    Repeat both with the same function, repeat_interleave along the heads.
    """
    return attended(q, k, v, keep, values=in_a_row)


@mistake(of="grouped_query_attention", caught_by=test_values)
def repeated_along_the_length(q, k, v, keep=None):
    """Keys and values are repeated along the length and cut into heads afterwards.

    Repeat along dimension -3, the heads.
    """
    return attended(q, k, v, keep, keys=along_the_length, values=along_the_length)


@mistake(of="grouped_query_attention", caught_by=test_values)
def queries_of_a_group_averaged(q, k, v, keep=None):
    """The queries of a group are averaged into one, so that all its heads give the same answer.

    Only keys and values are shared. Every query head keeps its own queries and its own weights.
    """
    n = group(q, k)
    return attended(q.unflatten(-3, (-1, n)).mean(-3).repeat_interleave(n, -3), k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_values)
def heads_come_back_interleaved(q, k, v, keep=None):
    """The groups are taken apart in the wrong order: (G, Hk) is merged into H instead of (Hk, G).

    In the result the heads of one group stand next to each other: flatten (..., Hk, G, Lq, Dv).
    """
    output = attended(q, k, v, keep)
    return output.unflatten(-3, (k.shape[-3], -1)).transpose(-4, -3).flatten(-4, -3)


@mistake(of="grouped_query_attention", caught_by=test_values)
def group_and_rows_mixed(q, k, v, keep=None):
    """The folded rows (G*Lq) are taken apart as (Lq, G), so that rows and heads change places.

    They were put together as G heads of Lq rows, so unflatten them into (G, Lq).
    """
    output = attended(q, k, v, keep)
    groups = output.unflatten(-3, (k.shape[-3], -1))  # (..., Hk, G, Lq, Dv)
    size, q_len = groups.shape[-3:-1]
    return groups.flatten(-3, -2).unflatten(-2, (q_len, size)).transpose(-3, -2).flatten(-4, -3)


@mistake(of="grouped_query_attention", caught_by=test_values)
def softmax_over_the_group(q, k, v, keep=None):
    """The softmax runs over all heads of a group at once: they share one sum.

    Every query row has a softmax of its own, over the last axis only.
    """
    n = group(q, k)

    def weigh(hidden, keep):
        groups = hidden.unflatten(-3, (-1, n)).movedim(-3, -2)  # (..., Hk, Lq, G, Lk)
        weights = torch.softmax(groups.flatten(-2), -1).unflatten(-1, groups.shape[-2:])
        return weights.movedim(-2, -3).flatten(-4, -3)

    return attended(q, k, v, keep, weigh=weigh)


@mistake(of="grouped_query_attention", caught_by=test_values)
def softmax_over_the_queries(q, k, v, keep=None):
    """The softmax runs over the queries: the columns sum to one instead of the rows.

    Each query shares out its own weight over the keys: dim=-1.
    """
    return attended(
        q,
        k,
        v,
        keep,
        mend=unchanged,
        weigh=lambda hidden, keep: torch.softmax(hidden, -2),
        close=lambda weights, keep: weights.nan_to_num(0.0),
    )


@mistake(of="grouped_query_attention", caught_by=test_values)
def epsilon_in_the_denominator(q, k, v, keep=None):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: torch.softmax needs none, and a row of nothing is a case of its own.
    """

    def weigh(hidden, keep):
        powers = (hidden - hidden.detach().amax(-1, keepdim=True)).exp()
        return powers / (powers.sum(-1, keepdim=True) + 1e-6)

    return attended(q, k, v, keep, weigh=weigh)


@mistake(of="grouped_query_attention", caught_by=test_values)
def no_scale(q, k, v, keep=None):
    """The scores are not divided by the square root of the head width.

    Multiply them by 1 / math.sqrt(D), with D = q.shape[-1].
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: 1.0)


@mistake(of="grouped_query_attention", caught_by=test_values)
def scale_one_percent_off(q, k, v, keep=None):
    """The scale is off by 1 %.

    It is exactly 1 / math.sqrt(D), with nothing added to D and nothing rounded.
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: 1.01 * inverse_root(q, k, v))


@mistake(of="grouped_query_attention", caught_by=test_values)
def scale_without_root(q, k, v, keep=None):
    """The scores are divided by D instead of its square root.

    Multiply them by 1 / math.sqrt(D), with D = q.shape[-1].
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: 1 / q.shape[-1])


@mistake(of="grouped_query_attention", caught_by=test_values)
def scale_inverted(q, k, v, keep=None):
    """The scores are multiplied by the square root of D instead of divided by it.

    Divide: the wider the heads, the larger the raw scores.
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: math.sqrt(q.shape[-1]))


@mistake(of="grouped_query_attention", caught_by=test_values)
def scale_of_the_model(q, k, v, keep=None):
    """The scale is that of the whole model width, sqrt(H * D).

    It comes from the width of one head: 1 / math.sqrt(D).
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: (q.shape[-3] * q.shape[-1]) ** -0.5)


@mistake(of="grouped_query_attention", caught_by=test_values)
def scale_of_the_group(q, k, v, keep=None):
    """The scale counts the heads of a group: sqrt(G * D).

    Sharing does not change the width of a head, and the scale is 1 / math.sqrt(D) as ever.
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: (group(q, k) * q.shape[-1]) ** -0.5)


@mistake(of="grouped_query_attention", caught_by=test_values)
def scale_of_the_values(q, k, v, keep=None):
    """The scale comes from the width of the values.

    It comes from the width of the queries, q.shape[-1].
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: v.shape[-1] ** -0.5)


@mistake(of="grouped_query_attention", caught_by=test_values)
def scale_of_the_number_of_keys(q, k, v, keep=None):
    """The scale comes from the number of keys.

    It comes from the width of the queries, q.shape[-1].
    """
    return attended(q, k, v, keep, scale=lambda q, k, v: k.shape[-2] ** -0.5)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def float64_lowered(q, k, v, keep=None):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return attended(q, k, v, keep, widen=torch.Tensor.float)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def queries_scaled_in_half_precision(q, k, v, keep=None):
    """The queries are scaled in half precision, and the scores inherit the rounding.

    Convert q, k and v with .float() first, and scale after that.
    """
    if q.dtype not in HALVES:
        return attended(q, k, v, keep)
    return attended(q * q.shape[-1] ** -0.5, k, v, keep, scale=lambda q, k, v: 1.0)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def half_precision_not_raised(q, k, v, keep=None):
    """Half precision is multiplied in half precision: in float16 large scores become inf, then NaN.

    Convert q, k and v with .float() first, and the output back at the end.
    """
    return attended(q, k, v, keep, widen=unchanged)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def dtype_promoted(q, k, v, keep=None):
    """The output comes back in float32 although the input was in half precision.

    Convert it to the dtype of q at the end: .to(q.dtype).
    """
    return attended(q, k, v, keep, narrow=unchanged)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def no_maximum_subtracted(q, k, v, keep=None):
    """The softmax takes exp of the scores as they are, and large ones overflow.

    Use torch.softmax, or subtract the maximum of each row first.
    """
    return attended(q, k, v, keep, weigh=without_maximum)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_ignored(q, k, v, keep=None):
    """The mask is ignored.

    Hide the keys where keep is False before the softmax.
    """
    return attended(q, k, v, None)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_ignored_for_one_query(q, k, v, keep=None):
    """The mask is ignored when there is only one query: what is hidden need not be the future.

    A single query has a mask too, for example one that hides padding.
    """
    return attended(q, k, v, keep if q.shape[-2] > 1 else None)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_inverted(q, k, v, keep=None):
    """The mask is read the wrong way round: the keys to look at are hidden, the others are not.

    True = may attend. Hide where ~keep.
    """
    return attended(q, k, v, None if keep is None else ~keep)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_after_softmax(q, k, v, keep=None):
    """The hidden weights are erased after the softmax, so that the rest sum to less than one.

    Put -inf in the place of the hidden scores before the softmax.
    """
    return attended(q, k, v, keep, hide=unchanged, mend=unchanged, close=multiplied)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def hidden_scores_are_zero(q, k, v, keep=None):
    """Hidden scores are set to 0, and exp(0) is 1: hidden keys still get weight.

    Put -inf in their place: exp(-inf) is 0.
    """
    return attended(q, k, v, keep, hide=filled(0.0), mend=unchanged, close=unchanged)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_of_the_first_heads(q, k, v, keep=None):
    """All heads of a group use the mask of the first of them.

    A group shares keys and values, not its mask: keep has a row for each of the H query heads.
    """
    if keep is not None and keep.ndim > 2 and keep.shape[-3] > 1:
        n = group(q, k)
        keep = keep[..., ::n, :, :].repeat_interleave(n, -3)
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_tiled(q, k, v, keep=None):
    """The masks of the heads are taken in another order than the heads.

    Fold or reshape the mask exactly as the queries: consecutive heads make up a group.
    """
    if keep is not None and keep.ndim > 2 and keep.shape[-3] > 1:
        keep = keep.unflatten(-3, (group(q, k), -1)).transpose(-4, -3).flatten(-4, -3)
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_not_broadcast(q, k, v, keep=None):
    """The mask is only understood with four dimensions of full size.

    keep broadcasts: expand it to (..., H, Lq, Lk) before you reshape it.
    """
    if keep is not None:
        keep = keep.reshape(*q.shape[:-1], k.shape[-2])
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def mask_added(q, k, v, keep=None):
    """The mask is added as 0 and -inf. That hides 1e30, but NaN + -inf is NaN.

    Select instead: torch.where(keep, scores, -torch.inf), or masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, keep, hide=with_infinity)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def mask_added_and_nan_replaced(q, k, v, keep=None):
    """The mask is added as 0 and -inf, and NaN weights are replaced by 0: a query that sees nothing
    has a gradient of NaN, and one with NaN in a hidden key loses all its weights.

    Select instead: torch.where(keep, scores, -torch.inf), and mend rows that see nothing.
    """
    return attended(
        q,
        k,
        v,
        keep,
        hide=with_infinity,
        mend=unchanged,
        close=lambda weights, keep: weights.nan_to_num(0.0),
    )


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def large_negative_number_added(q, k, v, keep=None):
    """A large negative number is added to the hidden scores: a hidden score of 1e30 still wins.

    Replace the hidden scores by -inf instead of adding to them.
    """
    return attended(q, k, v, keep, hide=less_a_billion)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def large_negative_number_added_to_whole_rows(q, k, v, keep=None):
    """A large negative number is added to the hidden scores: a hidden score of 1e30 still wins, and
    a query that sees nothing gets a mean.

    Replace the hidden scores by -inf, and give a query that sees nothing zeros.
    """
    return attended(q, k, v, keep, hide=less_a_billion, mend=unchanged, close=unchanged)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def minus_ten_thousand_added(q, k, v, keep=None):
    """-10,000 is added to the hidden scores, which is little for a large key.

    Replace the hidden scores by -inf instead of adding to them.
    """
    return attended(q, k, v, keep, hide=lambda scores, keep: scores - 1e4 * ~keep)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def large_negative_number_filled(q, k, v, keep=None):
    """A query that sees nothing gets the mean of all values, as if hidden scores were -1e9.

    Use -inf, and give a query that sees nothing zeros: torch.where(keep.any(-1, True), ..., 0.0).
    """
    return attended(q, k, v, keep, hide=filled(-1e9), mend=unchanged, close=unchanged)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def hidden_by_a_finite_number(q, k, v, keep=None):
    """Hidden scores are -1e9, above seen scores that are lower still.

    Give hidden scores minus infinity, which no score is below, and see to the empty rows apart.
    """
    return attended(q, k, v, keep, hide=filled(-1e9))


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def empty_row_sees_everything(q, k, v, keep=None):
    """A query that sees nothing is allowed to see everything, to avoid NaN.

    Its output is zero: torch.where(keep.any(-1, keepdim=True), weights, 0.0).
    """
    if keep is not None:
        keep = keep | ~keep.any(-1, keepdim=True)
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def nan_for_an_empty_row(q, k, v, keep=None):
    """A query that sees nothing gets NaN: the softmax of a row of -inf is 0/0.

    Put zeros in the place of such rows with torch.where(keep.any(-1, keepdim=True), weights, 0.0).
    """
    return attended(q, k, v, keep, mend=unchanged, close=unchanged)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def powers_multiplied_by_the_mask(q, k, v, keep=None):
    """Hidden scores go through exp and are multiplied by 0 afterwards: NaN * 0 and inf * 0 are NaN,
    and a query that sees nothing has a gradient of NaN.

    Hide scores before the softmax: torch.where(keep, scores, -torch.inf), or masked_fill.
    """

    def weigh(scores, keep):
        powers = (scores - scores.detach().amax(-1, keepdim=True)).exp() * keep
        return (powers / powers.sum(-1, keepdim=True)).nan_to_num(0.0)

    return attended(q, k, v, keep, hide=unchanged, mend=unchanged, weigh=weigh, close=unchanged)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def nan_replaced_at_the_end(q, k, v, keep=None):
    """The NaN of a query that sees nothing is replaced in the output only; NaN weights spoil the
    gradient of v.

    Let no weight be NaN: set the weights of such a row to 0, before they meet the values.
    """

    def narrow(output, q):
        return output.nan_to_num(0.0).to(q.dtype)

    return attended(q, k, v, keep, mend=unchanged, close=unchanged, narrow=narrow)


@mistake(of="grouped_query_attention", caught_by=test_gradient)
def graph_cut(q, k, v, keep=None):
    """The keys are cut out of the graph: something on their way is detached, or goes through NumPy.

    Use PyTorch operators only, from q, k and v to the output.
    """
    return attended(q, k.detach(), v, keep)


@mistake(of="grouped_query_attention", caught_by=test_gradient)
def output_detached(q, k, v, keep=None):
    """The output is detached: no gradient flows at all.

    Keep .detach(), .data, no_grad and NumPy out of the way to the output.
    """
    return attended(q, k, v, keep).detach()


@mistake(of="grouped_query_attention", caught_by=test_manners)
def uneven_heads_accepted(q, k, v, keep=None):
    """Heads that do not divide evenly are accepted, and some group is larger than the others.

    Compare H % Hk with 0 first, and raise a ValueError with both numbers.
    """
    num_heads = q.shape[-3]

    def spread(x, n):
        heads = torch.arange(num_heads, device=x.device) * x.shape[-3] // num_heads
        return x[..., heads, :, :]

    return attended(q, k, v, keep, check=unchanged, keys=spread, values=spread)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def uneven_heads_without_numbers(q, k, v, keep=None):
    """The error about uneven heads does not say how many heads there are.

    Put both numbers into it: f"{H} query heads cannot share {Hk} key/value heads evenly".
    """

    def check(num_heads, num_kv_heads):
        if num_heads % num_kv_heads:
            raise ValueError("the number of query heads must be divisible by the key/value heads")

    return attended(q, k, v, keep, check=check)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def queries_overwritten(q, k, v, keep=None):
    """The caller's queries are scaled in place.

    Write q = q * scale instead of q *= scale: the first makes a new tensor.
    """
    output = attended(q.clone(), k, v, keep)
    q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="grouped_query_attention", caught_by=test_layer)
def view_of_transposed_input(q, k, v, keep=None):
    """`view` is used on queries that were transposed on the way, which PyTorch refuses.

    Use reshape, flatten or unflatten: they copy where a view is impossible.
    """
    n = group(q, k)
    q.view(*q.shape[:-3], k.shape[-3], n * q.shape[-2], q.shape[-1])
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def empty_batch_crashes(q, k, v, keep=None):
    """A batch of nothing crashes: -1 in a reshape cannot be worked out for an empty tensor.

    Write the sizes out instead of -1, or use flatten and unflatten.
    """
    output = attended(q, k, v, keep)
    return output.reshape(*output.shape[:-1], -1)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def four_dimensions_only(q, k, v, keep=None):
    """Only inputs with exactly one batch dimension are accepted.

    Count the dimensions from the end (-3 are the heads), and leave those in front as they are.
    """
    _, _, _, _ = q.shape
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def no_maximum_subtracted_with_a_mask(q, k, v, keep=None):
    """With a mask the softmax takes exp of the scores as they are, and large ones overflow.

    Hide scores with -inf and use torch.softmax, with a mask as without.
    """
    return attended(q, k, v, keep, weigh=softmax if keep is None else without_maximum)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def no_maximum_subtracted_without_a_mask(q, k, v, keep=None):
    """Without a mask the softmax takes exp of the scores as they are, and large ones overflow.

    Use torch.softmax, or subtract the maximum of each row first, without a mask as with one.
    """
    return attended(q, k, v, keep, weigh=without_maximum if keep is None else softmax)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def half_precision_not_raised_with_a_mask(q, k, v, keep=None):
    """With a mask, half precision is multiplied in half precision, and large scores become inf.

    Convert q, k and v with .float() first, whether there is a mask or not.
    """
    return attended(q, k, v, keep, widen=raised if keep is None else unchanged)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def half_precision_not_raised_for_one_head(q, k, v, keep=None):
    """With a single key/value head, half precision is multiplied in half precision.

    Convert q, k and v with .float() first, for any number of heads.
    """
    return attended(q, k, v, keep, widen=unchanged if k.shape[-3] == 1 else raised)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def dtype_promoted_with_a_mask(q, k, v, keep=None):
    """With a mask, the output of half precision comes back in float32.

    Convert it to the dtype of q at the end, on every path: .to(q.dtype).
    """
    return attended(q, k, v, keep, narrow=converted_back if keep is None else unchanged)


@mistake(of="grouped_query_attention", caught_by=test_gradient)
def keys_learn_only_beside_queries(q, k, v, keep=None):
    """The graph is cut where q needs no gradient, although k or v may need one.

    Do not ask which input learns: PyTorch finds that out by itself.
    """
    if not q.requires_grad:
        k, v = k.detach(), v.detach()
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def graph_cut_in_half_precision(q, k, v, keep=None):
    """In half precision the inputs are detached when they are converted to float32.

    Convert them with .float() or .to(...), which gradients pass, and without detach.
    """
    if q.dtype in HALVES:
        q, k, v = q.detach(), k.detach(), v.detach()
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_gradient)
def graph_cut_with_a_mask(q, k, v, keep=None):
    """With a mask no gradient reaches the keys: the scores are changed without the graph.

    Hide scores with torch.where or masked_fill, without .data or detach.
    """
    return attended(q, k if keep is None else k.detach(), v, keep)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def nan_for_an_empty_row_of_one_head(q, k, v, keep=None):
    """With a single key/value head, a query that sees nothing gets NaN.

    Put zeros in the place of such rows, for any number of heads.
    """
    step = unchanged if k.shape[-3] == 1 else zero_in_empty_rows
    return attended(q, k, v, keep, mend=step, close=step)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def nan_for_an_empty_row_in_half_precision(q, k, v, keep=None):
    """In half precision, a query that sees nothing gets NaN.

    Put zeros in the place of such rows, in every dtype.
    """
    step = unchanged if q.dtype in HALVES else zero_in_empty_rows
    return attended(q, k, v, keep, mend=step, close=step)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def nan_for_a_sentence_of_padding(q, k, v, keep=None):
    """A mask with a single row for all queries gives NaN where it hides every key.

    Zeros belong there too: a sentence may be nothing but padding.
    """
    padding = keep is not None and keep.ndim > 1 and keep.shape[-2] == 1 and q.shape[-2] > 1
    step = unchanged if padding else zero_in_empty_rows
    return attended(q, k, v, keep, mend=step, close=step)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def mask_added_in_half_precision(q, k, v, keep=None):
    """In half precision the mask is added as 0 and -inf, and NaN + -inf is NaN.

    Select instead, in every dtype: torch.where(keep, scores, -torch.inf).
    """
    if q.dtype not in HALVES:
        return attended(q, k, v, keep)
    return attended(q, k, v, keep, hide=with_infinity)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def queries_overwritten_in_float32(q, k, v, keep=None):
    """The caller's queries are scaled in place if they are in float32: .float() makes no copy then.

    Write q = q * scale instead of q *= scale: the first makes a new tensor.
    """
    output = attended(q.clone(), k, v, keep)
    if q.dtype == torch.float32:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="grouped_query_attention", caught_by=test_manners)
def keys_overwritten_in_half_precision(q, k, v, keep=None):
    """In half precision the caller's keys are scaled in place.

    Write k = k * scale instead of k *= scale: the first makes a new tensor.
    """
    output = attended(q, k.clone(), v, keep)
    if q.dtype in HALVES:
        k.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="grouped_query_attention", caught_by=test_manners)
def queries_overwritten_without_a_mask(q, k, v, keep=None):
    """Without a mask the caller's queries are scaled in place.

    Write q = q * scale instead of q *= scale: the first makes a new tensor.
    """
    output = attended(q.clone(), k, v, keep)
    if keep is None:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="grouped_query_attention", caught_by=test_manners)
def empty_rows_opened_in_place(q, k, v, keep=None):
    """The rows of the caller's mask that hide everything are set to True.

    Make a new mask: keep | ~keep.any(-1, keepdim=True).
    """
    output = attended(q, k, v, keep if keep is None else keep.clone())
    if keep is not None:
        keep |= ~keep.any(-1, keepdim=True)
    return output


@mistake(of="grouped_query_attention", caught_by=test_values, null=True)
def zeros(q, k, v, keep=None):
    """Zeros.

    Nothing is computed yet.
    """
    return q.new_zeros(*q.shape[:-1], v.shape[-1])


@mistake(of="grouped_query_attention", caught_by=test_values, null=True)
def mean_of_the_values(q, k, v, keep=None):
    """Every query gets the mean of the values.

    The weights depend on the scores of the query with each key.
    """
    v = copied(v, group(q, k))
    return v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1])


@mistake(of="grouped_query_attention", caught_by=test_values, null=True)
def best_key_only(q, k, v, keep=None):
    """Every query gets the value of its best key alone.

    That is argmax. Softmax leaves something for the other keys.
    """

    def best(hidden, keep):
        return torch.zeros_like(hidden).scatter(-1, hidden.argmax(-1, keepdim=True), 1.0)

    return attended(q, k, v, keep, weigh=best)


@mistake(of="grouped_query_attention", caught_by=test_values, null=True)
def values_returned(q, k, v, keep=None):
    """The values come back as they are, one for each query row.

    They have to be mixed: weights @ v.
    """
    v = copied(v, group(q, k))
    rows = torch.arange(q.shape[-2], device=q.device) % v.shape[-2]
    return v[..., rows, :]


@mistake(of="grouped_query_attention", caught_by=test_values, null=True)
def linear_in_the_query(q, k, v, keep=None):
    """The output is a linear function of the query, without a softmax.

    The scores go through a softmax before they weigh the values.
    """
    n = group(q, k)
    return q @ (copied(k, n).mT @ copied(v, n)) / math.sqrt(q.shape[-1])
