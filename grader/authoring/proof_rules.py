"""The law about what `make mutants` found; running it again takes minutes, so its store is read."""

from collections.abc import Iterator

from grader.authoring.mutants import CaughtMistake
from grader.authoring.proof_store import ProofStore
from grader.authoring.proof_table import list_unproved_mistake_problems
from grader.core.records import Exercise
from grader.judging import suite_runner


def check_caught_law(exercise: Exercise) -> Iterator[str]:
    """Every mistake fails the check that it names, and no report names only other mistakes for it,
    as far as `make mutants` has been run on the files as they are."""
    store = ProofStore()
    # Those with names come last: they say all that the others say.
    found = store.read_results("caught", exercise) | store.read_results("mistakes", exercise)
    for mistake in suite_runner.list_suite_mistakes(exercise):
        if mistake.id in found:
            one = CaughtMistake.from_dict(mistake, found[mistake.id])
            for problem in list_unproved_mistake_problems(one):
                yield f"{problem}. Make the check stricter, or take the mistake out."
