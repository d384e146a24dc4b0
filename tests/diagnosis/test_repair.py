"""The line in which one change mends an answer: found where one is enough, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from grader.core import catalog
from grader.core.diagnosis_records import PinnedLine
from grader.core.records import Submission
from grader.diagnosis import failed_checks, pair_naming, repair, time_limit
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.suspect_lines import find_suspect_lines
from grader.judging import suite_runner
from grader.judging.case import StudentFault
from grader.judging.judge import Judge
from grader.judging.student import Student
from grader.worker.parent import supervisor
from grader.worker.parent.in_process import call_without_wall, load_text_without_wall
from tests.conftest import solution

Edit = tuple[str, str]
SLIP = ("powers / powers.sum(axis", "powers * powers.sum(axis")


@pytest.fixture(autouse=True)
def enough_time(monkeypatch):
    """Nothing here depends on how busy the machine is."""
    torch.set_num_threads(1)  # as where a suite runs
    monkeypatch.setattr(repair, "TRIAL_INPUTS", 6)
    for name in vars(time_limit):
        if name.endswith("_SECONDS"):
            monkeypatch.setattr(time_limit, name, 600.0)


def judged(slug: str, *edits: Edit, lines=()) -> tuple[Judge, str]:
    """The judge of a solution with these edits, and its text."""
    exercise, source = catalog.find_catalog_exercise(slug), solution(slug)
    for old, new in edits:
        assert source.count(old) == 1, f"the solution reads otherwise: {old}"
        source = source.replace(old, new)
    client = call_without_wall(load_text_without_wall(source, slug, as_worker=True), source=source)
    answer = Submission(slug=slug, path=exercise.solution, sha256="", source=source, lines=lines)
    judge = Judge(Student(exercise, client, answer=answer), ("repair", slug))
    checks = frozenset(("test_numpy_values", "test_values", "test_padding_mask"))
    judge.run([c for c in suite_runner.list_suite_cases(exercise) if c.check.id in checks])
    assert judge.failures
    return judge, source


def repaired(slug: str, *edits: Edit, lines=()) -> tuple[PinnedLine | None, str]:
    """The line that mends a solution with these edits, and its text."""
    judge, source = judged(slug, *edits, lines=lines)
    trials = NameTrials(judge, MistakeCatalogue(catalog.find_catalog_exercise(slug)))
    failures = judge.failures[:1]
    plainest = {f.check: f for f in failures}
    found = repair.find_repaired_lines(
        catalog.find_catalog_exercise(slug), failures, judge, trials, plainest
    )
    line = found.get(failures[0].check)
    return line, source.splitlines()[line.line - 1].strip() if line and not lines else ""


@pytest.mark.parametrize(
    "slug, old, new, change",
    [
        ("ex02_masking", "return positions < lengths", "return positions <= lengths", "COMPARISON"),
        ("ex02_masking", "    safe = torch.where(keep, wide, -torch.inf)", "    safe = torch.where(keep, -torch.inf, wide)", "EXCHANGE"),
        ("ex01_softmax", "powers / powers.sum(dim=dim, keepdim=True)", "powers / powers.sum(dim=dim)", "KEYWORD"),
        ("ex01_softmax", *SLIP, "OPERATOR"),
        ("ex01_softmax", "axis: int = -1", "axis: int = 0", "DEFAULT"),
        ("ex01_softmax", "    return weights.astype(x.dtype)", "    return powers.astype(x.dtype)", "NAME"),
        ("ex04_heads", "v = split_heads(self.w_v(context), self.num_heads)", "v = self.w_v(context)", "CALL_LACKED"),
    ],
)  # fmt: skip
def test_the_line_of_one_slip_is_found_with_its_kind(slug, old, new, change):
    found, text = repaired(slug, (old, new))
    assert found is not None and found.change == change
    assert new.strip() in text and found.text in text


def test_the_argument_that_is_too_much_is_told():
    whole = "powers / powers.sum(axis=axis, keepdims=True"
    found, text = repaired("ex01_softmax", (whole, f"{whole}, initial=len(x)"))
    assert found is not None and found.change == "ARGUMENT" and found.text == text
    assert found.dropped == "initial=len(x)"


def test_an_exception_is_traced_to_the_line_that_leads_to_it():
    found, text = repaired(
        "ex01_softmax", ("x: torch.Tensor, dim: int = -1", "x: torch.Tensor, dim: int = 1")
    )
    assert found is not None and found.change == "DEFAULT" and text.startswith("def softmax(")


def still_wrong(student):
    """A check of another function that runs the numbers of the one with the slip, and fails."""
    student.softmax_numpy(np.zeros((2, 3)))
    raise StudentFault("wrong for another reason, too")


def wrong_elsewhere():
    """A check that runs nothing of it."""
    raise StudentFault("wrong by itself")


@pytest.mark.parametrize("check, told", [(still_wrong, False), (wrong_elsewhere, True)])
def test_a_change_has_to_mend_every_failure_that_runs_it(check, told):
    judge, _ = judged("ex01_softmax", SLIP)
    exercise, first = catalog.find_catalog_exercise("ex01_softmax"), judge.failures[0]
    case = replace(first.case, name="other", function=check, params={})
    other = replace(first, check="other", case=case, more=(), calls=frozenset({"softmax"}))
    trials = NameTrials(judge, MistakeCatalogue(exercise))
    plainest = {f.check: f for f in (first, other)}
    found = repair.find_repaired_lines(exercise, [first, other], judge, trials, plainest)
    assert (first.check in found) == told and "other" not in found


def test_two_slips_have_no_line():
    found, _ = repaired(
        "ex02_masking",
        (
            "    safe = torch.where(keep, wide, -torch.inf)",
            "    safe = torch.where(keep, -torch.inf, wide)",
        ),
        ("torch.softmax(safe, dim=-1)", "torch.softmax(safe, dim=-2)"),
    )
    assert found is None


def test_two_lines_of_which_either_would_do_are_none():
    judge, _ = judged("ex01_softmax", SLIP)
    search = repair._Search.__new__(repair._Search)
    search._judge, search._text = judge, judge.student._door.client.text
    edit = {
        "kind": "NAME", "tested": False, "dropped": "", "text": "", "line": 3, "statement": 3,
        "name": "", "sets": "",
    }  # fmt: skip
    assert search._choose_line([edit, edit | {"line": 4}]).line == 3  # within one statement
    assert search._choose_line([edit, edit | {"statement": 4}]) is None
    assert search._choose_line([]) is None
    assert search._choose_line([edit]).change == "NAME"
    tested = search._choose_line([edit | {"tested": True, "dropped": "x"}])
    assert (tested.change, tested.dropped) == ("CONDITION", "")


def test_a_variable_that_may_be_mended_where_it_is_used_is_where_it_is_set():
    judge, _ = judged("ex01_softmax", SLIP)
    search = repair._Search.__new__(repair._Search)
    search._judge, search._text = judge, judge.student._door.client.text
    edit = {"kind": "CALL_LACKED", "tested": False, "dropped": "", "text": ""}
    one = edit | {"line": 3, "statement": 3, "name": "", "sets": "q"}
    used, other = ({**edit, "line": 5, "statement": 5, "name": n, "sets": ""} for n in "qk")
    assert search._choose_line([one, used]).line == 3
    assert search._choose_line([one, other]) is None


def only(monkeypatch, *wanted: tuple[str, str]) -> None:
    """Try only the changes of these kinds to these texts."""
    ask = repair.ask_submission_reader

    def few(*args, **given):
        return [e for e in ask(*args, **given) if (e["kind"], e["text"]) in wanted]

    monkeypatch.setattr(repair, "ask_submission_reader", few)


def test_what_only_takes_something_away_is_told_only_if_nothing_else_mends(monkeypatch):
    """Without the line for empty rows all is right as well; but the mistake is not there."""
    old, new = (
        "    empty = ~keep.any(dim=-1, keepdim=True)",
        "    empty = ~keep.all(dim=-1, keepdim=True)",
    )
    away, other = ("STATEMENT", "pass"), ("FUNCTION", "(keep.any(dim=-1, keepdim=True))")
    with monkeypatch.context() as patched:
        only(patched, away)
        found, text = repaired("ex02_masking", (old, new))
    assert found is not None and text.startswith("safe = torch.where(empty")
    monkeypatch.setattr(repair, "REMOVALS", repair.REMOVALS | {"FUNCTION"})  # all are tried
    monkeypatch.setattr(repair, "groupby", lambda edits, key: [(0, edits)])
    only(monkeypatch, away, other)
    assert repaired("ex02_masking", (old, new))[0] is None
    monkeypatch.setattr(repair, "REMOVALS", repair.REMOVALS - {"FUNCTION"})
    found, text = repaired("ex02_masking", (old, new))
    assert found is not None and found.change == "FUNCTION" and text.startswith("empty =")


def tried_lines(monkeypatch, slug: str, *edits: Edit) -> list[str]:
    """The statements that are changed, in the order in which they are tried; none mends."""
    lines = []
    monkeypatch.setattr(
        repair._Search, "_mends", lambda s, edit, _: lines.append(edit["statement"])
    )
    _, source = judged(slug, *edits)
    assert repaired(slug, *edits)[0] is None
    return [source.splitlines()[n - 1].strip() for n in dict.fromkeys(lines)]


def test_a_line_whose_value_the_solution_has_not_is_changed_first(monkeypatch):
    slip = (
        "powers / powers.sum(dim=dim, keepdim=True)",
        "powers * powers.sum(dim=dim, keepdim=True)",
    )
    [first, *_] = tried_lines(monkeypatch, "ex01_softmax", slip)
    assert slip[1] in first


def test_of_an_answer_that_raises_the_values_before_count(monkeypatch):
    slip = "powers / powers.sum(dim=dim, keepdim=True)", "powers / powers.sum(dim=dim + 9)"
    [first, *_] = tried_lines(monkeypatch, "ex01_softmax", slip)
    assert slip[1] in first


def test_a_value_of_one_number_that_the_solution_has_too_is_no_suspect():
    slip = (
        "weights = torch.softmax(scores, dim=-1).masked_fill",
        "weights = torch.softmax(scores, dim=-2).masked_fill",
    )
    exercise = catalog.find_catalog_exercise("ex12_attention_block")
    source = solution(exercise.slug)
    assert source.count(slip[0]) == 1
    source = source.replace(*slip)
    client = call_without_wall(load_text_without_wall(source, exercise.slug), source=source)
    judge = Judge(Student(exercise, client), ("repair", exercise.slug))
    judge.run([c for c in suite_runner.list_suite_cases(exercise) if c.name == "test_self[one]"])
    suspects = find_suspect_lines(exercise, judge.failures[0], judge)  # keep: (1, 1, 1, Lk)
    assert [source.splitlines()[n - 1].strip() for n in suspects] == [
        line.strip() for line in source.splitlines() if slip[1] in line
    ]


def test_what_sets_an_attribute_that_was_read_is_suspect():
    exercise = catalog.find_catalog_exercise("ex04_heads")
    wrong = "self.w_v = nn.Linear(d_model, d_model)"
    judge, source = judged("ex04_heads", (wrong[:-1] + ", bias=bias)", wrong))
    lines = source.splitlines()
    failure = next(f for f in judge.failures if f.last_call.endswith("w_v.bias"))
    found = find_suspect_lines(exercise, failure, judge)
    assert [lines[n - 1].strip() for n in found] == [wrong]


def test_the_answer_is_in_its_place_again(monkeypatch):
    only(monkeypatch, ("OPERATOR", "(powers / powers.sum(axis=axis, keepdims=True))"))
    judge, _ = judged("ex01_softmax", SLIP)
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    trials = NameTrials(judge, MistakeCatalogue(exercise))
    plainest = {f.check: f for f in judge.failures}
    assert repair.find_repaired_lines(exercise, judge.failures, judge, trials, plainest)
    fault = judge.ask(judge.student, judge.failures[0].case)
    assert str(fault) == str(judge.failures[0].fault)


@pytest.mark.parametrize("name", ["DIAGNOSIS_SECONDS", "NAMING_SECONDS", "REPAIR_SECONDS"])
def test_without_time_no_line_is_told(name, monkeypatch):
    monkeypatch.setattr(time_limit, name, -1.0)
    judge, _ = judged("ex01_softmax", SLIP)
    exercise = catalog.find_catalog_exercise("ex01_softmax")
    checks = failed_checks.diagnose_failed_checks(exercise, judge.results(), judge)
    assert not [
        c for c in checks if c.diagnosis and c.diagnosis.pinned and c.diagnosis.pinned.change
    ]


def test_a_bug_hunt_and_stored_cases_tell_no_line(monkeypatch):
    judge, _ = judged("ex01_softmax", SLIP)
    monkeypatch.setattr(repair, "ask_submission_reader", lambda *_, **__: pytest.fail("searched"))
    hunt = replace(catalog.find_catalog_exercise("ex01_softmax"), hunts=True)
    monkeypatch.setattr(failed_checks.pinned_line, "find_pinned_line", lambda *_: None)
    failed_checks.diagnose_failed_checks(hunt, judge.results(), judge)
    monkeypatch.setattr(Judge, "is_replayed", True)
    assert repair.find_repaired_lines(hunt, judge.failures, judge, None, {}) == {}


def test_a_notebook_has_its_cell():
    count = solution("ex01_softmax").count("\n") + 1
    lines = tuple((5, n) for n in range(1, count + 1))
    found, _ = repaired("ex01_softmax", SLIP, lines=lines)
    assert found is not None and found.cell == 5


@pytest.mark.parametrize("repair_seconds", [600.0])
def test_it_is_told_behind_a_wall_and_no_pair_of_mistakes_is_named(
    graded, repair_seconds, monkeypatch
):  # fmt: skip
    monkeypatch.setattr(supervisor, "CHANGED_CALL_SECONDS", 60.0)
    monkeypatch.setattr(
        pair_naming, "name_mistake_pair", lambda cases, *_: pytest.fail("a pair") if cases else ()
    )
    source = solution("ex01_softmax").replace(*SLIP)
    found = [c.diagnosis for c in graded("ex01_softmax", source).checks if c.diagnosis]
    [pinned] = [d.pinned for d in found if d.pinned]
    assert pinned.change == "OPERATOR" and pinned.text.startswith(f"weights = {SLIP[1]}")
    assert source.splitlines()[pinned.line - 1].strip() == pinned.text
