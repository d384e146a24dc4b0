# Skeleton ex50_sink_softmax a83f2b491f0259a4. The lesson: docs/lessons/ex50_sink_softmax.en.md
"""A softmax with a sink: write the bodies, then run `make grade EX=ex50_sink_softmax`.

Not allowed: PyTorch's fused attention operator and its attention modules. torch.softmax and
torch.logsumexp are allowed here.
"""

import torch
from torch import Tensor


def sink_softmax(scores: Tensor, sink: float) -> Tensor:
    """The weights (..., Lk) of scores (..., Lk) beside a sink, whose own weight is left out."""
    raise NotImplementedError(
        "The weights (..., Lk) of scores (..., Lk) beside a sink, whose own weight is left out."
    )
