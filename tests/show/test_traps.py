"""The pages on the three traps show what the demonstrations print."""

import re
import subprocess
import sys
from functools import cache

import pytest

from tests.conftest import ROOT

TRAPS = ("no_scale", "mixed_dimensions", "mask_polarity")
PAGES = ("docs/traps.en.md", "docs/traps.zh.md")
# Numbers that are no results: those of the text's own argument, and the sizes in the scripts.
SAID = {"1", "2", "3", "0", "40"}


@cache
def printed(name):
    done = subprocess.run([sys.executable, "-W", "error", f"docs/traps/{name}.py"], cwd=ROOT,
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.rstrip()


@cache
def sections(page):
    """The text of each trap."""
    return re.split(r"(?m)^## ", (ROOT / page).read_text(encoding="utf-8"))[1:]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("number, name", list(enumerate(TRAPS)))
def test_the_output_on_the_page_is_what_the_script_prints(page, number, name):
    section = sections(page)[number]
    assert f"`python docs/traps/{name}.py`" in section
    assert re.findall(r"```text\n(.*?)\n```", section, re.DOTALL) == [printed(name)]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("number, name", list(enumerate(TRAPS)))
def test_every_number_in_the_text_is_in_the_output_or_the_script(page, number, name):
    prose = re.sub(
        r"```.*?```|`(?:make|python) [^`]*`", "", sections(page)[number], flags=re.DOTALL
    )
    known = printed(name) + (ROOT / f"docs/traps/{name}.py").read_text(encoding="utf-8")
    numbers = set(re.findall(r"\d+(?:\.\d+)?%?", prose)) - SAID
    found = set(re.findall(r"\d+(?:\.\d+)?%?", known))
    assert numbers - found == set()


@pytest.mark.parametrize("number, name", list(enumerate(TRAPS)))
def test_both_languages_tell_the_same_numbers(number, name):
    english, chinese = (sorted(set(re.findall(r"\d+\.\d+%?", sections(p)[number]))) for p in PAGES)
    assert english == chinese


def test_the_demonstrations_are_short():
    for name in TRAPS:
        assert len((ROOT / f"docs/traps/{name}.py").read_text().splitlines()) <= 40


def test_what_the_pages_claim_of_the_first_trap():
    without, with_scale = (
        [[float(x.rstrip("%")) for x in line.split()] for line in table.splitlines()[2:]]
        for table in printed("no_scale").split("\n\n")
    )
    for width, std, *_ in without:
        assert std == pytest.approx(width**0.5, rel=0.02)
    assert [row[4] for row in without][-1] < 0.001
    assert len({round(row[3], 1) for row in with_scale}) <= 3  # the entropy hardly depends on D
