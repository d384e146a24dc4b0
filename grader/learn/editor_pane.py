"""Draws the editor of the file: it saves at a pause, and follows what other programs save."""

import json
import time
from typing import Any

from nicegui import context, ui
from nicegui.events import GenericEventArguments

from grader.core.records import CheckResult, ExerciseReport
from grader.learn.code_label import CodeLabel
from grader.learn.learn_state import LearnState
from grader.learn.open_files import NotEditable, OpenFile, SavedFile, digest_text
from grader.reporting.next_step import find_failure_to_mend
from grader.reporting.pinned_text import report_pinned_line
from grader.submission.answer_file import is_submission_text_untouched

PAUSE_SECONDS = 0.35  # without a change; then the text is saved
_NOTEBOOK = "{name} is a notebook: edit it in Jupyter. It is graded here on every save."
_KEPT = "Another tab or program had saved {file}: its version is kept as {name}."


class EditorPane:
    """The editor of one tab, and a line that says what became of the text."""

    def __init__(self, state: LearnState, slug: str) -> None:
        self._state, self._words = state, state.words
        self._exercise = state.exercises[slug]
        self._file = OpenFile(state.path(slug))
        self._due: float | None = None  # when an unsaved change is to be saved
        self._marked: ExerciseReport | None = None  # whose line is marked, or was
        text, problem = self._open()
        self._problem = problem  # why the file cannot be edited now
        self.editor = ui.codemirror(
            text, language="C++" if self._exercise.language == "cuda" else "Python",
            on_change=self._change, keymap={"Mod-s": lambda: self.save()},
            line_wrapping=True,
        ).classes("editor")  # fmt: skip
        self.shade(bool(state.choices.dark))
        if problem:
            self.editor.disable()
        with ui.row().classes("status-row"):
            self._status = CodeLabel(problem or self._unchanged()).classes("status")
            self._status.props('role="status"')
            ui.label(self._words("Ctrl-S saves; Esc, then Tab leaves the editor")).classes("soft")
        ui.on("learn_resync", self._resync)
        context.client.on_disconnect(self.flush)

    @property
    def text(self) -> str:
        return self.editor.value or ""

    def shade(self, dark: bool) -> None:
        """Colour the editor for a dark page or for a light one."""
        self.editor.set_theme("githubDark" if dark else "githubLight")

    async def connect(self) -> None:
        """Take up what an earlier page could not save, and have the browser keep drafts."""
        if not self.editor.enabled:
            return  # it is connected once the file can be read
        label = self._words("Your answer: {file}", file=self._file.path.name)
        found = await ui.run_javascript(
            f"learn.begin({self.editor.id}, {json.dumps(self._key)}, {json.dumps(label)}, "
            f"{json.dumps(self._file.digest())})", timeout=5.0,
        )  # fmt: skip
        for draft in found if isinstance(found, list) else []:
            self._take_up(draft)

    def tick(self) -> None:
        """Save after a pause; otherwise look whether another program saved the file."""
        if self._due is not None:
            if time.monotonic() >= self._due:
                self.save()
        elif self._file.path.suffix != ".ipynb":
            self._follow()

    def flush(self) -> None:
        """Save what a closed tab had not saved yet."""
        if self._due is not None:
            self.save()

    def save(self) -> None:
        """Write the text into the file, and say so."""
        text = self.text
        saved = self._file.save(text)
        # Tried again until it works: meanwhile no other program's text takes the place of this one.
        self._due = time.monotonic() + PAUSE_SECONDS if saved.problem else None
        self._say_saved(saved)
        if not saved.problem:
            self._run(f"learn.saved({json.dumps(digest_text(text))})")

    def mark(self, report: ExerciseReport | None) -> None:
        """Mark the line of the first failed check; keep the mark while its text is edited."""
        if report is None or not report.sha256 or report is self._marked:
            return
        if digest_text(self.text) != self._file.digest():
            return  # its lines are not those that were graded
        self._marked = report
        failed = _find_check_to_mark(report)
        line = _find_line(failed)
        shown = 0 < line <= self.text.count("\n") + 1
        self.editor.decorations = (
            [{"kind": "line", "line": line, "class": "wrong-line"}] if shown else []
        )
        self.editor.line_tooltips = {line: self._line_text(failed)} if shown and failed else {}

    def _put(self, text: str) -> None:
        """Put a text into the editor in the place of another one, whose marks go with it."""
        self.editor.decorations, self.editor.line_tooltips = [], {}
        self.editor.set_value(text)

    def _open(self) -> tuple[str, str]:
        """Return the text of the file, and why it cannot be edited."""
        name = self._file.path.name
        if self._file.path.suffix == ".ipynb":
            return "", self._words(_NOTEBOOK, name=name)
        try:
            return self._file.read(), ""
        except NotEditable as problem:
            return "", self._words.said(str(problem))

    def _unchanged(self) -> str:
        name = self._file.path.name
        if not self._file.exists:
            return self._words("{file} is not there yet: what you write makes it.", file=name)
        if is_submission_text_untouched(self.text):
            return self._words("{file} is the skeleton.", file=name)
        return self._words("{file} is open.", file=name)

    def _change(self) -> None:
        self._due = time.monotonic() + PAUSE_SECONDS
        self._status.set_text(self._words("Not saved yet ..."))

    def _follow(self) -> None:
        """Show what another program saved."""
        there = self._file.exists
        try:
            text = self._file.read_change()
        except NotEditable as problem:
            self._problem = self._words.said(str(problem))
            return self._say(self._problem, bad=True)
        had_problem, self._problem = bool(self._problem), ""
        if not self.editor.enabled:
            self.editor.enable()
            ui.timer(0, self.connect, once=True)
        if text is not None:
            self._put(text)
            self._due = None  # that was no change of the person's
            self._run(f"learn.saved({json.dumps(digest_text(text))})")
            told = "{file} was changed by another tab or program; this is its text now."
            self._say(self._words(told, file=self._file.path.name))
        elif there and not self._file.exists and self.text:
            told = "{file} was deleted. Its text is still here: Ctrl-S writes it again."
            self._say(self._words(told, file=self._file.path.name), bad=True)
        elif had_problem or there != self._file.exists:
            self._say(self._unchanged())
        return None

    def _take_up(self, draft: Any) -> None:
        """Restore a text that an earlier page had not saved; nothing newer is overwritten."""
        match draft:
            case {"text": str(text), "base": str(base)} if text != self.text:
                pass
            case _:
                return
        if base == self._file.digest():
            self._put(text)
            self.save()
            self._say(self._words("What you had written before is restored and saved."))
            return
        try:
            kept = self._file.keep_beside(text)
        except OSError as error:
            why = error.strerror
            self._say(
                self._words("{path} cannot be written: {why}.", path=self._file.path, why=why)
            )
            return
        told = "The file has changed since: what you had not saved is kept as {name}."
        self._say(self._words(told, name=kept.name), bad=True)

    def _resync(self, event: GenericEventArguments) -> None:
        """Take the whole text from the browser, where single changes did not arrive."""
        if isinstance(event.args, str) and event.args != self.text:
            self._put(event.args)
        self.save()

    def _say_saved(self, saved: SavedFile) -> None:
        name = self._file.path.name
        if saved.problem:
            self._say(self._words.said(saved.problem), bad=True)
        elif saved.kept is not None:
            self._say(self._words(_KEPT, file=name, name=saved.kept.name), bad=True)
        else:
            clock = time.strftime("%H:%M:%S")
            self._say(self._words("{file} saved at {clock}.", file=name, clock=clock))

    def _say(self, told: str, *, bad: bool = False) -> None:
        self._status.set_text(told)
        self._status.classes(replace="status attention" if bad else "status")

    def _line_text(self, failed: CheckResult) -> str:
        pinned = failed.diagnosis.pinned if failed.diagnosis else None
        told = (
            list(report_pinned_line(pinned, self._words))
            or self._words.said(failed.why).splitlines()
        )
        return told[0] if told else ""

    @property
    def _key(self) -> str:
        return str(self._file.path.absolute())

    def _run(self, script: str) -> None:
        self.editor.client.run_javascript(script)


def _find_check_to_mark(report: ExerciseReport) -> CheckResult | None:
    """Return the first failed check, or one of those that a file blocks that cannot be run."""
    blocked = (c for c in report.checks if c.line and report.state in ("unreadable", "refused"))
    return find_failure_to_mend(report) or next(blocked, None)


def _find_line(failed: CheckResult | None) -> int:
    """Return the line that a failure points at; 0 if it is not known, or in a notebook."""
    if failed is None:
        return 0
    pinned = failed.diagnosis.pinned if failed.diagnosis else None
    return pinned.line if pinned is not None and not pinned.cell else failed.line
