"""Wrong answers to `CrossAttention`."""

import math

import torch
import torch.nn.functional as F

from grader.judging import mistake
from reference.blocks import (
    PlainCrossAttention,
)
from reference.ex04_heads import plain_merge_heads

from ..test_attention_block import (
    test_cross,
    test_cross_manners,
    test_cross_precision,
)
from .shared import Cross, at_least_float32


@mistake(of="CrossAttention", caught_by=test_cross)
class KeysFromX(Cross):
    """Keys and values are made from x instead of the context.

    Queries come from x; keys and values come from the context.
    """

    def forward(self, x, context, keep=None):
        super().forward(x, context[:, -1:])  # what does not fit is refused
        q = self.split(self.norm_q(self.q(x)))
        heads = self.read_text(q, x, None)
        if self.image_tokens:
            heads = heads + self.read_image(q, context[:, : self.image_tokens], None)
        return self.o(plain_merge_heads(heads))


@mistake(of="CrossAttention", caught_by=test_cross)
class TextRememberedInEval(Cross):
    """In .eval() the keys of the text are kept for a context, and new weights are not noticed.

    Compute keys and values in every call.
    """

    def read_text(self, q, text, keep):
        if self.training:
            return super().read_text(q, text, keep)
        last = getattr(self, "last", None)
        if last is None or last[0].shape != text.shape or not torch.equal(last[0], text):
            self.last = last = text.clone(), self.norm_k(self.k(text)), self.v(text)
        return self.attend(q, self.split(last[1]), self.split(last[2]), keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageThroughTheText(Cross):
    """The image's keys and values go through k and v, like the text's.

    The image has projections of its own, k_img and v_img.
    """

    def read_image(self, q, image, keep):
        return self.read_text(q, image, None)


@mistake(of="CrossAttention", caught_by=test_cross)
class OneSoftmaxForBoth(Cross):
    """Text and image share one softmax, so that they compete for the same weight.

    Attend to each with a softmax of its own, and add the results.
    """

    def forward(self, x, context, keep=None):
        if not self.image_tokens or context.shape[1] < self.image_tokens:
            return super().forward(x, context, keep)
        q = self.split(self.norm_q(self.q(x)))
        image, text = self.divide(context)
        k = torch.cat([self.norm_k_img(self.k_img(image)), self.norm_k(self.k(text))], 1)
        v = torch.cat([self.v_img(image), self.v(text)], 1)
        if keep is not None:
            keep = F.pad(keep, (self.image_tokens, 0), value=True)
        return self.o(plain_merge_heads(self.attend(q, k, v, keep)))


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageNotAdded(Cross):
    """The image is cut off the context, and what it would answer is not added.

    Attend to it as well, through k_img, norm_k_img and v_img, and add the result.
    """

    def read_image(self, q, image, keep):
        return 0 * super().read_image(q, image, keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageAveraged(Cross):
    """The mean of the two results is taken instead of their sum.

    Add them.
    """

    def read_text(self, q, text, keep):
        return super().read_text(q, text, keep) * (0.5 if self.image_tokens else 1.0)

    def read_image(self, q, image, keep):
        return super().read_image(q, image, keep) / 2


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageFromTheEnd(Cross):
    """The last tokens of the context are taken for the image.

    The image stands at the front: context[:, :image_tokens].
    """

    def divide(self, context):
        text = context.shape[1] - self.image_tokens
        return context[:, text:], context[:, :text]


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageKeysNotNormalised(Cross):
    """norm_k_img is forgotten: the image's keys are not normalised.

    Its keys are norm_k_img(k_img(image)).
    """

    def read_image(self, q, image, keep):
        return self.attend(q, self.k_img(image), self.v_img(image), None)


@mistake(of="CrossAttention", caught_by=test_cross)
class TextKeysThroughNormQ(Cross):
    """The text's keys go through norm_q instead of norm_k.

    Each norm has a weight of its own: norm_q is for the queries alone.
    """

    def read_text(self, q, text, keep):
        return self.attend(q, self.norm_q(self.k(text)), self.v(text), keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class ImageKeysThroughNormK(Cross):
    """The image's keys go through norm_k, like the text's.

    The image has a norm of its own: norm_k_img(k_img(image)).
    """

    def read_image(self, q, image, keep):
        return self.attend(q, self.norm_k(self.k_img(image)), self.v_img(image), None)


@mistake(of="CrossAttention", caught_by=test_cross)
class MaskOnTheImage(Cross):
    """The mask is applied to the image as well, as far as it reaches.

    `keep` is about the text's keys alone; every query may attend to the whole image.
    """

    def read_image(self, q, image, keep):
        if keep is None or not keep.shape[-1]:
            return super().read_image(q, image, keep)
        keep = F.pad(keep, (0, self.image_tokens), value=True)[..., : self.image_tokens]
        return self.attend(q, self.norm_k_img(self.k_img(image)), self.v_img(image), keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class MaskForgottenOnItself(Cross):
    """Where the context is x itself, `keep` is ignored, as in self-attention without a mask.

    Treat a context that is x as any other.
    """

    def forward(self, x, context, keep=None):
        return super().forward(x, context, None if context is x else keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class MaskOfThreeIsForTexts(Cross):
    """A mask of three axes is taken for (B, L, Lc), where there are as many texts as heads.

    It broadcasts to (B, H, L, Lc - image_tokens): with three axes the first is of the heads.
    """

    def read_text(self, q, text, keep):
        of_three = keep is not None and keep.ndim == 3 and len(keep) == len(q)
        return super().read_text(q, text, keep[:, None] if of_three else keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class CrossMaskOfTwoIsForTexts(Cross):
    """A mask of two dimensions is read as (B, Lk), where there are as many texts as tokens.

    Leave it as it is: of (L, Lk) the first is the query, for every text.
    """

    def attend(self, q, k, v, keep):
        if keep is not None and keep.shape == (len(q), k.shape[-2]):
            keep = keep[:, None, None]
        return super().attend(q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross)
class CrossMaskOfTheFirstHead(Cross):
    """Where every head has a mask of its own for each text, all are given that of the first head.

    Let `keep` broadcast to (B, H, L, Lc - image_tokens) as it is: nothing is cut off it.
    """

    def read_text(self, q, text, keep):
        of_all = keep is not None and keep.ndim == 4
        return super().read_text(q, text, keep[:, :1] if of_all else keep)


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class CrossFloatFirst(Cross):
    """q, k and v are made float32 with .float(), which is right in half precision and throws away
    half of the digits of float64.

    Raise half precision only: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        return super().attend(q.float(), k.float(), v.float(), keep).to(q.dtype)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class OnlyAThousandKeys(Cross):
    """Tokens of the text beyond the first 1024 are left out.

    Attend to all of the context, however long it is.
    """

    def read_text(self, q, text, keep):
        return super().read_text(q, text[:, :1024], keep if keep is None else keep[..., :1024])


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class LowestScoreWithoutText(Cross):
    """Hidden scores are the lowest number that there is: a query that sees no text gets the mean
    of all texts' values.

    Set the weights of such rows to 0 after the softmax: masked_fill(~keep, 0.0).
    """

    def attend(self, q, k, v, keep):
        if keep is None:
            return super().attend(q, k, v, keep)
        q, k, v = at_least_float32(q, self.split(k), self.split(v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(keep == 0, torch.finfo(scores.dtype).min)
        return (torch.softmax(scores, -1) @ v).to(self.o.weight.dtype)


@mistake(of="CrossAttention", caught_by=test_cross)
class CausalWhereSquare(Cross):
    """Where the text has as many tokens as there are queries, a query sees it up to its own place
    alone.

    The text has no order among the queries: only `keep` hides it.
    """

    def attend(self, q, k, v, keep):
        if keep is None and q.shape[-2] == k.shape[-2]:
            keep = torch.ones(q.shape[-2], k.shape[-2], device=q.device).tril().bool()
        return super().attend(q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class CrossInHalfPrecision(Cross):
    """The scores are computed in half precision, where a product of 256s is infinity.

    Compute scores and softmax in float32, and convert the heads back before o.
    """

    def attend(self, q, k, v, keep):
        return PlainCrossAttention.attend(self, q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross_precision)
class CrossInBfloat16(Cross):
    """Of half precision only float16 is raised: in bfloat16 close scores of hundreds are all alike.

    Raise both: q.to(torch.promote_types(q.dtype, torch.float32)).
    """

    def attend(self, q, k, v, keep):
        if q.dtype == torch.bfloat16:
            return PlainCrossAttention.attend(self, q, k, v, keep)
        return super().attend(q, k, v, keep)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class ContextLearnsOnlyWithTheTokens(Cross):
    """Where x needs no gradient, the context and the weights get none either.

    Leave it to PyTorch which tensors need gradients: write no torch.no_grad and no detach.
    """

    def forward(self, x, context, keep=None):
        with torch.set_grad_enabled(torch.is_grad_enabled() and x.requires_grad):
            return super().forward(x, context, keep)


@mistake(of="CrossAttention", caught_by=test_cross, null=True)
class NothingRead(Cross):
    """The output is zeros.

    Nothing is computed yet: project, normalise, split, attend to text and image, add, project.
    """

    def forward(self, x, context, keep=None):
        return torch.zeros_like(x)


@mistake(of="CrossAttention", caught_by=test_cross_manners)
class CrossWithoutGradientsInEval(Cross):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)
