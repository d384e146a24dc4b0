"""The questions of an exercise: as they are written, and a sentence for what is no question."""

from dataclasses import replace

import pytest

from grader.core import catalog, translation
from grader.core.questions import BadQuestions, read_questions
from grader.core.translation import Words

ONE = '[[questions]]\nid = "scale"\nasks = """Why\n divide?"""\nanswer = "The variance."\n'
EXERCISE = catalog.find("ex02")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "questions.toml"


@pytest.fixture
def read(file):
    return lambda: read_questions(replace(EXERCISE, folder=file.parent))


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


NOTHING_ELSE = "should hold [[questions]] and nothing else: mend it."
BAD = [
    (b"\xff", "is not UTF-8 text: save it as UTF-8."),
    (b"[[questions", "is not valid TOML: "),
    (b"", NOTHING_ELSE),
    (b"questions = 3", NOTHING_ELSE),
    (f'title = "x"\n{ONE}'.encode(), NOTHING_ELSE),
    (b"questions = [3]", "question 1 has no text `id`: add it."),
    (ONE.replace('"The variance."', '" "').encode(), "question 1 has no text `answer`: add it."),
    (ONE.replace('"The variance."', "3").encode(), "question 1 has no text `answer`: add it."),
    (f"{ONE}hint = 3".encode(), "nothing reads `hint` of question 1: remove it."),
    (f"{ONE}{ONE}".encode(), "has more than one question 'scale': rename one."),
]


@pytest.mark.parametrize("content, says", BAD)
def test_what_is_no_question_gets_a_sentence(file, read, content, says):
    file.write_bytes(content)
    with pytest.raises(BadQuestions) as caught:
        read()
    assert str(caught.value).startswith(str(file))
    assert says in str(caught.value)


def test_a_folder_in_its_place_gets_a_sentence(file, read):
    file.mkdir()
    with pytest.raises(BadQuestions, match="cannot be read: Is a directory"):
        read()


def test_the_chinese_is_found_by_the_id(monkeypatch):
    table = {"questions": {"scale": {"asks": "为什么？", "answer": "方差。"}}}
    monkeypatch.setattr(translation, "_read_suite_texts", lambda slug: table)
    words = Words("zh")
    assert words.question("ex02", "scale", "Why?", "Variance.") == ("为什么？", "方差。")
    assert words.question("ex02", "other", "Why?", "Variance.") == ("Why?", "Variance.")
    assert Words("en").question("ex02", "scale", "Why?", "V.") == ("Why?", "V.")
