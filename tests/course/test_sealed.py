"""The sealed bundle: it grades with stored cases, and nothing in it is an answer."""

import io
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from grader.core import catalog, sealed_bundle
from grader.core.catalog import ROOT
from grader.core.errors import GraderFault
from grader.judging import recorded_cases
from grader.release import bundle
from grader.release.sealed import bundle_contents, leaks
from grader.release.sealed.record_cases import (
    Recorded,
    list_checks_not_sealed,
    list_modules_to_seal,
    record_sealed_exercise_safely,
)
from grader.release.sealed.sealed_page import write_sealed_page

SLUG = "ex02_masking"
EXERCISE = catalog.find_catalog_exercise(SLUG)
SOLUTION = (ROOT / "solutions" / EXERCISE.file).read_text(encoding="utf-8")
CHINESE = sorted(ROOT.glob("grader/suites/*/zh.toml"))
HIDDEN = """

def keep_from_blocked(blocked):
    return blocked


def additive_mask(keep, dtype):
    return torch.zeros(keep.shape, device=keep.device).masked_fill(~keep, -1e9).to(dtype)


def padding_mask(lengths, max_len):
    return (torch.arange(max_len) <= lengths[:, None])[:, None, None]
"""


@pytest.fixture(scope="module")
def recorded():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # where no suite is imported yet
        return pool.submit(record_sealed_exercise_safely, SLUG, "a seed").result()


@pytest.fixture(scope="module")
def made(recorded, tmp_path_factory):
    """A bundle of one exercise, and one that cannot be sealed."""
    notebook = tmp_path_factory.mktemp("notebooks") / f"{SLUG}.ipynb"
    notebook.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4}))
    without = "ex17_bug_hunt", "its checks need the catalogue of mistakes"
    exercises = [EXERCISE, catalog.find_catalog_exercise("ex17")]
    return bundle_contents.build_sealed_bundle(
        exercises, {SLUG: notebook}, [recorded, without], "a seed"
    )


@pytest.fixture(scope="module")
def root(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    zipfile.ZipFile(io.BytesIO(made)).extractall(folder)
    return folder / bundle.TOP_FOLDER


def grader(root, *arguments, fails=False):
    """What a command of the bundle prints, with nothing of the project at hand."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRADER"))}
    done = subprocess.run(
        [sys.executable, "-m", "grader", *map(str, arguments)], cwd=root, env=environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_no_right_answer_lies_in_it(root):
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert f"stored/{SLUG}.safetensors" in files
    assert not any(name.startswith(("reference", "solutions")) for name in files)
    last = {name.rpartition("/")[2] for name in files if name.startswith("grader/suites")}
    checks = {"test_masking.py", "together.py", "weights.py"}
    texts = {"exercise.toml", "zh.toml", "questions.toml"}
    assert last == {*checks, *texts, "pytest.ini", "__init__.py"}
    chinese = tomllib.loads((root / f"grader/suites/{SLUG}/zh.toml").read_text(encoding="utf-8"))
    assert set(chinese) == {"title", "cure", "learned", "checks", "said", "hints", "questions"}
    assert "\n\n> This is the bundle of a course" in (root / "README.md").read_text(
        encoding="utf-8"
    )
    assert "12 of 12" in (root / "SEALED.md").read_text(encoding="utf-8")
    assert "ex17_bug_hunt cannot be sealed" in (root / "SEALED.md").read_text(encoding="utf-8")


def test_demonstrations_that_are_nearly_an_answer_are_left_out_and_not_named(root):
    assert not list((root / "docs").glob("traps*"))
    for page in ("README.md", "README.zh-CN.md"):
        text, whole = ((top / page).read_text(encoding="utf-8") for top in (root, ROOT))
        assert "docs/traps" in whole and "docs/traps" not in text
        assert "`EX=ex02`" in text


def test_a_right_answer_earns_everything_that_is_left(root, tmp_path):
    (tmp_path / f"{SLUG}.py").write_text(SOLUTION, encoding="utf-8")
    said = grader(root, "grade", SLUG, "--submission", tmp_path)
    assert "12/12" in said
    assert "stored-a seed: the stored cases of a sealed bundle" in said


def test_mistakes_of_the_catalogue_fail(root, tmp_path):
    (tmp_path / f"{SLUG}.py").write_text(SOLUTION + HIDDEN, encoding="utf-8")
    said = grader(root, "grade", SLUG, "--submission", tmp_path, "--format", "json")
    [told] = json.loads(said)["exercises"]
    failed = [c["id"] for c in told["checks"] if c["verdict"] == "failed"]
    assert failed == ["test_additive_mask", "test_keep_from_blocked", "test_padding_mask"]
    assert not any((c["diagnosis"] or {}).get("mistakes") for c in told["checks"])


@pytest.mark.parametrize("path", CHINESE, ids=lambda p: p.parent.name)
def test_mistakes_and_variants_are_not_there_in_chinese_either(path):
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    for table in ("mistakes", "variants"):
        told.pop(table, None)
    assert tomllib.loads(bundle_contents.seal_without_answers(path.read_bytes()).decode()) == told


def test_an_answer_is_debugged_on_the_stored_cases(root, tmp_path):
    (tmp_path / f"{SLUG}.py").write_text(SOLUTION, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRADER"))}
    done = subprocess.run(
        [sys.executable, "-m", "grader", "debug", SLUG, "--submission", tmp_path],
        cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every case passed" in done.stdout


@pytest.mark.parametrize(
    "asked",
    ["bench ex02", "show ex02", "drill ex02", "class .", "release ex02", "mutants ex02", "skeletons",
     "house", "new ex60_x"],
)  # fmt: skip
def test_what_a_sealed_bundle_has_not_is_said(asked, monkeypatch):
    from typer.testing import CliRunner

    from grader.cli.app import app

    monkeypatch.setattr(sealed_bundle, "is_core_sealed", lambda: True)
    done = CliRunner().invoke(app, asked.split())
    command = asked.partition(" ")[0]
    assert done.exit_code == 2
    assert f"This bundle is sealed: it has no right answers, and so no `{command}`." in done.output


def test_nothing_in_it_is_an_answer_but_what_was_planted(made):
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    lesson = "\n".join(["Look:", "", "```python", SOLUTION, "```"])
    planted = {
        f"{bundle.TOP_FOLDER}/docs/planted.md": lesson.encode(),
        f"{bundle.TOP_FOLDER}/grader/helper.so": b"\x7fELF",
    }
    found = leaks.find_bundle_leaks(bundle.zip_bundle((files | planted).items()), [EXERCISE])
    assert [(leak.name, leak.earned) for leak in found[:2]] == [
        ("grader/helper.so", None), ("docs/planted.md, code in it", 12),
    ]  # fmt: skip
    assert all("docs/planted.md, code in it, renamed" in leak.name for leak in found[2:])


WRITTEN = SOLUTION[SOLUTION.index("def padding_mask") :].partition("\n\n\n")[0]
PLACES = {
    "docs/page.md": "{page}",
    "docs/text.txt": "{page}",
    "docs/texts.toml": "about = {quoted}\n",
    "docs/demo.py": "{code}",
    "grader/doc.py": '"""A module.\n\n{page}"""\n',
    "grader/code.py": "{code}",
    "notebooks/cells.ipynb": '{{"cells": [{{"cell_type": "markdown", "metadata": {{}}, "source": {lines}}}], "metadata": {{}}, "nbformat": 4}}',
}


def test_a_function_under_another_name_is_an_answer_wherever_it_stands():
    files = []
    for number, (name, written) in enumerate(PLACES.items()):
        code = f"import torch\n\n\n{WRITTEN.replace('padding_mask', f'words_{number}')}\n"
        page = f"Look at words:\n\n```python\n{code}```\n"
        lines = json.dumps(page.splitlines(keepends=True))
        text = written.format(page=page, code=code, quoted=json.dumps(page), lines=lines)
        files.append((f"{bundle.TOP_FOLDER}/{name}", text.encode()))
    found = leaks.find_bundle_leaks(bundle.zip_bundle(files), [EXERCISE])
    assert all(leak.earned for leak in found)
    places = {leak.name.partition(" in ")[2].partition(",")[0] for leak in found}
    assert places == PLACES.keys()


def test_what_depends_on_the_answer_is_left_out(recorded):
    """The same is stored whichever right answer was at hand; the rest is left out by name."""
    assert recorded.left_out == {}  # its tape was the same for two right answers written otherwise
    asked = {"a[0]": [["asked", 1]], "a[1]": [["asked", 2]], "b": []}
    of = {"a[0]": "a", "a[1]": "a", "b": "b"}
    assert list_checks_not_sealed(asked, asked, of) == set()
    assert list_checks_not_sealed(asked, asked | {"a[1]": [["asked", 3]]}, of) == {"a"}
    one = Recorded(slug=SLUG, content=b"", left_out={"test_values": "it depends"})
    text = write_sealed_page([EXERCISE], [one], "s")
    assert "| 11 of 12 | `test_values` (it depends) |" in text


def test_a_question_that_is_not_stored_is_a_sentence(recorded, tmp_path):
    tape = played(recorded, tmp_path)
    tape.begin("test_values[shape0-float32]", "test_values")
    with pytest.raises(GraderFault, match="no stored case"):
        tape.draws("test_values[shape0-float32]").integer(1, 2)


def test_a_question_that_an_answer_left_out_is_passed_over():
    """And one about other numbers than at release is not answered with those of another."""
    from grader.judging.case_codec import digest_case_call, sample_case_call

    def entry(x, packed, in_order=0):
        return [digest_case_call("f", (x,), {}), sample_case_call((x,), {}), in_order, packed]

    tape = recorded_cases.RecordedTape.__new__(recorded_cases.RecordedTape)
    tape._tensors = {}
    ones, twos = torch.ones(3), 2 * torch.ones(3)
    assert tape.next(iter([entry(ones, 1), entry(twos, 2)]), "f", (twos,), {}) == 2
    for told in ([entry(ones, 1)], [entry(ones, 1, in_order=1), entry(twos, 2)], []):
        with pytest.raises(GraderFault, match="no stored case"):
            tape.next(iter(told), "f", (twos,), {})


def test_draws_are_new_in_every_case_and_keep_their_layout(recorded, tmp_path):
    tape = played(recorded, tmp_path)
    case = "test_manners[float64]"
    assert not tape.begin(case, "test_manners")
    first, second = (tape.draws(case).normal(2, 5, 6, dtype=torch.float64) for _ in range(2))
    first.zero_()
    assert second.abs().sum() > 0


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 40])
def test_a_damaged_file_is_a_sentence(content, tmp_path):
    path = tmp_path / "stored" / f"{SLUG}.safetensors"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(GraderFault, match="cannot be read: unpack the bundle again"):
        recorded_cases.RecordedTape(SLUG, tmp_path)


def test_the_open_bundle_can_draw_pictures():
    names = {name for name, _ in bundle.list_open_bundle_files([], {}, "")}
    assert "grader/practice/show/picture.py" in names
    assert "docs/picture.py" not in names
    assert "reference.ex02_masking" in list_modules_to_seal([])


def played(recorded, folder: Path):
    path = folder / "stored" / f"{SLUG}.safetensors"
    path.parent.mkdir()
    path.write_bytes(recorded.content)
    return recorded_cases.RecordedTape(SLUG, folder)


@pytest.mark.parametrize("lost", [sealed_bundle.ABOUT, sealed_bundle.EXPECTED])
def test_a_bundle_that_lost_what_is_stored_says_so(tmp_path, capsys, lost):
    assert sealed_bundle.read_core_bundle_facts(tmp_path) is None  # the whole project
    folder = tmp_path / sealed_bundle.STORED_CASES_FOLDER
    folder.mkdir()
    (tmp_path / sealed_bundle.SEALED_PAGE_NAME).touch()
    (folder / sealed_bundle.ABOUT).write_text('{"seed": "5", "modules": []}')
    (folder / sealed_bundle.EXPECTED).touch()
    (folder / lost).unlink()
    sealed_bundle.read_core_bundle_facts.cache_clear()
    with pytest.raises(SystemExit) as ended:
        sealed_bundle.read_core_bundle_facts(tmp_path)
    assert ended.value.code == 2
    said = f"stored/{lost} cannot be read: unpack the bundle again.\nstored/{lost} 无法读取：请重新解压。\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "goal", ["test", "weekly", "headroom", "house", "new", "release", "bench-walls"]
)
def test_a_goal_of_the_whole_project_is_refused_in_a_bundle(tmp_path, goal):
    made = bundle.write_bundle_makefile((ROOT / "Makefile").read_text(encoding="utf-8"))
    (tmp_path / "Makefile").write_text(made)
    asked = subprocess.run(
        ["make", goal, "PYTHON=python"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 2
    assert asked.stderr.startswith(f"`make {goal}` needs the whole project")
    assert asked.stdout == ""
