"""A passed answer beside the model answer: what is compared, what is left out, and the reasons."""

from dataclasses import replace

import pytest

from grader.core import catalog
from grader.core.translation import Words
from grader.practice.model_answer import (
    MAX_LINES,
    compare_lines_with_model_answer,
    compare_with_model_answer,
    list_other_ways,
    split_definitions,
)
from tests.conftest import solution

EX03 = catalog.find_catalog_exercise("ex03")
each_exercise = pytest.mark.parametrize(
    "exercise", catalog.list_catalog_exercises(), ids=lambda e: e.slug
)


def shown(lines) -> list[tuple]:
    return [x.left_out or (x.yours, x.model, x.differs) for x in lines]


@each_exercise
def test_every_name_has_code_and_a_reason_in_both_languages(exercise):
    english, chinese = (compare_with_model_answer(exercise, "", x) for x in ("en", "zh"))
    assert sorted(d.name for d in english) == sorted(exercise.names)
    for d, other in zip(english, chinese, strict=True):
        assert any(d.name in (line.model or "") for line in d.lines)
        assert d.why.startswith("## ") and other.why.startswith("## ")
        assert d.why != other.why


def test_the_model_answer_itself_differs_in_no_line():
    for d in compare_with_model_answer(EX03, solution("ex03"), "en"):
        assert not any(line.differs for line in d.lines)


def test_a_changed_line_stands_beside_that_of_the_model_answer():
    source = solution("ex03").replace("scores = q * scale @ k.mT", "scores = (q @ k.mT) * scale")
    _, torch = compare_with_model_answer(EX03, source, "en")
    [line] = [x for x in torch.lines if x.differs]
    assert "(q @ k.mT) * scale" in line.yours
    assert "q * scale @ k.mT" in line.model


def test_helpers_stand_before_the_first_definition_that_needs_them():
    numpy, torch = compare_with_model_answer(EX03, "", "en")
    assert numpy.lines[0].model.startswith("def _check_shapes")
    assert not any("def _check_shapes" in (x.model or "") for x in torch.lines)


def test_equal_lines_far_from_a_difference_are_left_out():
    same = [f"x = {n}" for n in range(10)]
    assert shown(compare_lines_with_model_answer(same, same)) == [10]
    assert shown(compare_lines_with_model_answer([*same, "y = 1"], [*same, "y = 2"])) == [
        7, ("x = 7", "x = 7", False), ("x = 8", "x = 8", False), ("x = 9", "x = 9", False),
        ("y = 1", "y = 2", True),
    ]  # fmt: skip


def test_comments_make_no_difference_and_strings_do():
    assert shown(compare_lines_with_model_answer(["x = 1  # one"], ["x = 1"])) == [1]
    assert shown(compare_lines_with_model_answer(["x = '# one'"], ["x = '# two'"])) == [
        ("x = '# one'", "x = '# two'", True)
    ]


def test_what_is_long_or_deep_is_cut_and_does_no_harm():
    chain = "".join(f"def f{n}():\n    return f{n + 1}()\n" for n in range(5000))
    numpy, _ = compare_with_model_answer(EX03, f"{chain}def attention_numpy(q):\n    f0()\n", "en")
    assert 0 < sum(x.yours is not None for x in numpy.lines) <= MAX_LINES
    [line] = compare_lines_with_model_answer(["x" * 10**6], [])
    assert len(line.yours) < 1000


def test_marks_of_direction_and_control_codes_are_taken_out():
    source = "def attention_numpy():\n    '\u202e\x1b[31m'\n"
    numpy, _ = compare_with_model_answer(EX03, source, "en")
    assert any(x.yours == "    '[31m'" for x in numpy.lines)


@pytest.mark.parametrize(
    "code, names",
    [
        ("@once\n@twice\ndef f():\n    x = 1\n\n    return x\n\n\n# more\ng = 2\n", ["f", "g"]),
        ("async def f(\n    x,\n):\n    pass\nclass G:\n    y = 1\n", ["f", "G"]),
        ("h: int = 3\nif h == 3:\n    f = 1\nimport math\nprint(1)\n", ["h"]),
        ('extern "C" void run(int n) {\n  int x;\n}\n__global__ void kernel(float* q) {\n}\n', ["run", "kernel"]),
    ],
)  # fmt: skip
def test_definitions_begin_at_the_margin(code, names):
    found = split_definitions(code)
    assert list(found) == names
    assert found[names[0]][0] == code.splitlines()[0]
    assert found[names[0]][-1].strip()


@each_exercise
def test_two_other_ways_are_shown_with_a_sentence_in_both_languages(exercise):
    ways = list_other_ways(exercise, Words("en"))
    assert len(ways) == (0 if exercise.language == "cuda" else 2)
    for way, chinese in zip(ways, list_other_ways(exercise, Words("zh")), strict=True):
        assert way.name in exercise.names
        assert way.code.partition("(")[0].split()[-1] == way.name
        assert way.says not in way.code
        assert chinese.says != way.says


def test_a_bundle_without_answers_shows_none(tmp_path):
    bare = replace(EX03, home=tmp_path, folder=tmp_path)
    assert compare_with_model_answer(bare, solution("ex03"), "en") == ()
    assert list_other_ways(bare, Words("en")) == ()
