"""Prints what comes of every cheat behind every wall: `python -m tests.cheats [NAME ...]`.

A name is that of a cheat or of a list. Red is what a cheat does and does not admit to, or the
other way round; yellow is what the weakest wall is known not to stop.
"""

import sys

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Column, Table

from grader.core.catalog import suggest_close_name
from tests.cheats.cheat import Cheat, all_cheats
from tests.cheats.lanes import Lanes
from tests.cheats.outcomes import Outcome, admitted, run, working_walls


def main(names: list[str]) -> bool:
    """Print the table; whether every cheat did what it admits to, and no more."""
    cheats = _chosen(names)
    walls = working_walls()
    cases = [(cheat, wall) for cheat in cheats for wall in walls]
    console = Console()
    with Lanes(run) as lanes, Progress(console=console) as progress:
        futures = [lanes.submit(*case) for case in cases]
        outcomes = [f.result() for f in progress.track(futures, description="cheating")]
    console.print(_table(cheats, walls, outcomes))
    return all(o.harms.keys() == admitted(*case) for case, o in zip(cases, outcomes, strict=True))


def _chosen(names: list[str]) -> list[Cheat]:
    cheats = all_cheats()
    known = {c.name for c in cheats} | {c.kind for c in cheats}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"There is no cheat called {unknown[0]!r}.{suggest_close_name(unknown[0], known)}")
    return [c for c in cheats if not names or {c.name, c.kind} & set(names)]


def _table(cheats: list[Cheat], walls: list[str], outcomes: list[Outcome]) -> Table:
    table = Table(Column("Cheat", overflow="fold"), *walls)
    cells = iter(outcomes)
    for cheat in cheats:
        table.add_row(f"{cheat.kind}/{cheat.name}", *(_cell(cheat, w, next(cells)) for w in walls))
    return table


def _cell(cheat: Cheat, wall: str, outcome: Outcome) -> str:
    harm = "yellow" if outcome.harms else "green"
    colour = harm if outcome.harms.keys() == admitted(cheat, wall) else "red"
    return f"[{colour}]{escape(str(outcome))}[/]"


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
