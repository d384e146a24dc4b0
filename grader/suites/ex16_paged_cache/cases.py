"""Lists the sizes for the checks of the paged cache."""

from grader.judging import Hard

POOLS = [(19, 1, 2, 3), (7, 3, 1, 1), (6, 4, 3, 2), (3, 17, 2, 5)]  # two just large enough
TURNS = [(0, 3), (1, 1), (0, 1), (1, 5), (0, 4), (2, 2), (1, 1)]  # which sequence, how many tokens
REFUSED = [  # tokens that two sequences have in a pool of 5 blocks of 4; which one wants how many
    *[((6, 4), 0, 11, (3, 2)), ((6, 4), 1, 9, (3, 2)), ((6, 4), 2, 21, (6, 2))],
    *[((8, 12), 0, 1, (1, 0)), ((3, 16), 0, 2, (1, 0)), ((4, 1), 1, 20, (5, 3))],
    ((6, 4), 0, 14, (3, 2)),  # two of them fit into the last block
]
BATCHES = [  # lengths of the sequences, heads, width, block size
    *[((1,), 1, 1, 1), ((3, 17, 1, 4), 2, 8, 4), ((65, 2, 33), 3, 5, 16), ((5, 8), 1, 3, 64)],
]
PACKED = [  # queries and keys of the sequences, heads, width, width of the values
    *[((3,), (3,), 1, 1, 1), ((1, 17, 3), (5, 17, 65), 2, 8, 5), ((65,), (65,), 2, 3, 3)],
    *[((1, 1, 1), (1, 9, 33), 1, 16, 24), ((4, 1, 6), (4, 3, 7), 3, 4, 7)],
]
UNSEEING = [  # the same of sequences without queries or keys, or with fewer keys than queries
    *[((1, 3), (3, 1)), ((0, 3, 0, 2), (2, 3, 0, 0)), ((5, 4), (2, 4)), ((2, 6, 1), (0, 1, 0))],
    *[((5,), (2,)), ((3,), (0,))],
]
PROMPTS = [(1, 1, 1), (9, 1, 4), (9, 4, 3), (17, 5, 64), (7, 7, 2), (5, 12, 4)]  # L, chunk, block
# Ordinary sizes for `draw.hard`, and how far some of them go (more are more of the same, slowly).
STORED = {"S": 4, "H": 2, "L": 5, "D": 3}  # block size, heads, tokens, width
STEP = {"N": 2, "H": 2, "L": 5, "D": 3}  # rows
BATCH = {"N": 2, "H": 2, "Lq": 3, "Lk": 5, "D": 4, "Dv": 3}
PROMPT = {"C": 2, "H": 2, "L": 5, "D": 3}  # chunk size


def batches(draw, batch):
    """Return lengths, heads, width and block size of a batch, or of batches of a hard kind."""
    if not isinstance(batch, Hard):
        return [batch]
    found = (size.values() for size in draw.hard(batch, {"N": 64}, **STEP))
    return [(around(tokens, n), heads, width, 4) for n, heads, tokens, width in found]


def ragged(draw, batch):
    """Return the sizes of packed sequences, or of those of a hard kind."""
    if not isinstance(batch, Hard):
        return [batch]
    found = []
    for n, heads, queries, keys, width, value_width in (
        size.values() for size in draw.hard(batch, {"N": 256}, **BATCH)
    ):
        t = min(queries, keys) if keys == 1 else queries  # every query sees a key
        lens = around(t, n), around(max(t, keys), n)
        found.append((*lens, heads, width, value_width))
    return found


def prompts(draw, prompt):
    """Return length, chunk, block size, heads and width of a prompt, or of a hard kind."""
    if not isinstance(prompt, Hard):
        return [(*prompt, 2, 5)]
    found = (size.values() for size in draw.hard(prompt, **PROMPT))
    return [(tokens, max(c, tokens // 9), 4, heads, width) for c, heads, tokens, width in found]


def around(longest, count):
    """Return lengths for a count of sequences, the first of them the longest."""
    return tuple(max(1, longest - i % 3) for i in range(count))
