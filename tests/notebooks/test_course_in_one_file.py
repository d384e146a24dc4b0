"""A course's file goes through a release and nbgrader: what is written, and what late costs."""

import csv
import io
import json
import os
import re
import zipfile

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGrader, NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from typer.testing import CliRunner

from grader.classroom.course.settings import read_course_settings
from grader.cli.app import app
from grader.core.catalog import ROOT
from grader.release import course_release
from grader.worker.parent import walls
from tests.notebooks.course import answered, hand_in, solution

SLUG = "ex02_masking"
COURSE = """\
name = "Autumn"
language = "zh"
speed = false
wall = "locked"
help = "exam"
exam_shows = "nothing"
[late]
penalty_per_day = 25
[[exercises]]
ex = "ex02"
weight = 1.5
deadline = 2027-03-01T23:59:00+01:00
[[exercises]]
ex = "ex05"
[[extensions]]
student = "secretly"
days = 2
"""
LATE = "2027-03-02 23:30:00 UTC"  # a day and a half
EXTENSION = '[[extensions]]\nstudent = "ada"\ndays = 1\n'


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    (folder / "mine.toml").write_text(COURSE)
    arguments = ["release", "ex02", "-o", str(folder), "--course", str(folder / "mine.toml")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.defpath)  # as with a virtual environment that is not activated
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def course(out):
    """The released course with one notebook that came late, graded."""
    wrong = solution(SLUG)["padding_mask"].replace("positions <", "positions <=")
    notebook = answered(out / "course", SLUG, padding_mask=wrong)
    hand_in(out / "course", "ada", notebook, LATE, SLUG)
    autograde(out / "course")
    return out / "course"


def autograde(course, **settings: object) -> None:
    config = course_release.load_nbgrader_config(course)
    config.Autograde.update(settings)
    config.CourseDirectory.root = str(course)
    done = NbGraderAPI(config=config).autograde(SLUG, "ada", force=True, create=True)
    assert done["success"], done


def bundled(out) -> dict[str, str]:
    with zipfile.ZipFile(out / "attention-by-hand.zip") as bundle:
        names = {name.partition("/")[2]: name for name in bundle.namelist()}
        return {
            name: bundle.read(names[name]).decode()
            for name in ("course.toml", "Makefile", f"notebooks/{SLUG}.ipynb")
        }


def test_the_course_s_folder_has_all_of_it(out):
    assert read_course_settings(out / "course/course.toml") == read_course_settings(
        out / "mine.toml"
    )


def test_gradescope_gets_nothing_where_an_exam_shows_nothing(out):
    assert not (out / "gradescope.zip").exists()


def test_the_bundle_has_what_is_released_and_nobodys_name(out):
    written = bundled(out)
    assert "secretly" not in "".join(written.values())
    (out / "theirs.toml").write_text(written["course.toml"])
    theirs = read_course_settings(out / "theirs.toml")
    assert [e.slug for e in theirs.exercises] == [SLUG]
    assert (theirs.help, theirs.language, theirs.speed, theirs.wall) == ("exam", "zh", False, None)
    assert "\nCOURSE ?= course.toml\n" in written["Makefile"]
    assert "\nCOURSE ?=\n" in (ROOT / "Makefile").read_text()


def test_notebooks_speak_and_help_as_the_course_says(out):
    cells = json.loads(bundled(out)[f"notebooks/{SLUG}.ipynb"])["cells"]
    checks = ["".join(c["source"]) for c in cells if "".join(c["source"]).startswith("check(")]
    assert len(checks) == 5  # and none for speed
    assert all('lang="zh", shows="nothing")' in check for check in checks)


def test_the_wall_that_is_demanded_is_nbgraders_too(out):
    judge = course_release.load_nbgrader_config(out / "course").Judge
    assert (judge.weakest, judge.shows) == ("locked", "nothing")
    with pytest.raises(walls.NoSuchWall, match="demands the wall 'locked'"):
        walls.choose_wall("process", weakest=judge.weakest)


def test_the_gradebook_has_the_score_and_the_student_sees_nothing_of_it(course):
    assert 6 < submission(course)[0] < 12
    graded = json.loads((course / f"autograded/ada/{SLUG}/{SLUG}.ipynb").read_text())
    outputs = [
        o for c in graded["cells"] for o in c.get("outputs", []) if "execution_count" not in o
    ]
    seen = json.dumps(outputs, ensure_ascii=False)
    assert "文件已读取，可以评分。" in seen
    assert "should be" in json.dumps(graded["metadata"]) and "should be" not in seen
    assert "✗" not in seen


def test_the_feedback_has_no_score(course):
    config = course_release.load_nbgrader_config(course)
    config.CourseDirectory.root = str(course)
    done = NbGraderAPI(config=config).generate_feedback(SLUG, "ada", force=True)
    assert done["success"], done
    page = (course / f"feedback/ada/{SLUG}/{SLUG}.html").read_text()
    assert re.findall(r"Score: [^<]*", page) == ["Score: 0.0 / 0.0)"]
    assert "文件已读取，可以评分。" in page
    assert not re.search(r"Out\[|should be|Late submission penalty", page)


def submission(course):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        found = gradebook.find_submission(SLUG, "ada")
        return found.score, found.late_submission_penalty, found.assignment.duedate.isoformat()


def test_late_costs_what_the_course_says_and_an_extension_counts_when_graded_again(course):
    assert submission(course)[1:] == (6, "2027-03-01T22:59:00")
    with (course / "course.toml").open("a") as file:
        file.write(EXTENSION)
    autograde(course, autograde_preprocessors=[AssignLatePenalties])  # no answer runs again
    assert submission(course)[1] == 3


def test_the_export_has_the_weight(course, tmp_path):
    from grader.release.nbgrader_bridge.safe_csv import SafeCsv

    app = NbGrader()
    app.coursedir = CourseDirectory(root=str(course))
    made = SafeCsv(parent=app)
    made.to = str(tmp_path / "grades.csv")
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        made.export(gradebook)
    [row] = csv.DictReader(io.StringIO((tmp_path / "grades.csv").read_text(), newline=""))
    assert (row["weight"], row["remark"]) == ("1.5", "")
