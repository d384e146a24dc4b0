"""Right softmaxes with a sink, written otherwise."""

import torch

from grader.judging import variant


@variant(of="sink_softmax")
def sink_in_front(scores, sink):
    """The sink as the first column."""
    column = torch.full_like(scores[..., :1], sink)
    return torch.cat([column, scores], -1).softmax(-1)[..., 1:]


@variant(of="sink_softmax")
def by_the_largest(scores, sink):
    """The largest of all is subtracted by hand."""
    top = scores.amax(-1, keepdim=True).clamp(min=sink)
    powers = (scores - top).exp()
    return powers / (powers.sum(-1, keepdim=True) + (sink - top).exp())


@variant(of="sink_softmax")
def by_logarithms(scores, sink):
    """The logarithm of the sum first."""
    number = torch.full_like(scores[..., :1], sink)
    return (scores - torch.logaddexp(scores.logsumexp(-1, keepdim=True), number)).exp()


@variant(of="sink_softmax")
def padded(scores, sink):
    """The sink as padding."""
    return torch.nn.functional.pad(scores, (0, 1), value=sink).softmax(-1)[..., :-1]


@variant(of="sink_softmax")
def by_a_share(scores, sink):
    """An ordinary softmax, and of it the share that is not the sink's."""
    total = scores.logsumexp(-1, keepdim=True)
    return scores.softmax(-1) * torch.sigmoid(total - sink)
