"""Trap 2: wrong axes that raise no error."""

import numpy as np

random = np.random.default_rng(0)
LENGTH, HEADS, WIDTH = 4, 2, 4  # as many tokens as a vector is wide: nothing can fail


def softmax(scores, axis):
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


q, k, v = random.normal(size=(3, LENGTH, WIDTH))
scores = q @ k.T / np.sqrt(WIDTH)

print("1. softmax over the queries")
for axis in (-1, -2):
    weights = softmax(scores, axis)
    rows, columns = weights.sum(-1).round(2), weights.sum(-2).round(2)
    print(f"axis={axis}  rows sum to {rows}  columns to {columns}")

print("\n2. q @ k instead of q @ k.T")
for name, table in (("q @ k.T", q @ k.T), ("q @ k", q @ k)):
    output = softmax(table / np.sqrt(WIDTH), -1) @ v
    print(f"{name:<8} shape {output.shape}  best keys {table.argmax(-1)}")
try:
    random.normal(size=(5, WIDTH)) @ random.normal(size=(5, WIDTH))
except ValueError as error:
    print(f"q @ k    with 5 tokens: {type(error).__name__}")

print("\n3. heads cut with reshape alone; every number says which token it is from")
x = np.repeat(np.arange(LENGTH), HEADS * WIDTH).reshape(LENGTH, HEADS * WIDTH)  # (L, E)
cut = x.reshape(LENGTH, HEADS, WIDTH).swapaxes(0, 1)  # (H, L, D)
mixed = x.reshape(HEADS, LENGTH, WIDTH)  # the same shape
print(f"shapes {cut.shape} and {mixed.shape}")
for head in range(HEADS):
    print(f"head {head}  reshape, swapaxes: {cut[head, :, 0]}  reshape alone: {mixed[head, :, 0]}")
