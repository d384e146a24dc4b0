"""Tasks go out no faster than they are done, and what ends its process is tried again alone."""

from concurrent.futures import BrokenExecutor, Future

import pytest

from grader.classroom.run.grade_task import VALUES, ClassTask, GradeTerms
from grader.classroom.run.lanes import run_class_tasks

TERMS = GradeTerms(seed_id="0" * 16, device="cpu", wall="locked", versions={})


def task(student: str) -> ClassTask:
    return ClassTask(lane=VALUES, terms=TERMS, code="c", slug="ex01_softmax", student=student,
                name="ex01_softmax.py", sha256="d")  # fmt: skip


class Process:
    """A pool of two that breaks with all that is under way when it meets a deadly task."""

    losses = (BrokenExecutor,)

    def __init__(self, deadly: dict[str, int], *, alone: bool = False) -> None:
        self.deadly = dict(deadly)  # how often a student's task ends the process
        self.under_way: list[tuple[ClassTask, Future]] = []
        self.most = 0
        self.asked: list[str] = []
        self.alone = alone

    def width(self, lane: str) -> int:
        return 2

    def submit(self, task: ClassTask) -> Future:
        self.asked.append(task.student)
        future: Future = Future()
        self.under_way.append((task, future))
        self.most = max(self.most, len(self.under_way))
        if self.deadly.get(task.student, 0):
            self.deadly[task.student] -= 1
            self._end(lambda f, _: f.set_exception(BrokenExecutor("ended")))
        elif len(self.under_way) == 2 or self.asked.count(task.student) == 2 or self.alone:
            self._end(lambda f, t: f.set_result({"student": t.student}))
        return future

    def _end(self, how) -> None:
        for one, future in self.under_way:
            how(future, one)
        self.under_way = []


def graded(lanes: Process, *students: str) -> dict[str, dict | None]:
    return {t.student: result for t, result in run_class_tasks(lanes, map(task, students))}


def test_everybody_has_a_result():
    names = [f"{n}" for n in range(7)]
    assert graded(Process({}, alone=True), *names) == {name: {"student": name} for name in names}


def test_a_process_that_ended_once_costs_nobody_a_result():
    found = graded(Process({"b": 1}), "a", "b", "c", "d")
    assert found == {name: {"student": name} for name in "abcd"}


def test_only_the_one_that_ends_its_process_again_is_given_up():
    found = graded(Process({"deadly": 99}), "a", "deadly", "c", "d")
    assert [name for name, result in found.items() if result is None] == ["deadly"]
    assert len(found) == 4


def test_no_more_is_taken_than_is_under_way():
    lanes, taken = Process({}), []

    def tasks():
        for number in range(6):
            taken.append(number)
            yield task(f"{number}")

    for done, _ in run_class_tasks(lanes, tasks()):
        assert len(taken) <= int(done.student) + 3
    assert lanes.most == 2


def test_what_a_task_raises_is_raised():
    class Raises(Process):
        def submit(self, task):
            future: Future = Future()
            future.set_exception(ValueError("of ours"))
            return future

    with pytest.raises(ValueError, match="of ours"):
        graded(Raises({}), "a")


def test_the_key_depends_on_everything_but_the_bytes_themselves():
    one = task("a")
    keys = {one.key}
    for change in (
        {"student": "b"}, {"slug": "ex02_masking"}, {"sha256": "e"}, {"code": "x"}, {"name": "n"},
        {"lane": "speed"}, {"state": "missing"}, {"sentence": "s"},
        {"terms": GradeTerms(seed_id="1" * 16, device="cpu", wall="locked", versions={})},
        {"terms": GradeTerms(seed_id="0" * 16, device="cuda", wall="locked", versions={})},
        {"terms": GradeTerms(seed_id="0" * 16, device="cpu", wall="contained", versions={})},
        {"terms": GradeTerms(seed_id="0" * 16, device="cpu", wall="locked", versions={"torch": "2"})},
    ):  # fmt: skip
        from dataclasses import replace

        keys.add(replace(one, **change).key)
    assert len(keys) == 13
