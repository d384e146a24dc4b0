"""How long the search for similar answers takes, and whether it finds the copies that were hidden.

`make bench-similar` makes a class of 200 (ARGS= for how many, and how many more to grow to): each
student writes every exercise in Python in one of the right ways and in a hand of their own, and a few hand in
a disguised copy of another's. Below it: how much of an answer is in another one, for right answers
that were written independently and for disguised copies.
"""

import json
import random
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grader.classroom.similar.fingerprints import (
    GAP,
    MIN_PASSAGE_TOKENS,
    AnswerTokens,
    read_fingerprint_tokens,
    remove_given_fingerprints,
)
from grader.core import catalog
from grader.core.catalog import ROOT
from tests.course.copying import disguised, handed_in, honest, right, skeleton, variant

# In Python: the hands of students are imitated in its syntax.
SLUGS = [e.slug for e in catalog.list_catalog_exercises() if e.language == "python"]
COPIED = 50  # one student in so many hands in a copy, in each exercise
_SEARCH = """
import json, sys, time
from pathlib import Path
from grader.core import catalog
from grader.classroom.similar.similar_search import SearchTerms, find_similar_answers
found = find_similar_answers(Path(sys.argv[1]), [], catalog.list_catalog_exercises(), SearchTerms(most=int(sys.argv[2])))
groups = [[group.slug, *group.everybody] for group in found.groups]
status = Path("/proc/self/status").read_text()  # getrusage would tell the peak of our parent
peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
print(json.dumps([time.process_time(), peak, found.answers, groups]))
"""


def main(sizes: list[int]) -> None:
    table = Table("students", "answers", "processor seconds", "peak MB", "copies", "found",
                  "among the first")  # fmt: skip
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            hidden = handed_in_by(size, Path(folder))
            table.add_row(f"{size}", *measured(Path(folder) / "class", hidden))
    Console().print(table)
    Console().print(shares())


def handed_in_by(size: int, place: Path) -> set[frozenset[str]]:
    """Put a class into a folder; who shares an answer to which exercise."""
    chance = random.Random(size)
    hidden = set()
    for slug in SLUGS:
        sources = {f"s{number:04}": honest(slug, chance) for number in range(size)}
        copies = max(1, size // COPIED)
        students = chance.sample(sorted(sources), 2 * copies)
        for one, other in zip(students[:copies], students[copies:], strict=True):
            sources[other] = disguised(sources[one], chance)
            hidden.add(frozenset((slug, one, other)))
        handed_in(place, sources, slug=slug)
    return hidden


def measured(submissions: Path, hidden: set[frozenset[str]]) -> list[str]:
    most = 2 * len(hidden)
    done = subprocess.run(
        [sys.executable, "-c", _SEARCH, str(submissions), str(most)],
        capture_output=True, cwd=ROOT, check=True, text=True,
    )  # fmt: skip
    seconds, peak, answers, groups = json.loads(done.stdout)
    found = [any(pair <= set(group) for group in groups) for pair in hidden]
    told = [f"{answers}", f"{seconds:.1f}", f"{peak:.0f}", f"{len(hidden)}", f"{sum(found)}"]
    return [*told, f"{most}"]


def shares() -> Table:
    """How much of an answer is in another, in the worst case."""
    table = Table("exercise", "independent, at most", "a disguised copy, at least")
    chance = random.Random(1)
    for slug in SLUGS:
        given = read_fingerprint_tokens(skeleton(slug))
        ways = range(
            min(len(right(slug)[name]) for name in catalog.find_catalog_exercise(slug).names)
        )
        sources = [variant(number, slug) for number in ways]
        written = [
            remove_given_fingerprints(read_fingerprint_tokens(source), given) for source in sources
        ]
        copied = [
            remove_given_fingerprints(read_fingerprint_tokens(disguised(source, chance)), given)
            for source in sources
        ]
        apart = max(share(one, other) for one, other in combinations(written, 2))
        copies = min(share(one, other) for one, other in zip(written, copied, strict=True))
        table.add_row(slug, f"{apart:.0%}", f"{copies:.0%}")
    return table


def share(one: AnswerTokens, other: AnswerTokens) -> float:
    """The share of one answer's tokens that lie in passages of the other."""
    first, second = (
        [
            tokens.letters[at : at + MIN_PASSAGE_TOKENS]
            for at in range(len(tokens.letters) - MIN_PASSAGE_TOKENS + 1)
        ]
        for tokens in (one, other)
    )
    passages = {passage for passage in second if GAP not in passage}
    starts = [at for at, passage in enumerate(first) if passage in passages]
    common = {at + step for at in starts for step in range(MIN_PASSAGE_TOKENS)}
    return len(common) / one.count


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [200])
