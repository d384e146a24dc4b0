"""A draft is graded and shown as one, and left out of everything that counts or is handed out."""

import io
import json
import zipfile
from dataclasses import replace

import jsonschema
import pytest
from rich.console import Console
from typer.testing import CliRunner

from grader.authoring import exercise_index
from grader.classroom.run import class_grading
from grader.cli import app
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.errors import UserError
from grader.core.records import Score
from grader.core.translation import Words
from grader.release import bundle
from grader.release import course_release as course
from grader.reporting import as_json, from_json, html, terminal
from grader.reporting.class_summary import GradedStudent, summarise_class_reports
from grader.reporting.next_step import StepKind, choose_reported_next_step
from tests.reporting.samples import exercise, report

SLUG = "ex02_masking"
SCHEMA = json.loads((ROOT / "grader/reporting/report.v1.schema.json").read_text())


@pytest.fixture(autouse=True)
def one_draft(monkeypatch):
    """ex02 is a draft."""
    draft = replace(catalog.find_catalog_exercise(SLUG), draft=True, track="draft")
    others = [e for e in catalog.list_catalog_exercises() if e.slug != SLUG]
    monkeypatch.setattr(catalog, "list_catalog_exercises", lambda: (*others, draft))
    return draft


DRAFT = exercise(SLUG, track="draft")
DONE = exercise("ex01_softmax", track="core")
BOTH = report(DONE, DRAFT)


def test_a_manifest_makes_a_draft_of_neither_track(tmp_path):
    text = (ROOT / "grader/suites" / SLUG / "exercise.toml").read_text(encoding="utf-8")
    path = tmp_path / "exercise.toml"
    path.write_text(f"draft = true\n{text}", encoding="utf-8")
    found = catalog.read_exercise_manifest(path)
    assert (found.draft, found.track) == (True, "draft")


def test_the_total_leaves_it_out():
    assert BOTH.score == DONE.score
    assert report(DRAFT).score == Score(earned=0, possible=0, not_run=0)


def test_the_total_of_a_class_leaves_it_out(one_draft):
    summary = summarise_class_reports(
        [GradedStudent(report=BOTH)], [catalog.find_catalog_exercise("ex01"), one_draft]
    )
    assert summary.rows[0].total == DONE.score.earned
    assert [figures.exercise.slug for figures in summary.further] == [SLUG]


def test_json_says_so_and_is_read_back():
    found = as_json.convert_report_to_dict(BOTH)
    jsonschema.validate(found, SCHEMA)
    assert [e.get("draft") for e in found["exercises"]] == [None]
    assert [(e["slug"], e["draft"]) for e in found["further"]] == [(SLUG, True)]
    assert [e.track for e in from_json.parse_report_json(json.dumps(found)).exercises] == [
        "core",
        "draft",
    ]


@pytest.mark.parametrize(
    "language, said, title", [("en", "draft · ", "(draft)"), ("zh", "草稿 · ", "（草稿）")]
)
def test_the_terminal_says_so(language, said, title):
    console = Console(file=io.StringIO(), width=100)
    terminal.print_terminal_report(BOTH, console, Words(language))
    terminal.print_terminal_report(report(DRAFT), console, Words(language))
    printed = console.file.getvalue()
    assert printed.count(said) == 2
    assert title in printed


@pytest.mark.parametrize("language, title", [("en", "Masking (draft)"), ("zh", "掩码（草稿）")])
def test_the_page_says_so(language, title):
    assert f"<h2>{title}</h2>" in html.render_html_report(BOTH, Words(language))


def test_nobody_is_sent_to_it_who_has_something_else():
    fine = replace(DONE, checks=DONE.checks[:1], speed=None)
    assert choose_reported_next_step(report(fine, DRAFT)).kind is StepKind.NOTHING
    assert choose_reported_next_step(report(DRAFT)).exercise is DRAFT


def test_the_page_of_all_exercises_leaves_it_out():
    assert SLUG not in exercise_index.render_generated_page()


def test_no_bug_hunt_is_drawn_from_it(tmp_path, monkeypatch, one_draft):
    few = (catalog.find_catalog_exercise("ex01"), one_draft, catalog.find_catalog_exercise("ex17"))
    monkeypatch.setattr(catalog, "list_catalog_exercises", lambda: few)
    drill = ["drill", SLUG, "--submission", str(tmp_path), "--isolation", "process"]
    done = CliRunner().invoke(app.app, drill)
    assert done.exit_code == 2
    assert f"Nothing is drawn from {SLUG}: it has no drills." in done.stderr


@pytest.mark.parametrize("named, goes", [(False, False), (True, True)])
def test_a_bundle_has_it_only_if_it_is_released(one_draft, named, goes):
    released = [catalog.find_catalog_exercise("ex01"), *([one_draft] if named else [])]
    names = zipfile.ZipFile(io.BytesIO(bundle.build_gradescope_bundle(released))).namelist()
    there = {f"grader/suites/{SLUG}/exercise.toml", f"reference/{SLUG}.py"} & set(names)
    assert bool(there) == goes
    assert "reference/ex01_softmax.py" in names


@pytest.mark.parametrize("names, goes", [([], False), ([SLUG], True)])
def test_a_release_leaves_it_out_unless_it_is_named(monkeypatch, tmp_path, names, goes):
    released = []
    monkeypatch.setattr(
        course, "release_course", lambda out, exercises, terms: released.extend(exercises) or []
    )
    done = CliRunner().invoke(app.app, ["release", *names, "-o", str(tmp_path)])
    assert done.exit_code == 0
    assert (SLUG in [e.slug for e in released]) == goes
    told = f"Left out, since a draft is taken by its name alone: {SLUG}."
    assert (told in done.stdout) == (not goes)


@pytest.mark.parametrize("names, goes", [([], False), ([SLUG], True)])
def test_a_class_is_told_that_it_is_left_out(monkeypatch, tmp_path, names, goes):
    asked = []

    def stopped(what, *_, **__):
        asked.extend(what.exercises)
        raise UserError("That is all.")

    monkeypatch.setattr(class_grading, "grade_class", stopped)
    done = CliRunner().invoke(app.app, ["class", str(tmp_path), *names, "--lang", "en"])
    assert "That is all." in done.stderr
    assert (SLUG in [e.slug for e in asked]) == goes
    told = f"Left out, since a draft is taken by its name alone: {SLUG}."
    assert (told in done.stdout) == (not goes)
