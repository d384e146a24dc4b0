"""The files of a commit, read from git's objects and written nowhere.

Nothing is checked out, so that no filter, hook, link or submodule of a student's has any effect.
How many folders are looked into and how large an object may be is bounded: a few hundred bytes of
objects can describe any number of files.
"""

import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from grader.classroom.collecting.clones import ID, Clone, beside, started
from grader.classroom.collecting.source_files import may_be
from grader.classroom.run.answer_contents import is_answer
from grader.classroom.run.answer_files import File
from grader.submission.answer_file import Unreadable
from grader.submission.handed_files import is_passed_over, limit, link, printable, too_large

MAX_FOLDERS = 10_000
MAX_DEPTH = 12
_MAX_TREE = 2_000_000  # bytes of one folder's list, or of a commit
_OF_ANSWERS = ("", "exercises/", "notebooks/")  # where a misnamed answer is looked for
_FOLDER, _FILE, _LINK = "40000", ("100644", "100755", "100664"), "120000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects of a clone, by two processes of git."""

    clone: Clone
    sizes: "subprocess.Popen[bytes]"
    contents: "subprocess.Popen[bytes]"

    def files(self, commit: str) -> list[File]:
        """The files of a commit that may be answers; they can be read while this is open.

        Of a bundle as it was handed out only the folders of answers are looked into: the oracle's
        files have the same names.
        """
        found, looked = [], 0
        waiting = deque([("", self._tree_of(commit))])
        while waiting:
            folder, tree = waiting.popleft()
            looked += 1
            if looked > MAX_FOLDERS or folder.count("/") > MAX_DEPTH:
                raise Unreadable(
                    f"{self.clone.shown} holds too many folders to look into: keep the answers in "
                    "a repository of their own."
                )
            entries = list(self._entries(tree))
            is_bundle = not folder and any(e[:2] == (_FOLDER, "exercises") for e in entries)
            for mode, name, id in entries:
                if is_passed_over(name):
                    continue
                if mode == _FOLDER and is_bundle and f"{name}/" not in _OF_ANSWERS:
                    continue
                if mode == _FOLDER:
                    waiting.append((f"{folder}{name}/", id))
                elif is_answer(name) or (folder in _OF_ANSWERS and may_be(name)):
                    found.append(self._file(mode, folder + name, name, id))
        return found

    def _file(self, mode: str, path: str, name: str, id: str) -> File:
        shown, problem = printable(path), ""
        if mode == _LINK:
            problem = link(shown)
        elif mode not in _FILE or "/" in name:
            problem = f"{shown} is not a file."
        return File(
            name=name, path=path, read=partial(self._blob, name, shown, id), problem=problem, id=id
        )

    def _blob(self, name: str, shown: str, id: str) -> bytes:
        kind, size = self._about(id)
        if kind != "blob":
            raise Unreadable(f"{shown} is not in the clone: fetch it again, without a filter.")
        if size > limit(name):
            raise Unreadable(too_large(name, shown))
        return self._content(id, size)

    def _tree_of(self, commit: str) -> str:
        kind, size = self._about(commit)
        if kind != "commit":
            raise Unreadable(
                f"{self.clone.shown} does not hold the commit {printable(commit)}: fetch it again."
            )
        if size > _MAX_TREE:
            raise self._damaged()
        first, _, _ = self._content(commit, size).partition(b"\n")
        return first.removeprefix(b"tree ").decode("ascii", "replace")

    def _entries(self, tree: str) -> Iterator[tuple[str, str, str]]:
        """What a folder holds: mode, name and object of each."""
        kind, size = self._about(tree)
        if kind != "tree" or size > _MAX_TREE:
            raise self._damaged()
        left = self._content(tree, size)
        while left:
            head, _, rest = left.partition(b"\0")
            mode, _, name = head.partition(b" ")
            id, left = rest[:20], rest[20:]
            yield mode.decode("ascii", "replace"), name.decode("utf-8", "surrogateescape"), id.hex()

    def _about(self, id: str) -> tuple[str, int]:
        """The kind and the size of an object; ("missing", 0) if there is none."""
        if not ID.fullmatch(id):
            raise self._damaged()
        found = self._asked(self.sizes, id).decode("ascii", "replace").split()
        return (found[1], int(found[2])) if len(found) == 3 else ("missing", 0)

    def _content(self, id: str, size: int) -> bytes:
        self._asked(self.contents, id)
        assert self.contents.stdout is not None
        content = self.contents.stdout.read(size + 1)
        if len(content) != size + 1:
            raise self._damaged()
        return content[:-1]

    def _asked(self, process: "subprocess.Popen[bytes]", id: str) -> bytes:
        """The first line of the answer about an object."""
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{id}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            raise self._damaged() from None
        line = process.stdout.readline(1000)
        if not line.startswith(id.encode()):
            raise self._damaged()
        return line

    def _damaged(self) -> Unreadable:
        return Unreadable(f"{self.clone.shown} cannot be read by git: clone it again.")


@contextmanager
def opened(clone: Clone) -> Iterator[Objects]:
    """The objects of a clone, to read from. `Unreadable` says why they are not read."""
    with (
        beside(clone) as environment,
        started(["cat-file", "--batch-check"], environment) as sizes,
        started(["cat-file", "--batch"], environment) as contents,
    ):
        yield Objects(clone=clone, sizes=sizes, contents=contents)
