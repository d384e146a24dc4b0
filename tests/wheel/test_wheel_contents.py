"""What the wheel holds: all that grading needs, and no right answer in a student's form."""

import configparser
import importlib
import re
import zipfile

import pytest
import typer
from typer.testing import CliRunner

from grader.authoring.skeletons import find_skeleton_copy
from grader.cli import global_options
from grader.cli.app import app
from grader.core.catalog import ROOT, list_catalog_exercises
from grader.core.installed_copies import COPIES_FOLDER
from grader.release.bundle import is_file_bundled
from grader.submission.answer_file import is_submission_text_untouched

COMMANDS = set(typer.main.get_command(app).commands)
EXERCISES = list_catalog_exercises()


@pytest.fixture(scope="module")
def packed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        yield {
            name: archive.read(name)
            for name in archive.namelist()
            if ".dist-info/" not in name and not name.endswith("/")
        }


def test_the_wheel_has_every_file_of_the_grader_that_the_open_bundle_has(packed):
    drafts = [e.slug for e in EXERCISES if e.draft]
    ours = {
        path.relative_to(ROOT).as_posix()
        for folder in ("grader", "reference")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and is_file_bundled(path, drafts)
    }
    copies = {n for n in packed if n.startswith((f"{COPIES_FOLDER}/", "grader/skeletons/"))}
    assert packed.keys() - copies == ours
    assert len(copies) > 2 * len(EXERCISES)


def test_no_file_has_the_text_of_a_solution_or_of_a_right_variant(packed):
    names = [name.rpartition("/")[2] for name in packed]
    assert "variants.py" not in names
    assert not [name for name in packed if name.startswith(("solutions/", "tests/", "exercises/"))]
    texts = {e.solution.read_bytes() for e in EXERCISES}
    texts |= {path.read_bytes() for path in ROOT.glob("grader/suites/*/variants.py")}
    assert texts.isdisjoint(packed.values())


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_every_exercise_has_its_skeleton_and_both_lessons(packed, exercise):
    assert is_submission_text_untouched(packed[find_skeleton_copy(exercise)].decode())
    for language in ("en", "zh"):
        name = f"docs/lessons/{exercise.slug}.{language}.md"
        assert packed[f"{COPIES_FOLDER}/{name}"] == (ROOT / name).read_bytes()


def test_no_link_of_the_description_leads_to_a_file_of_the_project(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        _, _, told = archive.read(name).decode().partition("\n\n")
    links = re.findall(r"\]\(([^)]*)\)", told)
    assert links and all(link.startswith("https://") for link in links)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/" in readme
    bare = re.sub(r"^!.*\n|\]\([^)]*\)", "", readme, flags=re.M)
    assert re.findall(r"\w+", re.sub(r"\]\([^)]*\)", "", told)) == re.findall(r"\w+", bare)


def test_both_scripts_lead_to_a_function(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith("/entry_points.txt")]
        parser = configparser.ConfigParser()
        parser.read_string(archive.read(name).decode())
    scripts = dict(parser["console_scripts"])
    assert scripts.keys() == {"attention-by-hand", "grader"}
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_help_lists_what_can_be_run_without_the_solutions(monkeypatch):
    def listed() -> set[str]:
        said = CliRunner().invoke(app, ["--help"]).stdout
        return {name for name in COMMANDS if re.search(rf"^\W*{name} ", said, re.MULTILINE)}

    assert listed() == COMMANDS
    monkeypatch.setattr(global_options, "is_project_whole", lambda: False)
    assert listed() == COMMANDS - set(global_options.OF_WHOLE_PROJECT)
    assert set(global_options.OF_WHOLE_PROJECT) <= COMMANDS
