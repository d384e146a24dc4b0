"""An answer on the device that it was given, shown without one."""

import types

import pytest
import torch

from grader.core import catalog
from grader.judging import Student, on_meta
from grader.judging.case import CURRENT_CASE, Case, StudentFault
from grader.worker.parent.in_process import call_without_wall

LENGTHS = torch.empty(2, dtype=torch.int64, device="meta")


def padding_mask(body):
    """The padding mask of an answer with this body."""
    CURRENT_CASE.set(Case())
    module = types.ModuleType("answer")
    module.padding_mask = body
    return Student(catalog.find_catalog_exercise("ex02"), call_without_wall(module)).padding_mask


def test_an_answer_that_heeds_the_device_passes():
    on_meta(
        padding_mask(
            lambda lengths, max_len: (
                torch.arange(max_len, device=lengths.device) < lengths[:, None, None, None]
            )
        ),
        LENGTHS,
        5,
    )


@pytest.mark.parametrize(
    "read", [lambda x: x.tolist(), lambda x: int(x[0]), lambda x: x.nonzero(), lambda x: x.numpy()]
)
def test_of_an_answer_that_reads_numbers_nothing_is_said(read):
    on_meta(padding_mask(lambda lengths, max_len: read(lengths)), LENGTHS, 5)


def test_an_answer_on_another_device_is_told():
    answer = padding_mask(lambda lengths, max_len: torch.ones(2, 1, 1, max_len))
    with pytest.raises(StudentFault, match="the device given is meta, but the answer is on cpu"):
        on_meta(answer, LENGTHS, 5)


def test_tensors_of_two_devices_are_a_fault():
    answer = padding_mask(lambda lengths, max_len: torch.arange(2) < lengths)
    with pytest.raises(StudentFault, match="expected device"):
        on_meta(answer, LENGTHS, 5)


def test_an_error_of_another_kind_is_a_fault():
    answer = padding_mask(lambda lengths, max_len: {}[max_len])
    with pytest.raises(StudentFault, match="KeyError"):
        on_meta(answer, LENGTHS, 5)
