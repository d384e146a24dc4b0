"""Draws depend on the secret, the student, the file and the case, and on nothing else."""

import pytest
import torch

from grader.judging import Draw

NAMES = ("me", "digest", "ex01_softmax", "test_values[float32]")


def test_the_same_case_draws_the_same():
    assert torch.equal(Draw("seed", *NAMES).normal(9), Draw("seed", *NAMES).normal(9))


@pytest.mark.parametrize("changed", range(5))
def test_anything_else_draws_anew(changed):
    names = ["seed", *NAMES]
    names[changed] += "x"
    assert not torch.equal(Draw("seed", *NAMES).normal(9), Draw(*names).normal(9))


def test_names_do_not_run_together():
    assert not torch.equal(Draw("s", "ab", "c").normal(9), Draw("s", "a", "bc").normal(9))


def test_later_draws_differ_from_earlier_ones():
    draw = Draw("seed")
    assert not torch.equal(draw.normal(9), draw.normal(9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_keep_within_their_bound(dtype):
    x = Draw("seed").logits(200, 7, bound=1e4, dtype=dtype)
    assert x.dtype == dtype
    assert 5e3 < x.abs().max() <= 1.01e4
    assert x.double().std(-1).mean() < 10 or dtype in (torch.float16, torch.bfloat16)


def test_masks_keep_one_key_of_every_row():
    keep = Draw("seed").keep(500, 3, share=0.1)
    assert keep.any(-1).all()
    assert not keep.all()


def test_permutations_move_something():
    assert all(not torch.equal(Draw(str(i)).permutation(2), torch.arange(2)) for i in range(20))


def test_integers_reach_both_ends():
    assert set(Draw("seed").integers(1, 3, 200).tolist()) == {1, 2, 3}
    assert {Draw(str(i)).integer(1, 2) for i in range(50)} == {1, 2}


def test_strided_tensors_are_not_contiguous():
    x = Draw("seed").strided(2, 3, 4)
    assert x.shape == (2, 3, 4)
    assert not x.is_contiguous()


def test_the_rows_to_be_verified_are_never_known_and_now_and_then_all_of_them():
    drawn = [Draw("seed", str(n)).rows(1000).tolist() for n in range(200)]
    some, whole = ([rows for rows in drawn if len(rows) == size] for size in (16, 1000))
    assert len(some) + len(whole) == 200
    assert 1 <= len(whole) <= 30
    assert len({tuple(rows) for rows in some}) == len(some)
    assert len({row for rows in some for row in rows}) > 900
