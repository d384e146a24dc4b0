"""Grades the answers of a report again, with the same random inputs, to check a mark on appeal."""

from collections.abc import Iterator
from pathlib import Path

from grader.core import catalog
from grader.core.errors import UserError
from grader.core.records import Exercise, ExerciseReport, Report
from grader.core.scoring import sum_score_points
from grader.grading.session import digest_grading_seed
from grader.submission import answer_file
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import Wall, hide_grader_from_workers


class CannotReplay(UserError):
    """Raised for a report that cannot be reproduced; the message says why, and how to fix it."""


def find_graded_report_secret(report: Report, secret: Path | None) -> str:
    """Return the secret of a report's draws: its own seed, or the secret of a course."""
    if report.seed is not None:
        return report.seed
    if secret is None:
        raise CannotReplay("This report holds no seed: name the file of the secret (--secret).")
    try:
        found = secret.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise CannotReplay(f"{secret} cannot be read.") from None
    if digest_grading_seed(found) != report.seed_id:
        raise CannotReplay(f"{secret} is not the secret that this report was drawn from.")
    return found


def replay_graded_report(
    report: Report, secret: str, place: Path | None, wall: Wall, *, copied: bool = False
) -> Iterator[tuple[str, bool]]:
    """Yield a sentence on each exercise, and whether its verdicts are those of the report.

    place   where the answers lie; if it is None, where the report found them
    copied  whether `place` holds copies: then the file that the report names is told of
    """
    hide_grader_from_workers()
    with Nursery(wall) as nursery:
        from grader.grading.exercise import Run, grade_answer

        run = Run(
            nursery=nursery, student=report.student, secret=secret, own=report.seed is not None,
            device=report.device, speed=False,
        )  # fmt: skip
        for before in report.exercises:
            if not before.sha256 and before.state == "unreadable":  # there was no file to keep
                yield f"{before.slug}: {before.sentence}", True
                continue
            file = (
                Path(before.path)
                if place is None
                else answer_file.locate_submission(place, before.slug)
            )
            after = grade_answer(_find_replayed_exercise(before.slug), file, run)
            shown = before.path if copied else str(file)
            differing = list(_list_replay_differences(before, after, shown))
            yield (
                f"{before.slug}: {'; '.join(differing) or _describe_replay_match(before)}.",
                not differing,
            )


def _find_replayed_exercise(slug: str) -> Exercise:
    try:
        return catalog.find_catalog_exercise(slug)
    except catalog.UnknownExercise as problem:
        raise CannotReplay(f"{problem} {catalog.PACK_HINT}") from None


def _describe_replay_match(before: ExerciseReport) -> str:
    if before.state in ("missing", "not_started"):
        return before.sentence.rstrip(".")
    earned = sum(check.earned for check in before.checks)
    possible = sum(check.points for check in before.checks)
    return f"the same {len(before.checks)} verdicts, {earned} of {possible} points without speed"


def _list_replay_differences(
    before: ExerciseReport, after: ExerciseReport, shown: str
) -> Iterator[str]:
    """Yield what has changed: the file, verdicts, points, and their sentences.

    Which failing case of a check is shown depends on the time that there was to look for a plain
    one: sentences about two cases are not compared.
    """
    if (after.sha256, after.sha256 or after.state) != (
        before.sha256,
        before.sha256 or before.state,
    ):
        known = f"sha256 {before.sha256[:16]}" if before.sha256 else before.state
        kept = "name the folder of that one as `--submission`, or " if before.sha256 else ""
        yield (
            f"{shown} is not the file that was graded ({known}): {kept}grade again, so that the "
            "report is about this one"
        )
        return
    if not before.sha256:  # nothing was run
        return
    if before.score is not None and before.score != sum_score_points(before.checks, before.speed):
        yield "the report's score is not what its checks add up to"
    now = {check.id: check for check in after.checks}
    for was in before.checks:
        check = now.pop(was.id, None)
        if check is None:
            yield f"{was.id} is no check any more"
        elif check.verdict != was.verdict:
            yield f"{was.id} was {was.verdict.value} and is {check.verdict.value}"
        elif check.points != was.points:
            yield f"{was.id} was worth {was.points} and is worth {check.points}: another suite"
        elif check.where == was.where and check.why != was.why:
            yield f"{was.id} says something else"
    yield from (f"{name} is new" for name in now)
