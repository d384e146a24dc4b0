"""Lists the sizes of layers, texts and caches for the checks of latent attention."""

from torch import bfloat16, float16, float32, float64

from grader.judging import Hard
from grader.judging.hard import make_long_case_sizes

HALVES = [float16, bfloat16]
# d_model, heads, places of a key without and with rotation, of a value, kv_rank, q_rank, base
PLAIN, NARROW = (12, 3, 4, 6, 2, 10), (10, 2, 6, 4, 5, 8, 7)
LAYERS = [  # batch, tokens, sizes
    *[(2, 3, (8, 2, 6, 4, 5, 6)), (1, 1, (4, 1, 2, 2, 1, 4, 2)), (2, 17, (*PLAIN, None, 50.0))],
    *[(3, 65, (16, 4, 8, 8, 8, 16)), (2, 9, (*NARROW, 10.0)), (1, 17, (9, 3, 4, 2, 4, 4, 4))],
    *[(2, 5, (8, 2, 2, 4, 4, 6)), (2, 5, (*NARROW, 1.0))],
]
FAR = (16, 2, 4, 8, 8, 16, None, 10.0)
TEXTS = [  # sizes, tokens of each call
    *[(PLAIN, [1] * 4), (NARROW, [4, 5]), (PLAIN, [7, 1, 3]), (NARROW, [1, 4]), (NARROW, [4, 1])],
]
CACHES = [  # a cache and the dtype of what is appended to it
    *[((2, 9, 4, 6, float64), float64), ((2, 9, 4, 6, float64), float64)],
    *[((1, 17, 1, 2, float16), float16), ((3, 9, 65, 4, bfloat16), float32)],
    ((2, 9, 4, 4), float32),
]
REFUSED = [  # tokens in a cache of (3, 8, 5, 4); shapes of latent and k_rope; the message's numbers
    *[(0, (3, 9, 5), (3, 9, 4), (9, 8)), (7, (3, 2, 5), (3, 2, 4), (9, 8))],
    *[(8, (3, 1, 5), (3, 1, 4), (9, 8)), (6, (1, 1, 5), (1, 1, 4), (1, 3))],
    *[(0, (3, 1, 7), (3, 1, 4), (7, 5)), (6, (3, 1, 5), (3, 1, 6), (6, 4))],
    *[(5, (3, 2, 5), (3, 1, 4), (1, 2)), (5, (3, 2, 5), (1, 2, 4), (1, 3))],
    *[(5, (1, 2, 5), (3, 2, 4), (1, 3)), (5, (3, 1, 5), (3, 2, 4), (1, 2))],
    *[(0, (3, 2, 1), (3, 2, 4), (1, 5)), (0, (3, 2, 5), (3, 2, 1), (1, 4))],
    *[(5, (3, 0, 5), (3, 2, 4), (2, 0)), (5, (3, 2, 5), (3, 0, 4), (0, 2))],
]
TRAINED = [(PLAIN, 5), (NARROW, 5), (NARROW, 1)]  # sizes, tokens

# A layer whose sizes are made 1, or long, one after another. Where they are long, three of them are
# doubled: pairs of a rotation, and what lies before them, where an odd size would be a case apart.
WIDTHS = {"E": 6, "H": 2, "nope": 3, "rope": 2, "value": 2, "rank": 5, "q_rank": 4}
LONG = {"B": 1, "Lt": 3, **WIDTHS}
SIZES = [  # kinds of sizes, and which of them
    *[("ordinary", i) for i in range(len(LAYERS))],
    *[(Hard.LONG, i) for i, _ in enumerate(make_long_case_sizes(LONG, {}))],
]
ONES = len(LONG) + 1
LONG_TEXT = None, None


def layer_case(draw, kind, which):
    """Return batch, tokens and sizes of a layer: ordinary ones, or the hard ones of this number."""
    if kind == "ordinary":
        return LAYERS[which]
    sizes, doubled = (LONG, 2) if kind is Hard.LONG else (LONG | {"B": 2}, 1)
    s = draw.hard(kind, **sizes)[which]
    q_rank = s["q_rank"] if s["q_rank"] != WIDTHS["q_rank"] or which % 2 else None
    nope, rank = (doubled * s[name] for name in ("nope", "rank"))
    return s["B"], s["Lt"], (s["E"], s["H"], nope, 2 * s["rope"], s["value"], rank, q_rank, 100.0)


def hard_caches(draw):
    """Yield batch, room and widths of caches, one of these beyond 64, 128, 256 and 1024."""
    for s in draw.hard(Hard.LONG, B=1, Lmax=3, rank=2, pairs=1):
        yield s["B"], s["Lmax"], s["rank"], 2 * s["pairs"]


def long_text(draw):
    """Return the tokens of each call, for a text beyond 1024 tokens."""
    length = max(sizes["Ltext"] for sizes in draw.hard(Hard.LONG, Ltext=5))
    return [3, length - 6, 1, 2]
