"""Records products of matrices, so that one product for q, k and v can be told from three.

PyTorch's dispatcher is where every way to a product ends: `@`, F.linear, einsum, a convolution, a
bilinear map. Sums of elementwise products are none of PyTorch's products, and are not recorded.
"""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# The first of the two factors among the arguments; its last axis is summed over, and the last but
# one of the second factor (its only one, if it is a vector).
FACTORS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "_int_mm"), 0),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"), 1),
}


class Products(TorchDispatchMode):
    """A mode that records [numbers summed for each result, multiplications] of each product."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        name = operator._schema.name.removeprefix("aten::").removesuffix("_")
        if name in FACTORS:
            first, second = args[FACTORS[name] :][:2]
            columns = second.shape[-1] if second.ndim > 1 else 1
            self.found.append([first.shape[-1], first.numel() * columns])
        elif "convolution" in name:
            depth = math.prod(args[1].shape[1:])
            self.found.append([depth, depth * result.numel()])
        elif name == "_trilinear":
            self.found.append(trilinear(*args))
        elif name in ("linear", "mkldnn_linear", "_mkldnn_linear"):
            depth = args[1].shape[-1]
            self.found.append([depth, depth * result.numel()])
        return result


def trilinear(one, two, three, expand1, expand2, expand3, summed, *_):
    """Return the same of `_trilinear`, the product of three tensors with axes of 1 put in."""
    shapes = []
    for x, places in ((one, expand1), (two, expand2), (three, expand3)):
        for place in sorted(places):
            x = x.unsqueeze(place)
        shapes.append(x.shape)
    whole = torch.broadcast_shapes(*shapes)
    return [math.prod(whole[axis] for axis in summed), math.prod(whole)]


recording = []  # the mode, while there is one


def start():
    """Begin to record."""
    stop()
    recording.append(Products().__enter__())


def stop():
    """Stop, and return the products since `start`."""
    if not recording:
        return []
    recording[0].__exit__(None, None, None)
    return recording.pop().found
