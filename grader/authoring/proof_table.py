"""The table of `make mutants`: which check catches which mistake, and which other proofs fail."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from grader.authoring import evidence
from grader.authoring.mutants import CaughtMistake
from grader.authoring.proof import KINDS_BESIDE_MISTAKES, Proof, run_proofs
from grader.authoring.proof_store import ProofStore
from grader.core.records import Exercise
from grader.judging import suite_runner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofCounts:
    """The counted results of one exercise's proofs."""

    mistakes: int = 0
    caught: int = 0
    named: int = 0  # to the student, alone or with a mistake that answers alike
    alone: int = 0
    falsely: int = 0
    variants: int = 0
    right: int = 0
    drills: int = 0
    wrong: tuple[str, ...] = ()  # a line for each proof that fails

    def __add__(self, other: "ProofCounts") -> "ProofCounts":
        sums = {n: getattr(self, n) + getattr(other, n) for n in COLUMNS}
        return ProofCounts(**sums, wrong=self.wrong + other.wrong)


COLUMNS = ("mistakes", "caught", "named", "alone", "falsely", "variants", "right", "drills")


def print_proof(
    exercises: Sequence[Exercise],
    console: Console,
    store: ProofStore | None,
    *,
    each: bool,
    write: bool,
) -> bool:
    """Run the proofs and print the table; return True if all pass.

    each   print a line for each mistake too: the check that catches it, and its name in a report
    write  write the rows of the table into docs/evidence.md
    """
    started = time.monotonic()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("proving", total=1.0)
        proofs = run_proofs(
            exercises,
            ("mistakes", *KINDS_BESIDE_MISTAKES),
            store,
            lambda share: progress.update(bar, completed=share),
        )
    found = {e.slug: count_proof_results([p for p in proofs if p.exercise == e]) for e in exercises}
    total = sum(found.values(), ProofCounts())
    rows = [_build_proof_row(name, one) for name, one in {**found, "all": total}.items()]
    table = Table("exercise", *COLUMNS, box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*row)
    if each:
        for line in (
            line for p in proofs if p.kind == "mistakes" for line in _write_proved_mistakes(p)
        ):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    console.print(table)
    for line in total.wrong:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    told = "Everything holds" if not total.wrong else f"{len(total.wrong)} things do not hold"
    console.print(f"{told} ({time.monotonic() - started:.0f} s).")
    if write:
        cells = [[*_build_proof_row(name, one), str(len(one.wrong))] for name, one in found.items()]
        columns = (*COLUMNS, "problems")
        evidence.write_evidence_rows("mutants", ("exercise", *columns), cells, sums=columns)
    return not total.wrong


def _build_proof_row(name: str, found: ProofCounts) -> list[str]:
    return [name, *(str(getattr(found, column)) for column in COLUMNS)]


def _write_proved_mistakes(proof: Proof) -> Iterator[str]:
    """Yield a line for each mistake."""
    known = {m.id: m for m in suite_runner.list_suite_mistakes(proof.exercise)}
    for name, result in proof.results.items():
        one, mistake = CaughtMistake.from_dict(known[name], result), known[name]
        told = "" if one.named == (name,) else f"  named: {', '.join(one.named) or 'not at all'}"
        null = "  (a null answer)" if mistake.null else ""
        sign = "caught" if one.right else "MISSED"
        yield f"{sign} {mistake.of}: {name} -> {mistake.caught_by}{null}{told}"


def count_proof_results(proofs: Sequence[Proof]) -> ProofCounts:
    """Count the results of the proofs about one exercise."""
    return sum((_COUNTERS_BY_KIND[p.kind](p) for p in proofs), ProofCounts())


def _count_proved_mistakes(proof: Proof) -> ProofCounts:
    known = {m.id: m for m in suite_runner.list_suite_mistakes(proof.exercise)}
    found = [CaughtMistake.from_dict(known[id], result) for id, result in proof.results.items()]
    wrong = [
        f"{proof.exercise.slug} {line}" for c in found for line in list_unproved_mistake_problems(c)
    ]
    return ProofCounts(
        mistakes=len(found),
        caught=sum(c.right for c in found),
        named=sum(c.mistake.id in c.named for c in found),
        alone=sum(c.named == (c.mistake.id,) for c in found),
        falsely=sum(_is_mistake_falsely_proved(c) for c in found),
        wrong=tuple(wrong),
    )


def list_unproved_mistake_problems(one: CaughtMistake) -> list[str]:
    """Return a line for each way in which the suite fails on one mistake."""
    found = [f"{one.mistake.id} is a fault of ours: {fault}" for fault in one.faults]
    found += [f"{one.mistake.id}, a null answer, passes {check}" for check in one.earned]
    if one.verdict.value != "failed":
        found.append(f"{one.mistake.id} is {one.verdict} by {one.mistake.caught_by}")
    if _is_mistake_falsely_proved(one):
        found.append(f"{one.mistake.id} is called {', '.join(one.named)}")
    return found


def _is_mistake_falsely_proved(one: CaughtMistake) -> bool:
    return bool(one.named) and one.mistake.id not in one.named


def _count_proved_variants(proof: Proof) -> ProofCounts:
    wrong = _write_proof_points_lost(proof)
    bad = sum(bool(r["lost"]) for r in proof.results.values())
    return ProofCounts(variants=len(proof.results), right=len(proof.results) - bad, wrong=wrong)


def _count_proof_points_lost(proof: Proof) -> ProofCounts:
    return ProofCounts(wrong=_write_proof_points_lost(proof))


def _write_proof_points_lost(proof: Proof) -> tuple[str, ...]:
    found = ((name, line) for name, r in proof.results.items() for line in r["lost"])
    return tuple(f"{proof.exercise.slug} {proof.kind} {name}: {line}" for name, line in found)


def _count_proved_drills(proof: Proof) -> ProofCounts:
    right = [name for name, result in proof.results.items() if not result["fault"]]
    wrong = tuple(f"{proof.exercise.slug} drill {name} is right already" for name in right)
    return ProofCounts(drills=len(proof.results), wrong=wrong)


_COUNTERS_BY_KIND = {
    "mistakes": _count_proved_mistakes,
    "variants": _count_proved_variants,
    "solution": _count_proof_points_lost,
    "skeleton": _count_proof_points_lost,
    "drills": _count_proved_drills,
}
