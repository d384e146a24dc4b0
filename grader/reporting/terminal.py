"""The report as a person reads it in a terminal."""

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader import submission
from grader.records import CheckResult, ExerciseReport, Report, Verdict
from grader.reporting import speed

_SIGNS = {
    Verdict.PASSED: Text("✓", style="green"),
    Verdict.FAILED: Text("✗", style="red"),
    Verdict.BLOCKED: Text("·", style="dim"),
    Verdict.NOT_RUN: Text("○", style="dim"),
    Verdict.GRADER_FAULT: Text("!", style="magenta"),
}
_SHOWN_OUTPUT = 10  # lines of what a submission printed
_SHOWN_LINES = 10  # lines of one failure


def show(report: Report, console: Console) -> None:
    """Draw the report: a table, what went wrong, and the first thing to do next."""
    single = len(report.exercises) == 1
    console.print(_table(report))
    for exercise in report.exercises:
        if single or exercise.state in ("refused", "fault"):
            console.print(_details(exercise))
        elif exercise.state == "graded" and (failed := _first_failure(exercise)):
            console.print(_headline(exercise), _line(failed), sep="\n")
    console.print(_next(report))
    console.print(_footer(report), style="dim", highlight=False)


def _table(report: Report) -> RenderableType:
    several, total = len(report.exercises) > 1, report.score
    table = Table(box=None, pad_edge=False, show_footer=several, padding=(0, 1, 0, 0))
    table.add_column("Exercise", footer="Total")
    table.add_column("Points", justify="right", footer=f"{total.earned}/{total.worth}")
    table.add_column("", footer=_not_run(total.not_run))
    for e in report.exercises:
        table.add_row(e.slug, _points(e), _state(e))
    return table


def _points(e: ExerciseReport) -> Text:
    if e.score is None:
        return Text("-", style="magenta")
    style = "green" if e.score.earned == e.score.possible else ""
    return Text(f"{e.score.earned}/{e.score.worth}", style=style)


def _state(e: ExerciseReport) -> Text:
    match e.state:
        case "graded":
            passed = sum(c.verdict is Verdict.PASSED for c in e.checks)
            asked = sum(c.verdict is not Verdict.NOT_RUN for c in e.checks)
            text = "all right" if passed == asked else f"{passed} of {asked} checks passed"
            if e.speed is not None and e.speed.verdict == "scored":
                text += f", speed {e.speed.earned} of {e.speed.points}"
            if e.score is not None and e.score.not_run:
                text += f"; {_not_run(e.score.not_run)}{_why_not(e)}"
            return Text(text)
        case "not_started":
            return Text(f"not started yet: {submission.lesson_path(e.slug)}", style="dim")
        case "fault":
            return Text("grader fault: no score", style="magenta")
        case "refused":
            return Text("not graded: it uses something that is not allowed", style="red")
    return Text(e.sentence, style="red")


def _not_run(points: int) -> str:
    return f"{points} point{'s' * (points != 1)} not run" if points else ""


def _why_not(e: ExerciseReport) -> str:
    reasons = [c.why for c in e.checks if c.verdict is Verdict.NOT_RUN]
    if e.speed is not None and not e.speed.counts:
        reasons.append(e.speed.why)
    return f" ({', '.join(dict.fromkeys(reasons))})"


def _headline(e: ExerciseReport) -> Text:
    return Text.assemble("\n", (e.title, "bold"), "  ", (e.path, "dim"))


def _details(e: ExerciseReport) -> Group:
    """Every check of one exercise, with what went wrong below it."""
    parts: list[RenderableType] = [_headline(e)]
    if e.sentence:
        parts.append(Text(e.sentence))
    if e.state in ("graded", "fault"):
        parts += [_line(check) for check in e.checks]
        if e.speed is not None:
            parts.append(speed.lines(e.speed))
    if e.output:
        parts.append(Text("It printed:", style="dim"))
        printed = e.output.splitlines()[:_SHOWN_OUTPUT]
        parts += [Text(f"  | {line}", style="dim") for line in printed]
    return Group(*parts)


def _line(c: CheckResult) -> Group:
    head = Text.assemble(_SIGNS[c.verdict], " ", c.says)
    head.append(f"  {c.earned}/{c.points}" if c.verdict is not Verdict.NOT_RUN else "", "dim")
    match c.verdict:
        case Verdict.FAILED | Verdict.GRADER_FAULT:
            lines = c.why.splitlines()[:_SHOWN_LINES]
            return Group(head, *(_indented(Text(line)) for line in lines))
        case Verdict.BLOCKED:
            return Group(head, _indented(Text(f"waits for: {c.why}", style="dim")))
        case Verdict.NOT_RUN:
            return Group(Text.assemble(head, (f"  {c.why}", "dim")))
    return Group(head)


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 4))


def _first_failure(e: ExerciseReport) -> CheckResult | None:
    return next((c for c in e.checks if c.verdict is Verdict.FAILED), None)


def _next(report: Report) -> Text:
    """The first thing to do."""
    if report.faulted:
        return Text("\nThe grader itself failed on an exercise marked above. Please report it.")
    for e in report.exercises:
        if e.state == "not_started":
            lesson = submission.lesson_path(e.slug)
            todo = ("\nNext: read ", (lesson, "bold"), ", then write ", (e.path, "bold"))
            return Text.assemble(*todo)
        if e.state != "graded":
            return Text.assemble("\nNext: ", (e.path, "bold"), f": {e.sentence}")
        if failed := _first_failure(e):
            command = "" if len(report.exercises) == 1 else f" (make grade EX={e.slug} shows all)"
            return Text.assemble("\nNext: ", (e.path, "bold"), f": {failed.says}{command}")
    for e in report.exercises:
        if e.speed is not None and e.speed.counts and e.speed.earned < e.speed.points:
            return Text.assemble("\nRight, and it could be faster: ", (e.path, "bold"),
                                 f" (make grade EX={e.slug} shows how it was timed)")  # fmt: skip
    return Text("\nEverything that was asked is right.", style="green")


def _footer(report: Report) -> str:
    lines = [f"device {report.device}, wall {report.isolation}, {report.seconds:.1f} s"]
    if report.seed is not None:
        lines.append(f"seed {report.seed} (SEED={report.seed} repeats this run's inputs)")
    if len(report.exercises) == 1 and report.exercises[0].sha256:
        lines.append(f"sha256 {report.exercises[0].sha256}")
    return "\n".join(escape(line) for line in lines)
