"""Reads the platform's list of push times. A commit's own date is only the student's word."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from grader.classroom.collecting.clones import OBJECT_ID
from grader.classroom.collecting.roster import normalize_roster_name
from grader.classroom.course.table_reader import read_class_table_lines, read_class_table_moment
from grader.core.errors import UserError
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name

PUSHES_NAME = "pushes.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One push to a repository."""

    pushed: datetime
    commit: str  # empty if the list does not say


Pushes = Mapping[
    str, Sequence[Push]
]  # by `normalize_roster_name` of the repository's name, first to last


def read_collected_pushes(path: Path) -> Pushes:
    """Read a CSV of pushes: repository, pushed, and commit if known. Raises `UserError`."""
    found = defaultdict(set)
    for line in read_class_table_lines(path, ["repository", "pushed"]):
        commit = line.get("commit").lower()
        if commit and not OBJECT_ID.fullmatch(commit):
            raise UserError(
                f"{line.at}: {clean_submitted_name(commit)} is no whole commit id: write all of it."
            )
        if not (repository := line.get("repository")):
            raise UserError(f"{line.at}: no repository is named: write its name.")
        push = Push(pushed=read_class_table_moment(line.get("pushed"), line.at), commit=commit)
        found[normalize_collected_repository(repository)].add(push)
    return {
        name: sorted(pushes, key=lambda push: (push.pushed, push.commit))
        for name, pushes in found.items()
    }


def normalize_collected_repository(text: str) -> str:
    """Return `hw1-ada` for https://github.com/course/hw1-ada.git, and for course/hw1-ada."""
    return normalize_roster_name(text.rstrip("/").rpartition("/")[2].removesuffix(".git"))


def list_pushes_before(pushes: Sequence[Push], push: Push) -> Iterator[Push]:
    """Yield the pushes before `push`, newest first, up to the first one without a commit."""
    earlier = [other for other in pushes if other.pushed < push.pushed]
    return takewhile(lambda other: other.commit, reversed(earlier))


def choose_collected_push(
    pushes: Sequence[Push], shown: str, until: datetime | None
) -> Push | None:
    """Return the push that counts; None if the list has no push and no time limit is set.

    Raises `UnreadableFile` with the reason if the list does not say which push counts.
    """
    if not pushes:
        if until is None:
            return None
        raise UnreadableFile(
            f"{shown} has no push in the list, so nothing says that it was in time."
        )
    known = [push for push in pushes if until is None or push.pushed <= until]
    if not known:
        raise UnreadableFile(f"{shown} was not pushed until {until}: it was left alone.")
    counts = known[-1]
    if len({push.commit for push in known if push.pushed == counts.pushed}) > 1:
        raise UnreadableFile(
            f"{shown} was pushed twice at {counts.pushed.isoformat()}, with different commits: "
            "leave the one in the list that counts."
        )
    if not counts.commit and len(known) < len(pushes):
        raise UnreadableFile(
            f"{shown} was pushed again after {counts.pushed.isoformat()}, and the clone holds "
            "the last state: write the commit of that push into the list."
        )
    return counts
