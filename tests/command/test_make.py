"""The Makefile: its list of targets, and what it would install from where."""

import os
import subprocess

import pytest

from grader.core.catalog import ROOT

PUBLIC = "https://download.pytorch.org/whl/"


def make(*args: str, **environment: str) -> str:
    """What `make` prints; pip is told of no index unless `environment` says so."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    clean |= {"PIP_CONFIG_FILE": os.devnull} | environment
    done = subprocess.run(["make", *args], cwd=ROOT, env=clean, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_make_alone_lists_every_target_with_a_sentence():
    lines = make().splitlines()
    listed = [line.split() for line in lines if line.startswith("  make ")]
    names = [words[1] for words in listed]
    assert {"grade", "test", "lint", "skeletons", "mutants", "house", "gpu-check", "clean"} <= set(
        names
    )
    assert all(len(words) > 3 for words in listed)
    parts = ["To learn", "To teach", "To work on the project"]
    firsts = [
        next(x for x in lines if x.startswith(f"  make {g} ")) for g in ("grade", "release", "test")
    ]
    places = [lines.index(x) for pair in zip(parts, firsts, strict=True) for x in pair]
    assert places == sorted(places)


@pytest.mark.parametrize("torch, index", [("cpu", "cpu"), ("cuda", "cu130")])
def test_torch_chooses_pytorchs_public_index(torch, index):
    assert make("print-install", f"TORCH={torch}").strip().endswith(f"{PUBLIC}{index}")


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"])
def test_an_index_set_in_the_environment_wins(name):
    assert PUBLIC not in make("print-install", **{name: "https://mirror.example/simple"})
