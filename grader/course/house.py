"""The laws of the house. Every complaint names its cure."""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from grader import catalog, submission
from grader.catalog import ROOT, SUITES
from grader.course import chinese, interfaces, skeletons
from grader.cuda import outline as cuda_outline
from grader.judging import outline, suite
from grader.judging.check import Mistake, Variant
from grader.languages import LANGUAGES
from grader.records import Class, Exercise, Function

MISTAKES, VARIANTS, HINTS = 10, 5, 2
# The core track's points: correctness and speed, as the syllabus has them.
POINTS = {
    "ex01_softmax": (10, 0),
    "ex02_masking": (12, 0),
    "ex03_sdpa": (13, 3),
    "ex04_heads": (12, 0),
    "ex05_causal_mask": (8, 2),
    "ex06_kv_cache": (11, 3),
    "ex07_mqa_gqa": (10, 2),
    "ex08_cuda_sdpa": (10, 4),
}
OURS = ("grader", "reference", "solutions", "exercises", "tests")


def complaints() -> list[str]:
    """Everything that is not in order."""
    found = [line for exercise in catalog.exercises() for line in about(exercise)]
    found += [
        f"{slug}: the core track has no such exercise. Write it, or mend POINTS in house.py."
        for slug in POINTS.keys() - {e.slug for e in catalog.exercises()}
    ]
    page = ROOT / interfaces.PATH
    if not page.is_file() or page.read_text(encoding="utf-8") != interfaces.page():
        found.append(f"{interfaces.PATH} is not what the manifests say. Run `make skeletons`.")
    return found + imports(ROOT)


def about(exercise: Exercise) -> Iterator[str]:
    """What is missing or wrong in one exercise."""
    slug = exercise.slug
    source = exercise.solution
    if not source.is_file():
        yield f"{slug}: solutions/{exercise.file} is missing. Write it; it is the one source."
        return
    if _asks_reference(exercise) and not (exercise.home / "reference" / f"{slug}.py").is_file():
        yield f"{slug}: reference/{slug}.py is missing. Write the oracle and the yardstick."
    for pattern in ("test_*.py", "mistakes.py", "variants.py"):
        if len(list(exercise.folder.glob(pattern))) != 1:
            yield f"{slug}: its suite needs one {pattern}. Write it, or make it one file."
            return
    text = source.read_text(encoding="utf-8")
    if exercise.language == "cuda":
        problems = cuda_outline.problems(text, exercise)
    else:
        problems = outline.problems(outline.parse(text), exercise)
    yield from (f"{slug}: the solution does not fit the manifest. {p}" for p in problems.values())
    yield from _skeleton(exercise, text)
    yield from _points(exercise)
    yield from _catalogue(exercise)
    yield from chinese.complaints(exercise)


def _asks_reference(exercise: Exercise) -> bool:
    """Whether its checks compare with values; a bug hunt asks another suite instead."""
    texts = (path.read_text(encoding="utf-8") for path in exercise.folder.glob("test_*.py"))
    return any("reference" in text for text in texts)


def imports(root: Path) -> list[str]:
    """Imports that go against the direction in which the house depends."""
    found = []
    rooms = ("grader", "reference", "solutions")
    for path in sorted(path for room in rooms for path in (root / room).glob("**/*.py")):
        parts = path.relative_to(root).parts
        for module in imported(path, parts):
            if (law := _law(parts, module)) is not None:
                found.append(f"{'/'.join(parts)} imports {module}. {law}")
    return found


def imported(path: Path, parts: tuple[str, ...]) -> Iterator[str]:
    """Every module that a file imports, relative ones made absolute."""
    package = list(parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            front = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*front, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _law(parts: tuple[str, ...], module: str) -> str | None:
    """The law that this import breaks, with its cure; None if it breaks none."""
    top = module.split(".")[0]
    here = ".".join(parts)
    if parts[0] == "solutions" and top in (*OURS, *_slugs()):
        return "A solution stands alone: import what a student may."
    if parts[0] == "reference" and top not in (
        "reference",
        "numpy",
        "torch",
        *sys.stdlib_module_names,
    ):
        return "The reference knows numpy and torch only: move what it needs into it."
    if here.startswith("grader.worker.child."):
        if top in OURS and not module.startswith("grader.worker.child"):
            return "The worker's side has nothing of ours: move what it needs into the child."
        return None
    if here.startswith("grader.suites."):
        own = ".".join(parts[:3])
        if top in OURS and not module.startswith(("reference", "grader.judging", own)):
            return "A suite knows the reference, the words of grader.judging, and itself."
        return None
    if module.startswith("grader.cli") and here != "grader.__main__.py":
        return "Nothing imports the command line: move what is shared out of it."
    if here == "grader.records.py" and top in OURS:
        return "records imports nothing of ours."
    if parts[0] == "grader" and top in OURS and top != "grader":
        allowed = here.startswith("grader.judging.") and module.startswith("reference.expected")
        return None if allowed else "The grader names no reference, solution, exercise or test."
    if parts[0] == "grader" and module.startswith("grader.suites."):
        return "The grader names no suite: find it through the catalog."
    return None


def _skeleton(exercise: Exercise, source: str) -> Iterator[str]:
    answer = exercise.home / "exercises" / exercise.file
    wanted: Mapping[Path, str] = {answer: skeletons.skeleton_text(exercise, source)} | {
        exercise.home / submission.lesson_path(exercise.slug, lang): skeletons.lesson_text(
            exercise, source, lang
        )
        for lang in LANGUAGES
    }
    for path, text in wanted.items():
        name = path.relative_to(exercise.home)
        if not path.is_file():
            yield f"{exercise.slug}: {name} is missing. Run `make skeletons`."
        else:
            theirs = path == answer and not submission.is_untouched(path)
            if not theirs and path.read_text(encoding="utf-8") != text:
                yield f"{exercise.slug}: {name} is out of step. Run `make skeletons`."


def _points(exercise: Exercise) -> Iterator[str]:
    checks = sum(check.points for check in suite.checks(exercise))
    case = suite.speed_case(exercise)
    points = (checks, case.points if case else 0)
    wanted = POINTS.get(exercise.slug, points)
    if points != wanted:
        yield (
            f"{exercise.slug}: its checks and speed give {points} points, but the syllabus has "
            f"{wanted}. Mend the points beside the checks."
        )
    for check in suite.checks(exercise):
        if not check.says:
            yield f"{exercise.slug}: {check.id} has no docstring. Say what should hold."


def _catalogue(exercise: Exercise) -> Iterator[str]:
    slug = exercise.slug
    mistakes, variants = suite.mistakes(exercise), suite.variants(exercise)
    checks = {check.id for check in suite.checks(exercise)}
    if len(mistakes) < MISTAKES:
        yield f"{slug}: {len(mistakes)} named mistakes; it needs {MISTAKES}. Name more."
    if len(variants) < VARIANTS:
        yield f"{slug}: {len(variants)} right variants; it needs {VARIANTS}. Write more."
    for mistake in mistakes:
        if mistake.caught_by not in checks:
            yield f"{slug}: {mistake.id} names {mistake.caught_by}, which is no check of the suite."
        if not (mistake.says and mistake.mend):
            yield f"{slug}: {mistake.id} needs two paragraphs: what was done, how to mend it."
    things: list[Mistake | Variant] = [*mistakes, *variants]
    for thing in things:
        if thing.of not in exercise.names:
            yield f"{slug}: {thing.id} is of {thing.of}, which the manifest does not declare."
    written: list[Function | Class] = [*exercise.functions.values(), *exercise.classes.values()]
    for declared in written:
        if len(declared.hints) < HINTS:
            yield f"{slug}: {declared.name} has {len(declared.hints)} hints; it needs {HINTS}."


def _slugs() -> tuple[str, ...]:
    return tuple(path.parent.name for path in SUITES.glob("*/exercise.toml"))
