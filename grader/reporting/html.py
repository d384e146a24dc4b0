"""Draws the report as one self-contained HTML page.

The page loads nothing and runs no script; its policy forbids both. The template escapes all text of
a submission: its path, its errors, its output.
"""

import math
import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from grader.core import catalog
from grader.core.advice import fit_advice
from grader.core.diagnosis_records import Diagnosis
from grader.core.records import (
    CheckResult,
    ExerciseReport,
    Report,
    Score,
    Speed,
    SpeedMeasurement,
    Verdict,
)
from grader.core.translation import Words
from grader.reporting import fact_text, locations, pinned_text, speed_text, stage_text
from grader.reporting.kept_text import report_unchanged_answer
from grader.reporting.next_step import choose_reported_next_step
from grader.submission import answer_file

LANGUAGE_TAGS = {"en": "en", "zh": "zh-Hans"}  # for `lang`
_CODE_SPAN = re.compile("`([^`]+)`")

# A colour, a sign, and a word for those who see neither.
Look = tuple[str, str, str]
_LOOKS: dict[Verdict, Look] = {
    Verdict.PASSED: ("good", "✓", "passed"),
    Verdict.FAILED: ("bad", "✗", "failed"),
    Verdict.BLOCKED: ("quiet", "·", "waiting"),
    Verdict.NOT_RUN: ("quiet", "○", "not run"),
    Verdict.GRADER_FAULT: ("fault", "!", "grader fault"),
}


def render_html_report(report: Report, words: Words) -> str:
    """Return the report as an HTML page in the language of `words`."""
    return render_report_template(
        "report.html.j2", words, report=report, step=choose_reported_next_step(report)
    )


def render_html_verdicts(e: ExerciseReport, words: Words, first: CheckResult | None) -> list[str]:
    """Return two parts of a page: the check `first` in full, and all other checks below it."""
    return [
        render_report_template("verdicts.html.j2", words, e=e, first=first, part=part)
        for part in ("first", "others")
    ]


def render_report_template(template: str, words: Words, **values: object) -> str:
    """Render a template with the parts that every page shares."""
    drawn = _load_report_templates().get_template(template)
    return drawn.render(words=words, tell=_Tell(words), tags=LANGUAGE_TAGS, **values)


@cache
def _load_report_templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"prose": mark_up_reported_code, "percent": _render_html_percent}
    environment.filters |= {"share": _limit_html_share, "advice": fit_advice}
    environment.filters |= {"shade": _render_html_opacity, "tone": _choose_html_tone}
    environment.filters |= {"look": _LOOKS.__getitem__, "speed_look": _choose_html_speed_look}
    return environment


def mark_up_reported_code(text: str) -> Markup:
    """Mark the `code` in a sentence as code; all its other text stays text."""
    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(escape(text))))


def _render_html_percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _limit_html_share(share: float) -> float:
    """Return a share within 0 and 1; 0 for one that is NaN."""
    return min(1.0, max(0.0, share)) if share == share else 0.0


def _render_html_opacity(weight: float) -> str:
    """Return the opacity of a weight, from 0 to 1; "" for a weight that is NaN or infinite."""
    return f"{min(1.0, max(0.0, weight)):.3f}" if math.isfinite(weight) else ""


def _choose_html_speed_look(s: Speed) -> Look:
    if not s.counts:
        return "quiet", "○", "not run"
    if s.earned == s.points:
        return "good", "✓", "passed"
    return ("bad", "✗", "failed") if s.earned == 0 else ("partly", "◐", "partly")


def _choose_html_tone(e: ExerciseReport) -> str:
    """Return the colour of an exercise as a whole."""
    if e.score is None:
        return "fault"
    if e.state == "not_started" or not e.score.possible:
        return "quiet"
    if e.state == "graded" and e.score.earned == e.score.possible:
        return "good"
    return "partly" if e.score.earned else "bad"


class _Tell:
    """The functions of the report's templates, in the language of the page."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def title(self, e: ExerciseReport) -> str:
        return self._words.title(catalog.find_catalog_exercise(e.slug))

    def lesson(self, e: ExerciseReport) -> str:
        return answer_file.locate_lesson_of_submission(e.slug, self._words.language)

    def check(self, e: ExerciseReport, c: CheckResult) -> str:
        return self._words.check(e.slug, c.id, c.says)

    def blocker(self, e: ExerciseReport, c: CheckResult) -> CheckResult | None:
        """Find the check that blocks another, by its sentence in the blocked one's `why`."""
        return next((other for other in e.checks if other.says == c.why), None)

    def blocked_by(self, e: ExerciseReport, first: CheckResult | None) -> list[CheckResult]:
        """Return the checks that `first` blocks."""
        return [c for c in e.checks if c.verdict is Verdict.BLOCKED and first is not None
                and self.blocker(e, c) is first]  # fmt: skip

    def places(self, d: Diagnosis) -> str:
        return locations.report_wrong_places(d.places, self._words)

    def facts(self, d: Diagnosis) -> list[str]:
        """Return a sentence for each property that the answer lacks, and the small example."""
        told = list(fact_text.report_facts(d.facts, self._words))
        shown = [fact_text.report_small_example(d.example, self._words)] if d.example else []
        return told + shown

    def pinned(self, d: Diagnosis) -> list[str]:
        """Return a sentence about the line of the first wrong value, if it is known."""
        return list(pinned_text.report_pinned_line(d.pinned, self._words))

    def stage(self, d: Diagnosis) -> str:
        return stage_text.report_wrong_stage(d.stage, self._words) if d.stage else ""

    def maps(self, d: Diagnosis) -> list[tuple[str, list[list[float]]]]:
        """Return heat maps of the weights of a small example, each with its name."""
        return stage_text.report_stage_maps(d.stage, self._words) if d.stage else []

    def mistakes(self, e: ExerciseReport, d: Diagnosis) -> list[tuple[str, str]]:
        """Return what each mistake is, and how to mend it."""
        return self._words.mistakes(e.slug, d.mistakes)

    def measured(self, m: SpeedMeasurement) -> list[str]:
        return speed_text.report_speed_measurement(m, self._words)

    def ends(self, m: SpeedMeasurement) -> tuple[str, str]:
        """Return the labels of the two ends of the scale."""
        return speed_text.render_speed_scale_ends(m, self._words)

    def not_run(self, score: Score) -> str:
        """Say how many points were not run; "" if all were run."""
        if score.not_run == 1:
            return self._words("1 point not run")
        return self._words("{points} points not run", points=score.not_run) * bool(score.not_run)

    def unchanged(self, e: ExerciseReport) -> str:
        """Say since when an exercise has not changed; "" if it was judged in this run."""
        return report_unchanged_answer(e, self._words)

    def state(self, e: ExerciseReport) -> str:
        """Return the state of an exercise in a few words."""
        match e.state:
            case "graded":
                return self._passed_checks_sentence(e)
            case "not_started":
                return self._words("not started yet")
            case "fault":
                return self._words("grader fault: no score")
            case "received":
                return self._words("handed in")
            case "refused":
                return self._words("not graded: it uses something that is not allowed")
        return self._words("not graded")

    def _passed_checks_sentence(self, e: ExerciseReport) -> str:
        asked = [c for c in e.checks if c.verdict is not Verdict.NOT_RUN]
        passed = sum(c.verdict is Verdict.PASSED for c in asked)
        if not asked:
            return self._words("nothing was run")
        if passed == len(asked) and (e.speed is None or e.speed.verdict != "failed"):
            return self._words("all right")
        return self._words("{passed} of {asked} checks passed", passed=passed, asked=len(asked))
