"""The sizes with which the checks are asked."""

from torch import bfloat16, float16, float32, float64

POOLS = [  # just large enough for the turns, in two of them
    *[(19, 1, 2, 3, float32), (7, 3, 1, 1, float64), (6, 4, 3, 2, float32), (3, 17, 2, 5, float64)],
]
TURNS = [(0, 3), (1, 1), (0, 1), (2, 0), (1, 5), (0, 4), (2, 2), (1, 1)]  # which sequence, tokens
REFUSED = [  # tokens that two sequences have in a pool of 5 blocks of 4; which one wants how many
    *[((6, 4), 0, 11, (3, 2)), ((6, 4), 1, 9, (3, 2)), ((6, 4), 2, 21, (6, 2))],
    *[((8, 12), 0, 1, (1, 0)), ((3, 16), 0, 2, (1, 0)), ((4, 1), 1, 20, (5, 3))],
]
CACHES = [  # a cache and the dtype of what is appended to it
    *[((6, 4, 2, 3, float64), float64), ((6, 4, 2, 3, float64), float64)],
    *[((4, 16, 1, 1, float16), float16), ((5, 3, 2, 33, bfloat16), float32)],
]
BATCHES = [  # lengths of the sequences, heads, width, block size
    *[((1,), 1, 1, 1), ((3, 17, 1, 4), 2, 8, 4), ((65, 2, 33), 3, 5, 16), ((5, 8), 1, 3, 64)],
]
PACKED = [  # queries and keys of the sequences, heads, width, width of the values
    *[((3,), (3,), 1, 1, 1), ((1, 17, 3), (5, 17, 65), 2, 8, 5), ((65,), (65,), 2, 3, 3)],
    *[((1, 1, 1), (1, 9, 33), 1, 16, 24), ((4, 1, 6), (4, 3, 7), 3, 4, 7)],
]
EMPTY = [  # the same of sequences that are empty, or have fewer keys than queries
    *[((0, 3, 0, 2), (2, 3, 0, 0)), ((5, 4), (2, 4)), ((2, 6, 1), (0, 1, 0)), ((0,), (0,))],
    *[((), ())],
]
PROMPTS = [(1, 1, 1), (9, 1, 4), (9, 4, 3), (17, 5, 64), (7, 7, 2), (5, 12, 4)]  # L, chunk, block
