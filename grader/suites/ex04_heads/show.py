"""Shows multi-head attention for `make show`: a layer of two heads attends to itself."""

import math

import torch

from reference.ex04_heads import PlainMultiHeadAttention, plain_merge_heads, plain_split_heads

HEADS, WIDTH = 2, 8


def inputs(sentence):
    """Return the tokens' embeddings."""
    return {"x": sentence.embeddings(WIDTH)}


def steps(x):
    """Return the steps: project, split, attend, merge, project."""
    layer = _layer(x.shape[-1])
    projected = layer.project(x, x, x)
    q, k, v = (plain_split_heads(part, HEADS) for part in projected)
    mixed, weights = layer.attention(q, k, v, None)
    return {
        "x": ("B L E", x),
        "x w_q": ("B L E", projected[0]),
        "q": ("B H Lq D", q),
        "k": ("B H Lk D", k),
        "v": ("B H Lk D", v),
        "scores": ("B H Lq Lk", q @ k.mT / math.sqrt(q.shape[-1])),
        "weights": ("B H Lq Lk", weights),
        "heads": ("B H Lq D", mixed),
        "merged": ("B Lq E", plain_merge_heads(mixed)),
        "output": ("B Lq E", layer.project_out(plain_merge_heads(mixed))),
    }


def asked(student, x):
    """Return the student's four ways through the heads, each given the reference's own parts."""
    right = {name: value for name, (_, value) in steps(x).items()}
    width = x.shape[-1]

    def answer():
        layer = student.MultiHeadAttention(width, HEADS)
        layer.load_state_dict(_layer(width).state_dict())
        return layer(x)

    def answer_numpy():
        matrices = [w.mT.numpy() for w in _layer(width).state_dict().values()]
        tokens = [x.detach().numpy()] * 3
        return student.multi_head_attention_numpy(*tokens, *matrices, HEADS)

    return {
        "q": lambda: student.split_heads(right["x w_q"], HEADS),
        "weights": [lambda: answer()[1], lambda: answer_numpy()[1]],
        "merged": lambda: student.merge_heads(right["heads"]),
        "output": [lambda: answer()[0], lambda: answer_numpy()[0]],
    }


def _layer(width):
    """Return one layer for a width, its weights large enough for heads to choose tokens."""
    layer = PlainMultiHeadAttention(width, HEADS)
    generator = torch.Generator().manual_seed(width)
    for weight in layer.parameters():
        weight.requires_grad_(False)
        weight.copy_(torch.randn(weight.shape, generator=generator))
        weight *= 2 / math.sqrt(width)
    return layer
