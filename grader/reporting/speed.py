"""What was measured of one exercise's speed or memory, as a person reads it in a terminal."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from grader.records import Measured, Speed

_WIDTH = 40  # cells between the zero and the reference


def lines(s: Speed) -> RenderableType:
    """The verdict, and below it the three parties on one scale."""
    head = Text.assemble(_sign(s), " ", s.says)
    head.append(f"  {s.earned}/{s.points}" if s.counts else f"  {s.why}", "dim")
    below = [Text(line) for line in s.why.splitlines()] if s.counts else []
    if s.measured is not None:
        below += [_scale(s.measured), *_words(s.measured)]
    return Group(head, *(Padding(line, (0, 0, 0, 4)) for line in below))


def _sign(s: Speed) -> Text:
    if not s.counts:
        return Text("○", style="dim")
    if s.earned == s.points:
        return Text("✓", style="green")
    return Text("✗", style="red") if s.earned == 0 else Text("◐", style="yellow")


def _scale(m: Measured) -> Text:
    """zero 40 ms ├────░●░──┤ reference 16 ms; the right end is 1.2 times the reference."""
    low, middle, high = (
        round(x * (_WIDTH - 1)) for x in (m.position.low, m.position.middle, m.position.high)
    )
    cells = ["─"] * _WIDTH
    cells[low : high + 1] = "░" * (high + 1 - low)
    cells[middle] = "●"
    zero, reference, _ = (_amount(x, m.unit) for x in m.typical)
    bar = ("".join(cells), "cyan")
    return Text.assemble(f"zero {zero} ├", bar, f"┤ reference {reference}")


def _words(m: Measured) -> list[Text]:
    yours = _amount(m.typical[2], m.unit)
    r, x = m.ratio, m.position
    said = [
        f"yours {yours}: {r.middle:.2f} times the reference ({r.low:.2f} to {r.high:.2f}), "
        f"at {x.middle:.2f} of the way ({x.low:.2f} to {x.high:.2f}); {len(m.rounds)} rounds"
    ]
    said += [f"{name}: {value}" for name, value in m.device.items()]
    return [Text(line, style="dim") for line in said]


def _amount(value: float, unit: str) -> str:
    """Seconds or bytes in a unit that fits."""
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    for factor, name in ((1.0, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e6:.3g} us"
