"""The pages of a bundle speak of what the bundle has: no dead link, no command that is refused."""

import io
import json
import posixpath
import re
import zipfile

import pytest

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

    def build(kind, slugs):
        exercises = [catalog.find_catalog_exercise(slug) for slug in slugs]
        notebooks = {slug: folder / f"{slug}.ipynb" for slug in slugs}
        for path in notebooks.values():
            path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4}))
        if kind == "open":
            return unzipped(bundle.build_open_bundle(exercises, notebooks))
        if kind == "gradescope":
            return unzipped(bundle.build_gradescope_bundle(exercises))
        recorded = [Recorded(slug=slug, content=b"", left_out={}) for slug in slugs]
        return unzipped(
            bundle_contents.build_sealed_bundle(exercises, notebooks, recorded, "a seed")
        )

    return build


def dead_links(files):
    for name in (name for name in files if name.endswith(".md")):
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", files[name].decode()):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            if not any(file == path or file.startswith(f"{path}/") for file in files):
                yield name, target


@pytest.mark.parametrize("slugs", [ALL, ["ex02_masking", "ex04_heads"]], ids=["all", "two"])
@pytest.mark.parametrize("kind", ["open", "sealed", "gradescope"])
def test_no_link_of_any_bundle_is_dead(made, kind, slugs):
    files = made(kind, slugs)
    assert list(dead_links(files)) == []
    assert sum(file.endswith(".md") for file in files) > 20


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
    needs_project = r"SUBMISSION=solutions|make (test|weekly|house|release|mutants|gpu-check)"
    assert [line for line in gone if not re.search(needs_project, line)] == []


def test_a_lesson_has_its_picture(made):
    files = made("open", ["ex02_masking"])
    assert "docs/lessons/ex02_masking.svg" in files
    assert "](ex02_masking.svg)" in files["docs/lessons/ex02_masking.en.md"].decode()
    assert not [name for name in files if re.fullmatch(r"docs/\w+\.py", name)]


PAGE = """# Title

Do it. `make test` runs all. Then rest.

- `make grade EX=ex03_sdpa` grades. `make weekly` too.
- `make weekly` alone.

These count 100:

| exercise | points |
|---|---|
| ex01_softmax | 10 |

See [a](docs/a.md), ![b](docs/b.svg) and [c](docs/).
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
