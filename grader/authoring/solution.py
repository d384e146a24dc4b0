"""The solution of an exercise, judged in this process."""

from types import ModuleType

from grader.judging import ours, suite
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.records import Exercise
from grader.worker.in_process import in_process


def judged(exercise: Exercise, module: ModuleType, *seed: str) -> Judge:
    """The judge that has run the suite on a module of ours."""
    student = Student(exercise, in_process(module, exercise.prelude))
    judge = Judge(student, (*seed, exercise.slug))
    suite.ask(exercise, judge)
    return judge


def solution_judge(exercise: Exercise, *seed: str) -> Judge:
    """The judge that has run the suite on the solution."""
    module = ours.solution(exercise)
    assert module is not None, "a bundle without solutions cannot be proven"
    return judged(exercise, module, *(seed or ("mutants",)))
