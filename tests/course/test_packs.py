"""Packs: exercises of another folder, which behave like our own in every command."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader.authoring import exercise_rules, skeletons
from grader.cli.app import app
from grader.core import catalog, packs
from grader.core.toml_file import BadFile
from grader.core.translation import Words
from grader.grading import source_digest
from grader.judging import suite_runner
from grader.learn.lesson_html import render_lesson
from grader.practice.folder.handed_course import list_handed_files
from grader.practice.folder.handed_notebooks import list_handed_notebooks
from grader.release import bundle, notebook_pages
from grader.worker.parent import readable_paths
from tests.classes.classroom import grader
from tests.conftest import ROOT

SAMPLE = ROOT / "tests/packs/sample"
SLUG = "ex50_sink_softmax"
SOLUTION = SAMPLE / "solutions" / f"{SLUG}.py"
SUITE = SAMPLE / "suites" / SLUG


@pytest.fixture
def use(monkeypatch):
    """Add packs for one test."""

    def add(*paths):
        monkeypatch.setenv(packs.PACKS_VARIABLE, "")
        catalog.add_packs_to_catalog(paths)
        return catalog.find_catalog_exercise("ex50") if paths else None

    yield add
    monkeypatch.undo()
    catalog.list_catalog_exercises.cache_clear()


@pytest.fixture
def copied(tmp_path):
    """A pack of one's own, to be changed."""
    return shutil.copytree(SAMPLE, tmp_path / "pack", ignore=shutil.ignore_patterns("__pycache__"))


def test_no_pack_is_in_use_unless_it_is_named():
    assert all(e.home == ROOT for e in catalog.list_catalog_exercises())


def _write_new(slug, *options):
    command = [sys.executable, "-m", "grader", "new", slug, *map(str, options)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_new_exercise_is_written_into_the_pack_that_is_named(copied):
    done = _write_new("ex51_two", "--exercises", copied)
    assert done.returncode == 0, done.stderr
    *written, _ = done.stdout.splitlines()
    assert f"{copied}/solutions/ex51_two.py" in written
    assert [line for line in written if not line.startswith(f"{copied}/")] == []
    assert not (ROOT / "solutions/ex51_two.py").exists()


def test_of_several_packs_the_one_for_a_new_exercise_is_asked_for(copied, tmp_path):
    other = tmp_path / "other"
    named = ["--exercises", copied, "--exercises", other]
    assert _write_new("ex51_two", "--into", other).returncode == 0
    done = _write_new("ex52_three", *named)
    says = "2 packs are in use: name the one that gets the exercise: `--into PACK`.\n"
    assert (done.returncode, done.stderr) == (2, says)
    assert _write_new("ex52_three", *named, "--into", other).returncode == 0
    assert (other / "solutions/ex52_three.py").is_file()


def test_it_comes_after_our_own(use):
    use(SAMPLE)
    assert [e.slug for e in catalog.list_catalog_exercises()][-1] == SLUG


def test_an_answer_is_graded_and_its_mistake_is_named(use, graded):
    exercise = use(SAMPLE)
    right = SOLUTION.read_text(encoding="utf-8")
    assert graded(SLUG, right).score.earned == 3
    report = graded(SLUG, right.replace("[..., :-1]", "[..., 1:]"))
    assert report.score.earned == 0
    [named] = report.checks[0].diagnosis.mistakes
    assert named.id == "another_column_left_out"
    says, _ = Words("zh").mistake(SLUG, named.id, named.says, named.mend)
    assert says.startswith("汇点在最后")
    assert Words("zh").title(exercise) == "带汇点的 softmax"


@pytest.mark.parametrize("before", [True, False])
def test_the_option_stands_before_a_command_or_after_it(use, tmp_path, before):
    use()
    answers = shutil.copytree(SAMPLE / "exercises", tmp_path / "answers")
    option = ["--exercises", str(SAMPLE)]
    asked = ["hint", "ex50", "--level", "1", "--submission", str(answers), "--lang", "en"]
    told = CliRunner().invoke(app, [*option, *asked] if before else [*asked, *option])
    assert "What do the weights of a row add up to" in told.stdout


def test_a_folder_that_is_no_pack_is_a_sentence_in_every_command(use):
    use()
    told = CliRunner().invoke(app, ["house", "--exercises", "nowhere"])
    assert told.exit_code == 2
    assert told.stderr.startswith("nowhere is no folder of exercises.")


def test_a_suite_that_cannot_be_imported_is_a_sentence(copied):
    [checks] = copied.glob("suites/*/test_*.py")
    checks.write_text("import nothing_such\n", encoding="utf-8")
    asked = ["hint", "ex50", "--exercises", copied, "--submission", copied / "exercises"]
    done = grader(*asked)
    assert done.returncode == 2
    problem = "(ModuleNotFoundError: No module named 'nothing_such'). Mend it."
    assert done.stderr == f"{checks} cannot be imported {problem}\n"


def test_a_suite_without_checks_is_a_sentence(use, copied):
    """And pytest is not left to collect what lies in the folder from which it was started."""
    exercise = use(copied)
    [checks] = exercise.folder.glob("test_*.py")
    checks.unlink()
    for read in (suite_runner.list_suite_checks, suite_runner.list_suite_cases):
        with pytest.raises(suite_runner.BrokenSuite, match=r"needs one test_\*.py. Write it"):
            read(exercise)


def test_a_class_of_another_process_knows_it(use, tmp_path):
    """The processes of a class run inherit it; a change of its oracle is a change of the judge."""
    use(SAMPLE)
    student = tmp_path / "submissions" / "ada"
    student.mkdir(parents=True)
    shutil.copy(SOLUTION, student)
    done = grader("class", student.parent, "ex50", "-o", tmp_path / "results", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "Every total is 0, because no exercise of this run counts" in done.stdout
    report = json.loads((tmp_path / "results/students/ada/report.json").read_text())
    assert report["further"][0]["score"] == {"earned": 3, "possible": 3, "not_run": 0}


def test_an_appeal_finds_the_packs_of_the_course(use, tmp_path):
    def run(*arguments):
        use()
        return CliRunner().invoke(app, list(map(str, arguments)))

    (tmp_path / "submissions/ada").mkdir(parents=True)
    shutil.copy(SOLUTION, tmp_path / "submissions/ada")
    course, results = tmp_path / "course.toml", tmp_path / "results"
    course.write_text(
        f"packs = ['{SAMPLE}']\nspeed = false\n[[exercises]]\nex = 'ex50'\nweight = 2\n"
    )
    done = run("class", tmp_path / "submissions", "-o", results, "--jobs", 1, "--course", course)
    assert done.exit_code == 0, done.output
    assert "Every total is 0" not in done.output
    report = results / "students/ada/report.json"
    assert json.loads(report.read_text())["mark"]["total"] == 6
    assert "the same" in run("replay", report).output
    course.write_text("")
    for arguments in (
        ("replay", report),
        ("replay", report, "--submission", SOLUTION),
        ("diff", results),
    ):
        told = run(*arguments)
        assert (told.exit_code, told.stderr.count("\n")) == (2, 1), told.output
        assert "no exercise called 'ex50_sink_softmax'" in told.stderr
        assert "`--exercises DIR`" in told.stderr


def test_the_digest_of_the_judge_holds_a_pack_wherever_it_lies(use, copied, monkeypatch):
    digests = {}
    for name, pack in {"here": SAMPLE, "there": copied}.items():
        use(pack)
        source_digest.digest_grading_code.cache_clear()
        digests[name] = source_digest.digest_grading_code(SLUG)
    with (copied / "reference" / f"{SLUG}.py").open("a") as file:
        file.write("\n")
    source_digest.digest_grading_code.cache_clear()
    assert digests["here"] == digests["there"] != source_digest.digest_grading_code(SLUG)
    source_digest.digest_grading_code.cache_clear()


def test_its_notebook_and_its_bundle_are_made_as_ours_are(use, tmp_path):
    exercise = use(SAMPLE)
    built = notebook_pages.write_released_notebook(
        notebook_pages.build_released_notebook(exercise, Words("en"))
    )
    assert f'check(\\"{SLUG}\\", \\"sink_softmax\\")  # 3 points' in built
    made = tmp_path / "built.ipynb"
    made.write_text(built)
    archive = zipfile.ZipFile(io.BytesIO(bundle.build_open_bundle([exercise], {SLUG: made})))
    names = {name.removeprefix("attention-by-hand/") for name in archive.namelist()}
    assert {
        f"grader/suites/{SLUG}/test_sink_softmax.py", f"reference/{SLUG}.py",
        f"exercises/{SLUG}.py", f"docs/lessons/{SLUG}.zh.md",
    } <= names  # fmt: skip
    assert not {n for n in names if n.endswith("variants.py") or n.startswith("solutions/")}
    archive.extractall(tmp_path)
    home = tmp_path / "attention-by-hand"
    told = subprocess.run(
        [sys.executable, "-m", "grader", "hint", "ex50", "--lang", "en"],
        cwd=home, env=os.environ | {"PYTHONPATH": str(home), packs.PACKS_VARIABLE: ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "What do the weights of a row add up to" in told.stdout


def test_its_lesson_is_on_the_page_and_in_a_learners_folder(use):
    exercise = use(SAMPLE)
    lesson = (SAMPLE / f"docs/lessons/{SLUG}.en.md").read_text(encoding="utf-8")
    title = lesson.partition("# ")[2].partition("\n")[0]
    assert title in render_lesson(exercise, Words("en"))
    files = dict(list_handed_files("en"))
    assert title in files[f"docs/lessons/{SLUG}.en.md"].decode()
    assert SLUG in {Path(name).stem for name, _ in list_handed_notebooks("en", "")}


def test_what_is_generated_goes_into_the_pack(use, copied):
    use(copied)
    shutil.rmtree(copied / "exercises")
    written = dict(skeletons.write_all_skeletons())
    assert written[str(copied / "exercises" / f"{SLUG}.py")] == "written"
    assert (copied / "exercises" / f"{SLUG}.py").read_text() == (
        SAMPLE / "exercises" / f"{SLUG}.py"
    ).read_text()
    assert {what for path, what in written.items() if "pack" not in path} <= {"in step", "yours"}


def test_the_house_looks_into_it(use, copied):
    assert exercise_rules.list_broken_exercise_laws(use(SAMPLE)) == []
    (copied / "reference" / f"{SLUG}.py").unlink()
    [complaint] = exercise_rules.list_broken_exercise_laws(use(copied))
    assert complaint.startswith(f"reference/{SLUG}.py is missing.")


def test_a_helper_that_a_release_would_leave_out_is_a_breach(use, copied):
    exercise = use(copied)
    assert list(exercise_rules.check_files_law(exercise)) == []
    (copied / "reference" / f"{SLUG}_tables.py").touch()
    (copied / "reference" / "tables.py").touch()
    [told] = exercise_rules.check_files_law(exercise)
    assert told.startswith("reference/tables.py belongs to no exercise, and a release leaves it")


def test_no_answer_may_read_it(use, copied, monkeypatch):
    """Not even where it lies below something that an answer may read, such as the packages."""
    monkeypatch.setattr(readable_paths, "find_worker_site_folders", lambda: [str(copied.parent)])
    use(copied)
    seen = readable_paths.collect_worker_paths(on_cuda=False)
    assert str(copied.parent) in seen.read
    assert str(copied) in seen.hidden


def _broken(pack, name, text):
    (pack / "suites" / SLUG / name).write_text(text)
    return pack


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda p: p / "nowhere", "is no folder of exercises. Name the folder above its suites/."),
        (lambda p: SOLUTION, "is no folder of exercises."),
        (lambda p: p / "solutions", "There is no suites/<slug>/exercise.toml in"),
        (lambda p: _broken(p, "exercise.toml", "title = "), "is not valid TOML"),
        (lambda p: _broken(p, "exercise.toml", "title = 'x'\n"), "order is missing. Add it."),
        (lambda p: (p / "suites" / SLUG).rename(p / "suites/ex01_mine").parents[1],
         "has the number of"),
    ],
)  # fmt: skip
def test_what_is_no_pack_gets_a_sentence(copied, make, says, use):
    with pytest.raises((packs.BadPack, BadFile), match=says):
        use(make(copied))


def test_two_packs_with_the_same_exercise_get_a_sentence(use, copied):
    with pytest.raises(packs.BadPack, match="give ex50_sink_softmax another number"):
        use(SAMPLE, copied)


def test_its_suite_can_be_run_with_pytest(tmp_path):
    shutil.copy(SOLUTION, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "grader/suites/pytest.ini", SUITE,
         "--submission", tmp_path],
        cwd=ROOT, env=os.environ | {packs.PACKS_VARIABLE: str(SAMPLE)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "9 passed" in done.stdout, done.stdout
