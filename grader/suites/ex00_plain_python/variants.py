"""Right functions on lists, written otherwise."""

import math

from grader.judging import variant


@variant(of="matmul")
def in_three_loops(a, b):
    """Sums that grow term by term, in rows made of zeros."""
    if a and b and len(a[0]) != len(b):
        raise ValueError(f"shapes {len(a)}x{len(a[0])} and {len(b)}x{len(b[0])} do not fit")
    product = [[0.0] * len(b[0]) for _ in range(len(a))]
    for i in range(len(a)):
        for t in range(len(b)):
            for j in range(len(b[0])):
                product[i][j] += a[i][t] * b[t][j]
    return product


@variant(of="matmul")
def with_pairs_of_rows_and_columns(a, b):
    """Each row with each column, by zip, which says if they do not fit."""
    try:
        columns = list(zip(*b, strict=True))
        return [
            [sum(x * y for x, y in zip(row, column, strict=True)) for column in columns]
            for row in a
        ]
    except ValueError:
        raise ValueError(f"a has rows of {len(a[0])}, b has {len(b)} rows") from None


@variant(of="transpose")
def by_index(a):
    """Place j of every row, for each j."""
    return [[row[j] for row in a] for j in range(len(a[0]))] if a else []


@variant(of="transpose")
def with_map(a):
    """The columns of zip, each made a list."""
    return list(map(list, zip(*a, strict=True)))


@variant(of="row_softmax")
def from_the_differences(rows):
    """Each weight as 1 over the sum of exp of the differences from all scores."""
    weights = []
    for row in rows:
        kept = [x for x in row if x > -math.inf]
        top = max(kept) if kept else 0.0
        total = math.fsum(math.exp(x - top) for x in kept)
        weights.append([math.exp(x - top) / total if x > -math.inf else 0 for x in row])
    return weights


@variant(of="row_softmax")
def with_the_maximum_found_on_the_way(rows):
    """One pass over each row for maximum and sum, as an online softmax does it."""
    weights = []
    for row in rows:
        top, total = -math.inf, 0.0
        for x in row:
            if x > top:
                total *= math.exp(top - x)
                top = x
            if x > -math.inf:
                total += math.exp(x - top)
        weights.append([math.exp(x - top) / total if total else 0.0 for x in row])
    return weights


@variant(of="apply_mask")
def a_copy_that_is_written_into(scores, keep):
    """A copy of every row, with -inf written over what is hidden."""
    masked = [row[:] for row in scores]
    for i, row in enumerate(keep):
        for j, kept in enumerate(row):
            if not kept:
                masked[i][j] = float("-inf")
    return masked


@variant(of="attention")
def one_query_at_a_time(q, k, v, keep=None):
    """Only the keys that a query may see are looked at, and the sum is divided last."""
    output, weights = [], []
    for i, query in enumerate(q):
        seen = [j for j in range(len(k)) if keep is None or keep[i][j]]
        scores = {
            j: sum(x * y for x, y in zip(query, k[j], strict=True)) / len(query) ** 0.5
            for j in seen
        }
        top = max(scores.values(), default=0.0)
        powers = {j: math.exp(score - top) for j, score in scores.items()}
        total = sum(powers.values()) or 1.0
        weights.append([powers.get(j, 0.0) / total for j in range(len(k))])
        output.append([sum(powers[j] * v[j][d] for j in seen) / total for d in range(len(v[0]))])
    return output, weights


@variant(of="attention")
def hidden_values_made_zeros(q, k, v, keep=None):
    """Keys that nobody sees become zeros; values are summed where there is any weight."""
    if keep is None:
        keep = [[True] * len(k) for _ in q]
    seen = [any(row[j] for row in keep) for j in range(len(k))]
    keys = [row if there else [0.0] * len(row) for row, there in zip(k, seen, strict=True)]
    scaled = [[x / math.sqrt(len(keys[0])) for x in row] for row in q]
    weights = row_softmax(apply_mask(matmul(scaled, transpose(keys)), keep))  # noqa: F821
    columns = [[row[c] for row in v] for c in range(len(v[0]))]
    seeing = [[(w, j) for j, w in enumerate(row) if w] for row in weights]
    return [[math.fsum(w * x[j] for w, j in one) for x in columns] for one in seeing], weights
