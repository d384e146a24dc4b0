"""Merges pairs into groups: a file that five students hand in is one group, not ten pairs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import merge

from grader.classroom.similar.fingerprint_index import FingerprintPair

CLOSE_SHARE = 0.5  # of the unusual text in the smaller of two close answers: the larger has it
MERGE_SHARE = 0.5  # of the pairs between two groups: so many close ones merge them


class _Groups:
    """The group of each answer; at first each answer is a group of its own."""

    def __init__(self, of_class: Sequence[bool]) -> None:
        self.home = list(range(len(of_class)))
        self.tree: list[FingerprintPair] = []  # pairs that join all the members of each group
        self._members = [[number] for number in self.home]
        self._added = [0 if ours else 1 for ours in of_class]  # members not of this class
        self._close: list[Counter[int]] = [Counter() for _ in of_class]  # pairs, by the other group

    def count_close_pair(self, pair: FingerprintPair) -> None:
        """Count a close pair; merge its two groups if enough pairs between them are close."""
        one, other = self.home[pair.first], self.home[pair.second]
        if one == other:
            return
        self._close[one][other] += 1
        self._close[other][one] += 1
        # Two answers that were added to the class are not compared.
        compared = len(self._members[one]) * len(self._members[other])
        compared -= self._added[one] * self._added[other]
        if self._close[one][other] >= MERGE_SHARE * compared:
            self.tree.append(pair)
            self._join_groups(*sorted((one, other), key=lambda home: len(self._members[home])))

    def _join_groups(self, small: int, large: int) -> None:
        for member in self._members[small]:
            self.home[member] = large
        self._members[large] += self._members[small]
        self._added[large] += self._added[small]
        for other, count in self._close[small].items():
            if other != large:
                self._close[large][other] += count
                self._close[other][large] += count
            del self._close[other][small]


def group_similar_pairs(
    pairs: Sequence[FingerprintPair], unusual: Sequence[float], of_class: Sequence[bool]
) -> Iterator[list[FingerprintPair]]:
    """Yield each group of close answers as a list of pairs, and pairs that are only partly alike.

    A group's list pairs its members with its centre, the answer that most members are close to.
    Of the pairs between two groups only the first is listed.

    pairs     sorted, the most unusual agreement first, as the groups will be; an answer that
              several students handed in makes a pair with itself
    unusual   how unusual each answer is as a whole
    of_class  whether each answer comes from this class, or was added to compare with
    """
    groups = _Groups(of_class)
    close = [
        p for p in pairs if p.unusual >= CLOSE_SHARE * min(unusual[p.first], unusual[p.second])
    ]
    for pair in close:
        groups.count_close_pair(pair)
    within, trees = (
        _list_similar_group_pairs(close, groups.home),
        _list_similar_group_pairs(groups.tree, groups.home),
    )
    stars = (_list_similar_star_pairs(within[home], trees[home], of_class) for home in within)
    between = ([pair] for pair in _list_pairs_between_similar(pairs, groups.home))
    return merge(sorted(stars, key=_build_similar_group_key), between, key=_build_similar_group_key)


def build_similar_sort_key(pair: FingerprintPair) -> tuple[float, FingerprintPair]:
    """Return a key that sorts the most unusual agreement first."""
    return -pair.unusual, pair


def _build_similar_group_key(group: Sequence[FingerprintPair]) -> tuple[float, FingerprintPair]:
    return min(map(build_similar_sort_key, group))


def _list_pairs_between_similar(
    pairs: Sequence[FingerprintPair], home: Sequence[int]
) -> Iterator[FingerprintPair]:
    """Yield the first of the pairs between each two groups."""
    told: set[tuple[int, int]] = set()
    for pair in pairs:
        one, other = sorted((home[pair.first], home[pair.second]))
        if one != other and (one, other) not in told:
            told.add((one, other))
            yield pair


def _list_similar_group_pairs(
    pairs: Sequence[FingerprintPair], home: Sequence[int]
) -> dict[int, list[FingerprintPair]]:
    """Return the pairs within each group, by the group's number."""
    found: dict[int, list[FingerprintPair]] = defaultdict(list)
    for pair in pairs:
        if home[pair.first] == home[pair.second]:
            found[home[pair.first]].append(pair)
    return found


def _list_similar_star_pairs(
    close: Sequence[FingerprintPair], tree: Sequence[FingerprintPair], of_class: Sequence[bool]
) -> list[FingerprintPair]:
    """Return a group's pairs with its centre; other pairs for members not close to the centre."""
    degree = Counter(answer for pair in close for answer in pair[:2])
    centre = max(degree, key=lambda answer: (degree[answer], not of_class[answer], -answer))
    twins = [pair for pair in close if pair.first == pair.second]
    star = [pair for pair in close if centre in pair[:2] and pair not in twins]
    there = {answer for pair in star for answer in pair[:2]}
    return [*twins, *star, *(pair for pair in tree if not {*pair[:2]} <= there)]
