"""The proof of the suites, run once for all tests that read it."""

import pytest

from grader.authoring.proof import KINDS_BESIDE_MISTAKES, NAMES_BY_KIND, Proof, run_proofs
from grader.authoring.proof_store import ProofStore
from grader.core import catalog

EXERCISES = [e for e in catalog.list_catalog_exercises() if not e.draft]


@pytest.fixture(scope="session")
def proofs(request) -> dict[tuple[str, str], Proof]:
    """Every proof but the naming, by kind and exercise; what did not change is read from the store.

    Only the exercises of the tests that run: `-k ex18` proves one.
    """
    given = (item.callspec.params for item in request.session.items if hasattr(item, "callspec"))
    slugs = {params["exercise"].slug for params in given if "exercise" in params}
    wanted = [e for e in EXERCISES if e.slug in slugs]
    return {
        (p.kind, p.exercise.slug): p
        for p in run_proofs(wanted, ("caught", *KINDS_BESIDE_MISTAKES), ProofStore())
    }


@pytest.fixture
def proof(proofs):
    """proof(kind, exercise): the results by name; the test is skipped if they cannot be had."""

    def of(kind, exercise):
        found = proofs[kind, exercise.slug]
        if found.lacking:
            pytest.skip(f"{exercise.slug} {found.lacking}")
        assert list(found.results) == NAMES_BY_KIND[kind](exercise)
        return found.results

    return of
