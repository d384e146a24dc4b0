"""Tells, where no mistake is named, which properties of a right answer a wrong one lacks.

Some facts are read from the wrong numbers themselves. Others come from small experiments: the
student's function is called on inputs of our own, and a property that it breaks and the solution
keeps, on the same inputs, is a fact. Nothing is guessed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from grader.core.diagnosis_records import Diagnosis, Fact
from grader.core.records import CheckResult, Exercise
from grader.diagnosis import cache_probes, difference_facts, module_probes
from grader.diagnosis.fact_probes import list_fact_probes
from grader.diagnosis.probed_function import ProbedFunction, ProbingEnded, find_probed_function
from grader.judging.case import StudentFault
from grader.judging.draw import Draw
from grader.judging.judge import CheckFailure
from grader.judging.student import Student

MAX_FACTS = 3  # of one check
# Facts that only a call with a mask shows.
_MASK_FACTS = frozenset(
    ("mask_inverted", "mask_ignored", "hidden_weight", "masked_sum", "hidden_score",
     "empty_row_not_finite", "empty_row_sum")
)  # fmt: skip

T = TypeVar("T")


def add_judged_facts(
    exercise: Exercise, checks: Sequence[CheckResult], failures: Mapping[str, CheckFailure],
    student: Student, right: Student | None, keeps: Collection[str] = (),
) -> tuple[CheckResult, ...]:  # fmt: skip
    """Return the checks, with facts for failed ones without a named mistake; each fact once.

    keeps  the functions that keep something between calls
    """
    told: set[tuple[str, str]] = set()  # a function, and the key of a fact
    probed: dict[str, list[Fact]] = {}

    def with_facts(check: CheckResult) -> CheckResult:
        failure, known = failures.get(check.id), check.diagnosis or Diagnosis()
        if failure is None or known.mistakes or failure.fault.says_all_itself:
            return check
        differs = failure.fault.differs
        name = (failure.last_call if differs is None else differs.call).partition("(")[0]
        if name in keeps:  # then no comparison of two calls holds
            found = [Fact(key="other_alone")]
        else:
            found = list(difference_facts.list_difference_facts(failure))
        told_gradient = differs is not None and differs.subject.startswith("gradient")
        if right is not None and name not in keeps and not told_gradient:
            if name not in probed:
                probed[name] = list(_probe_one_name(exercise, name, student, right))
            # An exception or a wrong shape has to do with sizes, if with any of the properties.
            found += [
                x for x in probed[name]
                if x.key.endswith("_only") or (differs and _may_call_show(x, differs.call))
            ]  # fmt: skip
        new = tuple(one for one in found if (name, one.key) not in told)[:MAX_FACTS]
        told.update((name, one.key) for one in new)
        return replace(check, diagnosis=replace(known, facts=new)) if new else check

    return tuple(map(with_facts, checks))


def _may_call_show(one: Fact, call: str) -> bool:
    """Return whether a call, as it is written, may show a fact: tensors without a mask do not."""
    return one.key not in _MASK_FACTS or "bool (" in call or "float" not in call


def _probe_one_name(
    exercise: Exercise, name: str, student: Student, right: Student
) -> Iterator[Fact]:
    """Yield the properties that a function or module lacks and the solution's has."""
    function, module = find_probed_function(exercise, name), exercise.classes.get(name)
    if function is not None:
        ours, theirs = (ProbedFunction(one, *function) for one in (student, right))
        yield from _run_probes(exercise, list_fact_probes(ours), ours, theirs)
    elif module is not None and module_probes.can_be_probed(module):
        caches = [c for c in exercise.classes.values() if cache_probes.can_be_probed(c)]
        mine, solved = (
            module_probes.ProbedModule(x, module, right, *caches[:1]) for x in (student, right)
        )
        yield from _run_probes(exercise, module_probes.MODULE_PROBES, mine, solved)
    elif module is not None and cache_probes.can_be_probed(module):
        held, wanted = (cache_probes.ProbedCache(x, module) for x in (student, right))
        yield from _run_probes(exercise, cache_probes.CACHE_PROBES, held, wanted)


def _run_probes(
    exercise: Exercise, probes: Sequence[Callable[[T, T, Draw], Fact | None]], ours: T, theirs: T
) -> Iterator[Fact]:
    """Yield at most `MAX_FACTS` facts; where answers are remembered, no other comparison holds."""
    found = 0
    try:
        for probe in probes:
            one = _run_probe(exercise, probe, ours, theirs)
            if one is not None and _run_probe(exercise, probe, theirs, theirs) is None:
                yield one
                found += 1
            if found == MAX_FACTS or (one is not None and one.key == "second_call"):
                return
    except ProbingEnded:
        return


def _run_probe(
    exercise: Exercise, probe: Callable[[T, T, Draw], Fact | None], f: T, right: T
) -> Fact | None:
    try:
        return probe(f, right, Draw("facts", exercise.slug, probe.__name__))
    except StudentFault:
        return None
