"""What is handed out: the same twice, and without an answer in it."""

import io
import itertools
import json
import re
import shutil
import sys
import zipfile

import nbformat
import pytest
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from grader.cli.app import app
from grader.core import catalog
from grader.core.translation import Words
from grader.judging import suite_runner
from grader.release import bundle
from grader.release.notebook_pages import build_released_notebook
from grader.submission.solution_text import BEGIN, CUDA_BEGIN, CUDA_END, END, locate_solution_file
from tests.notebooks.course import (
    answered,
    asked,
    autograded,
    grader,
    hand_in,
    id_of,
    released,
    run,
)

ZIPS = ("attention-by-hand.zip", "gradescope.zip")
SLUGS = [e.slug for e in catalog.list_catalog_exercises()]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    grader("release", "-o", folder)
    return folder


def files(out):
    """What a release hands out, by name."""
    found = {p.name: p.read_bytes() for p in (out / "course" / "release").rglob("*.ipynb")}
    for path in ZIPS:
        with zipfile.ZipFile(out / path) as archive:
            found |= {f"{path}/{name}": archive.read(name) for name in archive.namelist()}
    return found


def solution_regions():
    """The lines of each region, without their indent."""
    for slug in SLUGS:
        inside: list[str] | None = None
        for line in locate_solution_file(slug).read_text(encoding="utf-8").splitlines():
            if line.strip() in (BEGIN, CUDA_BEGIN):
                inside = []
            elif line.strip() in (END, CUDA_END):
                yield slug, [text for text in inside if text]
                inside = None
            elif inside is not None:
                inside.append(line.strip())


def text_of(name, content) -> str:
    """Everything that can be read in a file: of a notebook its cells, their metadata and outputs."""
    if not name.endswith(".ipynb"):
        return content.decode("utf-8", "replace")
    notebook = json.loads(content)
    return "\n".join("".join(c["source"]) + json.dumps(c) for c in notebook["cells"])


def test_no_body_of_a_solution_is_in_what_is_handed_out(out):
    handed = {
        name: [line.strip() for line in text_of(name, content).splitlines()]
        for name, content in files(out).items()
    }
    handed |= {
        f"{n} (joined)": ["".join(lines)] for n, lines in handed.items() if n.endswith(".ipynb")
    }
    assert leaks(handed) == []


def leaks(handed: dict[str, list[str]]) -> list[str]:
    """The files in which the body of a solution stands.

    One of a line or two may also be the plain formula, and stand in the oracle and the suites, which
    are handed out openly; in what a student starts from it may not.
    """
    regions = list(solution_regions())
    assert len(regions) > 30
    joined = {name: "\n".join(["", *lines, ""]) for name, lines in handed.items()}
    return [
        f"{slug} in {name}: {lines[0]}"
        for slug, lines in regions
        for name, text in joined.items()
        if (len(lines) > 2 or "exercises/" in name or ".ipynb" in name)
        and "\n".join(["", *lines, ""]) in text
    ]


@pytest.mark.parametrize("short", [False, True])
def test_a_leak_is_found(short):
    slug, lines = next((s, x) for s, x in solution_regions() if (len(x) <= 2) is short)
    planted = {f"exercises/{slug}.py": ["import torch", *lines, "x = 1"]}
    assert len(leaks(planted)) == 1


def test_no_solution_file_is_handed_out(out):
    for name in files(out):
        assert "solutions/" not in name
        assert not name.endswith(("variants.py", ".secret", "gradebook.db"))
    assert not any(
        BEGIN.encode() in content for n, content in files(out).items() if n.endswith(".ipynb")
    )


def test_two_builds_are_byte_identical(out, tmp_path):
    """Notebooks of each kind (NumPy, a class, kernels in Python and in CUDA), and both zips."""
    kinds = ("ex01_softmax", "ex04_heads", "ex14_triton", "ex15_cuda_kernel")
    (tmp_path / "course").mkdir()  # an empty gradebook takes nbgrader seconds to make
    shutil.copy(out / "course" / "gradebook.db", tmp_path / "course")
    asked("release", *kinds, "-o", tmp_path)
    for slug, part in itertools.product(kinds, ("source", "release")):
        name = f"course/{part}/{slug}/{slug}.ipynb"
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes()
    notebooks = {s: out / "course" / "release" / s / f"{s}.ipynb" for s in SLUGS}
    students, gradescope = (out / name for name in ZIPS)
    assert students.read_bytes() == bundle.build_open_bundle(
        catalog.list_catalog_exercises(), notebooks, ""
    )
    assert gradescope.read_bytes() == bundle.build_gradescope_bundle(
        catalog.list_catalog_exercises(), ""
    )


def test_building_again_keeps_the_secret_the_settings_and_the_gradebook(out, tmp_path):
    course = shutil.copytree(out / "course", tmp_path / "course")
    own = 'c.Judge.isolation = "locked"'
    with (course / "nbgrader_config.py").open("a") as file:
        file.write(f"{own}\n")
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        book.add_student("ada")
    before = (course / ".secret").read_text()
    asked("release", SLUGS[0], "-o", tmp_path)
    assert (course / ".secret").read_text() == before
    assert (course / ".secret").stat().st_mode & 0o077 == 0
    assert own in (course / "nbgrader_config.py").read_text()
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        assert [student.id for student in book.students] == ["ada"]


def test_other_points_are_refused_where_there_are_grades(tmp_path):
    """And the gradebook is the one that the course's own settings name."""
    slug = "ex03_sdpa"
    course = tmp_path / "course"
    course.mkdir()
    url = f"sqlite:///{tmp_path}/other.db"
    (course / "nbgrader_config.py").write_text(
        "c = get_config()\nload_subconfig('release_config.py')\n"
        f"c.CourseDirectory.db_url = {url!r}\n"
    )
    asked("release", slug, "-o", tmp_path)
    assert (tmp_path / "other.db").exists() and not (course / "gradebook.db").exists()
    hand_in(course, "ada", released(course, slug), slug=slug)
    autograded(course, "ada", slug)
    before = {p: p.read_bytes() for p in course.rglob("*.ipynb")}
    said = asked("release", slug, "-o", tmp_path, "--no-speed", fails=True)
    assert "ex03_sdpa has grades already, and this release would have other points." in said
    assert {p: p.read_bytes() for p in course.rglob("*.ipynb")} == before


@pytest.mark.parametrize("exercise", catalog.list_catalog_exercises(), ids=lambda e: e.slug)
def test_the_points_of_a_notebook_are_those_of_the_suite(exercise):
    """Without what needs CUDA, unless it is released for CUDA; with speed or without."""
    case, checks = (
        suite_runner.find_suite_speed_case(exercise),
        suite_runner.list_suite_checks(exercise),
    )
    for cuda, speed in itertools.product((False, True), repeat=2):
        made = build_released_notebook(exercise, Words(), cuda=cuda, speed=speed)
        graded = [
            c.metadata.nbgrader for c in made.cells if "points" in c.metadata.get("nbgrader", {})
        ]
        timed = case.points if case and speed and (cuda or not case.cuda) else 0
        assert sum(g.points for g in graded) == timed + sum(
            c.points for c in checks if cuda or not c.cuda
        )
        assert ("check-speed" in [g.grade_id for g in graded]) == bool(timed)


def test_chinese_notebooks_are_chinese():
    made = build_released_notebook(catalog.find_catalog_exercise("ex01_softmax"), Words("zh"))
    text = "".join(c.source for c in made.cells)
    assert "**问题**" in text
    assert "**The question.**" not in text
    assert 'lang="zh"' in text


def test_the_bundle_can_grade(out, tmp_path):
    """A student unpacks it and grades: nothing written yet, and then a solution."""
    with zipfile.ZipFile(io.BytesIO((out / "attention-by-hand.zip").read_bytes())) as archive:
        archive.extractall(tmp_path)
    root = tmp_path / "attention-by-hand"
    goals = run("make", cwd=root)
    assert all(f"make {goal} " in goals for goal in ("grade", "bench", "watch", "hint", "show"))
    assert not any(f"make {goal} " in goals for goal in ("test", "release", "bench-watch"))
    assert (root / "AI-POLICY.md").read_text() == (catalog.ROOT / "docs/ai-policy.md").read_text()
    assert (root / ".devcontainer/devcontainer.json").is_file()
    for page in root.glob("*.md"):
        for link in re.findall(r"\]\(([\w./-]+)\)", page.read_text(encoding="utf-8")):
            assert (root / link).exists(), (page, link)
    assert "not started yet" in grader("grade", "ex01_softmax", root=root)
    (root / "notebooks" / "ex01_softmax.ipynb").write_text(json.dumps(answered(out / "course")))
    names = ("ex01_softmax", "ex02_masking")
    said = grader("grade", *names, "--submission", root / "notebooks", root=root)
    assert re.search("ex01_softmax +10/10", said)
    assert re.search("ex02_masking .*not started yet", said)


def test_gradescope_can_grade_with_its_zip(out, tmp_path):
    with zipfile.ZipFile(out / "gradescope.zip") as archive:
        assert {"setup.sh", "run_autograder"} <= set(archive.namelist())
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o755
        archive.extractall(tmp_path / "source")
    (tmp_path / "submission").mkdir()
    (tmp_path / "results").mkdir()
    shutil.copy(locate_solution_file("ex01_softmax"), tmp_path / "submission")
    (tmp_path / "source" / "exercises.txt").write_text("ex01_softmax ex02_masking")
    run(
        "bash", tmp_path / "source" / "run_autograder", cwd=tmp_path,
        AUTOGRADER_ROOT=str(tmp_path), PYTHON=sys.executable,
    )  # fmt: skip
    found = json.loads((tmp_path / "results" / "results.json").read_text())
    assert found["score"] == 10
    assert "ex02_masking.py is not there" in found["output"]


def test_without_nbgrader_there_is_a_sentence(tmp_path):
    blocked = "import sys; sys.modules['nbgrader'] = None; sys.argv = ['grader', 'release', '-o', 'x']; from grader.cli.app import run_command_line; run_command_line()"
    said = run(sys.executable, "-c", blocked, cwd=catalog.ROOT, fails=True)
    assert "nbgrader is not installed" in said
    assert "Traceback" not in said


def test_what_cannot_be_sealed_is_refused_before_anything_is_written(tmp_path):
    done = CliRunner().invoke(app, ["release", "ex17", "--sealed", "-o", str(tmp_path / "out")])
    assert (done.exit_code, done.stdout) == (2, "")
    says = "Nothing can be sealed. ex17_bug_hunt: its checks need the catalogue of mistakes."
    assert done.stderr.strip() == says
    assert not (tmp_path / "out").exists()


def test_it_can_be_asked_for_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "There is no exercise called 'ex77'" in asked("release", "ex77", fails=True)


def test_without_the_grader_a_notebook_says_what_to_do(out, tmp_path):
    from nbclient import NotebookClient

    made = released(out / "course")
    for cell in made.cells:
        if cell.cell_type == "code" and id_of(cell) == "setup":
            cell.source = "import sys\nsys.modules['grader'] = None\n" + cell.source
    NotebookClient(
        made, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}},
    ).execute()  # fmt: skip
    shown = [c.outputs[0]["text"] for c in made.cells if id_of(c).startswith("check")]
    assert shown and all(text.startswith("The grader was not found") for text in shown)


def test_the_released_notebook_runs_in_jupyter(out, tmp_path):
    """By nbclient, which runs it as JupyterLab does."""
    from nbclient import NotebookClient

    course = out / "course"
    made = answered(
        course,
        softmax="def softmax(x, dim=-1):\n    return x",  # a mistake that is named at once
    )
    made.cells.insert(3, nbformat.v4.new_code_cell("import sys; print('noise', file=sys.stderr)"))
    folder = tmp_path / "grader-course" / "work"
    folder.mkdir(parents=True)
    (folder / "ex01_softmax.ipynb").write_text(json.dumps(made))
    setup = f"import sys; sys.path.append({str(catalog.ROOT)!r})"
    made.cells.insert(0, nbformat.v4.new_code_cell(setup))
    NotebookClient(
        made, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    shown = {id_of(c): c.outputs[-1] for c in made.cells if id_of(c).startswith("check")}
    right, wrong = shown["check-softmax_numpy"]["data"], shown["check-softmax"]["data"]
    assert right["text/plain"].startswith("4/4 points")
    assert wrong["text/plain"].startswith("0/6 points") or wrong["text/plain"].startswith(
        "1/6 points"
    )
    assert "✗" in wrong["text/html"]
    assert "exp" in wrong["text/plain"]
