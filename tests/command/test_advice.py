"""Commands in sentences: goals of `make` where our Makefile lies, and the command itself elsewhere."""

import ast
import re
from pathlib import Path

import pytest
import typer

from grader.cli.app import app
from grader.core import advice, this_python
from grader.core.catalog import ROOT, find_catalog_exercise
from grader.core.translation import Words

COMMANDS = set(typer.main.get_command(app).commands)
SAID = [
    ("`make hint EX=ex01_softmax` gives a hint.", "`OWN hint ex01_softmax` gives a hint."),
    ("`make hint EX=ex01 ARGS='--level 2'`", "`OWN hint ex01 --level 2`"),
    ("`make hint EX=ex01 ARGS=--solution`", "`OWN hint ex01 --solution`"),
    ('`make drill EX=ex05 ARGS="--seed 4711"`', "`OWN drill ex05 --seed 4711`"),
    ("  make grade EX=ex01 EXERCISES='my pack' SUBMISSION=a/b.py", "  OWN grade ex01 --exercises 'my pack' --submission a/b.py"),
    ("Try another wall: `make grade ISOLATION=process`.", "Try another wall: `OWN grade --isolation process`."),
    ("seed 4711 (SEED=4711 repeats)", "seed 4711 (--seed 4711 repeats)"),
    ("unchanged (FRESH=1 judges it again)", "unchanged (--fresh judges it again)"),
    ("Leave out SEED= and DEVICE=.", "Leave out --seed and --device."),
    ("name one (EX=ex01_softmax).", "name one (ex01_softmax)."),
    ("x.py is not there. `make reset EX=x` writes it.", "x.py is not there. `OWN reset x` writes it."),
    ("two rows make one tile", "two rows make one tile"),
    ("with the mask M=1 and EXTRA=3", "with the mask M=1 and EXTRA=3"),
]  # fmt: skip


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(advice, "find_own_command", lambda: "OWN")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("with_make, without", SAID)
def test_without_a_makefile_the_command_itself_is_named(elsewhere, with_make, without):
    assert advice.fit_advice(with_make) == without


@pytest.mark.parametrize("with_make, _", SAID)
def test_where_our_makefile_lies_its_goals_are_named(monkeypatch, with_make, _):
    monkeypatch.chdir(ROOT)
    assert advice.fit_advice(with_make) == with_make


def test_the_makefile_of_another_project_is_none_of_ours(elsewhere):
    Path("Makefile").write_text("all: ## build\n\tcc x.c\n")
    assert advice.fit_advice("`make doctor`") == "`OWN doctor`"


@pytest.fixture
def in_a_learners_folder(tmp_path, elsewhere):
    (tmp_path / "Makefile").write_text("help: ## list\n\nhint: ## the next hint\n")


@pytest.mark.parametrize("installed, by_make, told", [
    (True, False, "`OWN hint ex01`"),
    (True, True, "`make hint EX=ex01`"),
    (False, False, "`make hint EX=ex01`"),
])  # fmt: skip
def test_a_learner_who_called_the_installed_command_itself_is_told_of_that_command(
    in_a_learners_folder, monkeypatch, installed, by_make, told
):
    monkeypatch.setattr(advice, "is_wheel_installed", lambda: installed)
    monkeypatch.delenv("MAKELEVEL", raising=False)
    if by_make:
        monkeypatch.setenv("MAKELEVEL", "1")
    assert advice.fit_advice("`make hint EX=ex01`") == told


def test_without_make_a_makefile_is_of_no_use(in_a_learners_folder, monkeypatch):
    monkeypatch.setattr(advice, "_is_make_installed", lambda: False)
    assert (
        advice.fit_advice("unchanged (FRESH=1 judges it again)")
        == "unchanged (--fresh judges it again)"
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_hints_and_cures_of_a_suite_fit(elsewhere, language):
    words, hunt = Words(language), find_catalog_exercise("ex17_bug_hunt")
    assert "`OWN drill --again`" in words.hints(hunt, "drill")[0]
    assert "`OWN drill`" in words.mistake("ex17_bug_hunt", "", "", "As `make drill` wrote it.")[1]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_sentences_in_both_languages_fit(elsewhere, language):
    told = Words(language)("`make hint EX={slug}` gives a hint.", slug="ex01")
    assert told.startswith("`OWN hint ex01`")
    there = "`make hint EX={slug} SUBMISSION={path}` gives a hint."
    told = Words(language)(there, slug="ex01", path="a/ex01.py")
    assert "`OWN hint ex01 --submission a/ex01.py`" in told
    assert "`OWN doctor`" in Words(language).said("`make doctor` says which.")


def test_what_a_student_wrote_stays(elsewhere):
    wrote = "out is 'make grade SEED=3', but should be 1"
    assert Words().said(wrote) == wrote
    assert Words()("{text}", text=wrote) == wrote


def test_every_goal_that_a_sentence_names_has_a_command():
    """Sentences of teachers and authors name the goals of the project's own Makefile."""
    only_in_the_project = {"release", "house", "new", "clean"}
    named = set()
    for path in (ROOT / "grader").rglob("*.py"):
        if {"authoring", "suites", "release", "gpu_check"}.isdisjoint(path.parts):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    named |= set(re.findall(r"`make ([a-z-]+)", node.value))
    assert named - only_in_the_project <= advice._GOALS.keys() | {"bench-stopping", "gpu-check"}
    assert set(advice._GOALS.values()) <= COMMANDS


def test_the_own_command_is_its_path_where_the_shell_would_not_find_it(tmp_path, monkeypatch):
    script = tmp_path / "bin" / this_python.SCRIPT
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setattr(this_python.sysconfig, "get_path", lambda _: str(script.parent))
    monkeypatch.setenv("PATH", "/nowhere")
    assert this_python.find_own_command() == str(script)
    monkeypatch.setenv("PATH", str(script.parent))
    assert this_python.find_own_command() == this_python.SCRIPT
    monkeypatch.setenv("UV", "/usr/bin/uv")
    monkeypatch.setattr(this_python.sys, "prefix", "/home/ada/.cache/uv/archive-v0/x1")
    assert this_python.find_own_command() == "uvx 'attention-by-hand[learn]'"


PLACED = [
    ("`make hint EX=ex01` gives a hint.", "`make hint EX=ex01 SUBMISSION='my answers'` gives a hint."),
    ("`make reset EX={slug}`", "`make reset EX={slug} SUBMISSION='my answers'`"),
    ("`make hint EX=ex01 ARGS='--level 2'`", "`make hint EX=ex01 ARGS='--level 2' SUBMISSION='my answers'`"),
    ("`make hint EX=ex01 SUBMISSION=a/b.py`", "`make hint EX=ex01 SUBMISSION=a/b.py`"),
    ("`make interview EX=ex01`", "`make interview EX=ex01`"),
    ("`make doctor`", "`make doctor`"),
]  # fmt: skip


@pytest.mark.parametrize("usual, placed", PLACED)
def test_commands_name_the_place_of_the_answers(monkeypatch, usual, placed):
    monkeypatch.chdir(ROOT)
    with advice.name_place_in_advice(Path("my answers"), Path("exercises")):
        assert advice.fit_advice(usual) == placed
    with advice.name_place_in_advice(Path("exercises"), Path("exercises")):
        assert advice.fit_advice(usual) == usual
    assert advice.fit_advice(usual) == usual
