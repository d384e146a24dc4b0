"""Every suite says which check runs which hard kind of input."""

import pytest
from torch import bfloat16, float16, float32

from grader.authoring import hard_cases
from grader.core import catalog
from grader.core.toml_file import BadFile
from grader.judging import Draw, Hard
from grader.judging.case import CURRENT_CASE, Case
from grader.judging.hard import LIMITS, WHOLE

EXERCISES = [e for e in catalog.list_catalog_exercises() if not e.draft]
SIZES = {"B": 2, "Lq": 5, "Lk": 7, "D": 4}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_a_suite_states_the_hard_kinds_of_every_name(exercise):
    assert list(hard_cases.check_hard_kinds_law(exercise)) == []


def test_a_statement_that_no_check_runs_is_listed():
    exercise = catalog.find_catalog_exercise("ex01")
    said = [s for s in hard_cases.read_hard_statements(exercise) if s.checks]
    ran = {}
    for one in said:
        for check in one.checks:
            ran.setdefault(check, []).append([one.name, one.kind.value])
    assert hard_cases.list_hard_statements_unrun(exercise, ran) == []
    gone = said[0].checks[0]
    name, kind = ran[gone].pop(0)
    assert hard_cases.list_hard_statements_unrun(exercise, ran) == [
        f"{gone} does not run {kind} on {name}"
    ]


@pytest.fixture
def draw():
    CURRENT_CASE.set(Case())
    return Draw("hard")


def test_square_sizes_have_one_length(draw):
    square, cube = draw.hard(Hard.SQUARE, **SIZES)
    assert square == {"B": 2, "Lq": 7, "Lk": 7, "D": 4}
    assert cube == {"B": 7, "Lq": 7, "Lk": 7, "D": 4}
    assert draw.hard(Hard.SQUARE, Lq=3, Lk=5) == [{"Lq": 5, "Lk": 5}]
    assert CURRENT_CASE.get().hard == {"square"}


def test_each_size_is_one_in_its_turn(draw):
    found = draw.hard(Hard.ONE, **SIZES)
    assert found[:-1] == [{**SIZES, name: 1} for name in SIZES]
    assert found[-1] == dict.fromkeys(SIZES, 1)


def test_long_sizes_pass_the_last_limit_that_is_allowed(draw):
    found = draw.hard(Hard.LONG, {"B": 0, "D": 128}, **SIZES)
    assert {s["Lq"] for s in found} == {5, LIMITS[-1] + 1, WHOLE}
    assert {s["D"] for s in found} == {4, 129}
    assert {s["B"] for s in found} == {1}
    assert {s["B"] for s in draw.hard(Hard.LONG, **SIZES)} == {1, 65}


def test_long_lengths_are_filled_by_tiles_and_are_no_longer_than_is_allowed(draw):
    found = draw.hard(Hard.LONG, {"Lk": 64}, **SIZES)
    assert [s["Lq"] % tile for s in found for tile in (16, 32, 64, 128) if s["Lq"] == WHOLE] == [
        0
    ] * 4
    assert {s["Lk"] for s in found} == {7, 64, 65}


def test_hard_scores_are_what_their_names_say(draw):
    scores = draw.scores(3, 70)
    assert (scores["falling"].diff() < 0).all()
    assert (scores["rising"].diff() > 0).all()
    assert (scores["negative"] < 0).all()
    assert CURRENT_CASE.get().hard == {"scores"}


@pytest.mark.parametrize("dtype, least", [(bfloat16, 500), (float16, 4000)], ids=str)
def test_ties_are_told_apart_in_float32_alone(draw, dtype, least):
    q, k = draw.ties(5, 48, dtype)
    right, scale = q.double() @ k.double().mT * 48**-0.5, 48**-0.5
    wide = q.float() @ k.float().mT * scale
    rounded = {"scores": wide.to(dtype).float(), "queries": (q * scale).float() @ k.float().mT}
    assert least < right.min() and (right.std(-1) < 3).all()
    assert (wide - right).abs().max() < 1e-3
    for name, scores in rounded.items():
        assert (scores - right).std() > 0.4, name
    assert CURRENT_CASE.get().hard == {"ties"}


@pytest.mark.parametrize("dtype, filled", [(float32, -1e30), (bfloat16, -1e30), (float16, -1e9)])
def test_low_scores_are_below_what_is_filled_in_and_differ(draw, dtype, filled):
    q, k = draw.low(3, 17, 8, dtype)
    scores = (q.float() @ k.float().mT * 8**-0.5).sort(-1).values
    assert (scores < filled).all() and scores.isfinite().all()
    assert (scores.diff() > 1e-3 * scores.abs().max()).all()
    assert CURRENT_CASE.get().hard == {"low"}


SAID = """
[softmax_numpy.asked]
one = ["test_numpy"]
"""


@pytest.mark.parametrize(
    "text, says",
    [
        ("[softmax.asked\n", "is not valid TOML"),
        ("[softmax]\nwhy = 'x'\n", "softmax.why is an entry that nothing reads"),
        (
            "[softmax.asked]\nround = ['test_values']\n",
            "softmax.asked.round is an entry that nothing reads",
        ),
        (
            "[softmax.asked]\none = 'test_values'\n",
            "softmax.asked.one is 'test_values'. Write a list of checks.",
        ),
        ("[softmax.not]\none = 'no'\n", "softmax.not.one is 'no'. Write a sentence that says why."),
    ],
)
def test_a_statement_that_cannot_be_read_is_a_sentence(tmp_path, text, says):
    from dataclasses import replace

    (tmp_path / "hard.toml").write_text(text)
    exercise = replace(catalog.find_catalog_exercise("ex01"), folder=tmp_path)
    with pytest.raises(BadFile, match=r"hard\.toml") as raised:
        hard_cases.read_hard_statements(exercise)
    assert says in str(raised.value)
