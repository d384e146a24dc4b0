"""Clones that a student has prepared: nothing of them is run, followed, or read without bounds."""

from pathlib import Path

import pytest

from grader.classroom.collecting import git_objects
from grader.classroom.collecting.clones import Clone
from grader.submission.answer_file import UnreadableFile
from tests.classes.handing import at_once
from tests.course.collected import ANSWER, AT, SLUG, clone, collect, commit, files, git, pushes

NAME = f"{SLUG}.py"


@pytest.fixture
def ben(tmp_path):
    """Ben's clone, which a test makes hostile."""
    made = clone(tmp_path / "clones/ben", {NAME: ANSWER})
    pushes(tmp_path / "clones", f"ben,{AT},")
    return made


def trap(folder: Path) -> Path:
    """A program that leaves a trace beside the clones."""
    program = folder / "trap"
    program.write_text(f"#!/bin/sh\ntouch {folder / 'SPRUNG'}\nexit 1\n")
    program.chmod(0o755)
    return program


def set_traps(clone: Path, program: Path) -> None:
    """Every place of a repository that names a program, as far as git reads it."""
    commit(clone, {".gitattributes": b"* filter=trap diff=trap\n"})
    config = {
        "core.fsmonitor": program, "core.sshCommand": program, "core.editor": program,
        "core.pager": program, "core.gitProxy": program, "diff.external": program,
        "core.alternateRefsCommand": program, "filter.trap.smudge": program,
        "filter.trap.clean": program, "diff.trap.textconv": program, "diff.trap.command": program,
        "pager.cat-file": program, "pager.update-ref": program, "credential.helper": program,
        "gpg.program": program, "commit.gpgSign": "true", "alias.cat-file": f"!{program}",
    }  # fmt: skip
    for key, value in config.items():
        git(clone, "config", key, str(value))
    for hook in ("post-checkout", "reference-transaction", "pre-commit", "post-commit", "pre-push"):
        path = clone / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(program.read_text())
        path.chmod(0o755)


def make_partial(clone: Path, program: Path) -> None:
    """Take the answer out of the clone, and name a remote that starts a program for it."""
    blob = git(clone, "rev-parse", f"HEAD:{NAME}")
    (clone / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin",
        "remote.origin.promisor": "true", "remote.origin.url": f"ext::{program}",
        "protocol.ext.allow": "always", "protocol.allow": "always",
    }.items():  # fmt: skip
        git(clone, "config", key, value)


def test_nothing_of_a_clone_is_run(tmp_path, ben):
    set_traps(ben, trap(tmp_path))
    assert collect(tmp_path, tmp_path / "clones").exit_code == 0
    assert files(tmp_path) == {f"ben/{NAME}": ANSWER}
    assert not (tmp_path / "SPRUNG").exists()


def test_what_is_missing_from_a_clone_is_not_fetched(tmp_path, ben):
    make_partial(ben, trap(tmp_path))
    done = collect(tmp_path, tmp_path / "clones")
    assert f"ben: {NAME} is not in the clone: fetch it again, without a filter." in done.output
    assert not (tmp_path / "SPRUNG").exists()


def test_the_callers_environment_adds_no_objects(tmp_path, ben, monkeypatch):
    other = clone(tmp_path / "other", {NAME: b"of somebody else"})
    pushes(tmp_path / "clones", f"ben,{AT},{git(other, 'rev-parse', 'HEAD')}")
    monkeypatch.setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", str(other / ".git/objects"))
    assert "ben does not hold the commit" in collect(tmp_path, tmp_path / "clones").output
    assert files(tmp_path) == {}


def a_git_file(ben: Path) -> None:
    (ben / ".git").rename(ben.parent.parent / "elsewhere")
    (ben / ".git").write_text(f"gitdir: {ben.parent.parent / 'elsewhere'}\n")


def a_git_link(ben: Path) -> None:
    (ben / ".git").rename(ben.parent.parent / "elsewhere")
    (ben / ".git").symlink_to(ben.parent.parent / "elsewhere")


def a_link_within(ben: Path) -> None:
    (ben / ".git/logs/refs/heads/grading").symlink_to("/etc/hostname")


def alternates(ben: Path) -> None:
    other = clone(ben.parent.parent / "other", {NAME: b"of somebody else"})
    (ben / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")


ODD = [
    (a_git_file, "ben is no whole clone: its .git leads elsewhere."),
    (a_git_link, "ben is no whole clone: its .git leads elsewhere."),
    (a_link_within, "ben has a link in its .git, grading."),
    (alternates, "ben borrows objects from another repository."),
]


@pytest.mark.parametrize("make, says", ODD)
def test_a_clone_that_leads_elsewhere_is_left_alone(tmp_path, ben, make, says):
    make(ben)
    done = collect(tmp_path, tmp_path / "clones")
    assert done.exit_code == 1
    assert says in done.output
    assert files(tmp_path) == {}


def test_links_submodules_and_large_files_have_a_sentence(tmp_path, ben):
    (ben / NAME).unlink()
    (ben / NAME).symlink_to("/etc/passwd")
    commit(ben, {"ex01_softmax.py": b"x" * 150_001})
    id = git(ben, "rev-parse", "HEAD")
    git(ben, "update-index", "--add", "--cacheinfo", f"160000,{id},ex03_sdpa.py")
    git(ben, "commit", "-qm", "a submodule")
    said = collect(tmp_path, tmp_path / "clones").output
    assert f"ben: {NAME} is a link: hand in the file itself." in said
    assert "ben: ex01_softmax.py is too large: an answer has at most 150,000 bytes." in said
    assert "ben: ex03_sdpa.py is not a file." in said
    assert files(tmp_path) == {}


def tree(folder: Path, *entries: tuple[str, bytes, str]) -> str:
    """A tree as no git would make it: mode, name, object."""
    raw = b"".join(m.encode() + b" " + name + b"\0" + bytes.fromhex(id) for m, name, id in entries)
    return git(folder, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", content=raw)


def point_to(folder: Path, id: str) -> None:
    made = git(folder, "commit-tree", id, "-m", "x")
    (folder / ".git/refs/heads/main").write_text(f"{made}\n")


def test_names_that_lead_out_write_nothing(tmp_path, ben):
    blob = git(ben, "rev-parse", f"HEAD:{NAME}")
    inner = tree(ben, ("100644", f"../../{NAME}".encode(), blob), ("100644", b"..", blob))
    point_to(ben, tree(ben, ("40000", b"..", inner), ("40000", b"a/../..", inner),
                       ("100644", b"\xff\n\x1b[2J.py", blob)))  # fmt: skip
    before = sorted(p.name for p in tmp_path.iterdir())
    said = collect(tmp_path, tmp_path / "clones").output
    assert files(tmp_path) == {}
    assert "\x1b" not in said
    assert {p.name for p in tmp_path.iterdir()} - set(before) == {"roster.csv", "submissions"}


def test_a_few_objects_that_describe_a_million_folders_end_in_a_sentence(
    tmp_path, ben, monkeypatch
):
    monkeypatch.setattr(git_objects, "MAX_FOLDERS", 300)
    below = tree(ben)
    for _ in range(6):
        below = tree(ben, *[("40000", b"%d" % n, below) for n in range(10)])
    point_to(ben, below)
    with at_once():
        said = collect(tmp_path, tmp_path / "clones").output
    assert "ben holds too many folders to look into" in said


def test_a_clone_whose_objects_are_damaged_has_a_sentence(tmp_path, ben):
    blob = git(ben, "rev-parse", "HEAD^{tree}")
    path = ben / ".git/objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"no object")
    assert "ben cannot be read by git" in collect(tmp_path, tmp_path / "clones").output


def test_no_process_of_git_is_left(tmp_path, ben):
    made = Clone(name="ben", path=ben, git=ben / ".git")
    with git_objects.open_collected_objects(made) as found:
        processes = [found.sizes, found.contents]
        with pytest.raises(UnreadableFile):
            found.files("f" * 40)
    assert all(process.poll() is not None for process in processes)
