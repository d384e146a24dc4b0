"""Steps that wrong answers to several tasks share."""

NAIVE, TILED = "naive_attention", "tiled_attention"


PARAMETERS = """const float* q, const float* k, const float* v, float* out,
    int heads, int Lq, int Lk, int D, float scale, int causal"""
