"""When what was pushed, as the platform has it. A commit's own date is the student's word."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from grader.classroom.collecting.clones import ID
from grader.classroom.collecting.roster import read_as
from grader.classroom.table_reader import lines, moment_at
from grader.core.errors import UserError
from grader.submission.answer_file import Unreadable
from grader.submission.handed_files import printable

NAME = "pushes.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One push to a repository."""

    pushed: datetime
    commit: str  # empty if the list does not say


Pushes = Mapping[str, Sequence[Push]]  # by `read_as` of the repository's name, first to last


def read(path: Path) -> Pushes:
    """The pushes in a list: repository, pushed, and commit if it is known. Raises `UserError`."""
    found = defaultdict(set)
    for line in lines(path, ["repository", "pushed"]):
        commit = line.get("commit").lower()
        if commit and not ID.fullmatch(commit):
            raise UserError(
                f"{line.at}: {printable(commit)} is no whole commit id: write all of it."
            )
        if not (repository := line.get("repository")):
            raise UserError(f"{line.at}: no repository is named: write its name.")
        push = Push(pushed=moment_at(line.get("pushed"), line.at), commit=commit)
        found[repository_named(repository)].add(push)
    return {
        name: sorted(pushes, key=lambda push: (push.pushed, push.commit))
        for name, pushes in found.items()
    }


def repository_named(text: str) -> str:
    """`hw1-ada` for https://github.com/course/hw1-ada.git, and for course/hw1-ada."""
    return read_as(text.rstrip("/").rpartition("/")[2].removesuffix(".git"))


def before(pushes: Sequence[Push], push: Push) -> Iterator[Push]:
    """The pushes before one, from the last on, as far back as the list names their commits."""
    earlier = [other for other in pushes if other.pushed < push.pushed]
    return takewhile(lambda other: other.commit, reversed(earlier))


def last(pushes: Sequence[Push], shown: str, until: datetime | None) -> Push | None:
    """The push that counts; None if there was none. `Unreadable` says why it is not known."""
    if not pushes:
        if until is None:
            return None
        raise Unreadable(f"{shown} has no push in the list, so nothing says that it was in time.")
    known = [push for push in pushes if until is None or push.pushed <= until]
    if not known:
        raise Unreadable(f"{shown} was not pushed until {until}: it was left alone.")
    counts = known[-1]
    if len({push.commit for push in known if push.pushed == counts.pushed}) > 1:
        raise Unreadable(
            f"{shown} was pushed twice at {counts.pushed.isoformat()}, with different commits: "
            "leave the one in the list that counts."
        )
    if not counts.commit and len(known) < len(pushes):
        raise Unreadable(
            f"{shown} was pushed again after {counts.pushed.isoformat()}, and the clone holds "
            "the last state: write the commit of that push into the list."
        )
    return counts
