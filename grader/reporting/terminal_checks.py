"""Draws checks for a person at a terminal: verdict, what went wrong, and what is known of it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from grader.core.diagnosis_records import Diagnosis
from grader.core.records import CheckResult, ExerciseReport, Verdict
from grader.core.translation import Words
from grader.reporting import fact_text, locations, pinned_text, stage_text
from grader.reporting.wrapped_text import STUCK, wrap_text

SIGNS = {
    Verdict.PASSED: Text("✓", style="green"),
    Verdict.FAILED: Text("✗", style="red"),
    Verdict.BLOCKED: Text("·", style="dim"),
    Verdict.NOT_RUN: Text("○", style="dim"),
    Verdict.GRADER_FAULT: Text("!", style="magenta"),
}
_SHOWN_LINES = 10  # lines of one failure


def render_terminal_checks(
    checks: Sequence[CheckResult], e: ExerciseReport, words: Words
) -> Iterator[RenderableType]:
    """Yield the checks; for neighbours that the same check blocks, the reason follows once."""
    for (verdict, why), some in groupby(checks, key=lambda c: (c.verdict, c.why)):
        group = list(some)
        if verdict is not Verdict.BLOCKED or len(group) == 1 or why == e.sentence:
            yield from (render_terminal_check(c, e, words) for c in group)
            continue
        yield from (wrap_text(_render_terminal_head(c, e, words)) for c in group)
        text = "these {count} are blocked by: {check}"
        blocker = _translate_reported_check(why, e, words)
        told = words(text, count=len(group), check=blocker)
        yield _indent_terminal_line(Text(told, style="dim"))


def _render_terminal_head(c: CheckResult, e: ExerciseReport, words: Words) -> Text:
    head = Text.assemble(SIGNS[c.verdict], " ", words.check(e.slug, c.id, c.says))
    if c.verdict is not Verdict.NOT_RUN:
        head.append(f"{2 * STUCK}{c.earned}/{c.points}", "dim")
    return head


def render_terminal_check(c: CheckResult, e: ExerciseReport, words: Words) -> Group:
    """Return one check, with what went wrong below it."""
    head = _render_terminal_head(c, e, words)
    match c.verdict:
        case Verdict.FAILED | Verdict.GRADER_FAULT:
            lines = [Text(line) for line in words.said(c.why).splitlines()[:_SHOWN_LINES]]
            known = _render_terminal_diagnosis(c.diagnosis, e.slug, words)
            return Group(
                wrap_text(head), *(_indent_terminal_line(line) for line in (*lines, *known))
            )
        case Verdict.BLOCKED if c.why != e.sentence:
            text = words("blocked by: {check}", check=_translate_reported_check(c.why, e, words))
            return Group(wrap_text(head), _indent_terminal_line(Text(text, style="dim")))
        case Verdict.NOT_RUN:
            return Group(wrap_text(Text.assemble(head, (f"  {words.said(c.why)}", "dim"))))
    return Group(wrap_text(head))


def _translate_reported_check(says: str, e: ExerciseReport, words: Words) -> str:
    """Translate the sentence of a check, found by its English."""
    return next((words.check(e.slug, c.id, c.says) for c in e.checks if c.says == says), says)


def _render_terminal_diagnosis(d: Diagnosis | None, slug: str, words: Words) -> Iterator[Text]:
    if d is None:
        return
    if where := locations.report_wrong_places(d.places, words):
        yield Text(where)
    for number, (says, mend) in enumerate(words.mistakes(slug, d.mistakes)):
        yield Text.assemble(words(d.link) if number else "", (says, "yellow"))
        if mend:
            yield Text(mend, style="dim")
    yield from map(Text, fact_text.report_facts(d.facts, words))
    if d.example is not None:
        yield Text(fact_text.report_small_example(d.example, words))
    if d.stage is not None:
        yield Text(stage_text.report_wrong_stage(d.stage, words))
        yield from (Text(line) for line in stage_text.render_stage_weights(d.stage, words))
    yield from map(Text, pinned_text.report_pinned_line(d.pinned, words))


def _indent_terminal_line(text: Text) -> Padding:
    return Padding(wrap_text(text), (0, 0, 0, 4))
