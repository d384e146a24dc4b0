"""Draws depend on the secret, the student, the file and the case, and on nothing else."""

import pytest
import torch

from grader.judging import Draw
from grader.judging.draw import MOST_DEALT, DealtDraw

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


def dealt(number):
    """What a script draws for an input of a series."""
    draw = DealtDraw("seed", *NAMES, number=number)
    return draw.choice(*"abcd"), draw.integer(3, 5), draw.choice(*"abcd"), draw.integer(0, 9999)


def test_every_option_is_dealt_once_in_as_many_inputs_as_there_are_options():
    letters, numbers, others, large = zip(*map(dealt, range(12)), strict=True)
    for place, options, drawn in (
        (4, "abcd", letters),
        (3, (3, 4, 5), numbers),
        (4, "abcd", others),
    ):
        for hand in range(0, 12, place):
            assert sorted(drawn[hand : hand + place]) == sorted(options)
    assert len(set(large)) == 12  # of more than `MOST_DEALT` numbers each is drawn by itself


def test_what_is_dealt_at_two_places_does_not_go_together():
    letters, _, others, _ = zip(*map(dealt, range(200)), strict=True)
    assert len(set(zip(letters, others, strict=True))) == 16


def test_an_input_of_a_series_is_the_same_whatever_was_drawn_before_it():
    assert dealt(7) == dealt(7)
    assert [dealt(n)[0] for n in range(40)] != sorted(dealt(n)[0] for n in range(40))
    assert MOST_DEALT < 9999


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
