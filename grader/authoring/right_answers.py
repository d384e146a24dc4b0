"""Grades the solution, its variants, the skeleton and the drills as a student's answer."""

import tempfile
from pathlib import Path

import torch

from grader.authoring import mutants
from grader.authoring.skeletons import make_skeleton
from grader.authoring.touched_checks import Calls, list_touched_checks
from grader.core.records import Exercise, ExerciseReport, Verdict
from grader.grading.exercise import Run, grade_answer
from grader.judging import Draw, passes
from grader.judging.case import StudentFault
from grader.judging.drills import Drill
from grader.judging.judge import NEEDS_CUDA
from grader.judging.student import Student
from grader.submission import admission
from grader.worker.parent.in_process import call_without_wall, load_file_without_wall
from grader.worker.parent.nursery import Nursery

COMMENT_SIGNS = {".py": "#", ".cu": "//"}
# (variant, check) pairs that cannot be run; they cost no points. A kernel whose threads walk over
# the whole grid has no block that could be run alone.
CHECKS_NOT_RUN = {("naive_grid_stride_in_double", "test_far_places")}


def grade_text_for_proof(
    exercise: Exercise, source: str, nursery: Nursery, secret: str
) -> ExerciseReport:
    """Grade a text as the answer to an exercise, without its speed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(source, encoding="utf-8")
        run = Run(nursery=nursery, student="proof", secret=secret, speed=False)
        return grade_answer(exercise, path, run)


def list_lost_proof_points(report: ExerciseReport, name: str = "") -> list[str]:
    """Return a sentence for each check whose points an answer did not earn; [] if it earned all."""
    if report.sentence or report.score is None:
        return [report.sentence or "a grader fault"]
    if report.score.possible == 0:
        return ["nothing could be run"]
    return [
        f"{c.id}: {c.why}"
        for c in report.checks
        if c.earned < c.points and c.why != NEEDS_CUDA and (name, c.id) not in CHECKS_NOT_RUN
    ]


def list_lost_points_unwalled(exercise: Exercise, source: str, calls: Calls) -> list[str]:
    """Return what a Python variant loses, as sentences; run it in this process, at half the cost.

    calls   what each check calls: checks that call nothing that differs from the solution are
            left out; if `calls` is empty, all checks run
    """
    only = list_touched_checks(exercise.solution.read_text(encoding="utf-8"), source, calls)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(source, encoding="utf-8")
        try:
            admitted = admission.admit_submission(
                admission.read_begun_submission(path, exercise), exercise
            )
        except admission.NotGraded as problem:
            return [str(problem)]
        if admitted.problems:
            return list(admitted.problems.values())
        checks = mutants.run_suite_on_mutant(
            exercise, load_file_without_wall(path, exercise.slug, exercise.prelude), only
        )
    return [
        f"{c.id}: {c.why}"
        for c in checks
        if c.verdict is not Verdict.PASSED and c.why != NEEDS_CUDA
    ]


def list_skeleton_proof_problems(exercise: Exercise, nursery: Nursery) -> list[str]:
    """Grade a skeleton with one more line; return each result that a skeleton should not get."""
    text = make_skeleton(exercise, exercise.solution.read_text(encoding="utf-8"))
    report = grade_text_for_proof(
        exercise, f"{text}\n{COMMENT_SIGNS[exercise.suffix]} mine\n", nursery, "proof"
    )
    found = [f"{c.id} is a fault" for c in report.checks if c.verdict is Verdict.GRADER_FAULT]
    if report.state != "graded" or report.score is None:
        return [*found, f"it is {report.state}: {report.sentence}"]
    if report.score.earned:
        found.append(f"it earns {report.score.earned} points")
    if not any("is not written yet" in c.why for c in report.checks):
        found.append("nobody tells that it is not written yet")
    return found


def find_drill_proof_failure(exercise: Exercise, drill: Drill) -> str:
    """Return the first failure of a drill's answer; "" if all checks pass."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(drill.applied(exercise.solution.read_text("utf-8")), encoding="utf-8")
        module = load_file_without_wall(path, exercise.slug, exercise.prelude)
        student = Student(exercise, call_without_wall(module, exercise.prelude))
        try:
            passes(student, exercise, Draw("drills", exercise.slug), torch.device("cpu"))
        except StudentFault as fault:
            return str(fault)
    return ""
