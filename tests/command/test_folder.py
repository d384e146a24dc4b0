"""`init` writes a folder to work in; `update` brings what is new, and leaves what is the learner's."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from grader.cli import folder_commands, global_options
from grader.cli.app import app
from grader.core.advice import RECORD_FILE
from grader.core.catalog import ROOT, list_catalog_exercises
from grader.core.this_python import find_own_command
from grader.practice.folder import bring_files, handed_course, handed_notebooks
from grader.submission.answer_file import is_submission_file_untouched

ANSWER, UNTOUCHED = "exercises/ex01_softmax.py", "exercises/ex02_masking.py"
LESSON, OTHER_LESSON = "docs/lessons/ex01_softmax.en.md", "docs/lessons/ex02_masking.en.md"
OWN_LINE = "# what I wrote\n"


def run(*arguments: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    done = CliRunner().invoke(app, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run("init", "work")[0] == 0
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def newer(folder, monkeypatch):
    """The next version, in which two skeletons and two lessons are changed and one is new."""
    files = dict(handed_course.list_handed_files("en"))
    for name in (ANSWER, UNTOUCHED, LESSON, OTHER_LESSON):
        files[name] = files[name].replace(b"import", b"import  ", 1) + b"# a new line\n"
    files["exercises/ex18_alibi.py"] = b"# Skeleton\n"
    monkeypatch.setattr(bring_files, "list_handed_files", lambda language: files.items())
    for module in (bring_files, folder_commands):
        monkeypatch.setattr(module, "__version__", "0.2.0")
    return files


def append(path: Path) -> bytes:
    path.write_bytes(path.read_bytes() + OWN_LINE.encode())
    return path.read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != RECORD_FILE
    }


@pytest.mark.parametrize("language, other", [("en", "zh"), ("zh", "en")])
def test_init_writes_skeletons_and_lessons_in_one_language(tmp_path, language, other):
    code, said = run("init", str(tmp_path / "work"), "--lang", language)
    assert (code, language == "zh") == (0, bool(re.search("[\u4e00-\u9fff]", said)))
    found = contents(tmp_path / "work")
    for exercise in list_catalog_exercises():
        path = tmp_path / "work/exercises" / exercise.file
        assert is_submission_file_untouched(path)
        lesson = f"docs/lessons/{exercise.slug}.{language}.md"
        assert path.read_text().splitlines()[0].endswith(f"The lesson: {lesson}")
        whence, _, text = (ROOT / lesson).read_bytes().partition(b"\n\n")
        assert found[lesson] == text
        assert b"`make skeletons`" in whence
    assert not [name for name in found if name.endswith(f".{other}.md")]
    assert found[f"docs/lessons/ex01_softmax.{language}.svg"]
    assert f"docs/lessons/ex01_softmax.{other}.svg" not in found


def test_init_leaves_what_is_there(tmp_path):
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / "exercises").mkdir()
    (tmp_path / ANSWER).write_text(OWN_LINE)
    code, said = run("init", str(tmp_path))
    assert code == 0
    assert (tmp_path / "Makefile").read_text() == "all:\n"
    assert (tmp_path / ANSWER).read_text() == OWN_LINE
    assert "Makefile has your work and stays. The new version is Makefile.1." in said
    assert is_submission_file_untouched(tmp_path / "exercises/ex01_softmax.1.py")


def test_a_second_init_says_that_update_is_meant(folder, monkeypatch):
    before = contents(folder)
    code, said = run("init", ".")
    assert (code, contents(folder)) == (2, before)
    assert "update`" in said


@pytest.mark.parametrize(
    "options, update",
    [
        (["--notebooks"], "update --notebooks`"),
        (["--repository", "you/attention"], "update --repository you/attention`"),
    ],
)
def test_a_second_init_that_asks_for_notebooks_names_the_update_that_writes_them(
    folder, options, update
):
    code, said = run("init", ".", *options)
    assert (code, update in said, "work is such a folder" in said) == (2, True, True)


def test_init_names_the_folder_to_go_to_unless_it_is_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run("init", "my work")[1]
    assert "`cd 'my work'`" in said
    monkeypatch.chdir(tmp_path / "my work")
    (tmp_path / "my work" / RECORD_FILE).unlink()
    said = run("init", ".")[1]
    assert "Next: read " in said and "cd " not in said
    assert said.startswith("my work has 0 new files")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("installed", [False, True])
def test_init_in_a_clone_names_what_installs_the_grader(tmp_path, monkeypatch, installed, language):
    monkeypatch.setattr(folder_commands, "is_grader_installed", lambda: installed)
    told = run("init", str(tmp_path / "mine"), "--lang", language)[1]
    assert (f"-m pip install {ROOT}" in told) != installed


def test_init_where_nothing_can_be_written_is_a_sentence(tmp_path):
    (tmp_path / "work").write_text("a file")
    code, said = run("init", str(tmp_path / "work"))
    assert code == 2
    assert "cannot be written" in said


def test_where_there_are_no_answers_the_cure_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "init` writes one." in run("grade", "ex01")[1]
    run("init")
    assert "`cd attention-by-hand` goes there." in run("grade", "ex01")[1]


def test_an_update_without_news_changes_nothing(folder):
    before = contents(folder)
    assert run("update") == (0, "Nothing is new here.\n")
    assert contents(folder) == before


def test_an_update_never_touches_an_answer(folder, newer):
    mine, notes = append(folder / ANSWER), append(folder / LESSON)
    code, said = run("update")
    assert code == 0
    assert (folder / ANSWER).read_bytes() == mine
    assert (folder / LESSON).read_bytes() == notes
    assert (folder / "exercises/ex01_softmax.1.py").read_bytes() == newer[ANSWER]
    assert (folder / "docs/lessons/ex01_softmax.en.1.md").read_bytes() == newer[LESSON]
    told = said.splitlines()
    at = told.index(f"{ANSWER} has your work and stays. The new version is exercises/ex01_softmax.1.py, with these changes:")  # fmt: skip
    assert "    +# a new line" in told[at + 1 : at + 12]
    assert f"{LESSON} has your work and stays. The new version is docs/lessons/ex01_softmax.en.1.md." in told  # fmt: skip
    assert "This was version 0.1.0, and is 0.2.0 now." in told


def test_an_update_replaces_what_nobody_has_changed(folder, newer):
    said = run("update")[1]
    for name in (UNTOUCHED, OTHER_LESSON):
        assert (folder / name).read_bytes() == newer[name]
        assert f"{name} was unchanged, and is the new version now." in said
    assert (folder / "exercises/ex18_alibi.py").read_bytes() == b"# Skeleton\n"
    assert "exercises/ex18_alibi.py is new." in said


def test_what_an_update_has_shown_it_does_not_bring_again(folder, newer):
    append(folder / ANSWER)
    run("update")
    before = contents(folder)
    assert run("update") == (0, "Nothing is new here.\n")
    assert contents(folder) == before


def test_a_link_is_not_written_through(folder, newer, tmp_path):
    outside = tmp_path / "outside.py"
    shutil.move(folder / UNTOUCHED, outside)
    (folder / UNTOUCHED).symlink_to(outside)
    before = outside.read_bytes()
    assert run("update")[0] == 0
    assert outside.read_bytes() == before
    assert (folder / UNTOUCHED).is_symlink()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"digests": 3, "skeletons": [1]}', "[" * 100_000])
def test_with_a_damaged_record_everything_that_differs_is_the_learners(folder, newer, text):
    (folder / RECORD_FILE).write_text(text)
    before = contents(folder)
    assert run("update")[0] == 0
    after = contents(folder)
    assert {name for name in before if after[name] != before[name]} == {UNTOUCHED, ANSWER}
    assert after["docs/lessons/ex01_softmax.en.1.md"] == newer[LESSON]
    assert json.loads((folder / RECORD_FILE).read_text())["version"] == "0.2.0"


def test_a_folder_that_init_did_not_write_is_not_updated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = run("update")
    assert (code, os.listdir(tmp_path)) == (2, [])
    assert RECORD_FILE in said


def test_the_other_language_comes_beside_and_no_answer_is_new(folder):
    mine = append(folder / ANSWER)
    code, said = run("update", "--lang", "zh")
    assert code == 0
    assert (folder / ANSWER).read_bytes() == mine
    assert ANSWER not in said
    assert (folder / "docs/lessons/ex01_softmax.zh.md").is_file()
    first = (folder / UNTOUCHED).read_text().splitlines()[0]
    assert first.endswith("docs/lessons/ex02_masking.zh.md")


def test_every_goal_of_the_makefile_calls_the_command(folder):
    text = (folder / "Makefile").read_text(encoding="utf-8")
    assert "$(PY)" not in text
    goals = re.findall(r"^([a-z]+): ## ", text, re.MULTILINE)
    assert {"grade", "watch", "learn", "hint", "show", "reset", "bench", "update"} <= set(goals)
    assert "--solution" not in text
    assert set(goals) & {*global_options.OF_WHOLE_PROJECT} == set()
    for goal in sorted(set(goals) - {"help"}):
        given = [
            "make",
            "-n",
            "--no-print-directory",
            goal,
            "EX=ex01",
            "SEED=7",
            "ARGS=--lang zh",
            "GRADER=own",
        ]
        done = subprocess.run(given, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"own {goal}")
        assert done.stdout.rstrip().endswith("--lang zh")


HAN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_commands_are_explained_in_the_language_of_the_folder(tmp_path, language):
    run("init", str(tmp_path), "--lang", language)
    listed = subprocess.run(["make"], cwd=tmp_path, capture_output=True, text=True).stdout
    told = listed.splitlines()
    tasks = json.loads((tmp_path / ".vscode/tasks.json").read_text(encoding="utf-8"))["tasks"]
    told += [task["label"] for task in tasks]
    launch = (tmp_path / ".vscode/launch.json").read_text(encoding="utf-8")
    told += re.findall(r'//.*|"name": .*', launch)
    told += (tmp_path / "Makefile").read_text(encoding="utf-8").splitlines()[:1]
    assert len(told) > 15
    assert {bool(HAN.search(line)) for line in told} == {language == "zh"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_readme_of_a_folder_names_commands_and_files_that_are_there(tmp_path, language):
    run("init", str(tmp_path), "--lang", language)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert bool(HAN.search(text)) == (language == "zh")
    own = re.escape(find_own_command())
    named = set(re.findall(rf"{own} ([a-z]+)", text))
    assert named == {"grade", "watch", "learn", "hint", "show", "update"}
    assert named <= set(typer.main.get_command(app).commands)
    links = re.findall(r"\]\((.*?)\)", text)
    assert len(links) == 4
    assert [link for link in links if not (tmp_path / link).exists()] == []


def test_vs_code_has_tasks_and_the_debugger(folder):
    tasks = json.loads((folder / ".vscode/tasks.json").read_text())["tasks"]
    assert [task["args"][2] for task in tasks] == ["grade", "hint", "watch"]
    launch = (folder / ".vscode/launch.json").read_text()
    assert "${workspaceFolder}/.venv" not in launch


NOTEBOOK = "notebooks/ex01_softmax.ipynb"


@pytest.fixture
def two(monkeypatch):
    """Notebooks of two exercises only: each takes a moment."""
    some = list_catalog_exercises()[:2]
    monkeypatch.setattr(handed_notebooks, "list_catalog_exercises", lambda: some)


def links_to_colab(folder: Path, name: str = NOTEBOOK) -> bool:
    return "colab.research.google.com/github/you/attention/" in (folder / name).read_text()


def test_notebooks_are_written_for_those_who_ask_and_updated_for_them_alone(
    two, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run("init", "work")[0] == 0
    work = tmp_path / "work"
    assert not (work / "notebooks").exists()
    monkeypatch.chdir(work)
    run("update")
    assert not (work / "notebooks").exists()
    assert f"{NOTEBOOK} is new." in run("update", "--notebooks")[1]
    assert not links_to_colab(work)
    mine = append(work / NOTEBOOK)
    said = run("update", "--repository", "https://github.com/you/attention")[1]
    assert f"{NOTEBOOK} has your work and stays." in said
    assert (work / NOTEBOOK).read_bytes() == mine
    assert links_to_colab(work, "notebooks/ex02_masking.ipynb")
    assert run("update")[1] == "Nothing is new here.\n"


def test_a_repository_asks_for_notebooks(two, tmp_path):
    code, said = run(
        "init", str(tmp_path / "work"), "--repository", "you/attention", "--lang", "zh"
    )
    assert code == 0
    assert "notebooks/ 里每道题有一个 notebook" in said
    assert links_to_colab(tmp_path / "work")


@pytest.mark.parametrize("command", [("init", "work"), ("update",)])
def test_a_wrong_repository_stops_with_a_sentence(folder, command):
    before = contents(folder)
    code, said = run(*command, "--repository", "a/b/c/d")
    assert code == 2
    assert said.startswith("a/b/c/d is no address of a repository on GitHub.")
    assert contents(folder) == before


def test_a_damaged_address_in_the_record_stops_with_a_sentence(folder):
    record = json.loads((folder / RECORD_FILE).read_text())
    (folder / RECORD_FILE).write_text(json.dumps(record | {"notebooks": True, "repository": ")"}))
    assert run("update") == (2, run("init", "x", "--repository", ")")[1])


def test_a_folder_speaks_the_language_that_it_was_written_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("init", "here", "--lang", "zh")
    monkeypatch.chdir(tmp_path / "here")
    first = Path(ANSWER).read_text().partition("\n")[0]
    Path(ANSWER).write_text(OWN_LINE)
    assert "现在是骨架" in run("reset", "ex01")[1]
    assert Path(ANSWER).read_text().partition("\n")[0] == first
    assert "ex01_softmax.zh.md" in first
    assert "is the skeleton already" in run("reset", "ex01", "--lang", "en")[1]
