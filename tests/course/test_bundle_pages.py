"""The pages of a bundle speak of what the bundle has: no dead link, no command that is refused."""

import io
import json
import posixpath
import re
import subprocess
import zipfile

import pytest

from grader.cli import global_options
from grader.core import catalog
from grader.release import bundle
from grader.release.bundle_pages import fit_pages_to_bundle
from grader.release.sealed import bundle_contents
from grader.release.sealed.record_cases import Recorded

ALL = [e.slug for e in catalog.list_catalog_exercises() if not e.draft]
READMES = ("README.md", "README.zh-CN.md")
SEALED_GOALS = {"show", "bench", "drill", "class"}


def unzipped(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return {name.removeprefix(f"{bundle.TOP_FOLDER}/"): found for name, found in files.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made("open", slugs) -> the files of a bundle of these exercises."""
    folder = tmp_path_factory.mktemp("notebooks")

    def build(kind, slugs, course=""):
        exercises = [catalog.find_catalog_exercise(slug) for slug in slugs]
        notebooks = {slug: folder / f"{slug}.ipynb" for slug in slugs}
        for path in notebooks.values():
            path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4}))
        if kind == "open":
            return unzipped(bundle.build_open_bundle(exercises, notebooks, course))
        if kind == "gradescope":
            return unzipped(bundle.build_gradescope_bundle(exercises))
        recorded = [Recorded(slug=slug, content=b"", left_out={}) for slug in slugs]
        return unzipped(
            bundle_contents.build_sealed_bundle(exercises, notebooks, recorded, "a seed")
        )

    return build


BOTH = [ALL, ["ex02_masking", "ex04_heads"]]
NAMED_GOAL = re.compile(r"(?:`|&&\s|^\s*(?:- run: )?)make\s+([a-z][a-z-]*)", re.M)


def texts_of(files):
    """What people read of a bundle; not what a bug hunt says of the command that drew it.

    A bundle cannot draw one, and a hunt that the teacher has drawn is handed out with its lesson.
    """
    for name, content in files.items():
        read = name.endswith((".md", ".ipynb", ".yml")) or name.startswith("exercises/")
        if read and not name.startswith("grader/") and "ex17_bug_hunt" not in name:
            yield name, re.sub(r"^Not here: .*?\.$", "", content.decode(), flags=re.M | re.S)


@pytest.mark.parametrize("slugs", BOTH, ids=["all", "two"])
@pytest.mark.parametrize("kind", ["open", "sealed"])
def test_every_goal_that_a_text_names_can_be_made_there(made, kind, slugs, tmp_path):
    files = made(kind, slugs)
    makefile = files["Makefile"].decode()
    goals = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M)) | {"print-install"}
    goals -= SEALED_GOALS if kind == "sealed" else set()
    named = {(name, goal) for name, text in texts_of(files) for goal in NAMED_GOAL.findall(text)}
    assert [(name, goal) for name, goal in sorted(named) if goal not in goals] == []
    assert {"grade", "hint", "watch", "learn", "doctor"} <= {goal for _, goal in named}
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes(files[name])
    for goal in sorted({goal for _, goal in named}):
        tried = subprocess.run(
            ["make", "-n", goal, "PYTHON=python"], cwd=tmp_path, capture_output=True
        )
        assert (goal, tried.returncode) == (goal, 0)
        assert b"needs the whole project" not in tried.stdout


@pytest.mark.parametrize("kind", ["open", "sealed"])
def test_every_goal_of_a_command_that_needs_solutions_is_refused(made, kind):
    makefile = made(kind, ["ex02_masking"])["Makefile"].decode()
    goals = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M))
    assert goals & {*global_options.OF_WHOLE_PROJECT} == set()


def test_pages_for_teachers_and_authors_are_not_handed_to_students(made):
    names = {name for name in made("open", ALL) if name.startswith((".github/", "docs/"))}
    assert not names & {
        ".github/CONTRIBUTING.md", "docs/authors.md", "docs/instructors.md", "docs/evidence.md",
        "docs/architecture.svg",
    }  # fmt: skip
    assert {"docs/exercises.md", "docs/allowed.md", "docs/trust.md", "docs/traps.en.md"} <= names


def test_no_page_says_from_what_it_is_generated(made):
    assert [name for name, text in texts_of(made("open", ALL)) if "Generated from" in text] == []


def dead_anchors(files):
    for name in (name for name in files if name.endswith(".md")):
        text = files[name].decode()
        headings = re.findall(r"^#+ (.*)$", text, re.M)
        there = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
        yield from ((name, one) for one in re.findall(r"\]\(#([^)]+)\)", text) if one not in there)


def dead_links(files):
    for name in (name for name in files if name.endswith(".md")):
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", files[name].decode()):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            if not any(file == path or file.startswith(f"{path}/") for file in files):
                yield name, target


@pytest.mark.parametrize("slugs", BOTH, ids=["all", "two"])
@pytest.mark.parametrize("kind", ["open", "sealed", "gradescope"])
def test_no_link_of_any_bundle_is_dead(made, kind, slugs):
    files = made(kind, slugs)
    assert [*dead_links(files), *dead_anchors(files)] == []
    assert sum(file.endswith(".md") for file in files) > 10


SPEED_WORDS = (
    "The second number",
    "speed points",
    "add up to 100",
    "第二个数",
    "的速度分",
    "合计 100",
)


@pytest.mark.parametrize("page", READMES)
@pytest.mark.parametrize("kind", ["open", "sealed"])
def test_the_readme_of_a_bundle_without_speed_has_no_points_for_it(made, kind, page):
    text = made(kind, ALL, "speed = false\n")[page].decode()
    assert [words for words in (*SPEED_WORDS, "make bench") if words in text] == []
    assert re.findall(r"^\| ex\d\d.*\+ \d+ \|$", text, re.M) == []
    assert re.search(r"^\| ex03_sdpa \|.*\| 13 \|$", text, re.M)
    assert {"en": "count in no total", "zh": "不计入总分"}["zh" if "zh" in page else "en"] in text


@pytest.mark.parametrize("page", READMES)
def test_the_readme_of_a_bundle_with_speed_has_points_for_it(made, page):
    text = made("open", ALL, "speed = true\n")[page].decode()
    assert sum(words in text for words in SPEED_WORDS) == len(SPEED_WORDS) / 2
    assert "make bench" in text
    assert re.search(r"^\| ex03_sdpa \|.*\| 13 \+ 3 \|$", text, re.M)


@pytest.mark.parametrize("page", READMES)
@pytest.mark.parametrize("kind", ["open", "sealed"])
def test_the_readme_names_what_is_there(made, kind, page):
    files = made(kind, ["ex02_masking", "ex04_heads"])
    text = files[page].decode()
    assert {name[:4] for name in re.findall(r"ex\d\d\w*", text)} == {"ex02", "ex04"}
    assert re.findall(r"^\| (ex\d\d\w+) ", text, re.M) == ["ex02_masking", "ex04_heads"]
    makefile = files["Makefile"].decode()
    refused = set(makefile.rpartition("\n\n")[2].partition(":")[0].split())
    assert {"test", "weekly"} <= refused
    goals = set(re.findall(r"make ([a-z-]+)", text))
    assert not goals & (refused | (SEALED_GOALS if kind == "sealed" else set()))
    assert {"grade", "watch", "hint", "reset", "debug"} <= goals
    assert "solutions shows" not in text and "SUBMISSION=solutions" not in text
    assert "100" not in text
    assert ("traps" in text) == (kind == "open")


@pytest.mark.parametrize("page", READMES)
def test_of_the_whole_only_what_needs_the_project_is_left_out(made, page):
    project = (catalog.ROOT / page).read_text(encoding="utf-8")
    text = made("open", ALL)[page].decode()
    gone = [line for line in project.splitlines() if line not in text]
    assert any("SUBMISSION=solutions" in line for line in gone)
    needs_project = r"SUBMISSION=solutions|make (drill|site)|docs/(authors|instructors|similar|architecture|evidence)"
    assert [line for line in gone if not re.search(needs_project, line)] == []


def test_a_lesson_has_its_picture(made):
    files = made("open", ["ex02_masking"])
    for language in ("en", "zh"):
        assert f"docs/lessons/ex02_masking.{language}.svg" in files
        lesson = files[f"docs/lessons/ex02_masking.{language}.md"].decode()
        assert f"](ex02_masking.{language}.svg)" in lesson
    assert not [name for name in files if re.fullmatch(r"docs/\w+\.py", name)]


PAGE = """# Title

Do it. `make test` runs all. Then rest.

- `make grade EX=ex03_sdpa` grades. `make weekly` too.
- `make weekly` alone. It takes hours.
- See [how](docs/gone.md).

These count 100:

| exercise | points |
|---|---|
| ex01_softmax | 10 |

See [a](docs/a.md), ![b](docs/b.svg) and [c](docs/). [d](docs/d.md) says more.
"""
FITTED = """# Title

Do it. Then rest.

- `make grade EX=ex02_masking` grades.

See [a](docs/a.md), b and [c](docs/).
"""


def test_sentences_items_and_tables_go_one_by_one():
    files = {"README.md": PAGE.encode(), "docs/a.md": b"", "exercises/ex02_masking.py": b""}
    fitted = dict(fit_pages_to_bundle(files.items(), ["test", "weekly"], ["ex01_softmax"]))
    assert fitted["README.md"].decode() == FITTED


OTHER_PAGE = """<!-- Generated from x by `make test`. -->

# Title

It has [one part](#how-it-is-tested) and more. See [d](docs/d.md). Make tests of your own.

## How it is tested

`make test` runs all.

### For long

It takes hours.

## What counts

- `make test ARGS=x`: these. They are long.
- `make grade`

| goal | time |
|---|---|
| `make weekly` | hours |
| `make grade` | seconds |
"""
OTHER_FITTED = """# Title

It has one part and more. See d. Make tests of your own.

## What counts

- `make grade`

| goal | time |
|---|---|
| `make grade` | seconds |
"""


def test_other_pages_lose_the_sections_items_and_rows_of_goals_that_are_refused():
    files = {"docs/a.md": OTHER_PAGE.encode(), "exercises/ex02_masking.py": b""}
    fitted = dict(fit_pages_to_bundle(files.items(), ["test", "weekly"], []))
    assert fitted["docs/a.md"].decode() == OTHER_FITTED
