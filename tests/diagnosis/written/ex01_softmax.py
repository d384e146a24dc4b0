"""Wrong answers to ex01_softmax, written with nothing but the skeleton in sight."""

import numpy as np
import torch

from tests.diagnosis.written import wrong


@wrong(of="softmax_numpy", mistakes=1)
def numpy_straight_from_the_formula(x, axis=-1):
    """No maximum is subtracted before exp, so that large scores overflow."""
    wide = np.float64 if x.dtype == np.float64 else np.float32
    exponentials = np.exp(x.astype(wide))
    return (exponentials / exponentials.sum(axis=axis, keepdims=True)).astype(x.dtype)


@wrong(of="softmax_numpy", mistakes=1)
def numpy_row_by_row(x, axis=-1):
    """`axis` is ignored: the softmax is always over the last axis."""
    rows = x.reshape(-1, x.shape[-1])
    result = np.empty(rows.shape, dtype=x.dtype)
    for i, row in enumerate(rows):
        row = row.astype(np.promote_types(row.dtype, np.float32))
        row = np.exp(row - row.max())
        result[i] = row / row.sum()
    return result.reshape(x.shape)


@wrong(of="softmax_numpy", mistakes=1)
def numpy_one_maximum_for_all(x, axis=-1):
    """The maximum of the whole array is subtracted: rows far below it become 0 / 0."""
    scores = x.astype(np.float32) if x.dtype == np.float16 else x
    e = np.exp(scores - np.max(scores))
    e = e / np.sum(e, axis=axis, keepdims=True)
    return e.astype(x.dtype)


@wrong(of="softmax_numpy", mistakes=1)
def numpy_always_float32(x, axis=-1):
    """Everything is computed in float32, float64 too, which loses its digits."""
    scores = np.array(x, dtype=np.float32)
    scores -= scores.max(axis=axis, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=axis, keepdims=True)
    return scores.astype(x.dtype)


@wrong(of="softmax_numpy", mistakes=1)
def numpy_asarray_is_no_copy(x, axis=-1):
    """The input is changed: asarray does not copy, and the maximum is subtracted in place."""
    scores = np.asarray(x, dtype=np.float32 if x.dtype == np.float16 else x.dtype)
    scores -= scores.max(axis=axis, keepdims=True)
    e = np.exp(scores)
    return (e / e.sum(axis=axis, keepdims=True)).astype(x.dtype)


@wrong(of="softmax_numpy", mistakes=1)
def numpy_sum_without_keepdims(x, axis=-1):
    """The sum lacks keepdims, so that it is broadcast along the wrong axis."""

    def widen(a):
        return a.astype(np.float32) if a.dtype == np.float16 else a

    e = np.exp(widen(x) - widen(x).max(axis, keepdims=True))
    return (e / e.sum(axis)).astype(x.dtype)


@wrong(of="softmax_numpy", mistakes=1)
def numpy_in_float16(x, axis=-1):
    """float16 is computed in float16: the sum of a long row overflows."""
    shifted = x - np.amax(x, axis=axis, keepdims=True)
    exponentials = np.exp(shifted)
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


@wrong(of="softmax_numpy", mistakes=2)
def numpy_centred_on_the_mean(x, axis=-1):
    """The mean is subtracted instead of the maximum, and the largest score still overflows.

    The result of float16 comes back in float32.
    """
    scores = x.astype(np.promote_types(x.dtype, np.float32))
    scores = scores - scores.mean(axis=axis, keepdims=True)
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


@wrong(of="softmax_numpy", mistakes=2)
def numpy_axis_moved_and_left_there(x, axis=-1):
    """The axis is moved to the end and never moved back.

    No maximum is subtracted.
    """
    last = np.moveaxis(x, axis, -1)
    e = np.exp(last.astype(np.float64 if x.dtype == np.float64 else np.float32))
    return (e / e.sum(-1)[..., None]).astype(x.dtype)


@wrong(of="softmax_numpy", mistakes=2)
def numpy_whole_array_sums_to_one(x, axis=-1):
    """The sum is that of the whole array and not of each row.

    float16 is summed in float16, where a long row overflows.
    """
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum()


@wrong(of="softmax_numpy", mistakes=2)
def numpy_powers_of_two(x, axis=-1):
    """The powers are those of 2 and not of e.

    The input is changed: the maximum is subtracted from it in place.
    """
    scores = x.astype(np.float32) if x.dtype == np.float16 else x
    scores -= scores.max(axis=axis, keepdims=True)
    powers = 2.0**scores
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype)


@wrong(of="softmax", mistakes=1)
def torch_by_way_of_numpy(x, dim=-1):
    """The result is computed in NumPy, so that no gradient flows."""
    scores = x.detach().cpu().double().numpy()
    e = np.exp(scores - scores.max(axis=dim, keepdims=True))
    return torch.from_numpy(e / e.sum(axis=dim, keepdims=True)).to(x)


@wrong(of="softmax", mistakes=1)
def torch_where_the_maximum_is(x, dim=-1):
    """The index of the maximum is subtracted and not the maximum: large scores overflow."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    top = torch.max(wide, dim=dim, keepdim=True)[1]
    e = torch.exp(wide - top)
    return (e / e.sum(dim=dim, keepdim=True)).to(x.dtype)


@wrong(of="softmax", mistakes=1)
def torch_sum_over_the_last(x, dim=-1):
    """The sum is over the last dimension, whatever `dim` is."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    e = (wide - wide.amax(dim, keepdim=True)).exp()
    return e.div(e.sum(-1, keepdim=True)).to(x.dtype)


@wrong(of="softmax", mistakes=1)
def torch_in_half_precision(x, dim=-1):
    """Half precision is computed in half precision: the sum of a long row overflows."""
    largest, _ = x.max(dim=dim, keepdim=True)
    e = torch.exp(x - largest)
    return e / e.sum(dim=dim, keepdim=True)


@wrong(of="softmax", mistakes=1)
def torch_clamped(x, dim=-1):
    """Scores are cut off at 50 either way instead of having the maximum subtracted."""
    wide = x if x.dtype == torch.float64 else x.float()
    e = torch.clamp(wide, min=-50, max=50).exp()
    total = e.sum(dim=dim, keepdim=True)
    return (e / total).to(x.dtype)


@wrong(of="softmax", mistakes=1)
def torch_sum_as_a_constant(x, dim=-1):
    """The sum is detached, so that the gradient lacks its part."""
    wide = x if x.dtype == torch.float64 else x.float()
    with torch.no_grad():
        top = wide.amax(dim=dim, keepdim=True)
        total = torch.exp(wide - top).sum(dim=dim, keepdim=True)
    return (torch.exp(wide - top) / total).to(x.dtype)


@wrong(of="softmax", mistakes=1)
def torch_unit_vectors(x, dim=-1):
    """The exponentials are divided by their Euclidean norm and not by their sum."""
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    e = torch.exp(wide - wide.amax(dim=dim, keepdim=True))
    return (e / torch.sqrt((e * e).sum(dim=dim, keepdim=True))).to(x.dtype)


@wrong(of="softmax", mistakes=2)
def torch_sum_in_a_loop_from_one(x, dim=-1):
    """The loop of the sum begins at 1 and leaves the first exponential out.

    float64 is computed in float32.
    """
    scores = x.float()
    e = torch.exp(scores - scores.max(dim=dim, keepdim=True).values)
    total = torch.zeros_like(e.select(dim, 0))
    for i in range(1, e.shape[dim]):
        total = total + e.select(dim, i)
    return (e / total.unsqueeze(dim)).to(x.dtype)


@wrong(of="softmax", mistakes=2)
def torch_flat_maximum_flat_sum(x, dim=-1):
    """The maximum is that of the whole tensor: rows far below it become 0 / 0.

    The sum lacks keepdim and is broadcast along the wrong dimension.
    """
    wide = x.float() if x.dtype.itemsize == 2 else x
    e = torch.exp(wide - wide.max())
    return (e / torch.sum(e, dim)).to(x.dtype)


@wrong(of="softmax", mistakes=2)
def torch_minus_equals(x, dim=-1):
    """The input is changed by `-=`, which autograd refuses for a leaf.

    Half precision is computed in half precision.
    """
    x -= x.detach().amax(dim=dim, keepdim=True)
    e = x.exp()
    return e / e.sum(dim=dim, keepdim=True)


@wrong(of="softmax", mistakes=2)
def torch_without_grad(x, dim=-1):
    """It runs under no_grad, so that no gradient flows.

    No maximum is subtracted.
    """
    with torch.no_grad():
        wide = x.double() if x.dtype == torch.float64 else x.to(torch.float32)
        weights = wide.exp() / wide.exp().sum(dim, keepdim=True)
        return weights.type_as(x)
