"""Which exercises differ from main's, in a repository of their own."""

import subprocess
from dataclasses import replace

import pytest

from grader.authoring.changed import list_exercises_to_name, list_exercises_to_prove
from grader.core import catalog


@pytest.fixture
def exercises(tmp_path):
    """Two exercises, whose files lie in a folder of their own."""
    return [
        replace(e, home=tmp_path, folder=tmp_path / "grader/suites" / e.slug)
        for e in map(catalog.find_catalog_exercise, ("ex01", "ex02"))
    ]


@pytest.fixture
def repository(tmp_path, exercises):
    """A repository with them, two commits on main."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    for exercise in exercises:
        write(tmp_path, f"solutions/{exercise.file}")
        write(tmp_path, f"reference/{exercise.slug}.py")
        write(tmp_path, f"grader/suites/{exercise.slug}/test_it.py")
    write(tmp_path, "reference/expected.py")
    commit(tmp_path)
    return tmp_path


def git(root, *args):
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(root), *args], check=True
    )


def write(root, name, text="old\n"):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def commit(root):
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "A commit")


def slugs(root, exercises, choose=list_exercises_to_prove):
    return [e.slug.partition("_")[0] for e in choose(exercises, root)]


OWN = ["solutions/ex02_masking.py", "reference/ex02_masking.py", "grader/suites/ex02_masking/x.py"]


@pytest.mark.parametrize("name", OWN)
def test_on_a_branch_what_differs_from_main_is_changed(repository, exercises, name):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, name, "new\n")
    commit(repository)
    write(repository, "README.md")
    commit(repository)
    assert slugs(repository, exercises) == ["ex02"]


@pytest.mark.parametrize("name", OWN)
def test_what_is_not_committed_is_changed(repository, exercises, name):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, "README.md")
    commit(repository)
    write(repository, name, "new\n")
    assert slugs(repository, exercises) == ["ex02"]


def test_what_main_got_since_is_no_change_of_the_branch(repository, exercises):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, "README.md")
    commit(repository)
    git(repository, "switch", "--quiet", "main")
    write(repository, "solutions/ex01_softmax.py", "new\n")
    commit(repository)
    git(repository, "switch", "--quiet", "branch")
    assert slugs(repository, exercises) == []


def test_on_main_the_last_commit_counts(repository, exercises):
    write(repository, "solutions/ex01_softmax.py", "new\n")
    commit(repository)
    assert slugs(repository, exercises) == ["ex01"]
    write(repository, "README.md")
    commit(repository)
    assert slugs(repository, exercises) == []


def test_a_module_that_all_oracles_share_is_of_every_exercise(repository, exercises):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, "reference/expected.py", "new\n")
    commit(repository)
    assert slugs(repository, exercises) == ["ex01", "ex02"]


def test_all_are_changed_where_there_is_only_one_commit(repository, exercises):
    assert slugs(repository, exercises) == ["ex01", "ex02"]


def test_all_are_changed_where_there_is_no_main(repository, exercises):
    git(repository, "branch", "--move", "trunk")
    assert slugs(repository, exercises) == ["ex01", "ex02"]


def test_all_are_changed_where_there_is_no_repository(tmp_path, exercises, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert slugs(tmp_path, exercises) == ["ex01", "ex02"]


def test_all_are_changed_where_there_is_no_git(repository, exercises, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert slugs(repository, exercises) == ["ex01", "ex02"]


@pytest.mark.parametrize(
    "name",
    [
        "exercise.toml",
        "zh.toml",
        "mistakes.py",
        "mistakes/softmax.py",
        "steps.py",
        "variants.py",
        "bench_it.py",
    ],
)
def test_what_judges_no_change_is_no_reason_to_ask_again(repository, exercises, name):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, f"grader/suites/ex02_masking/{name}", "new\n")
    write(repository, OWN[0].replace("ex02_masking", "ex01_softmax"), "new\n")
    commit(repository)
    assert slugs(repository, exercises) == ["ex01"]


@pytest.mark.parametrize(
    "name", [*OWN, "grader/suites/ex02_masking/mistakes/a.py", "grader/suites/ex02_masking/e.toml"]
)
def test_what_may_change_a_name_is_a_reason_to_name_again(repository, exercises, name):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, name, "new\n")
    commit(repository)
    assert slugs(repository, exercises, list_exercises_to_name) == ["ex02"]


@pytest.mark.parametrize(
    "name", ["grader/diagnosis/naming.py", "grader/judging/agree.py", "reference/expected.py"]
)
def test_what_names_all_mistakes_is_a_reason_to_name_all_again(repository, exercises, name):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, name, "new\n")
    commit(repository)
    assert slugs(repository, exercises, list_exercises_to_name) == ["ex01", "ex02"]


@pytest.mark.parametrize("name", ["README.md", "grader/suites/ex02_masking/zh.toml"])
def test_what_names_nothing_is_no_reason_to_name_again(repository, exercises, name):
    git(repository, "switch", "--quiet", "--create", "branch")
    write(repository, name, "new\n")
    commit(repository)
    assert slugs(repository, exercises, list_exercises_to_name) == []
