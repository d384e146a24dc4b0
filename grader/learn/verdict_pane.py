"""Draws the verdict below the editor: the checks, the first failure open, and the hints."""

from nicegui import ui

from grader.core.records import ExerciseReport, Verdict
from grader.learn.code_label import CodeLabel
from grader.learn.learn_state import LearnState
from grader.practice import hints
from grader.practice.hints import Hint, is_practice_open, is_practice_passed
from grader.practice.passed_exercise import list_passed_lines
from grader.reporting.html import render_html_verdicts
from grader.reporting.next_step import find_failure_to_mend


class VerdictPane:
    """The verdict of one tab on one exercise."""

    def __init__(self, state: LearnState, slug: str) -> None:
        self._state, self._words, self._slug = state, state.words, slug
        self._exercise = state.exercises[slug]
        self._drawn: ExerciseReport | None = None
        with ui.element("section").classes("verdict") as section:
            section.props["aria-label"] = self._words("Verdict")
            ui.label(self._words("Verdict")).classes("spoken").tag = "h2"
            with ui.row().classes("verdict-head"):
                self._head = ui.label().classes("headline").props('role="status"')
                self._busy = ui.label().classes("soft busy")
            self._passed = ui.element("div").classes("passed")
            self._first = ui.html("", sanitize=False)
            self._hints = ui.element("div").classes("hints")
            self._others = ui.html("", sanitize=False)
        self.tick()

    def tick(self) -> None:
        """Draw the newest report if it is not drawn yet."""
        report = self._state.report(self._slug)
        waits = report is None or self._state.grades == self._slug
        self._busy.set_text(self._busy_text(report) if waits else "")
        if report is None or report is self._drawn:
            return
        self._drawn = report
        self._head.set_text(self._headline(report))
        self._head.classes(replace=f"headline {_choose_tone(report)}")
        begun = report.state != "not_started"
        failed = find_failure_to_mend(report)
        drawn = render_html_verdicts(report, self._words, failed) if begun else ["", ""]
        self._first.set_content(drawn[0])
        self._others.set_content(drawn[1])
        self._draw_passed(report)
        self._draw_hints(report)

    def _busy_text(self, report: ExerciseReport | None) -> str:
        if report is not None and find_failure_to_mend(report) is not None:
            return self._words("Grading, or looking for the mistake ...")
        return self._words("Grading {slug} ...", slug=self._slug)

    def _headline(self, report: ExerciseReport) -> str:
        if report.state == "not_started":
            return self._words("not started yet")
        if report.state not in ("graded", "grading"):
            return self._words("not graded")
        passed = sum(c.verdict is Verdict.PASSED for c in report.checks)
        asked = sum(c.verdict is not Verdict.NOT_RUN for c in report.checks)
        if report.state == "grading":
            return self._words("Passed so far: {passed}", passed=passed)
        if not asked:
            return self._words("nothing was run")
        return self._words("{passed} of {asked} checks passed", passed=passed, asked=asked)

    def _draw_passed(self, report: ExerciseReport) -> None:
        self._passed.clear()
        if not is_practice_passed(report):
            return
        following = self._state.next_exercise(self._slug)
        with self._passed:
            first, *others = self._list_passed_lines()
            CodeLabel(first).classes("good")
            for line in others:
                CodeLabel(line).classes("learned")
            if self._state.shows == "open":
                told = self._words("Beside the model answer")
                ui.link(told, f"/passed/{self._slug}").classes("button")
            if following is None:
                ui.label(self._words("Every exercise here is passed."))
            else:
                title = self._words.title(self._state.exercises[following])
                ui.link(self._words("Next: ") + title, f"/learn/{following}").classes("button")

    def _list_passed_lines(self) -> tuple[str, ...]:
        """Return what the terminal says after a pass; the next exercise is a link of its own."""
        if self._state.shows != "open":
            return (self._words("{slug} is passed.", slug=self._slug),)
        others = list(self._state.exercises.values())
        return list_passed_lines(self._exercise, self._state.place, others, self._words)[:-1]

    def _draw_hints(self, report: ExerciseReport) -> None:
        self._hints.clear()
        if self._state.shows != "open" or not hints.can_hint(report):
            return
        given = hints.list_given_hints(self._exercise, self._state.place, report, self._words)
        with self._hints:
            for hint in given:
                self._draw_hint(hint)
            self._button = ui.button(on_click=lambda: self._take_hint(report)).props("flat no-caps")
        self._offer(given[-1] if given else None)

    def _take_hint(self, report: ExerciseReport) -> None:
        hint = hints.take_hint(self._exercise, self._state.place, report, words=self._words)
        with self._hints:
            self._draw_hint(hint)
        self._button.move(self._hints)
        self._offer(hint)

    def _draw_hint(self, hint: Hint) -> None:
        told = "Hint {number} of {count} on {name}: {hint}"
        CodeLabel(
            self._words(told, number=hint.number, count=hint.count, name=hint.name, hint=hint.text)
        ).classes("hint")

    def _offer(self, last: Hint | None) -> None:
        """Name the button by the hint that it gives; hide it after the last one."""
        self._button.set_text(self._words("Next hint") if last else self._words("A hint"))
        self._button.set_visibility(last is None or last.number < last.count)


def _choose_tone(report: ExerciseReport) -> str:
    if is_practice_passed(report):
        return "good"
    return "quiet" if is_practice_open(report) else "bad"
