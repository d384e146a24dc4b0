"""`grader similar`: what it prints, and how it ends."""

import os
import random
import subprocess
import sys
from functools import partial

import pytest
from typer.testing import CliRunner

from grader.cli.app import app
from grader.core.catalog import ROOT
from grader.core.this_python import build_pip_install_command
from grader.core.translation import Words
from tests.course.copying import SLUG, copy, handed_in, honest, variant


@pytest.fixture
def hand_in(tmp_path):
    """hand_in({"ada": source, ...}) -> the folder of these submissions."""
    return partial(handed_in, tmp_path)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_command_prints_the_pairs_and_that_they_prove_nothing(hand_in, language):
    folder = hand_in({"[b]ada": variant(0), "ben": copy(variant(0)), "cem": variant(1)})
    done = CliRunner().invoke(
        app, ["similar", str(folder), SLUG, "--lang", language, "--most", "1"]
    )
    assert done.exit_code == 0, done.output
    [row] = [line.split() for line in done.output.splitlines() if "ada" in line]
    assert row[1:4] == ["[b]ada", "ben", SLUG]
    proves = Words(language)("No two are alike enough to be listed.")
    assert proves not in done.output
    assert ("They prove nothing" if language == "en" else "不能证明什么") in done.output


def test_the_command_ends_well_where_nothing_is_found(hand_in):
    done = CliRunner().invoke(
        app, ["similar", str(hand_in({"ada": variant(0)})), SLUG, "--lang", "en"]
    )
    assert done.exit_code == 0
    assert "No two are alike enough to be listed." in done.output


@pytest.mark.parametrize("also", [[], ["--also", "nowhere"]])
def test_a_folder_without_answers_is_a_sentence(hand_in, tmp_path, also):
    folder = hand_in({"ada": variant(0)}) if also else tmp_path
    done = CliRunner().invoke(app, ["similar", str(folder), *also, "--lang", "en"])
    assert done.exit_code == 2
    assert done.output.startswith("nowhere is not there" if also else "There is no student in")


def test_without_copydetect_the_command_says_how_to_get_it(hand_in, monkeypatch):
    monkeypatch.setitem(sys.modules, "copydetect", None)
    done = CliRunner().invoke(app, ["similar", str(hand_in({"ada": variant(0)})), "--lang", "en"])
    assert done.exit_code == 2
    cure = f"`{build_pip_install_command('copydetect')}`, or `make similar`.\n"
    assert done.output == f"Comparing needs copydetect: {cure}"


def test_a_page_that_cannot_be_written_is_a_sentence(hand_in, tmp_path):
    folder, page = hand_in({"ada": variant(0)}), tmp_path / "nowhere" / "page.html"
    done = CliRunner().invoke(app, ["similar", str(folder), SLUG, "-o", str(page), "--lang", "en"])
    assert done.exit_code == 2
    assert done.output.endswith(f"{page} cannot be written: No such file or directory.\n")


def test_the_list_is_the_same_in_every_process(hand_in):
    """Hashes of texts differ from process to process."""
    chance = random.Random(2)
    folder = hand_in({f"s{number}": honest(SLUG, chance) for number in range(10)})
    command = [sys.executable, "-c", "from grader.cli.app import app; app()", "similar"]
    outputs = {
        subprocess.run(
            [*command, str(folder), SLUG, "--lang", "en"], capture_output=True, cwd=ROOT,
            check=True, env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(outputs) == 1
