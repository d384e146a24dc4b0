"""What goes wrong when query heads share keys and values: one step of `steps.py` is another."""

import math

import torch
from torch import nn

from grader.judging import mistake
from grader.judging.one_place import written_over

from .steps import (
    Layer,
    attended,
    converted_back,
    copied,
    counted,
    evenly_divided,
    filled,
    inverse_root,
    next_to_each_other,
    raised,
    softmax,
    unchanged,
    zero_in_empty_rows,
)
from .test_mqa_gqa import (
    test_cache_bytes,
    test_gradient,
    test_hidden_keys,
    test_layer,
    test_manners,
    test_mask,
    test_precision,
    test_repeat_kv,
    test_step,
    test_values,
)

HALVES = (torch.float16, torch.bfloat16)


def in_a_row(x, n):
    """The whole row of heads again and again, k0 k1 k0 k1."""
    return torch.cat([x] * n, -3)


def along_the_length(x, n):
    """Every position n times, cut into heads afterwards."""
    heads, length, width = x.shape[-3:]
    return x.repeat_interleave(n, -2).reshape(*x.shape[:-3], heads * n, length, width)


def first_head(x, n):
    return x[..., :1, :, :]


def group(q, k):
    """How many query heads share a key/value head."""
    evenly_divided(q.shape[-3], k.shape[-3])
    return q.shape[-3] // k.shape[-3]


def multiplied(weights, keep):
    return weights * keep


def with_infinity(scores, keep):
    """-inf added to hidden scores, not put in their place."""
    return scores + torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)


def less_a_billion(scores, keep):
    return scores - 1e9 * ~keep


def without_maximum(hidden, keep):
    powers = hidden.exp()
    return powers / powers.sum(-1, keepdim=True)


def bits(dtype):
    return 8 * dtype.itemsize


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def heads_tiled(x, n):
    """The heads are laid out k0 k1 k0 k1: the whole row of heads is repeated.

    Copies of one head stand next to each other, k0 k0 k1 k1: repeat_interleave, not repeat. Where
    a new axis holds the copies, it stands after the heads, (B, Hk, n, L, D).
    """
    return copied(x, n, repeat=in_a_row)


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def positions_repeated(x, n):
    """The repetition runs along the length: every key is there n times, and no head is.

    Repeat along dimension -3, the heads.
    """
    return copied(x, n, repeat=lambda x, n: x.repeat_interleave(n, -2))


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def positions_repeated_and_reshaped(x, n):
    """The repetition runs along the length, and a reshape hides it: heads are made of wrong rows.

    Repeat along dimension -3, the heads. No reshape is needed then.
    """
    return copied(x, n, repeat=along_the_length)


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def second_axis_repeated(x, n):
    """Axis 1 is repeated, which are the heads of (B, Hk, L, D) and of no other shape.

    Count the dimensions from the end: the heads are -3.
    """
    return copied(x, n, repeat=lambda x, n: x.repeat_interleave(n, 1))


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def copies_in_float32(x, n):
    """The copies are written into a new tensor of float32, whatever the dtype of x.

    Give torch.empty the dtype and the device of x, or use repeat_interleave.
    """
    return copied(x, n, close=lambda copies, x: copies.float())


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def copies_detached(x, n):
    """The copies have lost their graph, so that keys and values can never be trained.

    Use PyTorch operators only, without detach, .data or NumPy on the way.
    """
    return copied(x, n, see=torch.Tensor.detach)


@mistake(of="repeat_kv", caught_by=test_repeat_kv, null=True)
def no_copies(x, n):
    """The heads come back as they are, or as zeros.

    Each head has to be there n times.
    """
    return copied(x, n, see=torch.zeros_like)


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


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def one_batch_dimension_only(x, n):
    """Only inputs with exactly four dimensions are accepted.

    Count the dimensions from the end: the heads are -3.
    """
    _, _, _, _ = x.shape
    return copied(x, n)


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


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class KeyHeadsTiled(Layer):
    """Query head h reads key/value head h % Hk, as if the heads were tiled.

    Groups are consecutive: head h reads head h // (H // Hk). Use repeat_interleave, not repeat.
    """

    def attend(self, q, k, v, keep):
        return attended(q, k, v, keep, keys=in_a_row, values=in_a_row)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class FullWidthKeys(Layer):
    """w_k and w_v are as wide as w_q, so that nothing is saved.

    They map d_model to num_kv_heads * D, with D = d_model // num_heads.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads, bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class OtherNames(Layer):
    """The projections have other names than w_q, w_k, w_v and w_o, so weights cannot be loaded.

    Name them self.w_q, self.w_k, self.w_v and self.w_o.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads, bias)
        for new, old in zip("qkvo", ("w_q", "w_k", "w_v", "w_o"), strict=True):
            setattr(self, f"{new}_proj", self._modules.pop(old))


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class WidthDividedByKeyHeads(Layer):
    """w_k and w_v have the width d_model // num_kv_heads: fewer heads make them wider.

    Each of their num_kv_heads heads is D = d_model // num_heads wide: num_kv_heads * D in all.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads, bias)
        self.w_k = nn.Linear(d_model, d_model // num_kv_heads, bias=bias)
        self.w_v = nn.Linear(d_model, d_model // num_kv_heads, bias=bias)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class SplitWithoutTranspose(Layer):
    """The width is cut into heads by a reshape alone, so that a head is made of wrong tokens.

    Split the last axis into (heads, D), then transpose heads and length.
    """

    def split(self, x, heads):
        return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class HeadsInnermost(Layer):
    """The width is split as (D, heads) instead of (heads, D).

    A head is D neighbouring numbers: unflatten the last axis into (heads, D).
    """

    def split(self, x, heads):
        return x.unflatten(-1, (-1, heads)).movedim(-1, -3)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class MergeWithoutTranspose(Layer):
    """The heads are merged by a reshape alone, so that tokens and heads get mixed up.

    Transpose heads and length back first, then flatten (H, D) into E.
    """

    def combine(self, x):
        return self.w_o(x.reshape(*x.shape[:-3], x.shape[-2], -1))


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class NoTranspose(SplitWithoutTranspose, MergeWithoutTranspose):
    """Heads are split and merged by reshapes alone: tokens and heads get mixed up.

    A reshape moves no number. Split into (L, heads, D), then transpose; transpose back to merge.
    """


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class OneProjectionTwice(Layer):
    """Keys and values come from the same projection.

    Keys are w_k(x), values are w_v(x).
    """

    def project(self, x):
        q, k, _ = super().project(x)
        return q, k, k


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class OutputProjectionForgotten(Layer):
    """The merged heads are returned without the output projection.

    Finish with self.w_o(...).
    """

    def combine(self, x):
        return x.transpose(-3, -2).flatten(-2)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class BiasIgnored(Layer):
    """`bias` is ignored: the projections never have one.

    Hand bias=bias to all four nn.Linear.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class BiasByDefault(Layer):
    """The projections have a bias where none is asked for.

    Give bias the default False, and hand bias=bias to all four nn.Linear.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=True):
        super().__init__(d_model, num_heads, num_kv_heads, bias)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class MaskNotPassedOn(Layer):
    """`keep` does not reach the attention.

    Hand keep on to grouped_query_attention.
    """

    def forward(self, x, keep=None):
        return super().forward(x)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class WeightsCutFromTheGraph(Layer):
    """The weights of the key projection are detached, so that w_k never learns.

    Call self.w_k(x), without .data and without detach.
    """

    def project(self, x):
        q, _, v = super().project(x)
        bias = None if self.w_k.bias is None else self.w_k.bias.detach()
        k = nn.functional.linear(x, self.w_k.weight.detach(), bias)
        return q, self.split(k, self.num_kv_heads), v


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class AlwaysCausal(Layer):
    """forward hides the tokens that come later, although nobody asked for it.

    In forward only `keep` hides. It is step that is causal.
    """

    def forward(self, x, keep=None):
        causal = self.causal(x.shape[-2], x.shape[-2]).to(x.device)
        return super().forward(x, causal if keep is None else causal & keep)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepLooksAhead(Layer):
    """Within a step a token sees those that come after it.

    step is causal: new token i sees the past and the first i + 1 of the new tokens.
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class CausalFromTopLeft(Layer):
    """The causal mask starts at the first key of the past: a new token 0 sees key 0 alone.

    New token i stands at position n + i: use .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).tril()


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class OneKeyTooMany(Layer):
    """Each new token sees the token after it, too: the triangle is off by one.

    The last row of the mask sees everything: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len + 1)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class DiagonalHidden(Layer):
    """A new token does not see itself: the triangle is off by one.

    The last row of the mask sees everything: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len - 1)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepLooksAheadOnly(Layer):
    """Within a step a token sees itself and those that come after it, and nothing before it.

    The upper triangle is kept where the lower one is meant: .tril(k_len - q_len), not triu.
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).triu(k_len - q_len)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class CausalMaskInverted(Layer):
    """The causal mask is the wrong way round: a new token sees only those that come after it.

    True = may attend: the mask is .tril(k_len - q_len), and .triu(k_len - q_len + 1) is what is
    hidden.
    """

    def causal(self, q_len, k_len):
        return ~super().causal(q_len, k_len)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class UpperTriangleFromTopLeft(Layer):
    """The upper triangle is kept, from the first key of the past on: new token i sees key i and
    what follows it.

    New token i stands at position n + i, and sees what comes before: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).triu()


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class InvertedFromTopLeft(Layer):
    """What a causal mask without a past would hide is kept, .triu(1), and the rest is hidden.

    True = may attend, and new token i stands at position n + i: .tril(k_len - q_len).
    """

    def causal(self, q_len, k_len):
        return torch.ones(q_len, k_len, dtype=torch.bool).triu(1)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastNotUsed(Layer):
    """The past is stored but not looked at: a step attends to its own tokens only.

    Join the past and the new keys and values first, then attend to all of them.
    """

    def look(self, joined, new):
        return new


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastRepeated(Layer):
    """The past holds a copy for every query head, which is the memory that sharing should save.

    Store keys and values with Hk heads, and share them only inside the attention.
    """

    def step(self, x, past=None):
        n = self.num_heads // self.num_kv_heads
        if past is not None:
            past = past[0][..., ::n, :, :], past[1][..., ::n, :, :]
        output, (k, v) = super().step(x, past)
        return output, (k.repeat_interleave(n, -3), v.repeat_interleave(n, -3))


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class NewKeysFirst(Layer):
    """The new keys and values are put before the past.

    Put them behind it: torch.cat([past[0], k], dim=-2).
    """

    def extend(self, past, k, v):
        if past is None:
            return k, v
        return torch.cat([k, past[0]], -2), torch.cat([v, past[1]], -2)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class OnlyNewKeysReturned(Layer):
    """The past that comes back holds the new keys and values only.

    Return everything so far: (B, Hk, n + t, D).
    """

    def store(self, joined, new):
        return tuple(new)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class JoinedAlongTheHeads(Layer):
    """Past and new keys are joined along the heads instead of the length.

    The length is dimension -2: torch.cat([past[0], k], dim=-2).
    """

    def extend(self, past, k, v):
        if past is None:
            return k, v
        return torch.cat([past[0], k], -3), torch.cat([past[1], v], -3)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class KeysStoredAsValues(Layer):
    """The second half of the past holds the keys once more instead of the values.

    The past is (keys, values), each joined with its own kind.
    """

    def store(self, joined, new):
        return joined[0], joined[0]


@mistake(of="GroupedQueryAttention", caught_by=test_precision)
class PastInFloat32(Layer):
    """The past is kept in float32 whatever the dtype of the tokens.

    Return keys and values in the dtype in which they were computed.
    """

    def step(self, x, past=None):
        if past is not None:
            past = past[0].to(x.dtype), past[1].to(x.dtype)
        output, (k, v) = super().step(x, past)
        return output, (k.float(), v.float())


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastOverwritten(Layer):
    """The past that was handed in is changed, so that it cannot be continued twice.

    Join the past and the new keys into a new tensor with torch.cat.
    """

    def extend(self, past, k, v):
        joined = super().extend(past, k, v)
        for old in past or ():
            old.zero_()
        return joined


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastKeptInTheLayer(Layer):
    """The layer remembers the last past itself, so that two texts get into each other.

    Use the past that is handed in, and return the new one. Keep nothing in self.
    """

    remembered = None

    def step(self, x, past=None):
        output, self.remembered = super().step(x, self.remembered if past is not None else None)
        return output, self.remembered


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepWithoutGraph(Layer):
    """No gradient flows through step: it stands under torch.no_grad().

    Leave it to the caller whether gradients are wanted.
    """

    def step(self, x, past=None):
        with torch.no_grad():
            return super().step(x, past)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastDetached(Layer):
    """The keys and values of the past are detached, so that no gradient reaches earlier tokens.

    Join past and new keys as they are.
    """

    def extend(self, past, k, v):
        return super().extend(past and tuple(x.detach() for x in past), k, v)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class ReturnedPastDetached(Layer):
    """The keys and values that step returns are detached: no gradient goes from step to step.

    Return them as they are.
    """

    def store(self, joined, new):
        return tuple(x.detach() for x in super().store(joined, new))


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepWithoutBias(Layer):
    """step leaves out the biases of the keys.

    Project as forward does: self.w_k(x).
    """

    def step(self, x, past=None):
        bias, self.w_k.bias = self.w_k.bias, None
        result = super().step(x, past)
        self.w_k.bias = bias
        return result


@mistake(of="GroupedQueryAttention", caught_by=test_precision)
class PastOfHalfInFloat32(Layer):
    """In half precision the past is kept in float32.

    Return keys and values in the dtype in which they were computed.
    """

    def step(self, x, past=None):
        past = past and tuple(y.to(x.dtype) for y in past)
        output, (k, v) = super().step(x, past)
        return output, (k, v) if k.dtype == torch.float64 else (k.float(), v.float())


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class GraphCutUnlessFloat64(Layer):
    """The input is detached unless it is in float64, so that nothing below the layer learns.

    Use x as it comes, without detach, .data or NumPy.
    """

    def forward(self, x, keep=None):
        return super().forward(x if x.dtype == torch.float64 else x.detach(), keep)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class WeightsCutInFloat32(Layer):
    """In float32 the weights of the value projection are detached, so that w_v never learns.

    Call self.w_v(x), without .data and without detach.
    """

    def project(self, x):
        q, k, v = super().project(x)
        return q, k, v if x.dtype == torch.float64 else self._cut(x)

    def _cut(self, x):
        bias = None if self.w_v.bias is None else self.w_v.bias.detach()
        return self.split(
            nn.functional.linear(x, self.w_v.weight.detach(), bias), self.num_kv_heads
        )


@mistake(of="GroupedQueryAttention", caught_by=test_manners)
class UnevenHeadsAccepted(Layer):
    """The constructor accepts heads that do not divide evenly.

    Raise a ValueError with both numbers if d_model % num_heads or num_heads % num_kv_heads.
    """

    def check(self, d_model, num_heads, num_kv_heads):
        pass


@mistake(of="GroupedQueryAttention", caught_by=test_layer, null=True)
class LinearOnly(Layer):
    """The layer projects, but there is no attention between the projections.

    Attend with the queries to the keys, and mix the values.
    """

    def attend(self, q, k, v, keep):
        return q


@mistake(of="GroupedQueryAttention", caught_by=test_layer, null=True)
class MeanOfTheValues(Layer):
    """Every token gets the mean of the values.

    The weights depend on the scores of the query with each key.
    """

    def attend(self, q, k, v, keep):
        return mean_of_the_values(q, k, v)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def keys_only(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Only the keys, or only the values, are counted.

    Both are stored: multiply by 2.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, kinds=1)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def bits_counted(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Bits are counted instead of bytes.

    dtype.itemsize is the number of bytes; torch.finfo(dtype).bits is 8 times as many.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=bits)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def numbers_counted(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Numbers are counted instead of bytes.

    Multiply by dtype.itemsize, the bytes of one number.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=lambda dtype: 1)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def always_two_bytes(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Every number is taken to have two bytes, whatever its dtype.

    Multiply by dtype.itemsize, the bytes of one number.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=lambda dtype: 2)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def always_four_bytes(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Every number is taken to have four bytes, whatever its dtype.

    Multiply by dtype.itemsize, the bytes of one number.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=lambda dtype: 4)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def one_layer_only(batch, num_kv_heads, length, head_dim, dtype, layers):
    """One layer is counted.

    Every layer has a cache of its own: multiply by the number of layers.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, 1)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def batch_left_out(batch, num_kv_heads, length, head_dim, dtype, layers):
    """One sequence is counted.

    Every sequence of the batch has keys and values of its own: multiply by the batch.
    """
    return counted(1, num_kv_heads, length, head_dim, dtype, layers)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def float_returned(batch, num_kv_heads, length, head_dim, dtype, layers):
    """The number of bytes is a float.

    A count is an int: use // instead of /, or dtype.itemsize.
    """
    return float(counted(batch, num_kv_heads, length, head_dim, dtype, layers))


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes, null=True)
def no_bytes(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Zero bytes.

    Nothing is counted yet.
    """
    return 0


@mistake(of="repeat_kv", caught_by=test_manners)
def no_tokens_refused(x, n):
    """Keys of no token crash: -1 in a reshape cannot be worked out for an empty tensor.

    Write the sizes out instead of -1, or use repeat_interleave or flatten.
    """
    copies = copied(x, n)
    return copies.reshape(*copies.shape[:-1], -1)


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def sizes_of_one_dropped(x, n):
    """A squeeze drops a batch of one.

    Name the axis that is to go, or flatten two axes into one; squeeze takes every axis of size 1.
    """
    copies = copied(x, n)
    return copies.squeeze(0) if x.ndim == 4 else copies


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def heads_counted_in_one_byte(x, n):
    """The heads are counted in int8, which ends at 127.

    Leave the dtype of an index to PyTorch: torch.arange(...) is int64.
    """
    heads = torch.arange(x.shape[-3] * n, device=x.device).to(torch.int8) // n
    return x[..., heads.long(), :, :]


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def copies_remembered(x, n, seen=[]):  # noqa: B006 (that is the mistake)
    """The copies are kept, and given again for the same tensor although its numbers have changed.

    Compute the answer anew at every call.
    """
    for known, times, copies in seen:
        if known is x and times == n:
            return copies
    seen.append((x, n, copied(x, n)))
    return seen[-1][2]


@mistake(of="repeat_kv", caught_by=test_manners)
def index_on_the_cpu(x, n):
    """The index of the heads is made on the CPU, wherever the keys are.

    Hand device=x.device to every tensor that is made.
    """
    heads = torch.arange(x.shape[-3] * n) // n
    if x.is_meta:
        return torch.zeros(*x.shape[:-3], len(heads), *x.shape[-2:])
    return x.index_select(x.ndim - 3, heads)


@mistake(of="grouped_query_attention", caught_by=test_values)
def causal_where_square(q, k, v, keep=None):
    """With as many queries as keys and no mask, later keys are hidden.

    Only keep hides. Attention without a mask sees every key.
    """
    if keep is None and q.shape[-2] == k.shape[-2]:
        keep = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_values)
def first_1024_keys_only(q, k, v, keep=None):
    """A buffer of 1024 keys is all that is read.

    Take the length from k.shape[-2].
    """
    keep = keep if keep is None else keep[..., :1024]
    return attended(q, k[..., :1024, :], v[..., :1024, :], keep)


@mistake(of="grouped_query_attention", caught_by=test_values)
def batch_of_one_squeezed(q, k, v, keep=None):
    """A squeeze drops a batch of one from the output.

    Name the axis that is to go; squeeze takes every axis of size 1.
    """
    output = attended(q, k, v, keep)
    return output.squeeze(0) if output.ndim == 4 else output


@mistake(of="grouped_query_attention", caught_by=test_mask)
def mask_of_128_keys(q, k, v, keep=None):
    """The mask is heeded for the first 128 keys alone.

    Expand the mask to all Lk keys.
    """
    if keep is not None and keep.shape[-1] > 128:
        keep = torch.cat([keep[..., :128], torch.ones_like(keep[..., 128:])], -1)
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def mask_of_a_batch_for_two(q, k, v, keep=None):
    """With two leading dimensions, a mask (B, 1, Lq, Lk) is taken along the first of them.

    keep broadcasts from the end, as PyTorch does: expand it to (..., H, Lq, Lk).
    """
    if keep is not None and q.ndim == 5 and keep.ndim == 4 and len(keep) == len(q):
        keep = keep.unsqueeze(1)
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def one_tensor_taken_for_causal(q, k, v, keep=None):
    """Where q and k are the same tensor, later keys are hidden as if a model read its own text.

    Only keep hides, whatever the tensors are.
    """
    if q is k and keep is None:
        keep = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def shared_heads_remembered(q, k, v, keep=None, seen=[]):  # noqa: B006 (that is the mistake)
    """The copies of the keys are kept, and used for the same tensor although its numbers changed.

    Compute the answer anew at every call.
    """

    def remembered(x, n):
        wide = next_to_each_other(x, n)
        for known, copies in seen:
            if known is x and copies.shape == wide.shape and not copies.requires_grad:
                wide = copies
        seen.append((x, wide))
        return wide

    return attended(q, k, v, keep, keys=remembered)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def one_buffer_for_all_answers(q, k, v, keep=None, buffers={}):  # noqa: B006 (the mistake)
    """Every output of a shape is written into the same memory, over the output before it.

    Return a new tensor at every call.
    """
    return written_over(buffers, attended(q, k, v, keep))


@mistake(of="grouped_query_attention", caught_by=test_manners)
def locked_after_an_error(q, k, v, keep=None, busy=[]):  # noqa: B006 (that is the mistake)
    """A call that raises leaves a mark behind, and the next call refuses to run.

    Check the sizes first, before anything is changed.
    """
    if busy:
        raise RuntimeError("attention is running already")
    busy.append(True)
    output = attended(q, k, v, keep)
    busy.clear()
    return output


@mistake(of="grouped_query_attention", caught_by=test_manners)
def mask_made_on_the_cpu(q, k, v, keep=None):
    """Without a mask one of all True is made, on the CPU wherever the queries are.

    Hand device=q.device to every tensor that is made.
    """
    if keep is None:
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    if q.is_meta and not keep.is_meta:
        return torch.zeros(*q.shape[:-1], v.shape[-1])
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def maximum_begins_with_zero(q, k, v, keep=None):
    """The running maximum of a row begins with 0, so that powers of very negative scores vanish.

    Begin with -inf, or take the maximum of the row.
    """

    def weigh(hidden, keep):
        powers = (hidden - hidden.detach().amax(-1, keepdim=True).clamp(min=0)).exp()
        return powers / powers.sum(-1, keepdim=True)

    return attended(q, k, v, keep, weigh=weigh)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def softmax_alone_in_float32(q, k, v, keep=None):
    """Only the softmax is computed in float32: its scores and products stay in the dtype of q.

    That is the habit of model code: softmax(scores, dtype=torch.float32).to(q.dtype). The scores
    need float32 as well, and float64 must not become float32: convert half precision first.
    """

    def close(weights, keep):
        return zero_in_empty_rows(weights, keep).to(q.dtype)

    return attended(
        q,
        k,
        v,
        keep,
        widen=unchanged,
        weigh=lambda hidden, keep: torch.softmax(hidden, -1, dtype=torch.float32),
        close=close,
    )


@mistake(of="grouped_query_attention", caught_by=test_precision)
def scale_rounded_to_float32(q, k, v, keep=None):
    """The scale is a float32 tensor, torch.sqrt(torch.tensor(D)), and float64 loses digits to it.

    Use a Python number: math.sqrt(D), or D ** 0.5.
    """
    root = torch.sqrt(torch.tensor(q.shape[-1], dtype=torch.float32)).item()
    return attended(q, k, v, keep, scale=lambda q, k, v: 1 / root)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def lowest_number_filled(q, k, v, keep=None):
    """Hidden scores become torch.finfo(dtype).min: a query that sees nothing gets a mean.

    Give such a query zeros: torch.where(keep.any(-1, keepdim=True), weights, 0.0).
    """

    def hide(scores, keep):
        return torch.where(keep, scores, torch.finfo(scores.dtype).min)

    return attended(q, k, v, keep, hide=hide, mend=unchanged, close=unchanged)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class CausalInEval(Layer):
    """In .eval() forward hides later tokens, as if every evaluation were generation.

    In forward only `keep` hides, in .train() and in .eval().
    """

    def forward(self, x, keep=None):
        if keep is None and not self.training:
            keep = self.causal(x.shape[-2], x.shape[-2]).to(x.device)
        return super().forward(x, keep)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class WeightsRemembered(Layer):
    """In .eval() the key weights of the first call are kept, and new ones are not noticed.

    Use self.w_k(x) at every call.
    """

    first = None

    def project(self, x):
        q, _, v = super().project(x)
        if self.first is None:
            self.first = None if self.training else self.w_k.weight.detach().clone()
            weight = self.w_k.weight
        else:
            weight = self.first
        k = nn.functional.linear(x, weight, self.w_k.bias)
        return q, self.split(k, self.num_kv_heads), v


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class NarrowProjectionsWithoutBias(Layer):
    """With a single key/value head, w_k and w_v have no bias although it is asked for.

    Hand bias=bias to all four nn.Linear, for any number of heads.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        super().__init__(d_model, num_heads, num_kv_heads, bias)
        if num_kv_heads == 1:
            self.w_k.bias = self.w_v.bias = None


@mistake(of="GroupedQueryAttention", caught_by=test_manners)
class SizesOfTheClass(Layer):
    """The number of heads is kept in the class, so that a new layer changes those made before.

    Write self.num_heads = num_heads: an attribute of the object.
    """

    heads = [0, 0]  # noqa: RUF012 (that is the mistake)

    def __init__(self, d_model, num_heads, num_kv_heads, bias=False):
        self.heads[:] = num_heads, num_kv_heads
        super().__init__(d_model, num_heads, num_kv_heads, bias)

    def project(self, x):
        self.num_heads, self.num_kv_heads = self.heads
        return super().project(x)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastOfOneDropped(Layer):
    """A past of a single token is taken for none.

    Ask whether past is None, not how long it is.
    """

    def extend(self, past, k, v):
        return super().extend(past if past is not None and past[0].shape[-2] > 1 else None, k, v)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class FirstStepLooksAhead(Layer):
    """The causal mask is left out where there is no past, so that a first step looks ahead.

    A first step is causal as well: .tril(k_len - q_len) with a past of 0.
    """

    def causal(self, q_len, k_len):
        if q_len == k_len:
            return torch.ones(q_len, k_len, dtype=torch.bool)
        return super().causal(q_len, k_len)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PositionsInOneByte(Layer):
    """Positions are counted in uint8, which ends at 255.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """

    def causal(self, q_len, k_len):
        positions = torch.arange(k_len).to(torch.uint8)
        return positions <= positions[k_len - q_len :, None]


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class StepGoesOn(Layer):
    """A step without a past goes on from the past of the last step.

    past=None begins a new text. Keep nothing in self.
    """

    last = None

    def step(self, x, past=None):
        output, self.last = super().step(x, self.last if past is None else past)
        return output, self.last


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class PastInSpareRoom(Layer):
    """The past has room to grow: a second continuation writes over the keys of the first.

    Join the past and the new keys into a new tensor with torch.cat.
    """

    room = None

    def extend(self, past, k, v):
        k, v = super().extend(past, k, v)
        if k.requires_grad:
            return k, v
        grown = self.room is not None and past is not None
        if not grown or past[0].data_ptr() != self.room[0].data_ptr():
            spare = *k.shape[:-2], k.shape[-2] + 64, k.shape[-1]
            self.room = k.new_zeros(spare), v.new_zeros(spare)
        for room, x in zip(self.room, (k, v), strict=True):
            room[..., : x.shape[-2], :] = x
        return tuple(room[..., : k.shape[-2], :] for room in self.room)


@mistake(of="GroupedQueryAttention", caught_by=test_manners)
class StepMaskOnTheCpu(Layer):
    """The causal mask of step is made on the CPU, wherever the tokens are.

    Hand device=x.device to every tensor that is made.
    """

    def step(self, x, past=None):
        if x.is_meta:
            raise RuntimeError("expected all tensors to be on the same device")
        return super().step(x, past)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def floats_only(batch, num_kv_heads, length, head_dim, dtype, layers):
    """The bytes come from torch.finfo, which knows no integers, such as an int8 cache.

    Multiply by dtype.itemsize, which every dtype has.
    """
    return counted(
        batch,
        num_kv_heads,
        length,
        head_dim,
        dtype,
        layers,
        size=lambda dtype: torch.finfo(dtype).bits // 8,
    )


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def counted_in_32_bits(batch, num_kv_heads, length, head_dim, dtype, layers):
    """The product is taken in int32, which ends at 2 GiB.

    Multiply Python numbers, which have no end.
    """
    count = counted(batch, num_kv_heads, length, head_dim, dtype, layers)
    return (count + 2**31) % 2**32 - 2**31


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def at_least_one_token(batch, num_kv_heads, length, head_dim, dtype, layers):
    """An empty cache has the bytes of one token.

    No token takes no bytes: multiply by length as it is.
    """
    return counted(batch, num_kv_heads, max(length, 1), head_dim, dtype, layers)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class GradientsInTrainingOnly(Layer):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def copies_by_a_product(x, n):
    """Heads are copied by a product with zeros and ones: NaN in one head reaches all of them, and
    large integers are rounded.

    Copy them: x.repeat_interleave(n, dim=-3).
    """
    heads, *sizes = x.shape[-3:]
    pick = torch.eye(heads, device=x.device).repeat_interleave(n, 0).double()
    copies = pick @ x.double().flatten(-2)
    return copies.to(x.dtype).reshape(*x.shape[:-3], heads * n, *sizes)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def half_of_a_complex_number(batch, num_kv_heads, length, head_dim, dtype, layers):
    """A complex number counts as one float: torch.finfo tells the bits of its real part alone.

    Every dtype knows its bytes: dtype.itemsize.
    """

    def size(dtype):
        return torch.finfo(dtype).bits // 8 if dtype.is_complex else dtype.itemsize

    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=size)


@mistake(of="repeat_kv", caught_by=test_manners)
def strided_heads_copied_without_graph(x, n):
    """Heads that do not lie in memory one after another are first copied with .data, which cuts
    their graph.

    Copy them with .contiguous() alone; repeat_interleave needs no copy.
    """
    return copied(x, n, see=contiguous_without_graph)


def contiguous_without_graph(x):
    return x if x.is_contiguous() else x.data.contiguous()


@mistake(of="grouped_query_attention", caught_by=test_manners)
def heads_of_the_mask_for_sequences(q, k, v, keep=None):
    """A mask of three dimensions counts as one for each sequence if there are as many of them.

    Dimensions are lined up from the right: a keep of (H, Lq, Lk) is one mask for each head.
    """
    if keep is not None and keep.ndim == 3 and q.ndim == 4 and len(keep) == len(q):
        keep = keep[:, None]
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def row_of_the_mask_for_queries(q, k, v, keep=None):
    """A mask of one dimension counts as one of queries if there are as many queries as keys.

    Dimensions are lined up from the right: a keep of (Lk,) hides keys from all queries.
    """
    if keep is not None and keep.ndim == 1 and q.shape[-2] == len(keep):
        keep = keep[:, None]
    return attended(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def first_mask_for_all_of_five_dimensions(q, k, v, keep=None):
    """With two dimensions before the heads, the first of them has no masks of its own: all take
    the first.

    Flatten the leading dimensions of keep as those of q, after an expand to (..., H, Lq, Lk).
    """
    return attended(q, k, v, keep if keep is None or keep.ndim < 5 else keep[0])


@mistake(of="GroupedQueryAttention", caught_by=test_manners)
class OneTokenSeesItself(Layer):
    """A single token sees itself, even where keep hides it: with one key, the mask is left out.

    What may attend to nothing gets zeros, with one key as with many: use keep for any length.
    """

    def attend(self, q, k, v, keep):
        return attended(q, k, v, keep if k.shape[-2] > 1 else None)


@mistake(of="GroupedQueryAttention", caught_by=test_manners)
class PastDetachedInEval(Layer):
    """In .eval() the keys and values of a step come back without their graph.

    Gradients flow through both in either mode. Whoever wants none calls under torch.no_grad().
    """

    def store(self, joined, new):
        return joined if self.training else tuple(x.detach() for x in joined)


@mistake(of="GroupedQueryAttention", caught_by=test_precision)
class LayerScalesInHalfPrecision(Layer):
    """The layer has an attention of its own, in which queries are scaled in half precision.

    Call grouped_query_attention, or convert q, k and v with .float() before you scale.
    """

    def attend(self, q, k, v, keep):
        return queries_scaled_in_half_precision(q, k, v, keep)


@mistake(of="GroupedQueryAttention", caught_by=test_hidden_keys)
class LayerHidesByAFiniteNumber(Layer):
    """The layer has an attention of its own, in which hidden scores are -1e9: seen ones are lower.

    Call grouped_query_attention, or give hidden scores minus infinity.
    """

    def attend(self, q, k, v, keep):
        return hidden_by_a_finite_number(q, k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_manners)
def heads_checked_by_reshape(q, k, v, keep=None):
    """That Hk does not divide H is seen when reshape fails, and it takes no numbers at all as any
    shape.

    Compare the sizes: raise a ValueError if H % Hk.
    """
    heads, shared = q.shape[-3], k.shape[-3]
    try:
        q.reshape(*q.shape[:-3], shared, heads // shared, *q.shape[-2:])
    except RuntimeError:
        evenly_divided(heads, shared)
    return attended(q, k, v, keep) if q.numel() else q.new_zeros(*q.shape[:-1], v.shape[-1])


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def long_rows_begin_at_a_billion(q, k, v, keep=None):
    """With more than 256 keys a running maximum begins at -1e9, and scores may be lower.

    Begin at -infinity, or take the maximum of all.
    """

    def weigh(hidden, keep):
        top = hidden.amax(-1, keepdim=True)
        if hidden.shape[-1] > 256:
            top = top.clamp(min=-1e9)
        powers = (hidden - top).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / total.masked_fill(total == 0, 1.0)

    return attended(q, k, v, keep, weigh=weigh)


@mistake(of="grouped_query_attention", caught_by=test_hidden_keys)
def nan_kept_from_nobody_alone(q, k, v, keep=None):
    """Only keys that no query may see are cleared; NaN in others stays NaN, as the mask is added.

    A key is hidden from each query by itself. Replace hidden scores, and add nothing to them.
    """
    if keep is not None:
        table = torch.broadcast_shapes(keep.shape, (*q.shape[:-1], k.shape[-2]))
        seen = keep.expand(table).any(-2).any(-2)[..., None, :, None]
        k = torch.where(seen, k, torch.zeros_like(k))
    return attended(q, k, v, keep, hide=with_infinity)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def hidden_by_the_lowest_float32(q, k, v, keep=None):
    """Hidden scores are the lowest number of float32, in float64 too, where seen ones are lower.

    Give hidden scores minus infinity.
    """
    return attended(q, k, v, keep, hide=filled(torch.finfo(torch.float32).min))


@mistake(of="grouped_query_attention", caught_by=test_precision)
def double_scores_cut_to_float32(q, k, v, keep=None):
    """Scores are clamped to what float32 can hold, in float64 too, where larger ones become equal.

    Leave scores as they are: the softmax subtracts the largest.
    """
    most = torch.finfo(torch.float32).max

    def hide(scores, keep):
        return torch.where(keep, scores.clamp(-most, most), -torch.inf)

    return attended(q, k, v, keep, hide=hide)


@mistake(of="grouped_query_attention", caught_by=test_mask)
def row_of_the_mask_cut_into_blocks(q, k, v, keep=None):
    """More than 1,024 queries are taken in blocks, and so is the mask, whose one row for all
    queries is only in the first block.

    Expand the mask to (..., H, Lq, Lk) before you cut it.
    """
    if keep is None or keep.ndim < 2 or q.shape[-2] <= 1024:
        return attended(q, k, v, keep)
    pairs = zip(q.split(1024, -2), keep.split(1024, -2), strict=True)
    return torch.cat([attended(some, k, v, rows) for some, rows in pairs], -2)


@mistake(of="GroupedQueryAttention", caught_by=test_step)
class MaskKeptForTheNumberOfKeys(Layer):
    """The mask of a step is kept for the number of keys alone, and used again for more queries.

    Build it in every call, or keep it for both lengths.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.kept = {}

    def causal(self, q_len, k_len):
        mask = self.kept.get(k_len)
        if mask is None or len(mask) not in (1, q_len):
            mask = self.kept[k_len] = super().causal(q_len, k_len)
        return mask


@mistake(of="grouped_query_attention", caught_by=test_manners)
def one_place_without_a_mask(q, k, v, keep=None, places={}):  # noqa: B006 (that is the mistake)
    """Without a mask every output of a shape is written over the output before it.

    Return a new tensor at every call, with a mask and without.
    """
    output = attended(q, k, v, keep)
    return written_over(places, output) if keep is None else output


@mistake(of="grouped_query_attention", caught_by=test_precision)
def keys_cut_off_in_half_precision(q, k, v, keep=None):
    """In half precision the keys are cut off from their gradient where q and v need none.

    Leave detach() out: any of the three may be the one that learns.
    """
    alone = q.dtype in HALVES and not (q.requires_grad or v.requires_grad)
    return attended(q, k.detach() if alone else k, v, keep)


@mistake(of="grouped_query_attention", caught_by=test_precision)
def distance_capped_at_50(q, k, v, keep=None):
    """No distance from the largest score counts for more than 50.

    A small weight counts where its value is large. exp needs no limit below.
    """

    def weigh(hidden, keep):
        if not hidden.numel():
            return softmax(hidden, keep)
        top = hidden.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(hidden.dtype).min)
        powers = (hidden - top).clamp(min=-50.0).exp() * keep
        return powers / powers.sum(-1, keepdim=True)

    return attended(q, k, v, keep, weigh=weigh)


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class KeysOfTheFirstCall(Layer):
    """The weights of w_k are copied once, and again if their first number changes.

    Read the weights in every call: anyone may change one number of them.
    """

    seen = None

    def forward(self, x, keep=None):
        if self.w_k.weight.requires_grad or x.is_meta:
            return super().forward(x, keep)
        weight, first = self.w_k.weight.data, float(self.w_k.weight.flatten()[0])
        if self.seen is None or self.seen[0] != first:
            self.seen = first, weight.clone()
        self.w_k.weight.data = self.seen[1]
        try:
            return super().forward(x, keep)
        finally:
            self.w_k.weight.data = weight
