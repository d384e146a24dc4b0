"""What a learner's commands print of errors and of help, in Chinese: no sentence stays English."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from grader.cli import global_options
from grader.cli.app import app
from grader.core import translation
from grader.core.catalog import ROOT
from grader.core.translation import Words

LEARNERS = (
    "grade", "bench", "show", "watch", "hint", "drill", "learn", "init", "update", "interview",
    "progress", "reset", "debug", "doctor",
)  # fmt: skip
OF_OTHERS = (  # rooms and files whose sentences only teachers, authors and maintainers meet
    "authoring", "classroom", "release", "gpu_check", "suites",
    "class_commands.py", "collect_command.py", "course_commands.py", "maintainer.py",
    "new_command.py", "classroom50.py", "from_json.py", "replay.py", "questions.py",
    "suite_runner.py", "solution_text.py",
)  # fmt: skip
FOR_LEARNERS = ("learner_notebook.py", "skeletons.py")  # of those rooms
STOPPING = {"UserError", "NoSuchWall", "UnknownExercise", "stop_command"}
ONLY_VALUES = re.compile(r"^[\W_]*(x7[\W_]*)*$")


def read_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "grader").rglob("*.py")):
        if path.name in FOR_LEARNERS or not {*path.relative_to(ROOT).parts} & {*OF_OTHERS}:
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def called(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def named(base: ast.expr) -> str:
    return base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")


def find_stopping_names(modules: list[tuple[str, ast.Module]]) -> set[str]:
    """What ends a command with its first argument: our errors, and what inherits from them."""
    classes = [n for _, tree in modules for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    names, more = set(STOPPING), set(STOPPING)
    while more:
        more = {c.name for c in classes if {named(b) for b in c.bases} & names} - names
        names |= more
    return names


def sample(text: ast.expr) -> str:
    """A sentence with x7 for its values; a value right behind a full stop is one more sentence."""
    if isinstance(text, ast.Constant):
        return str(text.value)
    parts = text.values if isinstance(text, ast.JoinedStr) else []
    told = "".join(str(p.value) if isinstance(p, ast.Constant) else "x7" for p in parts)
    return re.sub(r"(?<=\.)x7$", "", told)


def is_english(told: str) -> bool:
    plain = re.sub(r"`[^`]*`|--[a-z-]+|[\w/<>]*/[\w/<>.]*|[\w-]+\.[a-z]+", "", told)
    return bool(re.search(r"[a-z]+ [a-z]+ [a-z]+", plain)) or not re.search("[\u4e00-\u9fff]", told)


def list_sentences() -> Iterator[tuple[str, str]]:
    """Every sentence that is written where it ends a command, and where that is."""
    modules = list(read_modules())
    names = find_stopping_names(modules)
    for path, tree in modules:
        for node in ast.walk(tree):
            if called(node) in names and (node.args or node.keywords):
                told = sample(node.args[0])
                if told and not ONLY_VALUES.match(told):
                    yield f"{path}:{node.lineno}", told


def test_every_sentence_that_ends_a_command_is_there_in_chinese():
    found = {told: where for where, told in list_sentences()}
    assert len(found) > 40
    assert "There is no exercise called x7." in found
    zh = Words("zh")
    assert [(where, told) for told, where in found.items() if is_english(zh.said(told))] == []


def read_texts(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """What an expression may stand for, as far as the file says: texts, and tables of them."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name in constants:
            yield from read_texts(constants[name], constants)
        case ast.IfExp() | ast.Dict() | ast.Tuple() | ast.Subscript():
            parts = {"IfExp": ("body", "orelse"), "Dict": ("values",), "Tuple": ("elts",)}
            for part in parts.get(type(node).__name__, ("value",)):
                found = getattr(node, part)
                for one in found if isinstance(found, list) else [found]:
                    yield from read_texts(one, constants)


def list_asked_sentences() -> Iterator[tuple[str, str]]:
    """Every sentence that is asked for in the learner's language by the name of a constant."""
    for path, tree in read_modules():
        constants = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if called(node) in ("words", "_words", "say") and node.args:
                yield from ((text, path) for text in read_texts(node.args[0], constants))


def test_every_sentence_that_is_asked_for_by_name_is_there_in_chinese():
    asked = {*list_asked_sentences()}
    assert len(asked) > 150
    known = translation._read_core_translations()
    assert [x for x in sorted(asked) if x[0] not in known and re.search("[a-z]{2}", x[0])] == []


def test_nothing_english_is_printed_past_the_translation():
    found = []
    for path, tree in read_modules():
        for node in ast.walk(tree):
            if called(node) == "print" and node.args:
                text = re.sub(r"x7|\[/?[a-z]*\]", "", sample(node.args[0]))
                both = re.search("[\u4e00-\u9fff]", text)  # where no language is known yet
                found += [f"{path}: {text}"] if re.search("[a-z]{3}", text) and not both else []
    assert found == []


def texts_of_help(command) -> list[str]:
    return [command.help, *(p.help for p in command.params)]


def test_the_help_of_every_command_of_a_learner_is_there_in_chinese():
    group = typer.main.get_command(app)
    listed = group.commands.keys() - {*global_options.OF_WHOLE_PROJECT}
    texts = [*texts_of_help(group), *(group.commands[name].help for name in listed)]
    texts += [text for name in LEARNERS for text in texts_of_help(group.commands[name])]
    assert [text for text in texts if text and is_english(Words("zh")(text))] == []


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder, and an environment that speaks Chinese."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout + done.stderr


OLDER = [  # that other versions of Typer print
    "No such option: --foo Did you mean --fresh?", "No such option '--foo'.",
    "Got unexpected extra argument (b)", "Got unexpected extra arguments (b c)",
    "Invalid value for '--level': 'x' is not a valid integer.", "Missing argument 'SUBMISSIONS'.",
    "No such command 'grad'. Did you mean 'grade'?",
]  # fmt: skip


@pytest.mark.parametrize("told", OLDER)
def test_what_another_version_of_typer_prints_is_there_in_chinese(told):
    assert not is_english(Words("zh").said(told))


WRONG = [
    ("grade", "exO1"), ("grade", "ex01"), ("grade", "ex01", "--submission", "gone"), ("grade", "--foo"),
    ("grade", "ex01", "--seed"), ("grade", "--formt", "json"), ("fooo",), ("hint", "a", "b", "c"),
    ("hint", "ex01", "--level", "x", "--submission", "."), ("hint",), ("learn", "--port", "x"),
    ("show", "ex01", "--submission", ".", "--isolation", "x"), ("reset",), ("debug",), ("--what", "grade"),
    ("grade", "--submission", ".", "--device", "tpu"), ("grade", "--submission", ".", "--format", "jsn"),
    ("interview", "--minutes"), ("interview", "--minutes", "x"), ("update",), ("init", "/dev/null"),
    ("init", "x", "--repository", ")"), ("--exercises", "gone", "grade"), ("--course", "gone", "grade"),
    ("bench", "ex01", "--submission", ".", "--benchmark-columns"), ("grade", "--exercises"),
    ("bench", "ex01", "--submission", ".", "--benchmark-foo"), ("progress", "x"), ("show", "ex01", "--submission", ".", "--embedding", "x"),
    ("drill", "ex01"), ("watch", "ex99", "--submission", "."), ("house",),
]  # fmt: skip


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_is_wrong_with_a_command_is_told_in_chinese(here, monkeypatch, words):
    monkeypatch.setattr("grader.cli.options.is_project_whole", lambda: False)
    code, said = run(*words)
    assert code == 2
    assert [line for line in said.splitlines() if is_english(line)] == []


def test_help_is_in_chinese(here):
    for words in ((), *((name,) for name in LEARNERS)):
        said = run(*words, "--help")[1]
        assert "用法：" in said
        assert not re.search(r"Usage|Options|Commands|Arguments|default:|Show this", said)
    assert "Usage:" in run("grade", "--lang", "en", "--help")[1]


@pytest.mark.parametrize("words", [(), ("course",)])
def test_no_words_at_all_print_the_help_and_nothing_else(here, words):
    code, said = run(*words)
    assert code == 2
    assert said.count("用法：") == 1 and "--help" in said and "有说明" not in said


@pytest.mark.parametrize("words", [("exO1", "--lang", "en"), ("exO1", "--lang=en")])
def test_the_language_that_is_asked_for_goes_before_that_of_the_environment(here, words):
    assert run("grade", *words, "--submission", ".")[1].startswith("There is no exercise called")


def test_the_language_of_the_folder_goes_before_that_of_the_environment(here, monkeypatch):
    assert run("init", "work", "--lang", "en")[0] == 0
    monkeypatch.chdir(here / "work")
    assert run("grade", "exO1")[1].startswith("There is no exercise called")
    assert run("grade", "--foo")[1].startswith("Usage: ")


def test_an_unknown_language_is_told_in_the_one_that_is_known(here):
    assert run("grade", "--lang", "xx") == (2, "没有叫 'xx' 的语言：可以用 en 或 zh。\n")
