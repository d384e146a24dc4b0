"""Describes in sentences how two gradings of one answer differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.core.translation import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeChange:
    """One answer whose marks are others than when it was graded. None stands for no score."""

    student: str
    slug: str
    before: int | None
    after: int | None
    why: tuple[str, ...]
    by_hand: int = 0  # points that a person gave, which stay


def compare_graded_reports(
    student: str, before: dict[str, Any] | None, after: dict[str, Any]
) -> GradeChange | None:
    """Return how an exercise's report in JSON differs from an earlier one; None if it does not."""
    why = (
        ("it was not graded before",)
        if before is None
        else tuple(_list_grade_changes(before, after))
    )
    if not why:
        return None
    earlier = None if before is None else _sum_graded_points(before)
    return GradeChange(
        student=student,
        slug=after["slug"],
        before=earlier,
        after=_sum_graded_points(after),
        why=why,
    )


def _list_grade_changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each check whose verdict or points have changed."""
    if before["sha256"] != after["sha256"]:
        yield "another file was handed in"
    if before["state"] != after["state"]:
        yield f"{before['state']} before, {after['state']} now: {after['sentence']}".rstrip(": ")
    old = {check["id"]: check for check in before["checks"]}
    for check in after["checks"]:
        was = old.pop(check["id"], None)
        if was is None:
            yield f"new check: {check['says']} {check['verdict']}, {check['earned']} points"
        elif was["verdict"] == check["verdict"] and was["points"] != check["points"]:
            yield f"{check['says']} worth {was['points']} before, {check['points']} now"
        elif was["verdict"] != check["verdict"]:
            why = f": {check['why'].splitlines()[0]}" if check["why"] else ""
            yield f"{check['says']} {was['verdict']} before, {check['verdict']} now{why}"
    yield from (f"no such check any more: {check['says']}" for check in old.values())
    was, now = (_describe_graded_speed(report) for report in (before, after))
    if was != now:
        yield f"speed: {was} before, {now} now"


def _describe_graded_speed(report: dict[str, Any]) -> str:
    speed = report["speed"]
    return f"{speed['verdict']}, {speed['earned']} points" if speed else "none"


def _sum_graded_points(report: dict[str, Any]) -> int | None:
    return None if report["score"] is None else int(report["score"]["earned"])


def describe_grade_changes(
    changes: Sequence[GradeChange], words: Words, cure: str
) -> Iterator[str]:
    """Yield the changes in sentences; `cure` says how the new marks come into force."""
    if not changes:
        yield words("Nobody's score changes.")
    for one in changes:
        before, after = ("-" if n is None else n for n in (one.before, one.after))
        yield f"{one.student}  {one.slug}  {before} -> {after}"
        if one.by_hand:
            yield f"    {words('{points} points by hand stay', points=f'{one.by_hand:+}')}"
        yield from (f"    {reason}" for reason in one.why)
    if changes:
        yield words(cure)
