"""Wrong answers that show under a few conditions only."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..steps import (
    Cache,
    Layer,
    attended,
    filled,
    inverse_root,
    joined,
    raised,
    softmax,
    triangle,
    unchanged,
)
from ..test_kv_cache import (
    test_cache_own,
    test_cache_refuses,
    test_chunks,
    test_empty,
    test_gradient,
    test_hidden,
    test_layer,
    test_layer_with_cache,
    test_precision,
)
from .shared import added, from_the_first_key, without_maximum


def cut_to_float32(scores, keep):
    """Scores within the range of float32, those of later tokens hidden."""
    most = torch.finfo(torch.float32).max
    return scores.clamp(-most, most).masked_fill(~keep, -torch.inf)


def _half(x):
    return x.dtype in (torch.float16, torch.bfloat16)


@mistake(of="attend_with_past", caught_by=test_hidden)
def finite_number_with_a_past(q, k, v, past=None):
    """With a past, later tokens are hidden with -1e9 added, which a large key outweighs.

    Put -inf in the place of hidden scores, with and without a past.
    """
    return attended(q, k, v, past, hide=filled(-torch.inf) if past is None else added(-1e9))


@mistake(of="attend_with_past", caught_by=test_hidden)
def minus_10_000_with_a_past(q, k, v, past=None):
    """With a past, the scores of later tokens become -10,000, as low as true ones may be.

    Put -inf in the place of hidden scores, with and without a past.
    """
    return attended(q, k, v, past, hide=filled(-torch.inf if past is None else -1e4))


@mistake(of="attend_with_past", caught_by=test_precision)
def half_precision_not_raised_with_a_past(q, k, v, past=None):
    """With a past, the scores are computed in half precision.

    Compute in float32 with and without a past, and convert the output back at the end.
    """
    return attended(q, k, v, past, widen=raised if past is None else unchanged)


@mistake(of="attend_with_past", caught_by=test_precision)
def half_precision_not_raised_in_decode(q, k, v, past=None):
    """The way for a single new token is computed in half precision.

    One token overflows as well as many: q.float() there, too.
    """
    return attended(q, k, v, past, widen=raised if q.shape[-2] > 1 else unchanged)


@mistake(of="attend_with_past", caught_by=test_precision)
def top_left_in_half_precision(q, k, v, past=None):
    """In half precision the causal triangle starts at the first key.

    Query i sits at position i + n - t in every dtype.
    """
    corner = from_the_first_key if _half(q) and q.shape[-2] > 1 else triangle
    return attended(q, k, v, past, visible=corner)


@mistake(of="attend_with_past", caught_by=test_precision)
def graph_cut_in_half_precision(q, k, v, past=None):
    """In half precision the gradient is cut: x.detach().float(), or a new tensor from the numbers.

    x.float() converts and keeps the graph.
    """
    output, known = attended(q, k, v, past)
    return output.detach() if _half(q) else output, known


@mistake(of="attend_with_past", caught_by=test_gradient)
def graph_cut_in_decode(q, k, v, past=None):
    """A single new token gets no gradient: its way is taken under torch.no_grad().

    Whether gradients are wanted is the caller's choice.
    """
    output, known = attended(q, k, v, past)
    return output.detach() if q.shape[-2] == 1 else output, known


@mistake(of="attend_with_past", caught_by=test_gradient)
def past_returned_detached(q, k, v, past=None):
    """The past that is returned is detached, so that later tokens teach the earlier ones nothing.

    Return the joined keys and values as they are.
    """
    return attended(q, k, v, past, store=lambda known, new: tuple(x.detach() for x in known))


@mistake(of="attend_with_past", caught_by=test_chunks)
def queries_overwritten_without_a_past(q, k, v, past=None):
    """Without a past, the caller's queries are scaled in place.

    Write q = q / math.sqrt(D): it makes a new tensor.
    """
    answer = attended(q.clone(), k, v, past)
    if past is None:
        q.data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_precision)
def queries_overwritten_in_half_precision(q, k, v, past=None):
    """In half precision the caller's queries are scaled in place.

    Write q = q / math.sqrt(D): it makes a new tensor.
    """
    answer = attended(q.clone(), k, v, past)
    if _half(q):
        q.data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_chunks)
def past_overwritten_in_decode(q, k, v, past=None):
    """With a single new token, the caller's past is changed in place.

    A past may be shared by several continuations of one text: make new tensors with torch.cat.
    """
    answer = attended(q, k, v, past)
    if past is not None and q.shape[-2] == 1:
        past[0].data.mul_(q.shape[-1] ** -0.5)
    return answer


@mistake(of="attend_with_past", caught_by=test_chunks)
def view_of_strided_memory_in_decode(q, k, v, past=None):
    """With a single new token the past is reshaped by view, which fails if it is strided in memory.

    Use reshape or flatten, which copy where they must; or leave the dimensions: @ takes any.
    """
    if past is not None and q.shape[-2] == 1:
        past = tuple(x.view(-1, *x.shape[-2:]).view(x.shape) for x in past)
    return attended(q, k, v, past)


@mistake(of="KVCache", caught_by=test_cache_own)
class ResetKeepsTheRoomUsed(Cache):
    """reset sets `length` back, but not the count that the room is judged by.

    Keep one number: self.length.
    """

    used = 0

    def check(self, k, v):
        super().check(k, v)
        if self.used + k.shape[2] > self.keys.shape[2]:
            raise ValueError(f"{self.used} + {k.shape[2]} tokens, {self.keys.shape[2]} places")
        self.used += k.shape[2]


@mistake(of="KVCache", caught_by=test_cache_refuses)
class KeysNotChecked(Cache):
    """Only the shape of the values is compared, so a batch of keys of 1 is broadcast.

    Compare k.shape as well.
    """

    def check_shapes(self, k, v):
        super().check_shapes(v, v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class HeadsOfTheValuesBroadcast(Cache):
    """Values of one head are copied into every head of the cache.

    Compare all of v.shape with the shape of the cache, its heads too.
    """

    def check_shapes(self, k, v):
        super().check_shapes(k, v.expand(-1, k.shape[1], -1, -1) if v.shape[1] == 1 else v)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class WidthOfTheValuesBroadcast(Cache):
    """Values of width 1 are copied into the whole width of the cache.

    Compare all of v.shape with the shape of the cache, its width too.
    """

    def check_shapes(self, k, v):
        super().check_shapes(k, v.expand(-1, -1, -1, k.shape[3]) if v.shape[3] == 1 else v)


@mistake(of="CachedAttention", caught_by=test_precision)
class NoMaximumWithCache(Layer):
    """With a cache, exp of the scores is divided by its sum without the maximum taken off.

    Use torch.softmax, with a cache and without: it subtracts the maximum.
    """

    def weigh(self, hidden, keep):
        return without_maximum(hidden, keep) if self.cached else super().weigh(hidden, keep)


@mistake(of="CachedAttention", caught_by=test_precision)
class NoMaximum(Layer):
    """exp of the scores is divided by its sum without the maximum taken off.

    Use torch.softmax: it subtracts the maximum.
    """

    def weigh(self, hidden, keep):
        return without_maximum(hidden, keep)


@mistake(of="CachedAttention", caught_by=test_hidden)
class HiddenWithMinus10000(Layer):
    """With a cache, the scores of later tokens become -10,000, as low as true ones may be.

    Put -inf in their place: masked_fill(~keep, -torch.inf).
    """

    def hide(self, scores, keep):
        return scores.masked_fill(~keep, -1e4 if self.cached else -torch.inf)


@mistake(of="CachedAttention", caught_by=test_precision)
class HalfPrecisionNotRaisedWithCache(Layer):
    """With a cache, the scores are computed in half precision.

    Compute them in float32, with a cache and without.
    """

    def widen(self, x):
        return x if self.cached else super().widen(x)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class InputOverwrittenWithCache(Layer):
    """With a cache, x is changed in place.

    Write y = x + ... instead of x += ...: the first makes a new tensor.
    """

    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        if cache is not None:
            x.data.add_(output.detach())
        return output


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class BiasNeededByTheCache(Layer):
    """With a cache the biases are added by hand, and fail where there are none.

    Call the projections, w_k(x): they know whether they have a bias.
    """

    def project(self, x):
        return super().project(x + 0 * self.w_k.bias if self.cached else x)


@mistake(of="CachedAttention", caught_by=test_gradient)
class GraphCutInFloat32(Layer):
    """No gradient reaches the projections for any dtype but float64.

    Leave .detach() and torch.no_grad() out, for every dtype.
    """

    def remember(self, k, v, cache):
        if k.dtype != torch.float64:
            k, v = k.detach(), v.detach()
        return super().remember(k, v, cache)


@mistake(of="CachedAttention", caught_by=test_precision)
class GraphCutInHalfPrecision(Layer):
    """No gradient reaches w_k and w_v in half precision: x.detach().float().

    x.float() converts and keeps the graph.
    """

    def remember(self, k, v, cache):
        if _half(k):
            k, v = k.detach(), v.detach()
        return super().remember(k, v, cache)


@mistake(of="CachedAttention", caught_by=test_gradient)
class GraphCutForOneToken(Layer):
    """A text of one token gets no gradient: its way is taken under torch.no_grad().

    Whether gradients are wanted is the caller's choice.
    """

    def remember(self, k, v, cache):
        if k.shape[2] == 1:
            k, v = k.detach(), v.detach()
        return super().remember(k, v, cache)


@mistake(of="CachedAttention", caught_by=test_precision)
class InputOverwrittenInHalfPrecision(Layer):
    """In half precision x is changed in place.

    Write y = x + ... instead of x += ...: the first makes a new tensor.
    """

    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        if _half(x):
            x.data.add_(output.detach())
        return output


@mistake(of="CachedAttention", caught_by=test_gradient)
class GradientsInTrainingOnly(Layer):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)


def _in_one_piece(x):
    """The tensor, copied with .data if it does not lie in memory in one piece."""
    return x if x.is_contiguous() else x.data.contiguous()


@mistake(of="attend_with_past", caught_by=test_chunks)
def strided_past_copied_without_graph(q, k, v, past=None):
    """A past that does not lie in memory in one piece is first copied with .data, so that it gets
    no gradient.

    torch.cat takes it as it is. Where a copy is needed, make it with .contiguous().
    """
    return attended(q, k, v, past and tuple(map(_in_one_piece, past)))


@mistake(of="KVCache", caught_by=test_cache_own)
class DtypeOfTheTokensAfterAReset(Cache):
    """After a reset the memory takes the dtype of the tokens that come next.

    The memory is taken once, in the dtype given to __init__; copy tokens into it, which converts.
    """

    emptied = False

    def reset(self):
        super().reset()
        self.emptied = True

    def append(self, k, v):
        if self.emptied:
            self.keys, self.values = self.keys.to(k.dtype), self.values.to(v.dtype)
        return super().append(k, v)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class HeadsInTheDtypeOfTheCache(Layer):
    """The heads come back in the dtype of the cache, which w_o does not take if x has another.

    Convert the result of attention to the dtype of x before the last projection.
    """

    def forward(self, x, cache=None):
        q, k, v = self.project(x)
        keys, values = self.remember(k, v, cache)
        heads = self.merge(self.attend(q, keys, values))
        return self.project_out(heads if cache is None else heads.to(cache.keys.dtype))


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class StridedInputCopiedWithoutGraph(Layer):
    """An x that does not lie in memory in one piece is first copied with .data, so that it gets no
    gradient.

    nn.Linear takes it as it is. Where a copy is needed, make it with .contiguous().
    """

    def project(self, x):
        return super().project(_in_one_piece(x))


@mistake(of="attend_with_past", caught_by=test_precision)
def bfloat16_not_raised(q, k, v, past=None):
    """float16 is computed in float32, but bfloat16 is not, which tells scores of 512 and 513
    apart no longer.

    Raise both: torch.promote_types(q.dtype, torch.float32).
    """

    def widen(x):
        return x.float() if x.dtype == torch.float16 else x

    return attended(q, k, v, past, widen=widen)


@mistake(of="attend_with_past", caught_by=test_precision)
def queries_scaled_in_half_precision(q, k, v, past=None):
    """The queries are divided by sqrt(D) before they become float32, so that they are rounded.

    First q.float(), then the scale.
    """
    return attended(q * inverse_root(q, k), k, v, past, scale=lambda q, k: 1.0)


@mistake(of="attend_with_past", caught_by=test_hidden)
def filled_with_minus_1e30(q, k, v, past=None):
    """The scores of later tokens become -1e30, which hides nothing where all scores are lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, past, hide=filled(-1e30))


@mistake(of="attend_with_past", caught_by=test_precision)
def filled_with_the_lowest_of_float16(q, k, v, past=None):
    """For half precision the scores of later tokens become -65,504, the lowest number of float16;
    but the scores are float32, and may be lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, past, hide=filled(-65504.0 if _half(q) else -torch.inf))


@mistake(of="attend_with_past", caught_by=test_gradient)
def no_graph_unless_queries_learn(q, k, v, past=None):
    """No gradient reaches k, v and the past unless q requires one.

    Each input may be the only one that learns. Leave the graph to PyTorch.
    """
    with torch.set_grad_enabled(q.requires_grad):
        return attended(q, k, v, past)


@mistake(of="attend_with_past", caught_by=test_empty)
def no_past_of_no_tokens(q, k, v, past=None):
    """Where there are no new tokens, the past comes back as it was: None, if there was none.

    Return a pair in every case: without a past and with t = 0 it is (k, v), of no tokens.
    """
    output, known = attended(q, k, v, past)
    return output, known if q.shape[-2] else past


@mistake(of="KVCache", caught_by=test_cache_refuses)
class KeysWrittenBeforeTheValuesAreChecked(Cache):
    """The keys are written before the values are compared with the cache: if these do not fit, the
    cache is not as it was.

    Compare k, v and the room first, and write only then.
    """

    def check(self, k, v):
        try:
            super().check(k, v)
        except ValueError:
            room = self.keys[:, :, self.length : self.length + k.shape[2]]
            if k.shape == room.shape:
                room.copy_(k)
            raise


@mistake(of="CachedAttention", caught_by=test_precision)
class Bfloat16NotRaised(Layer):
    """The scores are computed in bfloat16, which tells 512 and 513 apart no longer.

    Compute them in float32, as for float16.
    """

    def widen(self, x):
        return x.float() if x.dtype == torch.float16 else x


@mistake(of="CachedAttention", caught_by=test_hidden)
class HiddenWithMinus1e30(Layer):
    """The scores of later tokens become -1e30, which hides nothing where all scores are lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """

    def hide(self, scores, keep):
        return scores.masked_fill(~keep, -1e30)


@mistake(of="CachedAttention", caught_by=test_precision)
class QueriesInTheDtypeOfTheCache(Layer):
    """The queries are converted to the dtype of the cache, and lose digits if it is a lower one.

    Convert what comes from the cache to the dtype of x, not the other way round.
    """

    def forward(self, x, cache=None):
        q, k, v = self.project(x)
        keys, values = self.remember(k, v, cache)
        if cache is not None:
            q = q.to(cache.keys.dtype).to(x.dtype)
        return self.project_out(self.merge(self.attend(q, keys, values)))


@mistake(of="CachedAttention", caught_by=test_gradient)
class NoGraphUnlessInputLearns(Layer):
    """The weights have no gradient unless x requires one.

    In training x seldom does. Leave the graph to PyTorch.
    """

    def forward(self, x, cache=None):
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            return super().forward(x, cache)


@mistake(of="attend_with_past", caught_by=test_precision)
def raised_where_gradients_are_on(q, k, v, past=None):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """
    return attended(q, k, v, past, widen=raised if torch.is_grad_enabled() else unchanged)


@mistake(of="CachedAttention", caught_by=test_precision)
class RaisedWhereGradientsAreOn(Layer):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """

    def widen(self, x):
        return super().widen(x) if torch.is_grad_enabled() else x


@mistake(of="attend_with_past", caught_by=test_precision)
def double_scores_cut_to_float32(q, k, v, past=None):
    """Scores are clamped to what float32 can hold, in float64 too, where larger ones become equal.

    Leave scores as they are: the softmax subtracts the largest.
    """
    return attended(q, k, v, past, hide=cut_to_float32)


@mistake(of="CachedAttention", caught_by=test_precision)
class DoubleScoresCutToFloat32(Layer):
    """Scores are clamped to what float32 can hold, in float64 too, where larger ones become equal.

    Leave scores as they are: the softmax subtracts the largest.
    """

    def hide(self, scores, keep):
        return cut_to_float32(scores, keep)


@mistake(of="KVCache", caught_by=test_cache_own)
class OldAnswerForNoTokens(Cache):
    """An append of no tokens returns the copies that an earlier append made.

    Return what lies in the memory now: self.keys[:, :, : self.length].
    """

    copies = None

    def append(self, k, v):
        so_far = super().append(k, v)
        if self.copies is None or k.shape[2]:
            self.copies = tuple(x.clone() for x in so_far)
        return self.copies

    def reset(self):
        super().reset()
        self.copies = None


@mistake(of="attend_with_past", caught_by=test_chunks)
def one_place_in_half_precision(q, k, v, past=None, places={}):  # noqa: B006 (that is the mistake)
    """In half precision all outputs of a form are written over the one before.

    Return a new tensor in every call, whatever the dtype.
    """
    output, known = attended(q, k, v, past)
    return output if q.dtype.itemsize > 2 else written_over(places, output), known


@mistake(of="attend_with_past", caught_by=test_precision)
def past_cut_off_in_half_precision(q, k, v, past=None):
    """In half precision the past is cut off from its gradient where q needs none.

    Leave detach() out: the past alone may learn.
    """
    alone = past is not None and q.dtype.itemsize == 2 and not q.requires_grad
    return attended(q, k, v, tuple(x.detach() for x in past) if alone else past)


@mistake(of="attend_with_past", caught_by=test_precision)
def distance_capped_at_50(q, k, v, past=None):
    """No distance from the largest score counts for more than 50.

    A small weight counts where its value is large. exp needs no limit below.
    """

    def weigh(hidden, keep):
        if not hidden.numel():
            return softmax(hidden, keep)
        distances = hidden - hidden.detach().amax(-1, keepdim=True)
        powers = distances.clamp(min=-50.0).exp() * keep
        return powers / powers.sum(-1, keepdim=True)

    return attended(q, k, v, past, weigh=weigh)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class OnePlaceWithACache(Layer):
    """With a cache all outputs of a form are written over the one before.

    Return a new tensor in every call, with a cache and without.
    """

    def project_out(self, x):
        output = super().project_out(x)
        return (
            written_over(self.__dict__.setdefault("places", {}), output) if self.cached else output
        )


@mistake(of="CachedAttention", caught_by=test_layer)
class KeysOfTheFirstCall(Layer):
    """The weights of w_k are copied once, and again if their first number changes.

    Read the weights in every call: anyone may change one number of them.
    """

    seen = None

    def forward(self, x, cache=None):
        if self.w_k.weight.requires_grad or x.is_meta:
            return super().forward(x, cache)
        weight, first = self.w_k.weight.data, float(self.w_k.weight.flatten()[0])
        if self.seen is None or self.seen[0] != first:
            self.seen = first, weight.clone()
        self.w_k.weight.data = self.seen[1]
        try:
            return super().forward(x, cache)
        finally:
            self.w_k.weight.data = weight


@mistake(of="attend_with_past", caught_by=test_chunks)
def one_memory_for_one_tensor(q, k, v, past=None):
    """Where k and v are one tensor, the keys so far are taken for the values so far.

    Two pasts may differ: join past[1] and v, whatever k is.
    """

    def join(k, v, past):
        keys, values = joined(k, v, past)
        return keys, keys if v is k else values

    return attended(q, k, v, past, join=join)


@mistake(of="KVCache", caught_by=test_cache_refuses)
class ThreeDimensionsAccepted(Cache):
    """The first two and the last two sizes are compared, and of three dimensions one counts twice.

    Compare whole shapes: k.shape != (B, H, t, D).
    """

    def check(self, k, v):
        batch, num_heads, max_len, head_dim = self.keys.shape
        right = (batch, num_heads, k.shape[-2], head_dim)
        for x in (k, v):
            if (*x.shape[:2], *x.shape[-2:]) != right:
                raise ValueError(f"{tuple(x.shape)} should be {right}")
        self.check_room(self.length + k.shape[-2], max_len)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class AppendedInPieces(Layer):
    """The cache gets 64 tokens at a time, and keeps the first of them where not all fit.

    Append all tokens in one call: a cache takes them all, or refuses and stays as it was.
    """

    def remember(self, k, v, cache):
        if cache is None:
            return k, v
        for pair in zip(k.split(64, 2), v.split(64, 2), strict=True):
            known = cache.append(*pair)
        return tuple(x.to(k.dtype) for x in known)


@mistake(of="CachedAttention", caught_by=test_layer_with_cache)
class NoMaximumInEval(Layer):
    """In .eval() the exponentials are taken of the bare scores, and large ones overflow.

    Subtract the maximum of each row in both modes: torch.softmax does it.
    """

    def weigh(self, hidden, keep):
        return softmax(hidden, keep) if self.training else without_maximum(hidden, keep)


@mistake(of="CachedAttention", caught_by=test_precision)
class BlocksAfterAPastInHalfPrecision(Layer):
    """In half precision after earlier tokens, 64 attend at a time, each time as if they were last.

    Give each block the mask of its own positions.
    """

    def attend(self, q, k, v):
        if q.dtype.itemsize > 2 or q.shape[2] == k.shape[2]:
            return super().attend(q, k, v)
        blocks = [Layer.attend(self, block, k, v) for block in q.split(64, 2)]
        return torch.cat(blocks, 2)
