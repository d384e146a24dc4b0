"""The folder in which a cheat is graded: a copy of the course that may be broken, and its bait."""

import compileall
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from grader import catalog
from grader.catalog import ROOT
from grader.records import Limits
from tests.cheats.cheat import Cheat

WITNESS = "ex11_positions"  # quickly judged: the honest answer that is graded after the cheat
HURRIED = Limits(call_seconds=4, exercise_seconds=24)  # where waiting can earn nothing
COURSE = ("grader", "reference", "solutions", "exercises", "docs/lessons")
LOOSE = ("Makefile", "pyproject.toml")
SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # where everybody may write
MARK = "abh-cheat-"  # how the names of what a cheat leaves there begin


# Once, so that no run has to: a copy of a file keeps the time by which its bytecode is known.
compileall.compile_dir(ROOT / "grader", quiet=1)


class Room:
    """course/, submissions/, others/ (another student's answer), outside/ and tmp/.

    In the text of a cheat @COURSE@, @OTHERS@ and @OUTSIDE@ stand for these folders, and `MARK`
    becomes a mark of this room's own.
    """

    def __init__(self, cheat: Cheat) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="cheat-"))
        self.path.chmod(0o755)  # a wall may run the worker as somebody else
        self._mark = f"{MARK}{secrets.token_hex(4)}-"
        may_earn = cheat.earns or cheat.process
        self.limits = catalog.find(cheat.exercise).limits if may_earn else HURRIED
        for name in ("submissions", "others", "outside", "tmp"):
            (self.path / name).mkdir()
        self._copy_the_course(cheat)
        shutil.copy(ROOT / f"solutions/{cheat.exercise}.py", self.path / "others")
        shutil.copy(ROOT / f"solutions/{WITNESS}.py", self.path / "submissions")
        self._hand_in(cheat)
        self._before = self._digests()

    def __enter__(self) -> "Room":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        rubbish = [self.path, *self._shared()]
        subprocess.run(["chmod", "-R", "u+rwx", *rubbish], capture_output=True)
        subprocess.run(["rm", "-rf", *rubbish], check=True)

    def changed(self) -> list[str]:
        """Files whose content, mode or presence is not what it was; links are not followed."""
        now = self._digests()
        paths = self._before.keys() | now.keys()
        return sorted(p for p in paths if self._before.get(p) != now.get(p))

    def left(self, *, also_in_tmp: bool) -> list[str]:
        """Files where nobody may leave any."""
        tmp = (self.path / "tmp").iterdir() if also_in_tmp else ()
        return [p.name for p in (*(self.path / "outside").iterdir(), *tmp, *self._shared())]

    def _copy_the_course(self, cheat: Cheat) -> None:
        course = self.path / "course"
        for name in COURSE:
            shutil.copytree(ROOT / name, course / name)
        for name in LOOSE:
            shutil.copy(ROOT / name, course)
        manifest = course / f"grader/suites/{cheat.exercise}/exercise.toml"
        manifest.write_text(_limited(manifest.read_text("utf-8"), self.limits), encoding="utf-8")

    def _hand_in(self, cheat: Cheat) -> None:
        for name, file in cheat.files.items():
            place = self.path / "submissions" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self._worded(file.read_text("utf-8")), encoding="utf-8")

    def _worded(self, text: str) -> str:
        for folder in ("course", "others", "outside"):
            text = text.replace(f"@{folder.upper()}@", str(self.path / folder))
        return text.replace(MARK, self._mark)

    def _shared(self) -> list[Path]:
        return [p for place in SHARED for p in Path(place).glob(f"{self._mark}*")]

    def _digests(self) -> dict[str, str]:
        found = {}
        for folder in ("course", "submissions", "others"):
            for path in [self.path / folder, *(self.path / folder).rglob("*")]:
                status = os.lstat(path)
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                digest = hashlib.sha256(content).hexdigest()
                found[str(path.relative_to(self.path))] = f"{status.st_mode:o} {digest}"
        return found


def _limited(manifest: str, limits: Limits) -> str:
    for name in ("call_seconds", "exercise_seconds"):
        manifest = re.sub(f"(?m)^{name} = .*", f"{name} = {getattr(limits, name)}", manifest)
    return manifest
