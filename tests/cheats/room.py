"""The folder in which cheats are graded: a copy of the course that may be broken, and its bait."""

import compileall
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from grader.core.catalog import ROOT
from grader.core.records import Limits
from tests.cheats.cheat import HERE, Cheat

WITNESS = "ex99_witness"  # of an honest answer, which is graded after every cheat
COURSE = ("grader", "reference", "solutions", "exercises", "docs/lessons")
LOOSE = ("Makefile", "pyproject.toml")
SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # where everybody may write
MARK = "abh-cheat-"  # how the names of what a cheat leaves there begin


# Once, so that no run has to: a copy of a file keeps the time by which its bytecode is known.
compileall.compile_dir(ROOT / "grader", quiet=1)


class Room:
    """course/, submissions/, others/ (another student's answer), outside/ and tmp/.

    In the text of a cheat @COURSE@, @OTHERS@ and @OUTSIDE@ stand for these folders, and `MARK`
    becomes a mark of this room's own. One cheat after another may be handed in.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="cheat-"))
        self.path.chmod(0o755)  # a wall may run the worker as somebody else
        self._mark = f"{MARK}{secrets.token_hex(4)}-"
        for name in ("submissions", "others", "outside", "tmp"):
            (self.path / name).mkdir()
        self._copy_the_course()
        self._looks: dict[str, _Look] = {}
        self._before: dict[str, str] = {}
        self._in_tmp: set[Path] = set()

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

    def hand_in(self, cheat: Cheat) -> None:
        """Put a cheat and the witness where answers lie, alone; what is there now may stay."""
        for name in ("submissions", "others"):
            shutil.rmtree(self.path / name)
            (self.path / name).mkdir()
        shutil.copy(ROOT / f"solutions/{cheat.exercise}.py", self.path / "others")
        shutil.copy(HERE / "witness/answer.py", self.path / f"submissions/{WITNESS}.py")
        for name, file in cheat.files.items():
            place = self.path / "submissions" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self._worded(file.read_text("utf-8")), encoding="utf-8")
        self._before, self._in_tmp = self._digests(), set((self.path / "tmp").iterdir())

    def open_the_list(self) -> None:
        """Let the course's grader run answers as if its list had let them through."""
        shutil.copy(HERE.parent / "open_list.py", self.path / "course")
        grade = self.path / "course/grader/grading/exercise.py"
        with grade.open("a", encoding="utf-8") as file:
            file.write("\n\nimport open_list\n\nadmission.admit_submission = open_list.admit\n")

    def limit(self, slug: str, limits: Limits) -> None:
        """Write the limits of an exercise into the course."""
        manifest = self.path / f"course/grader/suites/{slug}/exercise.toml"
        text = manifest.read_text("utf-8")
        for name in ("call_seconds", "exercise_seconds"):
            text = re.sub(f"(?m)^{name} = .*", f"{name} = {getattr(limits, name)}", text)
        manifest.write_text(text, encoding="utf-8")

    def changed(self, *, again: bool = False) -> list[str]:
        """Files whose content, mode or presence is not what it was; links are not followed.

        again  read every file, also where its status says that nobody has written to it
        """
        now = self._digests(again=again)
        paths = self._before.keys() | now.keys()
        return sorted(p for p in paths if self._before.get(p) != now.get(p))

    def left(self, *, also_in_tmp: bool) -> list[str]:
        """Files where nobody may leave any."""
        tmp = set((self.path / "tmp").iterdir()) - self._in_tmp if also_in_tmp else ()
        return [p.name for p in (*(self.path / "outside").iterdir(), *tmp, *self._shared())]

    def _copy_the_course(self) -> None:
        course = self.path / "course"
        for name in COURSE:
            shutil.copytree(ROOT / name, course / name)
        for name in LOOSE:
            shutil.copy(ROOT / name, course)
        suite = course / f"grader/suites/{WITNESS}"
        shutil.copytree(HERE / "witness", suite, ignore=lambda *_: {"answer.py", "__pycache__"})
        shutil.copy(HERE / "witness/answer.py", course / f"solutions/{WITNESS}.py")

    def _worded(self, text: str) -> str:
        for folder in ("course", "others", "outside"):
            text = text.replace(f"@{folder.upper()}@", str(self.path / folder))
        return text.replace(MARK, self._mark)

    def _shared(self) -> list[Path]:
        return [p for place in SHARED for p in Path(place).glob(f"{self._mark}*")]

    def _digests(self, *, again: bool = False) -> dict[str, str]:
        """The mode and content of every file; read again only where its status is another."""
        looks, before = {}, {} if again else self._looks
        for folder in ("course", "submissions", "others"):
            for path in [self.path / folder, *(self.path / folder).rglob("*")]:
                name, status = str(path.relative_to(self.path)), _status(path)
                known = before.get(name)
                looks[name] = known if known and known.status == status else _look(path, status)
        self._looks = looks
        return {name: look.digest for name, look in looks.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    status: tuple[int, ...]
    digest: str


def _status(path: Path) -> tuple[int, ...]:
    """What is another once a file was written to: the kernel sets the time of change, nobody else."""
    status = os.lstat(path)
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _look(path: Path, status: tuple[int, ...]) -> _Look:
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return _Look(status=status, digest=f"{status[1]:o} {hashlib.sha256(content).hexdigest()}")
