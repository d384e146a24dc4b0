"""The oracle (NumPy, float64), the yardstick and the fast path (PyTorch), exercise by exercise.

`reference.<name>` takes what the student's `<name>` takes and returns an `Expected`, or a tuple of
them where the student returns a tuple. A class of the same name takes weights by `load_state_dict`,
and its methods return what its functions would. The yardsticks themselves, on which named mistakes
are written, stand in the module of each exercise; the fast path is `reference.fused`.
"""

from reference.ex01_softmax import softmax, softmax_gradients, softmax_numpy
from reference.ex02_masking import (
    additive_mask,
    combine_masks,
    keep_from_blocked,
    masked_softmax,
    masked_softmax_gradients,
    padding_mask,
)
from reference.ex03_sdpa import attention_gradients, attention_numpy, scaled_dot_product_attention
from reference.ex04_heads import (
    MultiHeadAttention,
    merge_heads,
    multi_head_attention_numpy,
    split_heads,
)
from reference.ex05_causal_mask import (
    causal_attention,
    causal_attention_gradients,
    causal_mask,
    sliding_window_mask,
)
from reference.ex06_kv_cache import (
    CachedAttention,
    KVCache,
    attend_with_past,
    attend_with_past_gradients,
)
from reference.ex07_mqa_gqa import (
    GroupedQueryAttention,
    grouped_query_attention,
    grouped_query_attention_gradients,
    kv_cache_bytes,
    repeat_kv,
)
from reference.ex08_cuda_sdpa import FusedAttention, fast_attention, fast_attention_gradients
from reference.expected import Expected, gradients, raised

__all__ = [
    "CachedAttention",
    "Expected",
    "FusedAttention",
    "GroupedQueryAttention",
    "KVCache",
    "MultiHeadAttention",
    "additive_mask",
    "attend_with_past",
    "attend_with_past_gradients",
    "attention_gradients",
    "attention_numpy",
    "causal_attention",
    "causal_attention_gradients",
    "causal_mask",
    "combine_masks",
    "fast_attention",
    "fast_attention_gradients",
    "gradients",
    "grouped_query_attention",
    "grouped_query_attention_gradients",
    "keep_from_blocked",
    "kv_cache_bytes",
    "masked_softmax",
    "masked_softmax_gradients",
    "merge_heads",
    "multi_head_attention_numpy",
    "padding_mask",
    "raised",
    "repeat_kv",
    "scaled_dot_product_attention",
    "sliding_window_mask",
    "softmax",
    "softmax_gradients",
    "softmax_numpy",
    "split_heads",
]
