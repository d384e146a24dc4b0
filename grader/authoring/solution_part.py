"""The solution of an exercise, judged in this process."""

from types import ModuleType

from grader.core.records import Exercise
from grader.judging import solution_modules, suite_runner
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.in_process import in_process


def judged(exercise: Exercise, module: ModuleType, *seed: str) -> Judge:
    """The judge that has run the suite on a module of ours."""
    student = Student(exercise, in_process(module, exercise.prelude))
    judge = Judge(student, (*seed, exercise.slug))
    suite_runner.ask(exercise, judge)
    return judge


def solution_judge(exercise: Exercise, *seed: str) -> Judge:
    """The judge that has run the suite on the solution."""
    module = solution_modules.solution(exercise)
    assert module is not None, "a bundle without solutions cannot be proven"
    return judged(exercise, module, *(seed or ("mutants",)))
