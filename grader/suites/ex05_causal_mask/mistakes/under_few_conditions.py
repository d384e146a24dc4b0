"""Wrong answers that show under a few conditions only."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..steps import (
    attended,
    band,
    filled,
    inverse_root,
    last_to_last,
    raised,
    scored,
    seeing,
    triangle,
    unchanged,
    zero_in_empty_rows,
)
from ..test_causal_mask import (
    test_causal_mask,
    test_corner,
    test_future,
    test_gradient,
    test_manners,
    test_precision,
    test_sliding_window_mask,
    test_values,
)
from .causal_attention import chunk_local_position
from .shared import above_zero, first_to_first, less_a_billion, never_zero, scored_in_half

HALVES = (torch.float16, torch.bfloat16)


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_where_the_lengths_differ(q, k, v):
    """Where Lq and Lk differ, exp(scores) is divided by its sum without the maximum taken off.

    Use one softmax for every length, and one that subtracts the maximum: torch.softmax.
    """
    if q.shape[-2] == k.shape[-2]:
        return attended(q, k, v)
    return attended(q, k, v, shift=unchanged, total=never_zero)


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_for_one_query(q, k, v):
    """A single query takes a way of its own, in which exp of a large score is infinity.

    torch.softmax subtracts the maximum. A single query needs it as much as many.
    """
    if q.shape[-2] > 1:
        return attended(q, k, v)
    return attended(q, k, v, shift=unchanged, total=never_zero)


@mistake(of="causal_attention", caught_by=test_corner)
def mask_kept_for_each_number_of_queries(q, k, v, kept={}):  # noqa: B006 (that is the mistake)
    """The mask is kept from call to call by Lq alone, and handed out again for another Lk.

    Build it anew, or keep it by both lengths and the device.
    """

    def visible(q, k, scores):
        return kept.setdefault((q.shape[-2], q.device), seeing()(q, k, scores))

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_future)
def minus_a_billion_added_after_a_past(q, k, v):
    """Where Lq and Lk differ, -1e9 is added to hidden scores; a key of 1e30 makes light of it.

    Replace hidden scores by -inf, whatever the lengths are: masked_fill(~keep, -inf).
    """
    hide = filled(-torch.inf) if q.shape[-2] == k.shape[-2] else less_a_billion
    return attended(q, k, v, hide=hide)


@mistake(of="causal_attention", caught_by=test_future)
def finite_fill_in_half_precision(q, k, v):
    """In half precision -1e4 is added to hidden scores, which a large key outweighs.

    Compute the scores in float32 and replace hidden ones by -inf: masked_fill(~keep, -inf).
    """

    def hide(scores, keep):
        return scores - 1e4 * ~keep

    return attended(q, k, v, hide=hide if q.dtype in HALVES else filled(-torch.inf))


@mistake(of="causal_attention", caught_by=test_precision)
def half_precision_not_raised_after_a_past(q, k, v):
    """Half precision is raised to float32 only where Lq equals Lk.

    Raise it for every length: 256 * 256 is infinity in float16.
    """
    return attended(q, k, v, score=scored if q.shape[-2] == k.shape[-2] else scored_in_half)


@mistake(of="causal_attention", caught_by=test_precision)
def half_precision_not_raised_for_one_query(q, k, v):
    """Half precision is raised to float32, but not for a single query.

    A single query overflows as well: 256 * 256 is infinity in float16.
    """
    return attended(q, k, v, score=scored if q.shape[-2] > 1 else scored_in_half)


@mistake(of="causal_attention", caught_by=test_precision)
def top_left_in_half_precision(q, k, v):
    """In half precision query 0 is lined up with key 0.

    The last query belongs to the last key, in every dtype.
    """
    place = first_to_first if q.dtype in HALVES else last_to_last
    return attended(q, k, v, visible=seeing(place=place))


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_is_nan_in_half_precision(q, k, v):
    """In half precision a query that stands before the first key gets NaN.

    Its output is 0, in every dtype.
    """
    step = unchanged if q.dtype in HALVES else zero_in_empty_rows
    return attended(q, k, v, mend=step, close=step)


@mistake(of="causal_attention", caught_by=test_precision)
def chunk_local_position_in_half_precision(q, k, v):
    """In half precision rows are counted anew in every chunk.

    Row i of a chunk that begins at `start` stands at position start + i + Lk - Lq, in every dtype.
    """
    if q.dtype not in HALVES:
        return attended(q, k, v)
    return chunk_local_position(q, k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def graph_cut_in_half_precision(q, k, v):
    """In half precision the gradient is cut: x.detach().float(), or a new tensor from the numbers.

    x.float() keeps the graph, and converts.
    """
    if q.dtype in HALVES:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut_in_float32(q, k, v):
    """The gradient is cut for every dtype but float64.

    Leave .detach() and torch.no_grad() out, for every dtype.
    """
    if q.dtype != torch.float64:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut_for_one_query(q, k, v):
    """A single query gets no gradient: its way is taken under torch.no_grad().

    Whether gradients are wanted is the caller's choice.
    """
    if q.shape[-2] == 1:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut_with_heads(q, k, v):
    """Inputs of four dimensions get no gradient.

    Treat all leading dimensions alike, and leave .detach() out.
    """
    if q.ndim == 4:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten_in_float64(q, k, v):
    """Where nothing is converted, q.to(wide) is q itself: `q *= scale` changes the caller's.

    Write q = q * scale: it makes a new tensor in every dtype.
    """
    output = attended(q.clone(), k, v)
    if q.dtype == torch.float64:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten_in_half_precision(q, k, v):
    """In half precision the queries are scaled in place.

    Write q = q * scale: it makes a new tensor.
    """
    output = attended(q.clone(), k, v)
    if q.dtype in HALVES:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten_for_one_query(q, k, v):
    """A single query is scaled in place.

    Write q = q * scale: it makes a new tensor.
    """
    output = attended(q.clone(), k, v)
    if q.shape[-2] == 1:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def values_overwritten_where_rows_are_empty(q, k, v):
    """Where there are more queries than keys, the values are changed in place.

    Zero the output of the rows that see nothing, not what was handed in.
    """
    output = attended(q, k, v.clone())
    if q.shape[-2] > k.shape[-2]:
        v.data[..., :1, :] = 0.0
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def view_of_strided_memory_for_one_query(q, k, v):
    """For a single query the keys are joined by view, which fails where they are strided in memory.

    Use reshape or flatten, which copy where they must; or leave the dimensions: @ takes any.
    """
    if q.shape[-2] == 1:
        k = k.view(-1, *k.shape[-2:]).view(k.shape)
    return attended(q, k, v)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_cut_to_the_keys(q_len, k_len, window, device=None):
    """A window longer than the text falls back to a mask whose query 0 is lined up with key 0.

    A long window changes nothing: the same two comparisons, positions i + k_len - q_len.
    """

    def place(q_len, k_len, device):
        return torch.arange(q_len, device=device) + min(k_len - q_len, 0)

    return band(q_len, k_len, window, device, place=last_to_last if window <= k_len else place)


@mistake(of="causal_attention", caught_by=test_precision)
def maximum_with_a_floor(q, k, v):
    """The running maximum starts at -1e4, so that rows whose scores all lie below it vanish.

    Start it at -inf, or take the maximum of the row itself.
    """

    def shift(hidden, dim):
        return hidden - hidden.detach().amax(dim, keepdim=True).clamp(min=-1e4)

    return attended(q, k, v, shift=shift, total=above_zero)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def positions_in_int16(q_len, k_len, device=None):
    """Positions are counted in int16, which ends at 32,767.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """

    def seen(keys, queries):
        return keys.to(torch.int16) <= queries.to(torch.int16)

    return triangle(q_len, k_len, device, seen=seen)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def device_forgotten(q_len, k_len, device=None):
    """`device` is not heeded: the mask is always made on the CPU.

    Hand device=device to every tensor that is made.
    """
    return triangle(q_len, k_len)


@mistake(of="causal_mask", caught_by=test_manners)
def one_mask_for_all(q_len, k_len, device=None, kept={}):  # noqa: B006 (that is the mistake)
    """The mask is kept and returned again, so that whoever changes it changes those of all others.

    Return a new mask at every call, or a clone of the one that is kept.
    """
    form = q_len, k_len, str(device)
    return kept.setdefault(form, triangle(q_len, k_len, device))


@mistake(of="causal_mask", caught_by=test_manners)
def no_query_means_no_keys(q_len, k_len, device=None):
    """Without queries the mask has no columns either.

    Its shape is (q_len, k_len) for any lengths: (0, 4) for no queries and four keys.
    """
    return triangle(q_len, k_len if q_len else 0, device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_device_forgotten(q_len, k_len, window, device=None):
    """`device` is not heeded: the mask is always made on the CPU.

    Hand device=device to every tensor that is made.
    """
    return band(q_len, k_len, window)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def distances_in_one_byte(q_len, k_len, window, device=None):
    """Distances are counted in int8, which ends at 127: far keys come near again.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """
    return band(
        q_len,
        k_len,
        window,
        device,
        near=lambda behind, window: behind.to(torch.int8).long().abs() < window,
    )


@mistake(of="sliding_window_mask", caught_by=test_manners)
def one_window_for_all(q_len, k_len, window, device=None, kept={}):  # noqa: B006 (the mistake)
    """The mask is kept and returned again, so that whoever changes it changes those of all others.

    Return a new mask at every call, or a clone of the one that is kept.
    """
    form = q_len, k_len, window, str(device)
    return kept.setdefault(form, band(q_len, k_len, window, device))


@mistake(of="causal_attention", caught_by=test_values)
def batch_of_one_squeezed(q, k, v):
    """A squeeze drops leading dimensions of one.

    Name the axis that is to go; squeeze takes every axis of size 1.
    """
    output = attended(q, k, v)
    return output.squeeze(0) if output.ndim == 4 else output


@mistake(of="causal_attention", caught_by=test_values)
def last_1024_keys_only(q, k, v):
    """Only the last 1024 keys are read, as if there were a window.

    A causal mask hides later keys and nothing else.
    """
    return attended(q, k[..., -1024:, :], v[..., -1024:, :])


@mistake(of="causal_attention", caught_by=test_corner)
def lowest_number_filled(q, k, v):
    """Hidden scores become torch.finfo(dtype).min: a query that sees nothing gets a mean.

    Use -inf, and give such a query zeros.
    """

    def hide(scores, keep):
        return scores.masked_fill(~keep, torch.finfo(scores.dtype).min)

    return attended(q, k, v, hide=hide, mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def softmax_alone_in_float32(q, k, v):
    """Only the softmax is computed in float32: its scores and products stay in the dtype of q.

    That is the habit of model code: softmax(scores, dtype=torch.float32).to(q.dtype). The scores
    need float32 as well, and float64 must not become float32: convert half precision first.
    """

    def hide(scores, keep):
        return scores.masked_fill(~keep, -torch.inf).float()

    def close(weights, keep):
        return zero_in_empty_rows(weights, keep).to(q.dtype)

    return attended(q, k, v, widen=unchanged, hide=hide, close=close)


@mistake(of="causal_attention", caught_by=test_precision)
def scale_rounded_to_float32(q, k, v):
    """The scale is a float32 tensor, torch.sqrt(torch.tensor(D)), and float64 loses digits to it.

    Use a Python number: math.sqrt(D), or D ** 0.5.
    """
    root = torch.sqrt(torch.tensor(1.1 * q.shape[-1], dtype=torch.float32)).item() / 1.1**0.5
    return attended(q, k, v, scale=lambda q, v: 1 / root)


@mistake(of="causal_attention", caught_by=test_precision)
def zeros_of_float32(q, k, v):
    """The zeros of the rows before the first key are float32, and make the whole output float32.

    Make them in the dtype of q, or convert the output at the end: .to(q.dtype).
    """
    output = attended(q, k, v)
    return output.float() if q.shape[-2] > k.shape[-2] and q.dtype in HALVES else output


@mistake(of="causal_attention", caught_by=test_manners)
def one_tensor_taken_for_scaled(q, k, v):
    """Where k and v are the same tensor, the scale is left out.

    The scale is 1/sqrt(D), whatever the tensors are.
    """
    return attended(q, k, v, scale=(lambda q, v: 1.0) if k is v else inverse_root)


@mistake(of="causal_attention", caught_by=test_manners)
def keys_remembered(q, k, v, seen=[]):  # noqa: B006 (that is the mistake)
    """A copy of the keys is kept, and used for the same tensor although its numbers have changed.

    Compute the answer anew at every call.
    """
    copies = [copy for known, copy in seen if known is k]
    if not copies and not k.requires_grad:
        seen.append((k, k.clone()))
    return attended(q, copies[0] if copies else k, v)


@mistake(of="causal_attention", caught_by=test_manners)
def one_buffer_for_all_answers(q, k, v, buffers={}):  # noqa: B006 (that is the mistake)
    """Every output of a shape is written into the same memory, over the output before it.

    Return a new tensor at every call.
    """
    return written_over(buffers, attended(q, k, v))


@mistake(of="causal_attention", caught_by=test_manners)
def mask_made_on_the_cpu(q, k, v):
    """The mask is made on the CPU, wherever the queries are.

    Hand device=q.device to every tensor that is made.
    """
    output = attended(q, k, v)
    return torch.zeros(output.shape) if q.is_meta else output


@mistake(of="causal_attention", caught_by=test_manners)
def strided_keys_copied_without_graph(q, k, v):
    """Keys that do not lie in memory in one piece are first copied with .data, so that they get no
    gradient.

    Copy them with .contiguous() or .reshape(), which gradients pass through.
    """
    return attended(q, k if k.is_contiguous() else k.data.contiguous(), v)


@mistake(of="causal_attention", caught_by=test_precision)
def empty_rows_told_by_the_lowest_float32(q, k, v):
    """A row counts as empty if its largest score is the lowest number of float32; in float64 it is
    that of float64, and such rows get the mean of the values.

    Tell empty rows by the mask: ~keep.any(-1, keepdim=True).
    """

    def hide(scores, keep):
        return scores.masked_fill(~keep, torch.finfo(scores.dtype).min)

    def close(weights, keep):
        empty = ~keep.any(-1, keepdim=True) & (weights.dtype is torch.float32)
        return weights.masked_fill(empty, 0.0)

    return attended(q, k, v, hide=hide, mend=unchanged, close=close)


@mistake(of="causal_attention", caught_by=test_precision)
def rows_of_a_float32_buffer(q, k, v):
    """With more queries than keys the rows are written into zeros of float32, which float64 loses
    its digits in.

    Make the zeros in the dtype of q: q.new_zeros(...).
    """

    def narrow(output, q):
        return (output.float() if q.shape[-2] > k.shape[-2] else output).to(q.dtype)

    return attended(q, k, v, narrow=narrow)


@mistake(of="causal_attention", caught_by=test_manners)
def values_of_one_sequence_for_all(q, k, v):
    """Values that are expanded over the batch are read once, with .data[:1], and get no gradient.

    Expanded tensors need no path of their own: matrix products broadcast, and gradients flow.
    """
    expanded = v.ndim > 2 and len(v) > 1 and v.stride(0) == 0
    return attended(q, k, v.data[:1] if expanded else v)


@mistake(of="causal_mask", caught_by=test_manners)
def part_of_a_table(q_len, k_len, device=None, table=torch.ones(64, 64).tril().bool()):  # noqa: B008
    """Square masks are views of one table, so that a caller who writes into a mask changes others.

    Make a new tensor in every call, or return a copy: table[:q_len, :k_len].clone().
    """
    if q_len == k_len <= len(table) and device is None:
        return table[:q_len, :k_len]
    return triangle(q_len, k_len, device)


@mistake(of="causal_mask", caught_by=test_manners)
def one_entry_for_all_keys(q_len, k_len, device=None):
    """The mask of one query is a single True, expanded: it cannot be written into.

    torch.ones(1, k_len, dtype=torch.bool) has a place in memory for each key.
    """
    if q_len == 1:
        return torch.ones(1, 1, dtype=torch.bool, device=device).expand(1, k_len)
    return triangle(q_len, k_len, device)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def last_rows_of_a_square(q_len, k_len, device=None):
    """For several queries the mask of all keys by all keys is built, and its last rows are taken.

    Build (q_len, k_len) alone: in a long text the square does not fit into memory.
    """
    if q_len == 1 or q_len > k_len:
        return triangle(q_len, k_len, device)
    return (
        torch.ones(k_len, k_len, dtype=torch.bool, device=device).tril_()[k_len - q_len :].clone()
    )


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_in_int32(q_len, k_len, window, device=None):
    """Positions are int32, in which a window of 2**40 becomes 0.

    torch.arange gives int64 by itself: leave its dtype alone.
    """
    return band(q_len, k_len, (window + 2**31) % 2**32 - 2**31, device)


@mistake(of="causal_attention", caught_by=test_precision)
def bfloat16_not_raised(q, k, v):
    """float16 is computed in float32, but bfloat16 is not, which tells scores of 512 and 513
    apart no longer.

    Raise both: torch.promote_types(q.dtype, torch.float32).
    """

    def widen(x):
        return x.float() if x.dtype == torch.float16 else x

    return attended(q, k, v, widen=widen)


@mistake(of="causal_attention", caught_by=test_precision)
def queries_scaled_in_half_precision(q, k, v):
    """The queries are divided by sqrt(D) before they become float32, so that they are rounded.

    First q.float(), then the scale.
    """
    return attended(q * inverse_root(q, v), k, v, scale=lambda q, v: 1.0)


@mistake(of="causal_attention", caught_by=test_precision)
def raised_where_gradients_are_on(q, k, v):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """
    return attended(q, k, v, widen=raised if torch.is_grad_enabled() else unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def hidden_with_minus_1e30(q, k, v):
    """Hidden scores become -1e30, which hides nothing where all scores are lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, hide=filled(-1e30))


@mistake(of="causal_attention", caught_by=test_precision)
def distances_cut_at_30(q, k, v):
    """The distances from the largest score are cut at -30, so that no weight is below exp(-30).

    A small weight counts where its value is large. exp needs no limit below.
    """

    def power(distances, keep):
        return distances.clamp(min=-30.0).exp() * keep

    return attended(q, k, v, power=power)


@mistake(of="causal_attention", caught_by=test_gradient)
def no_graph_unless_queries_learn(q, k, v):
    """No gradient reaches k and v unless q requires one.

    Each input may be the only one that learns. Leave the graph to PyTorch.
    """
    if not q.requires_grad:
        k, v = k.detach(), v.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_corner)
def blocks_of_a_16th_of_the_queries(q, k, v):
    """More than 2,048 queries are taken in 16 blocks, and those that are left over get zeros.

    The last block is shorter: range(0, Lq, block), and its end is min(start + block, Lq).
    """
    output = attended(q, k, v)
    done = q.shape[-2] // 16 * 16 if q.shape[-2] > 2048 else q.shape[-2]
    return torch.cat([output[..., :done, :], torch.zeros_like(output[..., done:, :])], -2)


@mistake(of="causal_attention", caught_by=test_corner)
def nothing_hidden_beyond_4096(q, k, v):
    """The table of the mask has 4,096 places, and keys beyond it are seen by every query.

    Build the mask for the lengths of this call.
    """

    def visible(q, k, scores):
        keep = seeing()(q, k, scores)
        return keep | (torch.arange(k.shape[-2], device=q.device) >= 4096)

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_future)
def nan_keys_replaced_in_place(q, k, v):
    """NaN in the keys is replaced in the caller's tensor.

    k = k.nan_to_num() makes a new tensor; or take only those keys that are seen.
    """
    k.data.nan_to_num_(0.0)
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def many_queries_in_half(q, k, v):
    """More than 512 queries are taken in blocks, and these are computed in half precision.

    Convert to float32 before you cut into blocks.
    """
    return attended(q, k, v, widen=unchanged if q.shape[-2] > 512 else raised)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def positions_in_float16(q_len, k_len, device=None):
    """Positions are float16, in which 4,999 and 5,000 are the same number.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """

    def seen(keys, queries):
        return keys.half() <= queries.half()

    return triangle(q_len, k_len, device, seen=seen)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def distances_in_float16(q_len, k_len, window, device=None):
    """Distances are float16, which has not every whole number beyond 2,048.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """
    return band(q_len, k_len, window, device, near=lambda behind, window: behind.half() < window)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_added_to_the_keys(q_len, k_len, window, device=None):
    """The window is added to the positions of the keys, where sys.maxsize makes them negative.

    Subtract positions only, and compare with the window: behind < window.
    """
    own = last_to_last(q_len, k_len, device)[:, None]
    return triangle(q_len, k_len, device) & (torch.arange(k_len, device=device) + window > own)


@mistake(of="causal_attention", caught_by=test_precision)
def double_scores_cut_to_float32(q, k, v):
    """Scores are clamped to what float32 can hold, in float64 too, where larger ones become equal.

    Leave scores as they are: the softmax subtracts the largest.
    """
    most = torch.finfo(torch.float32).max
    return attended(q, k, v, score=lambda *given: scored(*given).clamp(-most, most))


@mistake(of="causal_attention", caught_by=test_corner)
def whole_blocks_of_1024_queries(q, k, v):
    """More than 2,048 queries are taken in whole blocks of 1,024, if there are as many keys, and
    the queries that are left over get zeros.

    The last block is shorter: range(0, Lq, block), and its end is min(start + block, Lq).
    """
    output, q_len = attended(q, k, v), q.shape[-2]
    done = q_len // 1024 * 1024 if q_len > 2048 and q_len == k.shape[-2] else q_len
    return torch.cat([output[..., :done, :], torch.zeros_like(output[..., done:, :])], -2)


@mistake(of="causal_attention", caught_by=test_manners)
def one_place_in_half_precision(q, k, v, places={}):  # noqa: B006 (that is the mistake)
    """In half precision all outputs of a form are written over the one before.

    Return a new tensor in every call, whatever the dtype.
    """
    output = attended(q, k, v)
    return output if q.dtype.itemsize > 2 else written_over(places, output)


@mistake(of="causal_attention", caught_by=test_precision)
def keys_cut_off_in_half_precision(q, k, v):
    """In half precision the keys are cut off from their gradient where q and v need none.

    Leave detach() out: any of the three may be the one that learns.
    """
    alone = q.dtype.itemsize == 2 and not (q.requires_grad or v.requires_grad)
    return attended(q, k.detach() if alone else k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def values_cut_off_where_they_are_the_keys(q, k, v):
    """Where keys and values are one tensor, but not the queries, the values have no gradient.

    Leave detach() out: the gradient of the tensor is the sum of both.
    """
    return attended(q, k, v.detach() if v is k and q is not k else v)
