"""Lists a report for platforms: an item for each check, and one for speed, in plain text."""

from collections.abc import Iterator
from dataclasses import dataclass

from grader.core.grade_ids import SPEED
from grader.core.records import CheckResult, ExerciseReport, Speed, Verdict
from grader.core.translation import Words
from grader.reporting import fact_text, locations, pinned_text, speed_text, stage_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportItem:
    """One line of a mark: a check, or the speed."""

    id: str
    says: str
    verdict: Verdict
    points: int
    earned: int
    told: str  # the explanation below it, in lines
    seconds: float = 0.0

    @property
    def counts(self) -> bool:
        """Return whether the item's points could be earned in this run."""
        return self.verdict is not Verdict.NOT_RUN


def list_report_items(e: ExerciseReport, words: Words) -> Iterator[ReportItem]:
    """Yield the items of an exercise. If it could not be graded, every check has failed."""
    for check in e.checks:
        lost = check.verdict is Verdict.BLOCKED and e.state != "graded"
        yield ReportItem(
            id=check.id,
            says=words.check(e.slug, check.id, check.says),
            verdict=Verdict.FAILED if lost else check.verdict,
            points=check.points,
            earned=check.earned,
            told="\n".join(_render_item_explanation(check, e, words)),
            seconds=check.seconds,
        )
    if e.speed is not None:
        yield _build_speed_report_item(e.speed, e.slug, words)


def _render_item_explanation(c: CheckResult, e: ExerciseReport, words: Words) -> Iterator[str]:
    if c.verdict is Verdict.BLOCKED and e.state == "graded":
        blocker = next((words.check(e.slug, o.id, o.says) for o in e.checks if o.says == c.why), "")
        yield words("blocked by: {check}", check=blocker or c.why)
        return
    yield from words.said(c.why).splitlines()
    if c.diagnosis is None:
        return
    if where := locations.report_wrong_places(c.diagnosis.places, words):
        yield where
    for number, told in enumerate(words.mistakes(e.slug, c.diagnosis.mistakes)):
        yield f"{words(c.diagnosis.link) if number else ''}{words.joined(*told)}"
    yield from fact_text.report_facts(c.diagnosis.facts, words)
    if c.diagnosis.example is not None:
        yield fact_text.report_small_example(c.diagnosis.example, words)
    if c.diagnosis.stage is not None:
        yield stage_text.report_wrong_stage(c.diagnosis.stage, words)
    yield from pinned_text.report_pinned_line(c.diagnosis.pinned, words)


def _build_speed_report_item(s: Speed, slug: str, words: Words) -> ReportItem:
    verdict = Verdict.PASSED if s.earned else Verdict.FAILED  # what it earned stands beside it
    measured = [] if s.measured is None else speed_text.report_speed_measurement(s.measured, words)
    return ReportItem(
        id=SPEED,
        says=words.speed(slug, s.says),
        verdict=verdict if s.counts else Verdict.NOT_RUN,
        points=s.points,
        earned=s.earned,
        told="\n".join([*words.said(s.why).splitlines(), *measured]),
    )
