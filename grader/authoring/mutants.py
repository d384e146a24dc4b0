"""Runs a suite on its named mistakes; makes submissions of its right variants."""

import ast
import inspect
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from grader.authoring.touched_checks import Calls, list_checks_calling
from grader.core.records import CheckResult, Exercise, Verdict
from grader.diagnosis import solution_modules
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.naming import name_mistake
from grader.judging import suite_runner
from grader.judging.author_error import AuthorError
from grader.judging.judge import Judge
from grader.judging.marks import Mistake, Variant, edited
from grader.judging.student import Student
from grader.submission.reach import list_definition_users
from grader.worker.parent.in_process import call_without_wall

# The imports that a variant may use; an unused one could be refused in the exercise.
IMPORT_LINES = {"math": "import math", "np": "import numpy as np", "torch": "import torch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtMistake:
    """The suite's verdict on one mistake."""

    mistake: Mistake
    verdict: Verdict  # of the check that the mistake names
    says: str  # why that check fails
    earned: tuple[str, ...]  # of a null answer: the checks that passed although they call it
    faults: tuple[str, ...]  # faults of the grader
    named: tuple[str, ...]  # the mistakes that the diagnosis gives for the named check's failure

    @property
    def right(self) -> bool:
        """Whether the named check fails, and a null answer earns no points at all."""
        return self.verdict is Verdict.FAILED and not self.earned and not self.faults

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value, "says": self.says, "earned": self.earned,
            "faults": self.faults, "named": self.named,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, mistake: Mistake, found: dict[str, Any]) -> "CaughtMistake":
        parts = {name: tuple(found[name]) for name in ("earned", "faults", "named")}
        verdict, says = Verdict(found["verdict"]), found["says"]
        return cls(mistake=mistake, verdict=verdict, says=says, **parts)


def load_solution_to_prove(exercise: Exercise) -> ModuleType:
    """Return a fresh copy of the solution's module."""
    found = solution_modules.load_solution_for_judging(exercise)
    assert found is not None
    return found


def run_suite_on_mistake(
    mistake: Mistake, exercise: Exercise, known: MistakeCatalogue, calls: Calls, *,
    naming: bool = True,
) -> CaughtMistake:  # fmt: skip
    """Run a mistake through the check that it names; a null answer through all that call it.

    calls   what each check calls: a check that calls nothing that the mistake affects would pass
            as it does for the solution, and is left out; if `calls` is empty, none is left out
    naming  whether to find the mistakes that a report would name
    """
    if mistake.caught_by not in {check.id for check in suite_runner.list_suite_checks(exercise)}:
        raise AuthorError(
            f"{mistake.id} names {mistake.caught_by}, which is no check of the suite of"
            f" {exercise.slug}. Name the check that catches it."
        )
    judge = Judge(known.student(mistake), ("mutants", exercise.slug))
    only, untouched = frozenset({mistake.caught_by}), frozenset[str]()
    if calls:
        users = list_definition_users(exercise.solution.read_text(encoding="utf-8"))
        touched = list_checks_calling(users[mistake.of], calls) | only
        only, untouched = touched if mistake.null else only, frozenset(calls) - touched
    elif mistake.null:
        only = frozenset()
    results = suite_runner.run_suite_checks(exercise, judge, only, known=untouched)
    failed = [f for f in judge.failures if f.check == mistake.caught_by and naming]
    named = [m.id for f in failed for m in name_mistake(f, judge, known, only)]
    passed = [c.id for c in results if c.verdict is Verdict.PASSED and mistake.of in c.calls]
    own = next(c for c in results if c.id == mistake.caught_by)
    return CaughtMistake(
        mistake=mistake,
        verdict=own.verdict,
        says=own.why,
        earned=tuple(passed) if mistake.null else (),
        faults=(
            *(f"{c.id}: {c.why}" for c in results if c.verdict is Verdict.GRADER_FAULT),
            *(f"{f.check}: {f.fault}" for f in judge.failures if f.fault.kind == "NameError"),
        ),
        named=tuple(named),
    )


def run_suite_on_mutant(
    exercise: Exercise, module: ModuleType, only: frozenset[str] = frozenset()
) -> tuple[CheckResult, ...]:
    """Run the suite, or `only` these checks, on a trusted module in this process."""
    student = Student(exercise, call_without_wall(module, exercise.prelude))
    judge = Judge(student, ("mutants", exercise.slug))
    return suite_runner.run_suite_checks(exercise, judge, only)


def write_variant_to_prove(exercise: Exercise, variant: Variant) -> str:
    """Return the solution with the variant after it, under the name that the variant replaces.

    If the variant is edits, return the edited solution.
    """
    if variant.edits:
        return edited(exercise.solution.read_text(encoding="utf-8"), variant.edits)
    tree = ast.parse(textwrap.dedent(inspect.getsource(variant.answer)))
    [node] = tree.body
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    node.name = variant.of
    node.decorator_list = [d for d in node.decorator_list if "variant" not in ast.unparse(d)]
    used = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name)}
    imports = "\n".join(line for name, line in IMPORT_LINES.items() if name in used)
    return (
        f"{exercise.solution.read_text(encoding='utf-8')}\n\n{imports}\n\n\n{ast.unparse(tree)}\n"
    )
