"""Lists what a learner's folder is handed, in one language: skeletons, lessons, commands."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress

from grader.authoring.skeletons import (
    NoSkeleton,
    drop_generated_note,
    make_untouched_skeleton,
)
from grader.core.catalog import ANSWERS_FOLDER, list_catalog_exercises
from grader.core.installed_copies import find_project_file
from grader.core.records import Exercise
from grader.core.this_python import SCRIPT, find_own_command
from grader.core.translation import Words
from grader.practice.folder.handed_readme import write_handed_readme
from grader.submission.answer_file import locate_lesson_of_submission

_GOALS = (  # of the project's Makefile: they need no other file of it, and no solution
    "help", "grade", "bench", "watch", "learn", "hint", "debug", "progress", "show", "interview",
    "reset", "doctor",
)  # fmt: skip
_UPDATE = (
    "update: ## bring new skeletons and lessons; your answers stay\n\t@$(GRADER) update $(ARGS)"
)
_ABOUT_MAKEFILE = (
    "`make` alone lists what can be made. `attention-by-hand update` writes this file anew."
)
_ABOUT_DEBUGGER = (
    "Debugs the exercise in the editor: it stops in your function, in the first failing case. "
    "Breakpoints in the margin count as well."
)
_DEBUG_TASK = "Debug this exercise"
_TASKS = {  # by what VS Code shows
    "Grade this exercise": ["grade", "${fileBasenameNoExtension}"],
    "The next hint": ["hint", "${fileBasenameNoExtension}"],
    "Grade on every save": ["watch"],
}
_HELP = re.compile(r"(?<=## ).*")  # of a goal
_COMMENT = re.compile(r"(?:^ *//.*\n)+", re.MULTILINE)


def list_handed_files(language: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path in a learner's folder and the content of every file that is handed out."""
    for exercise in list_catalog_exercises():
        if not exercise.draft:
            with suppress(NoSkeleton):  # a course's bundle has those that were released
                skeleton = write_handed_skeleton(exercise, language)
                yield f"{ANSWERS_FOLDER}/{exercise.file}", skeleton.encode()
                yield from _list_handed_lesson(exercise, language)
    words, command = Words(language), find_own_command()
    yield "README.md", write_handed_readme(command, words).encode()
    makefile = find_project_file("Makefile").read_text(encoding="utf-8")
    yield "Makefile", write_learner_makefile(makefile, command, words).encode()
    launch = find_project_file(".vscode/launch.json").read_text(encoding="utf-8")
    yield ".vscode/launch.json", _write_launch_json(launch, words).encode()
    yield ".vscode/tasks.json", _write_tasks_json(words).encode()


def write_handed_skeleton(exercise: Exercise, language: str) -> str:
    """Return the skeleton, whose first line names the lesson in the learner's language."""
    first, line, body = make_untouched_skeleton(exercise).partition("\n")
    english, own = (locate_lesson_of_submission(exercise.slug, one) for one in ("en", language))
    return f"{first.replace(english, own)}{line}{body}"


def _list_handed_lesson(exercise: Exercise, language: str) -> Iterator[tuple[str, bytes]]:
    lesson = locate_lesson_of_submission(exercise.slug, language)
    for name in (lesson, lesson.removesuffix(".md") + ".svg"):
        path = find_project_file(name, exercise.home)
        if path.is_file():
            yield name, drop_generated_note(path.read_text(encoding="utf-8")).encode()


def write_learner_makefile(text: str, command: str, words: Words) -> str:
    """Return a Makefile whose goals call `command`, made from the text of the project's own."""
    rules = {rule.partition(":")[0]: rule for rule in text.split("\n\n")}
    kept = [re.sub(r"^([a-z-]+):.*? ##", r"\1: ##", rules[goal]) for goal in _GOALS]
    settings = re.findall(r"^([A-Z]+) (\?= ?\w*)$", text, re.MULTILINE)
    [options] = re.findall(r"^GRADER := \$\(PY\) -m grader(.*)$", text, re.MULTILINE)
    goals = [_HELP.sub(lambda line: words.said(line[0]), goal) for goal in (*kept, _UPDATE)]
    return "\n\n".join([
        f"# {words.said(_ABOUT_MAKEFILE)}",
        "\n".join(f"{n} {value}" for n, value in settings if f"({n})" in f"{options}{kept}"),
        *re.findall(r"^quoted = .*$", text, re.MULTILINE),
        f"GRADER := $(or $(shell command -v {SCRIPT} 2>/dev/null),{command}){options}",
        f".DEFAULT_GOAL := help\n.PHONY: {' '.join(_GOALS)} update",
        *goals,
    ]) + "\n"  # fmt: skip


def _write_launch_json(text: str, words: Words) -> str:
    """Return the debugger's settings of the project, with this Python."""
    told = _COMMENT.sub(f"  // {words(_ABOUT_DEBUGGER)}\n", text, count=1)
    named = told.replace(_DEBUG_TASK, words(_DEBUG_TASK))
    return named.replace('"${workspaceFolder}/.venv/bin/python"', json.dumps(sys.executable))


def _write_tasks_json(words: Words) -> str:
    tasks = [
        {
            "label": words(label),
            "type": "process",
            "command": sys.executable,
            "args": ["-m", "grader", *arguments],
            "presentation": {"panel": "shared", "clear": True},
            "problemMatcher": [],
        }
        for label, arguments in _TASKS.items()
    ]
    content = {"version": "2.0.0", "tasks": tasks}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
