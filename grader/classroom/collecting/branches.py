"""Writes a branch of reports into a clone, made of git's objects.

The clone's working tree, index and other branches are left as they are. No hook of the clone is
run, and nothing is pushed.
"""

import os
from collections.abc import Mapping

from grader.classroom.collecting.clones import (
    Clone,
    check_clone,
    checked_out_branch,
    object_store_environment,
    plain_environment,
    read_reference,
    run_git,
)
from grader.core.errors import UserError
from grader.submission.answer_file import UnreadableFile

_ABSENT_COMMIT = "0" * 40  # tells `update-ref` that the branch must not exist yet
_AUTHOR_ENVIRONMENT = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Attention by Hand"), ("EMAIL", "grader@localhost"))
}


def check_branch_name(branch: str) -> None:
    """Raise `UserError` if git does not accept the branch's name."""
    done = run_git(["check-ref-format", f"refs/heads/{branch}"], plain_environment())
    if done.returncode or branch.startswith("-"):
        raise UserError(f"{branch!r} cannot be the name of a branch: `--branch grading`, say.")


def check_branch_writable(clone: Clone, branch: str) -> None:
    """Raise `UnreadableFile` if the clone is unsafe, or has the branch checked out."""
    check_clone(clone)
    if checked_out_branch(clone) == f"refs/heads/{branch}":
        raise UnreadableFile(
            f"{clone.shown} has the branch {branch} checked out: check out another one there."
        )


def commit_files(clone: Clone, branch: str, files: Mapping[str, bytes], message: str) -> bool:
    """Commit just these files on top of a branch; return False if the branch has them already."""
    name = f"refs/heads/{branch}"
    old = read_reference(clone, name)
    parent = old or read_reference(clone, f"refs/remotes/origin/{branch}")
    with object_store_environment(clone) as environment:
        blobs = {
            file: _git_object_id(clone, ["hash-object", "-w", "--stdin"], environment, content)
            for file, content in files.items()
        }
        listed = "".join(f"100644 blob {id}\t{file}\n" for file, id in blobs.items())
        tree = _git_object_id(clone, ["mktree"], environment, listed.encode())
        if (
            parent
            and _git_object_id(clone, ["rev-parse", f"{parent}^{{tree}}"], environment) == tree
        ):
            if old:
                return False
            commit = parent
        else:
            above = ["-p", parent] if parent else []
            commit = _git_object_id(
                clone,
                ["commit-tree", tree, *above],
                {**environment, **_AUTHOR_ENVIRONMENT},
                message.encode(),
            )
    place = f"--git-dir={os.path.abspath(clone.git)}"
    moved = [place, "update-ref", "--no-deref", name, commit, old or _ABSENT_COMMIT]
    if run_git(moved, plain_environment()).returncode:
        raise _unwritable_branch_error(clone)
    return True


def _git_object_id(
    clone: Clone, command: list[str], given: Mapping[str, str], content: bytes = b""
) -> str:
    """Run a git command and return the id of the object that the command prints."""
    done = run_git(command, given, content)
    if done.returncode:
        raise _unwritable_branch_error(clone)
    return done.stdout.decode("ascii", "replace").strip()


def _unwritable_branch_error(clone: Clone) -> UnreadableFile:
    return UnreadableFile(f"{clone.shown}: git cannot write the branch there. Clone it again.")
