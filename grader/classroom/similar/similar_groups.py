"""Merges pairs into groups: a file that five students hand in is one group, not ten pairs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import merge

from grader.classroom.similar.fingerprint_index import Pair

CLOSE_SHARE = 0.5  # of the unusual text in the smaller of two close answers: the larger has it
MERGE_SHARE = 0.5  # of the pairs between two groups: so many close ones merge them


class _Groups:
    """The group of each answer; at first each answer is a group of its own."""

    def __init__(self, of_class: Sequence[bool]) -> None:
        self.home = list(range(len(of_class)))
        self.tree: list[Pair] = []  # pairs that join all the members of each group
        self._members = [[number] for number in self.home]
        self._added = [0 if ours else 1 for ours in of_class]  # members not of this class
        self._close: list[Counter[int]] = [Counter() for _ in of_class]  # pairs, by the other group

    def count_close_pair(self, pair: Pair) -> None:
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


def group_pairs(
    pairs: Sequence[Pair], unusual: Sequence[float], of_class: Sequence[bool]
) -> Iterator[list[Pair]]:
    """Yield groups of close answers as lists of pairs, and pairs that are only partly alike.

    A group lists the pairs of its members with its centre, the answer that most members are close
    to. Of the pairs between two groups only the first is listed.

    pairs     the most unusual agreement first, as are the groups; an answer that several students
              handed in makes a pair with itself
    unusual   how unusual each answer is as a whole
    of_class  which answers are of this class, and not added to the class
    """
    groups = _Groups(of_class)
    close = [
        p for p in pairs if p.unusual >= CLOSE_SHARE * min(unusual[p.first], unusual[p.second])
    ]
    for pair in close:
        groups.count_close_pair(pair)
    within, trees = _pairs_by_group(close, groups.home), _pairs_by_group(groups.tree, groups.home)
    stars = (_star_pairs(within[home], trees[home], of_class) for home in within)
    between = ([pair] for pair in _pairs_between_groups(pairs, groups.home))
    return merge(sorted(stars, key=_group_sort_key), between, key=_group_sort_key)


def unusual_sort_key(pair: Pair) -> tuple[float, Pair]:
    """Return a key that sorts the most unusual agreement first."""
    return -pair.unusual, pair


def _group_sort_key(group: Sequence[Pair]) -> tuple[float, Pair]:
    return min(map(unusual_sort_key, group))


def _pairs_between_groups(pairs: Sequence[Pair], home: Sequence[int]) -> Iterator[Pair]:
    """Yield the first of the pairs between each two groups."""
    told: set[tuple[int, int]] = set()
    for pair in pairs:
        one, other = sorted((home[pair.first], home[pair.second]))
        if one != other and (one, other) not in told:
            told.add((one, other))
            yield pair


def _pairs_by_group(pairs: Sequence[Pair], home: Sequence[int]) -> dict[int, list[Pair]]:
    """Return the pairs within each group, by the group's number."""
    found: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if home[pair.first] == home[pair.second]:
            found[home[pair.first]].append(pair)
    return found


def _star_pairs(
    close: Sequence[Pair], tree: Sequence[Pair], of_class: Sequence[bool]
) -> list[Pair]:
    """Return a group's pairs with its centre; other pairs for members not close to the centre."""
    degree = Counter(answer for pair in close for answer in pair[:2])
    centre = max(degree, key=lambda answer: (degree[answer], not of_class[answer], -answer))
    twins = [pair for pair in close if pair.first == pair.second]
    star = [pair for pair in close if centre in pair[:2] and pair not in twins]
    there = {answer for pair in star for answer in pair[:2]}
    return [*twins, *star, *(pair for pair in tree if not {*pair[:2]} <= there)]
