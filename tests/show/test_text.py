"""How tables, numbers and bars are written."""

import numpy as np
import pytest
from rich.cells import cell_len

from grader.core.translation import Words
from grader.practice import show
from grader.practice.show import show_text
from grader.practice.show.show_text import format_shown_number
from grader.practice.show.trace import ShownStep
from tests.show.asking import mistaken, shown, solver, written


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"), (1.0, "1"), (-1.0, "-1"), (0.434, ".43"), (-0.301, "-.30"), (0.001, ".00"),
        (0.996, "1.00"), (1.5, "1.50"), (12.34, "12.3"), (1e30, "1e+30"), (np.nan, "nan"),
        (-np.inf, "-inf"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert format_shown_number(value) == text


def test_weights_are_a_grid_of_tokens():
    grid = str(show.weights(np.array([[1.0, 0.0], [0.25, 0.75]]), tokens="cat sat", lang="en"))
    assert grid.splitlines()[-3:] == [
        "     cat  sat",
        "cat   █1    0",
        "sat ▒.25 █.75",
    ]


def test_a_chinese_token_takes_two_columns():
    weights = np.full((3, 3), 0.5)
    lines = str(show.weights(weights, tokens="猫在家")).splitlines()[-4:]
    assert lines[0].split() == ["猫", "在", "家"]
    assert len({cell_len(line) for line in lines}) == 1


def test_queries_are_the_last_of_the_tokens():
    grid = str(show.weights(np.eye(3)[1:], tokens="a b c"))
    assert [line[0] for line in grid.splitlines()[-2:]] == ["b", "c"]


def test_weights_beside_others_show_the_difference():
    grid = str(show.weights(np.eye(2), against=np.full((2, 2), 0.5), lang="en"))
    for word in ("Yours", "Reference", "Difference", "+.50", "-.50"):
        assert word in grid


def test_the_trace_says_where_it_goes_wrong():
    text = written(
        shown("ex05_causal_mask", mistaken("ex05_causal_mask", "diagonal_hidden"), "a b")
    )
    assert "mask     Lq Lk      (2, 2)        differs by up to 1 " in text
    called = "causal_mask, sliding_window_mask, causal_attention"
    assert f"Called in your file: {called}." in text
    assert "The first step that differs: mask." in text
    assert "a · ·   a █ ·       a -1  ·" in text


def test_a_step_of_another_shape_is_the_first_that_differs():
    text = written(shown("ex06_kv_cache", mistaken("ex06_kv_cache", "past_replaced"), "a b c d"))
    assert "k.shape is " in text
    assert "The first step that differs: k." in text


def test_functions_that_are_not_called_are_named():
    text = written(shown("ex03_sdpa", solver("ex03_sdpa")))
    told = "Called in your file: scaled_dot_product_attention. Not called here: attention_numpy."
    assert told in " ".join(text.split())


def test_a_right_trace_has_no_differences():
    text = written(shown("ex03_sdpa", solver("ex03_sdpa")))
    assert "the same" in text
    assert "differs" not in text
    assert "Difference" not in text


def test_no_number_is_said_so():
    step = ShownStep(name="weights", letters="", reference=np.eye(2), yours=np.full((2, 2), np.nan))
    assert step.differs
    assert step.largest == np.inf


def test_an_infinity_in_its_place_is_no_difference():
    mask = np.array([[0.0, -np.inf]])
    assert not ShownStep(name="additive", letters="", reference=mask, yours=mask.copy()).differs


def test_a_finite_number_in_its_place_is():
    text = written(shown("ex02_masking", mistaken("ex02_masking", "additive_large_number"), "a"))
    assert "finite where it should be infinite" in text


@pytest.mark.parametrize(
    ("yours", "told"),
    [(np.inf, "infinite where it should be finite"), (np.nan, "not a number (NaN)")],
)
def test_what_is_not_finite_is_told_as_what_it_is(yours, told):
    step = ShownStep(
        name="mask", letters="", reference=np.array([[0.0, -np.inf]]),
        yours=np.array([[yours, -np.inf]]),
    )  # fmt: skip
    assert show_text._show_step_verdict(step, Words()).plain == told


def test_padding_is_labelled():
    text = written(shown("ex02_masking", None, "a b"))
    assert "* █ █     ·     ·" in text
    assert "<pad>" in text


def test_the_output_that_is_differentiated_is_named():
    assert "Gradient of the output at 'b'" in written(shown("ex03_sdpa", None, "a b c"))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_exercise_fits_into_a_terminal(lang):
    for slug in ("ex02_masking", "ex06_kv_cache", "ex08_cuda_sdpa"):
        lines = written(shown(slug, solver(slug)), lang, width=80).splitlines()
        assert max(map(cell_len, lines)) <= 80
    assert Words(lang).language == lang
