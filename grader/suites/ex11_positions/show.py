"""Shows positions for `make show`: the angles, and the weights after rotation."""

import math

import torch

from reference.ex11_positions import plain_angles, plain_apply_rope, plain_sinusoidal_embedding

HEADS, WIDTH = 2, 8
BASE = 100.0  # so that the slow hands of a narrow head move too


def inputs(sentence):
    """Return queries and keys of two heads, of an even width, whatever the token vectors are."""
    both = {name: sentence.heads(name, HEADS, WIDTH) for name in "qk"}
    return {name: torch.nn.functional.pad(x, (0, x.shape[-1] % 2)) for name, x in both.items()}


def steps(q, k):
    """Return the steps from positions to angles, to rotated queries and keys, to weights."""
    positions, width = torch.arange(q.shape[-2]), q.shape[-1]
    angles = plain_angles(positions, width // 2, BASE, q.dtype)
    turned_q, turned_k = (plain_apply_rope(x, positions, BASE) for x in (q, k))
    scores = turned_q @ turned_k.mT / math.sqrt(width)
    return {
        "q": ("B H Lq D", q),
        "k": ("B H Lk D", k),
        "embedding": ("L D", plain_sinusoidal_embedding(positions, width, BASE)),
        "angles": ("L D/2", angles),
        "(1, 0) turned: cos": ("L D/2", angles.cos()),
        "(1, 0) turned: sin": ("L D/2", angles.sin()),
        "turned q": ("B H Lq D", turned_q),
        "turned k": ("B H Lk D", turned_k),
        "scores": ("B H Lq Lk", scores),
        "weights": ("B H Lq Lk", torch.softmax(scores, -1)),
    }


def asked(student, q, k):
    """Return the student's answers; a pair (1, 0) turns to (cos, sin)."""
    positions, width = torch.arange(q.shape[-2]), q.shape[-1]
    ahead = torch.zeros_like(q[0, 0])
    ahead[:, 0::2] = 1.0

    def turned(x):
        return student.apply_rope(x, positions, BASE)

    return {
        "embedding": lambda: student.sinusoidal_embedding(positions, width, BASE),
        "(1, 0) turned: cos": lambda: turned(ahead)[:, 0::2],
        "(1, 0) turned: sin": lambda: turned(ahead)[:, 1::2],
        "turned q": lambda: turned(q),
        "turned k": lambda: turned(k),
        "weights": lambda: torch.softmax(turned(q) @ turned(k).mT / math.sqrt(width), -1),
    }
