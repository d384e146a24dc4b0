"""A name fits where the answer is wrong, and where it is right."""

import pytest
import torch

from grader.core import catalog
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.name_trials import NameTrials
from grader.judging.judge import Judge
from tests.diagnosis.test_diagnosis import judged

EX02 = "ex02_masking"
KNOWN = MistakeCatalogue(catalog.find_catalog_exercise(EX02))
BY_NAME = {m.id: m for m in KNOWN.mistakes}


def multiplied_by_the_mask(scores, keep):
    weights = torch.softmax(scores, -1)
    return weights if keep is None else weights * keep


def trials_of(answer, seed: int) -> NameTrials:
    student = judged(EX02, masked_softmax=answer).student
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
