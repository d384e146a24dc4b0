"""The table exercise x check: how near right answers come to being rejected."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from grader.authoring import evidence
from grader.authoring.headroom import (
    SOLUTION,
    Headroom,
    Measured,
    Place,
    Rejection,
    measure_headroom,
)
from grader.core.records import Exercise


def print_headroom(
    exercises: Sequence[Exercise], seeds: int, console: Console, *, solutions: bool = True,
    variants: bool = True, write: bool = False,
) -> bool:  # fmt: skip
    """Print the table; return True if no right answer was rejected or beyond its limit.

    write  write the nearest result of each exercise into docs/evidence.md
    """
    found = measure_headroom(exercises, seeds, solutions=solutions, variants=variants)
    for line in table_lines(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if write:
        evidence.write_rows("headroom", COLUMNS, _evidence_rows(found, seeds))
    return found.right


COLUMNS = (
    *("answers", "seeds", "rejected", "nearest", "limit"),
    *("case", "measure", "answer", "seed"),
)  # fmt: skip


def _evidence_rows(found: Measured, seeds: int) -> list[list[str]]:
    """Return two rows per exercise: the results of solution and variants nearest to a limit."""
    rejected = Counter(_evidence_row_name(one.place) for one in found.rejections)
    nearest = {_evidence_row_name(one.place): one for one in reversed(found.least)}
    return [
        [
            *(name, str(seeds), str(rejected[name]), f"{one.ratio:.2f}", f"{one.limit:.2f}"),
            *(f"`{one.place.case}`", f"{one.subject}: {one.measure}"),
            *(one.place.answer, str(one.place.seed)),
        ]
        for name, one in nearest.items()
    ]


def _evidence_row_name(place: Place) -> str:
    """Return the name of a row: `ex03_sdpa`, or `ex03_sdpa variants`."""
    return place.slug if place.answer == SOLUTION else f"{place.slug} variants"


def _measured_slugs(found: Measured) -> list[str]:
    return sorted({one.place.slug for one in found.least})


def table_lines(found: Measured) -> list[str]:
    """Return the lines of the table: each check's least headroom, the rejections, a summary."""
    table = []
    for slug in _measured_slugs(found):
        table += ["", slug, *(_headroom_line(one) for one in least_by_check(found, slug))]
    beyond = [one for one in found.least if not one.within]
    checks = len({(one.place.slug, one.place.check) for one in found.least})
    return [
        *table,
        "",
        *(_rejection_line(one) for one in found.rejections),
        f"{found.cases} cases of right answers run, {len(found.rejections)} rejected; "
        f"{checks} checks compare within an allowance, and in {len(beyond)} places a right answer "
        "comes nearer to it than is allowed.",
    ]


def least_by_check(found: Measured, slug: str) -> list[Headroom]:
    """Return, for each check, the result that is nearest to its limit, the nearest result first.

    Also return every other result that exceeds its limit.
    """
    of_exercise = [one for one in found.least if one.place.slug == slug]
    nearest = {one.place.check: one for one in reversed(of_exercise)}
    return [one for one in of_exercise if not one.within or nearest[one.place.check] is one]


def _headroom_line(one: Headroom) -> str:
    sign = "within" if one.within else "BEYOND"
    what = f"{one.place.case}  {one.subject}: {one.measure}"
    return f"  {sign} {one.ratio:5.2f} of {one.limit:.2f}  {what}  {_answer_and_seed(one.place)}"


def _rejection_line(one: Rejection) -> str:
    return f"REJECTED {one.place.slug} {one.place.case} {_answer_and_seed(one.place)}: {one.why}"


def _answer_and_seed(place: Place) -> str:
    return f"({place.answer}, seed {place.seed})"
