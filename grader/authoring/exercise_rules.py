"""The laws of an exercise: a law's docstring states the law, and a law yields its breaches."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grader.authoring import chinese_rules, proof_rules, skeletons, suite_rules
from grader.authoring.new_exercise import list_new_exercise_todos
from grader.core import catalog
from grader.core.records import DeclaredClass, DeclaredFunction, Exercise
from grader.core.toml_file import BadFile
from grader.core.translation import LANGUAGES
from grader.cuda import declarations as cuda_outline
from grader.judging import suite_runner
from grader.submission import answer_file, python_outline, solution_text

MIN_HINTS = 2
LEARNED_SENTENCES = 3

Law = Callable[[Exercise], Iterator[str]]


def list_broken_exercise_laws(exercise: Exercise, *, with_suite: bool = True) -> list[str]:
    """Return the breaches in one exercise; if files cannot be read, only the breaches about that.

    with_suite  whether the modules of the suite can be imported here
    """
    found: list[str] = []
    for law in EXERCISE_LAWS if with_suite else FILE_LAWS:
        found += law(exercise)
        if found and law in FIRST_LAWS:
            break
    return list(dict.fromkeys(found))


def check_files_law(exercise: Exercise) -> Iterator[str]:
    """An exercise is one solution, the reference that its checks compare with, and a suite with one
    test_*.py, one variants.py and one mistakes.py, or a folder mistakes/ in its place."""
    if not exercise.solution.is_file():
        yield f"solutions/{exercise.file} is missing. Write it; it is the one source."
    if _does_law_need_reference(exercise) and not _find_reference_for_law(exercise).is_file():
        yield f"reference/{exercise.slug}.py is missing. Write the oracle and the yardstick."
    for pattern in ("test_*.py", "variants.py"):
        if len(list(exercise.folder.glob(pattern))) != 1:
            yield f"its suite needs one {pattern}. Write it, or make it one file."
    catalogues = ("mistakes.py", "mistakes/__init__.py")
    if sum((exercise.folder / name).is_file() for name in catalogues) != 1:
        yield "its suite needs either mistakes.py or a folder mistakes/ with an __init__.py."
    if len(list(exercise.folder.glob("bench_*.py"))) > 1:
        yield "its suite has several bench_*.py. Make it one file."
    if exercise.home != catalog.ROOT:
        yield from _find_unreleased_references(exercise)


def _find_unreleased_references(exercise: Exercise) -> Iterator[str]:
    """Yield a breach for each file in a pack's reference/ that a release would leave out."""
    slugs = tuple(e.slug for e in catalog.list_catalog_exercises() if e.home == exercise.home)
    for path in sorted((exercise.home / "reference").glob("*.py")):
        if not path.name.startswith((*slugs, "__init__")):
            yield (
                f"reference/{path.name} belongs to no exercise, and a release leaves it out. Begin"
                " its name with that of its exercise."
            )


def check_sources_law(exercise: Exercise) -> Iterator[str]:
    """Every source is UTF-8, and Python where it is called so; no name is defined twice in it."""
    paths = [exercise.solution, _find_reference_for_law(exercise)]
    for path in [*paths, *sorted(exercise.folder.rglob("*.py"))]:
        name = path.relative_to(exercise.home)
        try:
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            if path.suffix == ".py":
                yield from _find_names_defined_twice(name, python_outline.parse_submission(text))
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror}. Give yourself the right to."
        except UnicodeDecodeError:
            yield f"{name} is not UTF-8 text. Save it as UTF-8."
        except python_outline.NotPython as problem:
            yield f"{name} is not Python. Mend it: {problem}"


def _find_names_defined_twice(path: Path, tree: ast.Module) -> Iterator[str]:
    seen: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name in seen:
                yield (
                    f"{path} defines {node.name} again in line {node.lineno}, and the first is"
                    " lost. Rename one."
                )
            seen.add(node.name)


def check_modules_law(exercise: Exercise) -> Iterator[str]:
    """The modules of a suite can be imported."""
    for name, read in _MODULE_READERS.items():
        try:
            read(exercise)
        except (Exception, SystemExit) as error:  # an author's code may raise anything
            cause = error.__cause__ or error
            yield f"{name} cannot be imported ({type(cause).__name__}: {cause}). Mend it."
            return


_MODULE_READERS: dict[str, Callable[[Exercise], Any]] = {
    "test_*.py": suite_runner.list_suite_checks,
    "mistakes": suite_runner.list_suite_mistakes,
    "variants.py": suite_runner.list_suite_variants,
    "bench_*.py": suite_runner.find_suite_speed_case,
}


def check_signatures_law(exercise: Exercise) -> Iterator[str]:
    """The manifest declares what is asked for, and the solution has all of it, as declared."""
    text = _read_solution_for_law(exercise)
    if not exercise.names:
        yield "its manifest declares nothing. Add [[functions]] to exercise.toml."
    elif exercise.language == "cuda":
        bare = [f.name for f in exercise.functions.values() if "(" not in f.declaration]
        if bare:
            yield f"{bare[0]} has no declaration in C. Add it to exercise.toml."
            return
        wrong = cuda_outline.compare_cuda_with_manifest(text, exercise)
        yield from (f"the solution does not fit the manifest. {p}" for p in wrong.values())
    else:
        wrong = python_outline.compare_submission_with_manifest(
            python_outline.parse_submission(text), exercise
        )
        yield from (f"the solution does not fit the manifest. {p}" for p in wrong.values())


def check_regions_law(exercise: Exercise) -> Iterator[str]:
    """The solution marks what a student has to write, so that a skeleton is made without it."""
    text = _read_solution_for_law(exercise)
    try:
        skeletons.make_skeleton(exercise, text)
    except solution_text.BadSource as problem:
        yield str(problem)
    if not solution_text.has_solution_region(text):
        yield f"solutions/{exercise.file} marks no answer. Put it between BEGIN and END SOLUTION."


def check_prose_law(exercise: Exercise) -> Iterator[str]:
    """The lesson is told in prose, in English at least; where the Chinese is missing is a note."""
    if "en" not in [
        cell.language for cell in solution_text.split_cells(_read_solution_for_law(exercise))
    ]:
        yield f"solutions/{exercise.file} has no prose. Write a `# %% [markdown]` cell."


def check_in_step_law(exercise: Exercise) -> Iterator[str]:
    """The skeleton and both lessons are those that `make skeletons` makes from the solution."""
    text, home = _read_solution_for_law(exercise), exercise.home
    answer = home / "exercises" / exercise.file
    try:
        wanted = {answer: skeletons.make_skeleton(exercise, text)} | {
            home
            / answer_file.locate_lesson_of_submission(exercise.slug, lang): skeletons.make_lesson(
                exercise, text, lang
            )
            for lang in LANGUAGES
        }
    except solution_text.BadSource:
        return  # the law of regions says so
    for path, made in wanted.items():
        name = path.relative_to(home)
        if not path.is_file():
            yield f"{name} is missing. Run `make skeletons`."
        else:
            theirs = path == answer and not answer_file.is_submission_file_untouched(path)
            if not theirs and path.read_bytes() != made.encode():
                yield f"{name} is out of step. Run `make skeletons`."


def check_hints_law(exercise: Exercise) -> Iterator[str]:
    """Everything that a student writes has at least two hints, each telling more."""
    written: list[DeclaredFunction | DeclaredClass] = [
        *exercise.functions.values(),
        *exercise.classes.values(),
    ]
    for declared in written:
        if len(declared.hints) < MIN_HINTS:
            have = suite_rules.count_law_things(len(declared.hints), "hint")
            yield f"{declared.name} has {have}; it needs {MIN_HINTS}. Write more of them."


def check_learned_law(exercise: Exercise) -> Iterator[str]:
    """Three sentences say what a student knows who has passed."""
    if len(exercise.learned) != LEARNED_SENTENCES:
        have = suite_rules.count_law_things(len(exercise.learned), "sentence")
        yield f"learned has {have}; it needs {LEARNED_SENTENCES}. Write so many."


def check_translations_law(exercise: Exercise) -> Iterator[str]:
    """zh.toml, if it is there, has nothing that the suite has not. What it lacks is a note."""
    try:
        yield from chinese_rules.check_needless_translations_law(exercise)
    except BadFile as problem:
        yield str(problem)


def _does_law_need_reference(exercise: Exercise) -> bool:
    """Return whether the checks compare with reference values; a bug hunt uses another suite."""
    tests = exercise.folder.glob("test_*.py")
    return any("reference" in path.read_text("utf-8", errors="replace") for path in tests)


def _find_reference_for_law(exercise: Exercise) -> Path:
    return exercise.home / "reference" / f"{exercise.slug}.py"


def _read_solution_for_law(exercise: Exercise) -> str:
    return exercise.solution.read_text(encoding="utf-8")


FIRST_LAWS: tuple[Law, ...] = (
    check_files_law,
    check_sources_law,
    check_modules_law,
)  # the others read these files
FILE_LAWS: tuple[Law, ...] = (  # these import no module of the suite
    check_files_law, check_sources_law, check_signatures_law, check_regions_law, check_prose_law,
    check_in_step_law, check_hints_law, check_learned_law, list_new_exercise_todos,
)  # fmt: skip
EXERCISE_LAWS: tuple[Law, ...] = (
    *FIRST_LAWS, check_signatures_law, check_regions_law, check_prose_law, check_in_step_law,
    check_hints_law, check_learned_law, check_translations_law, *suite_rules.SUITE_LAWS,
    proof_rules.check_caught_law, list_new_exercise_todos,
)  # fmt: skip
