"""Checks the laws of the project; each breach is a sentence with its cure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grader.authoring import (
    allowed_page,
    architecture_page,
    chinese_rules,
    exercise_index,
    exercise_rules,
    import_rules,
    suite_rules,
)
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.toml_file import BadFile
from grader.judging.marks import read_check_sentence
from grader.worker.parent import requirements

MOST_LINES = 300  # of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState:
    """The sentences that a check of all laws found."""

    breaches: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()  # of unfinished exercises: no breach
    notes: tuple[str, ...] = ()  # on missing Chinese sentences: no breach
    unchecked: tuple[str, ...] = ()  # suites that cannot be imported here, and the missing package


def check_project_laws() -> ProjectState:
    """Check all laws; return the breaches, the drafts' open ends, the notes and the unchecked."""
    if unreadable := tuple(check_manifests_law()):
        return ProjectState(breaches=unreadable)
    breaches, drafts, notes, unchecked = [], [], [], []
    for exercise in catalog.list_catalog_exercises():
        lacking = requirements.find_unmet_worker_requirement(
            requirements.list_worker_requirements(exercise, on_cuda=False)
        )
        found = exercise_rules.list_broken_exercise_laws(exercise, with_suite=not lacking)
        if lacking:
            unchecked.append(f"{exercise.slug}: its suite is not checked. It {lacking}")
        if exercise.draft:
            drafts += [f"draft {exercise.slug}: {line}" for line in found]
        else:
            breaches += [f"{exercise.slug}: {line}" for line in found]
        if not (found or lacking):
            notes += [
                f"note {exercise.slug}: {line}"
                for line in chinese_rules.list_untranslated_exercise_texts(exercise)
            ]
    breaches += [line for law in PROJECT_LAWS for line in law()]
    return ProjectState(
        breaches=tuple(breaches), drafts=tuple(drafts), notes=tuple(notes),
        unchecked=tuple(unchecked),
    )  # fmt: skip


def list_broken_project_laws() -> list[str]:
    """Check all laws; return the breaches alone."""
    return list(check_project_laws().breaches)


def state_project_laws() -> list[str]:
    """Return every law in a sentence or two."""
    return [read_check_sentence(law) for law in (*exercise_rules.EXERCISE_LAWS, *PROJECT_LAWS)]


def check_manifests_law() -> Iterator[str]:
    """Every exercise.toml can be read: its entries are known, there, and of the right kind."""
    try:
        catalog.list_catalog_exercises()
    except BadFile as problem:
        yield str(problem)


def check_core_track_law() -> Iterator[str]:
    """The core track has the exercises of the syllabus."""
    for slug in sorted(
        suite_rules.SYLLABUS_POINTS.keys() - {e.slug for e in catalog.list_catalog_exercises()}
    ):
        yield f"{slug}: the core track has no such exercise. Write it, or mend POINTS."


def check_pages_law() -> Iterator[str]:
    """docs/exercises.md and docs/allowed.md say what the manifests and the list say."""
    for page in (exercise_index, allowed_page, architecture_page):
        path = ROOT / page.PATH
        if not path.is_file() or path.read_bytes() != page.render_generated_page().encode():
            yield f"{page.PATH} is not what the manifests say. Run `make skeletons`."


def check_goals_law() -> Iterator[str]:
    """Every goal of the Makefile says in a sentence what it makes."""
    makefile = ROOT / "Makefile"
    text = makefile.read_text(encoding="utf-8") if makefile.is_file() else ""
    for name in re.findall(r"[\w-]+", "".join(re.findall(r"^\.PHONY:(.*)", text, re.MULTILINE))):
        if not re.search(rf"^{name}:.*# \w", text, re.MULTILINE):
            yield f"make {name} has no sentence. Write `## what it makes` behind the goal."


def check_imports_law() -> Iterator[str]:
    """Imports go one way: the grader imports no suite, solution or reference; the reference
    imports no package but numpy and torch; the worker's child imports no other code of ours."""
    yield from import_rules.list_broken_import_laws(ROOT)


def check_file_lengths_law() -> Iterator[str]:
    """No file of the grader, suites apart, or of the reference is longer than 300 lines."""
    for folder in ("grader", "reference"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "suites" in path.parts:
                continue
            if (lines := len(path.read_bytes().splitlines())) > MOST_LINES:
                place = path.relative_to(ROOT)
                yield f"{place} has {lines} lines, more than {MOST_LINES}. Cut it in two."


PROJECT_LAWS: tuple[Callable[[], Iterator[str]], ...] = (
    check_manifests_law, check_core_track_law, check_pages_law, check_goals_law,
    check_imports_law, check_file_lengths_law,
)  # fmt: skip
