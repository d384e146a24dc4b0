"""A name fits where the answer is wrong, and where it is right."""

import pytest
import torch

from grader.authoring.mutants import load_solution_to_prove
from grader.core import catalog
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.trial_run import find_difference, run_trial
from grader.judging import suite_runner
from grader.judging.judge import Judge
from tests.diagnosis.test_diagnosis import student_with

EX02 = "ex02_masking"
KNOWN = MistakeCatalogue(catalog.find_catalog_exercise(EX02))
BY_NAME = {m.id: m for m in KNOWN.mistakes}


def multiplied_by_the_mask(scores, keep):
    weights = torch.softmax(scores, -1)
    return weights if keep is None else weights * keep


def trials_of(answer, seed: int) -> NameTrials:
    student = student_with(EX02, masked_softmax=answer)
    return NameTrials(Judge(student, (f"{seed}",)), KNOWN)


def test_a_pair_that_is_wrong_where_the_answer_is_right_does_not_fit():
    """Of an empty row that hides NaN both are NaN; of an empty row of numbers the answer is 0."""
    names = "masked_after_the_softmax", "empty_rows_opened"
    pair = KNOWN.pair(*(BY_NAME[name] for name in names))
    trials = trials_of(multiplied_by_the_mask, seed=0)
    assert trials.find_unexplained(pair) is None
    assert trials.keep_fitting([pair]) == []


@pytest.mark.parametrize("seed", range(3))
def test_weights_times_the_mask_have_their_name_on_all_draws(seed):
    mistake = BY_NAME["multiplied_after_the_softmax"]
    trials = trials_of(multiplied_by_the_mask, seed)
    assert trials.find_first_wrong(mistake) is not None
    assert trials.keep_fitting([mistake]) == [mistake]


def test_what_lies_behind_the_last_token_of_a_cache_is_the_answers_business():
    slug = "ex13_mla"
    exercise = catalog.find_catalog_exercise(slug)
    module = load_solution_to_prove(exercise)

    class Uncleared(module.LatentCache):
        def __init__(self, *sizes, **options):
            super().__init__(*sizes, **options)
            self.latents.fill_(7.0)
            self.k_ropes.fill_(7.0)

    other = student_with(slug, LatentCache=Uncleared)
    judge = Judge(student_with(slug), ("diagnosis", slug))
    for trial in suite_runner.list_suite_trials(exercise):
        for number in range(10):
            one, two = (run_trial(judge, s, trial, number) for s in (judge.student, other))
            assert find_difference(one, two) is None
