"""Holds one interview, from the first second to the verdict."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from grader.core.records import Exercise, Report
from grader.core.translation import Words
from grader.practice.interview import editor
from grader.practice.interview.clock import (
    InterviewClock,
    draw_interview_clock,
    format_interview_time,
)
from grader.practice.interview.interview_task import read_interview_answer
from grader.practice.interview.keyboard import Keyboard
from grader.worker.parent.walls import Wall

_TOLERATED_DELAY_SECONDS = 5.0  # the end of the time may be noticed so late without a message
_LATE_SENTENCE = (
    "The end was noticed {time} late, because this machine slept or the program was stopped: what"
    " was saved until then counts."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitting:
    """One interview: an exercise, the time for it, and a folder."""

    exercise: Exercise
    minutes: int
    folder: Path
    words: Words
    console: Console
    keyboard: Keyboard

    @property
    def path(self) -> Path:
        """Return the path of the file that the person writes."""
        return self.folder / self.exercise.file

    @property
    def handed_in(self) -> Path:
        """Return the path of the copy that was handed in at the end."""
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

    def write(self, clock: InterviewClock, command: list[str]) -> bool:
        """Let the person write until the end; return whether something was handed in.

        command  the editor to be opened; empty for none
        """
        process = editor.open_interview_editor(command, self.path, clock.left) if command else None
        self.keyboard.forget()
        with draw_interview_clock(self.console, self.words) as shown:
            early = clock.run(self.keyboard.line, shown.show)
        used, late = clock.used, -clock.left
        content = read_interview_answer(self.exercise, self.path)
        if content is not None:
            self.handed_in.write_bytes(content)
        _wait_for_interview_editor(process)
        if early:
            self.say("Handed in after {time}.", time=format_interview_time(used))
        else:
            self.say("Time is up: your last save is graded.")
        if late > _TOLERATED_DELAY_SECONDS:
            self.say(_LATE_SENTENCE, time=format_interview_time(late))
        return content is not None

    def judge(self, wall: Wall) -> Report:
        """Grade what was handed in, without its speed; show the report and keep it."""
        from grader.core.progress import show_progress_bar
        from grader.grading.session import grade_all_exercises
        from grader.reporting import terminal

        with show_progress_bar() as progress:
            report = grade_all_exercises(
                [self.exercise], self.handed_in, wall=wall, speed=False, progress=progress
            )
        terminal.print_terminal_report(report, self.console, self.words)
        with (self.folder / "report.txt").open("w", encoding="utf-8") as file:
            terminal.print_terminal_report(report, Console(file=file, width=100), self.words)
        return report


def _wait_for_interview_editor(process: subprocess.Popen[bytes] | None) -> None:
    """Wait for an editor that is still open at the end, because it has the screen."""
    if process is not None and process.poll() is None:
        print("\a", end="", flush=True)
        process.wait()
