"""`grader reset`: the skeleton comes back, and nothing that somebody wrote is lost."""

import io
import os
import zipfile
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from grader.authoring import skeletons
from grader.authoring.skeletons import make_skeleton
from grader.cli import app
from grader.core import catalog
from grader.release import bundle
from grader.submission import answer_file
from tests.classes.handing import as_an_ordinary_user, folder_for_everybody, in_chinese
from tests.conftest import solution

EXERCISE = catalog.find_catalog_exercise("ex02")
SKELETON = make_skeleton(EXERCISE, solution("ex02"))
NAME = "ex02_masking.py"


def reset(*arguments, lang: str = "en"):
    done = CliRunner().invoke(
        app.app, ["reset", *map(str, arguments), "--lang", lang], catch_exceptions=False
    )
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def answer(tmp_path):
    return tmp_path / NAME


def test_an_answer_is_kept_beside_the_skeleton(answer):
    for text in ("# one\n", "# two\n"):
        answer.write_text(text)
        code, printed, said = reset("ex02", "--submission", answer.parent)
        assert (code, said, answer.read_text()) == (0, "", SKELETON)
    assert printed == (
        f"Your earlier answer is kept as ex02_masking.2.py.\n{answer} is the skeleton.\n"
    )
    assert [answer.with_suffix(f".{n}.py").read_text() for n in (1, 2)] == ["# one\n", "# two\n"]
    assert answer_file.locate_submission(answer.parent, "ex02_masking") == answer


@pytest.mark.parametrize("content", [b"\xff\xfe", b""], ids=["no text", "empty"])
def test_whatever_it_is_it_is_kept(answer, content):
    answer.write_bytes(content)
    assert reset("ex02", "--submission", answer.parent)[0] == 0
    assert answer.with_suffix(".1.py").read_bytes() == content


def test_where_there_is_none_a_skeleton_is_written(answer):
    told = f"{answer} is the skeleton.\n"
    assert reset("ex02", "--submission", answer.parent) == (0, told, "")
    assert os.listdir(answer.parent) == [NAME]


def test_an_untouched_skeleton_stays(answer):
    answer.write_text(SKELETON)
    os.utime(answer, (1, 1))
    told = f"{answer} is the skeleton already: nothing was done.\n"
    assert reset("ex02", "--submission", answer.parent) == (0, told, "")
    assert (answer.stat().st_mtime, os.listdir(answer.parent)) == (1, [NAME])


def test_an_old_skeleton_that_nobody_touched_is_renewed_and_not_kept(answer):
    answer.write_text(f"# Skeleton {NAME} {answer_file.digest_submitted_skeleton('old')}.\nold")
    assert reset("ex02", "--submission", answer.parent)[0] == 0
    assert (answer.read_text(), os.listdir(answer.parent)) == (SKELETON, [NAME])


@pytest.mark.parametrize("script", [None, SKELETON, "# mine\n"])
def test_a_notebook_is_kept_too_and_no_longer_the_answer(answer, script):
    notebook = answer.with_suffix(".ipynb")
    notebook.write_text("{}")
    if script is not None:
        answer.write_text(script)
    code, printed, _ = reset("ex02", "--submission", answer.parent)
    assert code == 0
    assert "Your earlier answer is kept as ex02_masking.1.ipynb.\n" in printed
    assert printed.endswith("A notebook is not made anew: a fresh one is where yours came from.\n")
    assert answer_file.locate_submission(answer.parent, "ex02_masking") == answer
    assert (answer.with_suffix(".1.py").exists()) == (script == "# mine\n")


def test_an_exercise_in_cuda_has_a_skeleton_too(tmp_path):
    (tmp_path / "ex15_cuda_kernel.cu").write_text("// mine\n")
    assert reset("ex15", "--submission", tmp_path)[0] == 0
    assert (tmp_path / "ex15_cuda_kernel.1.cu").read_text() == "// mine\n"
    assert answer_file.is_submission_file_untouched(tmp_path / "ex15_cuda_kernel.cu")


LINK = "{} is a link: put a file in its place, then reset it.\n"
NO_FILE = "{} is no file: move it away, then reset the exercise.\n"


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda path: path.symlink_to("/etc/hostname"), LINK),
        (lambda path: path.symlink_to(path.with_name("nowhere")), LINK),
        (lambda path: path.mkdir(), NO_FILE),
        (os.mkfifo, NO_FILE),
    ],
    ids=["link", "dangling link", "folder", "pipe"],
)
@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
def test_what_is_no_file_is_left_alone(answer, make, says, suffix):
    path = answer.with_suffix(suffix)
    make(path)
    assert reset("ex02", "--submission", answer.parent) == (2, "", says.format(path))
    assert os.listdir(answer.parent) == [path.name]
    assert in_chinese(says.format("x"))


def test_a_folder_that_may_not_be_written_keeps_everything():
    with folder_for_everybody() as folder:
        answer = folder / NAME
        answer.write_text("# mine\n")
        folder.chmod(0o555)
        with as_an_ordinary_user():
            code, _, said = reset("ex02", "--submission", folder)
        assert (code, said) == (2, f"{answer} cannot be written: Permission denied.\n")
        assert (answer.read_text(), os.listdir(folder)) == ("# mine\n", [NAME])


def test_if_the_skeleton_cannot_be_written_the_answer_is_back(answer, monkeypatch):
    answer.write_text("# mine\n")

    def full(path, *_, **__):
        path.write_bytes(b"half a skel")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    code, _, said = reset("ex02", "--submission", answer.parent)
    assert (code, said) == (2, f"{answer} cannot be written: No space left on device.\n")
    assert (answer.read_text(), os.listdir(answer.parent)) == ("# mine\n", [NAME])


def test_wrong_usage_gets_a_sentence(answer):
    answer.write_text("# mine\n")
    for arguments, says in [
        ([], "Which exercise? `make reset EX=ex03_sdpa`, for instance.\n"),
        (["ex5"], "There is no exercise called 'ex5'. Did you mean ex05?\n"),
        (["ex02", "--submission", answer], f"{answer} is no folder: a skeleton is written into a folder of answers.\n"),
    ]:  # fmt: skip
        assert reset(*arguments) == (2, "", says)
    assert answer.read_text() == "# mine\n"


@pytest.fixture
def in_bundle(tmp_path, monkeypatch):
    """What a student unpacks: no solutions, and all that the bundle has."""
    notebook = tmp_path / "made.ipynb"
    notebook.write_text("{}")
    monkeypatch.setattr(
        bundle, "_list_grader_bundle_files", lambda *_: iter(())
    )  # the same for everybody
    packed = bundle.build_open_bundle([EXERCISE], {EXERCISE.slug: notebook})
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path)
    root = tmp_path / bundle.TOP_FOLDER
    monkeypatch.setattr(skeletons, "ROOT", root)
    there = tuple(replace(e, home=root) for e in catalog.list_catalog_exercises())
    monkeypatch.setattr(catalog, "list_catalog_exercises", lambda: there)
    return root


def test_a_bundle_resets_without_solutions(in_bundle):
    place = in_bundle / "exercises"
    (place / NAME).write_text("# mine\n")
    assert reset("ex02", "--submission", place)[0] == 0
    assert (place / NAME).read_text() == SKELETON
    assert (place / "ex02_masking.1.py").read_text() == "# mine\n"


def test_where_there_is_no_skeleton_nothing_is_moved(in_bundle):
    place = in_bundle / "exercises"
    (place / "ex03_sdpa.py").write_text("# mine\n")
    code, _, said = reset("ex03", "--submission", place)
    assert (code, said) == (
        2,
        "There is no skeleton of ex03_sdpa here: unpack the bundle of your course, or clone the"
        " project, and work in there.\n",
    )
    assert in_chinese(said)
    assert (place / "ex03_sdpa.py").read_text() == "# mine\n"
