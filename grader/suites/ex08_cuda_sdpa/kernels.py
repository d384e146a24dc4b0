"""Compares the answers of best_backend with the kernels that PyTorch has."""

import re

from grader.judging import expect, untouched
from reference.fused import best_backend

FUSED = "flash", "efficient", "cudnn"


def named(student, *call, **options):
    """Return the kernel that best_backend names; fail if the answer's form is wrong."""
    answer = untouched(lambda: student.best_backend(*call, **options))
    name, colon, reasons = answer.partition(":")
    names = "flash, efficient, cudnn or math and a colon, after math with the reasons"
    begins = bool(colon) and name in (*FUSED, "math")
    said = re.sub("|".join(FUSED), "", reasons)  # the name of a kernel is no reason
    right = begins and (name != "math" or any(letter.isalpha() for letter in said))
    expect(right, f"backend is {answer!r}, but should begin with {names}")
    return name


def agree_backend(student, q, k, v, **options):
    """Check best_backend: one right answer on the CPU; on CUDA a plain call must be fused."""
    name = named(student, q, k, v, **options)
    if not (q.shape[-2] and k.shape[-2]):
        problem = "but no fused kernel runs without queries or without keys"
        expect(name == "math", f"backend begins with {name!r}, {problem}")
    elif not q.is_cuda:
        problem = "but the CPU has one fused kernel, flash, which takes the call"
        expect(name == "flash", f"backend begins with {name!r}, {problem}")
    elif not options and q.shape[1] == k.shape[1]:
        _fused(name, q, k, v)


def fused_for(student, *call, **options):
    """Check that best_backend names a fused kernel, if PyTorch has one for the call here."""
    _fused(named(student, *call, **options), *call, **options)


def _fused(name, *call, **options):
    right = best_backend(*call, **options).partition(":")[0]
    problem = f"backend begins with {name!r}, but PyTorch has a fused kernel for the call: {right}"
    expect(name != "math" or right == "math", problem)
