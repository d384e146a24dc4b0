"""The table exercise x check -> how near right answers come to being rejected."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from grader.authoring import evidence
from grader.authoring.headroom import SOLUTION, Headroom, Measured, Place, Rejection, measure
from grader.core.records import Exercise


def show(
    exercises: Sequence[Exercise], seeds: int, console: Console, *, solutions: bool = True,
    variants: bool = True, write: bool = False,
) -> bool:  # fmt: skip
    """Print the table; True if no right answer was rejected or came too near to that.

    write  write its rows into docs/evidence.md: the nearest result of each exercise
    """
    found = measure(exercises, seeds, solutions=solutions, variants=variants)
    for line in lines(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if write:
        evidence.write("headroom", COLUMNS, _rows(found, seeds))
    return found.right


COLUMNS = (
    *("answers", "seeds", "rejected", "nearest", "limit"),
    *("case", "measure", "answer", "seed"),
)  # fmt: skip


def _rows(found: Measured, seeds: int) -> list[list[str]]:
    """A row for the solution of each exercise and one for its variants: the nearest result."""
    rejected = Counter(_answers(one.place) for one in found.rejections)
    nearest = {_answers(one.place): one for one in reversed(found.least)}
    return [
        [
            *(name, str(seeds), str(rejected[name]), f"{one.ratio:.2f}", f"{one.limit:.2f}"),
            *(f"`{one.place.case}`", f"{one.subject}: {one.measure}"),
            *(one.place.answer, str(one.place.seed)),
        ]
        for name, one in nearest.items()
    ]


def _answers(place: Place) -> str:
    """The answers that a row is about: `ex03_sdpa`, or `ex03_sdpa variants`."""
    return place.slug if place.answer == SOLUTION else f"{place.slug} variants"


def _slugs(found: Measured) -> list[str]:
    return sorted({one.place.slug for one in found.least})


def lines(found: Measured) -> list[str]:
    """The table as lines: the least headroom of every check, the rejections, and a summary."""
    table = []
    for slug in _slugs(found):
        table += ["", slug, *(_line(one) for one in least_by_check(found, slug))]
    beyond = [one for one in found.least if not one.within]
    checks = len({(one.place.slug, one.place.check) for one in found.least})
    return [
        *table,
        "",
        *(_rejected(one) for one in found.rejections),
        f"{found.cases} cases of right answers run, {len(found.rejections)} rejected; "
        f"{checks} checks compare within an allowance, and in {len(beyond)} places a right answer "
        "comes nearer to it than is allowed.",
    ]


def least_by_check(found: Measured, slug: str) -> list[Headroom]:
    """The result nearest to its limit for each check of an exercise, the nearest first.

    Results beyond their limits are all there, whoever the answer is.
    """
    of_exercise = [one for one in found.least if one.place.slug == slug]
    nearest = {one.place.check: one for one in reversed(of_exercise)}
    return [one for one in of_exercise if not one.within or nearest[one.place.check] is one]


def _line(one: Headroom) -> str:
    sign = "within" if one.within else "BEYOND"
    what = f"{one.place.case}  {one.subject}: {one.measure}"
    return f"  {sign} {one.ratio:5.2f} of {one.limit:.2f}  {what}  {_origin(one.place)}"


def _rejected(one: Rejection) -> str:
    return f"REJECTED {one.place.slug} {one.place.case} {_origin(one.place)}: {one.why}"


def _origin(place: Place) -> str:
    return f"({place.answer}, seed {place.seed})"
