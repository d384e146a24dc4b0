"""The container for development: what it names and runs is there."""

import json
import re

from grader.core.catalog import ROOT

FOLDER = ROOT / ".devcontainer"
GOALS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def made() -> dict:
    return json.loads((FOLDER / "devcontainer.json").read_text())


def test_what_it_runs_when_it_is_made_exists():
    goals = re.findall(r"\bmake ([a-z-]+)", made()["postCreateCommand"])
    assert goals and set(goals) <= GOALS


def test_its_file_installs_what_the_strongest_wall_and_kernels_need():
    text = (FOLDER / made()["build"]["dockerfile"]).read_text()
    [installed] = re.findall(r"apt-get install (.*?)\\", text)
    assert {"bubblewrap", "g++", "make"} <= set(installed.split())
    assert re.search(r"^FROM mcr\.microsoft\.com/devcontainers/python:3\.1[1-9]", text)


def test_every_option_is_explained():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    options = [argument.partition("=")[2] for argument in made()["runArgs"]]
    assert options and all(f"| `{option}` |" in page for option in options)


def test_the_editor_finds_the_environment_that_make_makes():
    settings = made()["customizations"]["vscode"]["settings"]
    assert settings["python.defaultInterpreterPath"].endswith("/.venv/bin/python")
    assert made()["containerEnv"]["TORCH"] in ("cpu", "cuda")
