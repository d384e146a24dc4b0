"""Bug hunts: no drill is right already, none is unsolvable, and both the mend and the name count."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from grader.core import catalog
from grader.core.errors import GraderFault
from grader.core.records import Verdict
from grader.core.translation import Words
from grader.judging import Draw, passes, suite_runner
from grader.judging.case import StudentFault
from grader.judging.drills import (
    OFFERED_MISTAKES,
    Drill,
    NoDrill,
    choices,
    drill,
    find_judged_hunt,
    lend_judged_hunt,
    read_judging_drills,
)
from grader.judging.student import Student
from grader.judging.suite_runner import list_suite_mistakes
from grader.practice import bug_hunts as files
from grader.worker.parent import requirements
from grader.worker.parent.in_process import call_without_wall, load_file_without_wall
from tests.conftest import ROOT, solution

HUNT = catalog.find_catalog_exercise("ex17")
SOME = [e for e in catalog.list_catalog_exercises() if read_judging_drills(e) and not e.draft]
NAME = "ex05_causal_mask 6"
each = pytest.mark.parametrize("exercise", SOME, ids=lambda e: e.slug)


@pytest.fixture
def asked(tmp_path):
    """asked(exercise, source): the first fault that the exercise finds in it; None if it passes."""

    def ask(exercise, source):
        if lacking := requirements.find_unmet_worker_requirement(
            requirements.list_worker_requirements(exercise, on_cuda=False)
        ):
            pytest.skip(f"{exercise.slug} {lacking}")
        path = tmp_path / f"{exercise.slug}.py"
        path.write_text(source)
        module = load_file_without_wall(path, exercise.slug, exercise.prelude)
        return first_fault(exercise, Student(exercise, call_without_wall(module, exercise.prelude)))

    return ask


def first_fault(exercise, student):
    try:
        passes(student, exercise, Draw("drills", exercise.slug), torch.device("cpu"))
    except StudentFault as fault:
        return fault
    return None


# A drill is solved by the solution, which tests/suites grades; these have cases of every kind.
@pytest.mark.parametrize("slug", ["ex00_plain_python", "ex02_masking", "ex16_paged_cache"])
def test_what_is_drawn_from_can_be_solved(asked, slug):
    assert asked(catalog.find_catalog_exercise(slug), solution(slug)) is None


@each
def test_there_are_several_drills_and_each_is_in_the_catalogue(exercise):
    known = {m.id for m in list_suite_mistakes(exercise) if not m.null}
    named = [d.mistake for d in read_judging_drills(exercise)]
    assert len(set(named)) == len(named) >= 5
    assert set(named) | {a for d in read_judging_drills(exercise) for a in d.alike} <= known | {
        m.id for m in list_suite_mistakes(exercise)
    }
    assert set(named) <= known


def test_there_are_drills_of_every_exercise_in_python_but_the_hunt():
    named = [e for e in catalog.list_catalog_exercises() if e.language == "python" and not e.hunts]
    assert named == SOME


@each
@pytest.mark.parametrize("seed", range(5))
def test_the_right_name_is_offered_once_and_none_that_is_alike(exercise, seed):
    name = f"{exercise.slug} {seed}"
    offered = [m.id for m in choices(name)]
    assert offered.count(drill(name).mistake) == 1
    assert len(set(offered)) == len(offered) == OFFERED_MISTAKES == 8
    assert not set(offered) & set(drill(name).alike)


def test_seeds_reach_every_drill_of_an_exercise():
    found = {drill(f"ex05_causal_mask {seed}").mistake for seed in range(200)}
    assert found == {d.mistake for d in read_judging_drills(catalog.find_catalog_exercise("ex05"))}


def test_an_edit_that_does_not_fit_the_solution_is_a_fault_of_ours():
    stale = Drill(
        exercise=catalog.find_catalog_exercise("ex05"),
        mistake="top_left",
        edits=(("no such text", ""),),
    )
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


UNTOUCHED = files.write_drill_text(NAME, HUNT, Words("en"))
MENDED = UNTOUCHED.replace("behind <= window", "behind < window")
TODO = 'raise NotImplementedError("Return the name of the mistake that you found.")'
RIGHT, WRONG = 'return "window_one_too_wide"', 'return "window_centred"'
ALL_NAMES = f'return "{" ".join(m.id for m in choices(NAME))}"'
STATED = MENDED.replace(TODO, RIGHT).replace(NAME, "ex08_cuda_sdpa 1")  # which allows more
# A right answer to an exercise in words of its writer's, who has not drawn a drill from it.
NEVER_DRAWN = solution("ex00_plain_python").replace("### BEGIN SOLUTION", "mine = True")


def cut(text, start, end):
    """A text without what stands from `start` to before `end`."""
    return text[: text.index(start)] + text[text.index(end) :]


EARNED = {
    "as it was drawn": (UNTOUCHED, 0),
    "named, not mended": (UNTOUCHED.replace(TODO, RIGHT), 0),
    "mended": (MENDED, 4),
    "mended, another name": (MENDED.replace(TODO, WRONG), 4),
    "mended and named": (MENDED.replace(TODO, RIGHT), 6),
    "another drill's number": (MENDED.replace(TODO, RIGHT).replace(NAME, NAME[:-1] + "7"), 4),
    "another exercise": (MENDED.replace(TODO, RIGHT).replace(NAME, "ex02_masking 6"), 0),
    "all names at once": (MENDED.replace(TODO, ALL_NAMES), 4),
    "several names": (MENDED.replace(TODO, 'return "top_left, window_one_too_wide"'), 4),
    "a list of names": (MENDED.replace(TODO, 'return ["window_one_too_wide"]'), 4),
    "without its head": (cut(MENDED.replace(TODO, RIGHT), '"""Bug', "import math"), 6),
    "without drill": (cut(MENDED.replace(TODO, RIGHT), "def drill", "def mistake"), 0),
    "without its number": (MENDED.replace(TODO, RIGHT).replace(f'    return "{NAME}"\n', ""), 0),
    "without mistake": (cut(MENDED, "def mistake", "def causal_mask"), 4),
    "mended, with other comments": (
        MENDED.replace("def causal_mask", "# looked at\ndef causal_mask").replace(
            "Say which keys", "Say"
        ),
        4,
    ),
    "mended by a new function": (
        MENDED.replace("behind < window", "behind < _width(window)")
        + "\n\ndef _width(window):\n    return window\n",
        4,
    ),
    "another function rewritten": (
        MENDED + "\n\n_before = causal_mask\n\n\ndef causal_mask(q_len, k_len, device=None):\n"
        "    return _before(q_len, k_len, device)\n",
        0,
    ),
    "another function bound anew": (f"{MENDED}\n\ncausal_mask = causal_mask\n", 0),
    "another answer, never drawn": (
        f'{NEVER_DRAWN}\n\ndef drill():\n    return "ex00_plain_python 1"\n',
        0,
    ),
    "another drill when called": (f'{STATED}\n\ndrill = lambda: "{NAME}"\n', 0),
}


@pytest.fixture
def two_checks(monkeypatch):
    """Hold a drill to the first two checks of its exercise: the others add nothing here."""
    of_all = suite_runner.list_check_functions
    monkeypatch.setattr(suite_runner, "list_check_functions", lambda e: of_all(e)[:2])


unexplained = pytest.mark.parametrize("diagnosis_seconds", [-1.0], ids=["unexplained"])


@unexplained
@pytest.mark.parametrize("source, earned", EARNED.values(), ids=EARNED)
def test_the_mend_counts_and_then_the_name(graded, two_checks, source, earned):
    report = graded("ex17_bug_hunt", source)
    assert report.state == "graded"
    assert report.score.earned == earned
    assert not [c for c in report.checks if c.verdict is Verdict.GRADER_FAULT]


@unexplained
def test_a_drill_is_held_to_all_checks_of_its_exercise(graded):
    """Its mask is right, and its attention, which none of the first two checks calls, is not."""
    spoilt = MENDED.replace("return torch.cat(outputs", "return 2 * torch.cat(outputs")
    report = graded("ex17_bug_hunt", spoilt.replace(TODO, RIGHT))
    assert (spoilt != MENDED, report.score.earned) == (True, 0)
    assert "[causal_attention(" in report.checks[0].why


def test_a_drill_as_it_was_drawn_is_judged_and_explained(graded, two_checks):
    report = graded("ex17_bug_hunt", UNTOUCHED)
    assert (report.state, report.sentence, report.score.earned) == ("graded", "", 0)
    assert report.checks[0].verdict is Verdict.FAILED


def test_the_right_name_is_not_given_away(graded, two_checks):
    report = graded("ex17_bug_hunt", MENDED.replace(TODO, WRONG))
    assert "window_one_too_wide" not in report.checks[1].why
    assert report.checks[1].why.startswith("This is not the mistake that was hidden in it.")


def test_what_the_exercise_does_not_allow_is_refused(graded):
    drawn = files.write_drill_text("ex01_softmax 3", HUNT, Words("en"))
    cheated = f"{drawn}\n\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n"
    report = graded("ex17_bug_hunt", cheated)
    assert (report.state, report.score.earned) == ("graded", 0)
    assert "torch.softmax is not allowed in this exercise" in report.checks[0].why


def test_what_is_not_offered_is_told_from_a_wrong_name(graded, two_checks):
    report = graded("ex17_bug_hunt", EARNED["several names"][0])
    assert report.checks[1].why.startswith(f"This is none of the names to choose from in {NAME}:")


@pytest.fixture
def mended(monkeypatch):
    """mended(name): a drill that is solved."""
    monkeypatch.setattr(Drill, "applied", lambda self, source: source)

    def solved(name):
        drawn = files.write_drill_text(name, HUNT, Words("en"))
        return drawn.replace(TODO, f'return "{drill(name).mistake}"')

    return solved


def needs(slug):
    """Skip where what this exercise requires is not installed."""
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(catalog.find_catalog_exercise(slug), on_cuda=False)
    ):
        pytest.skip(lacking)


# One calls the fused operator, and one needs the prelude of its exercise.
@pytest.mark.parametrize("slug", ["ex08_cuda_sdpa", "ex14_triton"])
def test_a_drill_may_use_what_its_exercise_allows(graded, two_checks, mended, slug):
    needs(slug)
    assert graded("ex17_bug_hunt", mended(f"{slug} 1")).score.earned == 6


@pytest.mark.weekly
def test_pytest_by_hand_allows_it_too(mended, tmp_path):
    (tmp_path / HUNT.file).write_text(mended("ex08_cuda_sdpa 1"))
    asked = [str(HUNT.folder), "--submission", str(tmp_path), "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, "-m", "pytest", *asked], cwd=ROOT, capture_output=True)
    assert b"2 passed" in done.stdout


@unexplained
def test_a_kernel_is_not_judged_where_the_file_does_not_say_what_it_is(graded):
    needs("ex14_triton")
    drawn = files.write_drill_text("ex14_triton 1", HUNT, Words("en"))
    report = graded("ex17_bug_hunt", drawn.replace("ex14_triton 1", 'ex14_" + "triton 1'))
    assert report.checks[0].why.startswith("`drill` returns a drill that is not written in it")


@pytest.mark.parametrize(
    "source, slug",
    [
        (UNTOUCHED, "ex05_causal_mask"),
        ("def drill():\n    return 'ex08_cuda_sdpa 1'", "ex08_cuda_sdpa"),
        ("def drill():\n    return 'ex08' + '_cuda_sdpa 1'", None),
        ("def drill():\n    return 'ex15_cuda_kernel 1'", None),
        (
            "def drill():\n    return 'ex01_softmax 1'\ndef drill():\n    return 'ex02_masking 1'",
            None,
        ),
        ("def drill(:", None),
    ],
)
def test_a_file_says_what_it_was_drawn_from(source, slug):
    found = find_judged_hunt(source)
    assert (found and found.slug) == slug
    assert lend_judged_hunt(HUNT, source).not_allowed == (found or HUNT).not_allowed


@each
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_drill_shows_neither_the_mend_nor_the_lesson(language, exercise):
    text = files.write_drill_text(f"{exercise.slug} 6", HUNT, Words(language))
    assert all(old not in text for old, _ in drill(f"{exercise.slug} 6").edits)
    assert "SOLUTION" not in text
    assert "%%" not in text


NO_SPACE, STALE = OSError(28, "No space left on device"), GraderFault("0 times in the solution")


@pytest.mark.parametrize(
    "owner, name, problem", [(Path, "write_text", NO_SPACE), (files, "write_drill_text", STALE)]
)
def test_an_answer_stays_if_no_drill_can_take_its_place(
    monkeypatch, tmp_path, owner, name, problem
):
    path = tmp_path / HUNT.file
    path.write_text("# mine\n")

    def fails(*_, **__):
        raise problem

    monkeypatch.setattr(owner, name, fails)
    with pytest.raises(type(problem)):
        files.write_drill(path, HUNT, NAME, Words("en"), again=True)
    assert path.read_text() == "# mine\n"
    assert list(tmp_path.iterdir()) == [path]
