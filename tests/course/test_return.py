"""`grader return`: every report reaches the one it is about, and nothing else is touched."""

import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grader.classroom.run import results_folder as results_folder
from grader.classroom.run.results_folder import LastClassRun
from grader.cli.app import app
from grader.reporting.as_json import write_report_json
from tests.course.collected import ANSWER, ROSTER, SLUG, clone, git
from tests.course.test_collect_hostile import ODD, set_traps, trap
from tests.reporting.samples import report

RUN = LastClassRun(submissions="s", exercises=(SLUG,), device="cpu", wall="locked", speed=False)
PARTS = ["README.md", "report.html", "report.json"]


def graded(results: Path, *students: str, about: str = "") -> Path:
    """A folder of results with a report on each of these students."""
    results.mkdir(exist_ok=True)
    results_folder.record_finished_class_run(results, RUN)
    for student in students:
        place = results / "students" / student
        place.mkdir(parents=True, exist_ok=True)
        (place / "report.html").write_text(f"<p>of {student}</p>")
        (place / "report.json").write_text(write_report_json(report(student=about or student)))
    return results


@pytest.fixture
def back(tmp_path):
    """back("--to", "zips", ...) -> what `grader return` came to."""
    (tmp_path / "roster.csv").write_text(ROSTER)

    def run(*options: str) -> Result:
        given = [str(tmp_path / "results"), "-o", str(tmp_path / "returned"), "--lang", "en"]
        return CliRunner().invoke(app, ["return", *given, *options])

    return run


@pytest.fixture
def into(tmp_path, back):
    """into("branches") -> the same with the roster, and the clones of ada and ben."""
    for name in ("hw1-ada-l", "ben"):
        clone(tmp_path / "clones" / name, {f"{SLUG}.py": ANSWER})
    named = ["--roster", str(tmp_path / "roster.csv"), "--repositories", str(tmp_path / "clones")]
    return lambda way, *options: back("--to", way, *named, *options)


def inside(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("options, han", [((), True), (("--lang", "en"), False)])
def test_the_summary_is_in_the_language_of_the_results(tmp_path, into, options, han):
    graded(tmp_path / "results", "ada")
    results_folder.record_finished_class_run(tmp_path / "results", replace(RUN, language="zh"))
    given = ["--to", "files", "--roster", str(tmp_path / "roster.csv"), *options]
    given += ["--repositories", str(tmp_path / "clones")]
    done = CliRunner().invoke(app, ["return", str(tmp_path / "results"), *given])
    assert done.exit_code == 0, done.output
    said = (tmp_path / "clones/hw1-ada-l/GRADING.md").read_text()
    assert bool(re.search("[\u4e00-\u9fff]", said)) == han


def test_each_student_gets_a_zip_with_their_own_report(tmp_path, back):
    graded(tmp_path / "results", "ada", "ben")
    done = back()
    assert done.exit_code == 0, done.output
    assert "2, of which 2 are new or changed." in done.output
    for student in ("ada", "ben"):
        found = inside(tmp_path / f"returned/{student}.zip")
        assert found["report.html"] == f"<p>of {student}</p>".encode()
        assert f'"student": "{student}"' in found["report.json"].decode()
        assert len(found) == 2


def test_a_second_return_is_the_same_and_says_what_it_replaces(tmp_path, back):
    graded(tmp_path / "results", "ada", "ben")
    back()
    (tmp_path / "results/students/ben/report.html").write_text("better")
    done = back()
    assert "ben.zip was there, and is replaced." in done.output
    assert "2, of which 1 are new or changed." in done.output
    assert inside(tmp_path / "returned/ben.zip")["report.html"] == b"better"


def test_a_dry_run_writes_nothing(tmp_path, back, into):
    graded(tmp_path / "results", "ada")
    for done in (back("-n"), into("branches", "-n"), into("files", "-n")):
        assert done.exit_code == 0, done.output
        assert "Nothing was written: this was a dry run." in done.output
    assert not (tmp_path / "returned").exists()
    assert not (tmp_path / "clones/hw1-ada-l/GRADING.html").exists()
    assert git(tmp_path / "clones/hw1-ada-l", "branch", "--format", "%(refname:short)") == "main"


def test_a_report_on_somebody_else_is_not_returned(tmp_path, back):
    graded(tmp_path / "results", "ada")
    graded(tmp_path / "results", "ben", about="eve")
    done = back()
    assert done.exit_code == 1
    assert "The report in ben's folder is about eve: it was not returned." in done.output
    assert [p.name for p in (tmp_path / "returned").iterdir()] == ["ada.zip"]


@pytest.mark.parametrize("names", [("Ben", "ben"), ("\u00e9va", "e\u0301va")])
def test_of_names_that_read_alike_nobody_gets_any(tmp_path, back, names):
    graded(tmp_path / "results", "ada", *names)
    done = back()
    assert (done.exit_code, "read alike: none was returned" in done.output) == (1, True)
    assert [p.name for p in (tmp_path / "returned").iterdir()] == ["ada.zip"]


def test_who_is_not_in_the_roster_gets_none(tmp_path, back):
    graded(tmp_path / "results", "ada", "mallory")
    done = back("--roster", str(tmp_path / "roster.csv"))
    assert "mallory belongs to nobody in the roster" in done.output
    assert "No report on: ben, eve." in done.output
    assert [p.name for p in (tmp_path / "returned").iterdir()] == ["ada.zip"]


def test_a_report_that_is_not_whole_has_a_sentence(tmp_path, back):
    graded(tmp_path / "results", "ada", "ben", "eve")
    (tmp_path / "results/students/ada/report.json").write_text("{")
    (tmp_path / "results/students/ben/report.html").unlink()
    done = back()
    assert "ada has no whole report in the results" in done.output
    assert "ben has no whole report in the results" in done.output
    assert [p.name for p in (tmp_path / "returned").iterdir()] == ["eve.zip"]


WRONG = [
    (["--to", "moodle"], "`--to moodle --roster roster.csv --source FILE`"),
    (
        ["--to", "zip"],
        "There is no way called 'zip': zips, canvas, moodle, branches, files. Did you mean zips?",
    ),
    (["--to", "branches"], "--roster roster.csv --repositories FOLDER"),
    (["--roster", "nowhere.csv"], "nowhere.csv is not there"),
    (["-o", "/proc/nowhere"], "cannot be written"),
]


@pytest.mark.parametrize("options, says", WRONG)
def test_what_cannot_be_returned_is_a_sentence(tmp_path, back, options, says):
    graded(tmp_path / "results", "ada")
    done = back(*options)
    assert (done.exit_code, says in done.output) == (2, True), done.output


def test_results_that_are_none_or_not_finished_are_a_sentence(tmp_path, back):
    folder = tmp_path / "results"
    says = f"{folder} holds no results of a class: `make class OUT={folder}` writes some."
    assert says in back().output.replace("\n", " ")
    graded(tmp_path / "results", "ada")
    results_folder.record_begun_class_run(tmp_path / "results", RUN)
    done = back()
    assert (done.exit_code, "was not finished: finish it first." in done.output) == (2, True)


def test_a_branch_holds_the_report_and_nothing_else_is_touched(tmp_path, into):
    graded(tmp_path / "results", "ada", "ben")
    ada = tmp_path / "clones/hw1-ada-l"
    (ada / "staged").write_text("x")
    git(ada, "add", "staged")
    before = [git(ada, "status", "--porcelain"), git(ada, "rev-parse", "HEAD", "main"),
              (ada / ".git/index").read_bytes()]  # fmt: skip
    done = into("branches")
    assert done.exit_code == 0, done.output
    assert git(ada, "ls-tree", "-r", "--name-only", "grading").splitlines() == PARTS
    assert git(ada, "show", "grading:report.html") == "<p>of ada</p>"
    assert "Attention by Hand" in git(ada, "show", "grading:README.md")
    assert git(ada, "rev-list", "--count", "grading") == "1"
    assert f"-C {ada} -c core.hooksPath=/dev/null push origin grading" in done.output
    assert before == [git(ada, "status", "--porcelain"), git(ada, "rev-parse", "HEAD", "main"),
                      (ada / ".git/index").read_bytes()]  # fmt: skip


def test_a_second_report_follows_the_first_and_the_same_is_none(tmp_path, into):
    graded(tmp_path / "results", "ada")
    into("branches")
    assert "ada: hw1-ada-l has this report already, on grading." in into("branches").output
    (tmp_path / "results/students/ada/report.html").write_text("better")
    into("branches")
    ada = tmp_path / "clones/hw1-ada-l"
    assert git(ada, "rev-list", "--count", "grading") == "2"
    assert git(ada, "show", "grading:report.html") == "better"


def test_a_fresh_clone_goes_on_from_what_was_pushed(tmp_path, into):
    graded(tmp_path / "results", "ada")
    into("branches")
    git(tmp_path / "clones", "clone", "-q", "--no-local", "hw1-ada-l", "eve")
    graded(tmp_path / "results", "eve")
    assert into("branches", "--branch", "grading").exit_code == 0
    assert git(tmp_path / "clones/eve", "rev-list", "--count", "grading") == "2"
    assert git(tmp_path / "clones/eve", "show", "grading:report.html") == "<p>of eve</p>"


@pytest.mark.parametrize("branch", ["main", "../main", "-f", "a b", "x.lock", ""])
def test_a_branch_that_is_checked_out_or_has_no_name_is_not_written(tmp_path, into, branch):
    graded(tmp_path / "results", "ada")
    before = git(tmp_path / "clones/hw1-ada-l", "rev-parse", "HEAD")
    done = into("branches", f"--branch={branch}")
    says = (
        "checked out: check out another" if branch == "main" else "cannot be the name of a branch"
    )
    assert done.exit_code == (1 if branch == "main" else 2)
    assert says in done.output
    assert git(tmp_path / "clones/hw1-ada-l", "rev-parse", "main") == before


def test_whose_repository_is_not_clear_gets_no_report(tmp_path, into):
    graded(tmp_path / "results", "ada", "ben", "eve")
    clone(tmp_path / "clones/hw2-ben", {})
    done = into("branches")
    assert done.exit_code == 1
    assert "ben and hw2-ben are of one student, ben" in done.output
    assert "ben has a report, but no repository of their own here." in done.output
    assert "eve has a report, but no repository of their own here." in done.output
    for name in ("ben", "hw2-ben"):
        assert git(tmp_path / "clones" / name, "branch", "--list", "grading") == ""


def test_nothing_of_a_clone_is_run_when_its_report_is_written(tmp_path, into):
    graded(tmp_path / "results", "ben")
    set_traps(tmp_path / "clones/ben", trap(tmp_path))
    (tmp_path / "SPRUNG").unlink(missing_ok=True)
    assert into("branches").exit_code == 0
    assert not (tmp_path / "SPRUNG").exists()
    (tmp_path / "clones/ben/.git/hooks/reference-transaction").unlink()
    assert git(tmp_path / "clones/ben", "cat-file", "-t", "refs/heads/grading") == "commit"


@pytest.mark.parametrize("make, says", ODD)
def test_a_clone_that_leads_elsewhere_gets_no_branch(tmp_path, into, make, says):
    graded(tmp_path / "results", "ben")
    make(tmp_path / "clones/ben")
    done = into("branches")
    assert (done.exit_code, says in done.output) == (1, True)


def test_files_are_put_into_the_clone_and_nothing_is_committed(tmp_path, into):
    graded(tmp_path / "results", "ada", "ben")
    assert into("files").exit_code == 0
    assert (tmp_path / "clones/ben/GRADING.html").read_text() == "<p>of ben</p>"
    assert "Attention by Hand" in (tmp_path / "clones/ben/GRADING.md").read_text()
    (tmp_path / "clones/ben/GRADING.html").write_text("old")
    assert "ben: ben/GRADING.html is replaced." in into("files").output
    assert git(tmp_path / "clones/ben", "rev-list", "--count", "HEAD") == "1"


def test_a_link_in_the_place_of_the_report_is_not_followed(tmp_path, into):
    graded(tmp_path / "results", "ben")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "clones/ben/GRADING.md").symlink_to(tmp_path / "mine")
    done = into("files")
    assert "ben/GRADING.md is no file: nothing was written." in done.output
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "clones/ben/GRADING.html").exists()


def test_a_bare_clone_takes_a_branch_and_no_files(tmp_path, into):
    git(tmp_path / "clones", "clone", "-q", "--bare", "--no-local", "ben", "eve.git")
    graded(tmp_path / "results", "eve")
    assert "eve.git is a bare repository" in into("files").output
    assert into("branches").exit_code == 0
    assert git(tmp_path / "clones/eve.git", "show", "grading:report.html") == "<p>of eve</p>"
