"""The named steps of every exercise, beside right and wrong answers."""

import numpy as np
import pytest

from grader.core import catalog
from grader.practice.show.example import has_example_to_show
from tests.show.asking import mistaken, shown, solver

SLUGS = [e.slug for e in catalog.list_catalog_exercises() if has_example_to_show(e)]
NO_TENSORS = ("ex00_plain_python", "ex09_gradients")  # whose answers keep no graph


def step(found, name):
    return next(s for s in found.steps if s.name == name)


def test_the_whole_core_track_can_be_shown():
    core = [e.slug for e in catalog.list_catalog_exercises() if e.track == "core"]
    assert SLUGS[: len(core)] == core


@pytest.mark.parametrize("embedding", ["drawn", "one-hot"])
@pytest.mark.parametrize("tokens", ["the cat sat on the mat", "a b", "一"])
@pytest.mark.parametrize("slug", SLUGS)
def test_a_right_answer_is_the_same_at_every_step(slug, tokens, embedding):
    found = shown(slug, solver(slug), tokens, embedding=embedding)
    assert [s.name for s in found.steps if s.differs or s.problem] == []
    assert any(s.yours is not None for s in found.steps)
    for flow in found.flows if slug not in NO_TENSORS else ():
        np.testing.assert_allclose(flow.yours, flow.reference, atol=1e-5)


@pytest.mark.parametrize("slug", SLUGS)
def test_the_weights_of_the_reference_are_weights(slug):
    weights = step(shown(slug, None), "weights").reference
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert weights.min() >= 0 and weights.std() > 0.1


@pytest.mark.parametrize("slug", SLUGS)
def test_letters_and_shapes_of_every_step_agree(slug):
    sizes = {}
    for s in shown(slug, None).steps:
        for letter, size in zip(s.letters.split(), s.reference.shape, strict=True):
            assert size == sizes.setdefault(letter, size) or letter.isdigit(), s.name


@pytest.mark.parametrize(
    "slug, mistake, first",
    [
        ("ex01_softmax", "wrong_axis", "weights"),
        ("ex02_masking", "returned_as_it_came", "keep"),
        ("ex02_masking", "padding_kept", "padding"),
        ("ex02_masking", "additive_large_number", "additive"),
        ("ex03_sdpa", "scale_missing", "weights"),
        ("ex04_heads", "heads_interleaved", "q"),
        ("ex04_heads", "no_swap_in_merge", "merged"),
        ("ex04_heads", "ScaleMissing", "weights"),
        ("ex05_causal_mask", "diagonal_hidden", "mask"),
        ("ex06_kv_cache", "new_before_old", "k"),
        ("ex06_kv_cache", "top_left", "weights"),
        ("ex07_mqa_gqa", "heads_tiled", "k repeated"),
        ("ex07_mqa_gqa", "tiled", "weights"),
        ("ex08_cuda_sdpa", "own_key_hidden", "weights"),
    ],
)
def test_the_first_step_that_differs_is_where_the_mistake_is(slug, mistake, first):
    assert shown(slug, mistaken(slug, mistake)).first_wrong.name == first


def test_a_mistake_in_one_mask_is_not_seen_in_the_steps_after_it():
    found = shown("ex02_masking", mistaken("ex02_masking", "returned_as_it_came"))
    assert [s.name for s in found.steps if s.differs] == ["keep"]


def test_equal_tokens_have_equal_columns():
    weights = step(shown("ex03_sdpa", None, "the cat the"), "weights").reference
    np.testing.assert_array_equal(weights[..., 0], weights[..., 2])


def test_the_one_hot_query_of_a_head_asks_for_the_next_token_but_so_many():
    weights = step(shown("ex03_sdpa", None, "a b c", embedding="one-hot"), "weights").reference
    assert weights[0, 0].argmax(-1).tolist() == [0, 1, 2]
    assert weights[0, 1].argmax(-1).tolist() == [1, 2, 0]


@pytest.mark.parametrize("embedding", ["drawn", "one-hot"])
def test_heads_in_another_order_are_seen(embedding):
    found = shown("ex07_mqa_gqa", mistaken("ex07_mqa_gqa", "heads_tiled"), embedding=embedding)
    assert found.first_wrong.name == "k repeated"


def test_causal_gradients_end_at_the_token_itself():
    found = shown("ex05_causal_mask", None, "a b c d")
    flows = {flow.name: flow.reference > 0 for flow in found.flows}
    assert found.row == 1
    assert flows["q"].tolist() == [False, True, False, False]
    assert flows["v"].tolist() == [True, True, False, False]


def test_gradients_are_those_of_finite_differences():
    import torch

    from reference.ex03_sdpa import plain_attention

    found = shown("ex03_sdpa", None, "a b c", head=1)
    q, k, v = (torch.tensor(s.reference) for s in found.steps if s.name in ("q", "k", "v"))

    def output(v):
        return plain_attention(q, k, v)[0][0, 1, found.row]

    slopes = []
    for token in range(3):
        total = 0.0
        for entry in range(v.shape[-1]):
            nudged = v.clone()
            nudged[0, 1, token, entry] += 1e-6
            total += float(((output(nudged) - output(v)) / 1e-6).square().sum())
        slopes.append(total**0.5)
    flow = next(f for f in found.flows if f.name == "v")
    np.testing.assert_allclose(flow.reference, slopes, rtol=1e-3)
