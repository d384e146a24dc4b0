"""Wrong answers to `CachedAttention`."""

import torch

from grader.judging import mistake

from ..steps import (
    Layer,
    inverse_root,
    triangle,
)
from ..test_kv_cache import (
    test_empty,
    test_gradient,
    test_layer,
    test_layer_with_cache,
    test_precision,
)
from .shared import everywhere, from_the_first_key, moved


@mistake(of="CachedAttention", caught_by=test_layer)
class NotCausal(Layer):
    """Without a cache nothing is hidden: a token sees those that come after it.

    Mask in every call: query i sees the keys 0 to i + n - t.
    """

    def visible(self, q, k):
        return everywhere(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class WeightsRememberedInEval(Layer):
    """In .eval() the output projection of the first call is kept, and new weights are not noticed.

    Call self.w_o(heads) each time: in evaluation, too, somebody may load others.
    """

    def forward(self, x, cache=None):
        if self.training or x.device.type == "meta":
            return super().forward(x, cache)
        kept = self.__dict__.setdefault("kept", self.w_o.weight.detach().clone())
        now = self.w_o.weight.data
        self.w_o.weight.data = kept.to(now)
        try:
            return super().forward(x, cache)
        finally:
            self.w_o.weight.data = now


@mistake(of="CachedAttention", caught_by=test_layer)
class SplitWithoutTranspose(Layer):
    """The heads are split with one view, which cuts the tokens and not the width.

    First view as (B, t, H, D), then transpose(1, 2).
    """

    def split(self, x):
        batch, t, width = x.shape
        return x.reshape(batch, self.num_heads, t, width // self.num_heads)


@mistake(of="CachedAttention", caught_by=test_layer)
class MergeWithoutTranspose(Layer):
    """The heads are merged with one view, which mixes tokens and heads.

    First transpose(1, 2), then flatten the last two dimensions.
    """

    def merge(self, x):
        batch, heads, t, width = x.shape
        return x.reshape(batch, t, heads * width)


@mistake(of="CachedAttention", caught_by=test_layer)
class NoTranspose(SplitWithoutTranspose, MergeWithoutTranspose):
    """Heads are split and merged by one view each, so that tokens and heads get mixed up.

    A view moves no number. View as (B, t, H, D), then transpose; transpose back to merge.
    """


@mistake(of="CachedAttention", caught_by=test_layer)
class HeadsInterleaved(Layer):
    """A head takes every H-th number of the width instead of a run of D numbers.

    Split the width as (H, D), in this order.
    """

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)

    def merge(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


@mistake(of="CachedAttention", caught_by=test_layer)
class OneHead(Layer):
    """The width is not split: one head does all the work.

    Split queries, keys and values into num_heads heads of D = E / H.
    """

    def split(self, x):
        return x.unsqueeze(1)


@mistake(of="CachedAttention", caught_by=test_layer)
class ScaleOfTheModel(Layer):
    """The scores are divided by sqrt(d_model) instead of the root of a head's width.

    Divide by sqrt(D), with D = d_model / num_heads.
    """

    def scale(self, q, k):
        return (q.shape[-1] * self.num_heads) ** -0.5


@mistake(of="CachedAttention", caught_by=test_layer)
class Unscaled(Layer):
    """The scores are not divided by the root of a head's width.

    Divide by sqrt(D), with D = d_model / num_heads.
    """

    def scale(self, q, k):
        return 1.0


@mistake(of="CachedAttention", caught_by=test_layer)
class DividedByTheWidth(Layer):
    """The scores are divided by the width of a head, and not by its root.

    Divide by sqrt(D), with D = d_model / num_heads.
    """

    def scale(self, q, k):
        return 1 / q.shape[-1]


@mistake(of="CachedAttention", caught_by=test_layer)
class OneKeyTooMany(Layer):
    """Each token sees one key beyond its own position.

    The last key that query i may see is key i + n - t: tril(n - t), not n - t + 1.
    """

    def visible(self, q, k):
        return moved(q, k, 1)


@mistake(of="CachedAttention", caught_by=test_layer)
class ScaleOnePerCentOff(Layer):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt of a head's width itself: no constant added to it, no rounded number.
    """

    def scale(self, q, k):
        return 0.99 * inverse_root(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class KeysFromTheValuesProjection(Layer):
    """One projection is used twice: w_k for keys and values.

    Keys come from w_k, values from w_v.
    """

    def project(self, x):
        q, k, _ = super().project(x)
        return q, k, k


@mistake(of="CachedAttention", caught_by=test_layer)
class OutputProjectionForgotten(Layer):
    """The merged heads are returned without the last projection.

    Return self.w_o(merged).
    """

    def project_out(self, x):
        return x


@mistake(of="CachedAttention", caught_by=test_layer)
class BiasIgnored(Layer):
    """The projections have no bias although one was asked for.

    Hand it on: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads)


@mistake(of="CachedAttention", caught_by=test_empty)
class EmptyBatchNotAppended(Layer):
    """A batch of no texts is given back at once, and the cache does not count its tokens.

    Append whatever comes: a batch of no texts may have tokens.
    """

    def forward(self, x, cache=None):
        return super().forward(x, cache) if x.numel() else x.clone()


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class CacheNotRead(Layer):
    """With a cache, too, the tokens attend to those of this call alone.

    Append them, and go on with what append returns: k, v = cache.append(k, v).
    """

    def remember(self, k, v, cache):
        super().remember(k, v, cache)
        return k, v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class TopLeftWithCache(Layer):
    """With a cache the causal triangle starts at the first key: the newest token sees only that.

    Query i sits at position i + n - t: move the diagonal, tril(n - t).
    """

    def visible(self, q, k):
        return from_the_first_key(q, k)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class NoMaskWithCache(Layer):
    """With a cache nothing is hidden: of several new tokens, the first sees the last.

    A step of one token needs no mask. A chunk does: query i sees the keys 0 to i + n - t.
    """

    def visible(self, q, k):
        return everywhere(q, k) if self.cached else triangle(q, k)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class NoMaskAfterEarlierTokens(Layer):
    """As soon as the cache holds earlier tokens nothing is hidden: of several new tokens, the first
    sees the last.

    A step of one token needs no mask. A chunk does: query i sees the keys 0 to i + n - t.
    """

    def visible(self, q, k):
        return everywhere(q, k) if k.shape != q.shape else triangle(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class OneProjectionForQueriesAndKeys(Layer):
    """One projection is used twice: w_q for queries and keys.

    Queries come from w_q, keys from w_k.
    """

    def project(self, x):
        q, _, v = super().project(x)
        return q, q, v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class AppendedTwice(Layer):
    """append is called twice in one step, once for the keys and once for the values.

    Call it once: k, v = cache.append(k, v).
    """

    def remember(self, k, v, cache):
        if cache is None:
            return k, v
        return cache.append(k, v)[0], cache.append(k, v)[1]


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class RemembersTheLastCache(Layer):
    """The layer keeps the last cache, and uses it when it is called without one.

    The cache belongs to the caller: use the argument of this call, and no attribute.
    """

    def remember(self, k, v, cache):
        self.cache = cache if cache is not None else vars(self).get("cache")
        return super().remember(k, v, self.cache)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class ValuesAppendedAsKeys(Layer):
    """The two results of append are taken in the wrong order, or given in the wrong order.

    Keys first, values second: k, v = cache.append(k, v).
    """

    def remember(self, k, v, cache):
        if cache is None:
            return k, v
        v, k = cache.append(k, v)
        return k, v


@mistake(of="CachedAttention", caught_by=test_gradient)
class KeysDetached(Layer):
    """Keys and values are detached, so that w_k and w_v learn nothing.

    Without a cache the graph stays whole; cut it, if at all, only on the way into the cache.
    """

    def remember(self, k, v, cache):
        return super().remember(k.detach(), v.detach(), cache)


@mistake(of="CachedAttention", caught_by=test_precision)
class HalfPrecisionNotRaised(Layer):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute them in float32 and convert the heads back to the dtype of x before w_o.
    """

    def widen(self, x):
        return x


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class MaskBuiltOnce(Layer):
    """The mask is built in the first call and kept, so that it fits no later one.

    Build it in every call from t and n. It costs next to nothing.
    """

    def visible(self, q, k):
        kept = vars(self).setdefault("keep", triangle(q, k))
        return triangle(q, k, kept.shape[1] - kept.shape[0])


@mistake(of="CachedAttention", caught_by=test_layer)
class InputOverwritten(Layer):
    """x is changed in place.

    Write y = x + ... instead of x += ...: the first makes a new tensor.
    """

    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        x.data.add_(output.detach())
        return output


@mistake(of="CachedAttention", caught_by=test_layer)
class AnyNumberOfHeads(Layer):
    """A width that does not divide into the heads is accepted.

    Raise a ValueError with d_model and num_heads in it if d_model % num_heads.
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, 1, bias)
        self.num_heads = num_heads


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class CacheInEvaluationOnly(Layer):
    """In training the cache is left out, as if it belonged to evaluation.

    The caller says by `cache` whether there is one; .train() and .eval() change nothing.
    """

    def remember(self, k, v, cache):
        return super().remember(k, v, None if self.training else cache)


@mistake(of="CachedAttention", caught_by=test_layer)
class DropoutInTraining(Layer):
    """In training a tenth of the output is dropped.

    There is no dropout here: .train() and .eval() give the same.
    """

    def forward(self, x, cache=None):
        return torch.nn.functional.dropout(super().forward(x, cache), 0.1, self.training)


@mistake(of="CachedAttention", caught_by=test_layer)
class CausalInEvaluationOnly(Layer):
    """In training the causal mask is left out.

    Mask in both: a token never sees those that come after it.
    """

    def visible(self, q, k):
        return everywhere(q, k) if self.training else triangle(q, k)


@mistake(of="CachedAttention", caught_by=test_layer)
class AlwaysWithBias(Layer):
    """The projections have a bias although none was asked for.

    Hand it on: nn.Linear(d_model, d_model, bias=bias).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__(d_model, num_heads, True)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class ValueBiasLostInDecode(Layer):
    """A single new token with a cache gets its value without the bias of w_v.

    Call the projection, w_v(x), for one token as for many.
    """

    def project(self, x):
        q, k, v = super().project(x)
        decode = self.cached and x.shape[1] == 1
        return q, k, self.split(x @ self.w_v.weight.mT) if decode else v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class NoPastForOneText(Layer):
    """With a batch of one and several new tokens, the earlier tokens are left out.

    Go on with what append returns, whatever the batch is.
    """

    def remember(self, k, v, cache):
        keys, values = super().remember(k, v, cache)
        return (k, v) if len(k) == 1 and k.shape[2] > 1 else (keys, values)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class OverflowComputedWithoutCache(Layer):
    """When the cache is full the layer goes on without it, and nobody hears of it.

    Let the cache's ValueError through.
    """

    def remember(self, k, v, cache):
        try:
            return super().remember(k, v, cache)
        except ValueError:
            return k, v


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class Window1024WithCache(Layer):
    """With a cache the new tokens attend to the last 1024 keys only.

    Attend to all that append returns.
    """

    def remember(self, k, v, cache):
        k, v = super().remember(k, v, cache)
        return (k, v) if cache is None else (k[:, :, -1024:], v[:, :, -1024:])


@mistake(of="CachedAttention", caught_by=test_empty)
class MergedByAGuess(Layer):
    """The heads are merged by view(-1, t, E), which an empty batch does not allow.

    Give the sizes, reshape(batch, t, E), or use flatten(2).
    """

    def merge(self, x):
        _, heads, t, width = x.shape
        return x.transpose(1, 2).reshape(-1, t, heads * width)


@mistake(of="CachedAttention", caught_by=test_precision)
class SoftmaxInFloat32(Layer):
    """Only the softmax is computed in float32: the scores of half precision have overflowed by
    then, and float64 loses its digits.

    Convert queries and keys before the product, and raise half precision only.
    """

    def widen(self, x):
        return x

    def weigh(self, hidden, keep):
        return torch.softmax(hidden, -1, dtype=torch.float32).to(hidden.dtype)


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class Zeros(Layer):
    """The output is zeros.

    Nothing is computed yet: project, split, attend, merge, project.
    """

    def forward(self, x, cache=None):
        return torch.zeros_like(x)


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class InputReturned(Layer):
    """x is returned as it came.

    Project it, attend, and project again.
    """

    def forward(self, x, cache=None):
        return x.clone()


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class OwnValues(Layer):
    """Tokens do not attend: each is projected by w_v and w_o alone.

    The values are mixed before w_o, weighted by softmax(q k^T / sqrt(D)).
    """

    def forward(self, x, cache=None):
        return self.w_o(self.w_v(x))


@mistake(of="CachedAttention", caught_by=test_layer, null=True)
class MeanOfTheValues(Layer):
    """The values so far are averaged: the scores play no part.

    Weight the values by softmax(q k^T / sqrt(D)).
    """

    def scale(self, q, k):
        return 0.0
