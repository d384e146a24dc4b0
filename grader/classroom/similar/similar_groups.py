"""Pairs as groups: a file that five hand in is one group, not ten pairs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import merge

from grader.classroom.similar.fingerprint_index import Pair

CLOSE = 0.5  # the share of what is unusual in the smaller of two answers that the larger has too
ENOUGH = 0.5  # the share of close pairs that makes one group of two


class _Groups:
    """Who belongs together; at first everybody is alone."""

    def __init__(self, of_class: Sequence[bool]) -> None:
        self.home = list(range(len(of_class)))
        self.tree: list[Pair] = []  # pairs that join all the members of each group
        self._members = [[number] for number in self.home]
        self._added = [0 if ours else 1 for ours in of_class]  # members not of this class
        self._close: list[Counter[int]] = [Counter() for _ in of_class]  # pairs, by the other group

    def take(self, pair: Pair) -> None:
        """Count a close pair; two groups between which there are enough become one."""
        one, other = self.home[pair.first], self.home[pair.second]
        if one == other:
            return
        self._close[one][other] += 1
        self._close[other][one] += 1
        # Two answers that were added to the class are not compared.
        compared = len(self._members[one]) * len(self._members[other])
        compared -= self._added[one] * self._added[other]
        if self._close[one][other] >= ENOUGH * compared:
            self.tree.append(pair)
            self._join(*sorted((one, other), key=lambda home: len(self._members[home])))

    def _join(self, small: int, large: int) -> None:
        for member in self._members[small]:
            self.home[member] = large
        self._members[large] += self._members[small]
        self._added[large] += self._added[small]
        for other, count in self._close[small].items():
            if other != large:
                self._close[large][other] += count
                self._close[other][large] += count
            del self._close[other][small]


def grouped(
    pairs: Sequence[Pair], unusual: Sequence[float], of_class: Sequence[bool]
) -> Iterator[list[Pair]]:
    """Groups of answers that are close to each other, and pairs that are alike in a part only.

    A group is told by the pairs of its members with the one that most of them are close to. Of the
    pairs between two groups the first is told.

    pairs     the most unusual agreement first, as the groups that come of them; an answer that
              several handed in as it is makes a pair with itself
    unusual   how unusual each answer is as a whole
    of_class  which answers are of this class and not added to it
    """
    groups = _Groups(of_class)
    close = [p for p in pairs if p.unusual >= CLOSE * min(unusual[p.first], unusual[p.second])]
    for pair in close:
        groups.take(pair)
    within, trees = _by_home(close, groups.home), _by_home(groups.tree, groups.home)
    stars = (_star(within[home], trees[home], of_class) for home in within)
    between = ([pair] for pair in _between(pairs, groups.home))
    return merge(sorted(stars, key=_first), between, key=_first)


def by_unusual(pair: Pair) -> tuple[float, Pair]:
    """To sort by: the most unusual agreement first."""
    return -pair.unusual, pair


def _first(group: Sequence[Pair]) -> tuple[float, Pair]:
    return min(map(by_unusual, group))


def _between(pairs: Sequence[Pair], home: Sequence[int]) -> Iterator[Pair]:
    """The first of the pairs between each two groups."""
    told: set[tuple[int, int]] = set()
    for pair in pairs:
        one, other = sorted((home[pair.first], home[pair.second]))
        if one != other and (one, other) not in told:
            told.add((one, other))
            yield pair


def _by_home(pairs: Sequence[Pair], home: Sequence[int]) -> dict[int, list[Pair]]:
    """By group, the pairs of its members."""
    found: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if home[pair.first] == home[pair.second]:
            found[home[pair.first]].append(pair)
    return found


def _star(close: Sequence[Pair], tree: Sequence[Pair], of_class: Sequence[bool]) -> list[Pair]:
    """The pairs of a group with its centre; with others for those that are not close to it."""
    degree = Counter(answer for pair in close for answer in pair[:2])
    centre = max(degree, key=lambda answer: (degree[answer], not of_class[answer], -answer))
    twins = [pair for pair in close if pair.first == pair.second]
    star = [pair for pair in close if centre in pair[:2] and pair not in twins]
    there = {answer for pair in star for answer in pair[:2]}
    return [*twins, *star, *(pair for pair in tree if not {*pair[:2]} <= there)]
