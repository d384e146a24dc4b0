"""Facts about wrong answers without a name: each is false of the answer and true of a right one."""

import math

import numpy as np
import pytest
import torch

from grader.authoring.mutants import load_solution_to_prove
from grader.core import catalog
from grader.core.diagnosis_records import Fact
from grader.core.translation import Words
from grader.diagnosis import difference_facts, facts
from grader.diagnosis.module_probes import can_be_probed
from grader.diagnosis.probed_function import name_probed_family
from grader.judging import suite_runner
from grader.judging.case import LastCall, StudentFault, ValueDifference
from grader.judging.judge import CheckFailure
from grader.judging.student import Student
from grader.reporting import fact_text
from grader.worker.parent.in_process import call_without_wall
from tests.conftest import solution

SOFTMAX = ("ex01_softmax", "softmax")
MASKED = ("ex02_masking", "masked_softmax")
ATTENTION = ("ex03_sdpa", "scaled_dot_product_attention")
CAUSAL = ("ex05_causal_mask", "causal_attention")
PROBED = ("ex00_plain_python", "ex01_softmax", "ex02_masking", "ex03_sdpa", "ex05_causal_mask",
          "ex06_kv_cache", "ex07_mqa_gqa", "ex10_online_softmax")  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def student(exercise, **names):
    module = load_solution_to_prove(exercise)
    for name, answer in names.items():
        setattr(module, name, answer)
    return Student(exercise, call_without_wall(module, exercise.prelude))


def probed(slug, name, answer):
    """The facts about one function of an exercise."""
    exercise = catalog.find_catalog_exercise(slug)
    return list(
        facts._probe_one_name(
            exercise, name, student(exercise, **{name: answer}), student(exercise)
        )
    )


def plain(x, dim=-1):
    return torch.exp(x) / torch.exp(x).sum(dim, keepdim=True)


def over_all(x, dim=-1):
    powers = torch.exp(x - x.max())
    return powers / powers.sum(dim, keepdim=True)


def with_epsilon(x, dim=-1):
    powers = torch.exp(x - x.amax(dim, True))
    return powers / (powers.sum(dim, True) + 0.1)


def remembering(x, dim=-1, seen=[]):  # noqa: B006 (that is the mistake)
    seen.append(x.detach())
    return torch.softmax(x if len(seen) % 2 else x * 1.5, dim)


def masked(fill=-torch.inf, empty=True, invert=False, after=False):
    def function(scores, keep):
        keep = ~keep if invert else keep
        if after:
            return torch.softmax(scores, -1) * keep
        weights = torch.softmax(scores.masked_fill(~keep, fill), -1)
        return weights.masked_fill(~keep.any(-1, True), 0.0) if empty else weights

    return function


def attention(score=lambda q, k: q @ k.mT / math.sqrt(q.shape[-1]), soft=lambda s: torch.softmax(s, -1),
              mix=lambda w, v: w @ v, weights_too=True):  # fmt: skip
    def function(q, k, v, keep=None, scale=None):
        s = score(q, k) if scale is None else q @ k.mT * scale
        if keep is not None:
            empty = ~keep.any(-1, keepdim=True)
            s = s.masked_fill(~keep, -torch.inf).masked_fill(empty, 0.0)
        weights = soft(s)
        if keep is not None:
            weights = weights.masked_fill(empty, 0.0)
        return mix(weights, v), weights

    return function


def causal(offset=0):
    def function(q, k, v):
        keep = torch.ones(q.shape[-2], k.shape[-2]).tril(k.shape[-2] - q.shape[-2] + offset).bool()
        s = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -torch.inf)
        return torch.softmax(s, -1).nan_to_num() @ v

    return function


@pytest.mark.parametrize(
    "where, answer, keys",
    [
        (SOFTMAX, torch.sigmoid, ["row_sums", "shift"]),
        (SOFTMAX, lambda x, dim=-1: torch.softmax(x, 0), ["columns_sum"]),
        (SOFTMAX, lambda x, dim=-1: torch.softmax(x.flatten(), 0).view_as(x), ["table_sum"]),
        (SOFTMAX, lambda x, dim=-1: x / x.sum(dim, True), ["negative_weights"]),
        (SOFTMAX, with_epsilon, ["row_sums"]),
        (SOFTMAX, plain, ["large_scores"]),
        (SOFTMAX, over_all, ["rows_apart"]),
        (SOFTMAX, lambda x, dim=-1: x.square() / x.square().sum(dim, True), ["shift"]),
        (SOFTMAX, lambda x, dim=-1: torch.softmax(-x, dim), ["order"]),
        (SOFTMAX, lambda x, dim=-1: torch.softmax(x - x.mean(0), dim), ["other_rows"]),
        (SOFTMAX, lambda x, dim=-1: torch.softmax(x, -1), ["axis_ignored"]),
        (SOFTMAX, remembering, ["second_call"]),
        (SOFTMAX, lambda x, dim=-1: torch.full_like(x, math.nan), []),  # not in float16 alone
        (MASKED, masked(fill=-3.0), ["hidden_weight"]),
        (MASKED, masked(fill=0.0), ["hidden_weight"]),
        (MASKED, masked(invert=True), ["mask_inverted"]),
        (MASKED, lambda scores, keep: torch.softmax(scores, -1), ["mask_ignored"]),
        (MASKED, masked(after=True), ["masked_sum"]),
        (MASKED, masked(empty=False), ["empty_row_not_finite"]),
        (MASKED, masked(fill=-1e9, empty=False), ["empty_row_sum"]),
        (ATTENTION, attention(soft=torch.sigmoid), ["row_sums"]),
        (ATTENTION, attention(soft=lambda s: torch.softmax(s, -2)), ["columns_sum"]),
        (ATTENTION, attention(mix=lambda w, v: w @ v.square()), ["mixture"]),
        (ATTENTION, attention(mix=lambda w, v: v * w.sum(-1, True)), ["ignores_q"]),
        (ATTENTION, attention(score=lambda q, k: q @ k.mT - (q @ k.mT).mean(0, True)), ["other_batch"]),
        (ATTENTION, attention(score=lambda q, k: q @ k.mT - (q @ k.mT).mean(-3, True)), ["other_heads"]),
        (ATTENTION, attention(mix=lambda w, v: (w @ v).flip(-3)), ["other_head_is_returned"]),
        (ATTENTION, attention(mix=lambda w, v: (w @ v).flip(-2)), ["other_row_is_returned"]),
        (ATTENTION, attention(score=lambda q, k: q @ k.roll(1, -2).mT / math.sqrt(q.shape[-1])), []),
        (ATTENTION, lambda q, k, v, keep=None, scale=None: attention()(k, q, v, keep, scale), ["taken_as_kqv"]),
        (ATTENTION, lambda q, k, v, keep=None, scale=None: attention()(q, k, v, keep), ["scale_ignored"]),
        (ATTENTION, attention(soft=plain), ["large_scores"]),
        (ATTENTION, attention(soft=lambda s: torch.softmax(s, -1 if s.shape[-1] == s.shape[-2] else -2)),
         ["equal_lengths_only"]),
        (ATTENTION, attention(mix=lambda w, v: (w @ v)[..., : w.shape[-1] - 1]), []),
        (ATTENTION, attention(mix=lambda w, v: (w @ v) if v.shape[-1] == 2 else 2 * (w @ v)), ["equal_widths_only"]),
        (CAUSAL, causal(offset=1), ["later_key_seen"]),
        (CAUSAL, causal(offset=-1), ["own_key_missed"]),
        (CAUSAL, lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v, ["later_key_seen"]),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_told_what_it_lacks(where, answer, keys):
    assert set(keys) <= {one.key for one in probed(*where, answer)}


@pytest.mark.parametrize("slug", PROBED)
def test_a_right_answer_lacks_nothing_however_it_is_written(slug):
    exercise = catalog.find_catalog_exercise(slug)
    families = {n: name_probed_family(f) for n, f in exercise.functions.items()}
    assert any(families.values())
    right = [
        v for v in suite_runner.list_suite_variants(exercise) if families.get(v.of) and not v.edits
    ]
    assert {v.id: probed(slug, v.of, v.answer) for v in right} == {v.id: [] for v in right}


def module(slug, name, change):
    """A module of the solution whose answers are changed: change(self, x, answer)."""
    right = getattr(load_solution_to_prove(catalog.find_catalog_exercise(slug)), name)

    class Wrong(right):
        def forward(self, x, *args, **kwargs):
            return change(self, x, super().forward(x, *args, **kwargs))

    return Wrong


def growing(self, x, answer):
    self.calls = getattr(self, "calls", 0) + 1
    return answer * self.calls


def leaking(self, x, answer):
    return answer + torch.cat([x[:, 1:], x[:, :1] * 0], 1)


@pytest.mark.parametrize(
    "slug, name, change, keys",
    [
        ("ex04_heads", "MultiHeadAttention", lambda m, x, a: (a[0], a[1] * 0.9), ["row_sums"]),
        ("ex04_heads", "MultiHeadAttention", lambda m, x, a: (a[0] - a[0].mean(0), a[1]), ["other_batch"]),
        ("ex04_heads", "MultiHeadAttention", lambda m, x, a: (a[0] * m.num_heads, a[1]), ["one_head_only"]),
        ("ex06_kv_cache", "CachedAttention", leaking, ["later_token_seen"]),
        ("ex06_kv_cache", "CachedAttention", lambda m, x, a: a.tril(-1) * 0, ["token_missed"]),
        ("ex06_kv_cache", "CachedAttention", growing, ["second_call"]),
        ("ex06_kv_cache", "CachedAttention", lambda m, x, a: m.w_o(m.w_v(x)), ["ignores_w_q"]),
        ("ex07_mqa_gqa", "GroupedQueryAttention", lambda m, x, a: a * len(x), ["one_batch_only"]),
        ("ex12_attention_block", "FeedForward", leaking, ["later_token_seen"]),
    ],
)  # fmt: skip
def test_a_wrong_module_is_told_what_it_lacks(slug, name, change, keys):
    found = probed(slug, name, module(slug, name, change))
    assert set(keys) <= {one.key for one in found}


@pytest.mark.parametrize(
    "slug", ["ex04_heads", "ex06_kv_cache", "ex07_mqa_gqa", "ex12_attention_block"]
)
def test_a_right_module_lacks_nothing_however_it_is_written(slug):
    exercise = catalog.find_catalog_exercise(slug)
    names = [n for n, declared in exercise.classes.items() if can_be_probed(declared)]
    right = [v for v in suite_runner.list_suite_variants(exercise) if v.of in names and not v.edits]
    assert names
    assert {v.id: probed(slug, v.of, v.answer) for v in right} == {v.id: [] for v in right}
    assert [probed(slug, name, module(slug, name, lambda m, x, a: a)) for name in names] == [
        []
    ] * len(names)


def test_numbers_stand_beside_a_fact():
    [found] = probed(*SOFTMAX, lambda x, dim=-1: 0.98 * torch.softmax(x, dim))
    assert found == Fact(key="row_sums", values={"sum": pytest.approx(0.98, rel=1e-5)})


def test_a_numpy_function_and_one_of_rows_are_asked_as_well():
    twice = probed(
        "ex01_softmax", "softmax_numpy", lambda x, axis=-1: np.exp(x - x.max(axis, keepdims=True))
    )
    rows = probed(
        "ex00_plain_python", "row_softmax", lambda rows: [[math.exp(x) for x in r] for r in rows]
    )
    assert twice[0].key == rows[0].key == "row_sums"


def test_an_answer_that_raises_or_answers_nonsense_is_told_nothing():
    assert probed(*ATTENTION, lambda *a, **k: 1 / 0) == []
    assert probed(*ATTENTION, lambda *a, **k: None) == []


def failed(got, exact, *args, subject="out"):
    got, exact = np.array(got), np.array(exact)
    fault = StudentFault("wrong")
    fault.differs = ValueDifference(
        got=got, exact=exact, wrong=got != exact, subject=subject, call="f()"
    )
    asked = LastCall(name="f", args=args, kwargs={}, value=None)
    return CheckFailure(check="c", case=None, more=(), fault=fault, calls=frozenset(), asked=asked)


RIGHT = [[1.0, 2.0, 4.0], [8.0, 16.0, -3.0], [0.5, 7.0, 9.0]]
THIRDS = np.divide(RIGHT, 3)
WIDE = torch.zeros(1, dtype=torch.float64)


@pytest.mark.parametrize(
    "got, exact, key",
    [
        (np.multiply(2, RIGHT), RIGHT, "factor"),
        (np.multiply(-1, RIGHT), RIGHT, "factor"),
        (np.add(2, RIGHT), RIGHT, "offset"),
        (np.transpose(RIGHT), RIGHT, "transposed"),
        (np.roll(RIGHT, 1), RIGHT, "other_places"),
        (np.zeros((3, 3)), RIGHT, "all_zero"),
        (np.float32(THIRDS).astype(float), THIRDS, "float32_digits"),
        (np.multiply(1 + 3e-8 * np.cos(np.arange(9.0).reshape(3, 3)), RIGHT), RIGHT, "float32_digits"),
        (np.multiply(1 + 1e-8, RIGHT), RIGHT, None),
        (np.divide(RIGHT, [[1 + 1e-8], [1 + 3e-9], [1 + 2e-6]]), RIGHT, "rows_too_small"),
        (np.divide(RIGHT, 1 + 1e-7 / np.abs(RIGHT)), RIGHT, None),
        (np.multiply(1 + 1e-3, RIGHT), RIGHT, None),
        (np.square(RIGHT), RIGHT, None),
        ([[True, False], [False, False]], [[False, True], [True, True]], "all_inverted"),
        ([[True, True], [False, True]], [[True, False], [True, True]], "transposed"),
        ([[True, True], [True, True]], [[True, False], [True, True]], "more_true"),
        ([[True, False], [False, False]], [[True, False], [True, True]], "fewer_true"),
    ],
)  # fmt: skip
def test_wrong_numbers_tell_facts_by_themselves(got, exact, key):
    found = list(difference_facts.list_difference_facts(failed(got, exact, WIDE)))
    assert [one.key for one in found] == ([] if key is None else [key])


def test_what_another_call_changed_tells_nothing_of_how_it_is_computed():
    for subject in (
        "an earlier answer (after later calls)",
        "a mask (after an earlier one was changed)",
    ):
        given = failed([[True] * 3], [[False] * 3], subject=subject)
        assert list(difference_facts.list_difference_facts(given)) == []
    assert (
        len(list(difference_facts.list_difference_facts(failed([[True] * 3], [[False] * 3])))) == 1
    )


def test_counts_are_whole_numbers():
    told = [*fact_text.report_facts([Fact(key="more_true", values={"count": 32768.0})], Words())]
    assert told == ["All that should be True is True, and so are 32768 others."]
    told = [*fact_text.report_facts([Fact(key="factor", values={"factor": 7.0000002})], Words())]
    assert told == ["Every number is 7 times what it should be."]
    told = [*fact_text.report_facts([Fact(key="factor", values={"factor": 1.00004})], Words())]
    assert told == ["Every number is 1.00004 times what it should be."]


def test_a_report_quotes_no_warning_and_nothing_from_the_search_for_the_mistake(graded):
    """That search calls the answer with few numbers, and calls changed copies of it."""
    right = solution("ex01_softmax")
    line = "powers = torch.exp(wide - wide.amax(dim=dim, keepdim=True))"
    loud = "torch.tensor(1.0).mT; print(end='few' if x.numel() < 6 else '')"
    report = graded("ex01_softmax", right.replace(line, f"{loud}; powers = torch.exp(wide) + 0.01"))
    assert any(c.diagnosis for c in report.checks) and report.output == ""


def test_nothing_is_read_of_a_students_object():
    class Cache:
        def __getattr__(self, name):
            raise StudentFault(f"{name} was read")

    given = failed(np.multiply(2, RIGHT), RIGHT, Cache())
    assert [one.key for one in difference_facts.list_difference_facts(given)] == ["factor"]


def test_a_small_error_means_float32_only_where_float64_was_given():
    single = failed(np.multiply(1 + 1e-8, RIGHT), RIGHT, WIDE.float())
    assert list(difference_facts.list_difference_facts(single)) == []


@pytest.mark.parametrize("wrong", ["scores + torch.zeros(q.shape[-2], q.shape[-2])", "1 / 0"])
def test_an_exception_is_told_only_at_which_sizes_it_comes(graded, wrong):
    right = solution("ex03_sdpa")
    line = "scores = q * scale @ k.mT  # (..., Lq, Lk)\n"
    report = graded("ex03_sdpa", right.replace(line, f"{line}    scores = {wrong}\n"))
    found = [one.key for c in report.checks if c.diagnosis for one in c.diagnosis.facts]
    assert found == (["equal_lengths_only"] if "scores" in wrong else [])


KEPT = "_KEPT = {}\n\n\ndef scaled_dot_product_attention("


@pytest.mark.parametrize(
    "scale, keeps",
    [("_KEPT.setdefault(0, q.shape[-1] ** -0.5)", True), ("0.9 * q.shape[-1] ** -0.5", False)],
)
def test_an_answer_that_depends_on_earlier_calls_is_told_so(graded, scale, keeps):
    right = solution("ex03_sdpa").replace("def scaled_dot_product_attention(", KEPT)
    line = "scores = q * scale @ k.mT  # (..., Lq, Lk)\n"
    assert line in right
    report = graded("ex03_sdpa", right.replace(line, f"scores = q * {scale} @ k.mT\n"))
    found = [one.key for c in report.checks if c.diagnosis for one in c.diagnosis.facts]
    assert (found == ["other_alone"]) == keeps and ("other_alone" in found) == keeps


def test_a_report_tells_facts_once_and_only_without_a_name(graded):
    right = solution("ex01_softmax")
    line = "powers = torch.exp(wide - wide.amax(dim=dim, keepdim=True))"
    report = graded("ex01_softmax", right.replace(line, "powers = torch.exp(wide) + 0.01"))
    [known] = [c.diagnosis for c in report.checks if c.diagnosis]
    assert [one.key for one in known.facts] == ["shift", "large_scores"]
    named = graded("ex01_softmax", right.replace(line, "powers = torch.exp(wide)"))
    found = [c.diagnosis for c in named.checks if c.diagnosis]
    assert found and all(not (d.mistakes and d.facts) for d in found)


@pytest.mark.parametrize(
    ("key", "call", "told"),
    [("mask_inverted", "f(float32 (2, 3), None, scale=0)", False),
     ("empty_row_sum", "f(float32 (2, 3), bool (3,))", True),
     ("mask_ignored", "attention([[1.0]], [[1.0]], [[1.0]], [[True]])", True),
     ("scale_ignored", "f(float32 (2, 3), None, scale=0)", True)],
)  # fmt: skip
def test_what_a_mask_shows_is_told_below_no_call_of_tensors_without_one(key, call, told):
    assert facts._may_call_show(Fact(key=key), call) is told
