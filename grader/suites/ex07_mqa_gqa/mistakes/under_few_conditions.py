"""Wrong answers that show under a few conditions only."""

import torch
from torch import nn

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..steps import (
    Layer,
    attended,
    copied,
    counted,
    evenly_divided,
    filled,
    next_to_each_other,
    softmax,
    unchanged,
    zero_in_empty_rows,
)
from ..test_mqa_gqa import (
    test_cache_bytes,
    test_hidden_keys,
    test_layer,
    test_manners,
    test_mask,
    test_precision,
    test_repeat_kv,
    test_step,
    test_values,
)
from .grouped_query_attention import hidden_by_a_finite_number, queries_scaled_in_half_precision
from .shared import HALVES, with_infinity


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


@mistake(of="GroupedQueryAttention", caught_by=test_layer)
class FirstRowsOfTheMask(Layer):
    """Queries are taken 64 at a time, and all parts get the first rows of the mask.

    Cut a mask that has a row for each query like the queries.
    """

    def attend(self, q, k, v, keep):
        if keep is None or keep.ndim < 2 or keep.shape[-2] <= 64:
            return attended(q, k, v, keep)
        parts = [attended(x, k, v, keep[..., : x.shape[-2], :]) for x in q.split(64, -2)]
        return torch.cat(parts, -2)
