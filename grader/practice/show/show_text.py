"""Draws a trace as text: steps with their shapes, tables of tokens, and gradients as bars."""

from collections.abc import Callable, Sequence

import numpy as np
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.core.translation import Words
from grader.practice.show.trace import Array, ShownStep, Trace
from grader.worker.parent.harmless_text import clean_worker_text

SHADES = " ░▒▓█"
BARS = " ▁▂▃▄▅▆▇█"
Cell = Callable[[float], Text]


def show_trace_lines(trace: Trace, words: Words) -> RenderableType:
    """Return everything that a trace holds."""
    if not trace.embedding:
        return Group(*(_show_step_tables(trace, step, words) for step in trace.grids))
    parts: list[RenderableType] = [
        _show_trace_heading(trace, words),
        _show_steps_table(trace, words),
        *_show_called_functions(trace, words),
        *_show_problem_sentences(trace, words),
    ]
    if (wrong := trace.first_wrong) is not None:
        says = words("The first step that differs: {step}.", step=words(wrong.name))
        parts.append(Text(says, style="yellow"))
    parts += [_show_step_tables(trace, step, words) for step in trace.grids]
    return Group(*parts, *_show_gradient_bars(trace, words))


def show_number_table(
    values: Array, rows: Sequence[str], columns: Sequence[str], cell: Cell | None = None
) -> Table:
    """Return a table of numbers with tokens as labels; without `cell`, shaded by size."""
    show = cell or _show_shaded_cell(values)
    drawn = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    drawn.add_column("", no_wrap=True)
    for column in columns:
        drawn.add_column(Text(column), justify="right", no_wrap=True)
    for label, row in zip(rows, values, strict=True):
        drawn.add_row(Text(label), *(show(value) for value in row))
    return drawn


def format_shown_number(value: float) -> str:
    """Format a value: `.43`, `-.30`, `1.50`, `12.3`; without a point it is exact: `0`, `1`."""
    if not np.isfinite(value):
        return str(float(value))
    if abs(value) < 10 and value == round(value):
        return str(int(value))
    if abs(value) >= 9.995:
        return f"{value:.3g}"
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.2f}"


def _show_trace_heading(trace: Trace, words: Words) -> Text:
    one_hot = trace.embedding == "one-hot"
    kind = words("(one-hot embeddings)") if one_hot else words("(drawn embeddings)")
    text = Text.assemble((trace.title, "bold"), "  ", " ".join(trace.tokens))
    return text.append(f"  {kind}", "dim")


def _show_steps_table(trace: Trace, words: Words) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    beside = any(step.yours is not None or step.problem for step in trace.steps)
    for heading in ("Step", "Axes", "Shape", *["Yours"] * beside):
        drawn.add_column(words(heading), no_wrap=heading != "Yours")
    for step in trace.steps:
        cells = (words(step.name), Text(step.letters, "dim"), str(step.reference.shape))
        drawn.add_row(*cells, *[_show_step_verdict(step, words)] * beside)
    return drawn


def _show_called_functions(trace: Trace, words: Words) -> list[Text]:
    """Say which functions of the answer were called, and which were not."""
    names = dict.fromkeys(s.call.partition("(")[0] for s in trace.steps if s.call)
    if not names:
        return []
    says = words("Called in your file: {names}.", names=words(", ").join(names))
    if left := [name for name in trace.functions if name not in names]:
        others = words("Not called here: {names}.", names=words(", ").join(left))
        says = words.joined(says, others)
    return [Text(clean_worker_text(says), "dim")]


def _show_step_verdict(step: ShownStep, words: Words) -> Text:
    if step.yours is None and step.problem:
        return Text(words("cannot be compared"), "red")
    if step.yours is None:
        return Text(words("given") if step.given else words("internal, not returned"), "dim")
    if np.isinf(step.largest):
        return Text(words(_describe_not_finite(step)), "red")
    if step.differs:
        return Text(
            words("differs by up to {most}", most=format_shown_number(step.largest)), "yellow"
        )
    return Text(words("the same"), "green")


def _describe_not_finite(step: ShownStep) -> str:
    assert step.yours is not None
    if np.isnan(step.yours).any():
        return "not a number (NaN)"
    if (np.isinf(step.yours) & np.isfinite(step.reference)).any():
        return "infinite where it should be finite"
    return "finite where it should be infinite"


def _show_problem_sentences(trace: Trace, words: Words) -> list[Text]:
    """Say why steps are missing, each sentence once."""
    problems = [line for s in trace.steps for line in s.problem.splitlines()]
    once = dict.fromkeys([*problems, *trace.problems])
    return [Text(words.said(clean_worker_text(line)), style="red") for line in once if line]


def _show_step_tables(trace: Trace, step: ShownStep, words: Words) -> RenderableType:
    head = trace.head or 0
    rows, columns = trace.rows(step), trace.columns(step)
    title = words(step.name)
    if step.tables > 1:
        title += words(", head {head} of {heads}", head=head, heads=step.tables)
    beside: list[RenderableType] = []
    reference = show_number_table(_show_head_table(step, step.reference, head), rows, columns)
    if step.yours is not None:
        yours = show_number_table(_show_head_table(step, step.yours, head), rows, columns)
        beside.append(_show_with_title(words("Yours"), yours))
        beside.append(_show_with_title(words("Reference"), reference))
    else:
        beside.append(
            _show_with_title(words("Reference"), reference) if trace.embedding else reference
        )
    if step.differs and step.difference is not None:
        difference = show_number_table(
            _show_head_table(step, step.difference, head), rows, columns, _show_signed_cell
        )
        beside.append(_show_with_title(words("Difference"), difference))
    return Group(Text(f"\n{title}", style="bold"), Columns(beside, padding=(0, 3)))


def _show_head_table(step: ShownStep, values: Array, head: int) -> Array:
    found = step.table(values, head)
    assert found is not None
    return found


def _show_with_title(title: str, drawn: RenderableType) -> Group:
    return Group(Text(title, style="dim"), drawn)


def _show_shaded_cell(values: Array) -> Cell:
    """Return a drawer of cells: numbers with a block as dark as they are large; masks as blocks."""
    if values.dtype == bool:
        return lambda value: Text("█" if value else "·")
    size = np.abs(values[np.isfinite(values)])
    top = max(1.0, float(size.max(initial=0.0)))

    def cell(value: float) -> Text:
        if not np.isfinite(value):
            return Text(format_shown_number(value), style="red")
        shade = SHADES[_choose_shown_shade(abs(value) / top, len(SHADES))]
        return Text(f"{shade}{format_shown_number(value)}")

    return cell


def _show_signed_cell(value: float) -> Text:
    if value == 0:
        return Text("·", style="dim")
    return Text(
        f"{'+' if value > 0 else ''}{format_shown_number(value)}", "red" if value > 0 else "blue"
    )


def _choose_shown_shade(share: float, levels: int) -> int:
    """Return the index of a share among `levels` equal parts of 0 to 1; only 0 has index 0."""
    return 0 if share <= 0 else min(levels - 1, 1 + int(share * (levels - 1)))


def _show_gradient_bars(trace: Trace, words: Words) -> list[RenderableType]:
    """Return a line of bars for each input, as tall as the gradient is long; yours come first."""
    if not trace.flows:
        return []
    columns = trace.columns(trace.grids[-1])
    rows = trace.rows(trace.grids[-1])
    told = "Gradient of the {step} at {token} by each input"
    title = words(told, step=words(trace.target), token=repr(rows[trace.row]))
    drawn = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    drawn.add_column("")
    drawn.add_column("")
    for column in columns:
        drawn.add_column(Text(column), justify="right", no_wrap=True)
    for flow in trace.flows:
        top = max(float(np.nan_to_num(x).max(initial=0.0))
                  for x in (flow.reference, flow.yours) if x is not None)  # fmt: skip
        for who, norms in (("Yours", flow.yours), ("Reference", flow.reference)):
            if norms is not None:
                blank = [""] * (len(columns) - len(norms))
                bars = [_show_gradient_bar(x, top) for x in norms]
                drawn.add_row(Text(flow.name), Text(words(who), "dim"), *blank, *bars)
    return [Text(f"\n{title}", style="bold"), drawn]


def _show_gradient_bar(value: float, top: float) -> Text:
    if not np.isfinite(value):
        return Text(format_shown_number(value), style="red")
    share = value / top if top else 0.0
    return Text(f"{BARS[_choose_shown_shade(share, len(BARS))]}{format_shown_number(value)}")
