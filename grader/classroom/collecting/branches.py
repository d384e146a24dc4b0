"""A branch of reports in a clone, made of git's objects: no working tree, index or other branch of
it is touched, no hook of it is run, and nothing is pushed.
"""

import os
from collections.abc import Mapping

from grader.classroom.collecting.clones import (
    Clone,
    beside,
    check,
    git,
    head,
    plain_environment,
    reference,
)
from grader.core.errors import UserError
from grader.submission.answer_file import Unreadable

_NONE = "0" * 40  # what a branch that is not there points to
_WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Attention by Hand"), ("EMAIL", "grader@localhost"))
}


def check_name(branch: str) -> None:
    """Raise `UserError` where no branch can be called so."""
    done = git(["check-ref-format", f"refs/heads/{branch}"], plain_environment())
    if done.returncode or branch.startswith("-"):
        raise UserError(f"{branch!r} cannot be the name of a branch: `--branch grading`, say.")


def check_clone(clone: Clone, branch: str) -> None:
    """Raise `Unreadable` where the branch cannot be written without touching anything else."""
    check(clone)
    if head(clone) == f"refs/heads/{branch}":
        raise Unreadable(
            f"{clone.shown} has the branch {branch} checked out: check out another one there."
        )


def write(clone: Clone, branch: str, files: Mapping[str, bytes], message: str) -> bool:
    """Put a commit of just these files on top of a branch; False if they are there already."""
    name = f"refs/heads/{branch}"
    old = reference(clone, name)
    parent = old or reference(clone, f"refs/remotes/origin/{branch}")
    with beside(clone) as environment:
        blobs = {
            file: _id(clone, ["hash-object", "-w", "--stdin"], environment, content)
            for file, content in files.items()
        }
        listed = "".join(f"100644 blob {id}\t{file}\n" for file, id in blobs.items())
        tree = _id(clone, ["mktree"], environment, listed.encode())
        if parent and _id(clone, ["rev-parse", f"{parent}^{{tree}}"], environment) == tree:
            if old:
                return False
            commit = parent
        else:
            above = ["-p", parent] if parent else []
            commit = _id(
                clone, ["commit-tree", tree, *above], {**environment, **_WHO}, message.encode()
            )
    place = f"--git-dir={os.path.abspath(clone.git)}"
    moved = [place, "update-ref", "--no-deref", name, commit, old or _NONE]
    if git(moved, plain_environment()).returncode:
        raise _cannot(clone)
    return True


def _id(clone: Clone, command: list[str], given: Mapping[str, str], content: bytes = b"") -> str:
    """The object that a command of git names."""
    done = git(command, given, content)
    if done.returncode:
        raise _cannot(clone)
    return done.stdout.decode("ascii", "replace").strip()


def _cannot(clone: Clone) -> Unreadable:
    return Unreadable(f"{clone.shown}: git cannot write the branch there. Clone it again.")
