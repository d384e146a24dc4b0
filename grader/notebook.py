"""For notebooks: `check("ex01_softmax", "softmax")` grades one task of the notebook it stands in.

    from grader.notebook import check

    check("ex01_softmax", "softmax")            # the checks of a function or a class
    check("ex01_softmax", "softmax", lang="zh")
    check("ex03_sdpa", "speed")                 # "speed" and "cuda" stand beside the tasks

It grades the notebook's file as it was saved, in processes of its own, as `make grade` does: what
the kernel has run or remembers has no part in it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.core import catalog
from grader.core.grade_ids import CUDA, SPEED
from grader.core.records import Exercise
from grader.core.toml_file import BadFile
from grader.core.translation import Words, choose_translation_language
from grader.practice import show
from grader.submission import notebook_cells

__all__ = ["Shown", "check", "show"]

_STALE = "This notebook has changed since it was saved: save it, then run this cell again."
_FAULT = "The grader itself failed. Please report it."
_FROM_KERNEL = (
    "The notebook's file was not found: what was graded are the cells that this kernel has run."
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a notebook shows: a piece of a page, or text where there is no page."""

    text: str
    html: str = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return self.html or None


def check(slug: str, task: str, *, lang: str = "", shows: str = "open") -> Shown:
    """The verdicts on one task of an exercise.

    slug  the exercise, such as "ex01_softmax"
    task  a function or class of it, or "cuda" or "speed"
    lang  "en" or "zh"; by default that of the environment
    shows how much of a verdict: "open", "hints", "verdicts" or "nothing"
    """
    words = Words(lang or choose_translation_language())
    try:
        exercise = catalog.find_catalog_exercise(slug)
    except (catalog.UnknownExercise, BadFile) as problem:
        return Shown(words.said(str(problem)))
    tasks = (*exercise.names, CUDA, SPEED)
    if task not in tasks:
        close = catalog.suggest_close_name(task, tasks)
        return Shown(words.said(f"{slug} has no task {task!r}.{close}"))
    run = _executed()
    file = _file(slug)
    if file is not None:
        return Shown(words(_STALE)) if _stale(file, run, exercise) else _graded(
            file, exercise, task, words, shows
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{slug}.ipynb"
        file.write_bytes(_notebook(run))
        shown = _graded(file, exercise, task, words, shows)
    return Shown(f"{words(_FROM_KERNEL)}\n{shown.text}", shown.html)


def _file(slug: str) -> Path | None:
    """The notebook's file: as Jupyter or VS Code names it, or by its usual name."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    of_editor = shell.user_ns.get("__vsc_ipynb_file__", "") if shell else ""
    named = (os.environ.get("JPY_SESSION_NAME", ""), str(of_editor), f"{slug}.ipynb")
    found = (Path(name) for name in named if name.endswith(".ipynb"))
    return next((path.absolute() for path in found if path.is_file()), None)


def _executed() -> list[str]:
    """The cells that this kernel has run, in their order."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return list(shell.history_manager.input_hist_raw) if shell else []


def _notebook(sources: Sequence[str]) -> bytes:
    made = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"cells": made}).encode()


def _stale(file: Path, run: Sequence[str], exercise: Exercise) -> bool:
    """Whether the last version of something that was run is not in the file."""
    names = catalog.list_catalog_names(exercise)
    try:
        saved = notebook_cells.list_submitted_definitions(file.read_bytes(), names)
        last = notebook_cells.list_submitted_definitions(_notebook(run), names)
    except (OSError, notebook_cells.BadNotebook):
        return False  # grading says what is wrong with the file
    return any(texts[-1] not in saved.get(name, ()) for name, texts in last.items())


def _graded(file: Path, exercise: Exercise, task: str, words: Words, shows: str) -> Shown:
    arguments = [exercise.slug, task, words.language, str(file), shows]
    command = [sys.executable, "-m", "grader.notebook", *arguments]
    environment = os.environ | {"PYTHONPATH": str(catalog.ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=catalog.ROOT, check=False
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        why = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        return Shown(f"{words(_FAULT)} ({why[0]})")
    return Shown(found["text"], found["html"])


def _main(slug: str, task: str, language: str, file: str, shows: str) -> None:
    """Grade, in a process that knows nothing of the kernel, and print what is to be shown."""
    from grader.grading.session import grade_all_exercises
    from grader.judging.tasks import group_checks_by_task
    from grader.reporting import task_report as reporting
    from grader.reporting.redact import redact_exercise_report
    from grader.worker.parent import walls

    exercise, words = catalog.find_catalog_exercise(slug), Words(language)
    wall = walls.choose_wall("auto", on_cuda=False)
    report = grade_all_exercises([exercise], Path(file), wall=wall, speed=task == SPEED)
    checks = group_checks_by_task(exercise).get(task, ())
    timed = task == SPEED
    [graded] = report.exercises
    worth = graded.speed.points if timed and graded.speed else sum(c.points for c in checks)
    shown_of = redact_exercise_report(graded, shows)
    told = reporting.select_task_report(shown_of, [c.id for c in checks], worth, timed)
    shown = {
        "text": reporting.render_task_text(told, words),
        "html": reporting.render_task_html(told, words),
    }
    print(json.dumps(shown))


def _accept_cuda() -> None:
    """Let a cell begin with `%%cuda`: it is an answer to be graded, and nothing runs it here."""
    from IPython.core.getipython import get_ipython

    if (shell := get_ipython()) is not None:
        shell.register_magic_function(lambda line, cell: None, "cell", "cuda")


if __name__ == "__main__":
    _main(*sys.argv[1:])
elif "IPython" in sys.modules:
    _accept_cuda()
