"""Every suite is held to its mistakes, its right variants, its solution, skeleton and drills."""

import re

import pytest

from grader.authoring.hard_cases import list_hard_statements_unrun
from grader.authoring.mutants import CaughtMistake
from grader.authoring.proof import run_proofs
from grader.authoring.proof_store import ProofStore
from grader.authoring.proof_table import list_unproved_mistake_problems
from grader.core.translation import Words
from grader.judging import suite_runner
from tests.proof.conftest import EXERCISES

NAMED, ALONE = 0.95, 0.85  # shares of the mistakes that are named to the student

each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)


def caught(exercise, results):
    known = {m.id: m for m in suite_runner.list_suite_mistakes(exercise)}
    return [CaughtMistake.from_dict(known[name], result) for name, result in results.items()]


@each
def test_every_mistake_fails_the_check_that_it_names(exercise, proof):
    wrong = [
        line
        for c in caught(exercise, proof("caught", exercise))
        for line in list_unproved_mistake_problems(c)
    ]
    assert wrong == []


# What Python, PyTorch and an answer say of themselves stays as it is; so do calls and quotations.
FOREIGN = re.compile(r"\w+(Error|Exception|Iteration): .*|`[^`]*`|  \[.*\]$|'[^']*'|state[ _]dict")
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{2,}")


@each
def test_what_a_mistake_is_told_is_said_in_chinese_too(exercise, proof):
    told = [c.says.splitlines()[0] for c in caught(exercise, proof("caught", exercise)) if c.says]
    assert told
    zh = Words("zh")
    left = [line for line in told if ENGLISH.search(FOREIGN.sub("", zh.said(line)))]
    assert left == []


@each
def test_every_right_variant_earns_everything(exercise, proof):
    assert {n: r["lost"] for n, r in proof("variants", exercise).items() if r["lost"]} == {}


@each
def test_the_solution_earns_everything(exercise, proof):
    assert proof("solution", exercise)[exercise.slug]["lost"] == []


@each
def test_the_solution_is_asked_the_hard_kinds_that_the_suite_states(exercise, proof):
    ran = proof("solution", exercise)[exercise.slug]["hard"]
    assert list_hard_statements_unrun(exercise, ran) == []


@each
def test_the_skeleton_earns_nothing(exercise, proof):
    assert proof("skeleton", exercise)[exercise.slug]["lost"] == []


@each
def test_no_drill_is_right_already(exercise, proof):
    right = [name for name, result in proof("drills", exercise).items() if not result["fault"]]
    assert right == []


@pytest.mark.weekly
def test_mistakes_are_named_to_the_student_and_never_falsely():
    known = run_proofs(EXERCISES, ("mistakes",), ProofStore())
    found = [c for p in known if not p.lacking for c in caught(p.exercise, p.results)]
    assert [line for c in found for line in list_unproved_mistake_problems(c)] == []
    assert sum(c.mistake.id in c.named for c in found) >= NAMED * len(found) > 0
    assert sum(c.named == (c.mistake.id,) for c in found) >= ALONE * len(found)
