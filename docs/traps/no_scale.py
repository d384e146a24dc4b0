"""Trap 1: what softmax makes of scores that were not divided by sqrt(D)."""

import numpy as np

KEYS, QUERIES = 16, 1000
random = np.random.default_rng(0)


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def bits(weights):
    """The entropy of each row; log2(16) = 4 bits is an even choice among 16 keys."""
    return -(weights * np.log2(np.maximum(weights, 1e-300))).sum(-1)


def slope(weights):
    """How strongly each row of weights answers to its scores: the norm of softmax's Jacobian."""
    jacobian = weights[:, :, None] * (np.eye(KEYS) - weights[:, None, :])
    return np.sqrt((jacobian**2).sum((1, 2)))


def show(width, scores):
    weights = softmax(scores)
    lost = (slope(weights) < 0.01).mean()
    print(
        f"{width:5}  {scores.std():6.2f}  {np.median(weights.max(-1)):14.3f}"
        f"  {np.median(bits(weights)):7.2f}  {np.median(slope(weights)):8.4f}  {lost:6.1%}"
    )


for name, scaled in (("q @ k.T", False), ("q @ k.T / sqrt(D)", True)):
    print(f"{name}\n    D     std  largest weight  entropy     slope  < 0.01")
    for width in (4, 16, 64, 256, 1024):
        q, k = random.normal(size=(QUERIES, width)), random.normal(size=(QUERIES, KEYS, width))
        scores = np.einsum("nd,nkd->nk", q, k)
        show(width, scores / np.sqrt(width) if scaled else scores)
    print()
