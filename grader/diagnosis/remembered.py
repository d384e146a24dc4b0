"""Finds out whether an answer remembers something: made first, the same call gives another answer.

The call is made once more as the answer is now, and twice with the answer loaded anew. If these two
are equal to each other and not to the first, earlier calls left something behind.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from grader.diagnosis.probed_function import Array, ProbingEnded, call_probed_function
from grader.judging.case import LastCall, StudentFault
from grader.judging.judge import CheckFailure
from grader.judging.student import Student
from grader.judging.student_file import find_changeable_text
from grader.judging.tolerance import as_judged_numbers
from grader.worker.parent.client import ChangeableText
from grader.worker.parent.faults import WorkerFault

_PLAIN = (bool, int, float, str, type(None), Tensor, np.ndarray)


def find_functions_that_keep(failures: Sequence[CheckFailure], student: Student) -> frozenset[str]:
    """Return the functions whose last call in a failure depends on the calls before it."""
    text, found = find_changeable_text(student), set()
    first = {f.asked.name: f.asked for f in reversed(failures) if f.asked is not None}
    for name, asked in first.items():
        plain = all(isinstance(x, _PLAIN) for x in (*asked.args, *asked.kwargs.values()))
        if text is not None and plain and _depends_on_calls_before(asked, student, text):
            found.add(name)
    return frozenset(found)


def _depends_on_calls_before(asked: LastCall, student: Student, text: ChangeableText) -> bool:
    try:
        now = _call_as_numbers(student, asked)
        with text.change() as load:
            alone = [_call_as_numbers(student, asked) for _ in range(2) if load(text.source)]
    except (ProbingEnded, StudentFault, WorkerFault):
        return False
    return len(alone) == 2 and _are_alike(*alone) and not _are_alike(now, alone[0])


def _call_as_numbers(student: Student, asked: LastCall) -> list[Array]:
    answer = call_probed_function(student, asked.name, asked.args, asked.kwargs)
    parts = answer if isinstance(answer, tuple | list) else [answer]
    return [as_judged_numbers(x) for x in parts if isinstance(x, Tensor | np.ndarray)]


def _are_alike(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    return len(ours) == len(theirs) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-6, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )
