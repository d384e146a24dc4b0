"""A diagnosis does nothing twice, looks at no more than it needs, and ends in time."""

from collections import Counter

import pytest
import torch

from grader.core import catalog
from grader.core.records import Verdict
from grader.diagnosis import failed_checks, name_trials, naming, pair_naming, time_limit
from grader.diagnosis.check_naming import name_mistakes_behind_failures
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.time_limit import (
    OutOfTime,
    check_diagnosis_time,
    is_diagnosis_time_left,
    limit_diagnosis_time,
)
from grader.diagnosis.trial_run import WantedInput, find_difference, run_trial
from grader.judging.judge import Judge
from grader.judging.marks import Trial
from reference.ex02_masking import plain_masked_softmax
from tests.diagnosis.test_diagnosis import judged

SLUG = "ex02_masking"


def doubled(scores, keep):
    return plain_masked_softmax(scores, keep) * 2


def test_no_case_runs_twice_on_the_answer(monkeypatch):
    judge, ran, ask = judged(SLUG, masked_softmax=doubled), Counter(), Judge.ask
    failed = [f.case.name for f in judge.failures]

    def counting(self, student, case, *again):
        ran[case.name, *again] += student is judge.student
        return ask(self, student, case, *again)

    monkeypatch.setattr(Judge, "ask", counting)
    failed_checks.diagnose_failed_checks(
        catalog.find_catalog_exercise(SLUG), judge.results(), judge
    )
    assert max(ran.values()) == 1
    assert len(ran) > len(failed)


@pytest.mark.parametrize(
    ("like", "most", "asked"),
    [(None, None, 4), ([0, 1, 2, 3], None, 4), ([0, 5, 2, 3], None, 2), ([0, 1, 2, 3], 3, 3)],
)
def test_a_trial_ends_once_its_values_tell(like, most, asked):
    computed = []

    def script(student, draw):
        for n in range(4):
            computed.append(n)
            yield n

    trial = Trial(id="four", of=("masked_softmax",), says="", script=script)
    judge = judged(SLUG, masked_softmax=doubled)
    assert run_trial(judge, judge.student, trial, 0, like, most) == list(range(asked))
    assert len(computed) == asked


def test_right_values_are_computed_as_far_as_the_answer_is_right(monkeypatch):
    computed = Counter()

    def script(student, draw):
        for n in range(4):
            with torch.no_grad():
                computed[student is judge.student] += 1
                yield n if n < 2 or student is not judge.student else -n
        yield torch.is_grad_enabled()

    judge = judged(SLUG, masked_softmax=doubled)
    known = MistakeCatalogue(catalog.find_catalog_exercise(SLUG))
    trial = Trial(id="four", of=("masked_softmax",), says="", script=script)
    monkeypatch.setattr(known, "trials", [trial])
    trials = NameTrials(judge, known)
    assert trials.find_first_wrong(known.mistakes[-1]) == (trial, 0)
    assert torch.is_grad_enabled()
    assert computed == {True: 3, False: 3}
    [wanted] = trials.list_wanted(["masked_softmax"], 1)
    assert (wanted.values, wanted.needed) == ([0, 1, 2, 3, True], 3)


@pytest.mark.parametrize(
    ("came", "told"),
    [("right", ""), ("other", "wrong"), ("raises KeyError", "KeyError"),
     (("raises KeyError", 2), "KeyError"), ([1, ("raises KeyError",)], "KeyError")],
)  # fmt: skip
def test_an_input_tells_the_exception_that_an_answer_raised_also_within_a_tuple(came, told):
    trial = Trial(
        id="one", of=("masked_softmax",), says="", script=lambda s, d: (x for x in [came])
    )
    judge = judged(SLUG, masked_softmax=doubled)
    assert WantedInput((trial, 0), ["right"], 1).compare(judge, judge.student) == told


def test_values_differ_at_the_first_place_that_one_lacks():
    assert find_difference([1, 2], [1, 2]) is None
    assert find_difference([1, 2], [1, 3]) == 1
    assert find_difference([1, 2, 3], [1, 2]) == 2


def test_a_pair_is_asked_only_if_both_may_show():
    known = MistakeCatalogue(catalog.find_catalog_exercise(SLUG))
    by_name = {m.id: m for m in known.mistakes}
    one, other = by_name["polarity_inverted"], by_name["softmax_over_queries"]
    both = known.pair(one, other) or known.pair(other, one)
    trials = NameTrials(Judge(known.student(both), ("pairs", SLUG)), known)
    assert trials.may_be_both(one, other, None)
    silent = [m for m in known.mistakes if m.of == one.of and not trials.may_be_both(one, m, None)]
    assert len(silent) > 10  # such as what is done to half precision only


@pytest.mark.parametrize(("only_masked", "right"), [(False, True), (True, False)])
def test_a_mistake_must_be_right_where_the_answer_is(only_masked, right):
    known = MistakeCatalogue(catalog.find_catalog_exercise(SLUG))
    scaled = next(m for m in known.mistakes if m.id == "scaled_once_more")

    def answer(scores, keep):
        plain = only_masked and keep is None
        return plain_masked_softmax(scores, keep) if plain else scaled.answer(scores, keep)

    trials = NameTrials(judged(SLUG, masked_softmax=answer), known)
    assert trials.find_unexplained(scaled) is None
    assert trials.keep_fitting([scaled]) == ([scaled] if right else [])


def test_a_limit_counts_the_seconds_of_the_worker_and_holds_within_others():
    waited = 0.0
    with limit_diagnosis_time(60.0, lambda: waited):
        assert is_diagnosis_time_left()
        with limit_diagnosis_time(1000.0):
            waited = 61.0
            with pytest.raises(OutOfTime):
                check_diagnosis_time()
    assert is_diagnosis_time_left()


def test_out_of_time_the_verdicts_stand_and_no_mistake_is_named(monkeypatch):
    monkeypatch.setattr(time_limit, "DIAGNOSIS_SECONDS", -1.0)
    judge = judged(SLUG, masked_softmax=doubled)
    exercise, checks = catalog.find_catalog_exercise(SLUG), judge.results()
    told = failed_checks.diagnose_failed_checks(exercise, checks, judge)
    assert [(c.id, c.verdict, c.why) for c in told] == [(c.id, c.verdict, c.why) for c in checks]
    assert any(c.verdict is Verdict.FAILED for c in told)
    assert not any(c.diagnosis and (c.diagnosis.mistakes or c.diagnosis.example) for c in told)


def test_a_mistake_that_is_right_where_the_answer_raises_is_soon_given_up(monkeypatch):
    def raising(scores, keep):
        raise TypeError("whatever the input is")

    judge = judged(SLUG, masked_softmax=raising)
    known = MistakeCatalogue(catalog.find_catalog_exercise(SLUG))
    trials, ran = NameTrials(judge, known), Counter()
    run = name_trials.run_trial
    silent = next(m for m in known.mistakes if m.id == "half_precision_not_raised")

    def counting(judge, student, *one, **options):
        ran["mistake"] += "like" in options
        return run(judge, student, *one, **options)

    monkeypatch.setattr(name_trials, "run_trial", counting)
    assert trials.find_unexplained(silent) is not None
    assert ran["mistake"] == name_trials.MAX_INPUTS_BESIDE


def test_single_mistakes_leave_time_for_what_mends(monkeypatch):
    judge, mended = judged(SLUG, masked_softmax=doubled), []
    known = MistakeCatalogue(catalog.find_catalog_exercise(SLUG))

    def endless(*_, **__):
        while True:
            check_diagnosis_time()

    def mend(failures, trials):
        mended.extend(f.check for f in failures)
        return [f.check for f in failures]

    monkeypatch.setattr(time_limit, "SINGLE_SECONDS", 0.01)
    monkeypatch.setattr(pair_naming, "may_be_one_of_two", lambda *_: False)
    monkeypatch.setattr(naming, "find_mistakes", endless)
    with limit_diagnosis_time(1.0):
        named = name_mistakes_behind_failures(judge, known, mend=mend)
    assert mended == [f.check for f in judge.failures]
    assert all(one.mistakes == () for one in named.values())
