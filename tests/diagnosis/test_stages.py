"""At which stage an attention is said to go wrong, however it is written."""

import io
import math

import numpy as np
import pytest
import torch
from rich.console import Console

from grader.authoring.mutants import load_solution_to_prove
from grader.core import catalog
from grader.core.diagnosis_records import Stage
from grader.core.translation import Words
from grader.diagnosis import stages
from grader.judging.student import Student
from grader.reporting import stage_text as told
from grader.worker.parent.in_process import call_without_wall

EXERCISE = catalog.find_catalog_exercise("ex03_sdpa")
NAME = "scaled_dot_product_attention"


def student(slug=EXERCISE.slug, **names):
    exercise = catalog.find_catalog_exercise(slug)
    module = load_solution_to_prove(exercise)
    for name, answer in names.items():
        setattr(module, name, answer)
    return Student(exercise, call_without_wall(module))


def attention(scores=lambda s: s, mask=lambda s, keep: s.masked_fill(~keep, -torch.inf),
              soft=lambda s: torch.softmax(s, -1), mix=lambda w, v: w @ v):  # fmt: skip
    def function(q, k, v, keep=None, scale=None):
        s = scores(q @ k.mT / math.sqrt(q.shape[-1]))
        weights = soft(s if keep is None else mask(s, keep))
        return mix(weights, v), weights

    return function


def first_stage(*args):
    found = stages.diagnose_first_wrong_stage(*args)
    return found and found.stage


@pytest.mark.parametrize(
    "answer, stage, factor",
    [
        (attention(), None, None),
        (attention(scores=lambda s: 2 * s), "scores", 2.0),
        (attention(scores=lambda s: s / 2), "scores", 0.5),
        (attention(scores=lambda s: -s), "scores", -1.0),
        (attention(scores=lambda s: s.roll(1, -1)), "scores", None),
        (attention(mask=lambda s, keep: s), "mask", None),
        (attention(mask=lambda s, keep: s.masked_fill(keep, -torch.inf)), "mask", None),
        (attention(soft=torch.sigmoid), "weights", None),
        (attention(soft=lambda s: torch.softmax(s, -2)), "weights", None),
        (attention(mix=lambda w, v: w @ v.square()), "output", None),
        (attention(mix=lambda w, v: w @ v.flip(-2)), "output", None),
    ],
)
def test_the_first_wrong_stage_is_found(answer, stage, factor):
    found = first_stage(EXERCISE, NAME, student(**{NAME: answer}), student())
    assert (found and found.name) == stage
    if found is not None:
        assert found.factor == (None if factor is None else pytest.approx(factor, rel=1e-3))
        assert bool(found.got) == (stage != "output")


def test_weights_that_are_returned_are_believed_and_the_output_is_not():
    def unmasked_output(q, k, v, keep=None, scale=None):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        hidden = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
        return torch.softmax(scores, -1) @ v, torch.softmax(hidden, -1)

    found = first_stage(EXERCISE, NAME, student(**{NAME: unmasked_output}), student())
    assert (found.name, found.got) == ("output", ())


def test_a_numpy_function_is_asked_in_arrays():
    def attention_numpy(q, k, v, keep=None, scale=None):
        powers = np.exp(q @ np.swapaxes(k, -1, -2))
        weights = powers / powers.sum(-1, keepdims=True)
        return weights @ v, weights

    found = first_stage(
        EXERCISE, "attention_numpy", student(attention_numpy=attention_numpy), student()
    )
    assert (found.name, found.factor) == ("scores", pytest.approx(2.0, rel=1e-3))


def test_where_only_the_output_comes_back_the_weights_are_read_out_of_it():
    def causal_attention(q, k, v):
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v

    exercise = catalog.find_catalog_exercise("ex05_causal_mask")
    found = first_stage(
        exercise, "causal_attention",
        student(exercise.slug, causal_attention=causal_attention), student(exercise.slug),
    )  # fmt: skip
    assert found.name == "mask"


@pytest.mark.parametrize("name", ["no_such", "causal_mask"])
def test_what_is_no_attention_has_no_stages(name):
    exercise = catalog.find_catalog_exercise("ex05_causal_mask")
    assert first_stage(exercise, name, student(exercise.slug), student(exercise.slug)) is None


@pytest.mark.parametrize("answer", [lambda *a, **k: (None, None), lambda *a, **k: 1 / 0])
def test_what_does_not_answer_has_none_either(answer):
    assert first_stage(EXERCISE, NAME, student(**{NAME: answer}), student()) is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_maps_stand_side_by_side(language):
    nan = float("nan")
    stage = Stage(name="weights", got=((1.0, 0.0), (nan, 0.3)), right=((0.5, 0.5), (0.0, 1.0)))
    head, *rows = told.render_stage_weights(stage, Words(language))
    assert rows == ["│██  │   │▒▒▒▒│", "│??▒▒│   │  ██│"]
    file = io.StringIO()
    Console(file=file, width=80).print(head)
    assert (
        sum(
            2 if ord(c) > 0x2E80 else 1
            for c in head.split("right" if language == "en" else "正确")[0]
        )
        == 9
    )


def test_a_report_tells_a_stage_once(graded):
    source = (catalog.ROOT / f"solutions/{EXERCISE.slug}.py").read_text("utf-8")
    before, name, after = source.partition(f"def {NAME}")
    wrong = after.replace("scale = 1 / math.sqrt(q.shape[-1])", "scale = 1.0")
    report = graded(EXERCISE.slug, before + name + wrong)
    told_of = [c.diagnosis.stage for c in report.checks if c.diagnosis and c.diagnosis.stage]
    assert [s.name for s in told_of] == ["scores"]
    assert told_of[0].factor == pytest.approx(2.0, rel=1e-3)


def test_a_stage_that_only_a_mask_shows_is_told_below_no_call_without_one(graded):
    """The given scale is ignored too: its check fails without a mask."""
    source = (catalog.ROOT / f"solutions/{EXERCISE.slug}.py").read_text("utf-8")
    before, name, after = source.partition(f"def {NAME}")
    wrong = after.replace("~keep", "keep").replace(" if scale is None else scale", "")
    report = graded(EXERCISE.slug, before + name + wrong)
    failed = [c for c in report.checks if c.why]
    assert "bool (" not in next(c.why for c in failed if c.id == "test_scale")
    [told_of] = [c for c in failed if c.diagnosis and c.diagnosis.stage]
    assert told_of.diagnosis.stage.name == "mask" and "bool (" in told_of.why


def test_lists_of_rows_are_looked_at_as_well():
    def unscaled(q, k, v, keep=None):
        return right_one.attention([[2.0 * x for x in row] for row in q], k, v, keep)

    exercise = catalog.find_catalog_exercise("ex00_plain_python")
    right_one = load_solution_to_prove(exercise)
    wrong, right = student(exercise.slug, attention=unscaled), student(exercise.slug)
    found = first_stage(exercise, "attention", wrong, right)
    assert found and (found.name, found.factor) == ("scores", pytest.approx(2.0))
    assert first_stage(exercise, "attention", right, right) is None
