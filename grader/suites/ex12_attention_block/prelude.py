"""Counts products of matrices, so that one product for q, k and v can be told from three.

`products` is how many of the calls below this process has made. Projections without such a call are
not counted: the manifest says which calls these are.
"""

import functools

import torch
from torch.nn import functional

COUNTED = [
    *[(torch, name) for name in ("matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "inner")],
    *[(torch.Tensor, name) for name in ("__matmul__", "matmul", "mm", "bmm", "addmm", "baddbmm")],
    *[(torch, "tensordot"), (torch.Tensor, "inner"), (torch.linalg, "matmul")],
    (functional, "linear"),
]
products = 0


def count(place, name):
    """Wrap a function, so that each of its calls counts as one product."""
    product = getattr(place, name)

    @functools.wraps(product)
    def counted(*args, **kwargs):
        global products
        products += 1
        return product(*args, **kwargs)

    setattr(place, name, counted)


for where, called in COUNTED:
    count(where, called)
