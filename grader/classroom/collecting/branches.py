"""Writes a branch of reports into a clone, made of git's objects.

The clone's working tree, index and other branches are left as they are. No hook of the clone is
run, and nothing is pushed.
"""

import os
from collections.abc import Mapping

from grader.classroom.collecting.clones import (
    Clone,
    build_plain_clone_environment,
    check_collected_clone,
    isolate_clone_environment,
    read_clone_branch,
    read_clone_reference,
    run_git_in_clone,
)
from grader.core.errors import UserError
from grader.submission.answer_file import UnreadableFile

_ABSENT_COMMIT = "0" * 40  # tells `update-ref` that the branch must not exist yet
_AUTHOR_ENVIRONMENT = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Attention by Hand"), ("EMAIL", "grader@localhost"))
}


def check_returned_branch_name(branch: str) -> None:
    """Raise `UserError` if git does not accept the branch's name."""
    done = run_git_in_clone(
        ["check-ref-format", f"refs/heads/{branch}"], build_plain_clone_environment()
    )
    if done.returncode or branch.startswith("-"):
        raise UserError(f"{branch!r} cannot be the name of a branch: `--branch grading`, say.")


def check_returned_branch_writable(clone: Clone, branch: str) -> None:
    """Raise `UnreadableFile` if the clone is unsafe, or has the branch checked out."""
    check_collected_clone(clone)
    if read_clone_branch(clone) == f"refs/heads/{branch}":
        raise UnreadableFile(
            f"{clone.shown} has the branch {branch} checked out: check out another one there."
        )


def commit_returned_files(
    clone: Clone, branch: str, files: Mapping[str, bytes], message: str
) -> bool:
    """Commit just these files on top of a branch; return False if the branch has them already."""
    name = f"refs/heads/{branch}"
    old = read_clone_reference(clone, name)
    parent = old or read_clone_reference(clone, f"refs/remotes/origin/{branch}")
    with isolate_clone_environment(clone) as environment:
        blobs = {
            file: _write_returned_git_object(
                clone, ["hash-object", "-w", "--stdin"], environment, content
            )
            for file, content in files.items()
        }
        listed = "".join(f"100644 blob {id}\t{file}\n" for file, id in blobs.items())
        tree = _write_returned_git_object(clone, ["mktree"], environment, listed.encode())
        if (
            parent
            and _write_returned_git_object(clone, ["rev-parse", f"{parent}^{{tree}}"], environment)
            == tree
        ):
            if old:
                return False
            commit = parent
        else:
            above = ["-p", parent] if parent else []
            commit = _write_returned_git_object(
                clone,
                ["commit-tree", tree, *above],
                {**environment, **_AUTHOR_ENVIRONMENT},
                message.encode(),
            )
    place = f"--git-dir={os.path.abspath(clone.git)}"
    moved = [place, "update-ref", "--no-deref", name, commit, old or _ABSENT_COMMIT]
    if run_git_in_clone(moved, build_plain_clone_environment()).returncode:
        raise _explain_unwritable_branch(clone)
    return True


def _write_returned_git_object(
    clone: Clone, command: list[str], given: Mapping[str, str], content: bytes = b""
) -> str:
    """Run a git command and return the id of the object that the command prints."""
    done = run_git_in_clone(command, given, content)
    if done.returncode:
        raise _explain_unwritable_branch(clone)
    return done.stdout.decode("ascii", "replace").strip()


def _explain_unwritable_branch(clone: Clone) -> UnreadableFile:
    return UnreadableFile(f"{clone.shown}: git cannot write the branch there. Clone it again.")
