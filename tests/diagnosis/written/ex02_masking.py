"""Wrong answers to ex02_masking, written with nothing but the skeleton in sight."""

import torch

from tests.diagnosis.written import wrong


@wrong(of="additive_mask", mistakes=1)
def additive_of_the_kept(keep, dtype):
    """The mask is inverted: -inf stands where `keep` is True."""
    mask = torch.zeros_like(keep, dtype=dtype)
    mask[keep] = float("-inf")
    return mask


@wrong(of="additive_mask", mistakes=1)
def additive_by_multiplication(keep, dtype):
    """0 is multiplied by -inf, which is NaN where the key is kept."""
    return (1.0 - keep.to(dtype)) * float("-inf")


@wrong(of="additive_mask", mistakes=1)
def additive_in_the_default_dtype(keep, dtype):
    """`dtype` is ignored: the answer is always float32."""
    mask = torch.zeros(keep.shape, device=keep.device)
    return mask.masked_fill(~keep, -torch.inf)


@wrong(of="additive_mask", mistakes=1)
def additive_minus_a_billion(keep, dtype):
    """-1e9 stands where the key is hidden and not -inf."""
    return torch.where(keep, 0.0, -1e9).to(dtype)


@wrong(of="additive_mask", mistakes=2)
def additive_ones_and_the_lowest(keep, dtype):
    """1 stands where the key is kept and not 0.

    The lowest finite number of the dtype stands where it is hidden and not -inf.
    """
    lowest = torch.full_like(keep, torch.finfo(dtype).min, dtype=dtype)
    return torch.where(keep, torch.ones_like(lowest), lowest)


@wrong(of="additive_mask", mistakes=2)
def additive_turned_in_place(keep, dtype):
    """The mask that was given is turned round in place.

    `dtype` is ignored: the answer is always float32.
    """
    hidden = keep.logical_not_()
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, float("-inf"))


@wrong(of="additive_mask", mistakes=2)
def additive_plus_infinity(keep, dtype):
    """+inf stands where the key is hidden: the sign is lost.

    The answer has an axis of heads that nobody asked for.
    """
    zeros = torch.zeros(keep.shape, dtype=dtype, device=keep.device)
    return zeros.masked_fill(torch.logical_not(keep), float("inf")).unsqueeze(0)


@wrong(of="keep_from_blocked", mistakes=1)
def blocked_as_it_is(blocked):
    """The mask is copied and not turned round."""
    return blocked.clone().bool()


@wrong(of="keep_from_blocked", mistakes=1)
def blocked_subtracted_from_one(blocked):
    """The answer holds the floats 0 and 1 and is no bool tensor."""
    return 1 - blocked.float()


@wrong(of="keep_from_blocked", mistakes=1)
def blocked_turned_in_place(blocked):
    """The mask that was given is itself turned round."""
    return blocked.logical_not_()


@wrong(of="keep_from_blocked", mistakes=1)
def blocked_bits_of_integers(blocked):
    """The bits of integers are turned: -1 and -2 are both True, and nothing is hidden."""
    return (~blocked.to(torch.int32)).to(torch.bool)


@wrong(of="keep_from_blocked", mistakes=2)
def blocked_xor_in_place(blocked):
    """The mask that was given is itself changed by `^=`.

    The answer is of integers and no bool tensor.
    """
    blocked ^= True
    return blocked.int()


@wrong(of="keep_from_blocked", mistakes=2)
def blocked_one_where_hidden(blocked):
    """The mask is not turned round: True still means hidden.

    The answer is of bytes and no bool tensor.
    """
    return torch.where(blocked, 1, 0).to(torch.uint8)


@wrong(of="keep_from_blocked", mistakes=2)
def blocked_in_a_list(blocked):
    """The shape is lost: the answer is one long row.

    The numbers are integers and no bools.
    """
    return torch.tensor(
        [1 - int(hidden) for hidden in blocked.flatten()], dtype=torch.int64, device=blocked.device
    )


@wrong(of="padding_mask", mistakes=1)
def padding_up_to_and_with_the_length(lengths, max_len):
    """Key `lengths[b]` is kept as well: one too many."""
    places = torch.arange(max_len, device=lengths.device)
    return (places <= lengths.unsqueeze(-1))[:, None, None, :]


@wrong(of="padding_mask", mistakes=1)
def padding_without_heads(lengths, max_len):
    """The shape is (B, L) and not (B, 1, 1, L)."""
    return torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]


@wrong(of="padding_mask", mistakes=1)
def padding_that_is_kept(lengths, max_len):
    """The mask is inverted: the padding is True."""
    keys = torch.arange(max_len, device=lengths.device).expand(len(lengths), max_len)
    return keys.ge(lengths.view(-1, 1)).reshape(len(lengths), 1, 1, max_len)


@wrong(of="padding_mask", mistakes=1)
def padding_on_the_left(lengths, max_len):
    """The last `lengths[b]` keys are kept and not the first."""
    mask = torch.zeros(len(lengths), 1, 1, max_len, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, :, :, max_len - length :] = True
    return mask


@wrong(of="padding_mask", mistakes=2)
def padding_up_to_the_last_but_one(lengths, max_len):
    """Slices end at `lengths[b] - 1`: one key too few, and nearly all for a length of 0.

    The answer is float and no bool tensor.
    """
    mask = torch.zeros((lengths.shape[0], 1, 1, max_len), device=lengths.device)
    for b in range(lengths.shape[0]):
        mask[b, 0, 0, : int(lengths[b]) - 1] = 1
    return mask


@wrong(of="padding_mask", mistakes=2)
def padding_of_queries(lengths, max_len):
    """The padding lies along the queries: the shape is (B, 1, L, 1).

    The mask is inverted: the padding is True.
    """
    queries = torch.arange(max_len, device=lengths.device)
    return ~(queries < lengths[:, None]).view(-1, 1, max_len, 1)


@wrong(of="padding_mask", mistakes=2)
def padding_of_lengths_less_one(lengths, max_len):
    """One is subtracted from the caller's lengths, in place.

    The axis of heads is missing: the shape is (B, 1, L).
    """
    lengths -= 1
    keys = torch.arange(max_len, device=lengths.device)
    return (keys <= lengths[:, None]).unsqueeze(1)


@wrong(of="combine_masks", mistakes=1)
def combine_with_or(*masks):
    """The masks are combined with or: what one of them keeps is kept."""
    result = None
    for mask in masks:
        if mask is None:
            continue
        result = mask if result is None else result | mask
    return result


@wrong(of="combine_masks", mistakes=1)
def combine_into_the_first(*masks):
    """`&=` changes the first mask, and cannot make it larger."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    result = given[0]
    for mask in given[1:]:
        result &= mask
    return result


@wrong(of="combine_masks", mistakes=1)
def combine_at_most_two(*masks):
    """Only two masks are combined; a third has no influence."""
    given = list(filter(lambda mask: mask is not None, masks))
    if len(given) == 0:
        return None
    if len(given) == 1:
        return given[0]
    return torch.logical_and(given[0], given[1])


@wrong(of="combine_masks", mistakes=1)
def combine_until_none(*masks):
    """The first None ends the loop, and the masks after it are forgotten."""
    result = None
    for mask in masks:
        if mask is None:
            break
        result = mask.clone() if result is None else result.logical_and(mask)
    return result


@wrong(of="combine_masks", mistakes=2)
def combine_to_true(*masks):
    """The masks are combined with or and not with and.

    Where there is no mask at all, a tensor comes back and not None.
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return torch.tensor(True)
    return torch.stack(torch.broadcast_tensors(*given)).any(0)


@wrong(of="combine_masks", mistakes=2)
def combine_as_a_product(*masks):
    """The product is of integers and no bool tensor.

    The loop ends before the last mask.
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    product = given[0].long()
    for i in range(1, len(given) - 1):
        product = product * given[i]
    return product


@wrong(of="combine_masks", mistakes=2)
def combine_in_a_stack(*masks):
    """The masks are stacked, which fails for shapes that must be broadcast.

    Where there is no mask at all, an empty tensor comes back and not None.
    """
    given = [mask for mask in masks if mask is not None]
    if len(given) == 0:
        return torch.ones(0, dtype=torch.bool)
    return torch.stack(given).all(dim=0)


@wrong(of="masked_softmax", mistakes=1)
def weights_uniform_where_nothing_is_kept(scores, keep):
    """Hidden scores become -1e9: a row that keeps nothing is uniform and not 0."""
    wide = scores if scores.dtype == torch.float64 else scores.float()
    if keep is not None:
        wide = torch.where(keep, wide, -1e9)
    return torch.softmax(wide, dim=-1).to(scores.dtype)


@wrong(of="masked_softmax", mistakes=1)
def weights_nan_where_nothing_is_kept(scores, keep):
    """A row that keeps nothing becomes 0 / 0, which is NaN."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if keep is not None:
        wide = wide.masked_fill(~keep, float("-inf"))
    return wide.softmax(-1).to(scores.dtype)


@wrong(of="masked_softmax", mistakes=1)
def weights_below_a_hidden_maximum(scores, keep):
    """The maximum is that of hidden scores too: kept ones far below it vanish, and NaN spreads."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    e = torch.exp(wide - wide.amax(-1, keepdim=True))
    if keep is not None:
        e = torch.where(keep, e, torch.zeros_like(e))
    total = e.sum(-1, keepdim=True)
    return (e / torch.where(total > 0, total, torch.ones_like(total))).to(scores.dtype)


@wrong(of="masked_softmax", mistakes=1)
def weights_hidden_after_the_softmax(scores, keep):
    """The mask comes after the softmax, so that hidden scores take their share of the sum."""
    wide = scores.float() if scores.dtype.itemsize < 4 else scores
    weights = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
    weights = weights / weights.sum(dim=-1, keepdim=True)
    if keep is not None:
        weights = weights.masked_fill(~keep, 0.0)
    return weights.type(scores.dtype)


@wrong(of="masked_softmax", mistakes=1)
def weights_with_the_mask_added(scores, keep):
    """-inf is added to hidden scores, and a NaN or +inf that is hidden becomes NaN."""
    wide = scores.double() if scores.dtype == torch.float64 else scores.float()
    if keep is None:
        return torch.softmax(wide, -1).to(scores.dtype)
    nothing = ~keep.any(-1, keepdim=True)
    mask = torch.zeros(keep.shape, dtype=wide.dtype, device=wide.device)
    mask = mask.masked_fill(~keep, float("-inf")).masked_fill(nothing, 0)
    weights = torch.softmax(wide + mask, -1)
    return weights.masked_fill(nothing, 0).to(scores.dtype)


@wrong(of="masked_softmax", mistakes=2)
def weights_of_the_hidden(scores, keep):
    """The mask is inverted: the scores that it keeps are hidden.

    float64 is computed in float32.
    """
    wide = scores.float()
    if keep is None:
        return torch.softmax(wide, dim=-1).to(scores.dtype)
    all_gone = keep.all(-1, keepdim=True)
    wide = wide.masked_fill(keep, -float("inf")).masked_fill(all_gone, 0.0)
    return torch.softmax(wide, dim=-1).masked_fill(keep, 0.0).to(scores.dtype)


@wrong(of="masked_softmax", mistakes=2)
def weights_over_the_queries(scores, keep):
    """The softmax is over the queries and not over the keys.

    The scores that were given are masked in place.
    """
    if keep is not None:
        scores.detach().masked_fill_(~keep, float("-inf"))
    top = scores.detach().float().amax(-2, keepdim=True).clamp(min=-1e30)
    e = torch.exp(scores.to(torch.promote_types(scores.dtype, torch.float32)) - top)
    total = e.sum(-2, keepdim=True)
    return (e / torch.where(total == 0, 1.0, total)).to(scores.dtype)


@wrong(of="masked_softmax", mistakes=2)
def weights_without_a_maximum(scores, keep):
    """No maximum is subtracted: large scores overflow.

    The exponentials are multiplied by the mask, and a NaN or inf that is hidden stays NaN.
    """
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    e = torch.exp(wide)
    if keep is not None:
        e = e * keep
    total = e.sum(-1, keepdim=True)
    return (e / total.masked_fill(total == 0, 1)).to(scores.dtype)


@wrong(of="masked_softmax", mistakes=2)
def weights_in_half_with_an_epsilon(scores, keep):
    """A millionth is added to the sum, so that the rows of float64 do not sum to one.

    Half precision is summed in half precision, where a long row overflows.
    """
    kept = scores if keep is None else torch.where(keep, scores, float("-inf"))
    top = kept.detach().amax(-1, keepdim=True)
    e = torch.exp(kept - top.masked_fill(top == float("-inf"), 0))
    return e / (e.sum(-1, keepdim=True) + 1e-6)
