"""A new exercise is written whole, as a draft, and over nothing. docs/authors.md goes on from there."""

import os

import pytest
from typer.testing import CliRunner

from grader.authoring import new_exercise
from grader.cli import app
from grader.core import catalog
from grader.submission import answer_file
from tests.conftest import ROOT

SLUG = "ex97_two_words"


def run(*command: object):
    return CliRunner().invoke(app.app, ["new", *map(str, command)])


@pytest.mark.parametrize(
    "name, says",
    [
        ("alibi", "'alibi' is no name of an exercise: two digits after ex, then words"),
        ("ex9_alibi", "such as ex18_alibi."),
        ("ex97", "such as ex18_alibi."),
        ("ex97_Alibi", "such as ex18_alibi."),
        ("ex97_", "such as ex18_alibi."),
        ("ex97_../x", "such as ex18_alibi."),
        ("ex97_alibi\n", "such as ex18_alibi."),
        ("ex02_masking", "ex02 is ex02_masking: take ex50_masking."),
        ("ex02_other", "ex02 is ex02_masking: take ex50_other."),
    ],
)
def test_a_name_that_cannot_be_taken_is_a_sentence(name, says, tmp_path):
    done = run(name, "--into", tmp_path)
    assert done.exit_code == 2
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_exercise_of_ours_is_to_take_the_next_number_of_ours():
    assert "ex02 is ex02_masking: take ex18_other." in run("ex02_other").stderr


def test_without_a_name_it_asks_for_one():
    done = run()
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "Which name is it to have? `make new EX=ex18_alibi`, for instance.\n"


def test_it_writes_what_an_exercise_of_ours_has(tmp_path):
    done = run(SLUG, "--into", tmp_path)
    assert done.exit_code == 0, done.output
    ours = {p.name for p in (ROOT / "grader/suites/ex00_plain_python").iterdir() if p.is_file()}
    wanted = {"test_two_words.py" if name.startswith("test_") else name for name in ours}
    more = {"questions.toml", "mistakes.py"}  # a catalogue becomes a folder when it has grown
    assert {p.name for p in (tmp_path / "suites" / SLUG).iterdir()} == wanted | more
    found = catalog.read_exercise_manifest(tmp_path / "suites" / SLUG / "exercise.toml", tmp_path)
    assert (found.draft, found.track, found.title) == (True, "draft", "Two words")
    for room in ("solutions", "reference", "exercises"):
        assert [p.name for p in (tmp_path / room).iterdir()] == [f"{SLUG}.py"]
    assert answer_file.is_submission_file_untouched(tmp_path / "exercises" / f"{SLUG}.py")
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert [p for p in written if "{{" in p.read_text(encoding="utf-8")] == []


def test_what_is_there_is_not_written_over(tmp_path):
    mine = tmp_path / "solutions" / f"{SLUG}.py"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = run(SLUG, "--into", tmp_path)
    assert done.exit_code == 2
    assert f"{mine} is there already, and nothing is written over" in done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [mine]


def test_a_number_of_the_pack_is_taken_too(tmp_path):
    run(SLUG, "--into", tmp_path)
    assert (
        "ex97 is ex97_two_words: take ex98_other." in run("ex97_other", "--into", tmp_path).stderr
    )


def test_what_is_no_folder_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(SLUG, "--into", tmp_path / "file")
    assert done.exit_code == 2
    assert "cannot be written: " in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_closed_folder_is_a_sentence(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot be written: Permission denied." in run(SLUG, "--into", tmp_path).stderr


def test_an_open_place_is_told_with_its_line(tmp_path):
    run(SLUG, "--into", tmp_path)
    folder = tmp_path / "suites" / SLUG
    (folder / "variants.py").write_text("# one\n# TODO: write five.\nTODOS = 1\n# TODO\n")
    found = catalog.read_exercise_manifest(folder / "exercise.toml", tmp_path)
    told = [line for line in new_exercise.list_new_exercise_todos(found) if "variants.py" in line]
    assert told == [
        f"{folder}/variants.py line 2 is open: write five. Write it.",
        f"{folder}/variants.py line 4 is open: no word says what belongs there. Write it.",
    ]


@pytest.mark.parametrize(
    "line, what",
    [
        ('    "TODO: second",', "second"),
        ('names = ["TODO: the gentle hint", "TODO: the plain hint"]', "the gentle hint"),
        ('@learn("TODO: what (or why) it is")', "what (or why) it is"),
        ("names = ['TODO: one', 'TODO: two']", "one"),
        ('about = """TODO: what it is about."""', "what it is about"),
        ("# TODO: one of each (null=True). The rest", "one of each (null=True)"),
        ("# TODO: what is asked. **Out of scope:** TODO: the rest", "what is asked"),
        ("# TODO: values, then broadcasting,", "values, then broadcasting"),
        (
            '# TODO: see grader/judging/hard.py; say "why" it\'s so',
            'see grader/judging/hard.py; say "why" it\'s so',
        ),
        ("# TODO：用中文写。第二句", "用中文写"),
        ('    "TODO",', "no word says what belongs there"),
    ],
)
def test_an_open_place_is_told_in_its_own_sentence_without_the_marks_around_it(
    tmp_path, line, what
):
    run(SLUG, "--into", tmp_path)
    folder = tmp_path / "suites" / SLUG
    (folder / "variants.py").write_text(f"{line}\n")
    found = catalog.read_exercise_manifest(folder / "exercise.toml", tmp_path)
    told = [line for line in new_exercise.list_new_exercise_todos(found) if "variants.py" in line]
    assert told == [f"{folder}/variants.py line 1 is open: {what}. Write it."]
