"""Prints the measured speed or memory of one exercise for a terminal."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from grader.core.records import Speed, SpeedMeasurement
from grader.core.scoring import MARGIN
from grader.core.translation import Words

_SCALE_CELLS = 40  # cells between the zero and the reference


def render_speed_report(s: Speed, slug: str, words: Words = Words()) -> RenderableType:  # noqa: B008 (frozen)
    """Return the verdict, and below it the three parties on one scale."""
    why = words.said(s.why)
    head = Text.assemble(_render_speed_sign(s), " ", words.speed(slug, s.says))
    head.append(f"  {s.earned}/{s.points}" if s.counts else f"  {why}", "dim")
    below = [Text(line) for line in why.splitlines()] if s.counts else []
    if s.measured is not None:
        below += [
            _render_speed_scale(s.measured, words),
            *(Text(line, style="dim") for line in report_speed_measurement(s.measured, words)),
        ]
    return Group(head, *(Padding(line, (0, 0, 0, 4)) for line in below))


def _render_speed_sign(s: Speed) -> Text:
    if not s.counts:
        return Text("○", style="dim")
    if s.earned == s.points:
        return Text("✓", style="green")
    return Text("✗", style="red") if s.earned == 0 else Text("◐", style="yellow")


def _render_speed_scale(m: SpeedMeasurement, words: Words) -> Text:
    """zero 40 ms ├────░●░──┤ 1.2 times the reference: 19.2 ms"""
    low, middle, high = (
        round(x * (_SCALE_CELLS - 1)) for x in (m.position.low, m.position.middle, m.position.high)
    )
    cells = ["─"] * _SCALE_CELLS
    cells[low : high + 1] = "░" * (high + 1 - low)
    cells[middle] = "●"
    zero, full = render_speed_scale_ends(m, words)
    return Text.assemble(f"{zero} ├", ("".join(cells), "cyan"), f"┤ {full}")


def render_speed_scale_ends(m: SpeedMeasurement, words: Words) -> tuple[str, str]:
    """Return the labels of the two ends of the scale: x = 0 and x = 1."""
    zero, reference, _ = m.typical
    full = "1.2 times the reference: {amount}"
    return (
        words("zero {amount}", amount=format_reported_amount(zero, m.unit)),
        words(full, amount=format_reported_amount(MARGIN * reference, m.unit)),
    )


def report_speed_measurement(m: SpeedMeasurement, words: Words) -> list[str]:
    """Describe the measurement in words, and then the device that it ran on."""
    r, x = m.ratio, m.position
    numbers = {"ratio": r.middle, "low": r.low, "high": r.high, "x": x.middle, "x_low": x.low,
               "x_high": x.high}  # fmt: skip
    text = (
        "yours {amount}: {ratio} times the reference ({low} to {high}), at {x} of the way "
        "({x_low} to {x_high}); {rounds} rounds"
    )
    rounded = {name: f"{value:.2f}" for name, value in numbers.items()}
    first = words(
        text, amount=format_reported_amount(m.typical[2], m.unit), rounds=len(m.rounds), **rounded
    )
    return [first, *(f"{name}: {value}" for name, value in m.device.items())]


def format_reported_amount(value: float, unit: str) -> str:
    """Format seconds or bytes in a unit that fits the value."""
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    for factor, name in ((1.0, "s"), (1e3, "ms")):
        if value * factor >= 0.9995:  # what three digits would round up to 1
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e6:.3g} us"
