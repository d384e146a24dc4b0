"""The diagnosis: what is named, what is not, and where an answer is said to be wrong.

That every mistake of the catalogue is named as itself is held in tests/suites.
"""

import math
from functools import cache
from itertools import count

import numpy as np
import pytest
import torch

from grader.authoring.mutants import load_solution_to_prove
from grader.core import catalog
from grader.core.diagnosis_records import WrongPlaces
from grader.diagnosis import failed_checks, likeness, location, naming
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.judging import suite_runner
from grader.judging.case import StudentFault, ValueDifference
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.reporting import locations
from grader.worker.parent.in_process import call_without_wall
from reference.ex16_paged_cache import PlainPagedKVCache


@cache
def catalogue(slug):
    return MistakeCatalogue(catalog.find_catalog_exercise(slug))


def student_with(slug, **names):
    """A student who hands in the solution with other functions in it."""
    exercise = catalog.find_catalog_exercise(slug)
    module = load_solution_to_prove(exercise)
    for name, answer in names.items():
        setattr(module, name, answer)
    return Student(exercise, call_without_wall(module))


def judged(slug, **names):
    """The judge that asked the solution with other functions in it."""
    judge = Judge(student_with(slug, **names), ("diagnosis", slug))
    suite_runner.run_suite_checks(catalog.find_catalog_exercise(slug), judge)
    return judge


def names_behind(failure, judge, slug):
    """What a failed check is said to come from."""
    return tuple(m.id for m in naming.name_mistake(failure, judge, catalogue(slug)))


def named(slug, **names):
    """What each failed check is said to come from."""
    judge = judged(slug, **names)
    assert judge.failures
    return {f.check: names_behind(f, judge, slug) for f in judge.failures}


def attention(scores_of, weigh):
    """A wrong attention from parts."""

    def function(q, k, v, keep=None, scale=None):
        scores = scores_of(q, k)
        scores = scores if keep is None else scores.masked_fill(~keep, -1e4)
        weights = weigh(scores)
        return weights @ v, weights

    return function


def dots(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def soft(scores):
    return torch.softmax(scores, -1)


def causal(function):
    """The output of an attention under a causal mask, empty rows zero."""

    def answer(q, k, v):
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(
            k.shape[-2] - q.shape[-2]
        )
        return function(q, k, v, keep)[0].masked_fill(~keep.any(-1, keepdim=True), 0.0)

    return answer


# Wrong, and no mistake of the catalogue.
SOFTMAXES = {
    "sigmoid": lambda x, dim=-1: torch.sigmoid(x),
    "squared": lambda x, dim=-1: x.square() / x.square().sum(dim, keepdim=True),
    "two_to_the": lambda x, dim=-1: (
        (2.0 ** (x - x.amax(dim, True))) / (2.0 ** (x - x.amax(dim, True))).sum(dim, True)
    ),
    "linear": lambda x, dim=-1: (x - x.amin(dim, True)) / (x - x.amin(dim, True)).sum(dim, True),
    "sorted": lambda x, dim=-1: torch.softmax(x.sort(dim).values, dim),
    "flipped": lambda x, dim=-1: torch.softmax(x, dim).flip(dim),
    "hot": lambda x, dim=-1: torch.softmax(x * 0.7, dim),
    "rolled": lambda x, dim=-1: torch.softmax(x, dim).roll(1, dim),
}
ATTENTIONS = {
    "cosine": attention(
        lambda q, k: torch.nn.functional.normalize(q, dim=-1)
        @ torch.nn.functional.normalize(k, dim=-1).mT, soft
    ),
    "distance": attention(lambda q, k: -(q[..., None, :] - k[..., None, :, :]).square().sum(-1), soft),
    "manhattan": attention(lambda q, k: -(q[..., None, :] - k[..., None, :, :]).abs().sum(-1), soft),
    "absolute": attention(lambda q, k: dots(q, k).abs(), soft),
    "relu": attention(dots, lambda s: s.relu() / s.relu().sum(-1, keepdim=True).clamp_min(1e-6)),
    "sigmoid": attention(dots, torch.sigmoid),
    "tanh": attention(lambda q, k: 3 * torch.tanh(dots(q, k)), soft),
    "flipped": attention(lambda q, k: dots(q, k.flip(-2)), soft),
    "shifted": attention(lambda q, k: dots(q, k.roll(1, -2)), soft),
    "scaled_twofold": attention(lambda q, k: 2 * (q @ k.mT) / math.sqrt(q.shape[-1]), soft),
    "scaled_by_half": attention(lambda q, k: (q @ k.mT) / math.sqrt(q.shape[-1]) / 2, soft),
    "scaled_by_a_quarter": attention(lambda q, k: (q @ k.mT) / 4, soft),
    "scaled_by_a_third": attention(lambda q, k: (q @ k.mT) / 3.3, soft),
    "sharpened": attention(dots, lambda s: soft(s) ** 2),
    "smoothed": attention(dots, lambda s: 0.9 * soft(s) + 0.1 / s.shape[-1]),
}  # fmt: skip
FROM_ATTENTION = ("cosine", "distance", "absolute", "sigmoid", "sharpened", "smoothed")
UNRELATED = [
    *[("ex01_softmax", "softmax", n, f) for n, f in SOFTMAXES.items()],
    *[("ex03_sdpa", "scaled_dot_product_attention", n, f) for n, f in ATTENTIONS.items()],
    *[("ex05_causal_mask", "causal_attention", n, causal(ATTENTIONS[n])) for n in FROM_ATTENTION],
    *[("ex02_masking", "masked_softmax", n, lambda scores, keep, f=f: f(scores))
      for n, f in SOFTMAXES.items()],
]  # fmt: skip


@pytest.mark.parametrize(
    "slug, of, name, answer", UNRELATED, ids=lambda x: x if isinstance(x, str) else ""
)
def test_a_wrong_answer_of_another_kind_is_given_no_name(slug, of, name, answer):
    assert set(named(slug, **{of: answer}).values()) == {()}


def test_there_are_thirty_of_them():
    assert len(UNRELATED) >= 30


def test_a_mistake_is_named_however_it_is_written():
    def unscaled(q, k, v, keep=None, scale=None):
        scores = torch.einsum("...id,...jd->...ij", q, k) * (1.0 if scale is None else scale)
        if keep is not None:
            scores = torch.where(keep, scores, torch.tensor(-1e30, dtype=scores.dtype))
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = powers / powers.sum(-1, keepdim=True)
        return torch.einsum("...ij,...jd->...id", weights, v), weights

    assert (
        "scale_missing" in named("ex03_sdpa", scaled_dot_product_attention=unscaled)["test_values"]
    )


def test_sizes_that_do_not_fit_are_given_no_name():
    """The error of a mask with its sides exchanged reads as that of a square one does."""

    def exchanged(q, k, v):
        q_len, k_len = q.shape[-2], k.shape[-2]
        keep = torch.ones(k_len, q_len, dtype=torch.bool).tril(q_len - k_len)
        scores = dots(q, k).masked_fill(~keep, -torch.inf)
        return torch.softmax(scores, -1) @ v

    told = named("ex05_causal_mask", causal_attention=exchanged)
    assert set(told.values()) == {()}


def misspelt(x, dim=-1):
    return sofmax(x, dim)  # noqa: F821


@pytest.mark.parametrize("problems", [{}, {"softmax": "softmax is missing"}], ids=["name", "all"])
def test_nothing_is_looked_for_behind_what_is_not_there(problems, monkeypatch):
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    module = load_solution_to_prove(exercise)
    module.softmax = misspelt
    judge = Judge(Student(exercise, call_without_wall(module), problems), ("missing",))
    checks = suite_runner.run_suite_checks(exercise, judge, frozenset({"test_values"}))
    assert [f.check for f in judge.failures] == ["test_values"]
    monkeypatch.setattr(MistakeCatalogue, "fault", lambda *_: pytest.fail("a mistake was run"))
    monkeypatch.setattr(naming, "has_judged_answer", MistakeCatalogue.fault)
    told = failed_checks.diagnose_failed_checks(exercise, checks, judge)
    assert [c.diagnosis for c in told if c.id == "test_values"] == [None]


@pytest.mark.parametrize(
    "other, alike",
    [
        ([1.0, math.nan], True),
        ([1.0, 2.0], False),
        ([math.nan] * 2, False),
        ([1.0, math.inf], False),
    ],
)
def test_an_answer_with_nan_is_like_one_with_nan_in_the_same_places(other, alike):
    right = np.array([1.1, 2.0])

    def came_out(got):
        fault, got = StudentFault("wrong"), np.array(got)
        fault.differs = ValueDifference(
            got=got, exact=right, wrong=got != right, subject="output", call="f(x)"
        )
        return fault

    assert likeness.are_judged_faults_alike(came_out([1.0, math.nan]), came_out(other)) is alike


class BlocksLostInOtherWords(PlainPagedKVCache):
    """Sequences are counted from 1, and a full pool is told in other words."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.numbers = count(1)

    def take(self, needed):
        if needed > self.free_blocks:
            raise ValueError(f"wanted {needed}, left {self.free_blocks}")
        return super().take(needed)

    def free(self, sequence):
        self.check(sequence)
        del self.tables[sequence], self.lengths[sequence]


def test_the_numbers_and_words_that_an_answer_may_choose_hide_no_mistake():
    slug = "ex16_paged_cache"
    judge = judged(slug, PagedKVCache=BlocksLostInOtherWords)
    failed = {f.check: f for f in judge.failures}
    assert "test_refused" in failed
    assert names_behind(failed["test_blocks"], judge, slug) == ("BlocksKept",)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("wrong  [gather(1)]", "wrong  [gather(0)]", True),
        ("wrong  [gather(float32 (1,))]", "wrong  [gather(float64 (1,))]", False),
        ("is 1  [gather(1)]", "is 2  [gather(1)]", False),
        ("the ValueError does not name 2: 'full'", "the ValueError does not name 2: 'no'", True),
        ("the ValueError does not name 2: 'full'", "the ValueError does not name 3: 'full'", False),
    ],
)
def test_sentences_are_alike_but_for_what_an_answer_may_choose(one, other, alike):
    assert likeness.are_judged_faults_alike(StudentFault(one), StudentFault(other)) is alike


def test_what_a_mistake_keeps_does_not_outlive_its_use():
    known = catalogue("ex05_causal_mask")
    keeps = next(m for m in known.mistakes if m.id == "mask_kept_for_each_number_of_queries")
    for length in (3, 5):
        q, k = torch.ones(1, 2, 4), torch.ones(1, length, 4)
        known.module(keeps).causal_attention(q, k, k)
        assert known.module(keeps).causal_attention.__defaults__ == ({},)


def test_what_is_not_written_yet_is_not_diagnosed():
    def softmax(x, dim=-1):
        raise NotImplementedError("Turn the scores into weights.")

    assert set(named("ex01_softmax", softmax=softmax).values()) == {()}


@pytest.mark.parametrize(
    "wrong, says",
    [
        ([0, 0, 0, 1, 0, 0], "Wrong: row 3 only, of 6."),
        ([1, 1, 1, 1, 1, 0], "Wrong: all but row 5, of 6."),
        ([0, 0, 1, 1, 1, 1], "Wrong: row 2 and all after it, of 6."),
        ([1, 1, 1, 0, 0, 0], "Wrong: rows 0 to 2, of 6."),
        ([1, 0, 1, 0, 1, 0], "Wrong: rows 0, 2, 4, of 6."),
        ([1, 1, 1, 1, 1, 1], ""),
    ],
)
def test_the_rows_that_are_wrong_are_told(wrong, says):
    entries = np.array(wrong, bool)[:, None] & np.ones((6, 4), bool)
    assert (
        locations.report_wrong_places(location.locate_judged_errors(entries, ["...", "Lq", "D"]))
        == says
    )


def test_heads_and_batches_are_told_too():
    wrong = np.zeros((2, 4, 5, 8), bool)
    wrong[:, 3] = True
    assert location.locate_judged_errors(wrong, ["...", "Lq", "D"]) == (
        WrongPlaces(axis="head", wrong=(3,), size=4),
    )


@pytest.mark.parametrize(
    "shape, letters, axes",
    [
        ((2, 4, 5, 8), "... Lq D", ["batch", "head", "row"]),
        ((4, 5, 8), "... Lq D", ["leading", "row"]),
        ((4, 5, 6), "... Lq Lk", ["leading", "row", "key"]),
        ((2, 4, 5, 8), "... H Lq Dv", ["batch", "head", "row"]),
        ((3, 2, 4, 5, 8), "... Lq D", ["row"]),
        ((2, 9, 17), "... n", []),
        ((6, 8), "... dim", []),
        ((3, 2, 8), "... E", []),
    ],
)
def test_an_axis_has_a_name_only_where_it_is_known(shape, letters, axes):
    wrong = np.zeros(shape, bool)
    wrong[(0,) * len(shape)] = True
    found = location.locate_judged_errors(wrong, letters.split())
    assert [place.axis for place in found] == axes


def test_one_axis_before_the_rows_has_a_name_that_fits_any():
    wrong = np.zeros((4, 5, 8), bool)
    wrong[2] = True
    [place] = location.locate_judged_errors(wrong, ["...", "Lq", "D"])
    assert locations.report_wrong_places([place]) == "Wrong: leading index 2 only, of 4."


def test_many_scattered_rows_are_counted():
    wrong = np.zeros((40, 3), bool)
    wrong[::3] = True
    said = locations.report_wrong_places(location.locate_judged_errors(wrong, ["Lq", "D"]))
    assert said == "Wrong: 14 of 40 rows; the first is 0."


@pytest.mark.parametrize(
    "slug, call, subject, letters",
    [
        ("ex03_sdpa", "scaled_dot_product_attention(float32 (3, 4))", "weights", "... Lq Lk"),
        (
            "ex03_sdpa",
            "scaled_dot_product_attention(float32 (3, 4))",
            "output (float16)",
            "... Lq Dv",
        ),
        ("ex04_heads", "MultiHeadAttention(16, 4)(float32 (2, 3, 16))", "weights", "B H Lq Lk"),
        ("ex02_masking", "padding_mask(int64 (5,), 7)", "keep", "tensor B 1 1 max_len"),
        ("ex03_sdpa", "no_such(1)", "out", ""),
    ],
)
def test_the_manifest_says_what_an_axis_is(slug, call, subject, letters):
    assert (
        " ".join(location.list_judged_letters(catalog.find_catalog_exercise(slug), call, subject))
        == letters
    )


def test_the_keys_of_a_mask_are_told_by_the_name_of_their_number():
    wrong = np.zeros((2, 1, 1, 5), bool)
    wrong[..., 3] = True
    assert location.locate_judged_errors(wrong, ["tensor", "B", "1", "1", "max_len"][1:]) == (
        WrongPlaces(axis="key", wrong=(3,), size=5),
    )


def test_where_the_manifest_names_the_heads_what_leads_is_the_batch():
    wrong = np.zeros((2, 6, 5, 4), bool)
    wrong[1] = True
    assert location.locate_judged_errors(wrong, ["...", "H", "Lq", "Dv"]) == (
        WrongPlaces(axis="batch", wrong=(1,), size=2),
    )


def test_where_the_manifest_names_no_axis_none_is_told():
    wrong = np.zeros((16, 65), bool)
    wrong[:, :34] = True
    assert (
        location.locate_judged_errors(wrong, ["..."])
        == location.locate_judged_errors(wrong, [])
        == ()
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_arrays_without_entries_do_not_differ_and_raise_no_warning(shape):
    assert likeness.measure_judged_distance(np.zeros(shape), np.ones(shape)) == 0.0


def test_candidates_are_asked_up_to_the_first_difference_and_nothing_twice(monkeypatch):
    known = MistakeCatalogue(catalog.find_catalog_exercise("ex01_softmax"))
    mistake = next(m for m in known.mistakes if m.caught_by == "test_numpy_values")
    none, asked, run = frozenset(), [], Judge.run
    monkeypatch.setattr(Judge, "run", lambda self, cases: asked.append(cases) or run(self, cases))
    assert not known.fails(mistake, none, none)
    assert len(asked) == 1  # the first check of the suite fails, where the student's passed
    alone = frozenset({"test_numpy_values"})
    assert known.fails(mistake, alone, none)
    assert len(asked) == len(
        suite_runner.list_suite_checks(catalog.find_catalog_exercise("ex01_softmax"))
    )
    assert not known.fails(mistake, none, none)
    assert len(asked) == len(
        suite_runner.list_suite_checks(catalog.find_catalog_exercise("ex01_softmax"))
    )


def test_places_are_told_where_wrong_numbers_stand_out():
    exact = np.linspace(1.0, 2.0, 12).reshape(1, 3, 4)
    one_row = exact + np.array([0.0, 0.3, 0.0])[:, None]
    drifting = exact + 1e-9 * exact  # the allowance parts them, and nothing else
    for got, told in ((one_row, 1), (drifting, 0)):
        error = np.abs(got - exact)
        differs = ValueDifference(
            got=got,
            exact=exact,
            wrong=error > 1.5e-9,
            subject="output",
            call="attention_numpy(...)",
        )
        places = location.locate_wrong_places(catalog.find_catalog_exercise("ex03_sdpa"), differs)
        assert len(places) == told
