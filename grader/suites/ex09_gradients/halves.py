"""Inputs in float16 whose gradients are lost where a step is computed in float16."""

import numpy as np
import torch
from torch import float16


def arrays(*tensors):
    return [x.cpu().numpy() for x in tensors]


def small_products(draw):
    """Weights and gradients whose products are all below the smallest number of float16."""
    weights = np.append(0.5, np.full(1024, 2.0**-11))
    grad = np.append(0.0, draw.integers(40, 50, 1024).cpu().numpy() * 1e-6)
    return weights.astype(np.float16), grad.astype(np.float16)


def halves_that_cancel(draw):
    """One key of many queries: the gradients of its value sum to far beyond 65,504 half way."""
    q, k, v = (draw.normal(n, 4, dtype=float16) for n in (1200, 1, 1))
    grad = (draw.integers(180, 220, 600, 4) * (draw.integers(0, 1, 4) * 2 - 1)).to(float16)
    return arrays(q, k, v, torch.cat([grad, -grad[draw.permutation(600)]]))


def large_without_the_scale(draw):
    """dq and dk are below 65,504, and without their factor of 1/8 far above: scores are all 0."""
    places, sign = draw.permutation(64), (draw.integers(0, 1, 64) * 2 - 1).to(float16)
    q, k = (200 * sign).repeat(2, 1), 200 * torch.stack([sign, -sign])
    q[:, places[32:]], k[:, places[:32]] = 0, 0
    v = 256 * torch.stack([sign[:4], -sign[:4]])
    grad = draw.integers(6, 8, 2, 4).to(float16) / 8 * sign[:4]
    return arrays(q, k, v, grad)


def values_beyond_100(draw):
    """Outputs of 100 and a little, whose rounding adds up to as much as the gradients are."""
    q, k, v, grad = (draw.normal(n, 1) for n in (33, 5, 5, 33))
    wide = (x.expand(-1, 128) for x in (100 + v, grad / 8))
    return arrays(*(x.to(float16) for x in (q, 1 + k.abs(), *wide)))
