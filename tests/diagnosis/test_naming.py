"""Names that reports once gave falsely are not given; two mistakes at once are both named."""

import inspect
import math

import numpy as np
import pytest
import torch

from grader.authoring.feedback_class import list_named_groups
from grader.core import catalog
from grader.core.records import Verdict
from grader.diagnosis import failure_signs, naming, pair_naming, time_limit
from grader.diagnosis.check_naming import (
    Named,
    _find_pair_mistakes_behind_check,
    name_mistakes_behind_failures,
)
from grader.diagnosis.like_cases import LikeCases
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.mistake_pairs import SamePart, combine_mistakes
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.solution_modules import load_solution_for_judging
from grader.diagnosis.student_runs import StudentRuns
from grader.diagnosis.time_limit import check_diagnosis_time, limit_diagnosis_time
from grader.judging import suite_runner
from grader.judging.judge import Judge
from grader.worker.parent.client import Client
from reference.ex02_masking import plain_masked_softmax
from reference.ex06_kv_cache import PlainKVCache
from reference.ex10_online_softmax import plain_flash_attention
from reference.ex11_positions import plain_apply_rope
from tests.conftest import solution
from tests.diagnosis.test_diagnosis import catalogue, judged


def names_of(slug, **answers):
    """All mistakes that a report names."""
    judge = judged(slug, **answers)
    assert judge.failures
    found = name_mistakes_behind_failures(judge, catalogue(slug))
    return {mistake.id for one in found.values() for mistake in one.mistakes}


def forgotten_not(q, k, v, keep=None, scale=None):
    """What is kept is hidden, and its weights are set to zero afterwards."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if keep is None:
        weights = torch.softmax(scores, -1)
    else:
        weights = torch.softmax(scores.masked_fill(keep, -torch.inf), -1)
        weights = weights.masked_fill(~keep, 0.0)
    return weights @ v, weights


def filled_with_plus_infinity(scores, keep):
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    return torch.softmax(scores.float().masked_fill(~keep, torch.inf), -1).to(scores.dtype)


def without_maximum(x, axis=-1):
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


def filled_with_minus_10000(scores, keep):
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    return torch.softmax(scores.float().masked_fill(~keep, -1e4), -1).to(scores.dtype)


def filled_with_the_lowest(scores, keep):
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    wide = scores.float()
    return torch.softmax(wide.masked_fill(~keep, torch.finfo(wide.dtype).min), -1).to(scores.dtype)


def epsilon_added(q, k, v, keep=None, scale=None):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=-1e30))
    weights = powers / (powers.sum(-1, keepdim=True) + 0.05)
    return weights @ v, weights


class OnePlaceEarly(PlainKVCache):
    """Each append begins on the last token of the one before."""

    def append(self, k, v):
        self.length = max(self.length - 1, 0)
        return super().append(k, v)


class OverflowDropped(PlainKVCache):
    """Tokens beyond the capacity are left out without a word."""

    def append(self, k, v):
        room = self.keys.shape[-2] - self.length
        return super().append(k[..., :room, :], v[..., :room, :])


def early_exit(q, k, v, *args, **kwargs):
    """Of causal tiles the loop ends a tile too early for every query but the first."""
    output = plain_flash_attention(q, k, v, *args, **kwargs)
    return output * torch.linspace(1.0, 0.9, output.shape[-2], dtype=output.dtype)[:, None]


def truncated_positions(x, positions, *args, **kwargs):
    return plain_apply_rope(x, positions.trunc(), *args, **kwargs)


def nan_weights_replaced(q, k, v):
    """-inf is added; NaN weights of a query before the first key become 0, but not their gradient."""
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    keep = keep.tril(k.shape[-2] - q.shape[-2])
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])
    scores = scores + torch.zeros_like(scores).masked_fill(~keep, -torch.inf)
    return (torch.softmax(scores, -1).nan_to_num(0.0) @ v.to(wide)).to(q.dtype)


def half_stays_half(q, k, v, past=None):
    """Nothing is raised to float32; in bfloat16 the numbers are not those of the catalogue."""
    keys, values = (
        x if past is None else torch.cat([y, x], -2)
        for x, y in zip((k, v), past or (k, v), strict=True)
    )
    hidden = torch.ones(q.shape[-2], keys.shape[-2], dtype=torch.bool, device=q.device)
    hidden = hidden.triu(keys.shape[-2] - q.shape[-2] + 1)
    scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1) @ values, (keys, values)


def bfloat16_not_raised(x, dim=-1):
    """float16 is raised to float32, in which 70,000 ones have a sum."""
    wide = x.float() if x.dtype == torch.float16 else x
    powers = torch.exp(wide - wide.amax(dim, keepdim=True)) if x.numel() else wide
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


FALSE_NAMES = [
    ("ex01_softmax", "softmax", bfloat16_not_raised, {"half_precision_not_raised"}),
    ("ex03_sdpa", "scaled_dot_product_attention", forgotten_not, {"mask_of_the_first_query"}),
    ("ex02_masking", "masked_softmax", filled_with_plus_infinity, {"zero_times_infinity"}),
    ("ex01_softmax", "softmax_numpy", without_maximum, {"half_precision_not_raised_numpy"}),
    ("ex02_masking", "masked_softmax", filled_with_minus_10000, {"large_number_in_half_precision"}),
    ("ex02_masking", "masked_softmax", filled_with_the_lowest, {"large_number_in_half_precision"}),
    ("ex06_kv_cache", "attend_with_past", half_stays_half, {"half_precision_not_raised"}),
    ("ex06_kv_cache", "KVCache", OnePlaceEarly, {"PositionRestarts"}),
    ("ex06_kv_cache", "KVCache", OverflowDropped, {"OverflowWrapsAround", "CacheGrows"}),
    ("ex10_online_softmax", "flash_attention", early_exit, {"short_tile_dropped"}),
    ("ex11_positions", "apply_rope", truncated_positions, {"counts_from_0"}),
]


@pytest.mark.parametrize(
    ("slug", "of", "answer", "false"), FALSE_NAMES, ids=[row[2].__name__ for row in FALSE_NAMES]
)
def test_a_name_that_was_false_is_given_no_more(slug, of, answer, false):
    assert not names_of(slug, **{of: answer}) & false


def test_a_pair_is_tried_where_the_answer_is_seldom_wrong():
    """Only in one of a dozen inputs has a query before the first key a gradient that tells."""
    known = MistakeCatalogue(catalog.find_catalog_exercise("ex05_causal_mask"))
    by_name = {m.id: m for m in known.mistakes}
    pair = known.pair(by_name["mask_added"], by_name["nan_replaced_at_the_end"])
    student = judged("ex05_causal_mask", causal_attention=nan_weights_replaced).student
    trials = NameTrials(Judge(student, ("feedback", "ex05_causal_mask")), known)
    assert trials.find_unexplained(pair) is not None


PAIRS = [
    ("ex03_sdpa", "scale_ignored", "mask_of_the_first_query"),  # both call the right function
    ("ex03_sdpa", "scale_inverted_numpy", "divided_by_d"),  # of two names
    ("ex04_heads", "scale_almost_right_numpy", "heads_after_length"),
    ("ex04_heads", "scale_missing_numpy", "merge_without_swap_numpy"),  # a layer of both
    ("ex02_masking", "additive_one_for_kept", "additive_with_an_axis_more"),  # a shape hides values
    ("ex02_masking", "combined_to_numbers", "last_mask_dropped"),  # of any number of arguments
    ("ex05_causal_mask", "top_left", "additive"),  # a dtype hides values
    ("ex06_kv_cache", "FirstSequenceOnly", "DtypeIgnored"),
]


@pytest.mark.parametrize(("slug", "one", "other"), PAIRS)
def test_two_mistakes_at_once_are_both_named(slug, one, other):
    known = MistakeCatalogue(catalog.find_catalog_exercise(slug))
    by_name = {m.id: m for m in known.mistakes}
    both = known.pair(by_name[one], by_name[other])
    judge = Judge(known.student(both), ("pairs", slug))
    suite_runner.run_suite_checks(catalog.find_catalog_exercise(slug), judge)
    found = name_mistakes_behind_failures(judge, catalogue(slug))
    assert {one, other} <= {m.id for named in found.values() for m in named.mistakes}


def test_of_a_failed_check_the_cases_before_it_failed_count_as_passed():
    passed = judged("ex01_softmax", softmax=bfloat16_not_raised).list_passed_cases("softmax", 1)
    named = {case.check.id: case.name for case in passed}
    assert named["test_precisions"] == "test_precisions[float16]"
    assert named["test_values"] == "test_values[7]"  # of a passed check the first


@pytest.mark.parametrize("at_once", [True, False], ids=["two mistakes", "none of ours"])
def test_what_mends_is_searched_where_no_two_mistakes_fit(monkeypatch, at_once):
    monkeypatch.setattr(time_limit, "PAIR_SECONDS", 600.0)
    slug, asked = "ex03_sdpa", []
    known = catalogue(slug)
    if at_once:
        by_name = {m.id: m for m in known.mistakes}
        both = known.pair(by_name["scale_ignored"], by_name["mask_of_the_first_query"])
        judge = Judge(known.student(both), ("pairs", slug))
        suite_runner.run_suite_checks(catalog.find_catalog_exercise(slug), judge)
    else:
        judge = judged(slug, scaled_dot_product_attention=lambda *args, **kwargs: args[0] * 0 + 7)
    monkeypatch.setattr(
        pair_naming, "name_mistake_pair", _before(asked, "pair", pair_naming.name_mistake_pair)
    )
    name_mistakes_behind_failures(
        judge, known, mend=lambda failures, trials: asked.append("mend") or ()
    )
    assert asked == (["pair"] if at_once else ["mend", "pair"])


def _before(asked, name, function):
    def call(*args):
        asked.append(name)
        return function(*args)

    return call


def hidden_as_numbers(blocked):
    return blocked.to(torch.uint8)


def last_keys_of_each_sentence(lengths, max_len):
    """A loop that reads the lengths, which a tensor on the device meta does not have."""
    keep = torch.zeros(len(lengths), 1, 1, max_len, dtype=torch.bool, device=lengths.device)
    for sentence, length in enumerate(lengths.tolist()):
        keep[sentence, ..., max_len - length :] = True
    return keep


@pytest.mark.parametrize(
    ("of", "answer", "names"),
    [
        ("keep_from_blocked", hidden_as_numbers, {"returned_as_it_came", "one_minus_blocked"}),
        ("padding_mask", last_keys_of_each_sentence, {"padding_on_the_left"}),
    ],
)
def test_what_only_trials_show_is_named(of, answer, names):
    """A wrong dtype hides wrong values in the checks, whichever numbers stand for booleans."""
    assert names_of("ex02_masking", **{of: answer}) == names


@pytest.mark.parametrize("slug", ["ex01_softmax", "ex02_masking", "ex04_heads", "ex05_causal_mask"])
def test_mistakes_take_their_arguments_as_the_right_function_does(slug):
    """By position too: a trial that passes `keep` so would find every name false."""
    known = MistakeCatalogue(catalog.find_catalog_exercise(slug))
    right = load_solution_for_judging(catalog.find_catalog_exercise(slug))
    for mistake in known.mistakes:
        names = list(inspect.signature(getattr(right, mistake.of)).parameters)
        taken = list(inspect.signature(mistake.answer).parameters)
        assert taken[: len(names)] == names, mistake.id


def test_mistakes_of_one_part_or_of_two_kinds_are_not_combined():
    by_name = {m.id: m for slug in ("ex03_sdpa", "ex04_heads") for m in catalogue(slug).mistakes}
    scale, classes = by_name["scale_missing"], by_name["HalfNotRaised"]
    assert combine_mistakes(scale, classes) is None
    q = torch.ones(1, 2, 2)
    both = combine_mistakes(by_name["softmax_over_the_queries"], by_name["softmax_over_the_table"])
    with pytest.raises(SamePart):  # each gives a softmax of its own
        both(q, q, q)


def test_a_mistake_of_both_libraries_combines_with_one_of_a_single_library():
    by_name = {m.id: m for m in catalogue("ex03_sdpa").mistakes}
    scale, epsilon = by_name["scale_missing_numpy"], by_name["epsilon_in_the_denominator_numpy"]
    q = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 1.0]])
    right = by_name["scale_ignored_numpy"].answer(q, q, q)[1]
    for one, other in (scale, epsilon), (epsilon, scale):
        weights = combine_mistakes(one, other)(q, q, q)[1]
        assert (weights.sum(-1) < 1 - 1e-9).all()
        assert not np.allclose(weights, right, atol=1e-3)


def test_two_mistakes_that_pass_different_options_are_combined():
    by_name = {m.id: m for m in catalogue("ex07_mqa_gqa").mistakes}
    scale, empty = by_name["no_scale"], by_name["nan_for_an_empty_row"]
    q, keep = torch.ones(1, 2, 2, 4), torch.tensor([[False, False], [True, True]])
    k = torch.arange(16.0).reshape(1, 2, 2, 4) / 8
    both = combine_mistakes(scale, empty)(q, k, k, keep)
    assert both[..., 0, :].isnan().all()
    assert torch.equal(both[..., 1, :], scale.answer(q, k, k, keep)[..., 1, :])
    with pytest.raises(SamePart):  # each has a scale of its own
        combine_mistakes(scale, by_name["scale_without_root"])(q, k, k, keep)


def test_what_a_pair_changes_is_right_again_for_the_next_pair():
    known = MistakeCatalogue(catalog.find_catalog_exercise("ex03_sdpa"))
    by_name = {m.id: m for m in known.mistakes}
    right = vars(known.module(by_name["scale_missing"]))["attention_numpy"]
    module = known.module(known.pair(by_name["scale_missing"], by_name["divided_by_d_numpy"]))
    assert module.attention_numpy.__code__ is not right.__code__
    pair = known.pair(by_name["scale_missing"], by_name["half_precision_not_raised"])
    assert known.module(pair).attention_numpy.__code__ == right.__code__


def test_what_is_not_named_in_time_has_no_name():
    answer = lambda x, dim=-1: torch.softmax(x, dim) * 1.5  # noqa: E731
    with limit_diagnosis_time(-1.0):
        assert names_of("ex01_softmax", softmax=answer) == set()
    check_diagnosis_time()


def doubled(scores, keep):
    return plain_masked_softmax(scores, keep) * 2


def always_on_the_processor(scores, keep):
    weights = plain_masked_softmax(scores, keep)
    return torch.zeros(weights.shape) if scores.is_meta else weights


@pytest.mark.parametrize(("wrong", "calls"), [(doubled, False), (always_on_the_processor, True)])
def test_mistakes_run_on_meta_only_where_a_check_of_devices_failed(monkeypatch, wrong, calls):
    """The first such call in a process takes a second."""
    judge, seen, call = judged("ex02_masking", masked_softmax=wrong), [], Client.call

    def spy(client, on, name, args, kwargs, **options):
        seen.extend(x for x in args if isinstance(x, torch.Tensor) and x.is_meta)
        return call(client, on, name, args, kwargs, **options)

    monkeypatch.setattr(Client, "call", spy)
    name_mistakes_behind_failures(judge, catalogue("ex02_masking"))
    assert bool(seen) == calls


def test_a_mistake_whose_check_passed_is_not_asked():
    judge = judged("ex02_masking", masked_softmax=lambda s, keep: plain_masked_softmax(s, keep) * 2)
    passed = {c.id for c in judge.results() if c.verdict is Verdict.PASSED}
    mistakes = list(catalogue("ex02_masking").mistakes)
    asked = [m for some in naming.split_mistakes_by_likelihood(mistakes, judge) for m in some]
    assert passed & {m.caught_by for m in mistakes}
    assert not passed & {m.caught_by for m in asked}


def test_a_pair_is_not_told_of_half_precision_that_it_does_not_explain():
    known = MistakeCatalogue(catalog.find_catalog_exercise("ex03_sdpa"))
    by_name = {m.id: m for m in known.mistakes}
    pair = by_name["scale_ignored"], by_name["mask_of_the_first_query"]
    module = known.module(known.pair(*pair))
    right = module.scaled_dot_product_attention

    def wrong_in_half_too(q, *others, **options):
        output, weights = right(q, *others, **options)
        return (output + 1, weights) if q.dtype == torch.float16 else (output, weights)

    judge = judged("ex03_sdpa", scaled_dot_product_attention=wrong_in_half_too)
    half = next(f for f in judge.failures if failure_signs.is_of_precision(f))
    runs, known = StudentRuns(judge), catalogue("ex03_sdpa")
    assert _find_pair_mistakes_behind_check(pair, LikeCases(half, runs), judge, known) == Named()
    plain = next(f for f in judge.failures if not failure_signs.is_of_precision(f))
    assert _find_pair_mistakes_behind_check(pair, LikeCases(plain, runs), judge, known).mistakes


def later_scores_times_zero(q, k, v):
    """Later scores become 0, and a query before the first key gets 0, not an average."""
    keep = torch.ones(q.shape[-2], k.shape[-2]).tril(k.shape[-2] - q.shape[-2])
    wide = torch.promote_types(q.dtype, torch.float32)
    weights = torch.softmax(q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1]) * keep, -1)
    return (weights * keep.amax(-1, keepdim=True) @ v.to(wide)).to(q.dtype)


def test_a_name_that_fits_all_checks_must_fit_the_trials_too(monkeypatch):
    """No check asks this mistake for queries before the first key; a trial does."""
    asked = "ex05_causal_mask"
    assert not names_of(asked, causal_attention=later_scores_times_zero)
    monkeypatch.setattr(
        "grader.diagnosis.name_trials.NameTrials.find_unexplained", lambda self, mistake: None
    )
    assert "hidden_scores_are_zero" in names_of(asked, causal_attention=later_scores_times_zero)


def graded_names(graded, slug, *changes):
    """The mistakes that a report names, of the solution with some texts replaced."""
    source = solution(slug)
    for old, new in changes:
        assert source.count(old) == 1
        source = source.replace(old, new)
    return {id for group in list_named_groups(graded(slug, source).checks) for id in group.ids}


def test_an_error_in_the_students_own_words_is_like_one_in_ours(graded):
    """The catalogue's cache refuses with another message."""
    changes = ("if end > max_len:", "if end >= max_len:")
    assert graded_names(graded, "ex06_kv_cache", changes) == {"FullOneTooEarly"}


def test_an_error_of_a_library_is_no_error_of_another_call(graded):
    """`bmm` takes one leading dimension alone, as letters for one batch do, but has no letters."""
    wrong = """
def scaled_dot_product_attention(q, k, v, keep=None, scale=None):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("the shapes do not fit")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = torch.bmm(q.to(wide), k.to(wide).mT) * scale
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    weights = torch.nan_to_num(torch.softmax(scores, -1))
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)
"""
    report = graded("ex03_sdpa", solution("ex03_sdpa") + wrong)
    assert not list_named_groups(report.checks)


def test_an_input_that_does_not_count_for_a_pair_speaks_against_none(monkeypatch):
    """On a single mistake's inputs only the device meta is wrong; of a pair's more, one other is."""
    known = catalogue("ex02_masking")
    judge = judged("ex02_masking", masked_softmax=lambda s, keep: plain_masked_softmax(s, keep) * 2)
    one, other = [m for m in known.mistakes if m.of == "masked_softmax" and not m.null][:2]
    both = known.pair(one, other) or known.pair(other, one)
    [trial, *_] = [t for t in known.trials if "masked_softmax" in t.of]

    def failing(self, names, times):
        yield ((trial, 0), ["another value"]), True
        if times > 1:
            yield ((trial, 1), ["another value"]), False

    monkeypatch.setattr(NameTrials, "_iterate_failing_inputs", failing)
    trials = NameTrials(judge, known)
    assert trials.find_unexplained(one) == (trial, 0)
    assert trials.find_unexplained(both) == (trial, 1)
    assert trials.explains(both, (trial, 0))


class NewTokensReturned(PlainKVCache):
    """Values of one head are copied into every head, too."""

    def append(self, k, v):
        super().append(k, v.expand(-1, k.shape[1], -1, -1))
        return k, v


def test_a_right_layer_is_not_blamed_for_a_wrong_cache():
    found = names_of("ex06_kv_cache", KVCache=NewTokensReturned)
    known = {m.id: m.of for m in catalogue("ex06_kv_cache").mistakes}
    assert {known[name] for name in found} <= {"KVCache"}


@pytest.mark.parametrize("slug", ["ex06_kv_cache", "ex07_mqa_gqa"])
def test_half_precision_that_is_not_raised_is_rounded_as_students_round_it(slug):
    """By torch.softmax, once: powers and sums of their own gave other numbers, and a false name."""
    [wrong] = [m for m in catalogue(slug).mistakes if m.id == "half_precision_not_raised"]
    q, k, v = torch.randn(3, 2, 4, 7, 8, generator=torch.Generator().manual_seed(1)).bfloat16()
    scores = q @ k.mT * 8**-0.5
    if slug == "ex06_kv_cache":
        scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    answer = wrong.answer(q, k, v)
    output = answer[0] if isinstance(answer, tuple) else answer
    assert torch.equal(output, torch.softmax(scores, -1) @ v)


def tiled_heads(q, k, v, keep=None, causal=False, scale=None, bias=None):
    """Heads are tiled; where they are as many, a mask of one dimension is not taken."""
    if keep is not None and keep.dim() == 1 and q.shape[-3] == k.shape[-3]:
        raise IndexError("a dimension that is not there")
    k, v = (torch.cat([x] * (q.shape[-3] // x.shape[-3]), -3) for x in (k, v))
    right = load_solution_for_judging(catalog.find_catalog_exercise("ex08_cuda_sdpa"))
    return right.fast_attention(q, k, v, keep, causal, scale, bias)


def test_a_mistake_is_named_beside_an_exception_that_it_does_not_explain():
    judge = judged("ex08_cuda_sdpa", fast_attention=tiled_heads)
    raised = {f.check for f in judge.failures if f.fault.kind == "IndexError"}
    found = name_mistakes_behind_failures(judge, catalogue("ex08_cuda_sdpa"))
    assert raised
    assert found["test_groups"].mistakes[0].id == "tiled"
    assert not any(found[check].mistakes for check in raised)
