"""Bug hunts: no drill is right already, none is unsolvable, and both the mend and the name count."""

from types import ModuleType

import pytest
import torch

from grader import catalog
from grader.course import drills as files
from grader.judging import Draw, passes
from grader.judging.case import GraderFault, StudentFault
from grader.judging.drills import Drill, NoDrill, choices, drill, drills
from grader.judging.student import Student
from grader.judging.suite import mistakes
from grader.languages import Words
from grader.records import Verdict
from grader.worker.in_process import in_process
from tests.conftest import solution

HUNT = catalog.find("ex17")
SOME = [e for e in catalog.exercises() if drills(e)]
ALL = [d for e in SOME for d in drills(e)]
NAME = "ex05_causal_mask 6"
each = pytest.mark.parametrize("exercise", SOME, ids=lambda e: e.slug)
any_drill = pytest.mark.parametrize("one", ALL, ids=lambda d: f"{d.exercise.slug}-{d.mistake}")


def asked(exercise, source):
    """The first fault that the exercise finds in this source; None if it passes."""
    module = ModuleType(exercise.slug)
    exec(compile(source, exercise.slug, "exec"), module.__dict__)
    student = Student(exercise, in_process(module))
    try:
        passes(student, exercise, Draw("drills", exercise.slug), torch.device("cpu"))
    except StudentFault as fault:
        return fault
    return None


# A drill is solved by the solution, which tests/suites grades; these have cases of every kind.
@pytest.mark.parametrize("slug", ["ex00_plain_python", "ex02_masking", "ex16_paged_cache"])
def test_what_is_drawn_from_can_be_solved(slug):
    assert asked(catalog.find(slug), solution(slug)) is None


@any_drill
def test_no_drill_is_right_already(one):
    assert asked(one.exercise, one.applied(solution(one.exercise.slug))) is not None


@each
def test_there_are_several_drills_and_each_is_in_the_catalogue(exercise):
    known = {m.id for m in mistakes(exercise) if not m.null}
    named = [d.mistake for d in drills(exercise)]
    assert len(set(named)) == len(named) >= 2
    assert set(named) | {a for d in drills(exercise) for a in d.alike} <= known | {
        m.id for m in mistakes(exercise)
    }
    assert set(named) <= known


def test_there_are_drills_of_most_of_the_core_track():
    assert {e.slug[:4] for e in SOME} >= {f"ex0{n}" for n in range(1, 8)}


@each
@pytest.mark.parametrize("seed", range(5))
def test_the_right_name_is_offered_once_and_none_that_is_alike(exercise, seed):
    name = f"{exercise.slug} {seed}"
    offered = [m.id for m in choices(name)]
    assert offered.count(drill(name).mistake) == 1
    assert len(set(offered)) == len(offered) >= 4
    assert not set(offered) & set(drill(name).alike)


def test_seeds_reach_every_drill_of_an_exercise():
    found = {drill(f"ex05_causal_mask {seed}").mistake for seed in range(200)}
    assert found == {d.mistake for d in drills(catalog.find("ex05"))}


def test_an_edit_that_does_not_fit_the_solution_is_a_fault_of_ours():
    stale = Drill(exercise=catalog.find("ex05"), mistake="top_left", edits=(("no such text", ""),))
    with pytest.raises(GraderFault, match="0 times in the solution"):
        stale.applied(solution("ex05_causal_mask"))


@pytest.mark.parametrize(
    "name, says",
    [
        ("", "'' is no drill. `make drill` writes one."),
        ("ex05_causal_mask", "'ex05_causal_mask' is no drill. `make drill` writes one."),
        ("ex05_causal_mask -1", "'ex05_causal_mask -1' is no drill. `make drill` writes one."),
        ("ex05_causal_mask " + "9" * 99, "is no drill. `make drill` writes one."),
        ("ex55_causal_mask 1", "There is no exercise called 'ex55_causal_mask'."),
        ("ex17_bug_hunt 1", "Nothing is drawn from ex17_bug_hunt: it has no drills."),
    ],
)
def test_what_is_no_drill_gets_a_sentence(name, says):
    with pytest.raises(NoDrill) as caught:
        drill(name)
    assert says in str(caught.value)


UNTOUCHED = files.text(NAME, HUNT, Words("en"))
MENDED = UNTOUCHED.replace("behind <= window", "behind < window")
TODO = 'raise NotImplementedError("Return the name of the mistake that you found.")'
RIGHT, WRONG = 'return "window_one_too_wide"', 'return "window_centred"'
EARNED = {
    "as it was drawn": (UNTOUCHED, 0),
    "named, not mended": (UNTOUCHED.replace(TODO, RIGHT), 0),
    "mended": (MENDED, 4),
    "mended, another name": (MENDED.replace(TODO, WRONG), 4),
    "mended and named": (MENDED.replace(TODO, RIGHT), 6),
    "another drill's number": (MENDED.replace(TODO, RIGHT).replace(NAME, NAME[:-1] + "7"), 4),
    "another exercise": (MENDED.replace(TODO, RIGHT).replace(NAME, "ex01_softmax 6"), 0),
}


@pytest.mark.parametrize("source, earned", EARNED.values(), ids=EARNED)
def test_the_mend_counts_and_then_the_name(graded, source, earned):
    report = graded("ex17_bug_hunt", source)
    assert report.state == "graded"
    assert report.score.earned == earned
    assert not [c for c in report.checks if c.verdict is Verdict.GRADER_FAULT]


def test_the_right_name_is_not_given_away(graded):
    report = graded("ex17_bug_hunt", MENDED.replace(TODO, WRONG))
    assert "window_one_too_wide" not in report.checks[1].why
    assert report.checks[1].why.startswith("This is not the mistake that was hidden in it.")


def test_what_the_exercise_does_not_allow_is_refused(graded):
    drawn = files.text("ex01_softmax 3", HUNT, Words("en"))
    cheated = f"{drawn}\n\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n"
    report = graded("ex17_bug_hunt", cheated)
    assert report.score.earned == 0
    assert "torch.softmax is not allowed in this exercise" in report.checks[0].why


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_drill_shows_neither_the_mend_nor_the_lesson(language):
    text = files.text(NAME, HUNT, Words(language))
    assert "behind < window" not in text
    assert "SOLUTION" not in text
    assert "%%" not in text
