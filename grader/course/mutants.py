"""Grading the grader: every suite against its named mistakes and its right variants."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from types import ModuleType

from grader import catalog
from grader.catalog import ROOT
from grader.judging import diagnosis, suite
from grader.judging.check import Mistake, Variant
from grader.judging.diagnosis import Catalogue
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.records import CheckResult, Exercise, Verdict
from grader.worker.in_process import in_process, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """What the suite made of one mistake."""

    slug: str
    mistake: Mistake
    results: tuple[CheckResult, ...]
    named: tuple[str, ...]  # the mistakes that the diagnosis of the named check's failure gives

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
    return load(ROOT / "solutions" / f"{exercise.slug}.py", exercise.slug)


def against_mistakes(exercise: Exercise) -> Iterator[Caught]:
    """The suite's verdicts on each mistake, bound in the place of the solution's own name."""
    known = Catalogue(exercise)
    asked = {m.id: known.asked(m) for m in known.mistakes}
    for mistake in known.mistakes:
        judge = asked[mistake.id]
        failed = [f for f in judge.failures if f.check == mistake.caught_by]
        named = [m.id for failure in failed for m in diagnosis.named(failure, judge, known)]
        yield Caught(
            slug=exercise.slug, mistake=mistake, results=judge.results(), named=tuple(named)
        )


def on_all_processors(exercises: Sequence[Exercise]) -> dict[str, list[Caught]]:
    """The same of several exercises, by slug, each in a process of its own."""
    found = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for exercise, told in zip(
            exercises, pool.map(_told, [e.slug for e in exercises]), strict=True
        ):
            mistakes = {m.id: m for m in suite.mistakes(exercise)}
            found[exercise.slug] = [
                Caught(slug=exercise.slug, mistake=mistakes[id], results=results, named=named)
                for id, results, named in told
            ]
    return found


def _told(slug: str) -> list[tuple[str, tuple[CheckResult, ...], tuple[str, ...]]]:
    """What can go from one process to another."""
    return [(c.mistake.id, c.results, c.named) for c in against_mistakes(catalog.find(slug))]


def in_this_process(exercise: Exercise, module: ModuleType) -> tuple[CheckResult, ...]:
    """The suite's verdicts on a module of ours."""
    student = Student(exercise, in_process(module))
    return suite.ask(exercise, Judge(student, ("mutants", exercise.slug)))


def variant_source(exercise: Exercise, variant: Variant) -> str:
    """A submission: the solution, and after it the variant under the name that it replaces."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(variant.answer)))
    [node] = tree.body
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    node.name = variant.of
    node.decorator_list = [d for d in node.decorator_list if "variant" not in ast.unparse(d)]
    path = ROOT / "solutions" / f"{exercise.slug}.py"
    imports = "import math\nimport numpy as np\nimport torch\n"
    return f"{path.read_text(encoding='utf-8')}\n\n{imports}\n\n{ast.unparse(tree)}\n"
