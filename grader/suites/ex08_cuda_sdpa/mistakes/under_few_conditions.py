"""Wrong answers that show under a few conditions only."""

import math

import torch
import torch.nn.functional as F

from grader.judging import mistake
from reference.fused import best_backend

from ..test_cuda_sdpa import (
    test_backend,
    test_causal,
    test_gradient,
    test_manners,
    test_mask_and_bias,
    test_module,
    test_precision,
    test_values,
)
from .shared import TwoPaths, correct, fits, softmax_weights, unstable, visible, written_out


@mistake(of="fast_attention", caught_by=test_values)
def causal_if_the_lengths_agree(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With as many queries as keys, the keys ahead are hidden without being asked.

    Only `causal` and `keep` hide keys, whatever the lengths.
    """
    causal = causal or (q.shape[-2] == k.shape[-2] and keep is None and bias is None)
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut_if_the_lengths_agree(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With as many queries as keys, no gradient flows to the keys.

    Call the operator on the tensors as they come, whatever the lengths.
    """
    k = k.detach() if q.shape[-2] == k.shape[-2] else k
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def squeezed(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Dimensions of size 1 are squeezed away, so that a single head or query loses one.

    Give back the shape that came: output.reshape(*q.shape[:-1], v.shape[-1]).
    """
    return correct(q, k, v, keep, causal, scale, bias).squeeze()


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_one_key_for_all_queries(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a single key the mask of the first query is used for all of them.

    keep has a row for each query, however many keys there are.
    """
    if keep is not None and keep.ndim > 1 and k.shape[-2] == 1:
        keep = keep[..., :1, :]
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_values)
def tiles_averaged(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """More than 1024 keys are taken in two tiles, whose outputs are averaged.

    Weigh each tile by the sum of its exponentials, or leave the tiles to the operator.
    """
    if k.shape[-2] <= 1024 or causal or keep is not None or bias is not None:
        return correct(q, k, v, keep, causal, scale, bias)
    halves = zip(k.split(1024, -2), v.split(1024, -2), strict=True)
    return sum(correct(q, *half, scale=scale) for half in halves) / 2


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_cut_with_the_queries(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """More than 256 queries are taken in tiles, of which all get the first rows of the mask.

    Cut a mask with a row for each query like the queries; leave one with a single row alone.
    """
    if keep is None or causal or bias is not None or q.shape[-2] <= 256:
        return correct(q, k, v, keep, causal, scale, bias)
    keep = keep.expand(*q.shape[:-1], k.shape[-2])
    tiles = q.split(256, -2)
    parts = [correct(x, k, v, keep[..., : x.shape[-2], :], False, scale) for x in tiles]
    return torch.cat(parts, -2)


@mistake(of="fast_attention", caught_by=test_causal)
def sign_of_the_scale_dropped(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With causal=True the sign of a negative scale is dropped, to please the kernel.

    Put the sign into the queries: -q with -scale.
    """
    scale = abs(scale) if causal and scale is not None else scale
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_causal)
def operator_given_any_scale(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Where q, k and v have one shape, is_causal=True and the scale go to the operator as they are:
    a scale that is 0 or negative gives NaN.

    Put the sign into the queries, -q with -scale; and for a scale of 0, 0 * q with the scale 1.
    """
    if causal and keep is None and bias is None and q.shape == k.shape == v.shape and q.ndim == 4:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def small_weights_cut(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """With a mask, weights below 1e-12 are set to 0.

    Leave the weights as they are: a small one counts where its value is large.
    """
    if keep is None:
        return correct(q, k, v, keep, causal, scale, bias)

    def weigh(scores, keep):
        weights = softmax_weights(scores, keep)
        return weights.masked_fill(weights < 1e-12, 0.0)

    return written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_precision)
def maximum_begins_with_zero(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The maximum of a row begins with 0, so that far below 0 all exponentials become 0.

    Begin with -inf, or leave the softmax to the operator.
    """

    def weigh(scores, keep):
        scores = scores if keep is None else torch.where(keep, scores, -torch.inf)
        powers = (scores - scores.amax(-1, keepdim=True).clamp(min=0).detach()).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total > 0, total, 1.0)

    return written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_precision)
def scores_clamped(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The scores are clamped to plus or minus 80, so that exp cannot overflow.

    Subtract the maximum of each row instead, or leave the softmax to the operator.
    """
    return written_out(
        q, k, v, keep, causal, scale, bias, lambda s, keep: softmax_weights(s.clamp(-80, 80), keep)
    )


@mistake(of="fast_attention", caught_by=test_manners)
def scaled_in_place_and_back(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The queries are scaled in place and back at the end; where q is k or v, this shows.

    Pass scale= to the operator, or write q = q * scale, which makes a new tensor.
    """
    fits(q, k, v)
    if q.requires_grad or q.device.type == "meta":
        return correct(q, k, v, keep, causal, scale, bias)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    before = q.clone()
    q *= factor
    output = correct(q, k, v, keep, causal, 1.0, bias)
    q.copy_(before)
    return output


_ANSWERS = {}


@mistake(of="fast_attention", caught_by=test_manners)
def answer_kept_by_identity(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The output is kept and given back for the same tensors, whose numbers may have changed.

    Compute it again: the same tensor may hold other numbers.
    """
    key = (id(q), id(k), id(v), id(keep), id(bias), causal, scale)
    if key not in _ANSWERS or _ANSWERS[key][0] is not q:
        _ANSWERS.clear()
        _ANSWERS[key] = q, correct(q, k, v, keep, causal, scale, bias)
    return _ANSWERS[key][1]


_LOCKED = []


@mistake(of="fast_attention", caught_by=test_manners)
def locked_after_an_error(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A call that raises leaves a mark, and the next call does not run.

    Compare all sizes before anything is changed.
    """
    if _LOCKED:
        _LOCKED.clear()
        raise RuntimeError("attention is still running")
    _LOCKED.append(True)
    output = correct(q, k, v, keep, causal, scale, bias)
    _LOCKED.clear()
    return output


@mistake(of="fast_attention", caught_by=test_manners)
def mask_made_on_the_cpu(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The causal mask is made on the CPU, wherever the queries are.

    Give device=q.device to every tensor that is made.
    """
    if causal and keep is not None:
        behind = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        keep, causal = keep & behind.tril(k.shape[-2] - q.shape[-2]), False
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="best_backend", caught_by=test_backend)
def math_with_a_mask(q, k, v, keep=None, causal=False):
    """With a mask the answer is math, although the kernel of the CPU takes one.

    On the CPU the fused kernel takes masks: flash.
    """
    if keep is not None:
        return "math: flash takes no mask"
    return best_backend(q, k, v, keep, causal)


@mistake(of="best_backend", caught_by=test_backend)
def math_if_all_is_hidden(q, k, v, keep=None, causal=False):
    """With a mask that hides every key the answer is math, as if there were no keys.

    The kernel takes that mask like any other. Only the lengths decide: flash.
    """
    if keep is not None and not keep.any() and k.shape[-2]:
        return "math: nothing is left to attend to"
    return best_backend(q, k, v, keep, causal)


@mistake(of="best_backend", caught_by=test_backend)
def no_queries_forgotten(q, k, v, keep=None, causal=False):
    """Only the number of keys is looked at: without queries the answer is flash.

    Where there are no queries, no fused kernel runs either.
    """
    return best_backend(q, k, v, keep, causal) if not k.shape[-2] else "flash: it is the fastest"


@mistake(of="FusedAttention", caught_by=test_manners)
class ThreeDimensionsOnly(TwoPaths):
    """Only three dimensions are taken: `B, L, E = x.shape` fails for any other number.

    Take what is in front as it comes: unflatten(-1, (3, H, D)), and unbind(-3).
    """

    def forward(self, x, keep=None):
        _, _, _ = x.shape
        return super().forward(x, keep)


@mistake(of="FusedAttention", caught_by=test_manners)
class ReshapedByMinusOne(TwoPaths):
    """The heads are put together by reshape(B, L, -1), which fails for an empty batch.

    Name the width, or flatten the heads: .flatten(-2).
    """

    def combine(self, heads):
        together = heads.transpose(-3, -2)
        return self.proj(together.reshape(*together.shape[:-2], -1))


@mistake(of="FusedAttention", caught_by=test_manners)
class SlowMaskOnTheCpu(TwoPaths):
    """The path that is written out makes a mask of its own on the CPU, wherever x is.

    Give device=q.device to every tensor that is made.
    """

    def slow(self, q, k, v, keep):
        everything = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        return super().slow(q, k, v, everything if keep is None else keep)


@mistake(of="FusedAttention", caught_by=test_module)
class DropoutInTraining(TwoPaths):
    """In .train() a tenth of the output is dropped.

    Nothing is dropped here, in training or in evaluation.
    """

    def combine(self, heads):
        return F.dropout(super().combine(heads), 0.1, self.training)


@mistake(of="FusedAttention", caught_by=test_module)
class CausalInEval(TwoPaths):
    """In .eval() tokens do not see the tokens after them, as if each evaluation were generation.

    In .train() and .eval() alike, `keep` alone says what is hidden.
    """

    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, keep if self.training else visible(q, k, keep, True))


@mistake(of="FusedAttention", caught_by=test_module)
class WeightsRemembered(TwoPaths):
    """The weight of qkv is copied at the first call, and new weights are never seen.

    Call self.qkv(x) each time.
    """

    def forward(self, x, keep=None):
        if getattr(self, "_first", None) is None or self._first.dtype != x.dtype:
            self._first = self.qkv.weight.detach().clone()
        known = self._first
        if self.training and x.requires_grad:
            known = self.qkv.weight
        q, k, v = self.split(F.linear(x, known, self.qkv.bias))
        return self.combine(self.attend(*self.normalise(q, k), v, keep))


@mistake(of="FusedAttention", caught_by=test_module)
class SizesOfTheClass(TwoPaths):
    """The number of heads is kept in the class, so that a new module changes older ones.

    Write self.num_heads = num_heads: each module has its own.
    """

    heads = 1

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)
        type(self).heads = num_heads

    def forward(self, x, keep=None):
        self.num_heads = type(self).heads
        return super().forward(x, keep)


@mistake(of="FusedAttention", caught_by=test_module)
class NormsWithoutBias(TwoPaths):
    """With qk_norm, qkv has no bias, even where qkv_bias asks for one.

    The two options do not depend on each other: nn.Linear(E, 3 * E, bias=qkv_bias).
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        super().__init__(d_model, num_heads, qkv_bias and not qk_norm, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_module)
class SlowWithoutNorms(TwoPaths):
    """The path that is written out does not normalise queries and keys.

    Apply q_norm and k_norm before the paths part.
    """

    def normalise(self, q, k):
        return super().normalise(q, k) if self.fused else (q, k)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowUnstable(TwoPaths):
    """The path that is written out takes exp of the scores as they are, and large ones overflow.

    Use softmax, or subtract the maximum of each row first.
    """

    def slow(self, q, k, v, keep):
        return unstable(q, k, v, keep, False, None, None)


@mistake(of="FusedAttention", caught_by=test_module)
class GradientsInTrainingOnly(TwoPaths):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


@mistake(of="fast_attention", caught_by=test_manners)
def values_shared_without_their_sum(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Values wider than the keys are copied for the heads of a group, and only one copy is given a
    gradient.

    A value that several heads read adds up the gradients of all: use repeat_interleave.
    """
    group = q.shape[-3] // k.shape[-3]
    if group > 1 and v.shape[-1] > q.shape[-1]:
        first = v.unsqueeze(-3)
        others = first.detach().expand(*v.shape[:-2], group - 1, *v.shape[-2:])
        v = torch.cat([first, others], -3).flatten(-4, -3)
        k = k.repeat_interleave(group, -3)
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_manners)
def bias_of_five_dimensions_is_detached(
    q, k, v, keep=None, causal=False, scale=None, bias=None
):  # fmt: skip
    """A bias of more than four dimensions is copied into a new tensor, and gets no gradient.

    Reshape it: reshape keeps the way of the gradient.
    """
    if bias is not None and bias.ndim > 4:
        bias = bias.detach().clone()
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_manners)
class MaskOfHeadsBySequence(TwoPaths):
    """A mask of three dimensions is taken as one for each sequence, if there are as many of them.

    It broadcasts to (B, H, L, L) from the right: three dimensions are one mask for each head.
    """

    def forward(self, x, keep=None):
        if keep is not None and keep.ndim == 3 and x.ndim == 3 and len(keep) == len(x):
            keep = keep.unsqueeze(1)
        return super().forward(x, keep)


@mistake(of="best_backend", caught_by=test_backend)
def dash_for_a_reason(q, k, v, keep=None, causal=False):
    """After math stands a dash, or the name of a kernel, and no reason.

    Say what the fused kernel dislikes: there are no queries, or no keys.
    """
    right = best_backend(q, k, v, keep, causal)
    return "math: flash -" if right.startswith("math") else right


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def finite_fill_beside_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Beside a bias hidden scores are filled with -1e9: where the bias is lower still, hidden keys
    take all the weight.

    Fill with -torch.inf: torch.where(keep, bias, -torch.inf).
    """
    if keep is None or bias is None or q.dtype.itemsize == 2:
        return correct(q, k, v, keep, causal, scale, bias)

    def weigh(scores, keep):
        weights = scores.masked_fill(~keep, -1e9).softmax(-1)
        return weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)

    return written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def mask_of_one_dimension_at_least(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The size of the last dimension of a mask is read, which a single number has not.

    A mask of no dimension broadcasts too: it is one answer for all queries and keys.
    """
    for mask in (keep, bias):
        if mask is not None:
            _ = mask.shape[-1]
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_manners)
class SwitchedByTheForward(TwoPaths):
    """forward sets `fused` to False while it runs, and a call that raises leaves it so.

    Only the caller sets `fused`: pass on what was read from it.
    """

    def attend(self, q, k, v, keep):
        was, self.fused = self.fused, False
        output = (self.fast if was else self.slow)(q, k, v, keep)
        self.fused = was
        return output


@mistake(of="FusedAttention", caught_by=test_manners)
class HeadsOfNoWidth(TwoPaths):
    """More heads than places are told by a ZeroDivisionError: the width of a head is 0.

    Ask d_model % num_heads, which is not 0 then either, and raise a ValueError.
    """

    def __init__(self, d_model, num_heads, qkv_bias=False, qk_norm=False, fused=True):
        if d_model % (d_model // num_heads * num_heads):
            raise ValueError(f"{num_heads} heads do not divide {d_model}")
        super().__init__(d_model, num_heads, qkv_bias, qk_norm, fused)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowScoresInHalf(TwoPaths):
    """The slow path keeps its scores in half precision, where scores of hundreds that differ by 1
    are the same number.

    Raise q and k with .float() before the product, not the scores after it.
    """

    def slow(self, q, k, v, keep):
        if q.dtype.itemsize > 2:
            return super().slow(q, k, v, keep)
        wide = [x.float() for x in (q * q.shape[-1] ** -0.5, k, v)]
        scores = (wide[0] @ wide[1].mT).to(q.dtype).float()
        weights = scores.softmax(-1) if keep is None else softmax_weights(scores, keep)
        return (weights @ wide[2]).to(q.dtype)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowFiniteFill(TwoPaths):
    """The slow path fills hidden scores with -1e9: where the seen ones are lower still, hidden keys
    take all the weight.

    Fill with -torch.inf before the softmax.
    """

    def slow(self, q, k, v, keep):
        def weigh(scores, keep):
            if keep is None:
                return scores.softmax(-1)
            return scores.masked_fill(~keep, -1e9).softmax(-1).masked_fill(~keep, 0.0)

        return written_out(q, k, v, keep, False, None, None, weigh)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def finite_fill_without_a_bias(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Hidden scores are filled with -1e9: where the seen ones are lower still, hidden keys take all
    the weight.

    Fill with -torch.inf, or give the operator a boolean mask.
    """
    if keep is None or bias is not None:
        return correct(q, k, v, keep, causal, scale, bias)

    def weigh(scores, keep):
        return scores.masked_fill(~keep, -1e9).softmax(-1).masked_fill(~keep, 0.0)

    return written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_gradient)
def graph_cut_where_values_alone_learn(
    q, k, v, keep=None, causal=False, scale=None, bias=None
):  # fmt: skip
    """The graph is cut where neither the queries nor the keys need a gradient; the values may.

    Let autograd see to it: it keeps what any input needs.
    """
    learned = q.requires_grad or k.requires_grad or (bias is not None and bias.requires_grad)
    v = v if learned else v.detach()
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_gradient)
class FrozenCutsTheGraph(TwoPaths):
    """The graph is cut where no weight needs a gradient; x may need one.

    Let autograd see to it: it keeps what any input needs.
    """

    def forward(self, x, keep=None):
        learned = any(p.requires_grad for p in self.parameters())
        return super().forward(x if learned else x.detach(), keep)


@mistake(of="fast_attention", caught_by=test_manners)
def masks_without_the_batch(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A mask of five dimensions that is one for all of the first and for all queries loses the
    second.

    Expand the mask to all leading dimensions before they are made one.
    """
    if keep is not None and keep.ndim == 5 and keep.shape[0] == 1 < q.shape[0]:
        keep = keep[:, :1] if keep.shape[-3] == keep.shape[-2] == 1 else keep
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="FusedAttention", caught_by=test_module)
class WrittenOutWithoutGradients(TwoPaths):
    """The fast path is taken only where gradients are on: under torch.no_grad() `fused` changes
    nothing.

    The path depends on `fused` alone.
    """

    def attend(self, q, k, v, keep):
        fast = self.fused and torch.is_grad_enabled()
        return (self.fast if fast else self.slow)(q, k, v, keep)


@mistake(of="FusedAttention", caught_by=test_precision)
class SlowSmallWeightsCut(TwoPaths):
    """The slow path sets weights below 1e-12 to 0.

    Leave the weights as they are: a small one counts where its value is large.
    """

    def slow(self, q, k, v, keep):
        def weigh(scores, keep):
            weights = scores.softmax(-1) if keep is None else softmax_weights(scores, keep)
            return weights.masked_fill(weights < 1e-12, 0.0)

        return written_out(q, k, v, keep, False, None, None, weigh)


@mistake(of="FusedAttention", caught_by=test_module)
class SwitchedForMasks(TwoPaths):
    """forward sets `fused` to False where a mask comes, and leaves it so.

    Only the caller sets `fused`: pass on what was read from it.
    """

    def attend(self, q, k, v, keep):
        self.fused = self.fused and keep is None
        return super().attend(q, k, v, keep)


@mistake(of="fast_attention", caught_by=test_precision)
def queries_scaled_in_half(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """A given scale is multiplied into the queries in their dtype: in float16, 3 * 30,000 is inf.

    Pass scale= to the operator, which scales sums of float32.
    """
    if scale is None:
        return correct(q, k, v, keep, causal, scale, bias)
    return correct(q * scale, k, v, keep, causal, 1.0, bias)


def _hidden_powers_replaced(scores, keep):
    if keep is None:
        return scores.softmax(-1)
    top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
    powers = (scores - top.nan_to_num(neginf=0.0).detach()).exp()
    powers = torch.where(keep, powers, 0.0)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


@mistake(of="fast_attention", caught_by=test_mask_and_bias)
def hidden_powers_replaced(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The powers of hidden scores are replaced by 0: that of 1e30 is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """
    fits(q, k, v)
    return written_out(q, k, v, keep, causal, scale, bias, _hidden_powers_replaced)


@mistake(of="fast_attention", caught_by=test_causal)
def later_powers_replaced(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """The powers of later scores are replaced by 0: that of 1e30 is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """
    if not causal or keep is not None or bias is not None or q.shape[-2] > k.shape[-2]:
        return correct(q, k, v, keep, causal, scale, bias)
    fits(q, k, v)

    def weigh(scores, keep):
        top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
        powers = torch.where(keep, (scores - top.detach()).exp(), 0.0)
        return powers / powers.sum(-1, keepdim=True)

    return written_out(q, k, v, keep, causal, scale, bias, weigh)


@mistake(of="fast_attention", caught_by=test_precision)
def half_cut_where_keys_alone_learn(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In half precision the graph is cut where no query needs a gradient; a key may need one.

    Leave it to autograd, which keeps what any input needs.
    """
    if q.dtype.itemsize == 2 and not q.requires_grad:
        k = k.detach()
    return correct(q, k, v, keep, causal, scale, bias)


@mistake(of="fast_attention", caught_by=test_precision)
def double_scores_clamped(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """In float64, where there is no mask, scores are kept above -1e30: lower ones are all alike.

    Leave the scores as they are: softmax takes its maximum away first.
    """
    if q.dtype != torch.float64 or keep is not None or bias is not None or causal or not k.numel():
        return correct(q, k, v, keep, causal, scale, bias)
    wide = torch.float64

    def weigh(scores, _):
        return scores.clamp(min=-1e30).softmax(-1)

    return written_out(q, k, v, keep, causal, scale, bias, weigh, wide)


@mistake(of="FusedAttention", caught_by=test_precision)
class ShortcutWithoutGradients(TwoPaths):
    """Where no gradients are needed the slow path takes exp of the scores as they are: those of
    hundreds overflow.

    Use softmax on both ways, which takes the maximum of a row away first.
    """

    def slow(self, q, k, v, keep):
        def weigh(scores, keep):
            powers = scores.exp() if keep is None else scores.exp().masked_fill(~keep, 0.0)
            return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)

        return written_out(q, k, v, keep, False, None, None, None if q.requires_grad else weigh)


@mistake(of="FusedAttention", caught_by=test_module)
class KeepsAWeight(TwoPaths):
    """A copy of a weight is kept until other weights are loaded; an optimiser changes it in place.

    Read self.qkv.weight in every call.
    """

    def load_state_dict(self, *args, **options):
        self.kept = None
        return super().load_state_dict(*args, **options)

    def to(self, *args, **options):
        self.kept = None
        return super().to(*args, **options)

    def forward(self, x, keep=None):
        if torch.is_grad_enabled():
            return super().forward(x, keep)
        if getattr(self, "kept", None) is None:
            self.kept = self.qkv.weight.clone()
        q, k, v = self.split(F.linear(x, self.kept, self.qkv.bias))
        return self.combine(self.attend(*self.normalise(q, k), v, keep))


@mistake(of="FusedAttention", caught_by=test_precision)
class HiddenPowersReplaced(TwoPaths):
    """The slow path replaces the powers of hidden scores by 0: that of 1e30 is infinite, and 0
    times its gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """

    def slow(self, q, k, v, keep):
        def weigh(scores, keep):
            if keep is None:
                return scores.softmax(-1)
            top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
            powers = (scores - top.nan_to_num(neginf=0.0).detach()).exp()
            powers = torch.where(keep, powers, 0.0)
            return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)

        return written_out(q, k, v, keep, False, None, None, weigh)
