"""Refuses everything with a ValueError that has every number in it, since some inputs must be refused.

exercise: ex04_heads
"""


def refuse(*args, **kwargs):
    raise ValueError(" ".join(map(str, range(500))))


def split_heads(x, num_heads):
    refuse()


def merge_heads(x):
    refuse()


def multi_head_attention_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep=None):
    refuse()


class MultiHeadAttention:
    def __init__(self, d_model, num_heads, bias=False):
        refuse()

    def forward(self, x, context=None, keep=None):
        refuse()
