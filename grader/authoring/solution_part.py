"""Runs the suite on the solution of an exercise in this process."""

from types import ModuleType

from grader.core.records import Exercise
from grader.judging import solution_modules, suite_runner
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.in_process import call_without_wall


def judge_module_for_proof(exercise: Exercise, module: ModuleType, *seed: str) -> Judge:
    """Run the suite on a trusted module; return the judge, which has the verdicts."""
    student = Student(exercise, call_without_wall(module, exercise.prelude))
    judge = Judge(student, (*seed, exercise.slug))
    suite_runner.run_suite_checks(exercise, judge)
    return judge


def judge_solution_for_proof(exercise: Exercise, *seed: str) -> Judge:
    """Run the suite on the solution; return the judge."""
    module = solution_modules.load_solution_for_judging(exercise)
    assert module is not None, "a bundle without solutions cannot be proven"
    return judge_module_for_proof(exercise, module, *(seed or ("mutants",)))
