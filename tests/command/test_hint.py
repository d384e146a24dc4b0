"""The next hint: on what it is, how far it goes, and what is remembered of it."""

import json
from dataclasses import replace

import pytest

from grader.core import catalog
from grader.core.records import CheckResult, Exercise, ExerciseReport, Verdict
from grader.core.translation import Words
from grader.grading import exercise as exercise_module
from grader.grading.exercise import Run, grade_answer
from grader.practice import hint_ladder, hints, learner_progress
from grader.submission.answer_file import locate_submission
from grader.worker.parent.walls import PROCESS
from tests.conftest import ROOT, solution

EX01 = catalog.find_catalog_exercise("ex01")
EN = Words("en")
SKELETON = (ROOT / "exercises" / "ex01_softmax.py").read_text(encoding="utf-8")
BEGUN = SKELETON + "\n# begun\n"
RIGHT_NUMPY = """
import numpy as np

def softmax_numpy(x, axis=-1):
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype)

def softmax(x, dim=-1):
    raise NotImplementedError("later")
"""
NOT_STABLE = RIGHT_NUMPY.replace("wide - wide.max(axis=axis, keepdims=True)", "wide")
NO_EMPTY = RIGHT_NUMPY.replace("    wide =", "    assert x.size\n    wide =")


JUDGE = hints._judge_for_hint


@pytest.fixture(scope="module")
def graded_once(nursery):
    """Grade with the nursery of all tests, and each text once: it gets the same report again."""
    reports: dict[tuple[str, str], ExerciseReport] = {}

    def graded(exercise, place, wall, kept):
        path = locate_submission(place, exercise.slug)
        asked = exercise.slug, path.read_text(encoding="utf-8")
        if asked not in reports:
            run = Run(nursery=nursery, student="me", secret="s", speed=False)
            reports[asked] = grade_answer(exercise, place, run)
        return replace(reports[asked], path=str(path))

    return graded


@pytest.fixture(autouse=True)
def _grade_once(graded_once, monkeypatch):
    monkeypatch.setattr(hints, "_judge_for_hint", graded_once)


@pytest.fixture
def asked(tmp_path):
    """Ask for a hint on a text: asked(source) -> its sentences."""

    def ask(source: str, slug: str = "ex01_softmax", words: Words = EN, **how) -> tuple[str, ...]:
        (tmp_path / f"{slug}.py").write_text(source, encoding="utf-8")
        return hints.find_next_hint(
            catalog.find_catalog_exercise(slug), tmp_path, words=words, **how
        )

    return ask


def told(sentences: tuple[str, ...]) -> str:
    """Which hint it is: 'Hint 1 of 3 on softmax'."""
    [found] = [s.partition(":")[0] for s in sentences if s.startswith("Hint ")]
    return found


def test_what_is_not_started_begins_with_its_first_function(asked, tmp_path):
    first = EX01.functions["softmax_numpy"].hints[0]
    assert asked(SKELETON) == (
        "ex01_softmax is not started yet. Its lesson is docs/lessons/ex01_softmax.en.md; softmax_numpy comes first.",
        f"Hint 1 of 3 on softmax_numpy: {first}",
        f"`make hint EX=ex01_softmax SUBMISSION={tmp_path / 'ex01_softmax.py'}` gives the next one.",
    )


def test_hints_go_from_gentle_to_plain_and_end_there(asked):
    numbers = [told(asked(BEGUN)) for _ in range(4)]
    assert numbers == [f"Hint {n} of 3 on softmax_numpy" for n in (1, 2, 3, 3)]
    assert (
        asked(BEGUN)[-1] == "This is the last hint; the lesson is docs/lessons/ex01_softmax.en.md."
    )


def test_an_unchanged_file_fails_in_the_same_way_at_the_next_hint(tmp_path, monkeypatch):
    seeds = []

    def grade(exercise, place, run):
        seeds.append(run.secret)
        return ExerciseReport(slug=exercise.slug, title="", track="core", path="", sha256="",
                              state="graded", sentence="", score=None, checks=(), speed=None)  # fmt: skip

    monkeypatch.setattr(exercise_module, "grade_answer", grade)
    for _ in range(2):
        JUDGE(EX01, tmp_path, PROCESS, None)
    assert len(seeds) == 2
    assert seeds[0] == seeds[1]


def test_an_edit_that_does_not_help_goes_on_to_the_next_hint(asked):
    asked(BEGUN)
    assert told(asked(BEGUN + "# tried\n")) == "Hint 2 of 3 on softmax_numpy"


def test_what_is_right_now_gives_way_to_what_fails_next(asked):
    asked(BEGUN)
    assert told(asked(RIGHT_NUMPY)) == "Hint 1 of 3 on softmax"


def test_a_name_whose_checks_passed_begins_at_its_first_hint_again(asked):
    for source in (BEGUN, BEGUN, RIGHT_NUMPY):
        asked(source)
    assert told(asked(BEGUN)) == "Hint 1 of 3 on softmax_numpy"


def test_who_begins_anew_begins_at_the_first_hint(asked):
    asked(BEGUN)
    asked(BEGUN)
    assert told(asked(SKELETON)) == "Hint 1 of 3 on softmax_numpy"
    assert told(asked(SKELETON)) == "Hint 2 of 3 on softmax_numpy"


def test_a_mistake_that_is_known_comes_before_the_hint(asked):
    *check, mistake, hint, _ = asked(RIGHT_NUMPY.replace("axis=axis", "axis=-1"))
    assert check[0].startswith(
        "This fails in ex01_softmax: softmax_numpy works along the axis that it is given"
    )
    assert mistake == "`axis` is ignored: the last axis is used whatever was asked for."
    assert hint.startswith("Hint 1 of 2 on softmax_numpy: Hand `axis` to")


def test_the_hints_on_a_known_mistake_are_its_cure_and_then_the_last_of_the_function(asked):
    numbers = [told(asked(NOT_STABLE)) for _ in range(3)]
    assert numbers == [f"Hint {n} of 2 on softmax_numpy" for n in (1, 2, 2)]
    assert any(EX01.functions["softmax_numpy"].hints[-1] in said for said in asked(NOT_STABLE))
    assert (
        told(asked(RIGHT_NUMPY.replace("axis=axis", "axis=-1"))) == "Hint 1 of 2 on softmax_numpy"
    )


@pytest.mark.parametrize("words, own", [(EN, "In an empty array"), (Words("zh"), "空数组里")])
def test_a_check_with_hints_of_its_own_gives_them_before_the_last_of_the_function(
    asked, words, own
):
    *_, first, _ = asked(NO_EMPTY, words=words, level=2)  # behind the one on its exception
    assert own in first
    *_, last, _ = asked(NO_EMPTY, words=words)
    assert words.hints(EX01, "softmax_numpy")[-1] in last


def test_what_is_not_written_yet_gets_the_hints_of_the_function_whatever_check_fails(asked):
    asked(NO_EMPTY)
    assert told(asked(BEGUN)) == "Hint 1 of 3 on softmax_numpy"
    assert told(asked(RIGHT_NUMPY)) == "Hint 1 of 3 on softmax"


@pytest.mark.parametrize(
    "words, says",
    [(EN, "The call raised ValueError in line 6"), (Words("zh"), "在第 6 行抛出了 ValueError")],
)
def test_a_call_that_raised_has_a_hint_on_that_before_those_on_its_numbers(asked, words, says):
    raises = RIGHT_NUMPY.replace("wide.max(axis=axis, keepdims=True)", "wide.max(axis=axis)")
    assert says in asked(raises, words=words)[-2]
    assert words.hints(EX01, "test_numpy_values")[0] in asked(raises, words=words)[-2]


@pytest.mark.parametrize(
    "words, says", [(EN, "calls line 6 was not run"), (Words("zh"), "第 6 行")]
)
def test_a_line_that_is_not_allowed_has_a_hint_before_those_on_numbers(asked, words, says):
    refused = RIGHT_NUMPY.replace("np.exp(", "np.ctypeslib.exp(")
    assert says in asked(refused, words=words)[-2]
    assert words.hints(EX01, "test_numpy_values")[0] in asked(refused, words=words)[-2]


def test_a_level_can_be_asked_for_and_the_next_hint_follows_it(asked):
    assert told(asked(BEGUN, level=2)) == "Hint 2 of 3 on softmax_numpy"
    assert told(asked(BEGUN)) == "Hint 3 of 3 on softmax_numpy"


@pytest.mark.parametrize("level", [0, 4, -1])
def test_a_level_that_does_not_exist_is_a_sentence(asked, level):
    with pytest.raises(hints.NoHint, match=f"no hint {level} on softmax_numpy: choose 1 to 3"):
        asked(BEGUN, level=level)


def test_a_file_that_cannot_be_run_gets_its_own_sentence(asked):
    problem, after = asked("def softmax(x:\n")
    assert problem.startswith("Line 1 is not valid Python")
    assert after == "A hint can be given once the file can be run."


def test_a_passed_exercise_offers_its_solution(asked):
    assert asked(solution("ex01_softmax")) == (
        "ex01_softmax is passed: there is nothing to hint at.",
        "`make hint EX=ex01_softmax ARGS=--solution` shows a solution beside which to lay yours.",
    )


def test_what_is_passed_is_forgotten_and_no_file_is_made_for_it(asked, tmp_path):
    asked(solution("ex01_softmax"))
    assert not (tmp_path / learner_progress.PROGRESS_FILE).exists()
    asked(BEGUN)
    asked(solution("ex01_softmax"))
    assert hints.read_hint_progress(tmp_path, EX01).given == {}


def test_the_solution_is_code_that_passes(asked, graded):
    [code] = asked(solution("ex01_softmax"), solution=True)
    assert "SOLUTION" not in code
    assert "# %%" not in code
    assert hints.is_practice_passed(graded("ex01_softmax", code))


def test_the_solution_is_kept_from_who_has_not_passed(asked):
    with pytest.raises(hints.NoHint, match="is shown once it is passed"):
        asked(RIGHT_NUMPY, solution=True)


def test_where_there_is_no_solution_none_is_offered(asked, monkeypatch, tmp_path):
    monkeypatch.setattr(Exercise, "solution", tmp_path / "nowhere")
    assert asked(solution("ex01_softmax")) == (
        "ex01_softmax is passed: there is nothing to hint at.",
    )
    with pytest.raises(hints.NoHint, match="is not at hand here"):
        asked(solution("ex01_softmax"), solution=True)


def test_hints_come_in_the_language_that_was_asked_for(asked):
    zh = Words("zh")
    expected = zh.hints(EX01, "softmax_numpy")[0]
    assert expected not in EX01.functions["softmax_numpy"].hints
    assert expected in "\n".join(asked(SKELETON, words=zh))


@pytest.mark.parametrize("broken", ["split_heads", "merge_heads", "MultiHeadAttention"])
@pytest.mark.usefixtures("unexplained")
def test_the_hint_is_on_the_name_that_is_wrong(asked, broken):
    spoiled = {
        "split_heads": "_right = split_heads\ndef split_heads(x, num_heads):\n    return 2 * _right(x, num_heads)\n",
        "merge_heads": "_right = merge_heads\ndef merge_heads(x):\n    return 2 * _right(x)\n",
        "MultiHeadAttention": "MultiHeadAttention.forward = lambda self, x, context=None, keep=None: None\n",
    }[broken]
    sentences = asked(solution("ex04_heads") + "\n" + spoiled, "ex04_heads")
    assert told(sentences) == f"Hint 1 of 3 on {broken}"


@pytest.mark.parametrize(
    "why, name",
    [
        ("out is [1], but should be [2]  [merge_heads(float32 (2, 3))]", "merge_heads"),
        ("split_heads is not written yet: split.", "split_heads"),
        ("merge_heads(heads) is None  [split_heads(float32 (2, 3), 4)]", "merge_heads"),
        ("the process ended", "split_heads"),
    ],
)
def test_of_several_names_it_is_the_one_in_which_it_went_wrong(why, name):
    check = CheckResult(
        id="test_inverse", says="", verdict=Verdict.FAILED, points=1, why=why,
        calls=frozenset({"split_heads", "merge_heads"}),
    )  # fmt: skip
    assert hint_ladder.find_name_to_hint(catalog.find_catalog_exercise("ex04"), check) == name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        b'{"ex01_softmax": 3}',
        b'{"ex01_softmax": {"given": [1], "sha256": 7}}',
        b'{"ex01_softmax": {"given": {"softmax_numpy": "2"}}}',
        b'{"ex01_softmax": {"given": {"softmax_numpy": -1}}}',
        b'{"ex01_softmax": {"given": {"softmax_numpy": true}}}',
    ],
)
def test_a_damaged_memory_is_an_empty_one(tmp_path, content):
    (tmp_path / learner_progress.PROGRESS_FILE).write_bytes(content)
    assert hints.read_hint_progress(tmp_path, EX01) == hints.Progress()


def test_a_damaged_memory_is_written_anew(asked, tmp_path):
    (tmp_path / learner_progress.PROGRESS_FILE).write_bytes(b'{"ex01_softmax": [')
    assert told(asked(BEGUN)) == "Hint 1 of 3 on softmax_numpy"
    assert told(asked(BEGUN)) == "Hint 2 of 3 on softmax_numpy"


def test_a_number_too_large_is_the_last_hint(asked, tmp_path):
    (tmp_path / learner_progress.PROGRESS_FILE).write_text(
        '{"ex01_softmax": {"given": {"softmax_numpy": 99}}}'
    )
    assert told(asked(BEGUN)) == "Hint 3 of 3 on softmax_numpy"


def test_where_nothing_can_be_remembered_the_next_level_is_named(asked, tmp_path):
    (tmp_path / learner_progress.PROGRESS_FILE).mkdir()
    assert asked(BEGUN)[-1] == (
        ".progress cannot be written: `make hint EX=ex01_softmax ARGS='--level 2'` gives the next one."
    )
    assert [p.name for p in tmp_path.glob(".progress*")] == [learner_progress.PROGRESS_FILE]


def test_one_exercise_does_not_forget_another(asked, tmp_path):
    asked(BEGUN)
    asked((ROOT / "exercises" / "ex02_masking.py").read_text(encoding="utf-8"), "ex02_masking")
    kept = json.loads((tmp_path / learner_progress.PROGRESS_FILE).read_text())
    assert {slug: entry["given"] for slug, entry in kept.items()} == {
        "ex01_softmax": {"softmax_numpy": 1},
        "ex02_masking": {"additive_mask": 1},
    }
