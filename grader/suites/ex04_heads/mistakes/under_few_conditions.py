"""Wrong answers that show under a few conditions only."""

import math

import numpy as np
import torch
from torch import nn

from grader.judging import mistake
from reference.ex04_heads import (
    PlainMultiHeadAttention,
    plain_merge_heads,
    plain_split_heads,
)

from ..test_heads import (
    test_context,
    test_dtype,
    test_empty,
    test_extremes,
    test_gradients,
    test_half_precision,
    test_manners,
    test_mask,
    test_numpy_mask,
    test_numpy_values,
    test_split_and_merge,
    test_values,
)
from .multi_head_attention import EmptyRowsNaN
from .shared import Layer, also_of_arrays, attention_of_arrays, check_width

# Two options at once.

HALVES = (torch.float16, torch.bfloat16)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskIgnoredWithoutContext(Layer):
    """Without a context the mask is ignored, and x attends to all of itself.

    Use `keep` whether or not there is a context.
    """

    def forward(self, x, context=None, keep=None):
        return super().forward(x, context, None if context is None else keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class ContextIgnoredUnderAMask(Layer):
    """With a mask the context is ignored where it is as long as x, or its length is cut to fit.

    Keys and values come from the context whenever there is one.
    """

    def forward(self, x, context=None, keep=None):
        if context is not None and keep is not None:
            short = x[:, : context.shape[1]]
            context = torch.cat((short, context[:, short.shape[1] :]), 1)
        return super().forward(x, context, keep)


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class HalfNotRaisedUnderAMask(Layer):
    """With a mask, half precision stays half, and float16 has no room for the scores.

    Convert q, k and v to float32 before the first product, whether or not there is a mask.
    """

    def attention(self, q, k, v, keep):
        how = Layer if keep is None else PlainMultiHeadAttention
        return how.attention(self, q, k, v, keep)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class NoMaximumUnderAMask(Layer):
    """With a mask, the exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row there too, after the mask and before exp.
    """

    def weigh(self, scores, keep):
        if keep is None:
            return super().weigh(scores, None)
        powers = torch.where(keep, scores, -torch.inf).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@also_of_arrays(caught_by=test_dtype)
@mistake(of="MultiHeadAttention", caught_by=test_dtype)
class NoMaximumInDouble(Layer):
    """In float64 the exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row in every dtype: float64 has an end as well.
    """

    def weigh(self, scores, keep):
        if scores.dtype != torch.float64:
            return super().weigh(scores, keep)
        powers = scores.exp() if keep is None else scores.masked_fill(~keep, -torch.inf).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class WeightsLeftInFloat32UnderAMask(Layer):
    """With a mask, the weights of half precision come back in float32.

    Convert both results to the dtype of x, whether or not there is a mask.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        wide = torch.promote_types(weights.dtype, torch.float32)
        return output, weights if keep is None else weights.to(wide)


@mistake(of="MultiHeadAttention", caught_by=test_half_precision)
class BiasForgottenInHalfPrecision(Layer):
    """In half precision the last projection is written out as a product, and its bias is forgotten.

    Call the layer: self.w_o(merged).
    """

    def project_out(self, x):
        return x @ self.w_o.weight.mT if x.dtype in HALVES else self.w_o(x)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class WeightsDetachedUnderAMask(Layer):
    """With a mask the weights are cut out of the graph, so that w_q and w_k never learn.

    Mix the values with weights that are not detached; no .data, no NumPy.
    """

    def weigh(self, scores, keep):
        weights = super().weigh(scores, keep)
        return weights if keep is None else weights.detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class InputDetachedWithoutContext(Layer):
    """Without a context, keys and values are made from a copy of x that is cut out of the graph.

    Use x itself, without detach or .data.
    """

    def source(self, x, context):
        return x.detach() if context is None else context


@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class EmptyRowsMendedTooLateInHalfPrecision(Layer):
    """In half precision the NaN of a row that sees nothing is wiped from the weights, but not from
    the gradient.

    Do not let it arise, in any dtype: give such a row harmless scores before the softmax.
    """

    def attention(self, q, k, v, keep):
        if q.dtype not in HALVES or keep is None:
            return super().attention(q, k, v, keep)
        scores = q.float() @ k.float().mT * self.scale(q)
        bias = torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)
        weights = torch.softmax(scores + bias, -1).nan_to_num(0.0)
        return (weights @ v.float()).to(q.dtype), weights.to(q.dtype)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class InputOverwrittenWithoutContext(Layer):
    """x is overwritten, in float32 and when there is neither context nor mask.

    Make a new tensor; x belongs to whoever calls.
    """

    def forward(self, x, context=None, keep=None):
        answer = super().forward(x, context, keep)
        if context is None and keep is None and x.dtype == torch.float32:
            x.data.mul_(0.5)
        return answer


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class LastMaskRemembered(Layer):
    """The last mask is kept, and used again by a call that gives none.

    Keep nothing between calls: without `keep`, nothing is hidden.
    """

    def forward(self, x, context=None, keep=None):
        if keep is None and context is not None:
            shape = len(x), self.num_heads, x.shape[1], context.shape[1]
            last = getattr(self, "last", None)
            keep = last if last is not None and last.shape == shape else None
        elif keep is not None:
            self.last = keep
        return super().forward(x, context, keep)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def half_precision_widened_in_split(x, num_heads):
    """Half precision comes back in float32.

    Nothing is computed here, so there is nothing to convert.
    """
    check_width(x.shape[-1], num_heads)
    return plain_split_heads(x.to(torch.promote_types(x.dtype, torch.float32)), num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def split_in_float32(x, num_heads):
    """The heads come back in float32, whatever the dtype of x.

    Nothing is computed here, so there is nothing to convert.
    """
    check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads).float()


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def half_precision_widened_in_merge(x):
    """Half precision comes back in float32.

    Nothing is computed here, so there is nothing to convert.
    """
    return plain_merge_heads(x.to(torch.promote_types(x.dtype, torch.float32)))


@mistake(of="multi_head_attention_numpy", caught_by=test_extremes)
def empty_rows_nan_in_half_precision_numpy(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None
):
    """In half precision a row that may see nothing becomes NaN.

    Treat such rows alike in every dtype: divide by 1 where the sum is 0.
    """
    layer = EmptyRowsNaN if query.dtype == np.float16 else Layer
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep, layer)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def input_overwritten_in_single_precision_numpy(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None
):
    """`query` is overwritten, in float32 and without a mask only.

    Write x = x * scale, which makes a new array, instead of x *= scale.
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    if keep is None and query.dtype == np.float32:
        query *= 1 / math.sqrt(3)
    return answer


# Kinds of input in which wrong answers hide.


@mistake(of="split_heads", caught_by=test_split_and_merge)
def batch_of_one_squeezed_in_split(x, num_heads):
    """A batch of one is squeezed away.

    Keep all four dimensions: (B, H, L, D), with B = 1 as well.
    """
    check_width(x.shape[-1], num_heads)
    heads = plain_split_heads(x, num_heads)
    return heads.squeeze(0) if len(x) == 1 else heads


@mistake(of="split_heads", caught_by=test_split_and_merge)
def head_numbers_in_one_byte(x, num_heads):
    """The heads are counted in int8, which ends at 127.

    Leave the dtype of an index to PyTorch, or use no index at all: reshape and swap.
    """
    check_width(x.shape[-1], num_heads)
    index = torch.arange(num_heads).to(torch.int8).long()
    return plain_split_heads(x, num_heads)[:, index % num_heads]


@mistake(of="split_heads", caught_by=test_split_and_merge)
def too_many_heads_accepted(x, num_heads):
    """More heads than there are numbers in a token are accepted: heads of width 0.

    Ask whether E % num_heads is 0, whichever of the two is larger.
    """
    if num_heads < x.shape[-1] and x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return plain_split_heads(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)


@mistake(of="split_heads", caught_by=test_manners)
def heads_picked_on_the_cpu(x, num_heads):
    """A new tensor is made on the CPU, wherever x is.

    Give device=x.device to every tensor that is made.
    """
    check_width(x.shape[-1], num_heads)
    batch, length, width = x.shape
    heads = x.reshape(batch, length, num_heads, width // num_heads).swapaxes(1, 2)
    return heads + torch.zeros(batch, 1, 1, 1).to(x.dtype) if torch.is_tensor(x) else heads


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def one_head_squeezed(x):
    """`squeeze` drops every axis of size 1, the length or the batch among them.

    Name the axis, or join two axes with reshape or flatten.
    """
    if x.shape[1] > 1:
        return plain_merge_heads(x)
    return x.squeeze()


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def causal_where_square_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """Without a mask, later keys are hidden where there are as many queries as keys.

    `keep` alone says what is hidden. Without it every key is seen.
    """
    queries, keys = query.shape[1], key.shape[1]
    if keep is None and queries == keys:
        keep = np.tri(queries, dtype=bool)
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_values)
def first_1024_keys_only_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """A buffer has room for 1024 keys, and the others are not read.

    Take the length from key.shape[1].
    """
    answer = attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    if key.shape[1] <= 1024:
        return answer
    hidden = np.arange(key.shape[1]) < 1024
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, hidden)


@mistake(of="multi_head_attention_numpy", caught_by=test_numpy_mask)
def mask_turned_where_square_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The mask is transposed where it is square, as if its rows were keys.

    Rows of `keep` are queries, and its last axis is keys: use it as it is.
    """
    if keep is not None and keep.ndim > 1 and keep.shape[-1] == keep.shape[-2]:
        keep = np.swapaxes(keep, -1, -2)
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def same_array_taken_for_causal(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """Later keys are hidden where query and key are one array, as if a model read its own text.

    Whatever arrays are given, `keep` alone says what is hidden.
    """
    if keep is None and query is key:
        keep = np.tri(query.shape[1], key.shape[1], dtype=bool)
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


ANSWERS = {}


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def answer_remembered_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """The answer is kept, and given again to the same arrays although their numbers have changed.

    Compute it anew in every call.
    """
    given = query, key, value, w_q, w_k, w_v, w_o, keep
    found = tuple(map(id, given))
    if found not in ANSWERS:
        ANSWERS[found] = (
            given,
            attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep),
        )  # so that no id is used again
    return tuple(x.copy() for x in ANSWERS[found][-1])


REFUSED = []


@mistake(of="multi_head_attention_numpy", caught_by=test_manners)
def locked_after_an_error_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    """A call that raised leaves something behind, and the next one refuses to run.

    Check the sizes before anything is changed.
    """
    if query.shape[-1] % num_heads:
        REFUSED.append(num_heads)
    elif REFUSED:
        REFUSED.clear()
        raise RuntimeError("still busy")
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class CausalByItself(Layer):
    """x sees no later token when it attends to itself, although no mask says so.

    `keep` alone says what is hidden. Without it every token is seen.
    """

    def forward(self, x, context=None, keep=None):
        if context is None and keep is None:
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class CausalInEval(Layer):
    """In .eval() later tokens are hidden, as if every evaluation wrote a text.

    In .train() and in .eval(), `keep` alone says what is hidden.
    """

    def forward(self, x, context=None, keep=None):
        if not self.training and keep is None and context is None:
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class DropoutInTraining(Layer):
    """Weights are dropped at random in .train(), as many published layers do.

    Leave dropout out: nobody has asked for it, and the answer is the same in both modes.
    """

    def weigh(self, scores, keep):
        return nn.functional.dropout(super().weigh(scores, keep), 0.1, self.training)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class BatchOfOneSqueezed(Layer):
    """A batch of one is squeezed out of the output.

    Name the axis that is to go; `squeeze` drops every axis of size 1.
    """

    def project_out(self, x):
        output = super().project_out(x)
        return output.squeeze(0) if len(x) == 1 else output


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class QueriesAndKeysExchanged(Layer):
    """Queries are made with w_k, and keys with w_q.

    Queries are made with w_q and keys with w_k. If the matrices are joined for one product, cut it
    in the order in which they were joined.
    """

    def project(self, query, key, value):
        return self.w_k(query), self.w_q(key), self.w_v(value)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class QueriesAndKeysExchangedWithoutContext(Layer):
    """Where x attends to itself, queries are made with w_k and keys with w_q.

    Join the matrices in the order q, k, v, and cut the product in the same order.
    """

    def project(self, query, key, value):
        q, k = (self.w_k, self.w_q) if query is key else (self.w_q, self.w_k)
        return q(query), k(key), self.w_v(value)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="MultiHeadAttention", caught_by=test_values)
class KeysAndValuesExchanged(Layer):
    """Keys are made with w_v, and values with w_k.

    Keys are made with w_k and values with w_v. If the matrices are joined for one product, cut it
    in the order in which they were joined.
    """

    def project(self, query, key, value):
        return self.w_q(query), self.w_v(key), self.w_k(value)


@mistake(of="MultiHeadAttention", caught_by=test_values)
class OneMatrixForThree(Layer):
    """Queries, keys and values come from one fused layer, and w_q, w_k and w_v do not exist.

    That is how many models store them. Here make four layers with these names; their matrices may
    be joined for the product.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias)
        del self.w_q, self.w_k, self.w_v
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)

    def project(self, query, key, value):
        weights = self.qkv.weight.chunk(3)
        return tuple(x @ w.mT for x, w in zip((query, key, value), weights, strict=True))


@mistake(of="MultiHeadAttention", caught_by=test_context)
class BiasForgottenForTheContext(Layer):
    """With a context, keys and values are written out as products, and their bias is forgotten.

    Call the layers: self.w_k(context) and self.w_v(context).
    """

    def project(self, query, key, value):
        if query is key:
            return super().project(query, key, value)
        return self.w_q(query), key @ self.w_k.weight.mT, value @ self.w_v.weight.mT


@mistake(of="MultiHeadAttention", caught_by=test_context)
class First1024TokensOnly(Layer):
    """A buffer has room for 1024 tokens, and the rest of the context is not read.

    Take the length from context.shape[1].
    """

    def weigh(self, scores, keep):
        if scores.shape[-1] > 1024:
            scores = scores.index_fill(-1, torch.arange(1024, scores.shape[-1]), -torch.inf)
        return super().weigh(scores, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskTurnedWhereSquare(Layer):
    """The mask is transposed where it is square, as if its rows were keys.

    Rows of `keep` are queries, and its last axis is keys: use it as it is.
    """

    def weigh(self, scores, keep):
        if keep is not None and keep.ndim > 1 and keep.shape[-1] == keep.shape[-2]:
            keep = keep.mT
        return super().weigh(scores, keep)


@mistake(of="MultiHeadAttention", caught_by=test_mask)
class MaskOf128Keys(Layer):
    """The mask has an effect on the first 128 keys only.

    Let it broadcast to all Lk keys.
    """

    def weigh(self, scores, keep):
        if keep is not None and keep.shape[-1] > 128:
            keep = keep | (torch.arange(keep.shape[-1], device=keep.device) >= 128)
        return super().weigh(scores, keep)


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class ReturnedWeightsDetached(Layer):
    """The weights that are returned are cut out of the graph, and nothing learns through them.

    Return them as they are, without detach.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        return output, weights.detach()


@mistake(of="MultiHeadAttention", caught_by=test_gradients)
class SameTensorDetached(Layer):
    """Where the context is x itself, it is cut out of the graph.

    Use the context as it comes, without detach.
    """

    def forward(self, x, context=None, keep=None):
        return super().forward(x, x.detach() if context is x else context, keep)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class MaximumBeginsWithZero(Layer):
    """The maximum of a row begins with 0, so that the powers of very low scores all become 0.

    Begin with -inf, or take the maximum of the row itself.
    """

    def weigh(self, scores, keep):
        seen = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
        top = torch.where(seen, scores, 0.0).amax(-1, keepdim=True).clamp(min=0.0).detach()
        powers = torch.where(seen, scores - top, -torch.inf).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class OneMaximumForAll(Layer):
    """One maximum of all scores is subtracted from every row, and rows far below it vanish.

    Each row has its own: scores.amax(-1, keepdim=True).
    """

    def weigh(self, scores, keep):
        filled = scores if keep is None else torch.where(keep, scores, -torch.inf)
        most = filled.detach().max() if filled.numel() else 0.0
        powers = (filled - most).exp() if most != -torch.inf else torch.zeros_like(filled)
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@also_of_arrays(caught_by=test_extremes)
@mistake(of="MultiHeadAttention", caught_by=test_extremes)
class NoMaximumSubtracted(Layer):
    """The exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row before exp: it changes nothing on paper.
    """

    def weigh(self, scores, keep):
        powers = (scores if keep is None else torch.where(keep, scores, -torch.inf)).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class SameTensorTakenForCausal(Layer):
    """Later tokens are hidden where the context is x itself, as if a model read its own text.

    Whatever tensors are given, `keep` alone says what is hidden.
    """

    def forward(self, x, context=None, keep=None):
        if context is x and keep is None:
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().forward(x, context, keep)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class WeightsRemembered(Layer):
    """Matrices that were joined in the first call are kept, and new weights are not noticed.

    Read the weights in every call: self.w_q(x), or torch.cat of the three each time.
    """

    def project(self, query, key, value):
        layers = (self.w_q, self.w_k, self.w_v)
        if torch.is_grad_enabled() and any(layer.weight.requires_grad for layer in layers):
            return super().project(query, key, value)
        if not hasattr(self, "joined"):
            self.joined = [layer.weight.detach().clone() for layer in layers]
        tokens = (query, key, value)
        return tuple(
            nn.functional.linear(x, w.to(x.device), layer.bias)
            for x, w, layer in zip(tokens, self.joined, layers, strict=True)
        )


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class ContextRemembered(Layer):
    """The keys of a context are kept, and used again although its numbers have changed.

    Compute keys and values anew in every call.
    """

    def source(self, x, context):
        if context is None or context.requires_grad:
            return super().source(x, context)
        last = getattr(self, "last", None)
        if last is None or last[0] is not context:
            self.last = last = context, context.clone()
        return last[1]


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class OneBufferForAllAnswers(Layer):
    """Answers of the same shape are written into the same memory, over earlier ones.

    Return a new tensor in every call.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        if output.requires_grad or output.device.type == "meta":
            return output, weights
        buffers = self.__dict__.setdefault("buffers", {})
        buffer = buffers.setdefault((output.shape, output.dtype), torch.empty_like(output))
        return buffer.copy_(output), weights


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class WeightsRememberedInEval(WeightsRemembered):
    """Matrices that were joined in .eval() are kept, and new weights are not noticed.

    Read the weights in every call: in evaluation, too, somebody may load others.
    """

    def project(self, query, key, value):
        if self.training:
            return Layer.project(self, query, key, value)
        return super().project(query, key, value)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class OneBufferForTheWeights(Layer):
    """In .eval() the weights that are returned lie in one place, and later calls change them.

    Return a new tensor in every call.
    """

    def attend(self, query, key, value, keep=None):
        output, weights = super().attend(query, key, value, keep)
        if self.training or weights.requires_grad or weights.device.type == "meta":
            return output, weights
        buffers = self.__dict__.setdefault("buffers", {})
        buffer = buffers.setdefault((weights.shape, weights.dtype), torch.empty_like(weights))
        return output, buffer.copy_(weights)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class SizesOfTheClass(Layer):
    """The number of heads is stored in the class, so that a new layer changes those made before.

    Write self.num_heads = num_heads: an attribute of the object.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, bias)
        del self.num_heads
        type(self).num_heads = num_heads


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class MaskMadeOnTheCPU(Layer):
    """Without a mask one is made that hides nothing, on the CPU wherever x is.

    Give device=x.device to every tensor that is made.
    """

    def weigh(self, scores, keep):
        if keep is None:
            keep = torch.ones(scores.shape[-1], dtype=torch.bool)
        hidden = torch.zeros(keep.shape).masked_fill(~keep.cpu(), -torch.inf)
        if scores.device.type == "meta":
            return super().weigh(hidden.expand(scores.shape).to(scores.dtype), None)
        return super().weigh(scores, keep)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class WeightsJoinedOnceForSelfAttention(Layer):
    """In .eval() without gradients, self-attention keeps the joined matrices of its first call.

    Join them in every call: weights may change in place, and nothing tells you.
    """

    def project(self, query, key, value):
        if query is not key or self.training or torch.is_grad_enabled():
            self.__dict__.pop("joined", None)
            return super().project(query, key, value)
        each = self.w_q, self.w_k, self.w_v
        joined = self.__dict__.setdefault("joined", torch.cat([w.weight for w in each]))
        pairs = zip((query @ joined.mT).chunk(3, -1), each, strict=True)
        return tuple(x if w.bias is None else x + w.bias for x, w in pairs)


@mistake(of="MultiHeadAttention", caught_by=test_manners)
class NoMaximumInEval(NoMaximumSubtracted):
    """In .eval() the exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row in both modes.
    """

    def weigh(self, scores, keep):
        return Layer.weigh(self, scores, keep) if self.training else super().weigh(scores, keep)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def heads_picked_by_a_product(x, num_heads):
    """The heads are picked by a product with ones and zeros, and 0 times infinity is NaN.

    Move the numbers, with reshape and swapaxes, and do not compute with them.
    """
    check_width(x.shape[-1], num_heads)
    if not torch.is_tensor(x) or not x.is_floating_point():
        return plain_split_heads(x, num_heads)
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return plain_split_heads(x @ eye, num_heads)


@mistake(of="multi_head_attention_numpy", caught_by=test_empty)
def width_checked_by_reshape_numpy(
    query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None
):  # fmt: skip
    """That the heads do not divide the width is seen when reshape fails, which does not happen for
    a batch of 0.

    Compare the sizes: raise a ValueError if E % num_heads.
    """
    width = query.shape[-1] // num_heads * num_heads
    if not query.size and width < query.shape[-1]:
        shape = query.shape[0], num_heads, query.shape[1], key.shape[1]
        return np.empty(query.shape, query.dtype), np.empty(shape, query.dtype)
    return attention_of_arrays(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
