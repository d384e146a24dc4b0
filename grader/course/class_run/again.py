"""A class graded again: one mark for an appeal, or all of them to see whose would change."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from grader import catalog
from grader.course import differences
from grader.course.class_run import adjust, collect
from grader.course.class_run.adjust import Adjustments
from grader.course.class_run.files import printable
from grader.course.class_run.folder import RUN, last_run, opened
from grader.course.class_run.grading import Asked, class_run, left_behind, sentences
from grader.course.class_run.lanes import Stopped
from grader.course.class_run.progress import Progress
from grader.course.class_run.writing import STUDENTS, Written
from grader.course.differences import Change
from grader.course.official import SECRET
from grader.languages import Words
from grader.records import Report
from grader.reporting import as_json
from grader.reporting.from_json import NoReport, from_json


def is_results(folder: Path) -> bool:
    """Whether this is the folder of results of a class."""
    return (folder / RUN).is_file()


def secret_beside(report: Path) -> Path | None:
    """The secret that a report of a class run was drawn from; None for another report."""
    results = _results_of(report)
    return results / SECRET if is_results(results) else None


def _results_of(report: Path) -> Path:
    return report.resolve().parent.parent.parent


@contextmanager
def answers_to(report: Path) -> Iterator[Path | None]:
    """A folder with the answers that a report of a class run is about; None for another report.

    Raises `Stopped` if they are not where they were.
    """
    results = _results_of(report)
    if not is_results(results):
        yield None
        return
    with sentences():
        last = last_run(results)
        entries, _ = collect.entries(Path(last.submissions))
    exercises = [catalog.find(slug) for slug in last.exercises]
    name = report.resolve().parent.name
    with TemporaryDirectory(prefix="grader-") as folder:
        for entry in entries:
            if collect.folder_of(entry) != name:
                continue
            for answer in collect.handed_in(entry, exercises).answers:
                if answer.state == "graded":
                    (Path(folder) / answer.name).write_bytes(answer.content)
        yield Path(folder)


def changes(asked: Asked, progress: Progress) -> Iterator[Change]:
    """Whose marks another grading would change. What it finds is kept, but not written.

    A later class run takes what was found here: nothing is graded twice.
    """
    with opened(asked.results), sentences():
        entries, _ = collect.entries(asked.submissions)
        with class_run(asked, entries) as run:
            run.judge(progress)
            if asked.speed:
                run.time(progress)
        names = [row.student for row in run.rows]
        adjusted, _ = adjust.read(asked.results, names, asked.exercises)
        written = Written(
            folder=asked.results, words=asked.words, speed=asked.speed, adjustments=adjusted
        )
        for path in left_behind(asked.results, run):
            why = ("nobody of that name is in the class now",)
            yield Change(student=printable(path.name), slug="", before=None, after=None, why=why)
        for row, report in written.reports(run):
            before = _before(asked.results / STUDENTS / row.folder / "report.json")
            yield from _of_student(before, report, adjusted)


def as_before(results: Path, jobs: int, words: Words) -> Asked:
    """What the last run into this folder was asked for."""
    with sentences():
        last = last_run(results)
    return Asked(
        submissions=Path(last.submissions), results=results,
        exercises=[catalog.find(slug) for slug in last.exercises], device=last.device,
        wall=last.wall, speed=last.speed, jobs=jobs, cluster=None, words=words,
    )  # fmt: skip


def _before(path: Path) -> Report | None:
    """The report that was written; None if there is none."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, NoReport):
        raise Stopped(f"{path} cannot be read: grade the class again.") from None


def _of_student(before: Report | None, after: Report, adjusted: Adjustments) -> Iterator[Change]:
    old = {} if before is None else {e.slug: as_json.of_exercise(e) for e in before.exercises}
    for exercise in after.exercises:
        found = as_json.of_exercise(exercise)
        change = differences.change(after.student, old.get(exercise.slug), found)
        if change is not None:
            by_hand = adjusted.get(after.student, {}).get(exercise.slug)
            yield replace(change, by_hand=by_hand.points if by_hand else 0)
