"""One interview, from the first second to the verdict."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from grader.core.records import Exercise, Report
from grader.core.translation import Words
from grader.practice.interview import editor
from grader.practice.interview.clock import Clock, face, minutes
from grader.practice.interview.interview_task import written
from grader.practice.interview.keyboard import Keyboard
from grader.worker.walls import Wall

_NOTICED_SECONDS = 5.0  # so late the end of the time may be noticed without a word
_LATE = (
    "The end was noticed {time} late, because this machine slept or the program was stopped: what"
    " was saved until then counts."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitting:
    """An exercise, the time for it, and a folder."""

    exercise: Exercise
    minutes: int
    folder: Path
    words: Words
    console: Console
    keyboard: Keyboard

    @property
    def path(self) -> Path:
        """The file that is written in."""
        return self.folder / self.exercise.file

    @property
    def handed_in(self) -> Path:
        """That file as it was at the end."""
        return self.folder / f"handed_in{self.exercise.suffix}"

    def say(self, english: str, **values: object) -> None:
        told = self.words(english, **values)
        self.console.print(told, markup=False, highlight=False, soft_wrap=True)

    def begin(self, task: str) -> None:
        """Write the file, and show the task and where the file is."""
        self.folder.mkdir(parents=True)
        self.path.write_text(task, encoding="utf-8")
        print(task)
        self.say("Your file: {path}", path=self.path)

    def write(self, clock: Clock, command: list[str]) -> bool:
        """Let the person write until the end; whether something was handed in.

        command  the editor to be opened; empty for none
        """
        process = editor.opened(command, self.path, clock.left) if command else None
        self.keyboard.forget()
        with face(self.console, self.words) as shown:
            early = clock.run(self.keyboard.line, shown.show)
        used, late = clock.used, -clock.left
        content = written(self.exercise, self.path)
        if content is not None:
            self.handed_in.write_bytes(content)
        _wait(process)
        if early:
            self.say("Handed in after {time}.", time=minutes(used))
        else:
            self.say("Time is up: your last save is graded.")
        if late > _NOTICED_SECONDS:
            self.say(_LATE, time=minutes(late))
        return content is not None

    def judge(self, wall: Wall) -> Report:
        """Grade what was handed in, without its speed; show the report and keep it."""
        from grader.core.progress import progress_bar
        from grader.grading.session import grade_all
        from grader.reporting import terminal

        with progress_bar() as progress:
            report = grade_all(
                [self.exercise], self.handed_in, wall=wall, speed=False, progress=progress
            )
        terminal.show(report, self.console, self.words)
        with (self.folder / "report.txt").open("w", encoding="utf-8") as file:
            terminal.show(report, Console(file=file, width=100), self.words)
        return report


def _wait(process: subprocess.Popen[bytes] | None) -> None:
    """For an editor that is still open at the end: it has the screen."""
    if process is not None and process.poll() is None:
        print("\a", end="", flush=True)
        process.wait()
