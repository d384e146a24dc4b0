"""Writes SEALED.md, which says what a sealed bundle is and which checks it can run."""

from collections.abc import Mapping, Sequence

from grader.core.records import Exercise
from grader.judging import suite_runner
from grader.release.sealed.record_cases import Recorded

_PAGE_TEMPLATE = """\
# A sealed bundle

`make grade` works here as anywhere, but this bundle holds no right answers: no reference, no
catalogue of mistakes, no right variants. It grades with stored cases (inputs, expected values, and
the yardsticks from which the allowances follow) that were drawn when it was released. They lie in
`stored/`, as safetensors, and are the same in every run: release {seed}.

Use it for practice. The cases can be read by whoever has the bundle, so that an answer could be
made to know them, and whoever can change the grader can change what it says: marks at home are
advisory. The course grades with the whole project, on fresh cases.

本包不含任何正确答案，只用发布时存下的用例评分，供练习之用。在自己机器上的得分仅供参考；
课程评分用完整的项目和新抽取的用例。

| exercise | points here | checks that are left out |
|---|---|---|
{rows}
{missing}
Not here: points for speed, checks that need CUDA, `make bench`, `make show`, `make drill` and
`make class`, and the names of mistakes in a report. As far as the `help` of the course allows, a
report says where a wrong answer differs, and `make hint` works: the last hint of a function tells
in words nearly all of it.
"""


def write_sealed_page(
    exercises: Sequence[Exercise], recorded: Sequence[Recorded | tuple[str, str]], seed: str
) -> str:
    """Return the text of a bundle's SEALED.md."""
    stored = {r.slug: r for r in recorded if isinstance(r, Recorded)}
    rows = [
        _write_sealed_page_row(e, stored[e.slug].left_out) for e in exercises if e.slug in stored
    ]
    without = [one for one in recorded if not isinstance(one, Recorded)]
    missing = "".join(f"\n{slug} cannot be sealed: {why}.\n" for slug, why in without)
    return _PAGE_TEMPLATE.format(seed=seed, rows="\n".join(rows), missing=missing)


def count_sealed_points(exercise: Exercise, left_out: Mapping[str, str]) -> tuple[int, int]:
    """Return the points of the stored checks, and the points of all checks and of speed."""
    checks = suite_runner.list_suite_checks(exercise)
    case = suite_runner.find_suite_speed_case(exercise)
    whole = sum(c.points for c in checks) + (case.points if case else 0)
    return sum(c.points for c in checks if c.id not in left_out), whole


def _write_sealed_page_row(exercise: Exercise, left_out: Mapping[str, str]) -> str:
    remain, whole = count_sealed_points(exercise, left_out)
    reasons = dict.fromkeys(left_out.values())
    told = "; ".join(
        f"{', '.join(f'`{check}`' for check, why in left_out.items() if why == reason)} ({reason})"
        for reason in reasons
    )
    return f"| {exercise.slug} | {remain} of {whole} | {told or 'none'} |"
