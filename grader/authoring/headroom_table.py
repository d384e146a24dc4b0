"""The table exercise x check: how near right answers come to being rejected."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from grader.authoring import evidence
from grader.authoring.headroom import (
    SOLUTION,
    Headroom,
    HeadroomPlace,
    MeasuredHeadroom,
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
    for line in build_headroom_table(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if write:
        evidence.write_evidence_rows("headroom", COLUMNS, _build_headroom_evidence(found, seeds))
    return found.right


COLUMNS = (
    *("answers", "seeds", "rejected", "nearest", "limit"),
    *("case", "measure", "answer", "seed"),
)  # fmt: skip


def _build_headroom_evidence(found: MeasuredHeadroom, seeds: int) -> list[list[str]]:
    """Return two rows per exercise: the results of solution and variants nearest to a limit."""
    rejected = Counter(_name_headroom_evidence(one.place) for one in found.rejections)
    nearest = {_name_headroom_evidence(one.place): one for one in reversed(found.least)}
    return [
        [
            *(name, str(seeds), str(rejected[name]), f"{one.ratio:.2f}", f"{one.limit:.2f}"),
            *(f"`{one.place.case}`", f"{one.subject}: {one.measure}"),
            *(one.place.answer, str(one.place.seed)),
        ]
        for name, one in nearest.items()
    ]


def _name_headroom_evidence(place: HeadroomPlace) -> str:
    """Return the name of a row: `ex03_sdpa`, or `ex03_sdpa variants`."""
    return place.slug if place.answer == SOLUTION else f"{place.slug} variants"


def _list_headroom_slugs(found: MeasuredHeadroom) -> list[str]:
    return sorted({one.place.slug for one in found.least})


def build_headroom_table(found: MeasuredHeadroom) -> list[str]:
    """Return the lines of the table: each check's least headroom, the rejections, a summary."""
    table = []
    for slug in _list_headroom_slugs(found):
        table += [
            "",
            slug,
            *(_write_headroom_line(one) for one in find_least_headroom(found, slug)),
        ]
    beyond = [one for one in found.least if not one.within]
    checks = len({(one.place.slug, one.place.check) for one in found.least})
    return [
        *table,
        "",
        *(_write_headroom_rejection(one) for one in found.rejections),
        f"{found.cases} cases of right answers run, {len(found.rejections)} rejected; "
        f"{checks} checks compare within an allowance, and in {len(beyond)} places a right answer "
        "comes nearer to it than is allowed.",
    ]


def find_least_headroom(found: MeasuredHeadroom, slug: str) -> list[Headroom]:
    """Return, for each check, the result that is nearest to its limit, the nearest result first.

    Also return every other result that exceeds its limit.
    """
    of_exercise = [one for one in found.least if one.place.slug == slug]
    nearest = {one.place.check: one for one in reversed(of_exercise)}
    return [one for one in of_exercise if not one.within or nearest[one.place.check] is one]


def _write_headroom_line(one: Headroom) -> str:
    sign = "within" if one.within else "BEYOND"
    what = f"{one.place.case}  {one.subject}: {one.measure}"
    return (
        f"  {sign} {one.ratio:5.2f} of {one.limit:.2f}  {what}  {_write_headroom_answer(one.place)}"
    )


def _write_headroom_rejection(one: Rejection) -> str:
    return (
        f"REJECTED {one.place.slug} {one.place.case} {_write_headroom_answer(one.place)}: {one.why}"
    )


def _write_headroom_answer(place: HeadroomPlace) -> str:
    return f"({place.answer}, seed {place.seed})"
