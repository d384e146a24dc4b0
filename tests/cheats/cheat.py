"""A cheat: a submission that wants what it did not earn. Its docstring says what it does.

Below the first paragraph of the docstring stand lines `key: value`:

    exercise   the slug; never that of the witness
    earns      what its honest part would earn, values and speed (0 if left out)
    device     "cuda": elsewhere its trick is none, and only its values are judged
    behind     the wall behind which it is to be tried, if there only the meters can stop it
    process    what happens behind the weakest wall, which cannot stop everything; it names every
               harm by its words (see `outcomes.Harm`)
    command    why its trick would be none in a process that has graded before: it is always
               graded by a command of its own, like cheats that bring files beside the answer
    call_seconds  the time limit of a call that never ends (4 if left out; without effect on a
               cheat that may earn something, see `outcomes.limits_of`)
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CALL_SECONDS = 4.0  # for a call where waiting can earn nothing
LISTS = ("machine", "verdict", "operator", "clock")  # the slowest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """One submission, the files that lie beside it, and what its docstring says."""

    kind: str
    name: str
    files: Mapping[str, Path]  # by their names beside the submission, the submission first
    does: str
    exercise: str
    earns: int = 0
    device: str = "cpu"
    behind: str = ""
    process: str = ""
    call_seconds: float = CALL_SECONDS
    command: str = ""

    @property
    def timed(self) -> bool:
        """Whether its trick is played on the measurement of speed, which takes a while."""
        return self.kind == "clock" and self.device == "cpu"

    @property
    def past_the_list(self) -> bool:
        """Whether it is run as if the list of what an answer may use had let it through.

        Else most cheats would try that list, and nothing that stands behind it.
        """
        return self.kind != "operator"

    @property
    def needs_command(self) -> bool:
        """Whether its trick is played on a process that starts.

        Files beside the answer are found when Python looks for modules for the first time.
        """
        return self.timed or len(self.files) > 1 or bool(self.command)


def all_cheats() -> list[Cheat]:
    """Every cheat, list by list, by name."""
    return [
        _read(kind, path)
        for kind in LISTS
        for path in sorted((HERE / kind).glob("*"))
        if path.suffix == ".py" or (path / "answer.py").is_file()
    ]


def _read(kind: str, path: Path) -> Cheat:
    answer = path / "answer.py" if path.is_dir() else path
    beside = [p for p in sorted(path.rglob("*")) if p.is_file()] if path.is_dir() else []
    does, _, rest = (ast.get_docstring(ast.parse(answer.read_text("utf-8"))) or "").partition(
        "\n\n"
    )
    said = dict(line.split(": ", 1) for line in rest.splitlines() if line.strip())
    exercise, earns = said.pop("exercise"), int(said.pop("earns", 0))
    call_seconds = float(said.pop("call_seconds", CALL_SECONDS))
    files = {
        str(p.relative_to(path)): p for p in beside if p != answer and "__pycache__" not in p.parts
    }
    return Cheat(
        kind=kind, name=path.stem, files={f"{exercise}.py": answer} | files,
        does=" ".join(does.split()), exercise=exercise, earns=earns, call_seconds=call_seconds, **said,
    )  # fmt: skip
