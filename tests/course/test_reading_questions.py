"""The questions of an exercise: as they are written, and a sentence for what is no question."""

from dataclasses import replace

import pytest

from grader.core import catalog, translation
from grader.core.questions import read_questions_toml
from grader.core.toml_file import BadFile
from grader.core.translation import Words

ONE = '[[questions]]\nid = "scale"\nasks = """Why\n divide?"""\nanswer = "The variance."\n'
EXERCISE = catalog.find_catalog_exercise("ex02")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "questions.toml"


@pytest.fixture
def read(file):
    return lambda: read_questions_toml(replace(EXERCISE, folder=file.parent))


def test_a_question_is_read_with_its_answer(file, read):
    file.write_text(ONE)
    [question] = read()
    assert (question.id, question.asks, question.answer) == (
        "scale",
        "Why divide?",
        "The variance.",
    )


def test_there_may_be_none(read):
    assert read() == ()


BAD = [
    (b"\xff", "is not UTF-8 text. Save it as UTF-8."),
    (b"[[questions", "is not valid TOML: "),
    (b"", "questions is missing. Add it."),
    (b"questions = 3", "questions is no list of tables. Write [[questions]] above each of them."),
    (f'title = "x"\n{ONE}'.encode(), "title is an entry that nothing reads. Remove it."),
    (b"questions = [3]", "questions is no list of tables. Write [[questions]]"),
    (
        ONE.replace('answer = "The variance."', "").encode(),
        "questions.scale.answer is missing. Add it.",
    ),
    (ONE.replace('"The variance."', '" "').encode(), "questions.scale.answer is ' '. Write text"),
    (ONE.replace('"The variance."', "3").encode(), "questions.scale.answer is 3. Write text"),
    (f"{ONE}hint = 3".encode(), "questions.scale.hint is an entry that nothing reads. Remove it."),
    (f"{ONE}{ONE}".encode(), "has more than one question 'scale': rename one."),
]


@pytest.mark.parametrize("content, says", BAD)
def test_what_is_no_question_gets_a_sentence(file, read, content, says):
    file.write_bytes(content)
    with pytest.raises(BadFile) as caught:
        read()
    assert str(caught.value).startswith(str(file))
    assert says in str(caught.value)


def test_a_folder_in_its_place_gets_a_sentence(file, read):
    file.mkdir()
    with pytest.raises(BadFile, match="cannot be read: Is a directory"):
        read()


def test_the_chinese_is_found_by_the_id(monkeypatch):
    table = {"questions": {"scale": {"asks": "为什么？", "answer": "方差。"}}}
    monkeypatch.setattr(translation, "_read_suite_translations", lambda slug: table)
    words = Words("zh")
    assert words.question("ex02", "scale", "Why?", "Variance.") == ("为什么？", "方差。")
    assert words.question("ex02", "other", "Why?", "Variance.") == ("Why?", "Variance.")
    assert Words("en").question("ex02", "scale", "Why?", "V.") == ("Why?", "V.")
