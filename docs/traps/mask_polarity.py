"""Trap 3: a mask whose True means the opposite."""

import numpy as np

random = np.random.default_rng(0)
TOKENS = ["the", "cat", "sat", "down", "<pad>", "<pad>"]
LENGTH, WIDTH = len(TOKENS), 8


def attention_weights(q, k, keep):
    """Weights (L, L); True in keep = may attend."""
    scores = np.where(keep, q @ k.T / np.sqrt(WIDTH), -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def show(title, weights):
    print(title)
    print("         " + "".join(f"{token:>7}" for token in TOKENS))
    for token, row in zip(TOKENS, weights, strict=True):
        print(f"  {token:<7}" + "".join(f"{weight:7.2f}" for weight in row))
    print()


q, k = random.normal(size=(2, LENGTH, WIDTH))
causal = np.tril(np.ones((LENGTH, LENGTH), dtype=bool))  # True = may attend
blocked = ~causal  # True = hidden, as nn.MultiheadAttention's attn_mask has it
show("causal, as keep", attention_weights(q, k, causal))
show("causal, as blocked: only the future is seen", attention_weights(q, k, blocked))

padding = np.array([token != "<pad>" for token in TOKENS])  # True = may attend
for name, keep in (("keep", padding), ("blocked", ~padding)):
    weights = attention_weights(q, k, np.broadcast_to(keep, (LENGTH, LENGTH)))
    words, pads = weights[:, :4].sum(-1).mean(), weights[:, 4:].sum(-1).mean()
    print(f"padding, as {name:<8} attention to words {words:4.0%}, to padding {pads:4.0%}")
