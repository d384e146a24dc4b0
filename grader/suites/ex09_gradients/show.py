"""Shows the backward pass for `make show`: on which tokens one output depends, and how."""

import math

import torch

from reference.ex03_sdpa import plain_attention

WIDTH = 4


def inputs(sentence):
    """Return one head's queries, keys and values of every token."""
    return {name: sentence.heads(name, 1, WIDTH)[0, 0] for name in "qkv"}


def steps(q, k, v):
    """Return the forward steps, then the steps back from the output of one token."""
    scale = 1 / math.sqrt(q.shape[-1])
    output, weights = plain_attention(q, k, v)
    grad_output = _gradient(v)
    dp = grad_output @ v.mT
    ds = weights * (dp - (weights * dp).sum(-1, keepdim=True))
    return {
        "q": ("Lq D", q),
        "k": ("Lk D", k),
        "v": ("Lk Dv", v),
        "weights": ("Lq Lk", weights),
        "output": ("Lq Dv", output),
        "dO": ("Lq Dv", grad_output),
        "dP": ("Lq Lk", dp),
        "dS": ("Lq Lk", ds),
        "dq": ("Lq D", ds @ k * scale),
        "dk": ("Lk D", ds.mT @ q * scale),
        "dv": ("Lk Dv", weights.mT @ grad_output),
    }


def asked(student, q, k, v):
    """Return the student's dS from the right weights, so that each function shows by itself."""
    grad_output = _gradient(v)
    weights = plain_attention(q, k, v)[1].detach().numpy()
    dp = (grad_output @ v.mT).detach().numpy()
    arrays = [x.detach().numpy() for x in (q, k, v, grad_output)]

    def gradient(i):
        return lambda: student.attention_backward(*arrays)[i]

    return {
        "dS": lambda: student.softmax_backward(weights, dp),
        **{name: gradient(i) for i, name in enumerate(("dq", "dk", "dv"))},
    }


def _gradient(v):
    """Return the gradient of the sum of one token's output, a token in the middle."""
    grad_output = torch.zeros_like(v)
    grad_output[(len(v) - 1) // 2] = 1.0
    return grad_output.detach()
