"""The laws of a suite's checks and catalogues; `exercise_rules` has the others, and lists them all.

A law is a function that yields a sentence for each breach. Its docstring states the law, as
`make house ARGS=--laws` prints it.
"""

import importlib
import importlib.util
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from grader.authoring.hard_cases import check_hard_kinds_law
from grader.core.questions import read_questions_toml as asked
from grader.core.records import Exercise
from grader.core.toml_file import BadFile
from grader.judging import drills as hunts
from grader.judging import suite_runner
from grader.judging.marks import CannotEdit, Mistake, Variant, edited

LEAST_MISTAKES, LEAST_VARIANTS, LEAST_DRILLS, LEAST_QUESTIONS = 10, 5, 5, 3
# The core track's points: correctness and speed, as the syllabus has them.
SYLLABUS_POINTS = {
    "ex01_softmax": (10, 0),
    "ex02_masking": (12, 0),
    "ex03_sdpa": (13, 3),
    "ex04_heads": (12, 0),
    "ex05_causal_mask": (8, 2),
    "ex06_kv_cache": (11, 3),
    "ex07_mqa_gqa": (10, 2),
    "ex08_cuda_sdpa": (10, 4),
}


def check_checks_law(exercise: Exercise) -> Iterator[str]:
    """Every test of a suite is a check, has points, and says in its docstring what should hold;
    every hint for a check names a check that exists."""
    found = suite_runner.list_suite_checks(exercise)
    for name in suite_runner.list_suite_tests(exercise) - {check.id for check in found}:
        yield f"{name} is no check, and never asked. Put @check(points=...) above it."
    for check in found:
        if check.points < 1:
            yield f"{check.id} has {check.points} points. Give it one at least."
        if not check.says:
            yield f"{check.id} has no docstring. Say what should hold."
    for name in exercise.hints.keys() - {check.id for check in found}:
        yield f"hints names {name}, which is no check of the suite. Name a check."


def check_totals_law(exercise: Exercise) -> Iterator[str]:
    """The checks of an exercise in the core track have the points of the syllabus."""
    points = sum(check.points for check in suite_runner.list_suite_checks(exercise))
    wanted, _ = SYLLABUS_POINTS.get(exercise.slug, (points, 0))
    if points != wanted:
        yield (
            f"its checks give {points} points, but the syllabus has {wanted}. Mend the points"
            " beside the checks."
        )


def check_speed_law(exercise: Exercise) -> Iterator[str]:
    """Speed that is promised is timed: a bench has points, and two parties between which an
    answer is graded; in the core track, a bench has the points of the syllabus."""
    case, parties = suite_runner.find_suite_speed_case(exercise), exercise.folder / "parties"
    points = case.points if case else 0
    _, wanted = SYLLABUS_POINTS.get(exercise.slug, (0, points))
    if points != wanted:
        yield f"speed has {points} points, but the syllabus has {wanted}. Mend @speed(points=...)."
    elif case and points < 1:
        yield "its bench has no points. Give it some in @speed(points=...), or remove it."
    if case and not case.says:
        yield "its bench has no docstring. Say what earns its points."
    for party in ("zero", "reference"):
        if case and len(list(parties.glob(f"{party}.*"))) != 1:
            yield f"its bench needs one parties/{party}.py. Write it, or make it one file."
    if case is None and parties.is_dir():
        yield "there are parties/ but no bench_*.py. Write it, or remove them."


def check_mistakes_law(exercise: Exercise) -> Iterator[str]:
    """A suite has at least ten named mistakes: each says what was done and how to mend it, and
    names the check that catches it."""
    found = suite_runner.list_suite_mistakes(exercise)
    known = {check.id for check in suite_runner.list_suite_checks(exercise)}
    if len(found) < LEAST_MISTAKES:
        have = count_law_things(len(found), "named mistake")
        yield f"{have}; it needs {LEAST_MISTAKES}. Name more."
    for mistake_id, times in Counter(m.id for m in found).items():
        if times > 1:
            yield f"{mistake_id} is the name of {times} mistakes. Rename all but one."
    for mistake in found:
        if mistake.caught_by not in known:
            yield (
                f"{mistake.id} names {mistake.caught_by}, which is no check of the suite. Name"
                " the check that catches it."
            )
        if not (mistake.says and mistake.mend):
            yield (
                f"{mistake.id} needs two paragraphs: what was done, how to mend it. Write them in"
                " its docstring."
            )
    yield from _find_answers_against_law(exercise, found)


def check_variants_law(exercise: Exercise) -> Iterator[str]:
    """At least five right answers written otherwise."""
    found = suite_runner.list_suite_variants(exercise)
    if len(found) < LEAST_VARIANTS:
        have = count_law_things(len(found), "right variant")
        yield f"{have}; it needs {LEAST_VARIANTS}. Write more."
    yield from _find_answers_against_law(exercise, found)


def check_trials_law(exercise: Exercise) -> Iterator[str]:
    """Every name of an exercise in Python is called by a trial, which tells two answers apart."""
    if exercise.language != "python" or exercise.hunts:
        return
    if not (exercise.folder / "trials.py").is_file():
        yield "its suite needs one trials.py. Write how each name is called on random inputs."
        return
    called = {name for trial in suite_runner.list_suite_trials(exercise) for name in trial.of}
    for name in exercise.names:
        if name not in called:
            yield f"no trial calls {name}. Write one in trials.py."
    for name in called - set(exercise.names):
        yield f"trials.py calls {name}, which the manifest does not declare. Mend `of`."


def _find_answers_against_law(
    exercise: Exercise, found: Sequence[Mistake | Variant]
) -> Iterator[str]:
    """Yield a breach for each answer of an undeclared name or with edits that do not fit."""
    text = exercise.solution.read_text(encoding="utf-8")
    for thing in found:
        if thing.of not in exercise.names:
            yield f"{thing.id} is of {thing.of}, which the manifest does not declare. Mend `of`."
        try:
            edited(text, thing.edits)
        except CannotEdit as problem:
            yield f"{thing.id} does not fit the solution: {problem}. Mend its edits."


def check_allowed_law(exercise: Exercise) -> Iterator[str]:
    """What is not allowed is stated by names that exist, and what to do instead is said."""
    for name in (*exercise.not_allowed, *exercise.only):
        if not _is_name_in_law(name):
            yield f"[not_allowed] in exercise.toml has {name}, which does not exist. Mend the name."
    if not exercise.cure:
        yield "it does not say what to write with. Add `cure` to [not_allowed] in exercise.toml."


@cache
def _is_name_in_law(name: str) -> bool:
    """Return whether an object has this dotted name; True if its package is not installed."""
    first, *rest = name.removesuffix(".*").split(".")
    if importlib.util.find_spec(first) is None:
        return True
    thing, path = importlib.import_module(first), first
    for part in rest:
        path = f"{path}.{part}"
        if not hasattr(thing, part) and not _is_module_in_law(path):
            made = getattr(getattr(thing, "__init__", None), "__code__", None)
            return made is not None and part in made.co_names  # the constructor sets it
        thing = getattr(thing, part)
    return True


def _is_module_in_law(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def check_drills_law(exercise: Exercise) -> Iterator[str]:
    """An exercise has no bug hunts or at least five: each is a mistake of the catalogue that can
    be told from the others, written as edits that fit the solution."""
    try:
        found = hunts.read_judging_drills(exercise)
    except hunts.BadDrills as problem:
        yield f"{problem}."
        return
    known = {m.id: m for m in suite_runner.list_suite_mistakes(exercise)}
    count = len({d.mistake for d in found})
    if found and count < LEAST_DRILLS:
        yield f"{count_law_things(count, 'drill')}; it needs {LEAST_DRILLS} or none. Write more."
    for drill in found:
        named, where = known.get(drill.mistake), f"drills.toml, {drill.mistake}"
        if named is None or named.null or drill.mistake in drill.alike:
            yield f"{where}: it is no mistake that can be offered. Name another of the suite's."
        for other in set(drill.alike) - known.keys():
            yield f"{where}: it is alike {other}, which is no mistake. Name one of the suite's."
        try:
            edited(exercise.solution.read_text(encoding="utf-8"), drill.edits)
        except CannotEdit as problem:
            yield f"{where} does not fit the solution: {problem}. Mend its edits."


def check_questions_law(exercise: Exercise) -> Iterator[str]:
    """At least three questions for an interview, each with a model answer."""
    try:
        count = len(asked(exercise))
    except BadFile as problem:
        yield str(problem)
        return
    if count < LEAST_QUESTIONS:
        have = count_law_things(count, "question")
        yield f"questions.toml has {have}; it needs {LEAST_QUESTIONS}. Write more."


def count_law_things(count: int, thing: str) -> str:
    """Return `1 drill`, or `2 drills`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


SUITE_LAWS = (
    check_checks_law, check_totals_law, check_speed_law, check_mistakes_law, check_variants_law,
    check_hard_kinds_law, check_trials_law, check_allowed_law, check_drills_law,
    check_questions_law,
)  # fmt: skip
