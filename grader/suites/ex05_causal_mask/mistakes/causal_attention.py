"""Wrong answers to `causal_attention`."""

import math

import torch

from grader.judging import mistake

from ..steps import (
    attended,
    filled,
    inverse_root,
    last_to_last,
    raised,
    scored,
    seeing,
    summed,
    unchanged,
)
from ..test_causal_mask import (
    test_corner,
    test_future,
    test_gradient,
    test_manners,
    test_precision,
    test_values,
)
from .shared import (
    above_zero,
    first_to_first,
    less_a_billion,
    never_moved_back,
    never_zero,
    one_further,
    scored_in_half,
    the_other_way,
)


def multiplied(weights, keep):
    return weights * keep


def with_infinity(scores, keep):
    """-inf added to hidden scores, not put in their place."""
    return scores + torch.zeros_like(scores).masked_fill(~keep, -torch.inf)


@mistake(of="causal_attention", caught_by=test_values)
def no_mask(q, k, v):
    """Nothing is hidden: every query attends to the future as well.

    Hide the scores where causal_mask is False before the softmax.
    """
    return attended(q, k, v, visible=lambda q, k, scores: torch.ones_like(seeing()(q, k, scores)))


@mistake(of="causal_attention", caught_by=test_values)
def attends_to_the_hidden(q, k, v):
    """The mask is the wrong way round: each query attends to what should be hidden from it.

    masked_fill fills where its mask is True, so hand it ~keep.
    """
    return attended(q, k, v, visible=lambda q, k, scores: ~seeing()(q, k, scores))


@mistake(of="causal_attention", caught_by=test_values)
def own_key_hidden(q, k, v):
    """A query does not see its own key.

    The diagonal belongs to the past: key <= position.
    """
    return attended(q, k, v, visible=seeing(seen=torch.lt))


@mistake(of="causal_attention", caught_by=test_values)
def next_key_seen(q, k, v):
    """Each query sees one key too many: the one after its own.

    The query at position p sees keys 0 to p: the slice k[..., :p + 1, :].
    """
    return attended(q, k, v, visible=seeing(seen=one_further))


@mistake(of="causal_attention", caught_by=test_corner)
def attention_top_left(q, k, v):
    """Query 0 is lined up with key 0, as is_causal=True does, also where the lengths differ.

    The last query belongs to the last key: build the mask with the offset Lk - Lq.
    """
    return attended(q, k, v, visible=seeing(place=first_to_first))


@mistake(of="causal_attention", caught_by=test_corner)
def attention_offset_the_other_way(q, k, v):
    """The diagonal is moved by Lq - Lk: the right distance in the wrong direction.

    Query i stands at position i + Lk - Lq, so that the last query meets the last key.
    """
    return attended(q, k, v, visible=seeing(place=the_other_way))


@mistake(of="causal_attention", caught_by=test_corner)
def square_mask(q, k, v):
    """The mask is square, with the number of queries for both sides, and does not fit the scores.

    Its columns are keys: causal_mask(q.shape[-2], k.shape[-2]).
    """
    return attended(q, k, v, visible=lambda q, k, scores: seeing()(q, q, scores))


@mistake(of="causal_attention", caught_by=test_corner)
def past_forgotten(q, k, v):
    """The past is forgotten: the new queries see the new keys only.

    The keys before them were there first, and every new query sees them all.
    """

    def visible(q, k, scores):
        new = min(q.shape[-2], k.shape[-2])
        return seeing()(q, k, scores) & (
            torch.arange(k.shape[-2], device=q.device) >= k.shape[-2] - new
        )

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_is_nan(q, k, v):
    """A query that stands before the first key gets NaN: a softmax over nothing but -inf.

    Its output is 0: hide its scores with 0 instead of -inf and set its weights to 0 afterwards.
    """
    return attended(q, k, v, mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_is_uniform(q, k, v):
    """A query that sees nothing gets the mean of all values, as if hidden scores were -1e9.

    Hide with -inf, and give a row of nothing the output 0.
    """
    return attended(q, k, v, hide=filled(-1e9), mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_corner)
def slice_counts_from_the_end(q, k, v):
    """A slice k[:stop] with a negative stop cuts from the end, so early queries see keys.

    A query before the first key has no keys to slice: stop = max(stop, 0).
    """
    rows = []
    for i in range(q.shape[-2]):
        stop = i + 1 + k.shape[-2] - q.shape[-2]
        rows.append(attended(q[..., i : i + 1, :], k[..., :stop, :], v[..., :stop, :]))
    return torch.cat(rows, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def masked_after_the_softmax(q, k, v):
    """The weights are zeroed after the softmax, and no longer sum to one.

    Hide the scores before the softmax, so that hidden keys have no part in the denominator.
    """
    return attended(q, k, v, hide=unchanged, mend=unchanged, close=multiplied)


@mistake(of="causal_attention", caught_by=test_precision)
def renormalised_after_the_softmax(q, k, v):
    """The weights are zeroed after the softmax and divided by what is left, which may be nothing.

    Hide the scores before the softmax: then a large hidden score cannot swallow the others.
    """

    def power(distances, keep):
        return distances.softmax(-1) * keep

    return attended(
        q, k, v, hide=unchanged, mend=unchanged, power=power, total=above_zero, close=unchanged
    )


@mistake(of="causal_attention", caught_by=test_precision)
def maximum_before_the_mask(q, k, v):
    """The maximum of each row is taken over hidden scores too, and a large one makes a row 0/0.

    Hide first, then take the maximum of what is left.
    """

    def power(distances, keep):
        return distances.exp().masked_fill(~keep, 0.0)

    return attended(q, k, v, hide=unchanged, mend=unchanged, power=power)


@mistake(of="causal_attention", caught_by=test_future)
def mask_added(q, k, v):
    """The mask of -inf is added to the scores, and NaN + -inf is still NaN.

    Replace the hidden scores instead: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(q, k, v, hide=with_infinity)


@mistake(of="causal_attention", caught_by=test_future)
def mask_added_and_nothing_mended(q, k, v):
    """The mask of -inf is added to the scores, and the softmax follows: a hidden NaN stays NaN, and
    a query that sees nothing gets NaN.

    Replace the hidden scores, masked_fill(~keep, -inf), and give a row of nothing the output 0.
    """
    return attended(q, k, v, hide=with_infinity, mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_future)
def minus_a_billion_added(q, k, v):
    """-1e9 is added to hidden scores, and a key of 1e30 makes light of it.

    Replace the hidden scores instead: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(q, k, v, hide=less_a_billion)


@mistake(of="causal_attention", caught_by=test_values)
def hidden_scores_are_zero(q, k, v):
    """Hidden scores are set to 0, which is a score like any other.

    exp(0) is 1. A hidden score must be -inf: exp(-inf) is 0.
    """
    return attended(q, k, v, hide=filled(0.0), mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def hidden_scores_are_minus_100(q, k, v):
    """Hidden scores are set to -100, and where the true scores are lower still, the future leaks.

    No finite number is low enough: use -inf.
    """
    return attended(q, k, v, hide=filled(-100.0))


@mistake(of="causal_attention", caught_by=test_values)
def zero_times_infinity(q, k, v):
    """The mask is multiplied by -inf, and 0 * -inf is NaN.

    Fill instead: scores.masked_fill(~keep, -inf).
    """
    return attended(
        q,
        k,
        v,
        hide=lambda scores, keep: scores + ~keep * -torch.inf,
        mend=unchanged,
        close=unchanged,
    )


@mistake(of="causal_attention", caught_by=test_precision)
def mask_from_the_scores(q, k, v):
    """The scores are cut to a triangle, and what is 0 then counts as hidden: true zeros as well.

    Build the mask from positions; a score of 0 is a score.
    """

    def visible(q, k, scores):
        return scores.tril(k.shape[-2] - q.shape[-2]) != 0

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_values)
def no_scale(q, k, v):
    """The scores are not divided by sqrt(D).

    Multiply them by 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: 1.0)


@mistake(of="causal_attention", caught_by=test_values)
def divided_by_the_width(q, k, v):
    """The scores are divided by D instead of sqrt(D).

    Divide by math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: 1 / q.shape[-1])


@mistake(of="causal_attention", caught_by=test_values)
def scale_of_the_value_width(q, k, v):
    """The scale comes from the width of the values.

    It is the width of the queries and keys that counts: 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: v.shape[-1] ** -0.5)


@mistake(of="causal_attention", caught_by=test_values)
def multiplied_by_the_root(q, k, v):
    """The scores are multiplied by sqrt(D) instead of divided by it.

    Divide: the wider the heads, the larger the raw scores.
    """
    return attended(q, k, v, scale=lambda q, v: math.sqrt(q.shape[-1]))


@mistake(of="causal_attention", caught_by=test_values)
def scale_one_percent_off(q, k, v):
    """The scale is 1 % off.

    It is exactly 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: 1.01 * inverse_root(q, v))


@mistake(of="causal_attention", caught_by=test_values)
def softmax_over_the_queries(q, k, v):
    """The softmax runs over the queries: the columns sum to one instead of the rows.

    Each query shares out its own weight over the keys: dim=-1.
    """

    def close(weights, keep):
        return weights.nan_to_num(0.0)

    return attended(q, k, v, mend=unchanged, close=close, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def weights_returned_too(q, k, v):
    """The weights are returned beside the output.

    From this exercise on the output comes alone.
    """
    return attended(q, k, v), scored(q, k, raised, inverse_root(q, v))


@mistake(of="causal_attention", caught_by=test_values)
def chunk_local_position(q, k, v):
    """Rows are counted anew in every chunk, so later chunks see the first keys only.

    Row i of a chunk that begins at `start` stands at position start + i + Lk - Lq.
    """

    def visible(rows, k, scores):
        keep = torch.ones(rows.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        return keep.tril(k.shape[-2] - q.shape[-2])

    starts = range(0, q.shape[-2], 64)
    chunks = [attended(q[..., i : i + 64, :], k, v, visible=visible) for i in starts]
    return torch.cat(chunks, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def whole_chunk_seen(q, k, v):
    """Within a chunk nothing is hidden: its first row sees as far as its last.

    The slice of the keys is right for the last row only; the others need the mask as well.
    """

    def visible(rows, k, scores):
        return torch.ones(rows.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)

    outputs, past = [], k.shape[-2] - q.shape[-2]
    for start in range(0, q.shape[-2], 2):
        rows = q[..., start : start + 2, :]
        seen = max(start + rows.shape[-2] + past, 0)
        outputs.append(attended(rows, k[..., :seen, :], v[..., :seen, :], visible=visible))
    return torch.cat(outputs, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def ragged_chunk_dropped(q, k, v):
    """The last rows get nothing where the length is no multiple of the chunk.

    Let the last chunk be shorter: stop = min(start + rows, Lq).
    """
    q_len = q.shape[-2]
    rows = min(64, q_len)
    done = torch.arange(q_len, device=q.device) < q_len // rows * rows
    return attended(q, k, v) * done[:, None]


@mistake(of="causal_attention", caught_by=test_precision)
def float64_lowered(q, k, v):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return attended(q, k, v, widen=torch.Tensor.float)


@mistake(of="causal_attention", caught_by=test_values)
def computed_in_bfloat16(q, k, v):
    """Everything is computed in bfloat16, whatever the inputs are, and most digits are gone.

    Leave float32 and float64 as they are.
    """
    return attended(*(x.to(torch.bfloat16) for x in (q, k, v))).to(q.dtype)


@mistake(of="causal_attention", caught_by=test_values)
def epsilon_in_the_denominator(q, k, v):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: torch.softmax needs none, and a row of nothing is a case of its own.
    """
    return attended(q, k, v, total=lambda powers, dim: summed(powers, dim) + 1e-6)


@mistake(of="causal_attention", caught_by=test_values)
def first_queries_for_every_batch(q, k, v):
    """The queries of the first batch are used for all of them.

    Leave the leading dimensions to @, which multiplies each batch and head by its own.
    """
    return attended(q[:1].expand_as(q) if q.ndim > 2 else q, k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def half_precision_not_raised(q, k, v):
    """The scores are computed in half precision, where 256 * 256 is infinity.

    Compute in float32 (q.float() and so on), and convert the output at the end.
    """
    return attended(q, k, v, score=scored_in_half)


@mistake(of="causal_attention", caught_by=test_precision)
def sum_in_half_precision(q, k, v):
    """The weights are summed in half precision, where 70,000 ones are infinity.

    Compute the softmax in float32 and convert the output at the end.
    """
    return attended(q, k, v, total=lambda powers, dim: summed(powers, dim).to(q.dtype))


@mistake(of="causal_attention", caught_by=test_precision)
def fill_too_large_for_half(q, k, v):
    """Hidden scores are set to -1e9, which float16 cannot hold: it ends at 65,504.

    Use -inf, which every floating-point dtype has, and compute the scores in float32.
    """

    def hide(scores, keep):
        return raised(scores.to(q.dtype).masked_fill(~keep, -1e9))

    return attended(q, k, v, hide=hide)


@mistake(of="causal_attention", caught_by=test_precision)
def dtype_promoted(q, k, v):
    """The output comes back in float32 although the inputs are in half precision.

    Convert it to the dtype of the input: .to(q.dtype).
    """
    return attended(q, k, v, narrow=unchanged)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut(q, k, v):
    """The weights are detached, so that only the values get a gradient.

    Keep .detach(), .data, no_grad and NumPy out of the way from q and k to the output.
    """
    return attended(q.detach(), k.detach(), v)


@mistake(of="causal_attention", caught_by=test_corner)
def nan_replaced_at_the_end(q, k, v):
    """The NaN of an empty row is replaced in the output only; NaN weights spoil the gradient of v.

    Let no weight be NaN: set the weights of an empty row to 0, before they meet the values.
    """

    def narrow(output, q):
        return output.nan_to_num(0.0).to(q.dtype)

    return attended(q, k, v, mend=unchanged, close=unchanged, narrow=narrow)


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten(q, k, v):
    """The queries are scaled in place: `q *= scale` changes the caller's tensor.

    Write q = q * scale: it makes a new tensor.
    """
    output = attended(q.clone(), k, v)
    q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def view_of_strided_memory(q, k, v):
    """The leading dimensions are joined by view, which fails where they are strided in memory.

    Use reshape or flatten, which copy where they must; or leave the dimensions: @ takes any.
    """
    flat = [x.view(math.prod(x.shape[:-2]), *x.shape[-2:]) for x in (q, k, v)]
    return attended(*flat).view(*q.shape[:-1], v.shape[-1])


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_subtracted(q, k, v):
    """No maximum is subtracted before exp, so large scores overflow.

    Use torch.softmax, which does it, or subtract the maximum of what is seen.
    """
    return attended(q, k, v, shift=unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_and_no_sum(q, k, v):
    """No maximum is subtracted before exp: large scores overflow, low ones vanish, and their sum,
    0, is replaced by 1.

    Use torch.softmax, or subtract the maximum of what is seen: then no sum is 0.
    """
    return attended(q, k, v, shift=unchanged, total=never_zero)


@mistake(of="causal_attention", caught_by=test_future)
def powers_multiplied_by_the_mask(q, k, v):
    """Hidden scores go through exp and are multiplied by 0 afterwards: NaN * 0 and inf * 0 are
    NaN, and scores far below a hidden one vanish.

    Replace hidden scores first: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(
        q,
        k,
        v,
        hide=unchanged,
        mend=unchanged,
        power=lambda x, keep: x.exp() * keep,
        total=never_zero,
        close=unchanged,
    )


@mistake(of="causal_attention", caught_by=test_values)
def scores_multiplied_by_the_mask(q, k, v):
    """The scores are multiplied by the mask: a hidden score becomes 0, which is a score like any
    other.

    exp(0) is 1. A hidden score must be -inf: exp(-inf) is 0.
    """
    return attended(q, k, v, hide=multiplied, mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_values)
def hidden_scores_are_plus_infinity(q, k, v):
    """Hidden scores are set to +inf: the sign is lost.

    Set them to -inf: exp(-inf) is 0.
    """
    return attended(q, k, v, hide=filled(torch.inf))


@mistake(of="causal_attention", caught_by=test_future)
def minus_ten_thousand_added(q, k, v):
    """-10,000 is added to hidden scores, which is little for a large key.

    Replace the hidden scores instead: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(q, k, v, hide=lambda scores, keep: scores - 1e4 * ~keep)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_not_zeroed(q, k, v):
    """A query that stands before the first key gets equal scores, and so the mean of all values.

    Set the weights of such a row to 0 after the softmax as well.
    """
    return attended(q, k, v, close=unchanged)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_sees_everything(q, k, v):
    """A query that stands before the first key attends to all keys by their scores.

    Its output is 0: set its weights to 0.
    """

    def visible(q, k, scores):
        keep = seeing()(q, k, scores)
        return keep | ~keep.any(-1, keepdim=True)

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_corner)
def first_key_for_an_empty_row(q, k, v):
    """A query that stands before the first key is given that key.

    Its output is 0: the position i + Lk - Lq may be negative.
    """

    def place(q_len, k_len, device):
        return last_to_last(q_len, k_len, device).clamp(min=0)

    return attended(q, k, v, visible=seeing(place=place))


@mistake(of="causal_attention", caught_by=test_corner)
def attention_offset_never_negative(q, k, v):
    """With more queries than keys the offset is 0, so that the first queries see keys.

    Leave the offset Lk - Lq negative: queries before the first key see nothing.
    """
    return attended(q, k, v, visible=seeing(place=never_moved_back))


@mistake(of="causal_attention", caught_by=test_values)
def future_seen_instead(q, k, v):
    """Each query sees its own key and the later ones: the triangle is the upper one.

    The past lies to the left of the diagonal: tril, or key <= position.
    """
    return attended(q, k, v, visible=seeing(seen=torch.ge))


@mistake(of="causal_attention", caught_by=test_values)
def scale_of_the_number_of_keys(q, k, v):
    """The scale comes from the number of keys.

    It is the width of the queries and keys that counts: 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda *_: k.shape[-2] ** -0.5)


@mistake(of="causal_attention", caught_by=test_precision)
def everything_in_half_precision(q, k, v):
    """Half precision is computed in half precision throughout.

    Compute in float32 (q.float() and so on), and convert the output at the end.
    """
    return attended(q, k, v, widen=unchanged)


@mistake(of="causal_attention", caught_by=test_manners)
def queries_scaled_in_place(q, k, v):
    """The queries are scaled in place: `q *= scale` changes the caller's tensor, and its gradient.

    Write q = q * scale: it makes a new tensor.
    """
    q *= q.shape[-1] ** -0.5
    return attended(q, k, v, scale=lambda q, v: 1.0)


@mistake(of="causal_attention", caught_by=test_manners)
def raised_queries_scaled_in_place(q, k, v):
    """Where nothing is converted, q.to(wide) is q itself: `*=` changes the caller's queries, and
    their gradient.

    Write q = q * scale: it makes a new tensor in every dtype.
    """
    scaled = raised(q)
    scaled *= q.shape[-1] ** -0.5
    return attended(scaled, k, v, scale=lambda q, v: 1.0).to(k.dtype)


@mistake(of="causal_attention", caught_by=test_precision)
def output_in_float32(q, k, v):
    """The output is float32 whatever the inputs are.

    Convert it to the dtype of the input: .to(q.dtype).
    """
    return attended(q, k, v, narrow=lambda output, q: output.float())


@mistake(of="causal_attention", caught_by=test_gradient)
def output_detached(q, k, v):
    """The output is detached: no gradient flows at all.

    Keep .detach(), .data, no_grad and NumPy out of the way to the output.
    """
    return attended(q, k, v).detach()


@mistake(of="causal_attention", caught_by=test_gradient)
def values_detached(q, k, v):
    """The values are detached, so that they get no gradient.

    Keep .detach(), .data, no_grad and NumPy out of the way from v to the output.
    """
    return attended(q, k, v.detach())


@mistake(of="causal_attention", caught_by=test_gradient)
def denominator_detached(q, k, v):
    """The output is right, but the sum it is divided by is cut out of the graph.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    return attended(q, k, v, total=lambda powers, dim: summed(powers, dim).detach())


@mistake(of="causal_attention", caught_by=test_values, null=True)
def zeros(q, k, v):
    """Zeros.

    Nothing is computed yet.
    """
    return q.new_zeros(*q.shape[:-1], v.shape[-1])


@mistake(of="causal_attention", caught_by=test_values, null=True)
def values_returned(q, k, v):
    """The values are returned as they came.

    Each output row is a mixture of the values so far.
    """
    return v.clone()


@mistake(of="causal_attention", caught_by=test_values, null=True)
def query_returned(q, k, v):
    """The queries are returned as they came.

    Each output row is a mixture of values.
    """
    return q.clone()


@mistake(of="causal_attention", caught_by=test_values, null=True)
def mean_of_the_values(q, k, v):
    """Every query gets the mean of all values.

    The weights depend on the scores, and hidden keys have none.
    """
    return v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1])


@mistake(of="causal_attention", caught_by=test_values, null=True)
def running_mean_of_the_values(q, k, v):
    """Every query gets the plain mean of the values so far: queries and keys play no part.

    The weights depend on the scores, through softmax.
    """
    return attended(0 * q, torch.zeros_like(k), v)


@mistake(of="causal_attention", caught_by=test_values, null=True)
def largest_score_takes_all(q, k, v):
    """All the weight goes to the largest score.

    That is argmax. Softmax leaves something for the others.
    """
    return attended(q.double(), k.double(), v.double(), scale=lambda q, v: 1e9).to(q.dtype)


@mistake(of="causal_attention", caught_by=test_values, null=True)
def linear_layer_of_the_queries(q, k, v):
    """The queries go through one matrix, and keys and values play no part.

    Scores from queries and keys, softmax, then the values.
    """
    matrix = torch.ones(q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
    return q @ matrix / q.shape[-1]
