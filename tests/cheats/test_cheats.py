"""Every cheat: it gains nothing, breaks nothing, leaves nothing, whatever stands before and after it.

What needs no clock is tried behind the weakest and the strongest wall, many cheats in one process.
The weekly run adds the walls between, the clock, and a command of its own for every cheat.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from importlib import import_module

import pytest

from grader.worker.parent.walls import PROCESS, WALL_NAMES
from tests.cheats import outcomes
from tests.cheats.cheat import CALL_SECONDS, Cheat, all_cheats
from tests.cheats.lanes import GradingProcesses, Lanes
from tests.cheats.outcomes import Outcome, admitted, working_walls
from tests.cheats.room import WITNESS

CHEATS = all_cheats()
WALLS = working_walls()
Asked = Callable[[Cheat, str], Outcome]
WORKER = "attention_worker."  # the package of the worker's modules in its own process


def case(cheat: Cheat, wall: str, *, weekly: bool) -> object:
    """A parameter of tests about what comes of a cheat behind a wall."""
    marks = [pytest.mark.weekly] if weekly else []
    return pytest.param(cheat, wall, id=f"{cheat.name}-{wall}", marks=marks)


UNTIMED = [
    case(cheat, wall, weekly=wall not in (WALLS[0], WALLS[-1]))
    for wall in WALLS
    for cheat in CHEATS
    if not cheat.timed
]
# Speed is tried against the strongest wall, or where the cheat would gain most.
TIMED = [case(c, c.behind or WALLS[-1], weekly=True) for c in CHEATS if c.timed]
IN_COMPANY = [case(c, WALLS[0], weekly=True) for c in CHEATS if not c.needs_command]


def answers(request: pytest.FixtureRequest, run: Asked) -> Iterator[Asked]:
    """Ask what came of a cheat. All that were selected run from the first question on."""
    name = request.fixturename
    chosen = [i.callspec.params for i in request.session.items if name in i.fixturenames]
    with Lanes(run) as lanes:
        runs = {(c["cheat"].name, c["wall"]): lanes.submit(c["cheat"], c["wall"]) for c in chosen}
        yield lambda cheat, wall: runs[cheat.name, wall].result()


@pytest.fixture(scope="session")
def outcome(request) -> Iterator[Asked]:
    """What came of a cheat, in a process that it shares with others unless it needs its own."""
    with GradingProcesses() as processes:
        yield from answers(
            request, lambda c, wall: (outcomes if c.needs_command else processes).run(c, wall)
        )


@pytest.fixture(scope="session")
def outcome_alone(request) -> Iterator[Asked]:
    """What came of a cheat that was graded by a command of its own."""
    yield from answers(request, outcomes.run)


@pytest.mark.parametrize("cheat, wall", [*UNTIMED, *TIMED])
def test_a_cheat_does_no_more_than_it_admits_to(cheat, wall, outcome):
    came = outcome(cheat, wall)
    assert came.harms.keys() <= admitted(cheat, wall), str(came)
    # What is stopped by now must not be said to happen; a gain of time needs an idle processor.
    if sys.platform == "linux" and not came.reference:
        assert came.harms.keys() == admitted(cheat, wall), f"stopped, but admits: {cheat.process}"
    if not came.harms:
        assert came.earned == cheat.earns, str(came)
    if cheat.timed:  # not measured, it would say nothing about the clock
        busy = ("inconclusive",) if wall == PROCESS.name else ()
        assert came.speed in ("scored", "failed", *busy), str(came)
    if cheat.kind == "machine":  # refused by its text, it would say nothing about the wall
        assert came.state in ("graded", "fault", ""), str(came)


@pytest.mark.parametrize("cheat, wall", IN_COMPANY)
def test_in_company_the_same_comes_of_a_cheat_as_alone(cheat, wall, outcome, outcome_alone):
    shared, alone = outcome(cheat, wall), outcome_alone(cheat, wall)
    assert shared.harms.keys() == alone.harms.keys(), f"{shared}, but alone: {alone}"
    assert (shared.state, shared.earned) == (alone.state, alone.earned)


def test_no_cheat_without_a_clock_is_left_out():
    asked = [(p.values[0].name, p.values[1]) for p in UNTIMED if not p.marks]
    both = dict.fromkeys((WALLS[0], WALLS[-1]))
    assert asked == [(c.name, wall) for wall in both for c in CHEATS if not c.timed]


def test_every_sin_has_a_file_of_its_own():
    names = [cheat.name for cheat in CHEATS]
    assert len(names) == len(set(names)) >= 50
    assert len({cheat.does for cheat in CHEATS}) == len(names)
    missing = {sin: name for sin, name in SINS.items() if name not in names}
    assert not missing


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_a_cheat_says_in_a_sentence_what_it_does(cheat):
    assert cheat.does.endswith(".")
    assert cheat.exercise != WITNESS
    assert cheat.behind in ("", *WALL_NAMES)
    assert bool(cheat.process) == bool(admitted(cheat, "process")), "it names no known harm"
    if cheat.call_seconds != CALL_SECONDS:
        assert cheat.call_seconds < CALL_SECONDS and not (cheat.earns or cheat.process)


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_what_a_cheat_names_in_the_worker_exists(cheat):
    """Else the cheat fails at its own mistake, and seems to be stopped."""
    for module, *names in worker_names(cheat):
        reduce(getattr, names, import_module(f"grader.worker.child.{module}"))


def test_a_cheat_that_names_a_module_of_the_worker_is_noticed():
    aimed = {name for cheat in CHEATS for name in worker_names(cheat)}
    assert ("frames", "send_frame") in aimed and ("executor", "Executor", "answer") in aimed


def worker_names(cheat: Cheat) -> set[tuple[str, ...]]:
    """Return the modules of the worker that a cheat looks up, with the attributes it names."""
    text = next(iter(cheat.files.values())).read_text("utf-8")
    tree = ast.parse(text if WORKER in text else "")  # one cheat nests too deeply to be parsed
    bound: dict[str, tuple[str, ...]] = {}

    def path(node: ast.AST) -> tuple[str, ...]:
        match node:
            case ast.Subscript(slice=ast.Constant(str(name))) if name.startswith(WORKER):
                return (name.removeprefix(WORKER),)
            case ast.Name(name):
                return bound.get(name, ())
            case ast.Attribute(value, name) if above := path(value):
                return (*above, name)
        return ()

    for node in ast.walk(tree):  # of a module its assignments come first
        match node:
            case ast.Assign([ast.Name(name)], value) if found := path(value):
                bound[name] = found
    return {found for node in ast.walk(tree) if (found := path(node))}


# The sins that a grader of code must know, in the words in which people speak of them.
SINS = {
    "os._exit(0)": "exits_with_success",
    "sys.exit": "raises_system_exit",
    "atexit": "reports_at_exit",
    "patched pytest": "patches_pytest",
    "patched numpy": "patches_numpy",
    "patched torch": "patches_torch",
    "a conftest.py beside the submission": "brings_a_conftest",
    "a sitecustomize.py beside the submission": "brings_a_sitecustomize",
    "a torch.py beside the submission": "brings_its_own_torch",
    "stack frames walked": "walks_the_stack",
    "gc searched": "searches_the_garbage",
    "the reference imported": "imports_the_reference",
    "the solution read from disk": "reads_the_solution",
    "the result pipe written to directly": "answers_before_it_is_asked",
    "a forged frame": "sends_verdicts_as_frames",
    "an oversized frame": "sends_an_oversized_frame",
    "junk on every open descriptor": "writes_junk_to_every_descriptor",
    "the parent's /proc read": "reads_the_environment_of_its_parents",
    "a tensor that lies about equality": "tensor_that_always_agrees",
    "a tensor that lies about its shape": "tensor_with_a_false_shape",
    "an array that lies about equality": "array_that_always_agrees",
    "NaN as a wildcard": "answers_nan",
    "a broadcastable shape": "answers_a_shape_that_broadcasts",
    "the input returned": "returns_its_input",
    "the input changed in place": "changes_its_input",
    "stale memory": "returns_stale_memory",
    "time patched": "patches_the_clock",
    "torch.cuda.Event patched": "patches_cuda_events",
    "synchronize patched": "patches_synchronize",
    "work left to a thread": "leaves_the_work_to_a_thread",
    "work left to another stream": "leaves_the_work_to_another_stream",
    "answers that come when they are looked at": "answers_lazily",
    "answers cached by pointer": "caches_by_pointer",
    "answers cached by value": "caches_by_value",
    "answers cached by call count": "caches_by_call_count",
    "work moved to import": "works_at_import",
    "the warm-up slowed": "slows_the_warm_up",
    "low precision on the sly": "computes_in_low_precision",
    "hard-coded shapes": "computes_what_is_verified",
    "the reference slowed down by a spinner": "slows_the_reference",
    "the reference slowed down by caches emptied": "runs_on_when_it_has_answered",
    "standing still undone by a timer": "wakes_itself_by_a_timer",
    "the answer of the round before": "caches_the_round_before",
    "the step before, in decoding": "answers_with_the_step_before",
    "answers kept in the memory of inputs": "answers_into_its_inputs",
    "a reply before there is an answer": "replies_before_it_has_computed",
    "the timed shape known": "drops_the_checks_when_timed",
    "a cache of the last keys only": "attends_to_the_last_keys",
    "a cache in half the bytes": "rounds_its_cache",
    "random sleeps": "sleeps_at_random",
    "more threads": "takes_more_threads",
    "more processors": "leaves_its_processor",
    "the work of two processes": "splits_its_work_among_processes",
    "the peak of memory set back": "resets_its_peak_memory",
    "pages too few to be missed": "copies_into_huge_pages",
    "memory of another process": "uses_another_process_for_memory",
    "memory taken at import": "takes_its_memory_at_import",
    "a fused operator called where it is not allowed": "uses_the_fused_attention",
    "endless loop": "loops_endlessly",
    "endless recursion": "recurses_endlessly",
    "64 GB allocation": "allocates_64_gigabytes",
    "fork bomb": "forks_endlessly",
    "10 GB file": "writes_a_10_gigabyte_file",
    "endless printing": "prints_endlessly",
    "sockets": "talks_over_the_network",
    "reading other submissions": "reads_another_students_answer",
    "killing the parent": "kills_its_parent",
    "ignoring SIGTERM": "ignores_sigterm",
    "closing every descriptor": "closes_every_descriptor",
    "a segmentation fault": "reads_far_outside_its_array",
    "10,000 threads": "starts_10000_threads",
}
