"""What a course's file may say, and the sentence on everything that it may not."""

import re
from contextvars import copy_context
from dataclasses import fields, replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from grader.classroom.course.course_file import write_course_toml
from grader.classroom.course.settings import CourseSettings, read_course_settings
from grader.cli import options as arguments
from grader.cli.app import app
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.packs import PACKS_VARIABLE
from grader.core.toml_file import BadFile

PACK = ROOT / "tests/packs/sample"
FULL = """\
name = "Autumn"
language = "zh"
device = "cuda"
speed = false
wall = "contained"
help = "exam"
exam_shows = "nothing"
packs = ["packs"]
[late]
penalty_per_day = 12.5
at_most = 50
grace_minutes = 10
[[exercises]]
ex = "ex03"
weight = 1.5
deadline = 2027-03-01T23:59:00+01:00
[[exercises]]
ex = "ex02_masking"
[[extensions]]
student = "ada"
ex = "ex03"
days = 3
[[extensions]]
student = "ben \\"b\\" \\u4e2d"
until = 2027-03-08T00:00:00Z
"""


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Writes a course's file beside a pack: course(text) -> its path."""
    monkeypatch.setenv(PACKS_VARIABLE, "")
    (tmp_path / "packs").symlink_to(PACK)
    (tmp_path / "empty").mkdir()

    def write(text: str | bytes):
        path = tmp_path / "course.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    yield write
    catalog.list_catalog_exercises.cache_clear()


def test_every_entry_is_read(course, tmp_path):
    found = read_course_settings(course(FULL))
    usual = CourseSettings()
    assert [
        f.name for f in fields(CourseSettings) if getattr(found, f.name) == getattr(usual, f.name)
    ] == []
    assert found.packs == (PACK,)
    assert [e.slug for e in found.exercises] == ["ex02_masking", "ex03_sdpa"]  # of the syllabus
    assert found.weights == {"ex03_sdpa": 1.5}
    assert found.shows == "nothing"
    assert found.extension("ada", "ex03_sdpa") == timedelta(days=3)
    assert found.extension("eve", "ex03_sdpa") == timedelta(0)


def test_what_is_written_reads_as_what_it_was(course):
    found = read_course_settings(course(FULL))
    assert read_course_settings(course(write_course_toml(found))) == found
    assert read_course_settings(course(write_course_toml(CourseSettings()))) == CourseSettings()


def test_an_exercise_of_a_pack_is_one_of_the_course(course):
    [own] = read_course_settings(
        course('packs = ["packs"]\n[[exercises]]\nex = "ex50"\n')
    ).exercises
    assert own.home == PACK


def test_a_weight_decides_whether_a_report_counts_an_exercise(course):
    weights = {"ex01": "", "ex02": "weight = 0", "ex09": "", "ex10": "weight = 0.5"}
    path = course("".join(f'[[exercises]]\nex = "{x}"\n{w}\n' for x, w in weights.items()))

    def named():
        arguments.ACTIVE_COURSE.set(read_course_settings(path))
        return arguments.parse_exercises_option(list(weights), ROOT / "solutions")

    for found in (read_course_settings(path).exercises, copy_context().run(named)):
        assert [e.track for e in found] == ["core", "further", "further", "core"]


def test_an_empty_file_says_what_holds_without_one(course):
    assert read_course_settings(course("")) == CourseSettings()


def test_the_template_is_the_defaults_and_its_examples_are_entries(tmp_path):
    path = tmp_path / "course.toml"
    done = CliRunner().invoke(app, ["course", "new", "-o", str(path)])
    assert done.exit_code == 0, done.output
    assert read_course_settings(path) == CourseSettings()
    text = path.read_text()
    path.write_text(re.sub(r"^#(?! )", "", text, flags=re.M).replace('"open"', '"exam"'))
    found = read_course_settings(path)
    same = [
        f.name
        for f in fields(CourseSettings)
        if getattr(found, f.name) == getattr(CourseSettings(), f.name)
    ]
    assert same == ["name", "device", "speed", "packs", "late"]
    for field in re.findall(r"(\w+) = |\[(\w+)\]", FULL):
        assert "".join(field) in text
    again = CliRunner().invoke(app, ["course", "new", "-o", str(path)])
    assert again.exit_code == 2 and "is there already" in again.stderr
    assert path.read_text() != text


DUE = "[[exercises]]\nex = 'ex03'\ndeadline = 2027-03-01T23:59:00+01:00\n"
WRONG = [
    ("lang = 'zh'", "lang is an entry that nothing reads. Write language."),
    ("x = 1", "x is an entry that nothing reads. Remove it."),
    ("[late]\nper_day = 1", "late.per_day is an entry that nothing reads. Write penalty_per_day."),
    ("name = 1", "name is 1. Write text in quotes, not empty."),
    ("name = ' '", "name is ' '. Write text in quotes, not empty."),
    ("language = 'zh_CN'", "language is 'zh_CN'. Write 'en' or 'zh'."),
    ("device = 'cdua'", "device is 'cdua'. Write 'cpu' or 'cuda'."),
    ("speed = 'no'", "speed is 'no'. Write true or false."),
    ("wall = 'process'", "wall is 'process'. Write 'locked' or 'contained'."),
    ("help = 'none'", "help is 'none'. Write 'open' or 'hints' or 'exam'."),
    ("exam_shows = 'nothing'", 'exam_shows is for exams, but help = "open": remove one'),
    ("packs = 'own'", "packs is 'own'. Write a list of texts in quotes."),
    ("packs = ['gone']", "packs names 'gone', but there is no such folder in"),
    ('packs = ["a\\u0000b"]', "but there is no such folder in"),
    (f"packs = ['{'x' * 5000}']", "but there is no such folder in"),
    ("packs = ['empty']", "packs cannot be followed. There is no suites/<slug>/exercise.toml in"),
    (f"packs = [0x{'f' * 5000}]", "packs is a number of too many digits. Write"),
    ("late = 3", "late is 3. Write a table, [late], and its entries under it."),
    (f"[late]\nat_most = 0x{'f' * 5000}", "late.at_most is a number of too many digits. Write a number from 0 to 100."),
    ("[late]\npenalty_per_day = 101", "late.penalty_per_day is 101. Write a number from 0 to 100."),
    ("[late]\npenalty_per_day = true", "late.penalty_per_day is true. Write a number from 0 to 100."),
    ("[late]\npenalty_per_day = nan", "late.penalty_per_day is nan. Write a number from 0 to 100."),
    ("[late]\npenalty_per_day = 20\nat_most = 10", "late.at_most is less than one day costs (20)"),
    ("exercises = ['ex03']", "exercises is no list of tables. Write [[exercises]] above each of them."),
    ("[[exercises]]\nweight = 1", "exercises.1.ex is missing. Add it."),
    ("[[exercises]]\nex = 'ex3'", "exercises.ex3: There is no exercise called 'ex3'. Did you mean ex03?"),
    ("[[exercises]]\nex = 'ex03'\n" * 2, "exercises.ex03 names ex03_sdpa a second time"),
    ("[[exercises]]\nex = 'ex03'\nweight = -1", "exercises.ex03.weight is -1. Write a number from 0 to 1000."),
    ("[[exercises]]\nex = 'ex03'\nweight = inf", "exercises.ex03.weight is inf. Write a number from 0 to 1000."),
    (f"[[exercises]]\nex = 'ex03'\nweight = 1{'0' * 400}", "exercises.ex03.weight is 10000000000"),
    ("[[exercises]]\nex = 'ex03'\ndeadline = 2027-03-01T23:59:00", "is 2027-03-01 23:59:00. Write a date and a time"),
    ("[[exercises]]\nex = 'ex03'\ndeadline = 2027-03-01", "is 2027-03-01. Write a date and a time"),
    ("[[exercises]]\nex = 'ex03'\ndeadline = '2027-03-01T23:59Z'", "with the offset from UTC and without quotes, such as"),
    ("[[exercises]]\nex = 'ex03'\ndeadline = 0207-03-01T23:59:00Z", "Write a date and a time of the years 2000 to 2100"),
    (DUE + "[[extensions]]\ndays = 1", "extensions.1.student is missing. Add it."),
    (DUE + "[[extensions]]\nstudent = 'ada'", "extensions.1 needs until or days: give one of the two."),
    (DUE + "[[extensions]]\nstudent = 'ada'\ndays = 1\nuntil = 2027-03-09T00:00:00Z", "give one of the two"),
    (DUE + "[[extensions]]\nstudent = 'ada'\ndays = 1\nex = 'ex05'", "extensions.ex05: ex05_causal_mask is no part of the course."),
    (DUE + "[[extensions]]\nstudent = 'ada'\nuntil = 2027-01-01T00:00:00Z\nex = 'ex03'", "is before the deadline"),
    (DUE + "[[extensions]]\nstudent = 'ada'\nuntil = 2027-01-01T00:00:00Z", "is before every deadline: mend"),
    ("[[extensions]]\nstudent = 'ada'\ndays = 1", "extensions.1 cannot give more time, since no exercise has a deadline"),
    ("name = ", "is not valid TOML"),
    ("a = " + "[" * 5000, "is not valid TOML"),
    (b"\xff\xfe\x00", "is not UTF-8 text. Save it as UTF-8."),
]  # fmt: skip


@pytest.mark.parametrize("text, says", WRONG)
def test_what_cannot_be_followed_is_one_sentence_that_names_it(course, text, says):
    path = course(text)
    with pytest.raises(BadFile) as told:
        read_course_settings(path)
    assert says in str(told.value)
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)


def test_a_file_that_is_not_there_and_a_folder_get_a_sentence(tmp_path):
    with pytest.raises(BadFile, match="is not there: `python -m grader course new -o"):
        read_course_settings(tmp_path / "course.toml")
    with pytest.raises(BadFile, match="cannot be read: Is a directory"):
        read_course_settings(tmp_path)


def said(*arguments: object, **environment: str) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)), env=environment)
    assert done.exit_code == 2, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.stderr


EXAM = "help = 'exam'\nlanguage = 'en'\n[[exercises]]\nex = 'ex02'\n"


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("joined", [True, False])
def test_the_option_stands_before_a_command_or_after_it(course, before, joined):
    path = course(EXAM)
    option = [f"--course={path}"] if joined else ["--course", path]
    command = ["grade", "ex01", "--submission", "solutions"]
    assert "ex01_softmax is no part of" in said(*(option + command if before else command + option))


def test_the_environment_names_a_course_and_an_option_wins(course, tmp_path):
    path = course(EXAM)
    assert "ex01_softmax is no part of" in said("grade", "ex01", GRADER_COURSE=str(path))
    assert "nowhere is not there" in said("grade", "--course", "nowhere", GRADER_COURSE=str(path))


def test_a_course_that_only_lies_there_is_not_taken(course, tmp_path, monkeypatch):
    course("nonsense")
    monkeypatch.chdir(tmp_path)
    assert "There is no format" in said("grade", "--submission", ".", "--format", "x")


@pytest.mark.parametrize("command", ["hint", "show", "bench", "watch", "drill", "interview"])
def test_an_exam_has_no_help(course, command):
    assert f"`{command}` is not for exams" in said(command, "ex02", "--course", course(EXAM))


def test_an_option_without_its_file_gets_a_sentence():
    assert "What follows --course?" in said("grade", "--course")


def test_a_course_gives_options_their_defaults_and_one_that_is_written_wins(course):
    path = course("device = 'cuda'\nlanguage = 'zh'\n")
    options = ["--course", path, "--submission", "solutions", "--format", "x"]
    assert "没有叫 'x' 的报告格式" in said("grade", "ex02", *options)
    assert "no format" in said("grade", "ex02", *options, "--lang", "en")
    assert "没有叫 'tpu' 的设备" in said("grade", "ex02", *options[:4], "--device", "tpu")
    assert "no language called 'fr'" in said(
        "grade", "ex02", *options[:4], "--device", "cpu", "--lang", "fr"
    )


def test_no_option_goes_below_the_wall_that_is_demanded(course):
    path = course("wall = 'locked'")
    told = said(
        "grade", "ex02", "--submission", "solutions", "--course", path, "--isolation", "process"
    )
    assert "demands the wall 'locked', and 'process' is what was asked for." in told


def test_marks_are_not_made_of_an_exam_that_shows_nothing(course):
    path = course(EXAM + "")
    path.write_text("exam_shows = 'nothing'\n" + EXAM)
    told = said("grade", "--submission", "solutions", "--course", path, "--format", "gradescope")
    assert "has no marks for gradescope: grade it with `make class`." in told
    told = said("grade", "--submission", "solutions", "--course", path, "--min-score", "1")
    assert "tells no points: grade it without --min-score" in told


def test_a_student_s_copy_has_nobodys_extension_and_no_wall(course):
    found = read_course_settings(course(FULL))
    text = write_course_toml(found.for_students())
    assert "ada" not in text and "contained" not in text and "packs" not in text
    assert replace(found, extensions=(), wall=None, packs=()) == read_course_settings(course(text))


def test_a_course_holds_for_its_own_command_alone(course):
    path = course("[[exercises]]\nex = 'ex02'\n")
    done = CliRunner().invoke(app, ["progress", "--course", str(path)])
    assert "ex02" in done.output and "ex03" not in done.output
    assert arguments.find_course_option() == CourseSettings()
