"""Three right answers to the speed case of causal attention: slow, medium, fast."""

_CHUNKED = """
import math

import torch


def causal_attention(q, k, v):
    q = q * (1 / math.sqrt(q.shape[-1]))
    parts = []
    for start in range(0, q.shape[-2], ROWS):
        rows = q[..., start : start + ROWS, :]
        end = start + rows.shape[-2]
        scores = rows @ k[..., :end, :].mT
        ahead = torch.ones(rows.shape[-2], end, dtype=torch.bool).triu(start + 1)
        parts.append(torch.softmax(scores.masked_fill_(ahead, -torch.inf), -1) @ v[..., :end, :])
    return torch.cat(parts, -2)
"""

SUBMISSIONS = {
    "textbook": _CHUNKED.replace("ROWS", "q.shape[-2]").replace("masked_fill_", "masked_fill"),
    "medium": _CHUNKED.replace("ROWS", "512"),
    "best": _CHUNKED.replace("ROWS", "128"),
}
