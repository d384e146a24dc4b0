"""Grading the grader: every suite against its named mistakes and its right variants."""

import ast
import inspect
import textwrap
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from types import ModuleType

from grader import catalog
from grader.judging import diagnosis, ours, suite
from grader.judging.check import Mistake, Variant, edited
from grader.judging.diagnosis import Catalogue
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.records import CheckResult, Exercise, Verdict
from grader.worker.in_process import in_process

# What a variant may use of its file; what it does not use may not be allowed in its exercise.
IMPORTS = {"math": "import math", "np": "import numpy as np", "torch": "import torch"}
Named = tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """What the suite made of one mistake."""

    slug: str
    mistake: Mistake
    results: tuple[CheckResult, ...]
    # The mistakes that the diagnosis of the named check's failure gives; None if it was not asked.
    named: Named

    @property
    def verdict(self) -> Verdict:
        """The verdict of the check that the mistake names."""
        return next(c.verdict for c in self.results if c.id == self.mistake.caught_by)

    @property
    def failed(self) -> tuple[str, ...]:
        """The checks that failed, in the order in which a student meets them."""
        return tuple(c.id for c in self.results if c.verdict is Verdict.FAILED)

    @property
    def earned(self) -> tuple[str, ...]:
        """The checks that passed although they call the wrong answer."""
        return tuple(
            c.id for c in self.results if c.verdict is Verdict.PASSED and self.mistake.of in c.calls
        )

    @property
    def right(self) -> bool:
        """Caught by the check that it names; and a null answer earns nothing at all."""
        return self.verdict is Verdict.FAILED and not (self.mistake.null and self.earned)


def solution(exercise: Exercise) -> ModuleType:
    """A fresh copy of the solution's module."""
    found = ours.solution(exercise)
    assert found is not None
    return found


def against_mistakes(exercise: Exercise, every: int = 1, of: int = 1) -> Iterator[Caught]:
    """The suite's verdicts on each mistake, bound in the place of the solution's own name.

    every  one mistake in so many is asked everything and diagnosed, and each null answer asked
           everything; the others are asked only the check that must catch them
    of     one mistake in so many, null answers among them, is asked at all
    """
    known = Catalogue(exercise)
    for mistake in known.mistakes:
        if not _chosen(mistake, of):
            continue
        named = _chosen(mistake, every)
        whole = named or mistake.null
        judge = known.asked(mistake) if whole else _asked_briefly(exercise, mistake, known)
        yield Caught(
            slug=exercise.slug, mistake=mistake, results=judge.results(),
            named=_named(mistake, judge, known) if named else None,
        )  # fmt: skip


def _asked_briefly(exercise: Exercise, mistake: Mistake, known: Catalogue) -> Judge:
    """The judge that has asked the check that must catch the mistake, and what this one needs."""
    judge = Judge(known.student(mistake), ("mutants", exercise.slug))
    suite.ask(exercise, judge, only=frozenset({mistake.caught_by}))
    return judge


def _chosen(mistake: Mistake, every: int) -> bool:
    return zlib.crc32(f"{mistake.of} {mistake.id}".encode()) % every == 0


def _named(mistake: Mistake, judge: Judge, known: Catalogue) -> tuple[str, ...]:
    failed = [f for f in judge.failures if f.check == mistake.caught_by]
    return tuple(m.id for failure in failed for m in diagnosis.named(failure, judge, known))


def on_all_processors(
    exercises: Sequence[Exercise], every: int = 1, of: int = 1
) -> dict[str, list[Caught]]:
    """The same of several exercises, by slug, each in a process of its own."""
    told_of = partial(_told, every=every, of=of)
    found = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for exercise, told in zip(
            exercises, pool.map(told_of, [e.slug for e in exercises]), strict=True
        ):
            mistakes = {m.id: m for m in suite.mistakes(exercise)}
            found[exercise.slug] = [
                Caught(slug=exercise.slug, mistake=mistakes[id], results=results, named=named)
                for id, results, named in told
            ]
    return found


def _told(slug: str, every: int, of: int) -> list[tuple[str, tuple[CheckResult, ...], Named]]:
    """What can go from one process to another."""
    caught = against_mistakes(catalog.find(slug), every, of)
    return [(c.mistake.id, c.results, c.named) for c in caught]


def in_this_process(exercise: Exercise, module: ModuleType) -> tuple[CheckResult, ...]:
    """The suite's verdicts on a module of ours."""
    student = Student(exercise, in_process(module, exercise.prelude))
    return suite.ask(exercise, Judge(student, ("mutants", exercise.slug)))


def variant_source(exercise: Exercise, variant: Variant) -> str:
    """A submission: the solution, and after it the variant under the name that it replaces.

    Or the solution with the variant's edits.
    """
    if variant.edits:
        return edited(exercise.solution.read_text(encoding="utf-8"), variant.edits)
    tree = ast.parse(textwrap.dedent(inspect.getsource(variant.answer)))
    [node] = tree.body
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    node.name = variant.of
    node.decorator_list = [d for d in node.decorator_list if "variant" not in ast.unparse(d)]
    used = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name)}
    imports = "\n".join(line for name, line in IMPORTS.items() if name in used)
    return (
        f"{exercise.solution.read_text(encoding='utf-8')}\n\n{imports}\n\n\n{ast.unparse(tree)}\n"
    )
