"""Answers of ours, graded as a student's are: the solution, its variants, the skeleton, drills."""

import tempfile
from pathlib import Path

import torch

from grader.authoring import mutants
from grader.authoring.skeletons import skeleton_text
from grader.core.records import Exercise, ExerciseReport, Verdict
from grader.grading.exercise import Run, grade
from grader.judging import Draw, passes
from grader.judging.case import StudentFault
from grader.judging.drills import Drill
from grader.judging.judge import NEEDS_CUDA
from grader.judging.student import Student
from grader.submission import admission
from grader.worker.in_process import in_process, load
from grader.worker.nursery import Nursery

SIGN = {".py": "#", ".cu": "//"}
# What cannot be run on a right answer; it costs nothing. A kernel whose threads walk over the whole
# grid has no block that could be run alone.
TOO_MUCH = {("naive_grid_stride_in_double", "test_far_places")}


def graded(exercise: Exercise, source: str, nursery: Nursery, secret: str) -> ExerciseReport:
    """The report on a text as the answer to an exercise, without its speed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(source, encoding="utf-8")
        run = Run(nursery=nursery, student="proof", secret=secret, speed=False)
        return grade(exercise, path, run)


def lost(exercise: Exercise, source: str, nursery: Nursery, name: str = "") -> list[str]:
    """What a right answer did not earn, a sentence for each check; empty if it earned all."""
    report = graded(exercise, source, nursery, "proof")
    if report.sentence or report.score is None:
        return [report.sentence or "a grader fault"]
    if report.score.possible == 0:
        return ["nothing could be run"]
    return [
        f"{c.id}: {c.why}"
        for c in report.checks
        if c.earned < c.points and c.why != NEEDS_CUDA and (name, c.id) not in TOO_MUCH
    ]


def lost_here(exercise: Exercise, source: str) -> list[str]:
    """The same of Python that runs in this process: no wall stands between, at half the cost."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(source, encoding="utf-8")
        try:
            admitted = admission.admit(admission.read(path, exercise), exercise)
        except admission.NotGraded as problem:
            return [str(problem)]
        if admitted.problems:
            return list(admitted.problems.values())
        checks = mutants.in_this_process(exercise, load(path, exercise.slug, exercise.prelude))
    return [
        f"{c.id}: {c.why}"
        for c in checks
        if c.verdict is not Verdict.PASSED and c.why != NEEDS_CUDA
    ]


def wrong_with_skeleton(exercise: Exercise, nursery: Nursery) -> list[str]:
    """What a skeleton with a line of the student's own got that it should not."""
    text = skeleton_text(exercise, exercise.solution.read_text(encoding="utf-8"))
    report = graded(exercise, f"{text}\n{SIGN[exercise.suffix]} mine\n", nursery, "proof")
    found = [f"{c.id} is a fault" for c in report.checks if c.verdict is Verdict.GRADER_FAULT]
    if report.state != "graded" or report.score is None:
        return [*found, f"it is {report.state}: {report.sentence}"]
    if report.score.earned:
        found.append(f"it earns {report.score.earned} points")
    if not any("is not written yet" in c.why for c in report.checks):
        found.append("nobody tells that it is not written yet")
    return found


def fault_of_drill(exercise: Exercise, drill: Drill) -> str:
    """The first failure of a drill's answer; empty if it is right."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(drill.applied(exercise.solution.read_text("utf-8")), encoding="utf-8")
        module = load(path, exercise.slug, exercise.prelude)
        student = Student(exercise, in_process(module, exercise.prelude))
        try:
            passes(student, exercise, Draw("drills", exercise.slug), torch.device("cpu"))
        except StudentFault as fault:
            return str(fault)
    return ""
