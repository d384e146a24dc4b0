"""Prints the report for a person at a terminal."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from grader.core import catalog, sealed_bundle
from grader.core.records import CheckResult, ExerciseReport, Report, Verdict
from grader.core.translation import Words
from grader.reporting import speed_text
from grader.reporting.kept_text import report_unchanged_answer
from grader.reporting.next_step import StepKind, choose_reported_next_step, point_to_hint
from grader.reporting.redact import RECEIVED_STATE
from grader.reporting.terminal_checks import render_terminal_check, render_terminal_checks
from grader.submission import answer_file

_SHOWN_OUTPUT_LINES = 10  # lines of what a submission printed


def print_terminal_report(report: Report, console: Console, words: Words = Words()) -> None:  # noqa: B008 (frozen)
    """Draw the report: a table, what went wrong, and the first thing to do next."""
    print_terminal_verdicts(report, console, words)
    _print_terminal_next_step(report, console, words)


def print_timed_report(report: Report, console: Console, words: Words) -> None:
    """Draw what timing adds to the verdicts, which have been drawn."""
    console.print()
    _print_terminal_tables(report, console, words)
    if len(report.exercises) == 1 and (speed := report.exercises[0].speed) is not None:
        console.print(speed_text.render_speed_report(speed, report.exercises[0].slug, words))
    _print_terminal_next_step(report, console, words)


def print_terminal_verdicts(report: Report, console: Console, words: Words) -> None:
    """Draw the table, and what went wrong."""
    _print_terminal_tables(report, console, words)
    single = len(report.exercises) == 1
    for exercise in report.exercises:
        if single or exercise.state in ("refused", "fault"):
            console.print(_render_terminal_details(exercise, words))
        elif exercise.state == "graded" and (failed := _find_reported_failure(exercise)):
            console.print(
                _render_terminal_headline(exercise, words),
                render_terminal_check(failed, exercise, words),
                sep="\n",
            )


def print_terminal_difference(
    before: ExerciseReport, again: ExerciseReport, seed: str, console: Console, words: Words
) -> None:
    """Say that a kept result did not come out again, and draw the verdicts that differ."""
    told = (
        "{slug} was judged again with new inputs, and differs from its kept result, which is "
        "removed. SEED={seed} repeats these inputs."
    )
    console.print(f"\n{words(told, slug=again.slug, seed=seed)}", highlight=False, markup=False)
    earlier = {check.id: check.verdict for check in before.checks}
    for check in again.checks:
        if check.verdict != earlier.get(check.id):
            console.print(render_terminal_check(check, again, words))
    if again.sentence:
        console.print(Text(words.said(again.sentence)))


def _print_terminal_tables(report: Report, console: Console, words: Words) -> None:
    apart = report.further if report.core else ()
    console.print(_render_terminal_table(report, report.core or report.further, words, total=True))
    if apart:
        console.print()
        console.print(words("Optional exercises, not counted in the total"), style="bold")
        console.print(_render_terminal_table(report, apart, words, total=False))


def _print_terminal_next_step(report: Report, console: Console, words: Words) -> None:
    console.print(_render_terminal_next_step(report, words))
    console.print(_render_terminal_footer(report, words), style="dim", highlight=False)


def _render_terminal_table(
    report: Report, exercises: Sequence[ExerciseReport], words: Words, *, total: bool
) -> RenderableType:
    """Return a table with a row for each exercise, and below several core exercises the total."""
    score, core = report.score, bool(report.core)
    table = Table(
        box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=total,
        show_footer=total and core and len(report.exercises) > 1 and score.possible > 0,
    )  # fmt: skip
    table.add_column(words("Exercise"), footer=words("Total"))
    table.add_column(words("Points"), justify="right", footer=f"{score.earned}/{score.possible}")
    table.add_column("", footer=_report_points_not_run(score.not_run, words))
    for e in exercises:
        draft = (f"{words('draft')} · ", "yellow") if e.track == "draft" else ""
        unchanged = report_unchanged_answer(e, words)
        since = (f" · {unchanged}", "dim") if unchanged else ""
        table.add_row(
            e.slug,
            _render_terminal_points(e),
            Text.assemble(draft, _render_terminal_state(e, words), since),
        )
    return table


def _render_terminal_points(e: ExerciseReport) -> Text:
    if e.score is None or e.state == RECEIVED_STATE:
        return Text("-", style="magenta" if e.score is None else "")
    style = "green" if e.score.earned == e.score.possible > 0 else ""
    return Text(f"{e.score.earned}/{e.score.possible}", style=style)


def _render_terminal_state(e: ExerciseReport, words: Words) -> Text:
    match e.state:
        case "graded":
            return Text(_report_graded_state(e, words))
        case "not_started":
            lesson = answer_file.locate_lesson_of_submission(e.slug, words.language)
            return Text(words("not started yet: {lesson}", lesson=lesson), style="dim")
        case "fault":
            return Text(words("grader fault: no score"), style="magenta")
        case "received":
            return Text(words.said(e.sentence))
        case "refused":
            return Text(words("not graded: it uses something that is not allowed"), style="red")
    return Text(words.said(e.sentence), style="red")


def _report_graded_state(e: ExerciseReport, words: Words) -> str:
    passed = sum(c.verdict is Verdict.PASSED for c in e.checks)
    asked = sum(c.verdict is not Verdict.NOT_RUN for c in e.checks)
    wrong = passed < asked or (e.speed is not None and e.speed.verdict == "failed")
    told = "{passed} of {asked} checks passed" if wrong else "all right"
    text = words(told if asked else "nothing was run", passed=passed, asked=asked)
    if e.speed is not None and e.speed.counts:
        text += words(", speed {earned} of {points}", earned=e.speed.earned, points=e.speed.points)
    if e.score is not None and e.score.not_run:
        text += words(
            "; {points} ({reasons})",
            points=_report_points_not_run(e.score.not_run, words),
            reasons=_report_reasons_not_run(e, words),
        )
    return text


def _report_points_not_run(points: int, words: Words) -> str:
    if points < 2:
        return words("1 point not run") if points else ""
    return words("{points} points not run", points=points)


def _report_reasons_not_run(e: ExerciseReport, words: Words) -> str:
    reasons = [c.why for c in e.checks if c.verdict is Verdict.NOT_RUN]
    if e.speed is not None and not e.speed.counts:
        reasons.append(e.speed.why)
    return words(", ").join(map(words.said, dict.fromkeys(reasons)))


def _render_terminal_headline(e: ExerciseReport, words: Words) -> Text:
    title = words.title(catalog.find_catalog_exercise(e.slug))
    return Text.assemble("\n", (title, "bold"), "  ", (e.path, "dim"))


def _render_terminal_details(e: ExerciseReport, words: Words) -> Group:
    """Return every check of one exercise, with what went wrong below it."""
    parts: list[RenderableType] = [_render_terminal_headline(e, words)]
    if e.sentence and e.state in ("graded", "fault", "refused"):  # else it stands in the table
        parts.append(Text(words.said(e.sentence)))
    if e.state in ("graded", "fault"):
        parts += render_terminal_checks(e.checks, e, words)
        if e.speed is not None:
            parts.append(speed_text.render_speed_report(e.speed, e.slug, words))
    if e.output:
        parts.append(Text(words("It printed:"), style="dim"))
        printed = e.output.splitlines()
        if len(printed) > _SHOWN_OUTPUT_LINES:
            printed = [*printed[:_SHOWN_OUTPUT_LINES], "..."]
        parts += [Text(f"  | {line}", style="dim") for line in printed]
    return Group(*parts)


def _find_reported_failure(e: ExerciseReport) -> CheckResult | None:
    return next((c for c in e.checks if c.verdict is Verdict.FAILED), None)


def _render_terminal_next_step(report: Report, words: Words) -> Text:
    """Say the first thing to do."""
    step = choose_reported_next_step(report)
    e, check = step.exercise, step.check
    if e is None:
        if step.kind is StepKind.WAIT:
            return Text(f"\n{words('It was read. What it is worth is not shown here.')}")
        if step.kind is StepKind.NOT_RUN:
            return Text(f"\n{words('No check could be run here.')}")
        if step.kind is StepKind.NOTHING:
            return Text(f"\n{words('All checks passed.')}", style="green")
        fault = "The grader itself failed on an exercise marked above. Please report it."
        return Text(f"\n{words(fault)}")
    path, shows_all = (e.path, "bold"), words(" (make grade EX={slug} shows all)", slug=e.slug)
    todo = Text.assemble("\n", words("Next: "), path, ": ")
    several = len(report.exercises) > 1
    match step.kind:
        case StepKind.START:
            lesson = answer_file.locate_lesson_of_submission(e.slug, words.language)
            read, write = words("Next: read "), words(", then write ")
            return Text.assemble("\n", read, (lesson, "bold"), write, path)
        case StepKind.MEND_FILE:
            return Text.assemble(todo, words("mend what is said above"))
        case StepKind.MEND_CHECK if check is not None:
            says = _report_what_to_mend(e, check, words)
            hint = point_to_hint(e, words)
            own = report.seed is not None  # a learner's own run
            return Text.assemble(
                todo, says, shows_all if several else "", f"\n{hint}" if own else ""
            )
        case StepKind.MEND_SPEED if e.speed is not None:
            return Text.assemble(todo, words.speed(e.slug, e.speed.says), shows_all)
    how = words(" (make grade EX={slug} shows how it was timed)", slug=e.slug)
    return Text.assemble("\n", words("Right, and it could be faster: "), path, how)


def _report_what_to_mend(e: ExerciseReport, check: CheckResult, words: Words) -> str:
    """Return the sentence of the mistake that a failed check shows, or else of the check."""
    known = check.diagnosis.mistakes[:1] if check.diagnosis else ()
    for one in known:
        return words.mistake(e.slug, one.id, one.says, one.mend)[0]
    return words.check(e.slug, check.id, check.says)


def _render_terminal_footer(report: Report, words: Words) -> str:
    seconds = f"{report.seconds:.1f}"
    about = "device {device}, wall {wall}, {seconds} s"
    lines = [words(about, device=report.device, wall=report.isolation, seconds=seconds)]
    if report.seed is not None and report.seed.startswith(sealed_bundle.STORED_CASES_PREFIX):
        about = "{seed}: the stored cases of a sealed bundle, for practice; marks are advisory"
        lines.append(words(about, seed=report.seed))
    elif report.seed is not None and _has_reported_seed(report):
        lines.append(words("seed {seed} (SEED={seed} repeats this run's inputs)", seed=report.seed))
    if any(report_unchanged_answer(e, words) for e in report.exercises):
        lines.append(words("what is unchanged was judged earlier (FRESH=1 judges it again)"))
    if len(report.exercises) == 1 and report.exercises[0].sha256:
        lines.append(f"sha256 {report.exercises[0].sha256}")
    return "\n".join(escape(line) for line in lines)


def _has_reported_seed(report: Report) -> bool:
    """Return whether an exercise had the inputs of the report's seed; kept ones may have others."""
    return any(not e.kept_since or e.kept_seed == report.seed for e in report.exercises)
