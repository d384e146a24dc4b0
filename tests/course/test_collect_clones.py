"""Clones of repositories: what was pushed last counts, at the time of which the platform knows."""

from datetime import datetime

import pytest

from grader.classroom.run.submission_times import read_class_submission_times
from grader.core import catalog
from tests.course.collected import (
    ANSWER,
    AT,
    LATER,
    OTHER,
    ROSTER,
    SLUG,
    clone,
    collect,
    commit,
    files,
    git,
    pushes,
    times,
)

PATH = f"exercises/{SLUG}.py"


@pytest.fixture
def source(tmp_path):
    """Ada's and ben's clones, and when they were pushed."""
    for name in ("hw1-ada-l", "ben"):
        clone(tmp_path / "clones" / name, {PATH: ANSWER, f"reference/{OTHER}.py": b"right"})
    pushes(tmp_path / "clones", f"course/hw1-ada-l,{AT},", f"https://x.org/course/ben.git,{LATER},")
    return tmp_path / "clones"


def test_clones_become_submissions_with_the_times_of_the_platform(tmp_path, source):
    done = collect(tmp_path, source)
    assert done.exit_code == 0, done.output
    assert "is read as a folder of clones." in done.output
    assert "Nothing was collected from: eve." in done.output
    assert files(tmp_path) == {f"ada/{SLUG}.py": ANSWER, f"ben/{SLUG}.py": ANSWER}
    assert times(tmp_path) == [f"ada,{SLUG},{AT}", f"ben,{SLUG},{LATER}"]
    assert (tmp_path / "submissions/eve").is_dir()
    for_class, unused = read_class_submission_times(tmp_path / "submissions", ["ada", "ben", "eve"])
    assert for_class["ben", SLUG] == datetime.fromisoformat(LATER)
    assert unused == []


def test_without_a_push_list_it_is_named_as_what_would_name_the_times(tmp_path, source):
    (source / "pushes.csv").unlink()
    said = collect(tmp_path, source).output
    none = "No times of submission are known: pushes.csv in the folder of clones would name them."
    assert none in said and "--times" not in said
    assert "clones/pushes.csv is not there: no time of submission is known. Write the" in said


def test_what_the_push_list_names_counts_and_not_what_the_clone_was_left_at(tmp_path, source):
    first = git(source / "ben", "rev-parse", "HEAD")
    second = commit(source / "ben", {PATH: b"second"})
    commit(source / "ben", {PATH: b"third, never pushed"})
    pushes(source, f"hw1-ada-l,{AT},", f"ben,{LATER},{second}", f"ben,{AT},{first}")
    assert collect(tmp_path, source).exit_code == 0
    assert files(tmp_path)[f"ben/{SLUG}.py"] == b"second"
    done = collect(tmp_path, source, "--until", "2026-03-02T00:00:00Z")
    assert files(tmp_path)[f"ben/{SLUG}.py"] == ANSWER
    assert f"ben: {SLUG}.py was replaced: it was changed, of " in done.output
    assert times(tmp_path)[1] == f"ben,{SLUG},{AT}"


def test_a_later_push_of_another_exercise_makes_no_answer_late(tmp_path, source):
    first = git(source / "ben", "rev-parse", "HEAD")
    commit(source / "ben", {PATH: b"in between"})
    again = commit(source / "ben", {PATH: ANSWER, f"exercises/{OTHER}.py": b"one"})
    last = commit(source / "ben", {f"exercises/{OTHER}.py": b"two"})
    days = ("2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z", "2026-03-04T00:00:00Z")
    pushed = list(zip(days, (first, again, last), strict=True))
    pushes(source, f"hw1-ada-l,{AT},", *(f"ben,{day},{id}" for day, id in pushed))
    assert collect(tmp_path, source).exit_code == 0
    assert times(tmp_path)[1:] == [
        f"ben,{OTHER},2026-03-04T00:00:00+00:00",
        f"ben,{SLUG},2026-03-02T00:00:00+00:00",
    ]
    middle = git(source / "ben", "rev-parse", f"{again}^")
    pushes(source, f"ben,{AT},{first}", f"ben,{days[0]},{middle}", f"ben,{days[1]},{again}",
           f"ben,{days[2]},{last}")  # fmt: skip
    collect(tmp_path, source)  # what was changed back was handed in when it was changed back
    assert f"ben,{SLUG},2026-03-03T00:00:00+00:00" in times(tmp_path)


def test_without_the_commits_every_answer_has_the_time_of_the_last_push(tmp_path, source):
    pushes(source, f"hw1-ada-l,{AT},", f"ben,{AT},", f"ben,{LATER},")
    assert collect(tmp_path, source).exit_code == 0
    assert times(tmp_path)[1] == f"ben,{SLUG},{LATER}"
    first = git(source / "ben", "rev-parse", "HEAD")
    pushes(source, f"hw1-ada-l,{AT},", f"ben,{AT},{'a' * 40}", f"ben,{LATER},{first}")
    assert collect(tmp_path, source).exit_code == 0  # an earlier state that the clone lost
    assert times(tmp_path)[1] == f"ben,{SLUG},{LATER}"


UNTIL = ["--until", "2026-03-02T00:00:00Z"]
PUSHES = [
    ("a push after the time asked", [f"ben,{LATER},"], UNTIL, "ben was not pushed until 2026-03-02"),
    ("no push, but a time asked", [], UNTIL, "nothing says that it was in time."),
    ("a later push, and no commit", [f"ben,{AT},", f"ben,{LATER},"], UNTIL, "write the commit"),
    ("two pushes at once", [f"ben,{AT},", f"ben,{AT},{'a' * 40}"], [], "was pushed twice at"),
    ("a commit that is not there", [f"ben,{AT},{'a' * 40}"], [], "ben does not hold the commit aaa"),
]  # fmt: skip


@pytest.mark.parametrize("rows, options, says", [p[1:] for p in PUSHES], ids=[p[0] for p in PUSHES])
def test_of_pushes_nothing_is_guessed(tmp_path, source, rows, options, says):
    pushes(source, f"hw1-ada-l,{AT},", *rows)
    done = collect(tmp_path, source, *options)
    assert done.exit_code == 1
    assert says in done.output
    assert list(files(tmp_path)) == [f"ada/{SLUG}.py"]


def test_without_a_push_the_answer_is_there_and_its_time_is_not(tmp_path, source):
    (source / "pushes.csv").unlink()
    done = collect(tmp_path, source)
    assert done.exit_code == 1
    assert "pushes.csv is not there: no time of submission is known." in done.output
    assert len(files(tmp_path)) == 2 and times(tmp_path) == []


WRONG = [
    ("ben,yesterday,", "line 2: yesterday is no time with its distance from UTC"),
    ("ben,2026-03-01T18:00:00,", "is no time with its distance from UTC"),
    (f"ben,{AT},main", "line 2: main is no whole commit id"),
    (f",{AT},", "line 2: no repository is named"),
    (f'"ben,{AT},', "is no CSV"),
]


@pytest.mark.parametrize("row, says", WRONG)
def test_a_wrong_line_in_the_push_list_is_a_sentence_with_its_place(tmp_path, source, row, says):
    pushes(source, row)
    done = collect(tmp_path, source)
    assert (done.exit_code, says in done.output) == (2, True), done.output
    assert not (tmp_path / "submissions").exists()


OWNERS = [
    ("two students with one login", ROSTER + "zoe,BEN,14\n", "ben", "ben may be of ben, zoe"),
    ("a login that ends another", ROSTER + "zoe,hw1-ben,14\n", "hw1-ben", "may be of ben, zoe"),
    ("nobody's", ROSTER, "hw1-mallory", "hw1-mallory belongs to nobody in the roster"),
    ("a name that only ends alike", ROSTER, "hw1xben", "hw1xben belongs to nobody"),
    ("another one is named",
     ROSTER.replace("id\n", "id,repository\n").replace("12", "12,ben-2"), "hw1-ben",
     "hw1-ben was left alone: the roster names ben-2"),
]  # fmt: skip


@pytest.mark.parametrize("roster, name, says", [o[1:] for o in OWNERS], ids=[o[0] for o in OWNERS])
def test_a_repository_that_may_be_of_several_is_nobodys(tmp_path, source, roster, name, says):
    (source / "ben").rename(source / name)
    done = collect(tmp_path, source, roster=roster)
    assert done.exit_code == 1
    assert says in done.output
    assert list(files(tmp_path)) == [f"ada/{SLUG}.py"]


def test_of_two_repositories_of_one_student_neither_is_taken(tmp_path, source):
    clone(source / "hw2-ben", {PATH: ANSWER})
    done = collect(tmp_path, source)
    assert "ben and hw2-ben are of one student, ben: they were left alone." in done.output
    assert list(files(tmp_path)) == [f"ada/{SLUG}.py"]


def test_the_roster_may_name_the_repository(tmp_path, source):
    (source / "ben").rename(source / "hw1-group")
    roster = "student;LOGIN;repository\nada;ada-l;\nben;x;HW1-group\n"
    assert collect(tmp_path, source, roster=roster).exit_code == 1  # of its push nothing is known
    assert files(tmp_path)[f"ben/{SLUG}.py"] == ANSWER


def test_a_bare_clone_is_read_and_a_folder_that_is_none_has_a_sentence(tmp_path, source):
    git(source, "clone", "-q", "--bare", "--no-local", "ben", "eve.git")
    (source / "notes").mkdir()
    done = collect(tmp_path, source)
    assert files(tmp_path)[f"eve/{SLUG}.py"] == ANSWER
    assert (
        "notes is no repository: it was left alone. Clone it again, or move it elsewhere."
        in done.output
    )


def test_of_packed_references_the_head_is_found(tmp_path, source):
    git(source / "ben", "pack-refs", "--all")
    assert collect(tmp_path, source).exit_code == 0
    assert files(tmp_path)[f"ben/{SLUG}.py"] == ANSWER


def test_a_misnamed_answer_is_said_and_other_files_are_not(tmp_path, source):
    commit(source / "ben", {"exercises/ex01-softmax.py": b"x", "README.md": b"x", "mine.py": b"x"})
    done = collect(tmp_path, source)
    assert done.exit_code == 1
    said = done.output.partition("To be settled:")[2].strip().splitlines()
    assert said == [
        f"ben: exercises/ex01-softmax.py is no answer to an exercise. Did you mean {OTHER}.py?"
    ]


def test_an_empty_repository_has_a_sentence(tmp_path, source):
    (source / "eve").mkdir()
    git(source / "eve", "init", "-q")
    pushes(source, f"hw1-ada-l,{AT},", f"ben,{AT},", f"eve,{AT},")
    assert "eve is empty, or its HEAD cannot be read" in collect(tmp_path, source).output


SKELETON = (catalog.ROOT / "exercises" / f"{SLUG}.py").read_bytes()


def test_an_untouched_skeleton_in_a_clone_never_wins(tmp_path, source):
    for name, path in (("ben", f"{SLUG}.py"), ("hw1-ada-l", f"hw1/{SLUG}.py")):
        commit(source / name, {PATH: SKELETON, path: b"right"})
    done = collect(tmp_path, source)
    assert done.exit_code == 0, done.output
    assert files(tmp_path) == {f"ada/{SLUG}.py": b"right", f"ben/{SLUG}.py": b"right"}


def test_of_two_begun_files_in_a_clone_none_is_guessed(tmp_path, source):
    commit(source / "ben", {f"{SLUG}.py": b"right"})
    commit(source / "hw1-ada-l", {f"{SLUG}.py": ANSWER})
    done = collect(tmp_path, source)
    assert done.exit_code == 1
    assert (
        f"ben: {SLUG}.py is there more than once ({SLUG}.py, {PATH}): hand in one." in done.output
    )
    assert files(tmp_path) == {f"ada/{SLUG}.py": ANSWER}
