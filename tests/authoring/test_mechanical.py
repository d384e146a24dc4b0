"""What becomes of mechanical changes: caught, equivalent, a hole, untried, a fault of the suite."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grader.authoring import mechanical_table
from grader.authoring.mechanical import (
    ChangeVerdict,
    MechanicalProof,
    list_mechanical_changes,
)
from grader.authoring.mechanical_table import (
    MechanicalOptions,
    is_mechanical_proof_whole,
    make_mechanical_jobs,
    run_mechanical_changes,
)
from grader.authoring.processes import Job, run_mechanical_jobs
from grader.authoring.side_by_side import SideBySide
from grader.cli.app import app
from grader.core import catalog, packs
from grader.core.errors import GraderFault
from grader.judging import suite_runner
from grader.judging.draw import DealtDraw
from grader.judging.marks import Trial
from grader.worker.parent.in_process import load_text_without_wall
from tests.authoring import pack

INPUTS = 40


def list_draws(trial):
    """Return what a trial draws from 1 to 30 for each input."""
    names = "trial", pack.SLUG, trial
    return [DealtDraw(*names, number=i).integer(1, 30) for i in range(INPUTS)]


@pytest.fixture(scope="module")
def exercise(tmp_path_factory):
    """The exercise of the pack, which the processes that are started know as well."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv(packs.PACKS_VARIABLE, "")
        catalog.add_packs_to_catalog([pack.write(tmp_path_factory.mktemp("pack"))])
        yield catalog.find_catalog_exercise(pack.SLUG)
    catalog.list_catalog_exercises.cache_clear()


@pytest.fixture(scope="module")
def made(exercise):
    """Every change of its solution, made once, what was printed, and the rows to be kept."""
    console, rows = Console(file=io.StringIO(), width=200), []
    terms = MechanicalOptions(inputs=INPUTS, processes=1, seconds=0.5)
    found = run_mechanical_changes([exercise], terms, console, rows.append)
    return found, console.file.getvalue(), rows


@pytest.fixture
def what_became_of(made):
    def find(new):
        [outcome] = [o for o in made[0] if o.new == new]
        return outcome

    return find


def test_every_change_is_accounted_for(made, exercise):
    jobs = make_mechanical_jobs([exercise], MechanicalOptions())
    assert len(made[0]) == sum(len(job.numbers) for job in jobs) > 30


def test_a_change_that_a_check_fails_is_caught(what_became_of):
    outcome = what_became_of("return x + 0.0 - by")
    assert (outcome.verdict, outcome.how) == (ChangeVerdict.CAUGHT, "test_shifted")


def test_a_change_that_no_input_tells_is_equivalent_on_so_many(what_became_of):
    outcome = what_became_of("return x - 0.0 + by")
    assert (outcome.verdict, outcome.inputs) == (ChangeVerdict.EQUIVALENT, INPUTS)


def test_a_change_that_only_an_input_tells_is_a_hole_with_its_smallest_input(what_became_of):
    outcome = what_became_of("def shifted(x, by=2.0):")
    draws = list_draws("shifts")
    smallest = min(n for n in draws if n > 7)
    assert draws[0] != smallest, "the first is the smallest: this shows nothing"
    assert outcome.verdict is ChangeVerdict.HOLE
    assert (outcome.told.elements, outcome.told.calls) == (
        smallest,
        f"shifted(float32 ({smallest},))",
    )
    assert draws[outcome.told.number] == smallest
    assert outcome.told.why.startswith("value 0: differs by 1, beyond")


def test_a_loop_that_does_not_end_is_caught(what_became_of):
    assert what_became_of("while True:").verdict is ChangeVerdict.CAUGHT
    assert what_became_of("n = n - 0").how == "test_counted"


def test_a_change_that_ends_its_process_is_caught_and_the_next_ones_are_made(made):
    verdicts = {o.new: o.how for o in made[0] if o.where == "guarded"}
    assert verdicts["if True:"] == verdicts["if x is not None:"] == "ends the process (-9)"
    assert verdicts["if False:"] == ""  # made by the next process


def test_a_change_that_no_trial_calls_is_not_told_apart(what_became_of, made):
    outcome = [o for o in made[0] if o.where == "untried"][-1]
    assert (outcome.new, outcome.verdict) == ("return x", ChangeVerdict.UNTRIED)
    assert (
        "NOT TOLD APART (no trials) ex91_mechanical, line 23, untried: sign or not removed"
        in made[1]
    )


def test_only_inputs_that_run_the_changed_statement_are_tried(what_became_of):
    draws = list_draws("branches")
    large = sum(n > 20 for n in draws)
    assert 0 < large < INPUTS
    outcome = what_became_of("return n - 0")
    assert (outcome.verdict, outcome.inputs) == (ChangeVerdict.EQUIVALENT, large)
    assert what_became_of("return n + 1").verdict is ChangeVerdict.HOLE


def test_what_no_input_runs_is_not_told_apart(what_became_of):
    outcome = what_became_of("return n")  # for `return -n`
    assert (outcome.verdict, outcome.inputs) == (ChangeVerdict.UNTRIED, 0)


def test_where_checks_need_a_gpu_what_no_input_runs_may_be_code_for_it(exercise, monkeypatch):
    *others, last = suite_runner.list_suite_cases(exercise)
    on_gpu = replace(last, check=replace(last.check, cuda=True))
    monkeypatch.setattr(suite_runner, "list_suite_cases", lambda _: [*others, last, on_gpu])
    [change] = [c for c in list_mechanical_changes(exercise, "") if c.new == "return n"]
    proof = MechanicalProof(exercise, "", inputs=INPUTS, trials=False, seconds=0.5)
    outcome = proof.judge_change(change)
    assert outcome.verdict is ChangeVerdict.GPU_ONLY
    assert is_mechanical_proof_whole([outcome])


def test_a_check_that_breaks_on_a_change_is_a_fault_of_the_suite(what_became_of, made):
    outcome = [o for o in made[0] if o.where == "broken" and o.verdict is ChangeVerdict.FAULT]
    assert [o.new for o in outcome] == ["(removed)"]
    assert "FAULT OF THE SUITE ex91_mechanical" in made[1]


def test_the_table_counts_them(made):
    head, *_, row, total = made[1].splitlines()
    assert head.split()[0] == "changes"
    assert row.split()[0] == pack.SLUG
    assert row.split()[1:-1] == total.split()[1:-1]
    counted = [int(x.replace(",", "")) for x in row.split()[1:-1]]
    assert counted[0] == len(made[0]) == counted[1] + counted[2] + sum(counted[4:])
    assert counted[3] == sum(o.inputs for o in made[0] if o.verdict is ChangeVerdict.EQUIVALENT)


def test_the_row_of_an_exercise_is_handed_over_to_be_kept(made):
    [row] = made[2]
    assert (row.slug, row.changes) == (pack.SLUG, len(made[0]))


def test_it_is_whole_only_where_all_are_caught_or_equivalent(made):
    sound = [o for o in made[0] if o.verdict in (ChangeVerdict.CAUGHT, ChangeVerdict.EQUIVALENT)]
    assert is_mechanical_proof_whole(sound)
    for verdict in (ChangeVerdict.HOLE, ChangeVerdict.UNTRIED, ChangeVerdict.FAULT):
        [one, *_] = [o for o in made[0] if o.verdict is verdict]
        assert not is_mechanical_proof_whole([*sound, one])


def test_shards_have_every_change_once(exercise):
    def numbers(*shard):
        found = make_mechanical_jobs([exercise], MechanicalOptions(shard=shard))
        return [n for job in found for n in job.numbers]

    assert sorted(n for i in (1, 2, 3) for n in numbers(i, 3)) == numbers(1, 1)


def test_the_command_fails_for_a_hole_and_prints_its_row(exercise, monkeypatch):
    monkeypatch.setattr(
        mechanical_table, "list_mechanical_changes", lambda *_: [None]
    )  # the first alone
    options = ["--inputs", "8", "--processes", "1"]
    done = CliRunner().invoke(app, ["mechanical", pack.SLUG, *options])
    assert done.exit_code == 1
    assert "HOLE ex91_mechanical, line 6, shifted: default changed" in done.output
    assert re.search(rf"{pack.SLUG} +1 +0 +0 +\d+ +1 ", done.output)


def test_a_shard_that_is_none_is_refused():
    done = CliRunner().invoke(app, ["mechanical", "ex01", "--shard", "5/4"])
    assert done.exit_code == 2
    assert "'5/4' is no shard" in done.output


def asks_for_a_name_that_is_not_there(student, draw):
    yield student.missing()


def yields_nothing(student, draw):
    yield from ()


def does_not_end(student, draw):
    yield student.counted(10**12)


@pytest.mark.parametrize(
    "script, sentence",
    [
        (asks_for_a_name_that_is_not_there, "raises AttributeError"),
        (yields_nothing, "yields nothing"),
        (does_not_end, "takes more than 0.5 s"),
    ],
)
def test_a_trial_that_fails_on_the_right_answer_is_our_fault(exercise, script, sentence):
    right = load_text_without_wall(pack.SOLUTION, pack.SLUG, exercise.prelude)
    bad = Trial(id="bad", of=("shifted",), says="Bad.", script=script)
    with pytest.raises(GraderFault, match=f"trial bad, draw 0, {sentence}"):
        SideBySide(exercise, right, [bad], seconds=0.5).right_values(bad, 0)


def test_a_fault_of_ours_comes_out_of_its_process(exercise, tmp_path, monkeypatch):
    imports = pack.TRIALS.partition("@trial")[0]
    bad = '@trial(of="shifted")\ndef bad(student, draw):\n    """Bad."""\n    yield from ()\n'
    monkeypatch.setenv(packs.PACKS_VARIABLE, str(pack.write(tmp_path, imports + bad)))
    job = Job(slug=pack.SLUG, variant="", numbers=(0,), inputs=1, trials=False, seconds=0.5)
    with pytest.raises(GraderFault, match="trial bad, draw 0, yields nothing"):
        list(run_mechanical_jobs([job], 1))
