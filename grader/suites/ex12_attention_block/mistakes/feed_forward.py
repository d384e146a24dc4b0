"""Wrong answers to `FeedForward`."""

import torch
import torch.nn.functional as F

from grader.judging import mistake
from reference.blocks import (
    PlainFeedForward,
)

from ..test_attention_block import (
    test_feed_forward,
)


@mistake(of="FeedForward", caught_by=test_feed_forward)
class Gelu(PlainFeedForward):
    """GELU stands between the layers.

    That is what many models take. Here it is ReLU: torch.relu.
    """

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


@mistake(of="FeedForward", caught_by=test_feed_forward)
class ReluAtTheEnd(PlainFeedForward):
    """ReLU comes after w2 instead of between the layers.

    w2(relu(w1(x))): the answer may be negative.
    """

    def forward(self, x):
        return torch.relu(self.w2(self.w1(x)))


@mistake(of="FeedForward", caught_by=test_feed_forward)
class OneAnswerForAll(PlainFeedForward):
    """The answer is written into a tensor that is kept, so that an earlier answer changes.

    Return what w2 gives: a new tensor in every call.
    """

    def forward(self, x):
        answer = super().forward(x)
        if x.requires_grad:
            return answer
        kept = vars(self).setdefault("kept", torch.empty_like(answer))
        if kept.shape != answer.shape or kept.dtype != answer.dtype:
            return answer
        return kept.detach().copy_(answer.detach())


@mistake(of="FeedForward", caught_by=test_feed_forward)
class HiddenInTheInput(PlainFeedForward):
    """In .eval() the hidden numbers are written into x, where there is room for them.

    Make a new tensor: x belongs to the caller, who may need it for a residual.
    """

    def forward(self, x):
        hidden = torch.relu(self.w1(x))
        if not self.training and hidden.shape == x.shape:
            hidden = x.copy_(hidden)
        return self.w2(hidden)


@mistake(of="FeedForward", caught_by=test_feed_forward, null=True)
class NoRelu(PlainFeedForward):
    """Nothing stands between the layers: together they are one linear layer.

    w2(relu(w1(x))).
    """

    def forward(self, x):
        return self.w2(self.w1(x))


@mistake(of="FeedForward", caught_by=test_feed_forward)
class FedWithoutGradientsInEval(PlainFeedForward):
    """In .eval() no gradient flows: forward runs under torch.no_grad().

    Leave that to the caller: .eval() says nothing about gradients.
    """

    def forward(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return super().forward(*args, **kwargs)
