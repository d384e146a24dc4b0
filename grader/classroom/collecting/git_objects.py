"""Reads the files of a commit from git's objects, and writes none of them.

Nothing is checked out, so no filter, hook, link or submodule of a student has any effect.
The number of folders read and the size of an object are bounded: a few hundred bytes of objects can
describe any number of files.
"""

import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from grader.classroom.collecting.clones import (
    OBJECT_ID,
    Clone,
    isolate_clone_environment,
    start_git_in_clone,
)
from grader.classroom.collecting.source_files import has_collected_answer_suffix
from grader.classroom.run.answer_contents import is_student_answer
from grader.classroom.run.answer_files import StudentFile
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import (
    BUNDLE_FOLDERS,
    BUNDLE_MARKS,
    clean_submitted_name,
    describe_submitted_link,
    describe_too_large_submission,
    find_submission_size_limit,
    is_handed_in_accidentally,
)

MAX_FOLDERS = 10_000
MAX_FOLDER_DEPTH = 12
_MAX_TREE_BYTES = 2_000_000  # of one folder's list, or of a commit
_ANSWER_FOLDERS = ("", "exercises/", "notebooks/")  # searched for misnamed answers too
_FOLDER_MODE, _FILE_MODES, _LINK_MODE = "40000", ("100644", "100755", "100664"), "120000"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneObjects:
    """The objects of a clone, read by two git processes."""

    clone: Clone
    sizes: "subprocess.Popen[bytes]"
    contents: "subprocess.Popen[bytes]"

    def files(self, commit: str) -> list[StudentFile]:
        """Return the files of a commit that may be answers; they can be read until git ends.

        In a bundle as it was handed out, the course's own folders are not read: the
        reference's files have the same names.
        """
        found, looked = [], 0
        waiting = deque([("", self._commit_tree(commit))])
        while waiting:
            folder, tree = waiting.popleft()
            looked += 1
            if looked > MAX_FOLDERS or folder.count("/") > MAX_FOLDER_DEPTH:
                raise UnreadableFile(
                    f"{self.clone.shown} holds too many folders to look into: keep the answers in "
                    "a repository of their own."
                )
            entries = list(self._tree_entries(tree))
            is_bundle = any(name in BUNDLE_MARKS for _, name, _ in entries)
            for mode, name, id in entries:
                if is_handed_in_accidentally(name):
                    continue
                if mode == _FOLDER_MODE and is_bundle and name in BUNDLE_FOLDERS:
                    continue
                if mode == _FOLDER_MODE:
                    waiting.append((f"{folder}{name}/", id))
                elif is_student_answer(name) or (
                    folder in _ANSWER_FOLDERS and has_collected_answer_suffix(name)
                ):
                    found.append(self._entry_file(mode, folder + name, name, id))
        return found

    def _entry_file(self, mode: str, path: str, name: str, id: str) -> StudentFile:
        shown, problem = clean_submitted_name(path), ""
        if mode == _LINK_MODE:
            problem = describe_submitted_link(shown)
        elif mode not in _FILE_MODES or "/" in name:
            problem = f"{shown} is not a file."
        return StudentFile(
            name=name,
            path=path,
            read=partial(self._read_blob, name, shown, id),
            problem=problem,
            id=id,
        )

    def _read_blob(self, name: str, shown: str, id: str) -> bytes:
        kind, size = self._object_kind_size(id)
        if kind != "blob":
            raise UnreadableFile(f"{shown} is not in the clone: fetch it again, without a filter.")
        if size > find_submission_size_limit(name):
            raise UnreadableFile(describe_too_large_submission(name, shown))
        return self._read_content(id, size)

    def _commit_tree(self, commit: str) -> str:
        kind, size = self._object_kind_size(commit)
        if kind != "commit":
            raise UnreadableFile(
                f"{self.clone.shown} does not hold the commit {clean_submitted_name(commit)}: "
                "fetch it again."
            )
        if size > _MAX_TREE_BYTES:
            raise self._damaged_clone_error()
        first, _, _ = self._read_content(commit, size).partition(b"\n")
        return first.removeprefix(b"tree ").decode("ascii", "replace")

    def _tree_entries(self, tree: str) -> Iterator[tuple[str, str, str]]:
        """Yield the mode, name and object id of each entry in a tree, git's list of a folder."""
        kind, size = self._object_kind_size(tree)
        if kind != "tree" or size > _MAX_TREE_BYTES:
            raise self._damaged_clone_error()
        left = self._read_content(tree, size)
        while left:
            head, _, rest = left.partition(b"\0")
            mode, _, name = head.partition(b" ")
            id, left = rest[:20], rest[20:]
            yield mode.decode("ascii", "replace"), name.decode("utf-8", "surrogateescape"), id.hex()

    def _object_kind_size(self, id: str) -> tuple[str, int]:
        """Return an object's kind and size in bytes; ("missing", 0) if there is no such object."""
        if not OBJECT_ID.fullmatch(id):
            raise self._damaged_clone_error()
        found = self._request_object(self.sizes, id).decode("ascii", "replace").split()
        return (found[1], int(found[2])) if len(found) == 3 else ("missing", 0)

    def _read_content(self, id: str, size: int) -> bytes:
        self._request_object(self.contents, id)
        assert self.contents.stdout is not None
        content = self.contents.stdout.read(size + 1)
        if len(content) != size + 1:
            raise self._damaged_clone_error()
        return content[:-1]

    def _request_object(self, process: "subprocess.Popen[bytes]", id: str) -> bytes:
        """Send an object's id to git; return the first line of git's reply."""
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{id}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            raise self._damaged_clone_error() from None
        line = process.stdout.readline(1000)
        if not line.startswith(id.encode()):
            raise self._damaged_clone_error()
        return line

    def _damaged_clone_error(self) -> UnreadableFile:
        return UnreadableFile(f"{self.clone.shown} cannot be read by git: clone it again.")


@contextmanager
def open_collected_objects(clone: Clone) -> Iterator[CloneObjects]:
    """Yield a clone's objects. Raises `UnreadableFile` with the reason if git cannot read them."""
    with (
        isolate_clone_environment(clone) as environment,
        start_git_in_clone(["cat-file", "--batch-check"], environment) as sizes,
        start_git_in_clone(["cat-file", "--batch"], environment) as contents,
    ):
        yield CloneObjects(clone=clone, sizes=sizes, contents=contents)
