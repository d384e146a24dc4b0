"""What best_backend answers, and how it is compared."""

import re

from grader.judging import expect, untouched
from reference.fused import best_backend


def named(student, *call, **options):
    """The kernel that best_backend names, in an answer of the right form."""
    answer = untouched(lambda: student.best_backend(*call, **options))
    form = r"(flash|efficient|cudnn):|math: *\S"
    names = "flash, efficient, cudnn or math and a colon, after math with the reasons"
    expect(bool(re.match(form, answer)), f"backend is {answer!r}, but should begin with {names}")
    return answer.partition(":")[0]


def agree_backend(student, q, k, v, **options):
    """On the CPU there is one answer; on CUDA it is only asked that a plain call be fused."""
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
    """best_backend names a fused kernel, if PyTorch has one for the call on this device."""
    _fused(named(student, *call, **options), *call, **options)


def _fused(name, *call, **options):
    right = best_backend(*call, **options).partition(":")[0]
    problem = f"backend begins with {name!r}, but PyTorch has a fused kernel for the call: {right}"
    expect(name != "math" or right == "math", problem)
