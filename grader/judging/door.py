"""Makes calls to a submission, and turns what fails there into faults."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from grader.core.records import Submission
from grader.judging.case import StudentFault, fail_check, find_case
from grader.judging.raised_advice import advise_on_exception
from grader.judging.raised_exception import RaisedException
from grader.submission.line_names import name_submission_line
from grader.worker.parent.client import Client
from grader.worker.parent.faults import AnswerRaised, AnswerTimedOut, WorkerFault
from grader.worker.parent.harmless_text import clean_worker_text

MAX_MESSAGE_LINES = 4  # of an exception
_ENDLESS = (
    "It was still at this line: see that its loop ends, or let it do less. `make debug` stops "
    "there."
)


class Connection:
    """A worker's client, with the answer and its problems, from which faults are worded."""

    def __init__(
        self, client: Client, problems: Mapping[str, str], answer: Submission | None, *,
        leaves_out_meta: bool = False,
    ) -> None:  # fmt: skip
        self.client = client
        self.leaves_out_meta = leaves_out_meta
        self._problems = problems
        self.answer = answer
        self.methods: set[tuple[str, str]] = set()  # of `torch.nn.Module`, found in these classes
        # Cleaned once: suites make an answer raise hundreds of times.
        self._lines = clean_worker_text(answer.source).split("\n") if answer else []

    def log_call(self, owner: str, text: str) -> None:
        """Log a call in the case; raise a `StudentFault` if `owner` has a problem."""
        case = find_case()
        case.last_call = text
        case.calls.add(text)
        case.called.add(owner)
        if owner in self._problems:
            raise self._fault_of_problem(self._problems[owner])

    def guard(
        self, owner: str, text: str, ask: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Return `ask(...)`; raise a `StudentFault` if `owner` has a problem or the call fails."""
        self.log_call(owner, text)
        try:
            return ask(*args, **kwargs)
        except AnswerRaised as error:
            fault = self._fault_of_exception(error, owner, text)
        except AnswerTimedOut as error:
            fault = self._fault_of_timeout(error, text)
            fault.timed_out = True
        except WorkerFault as error:
            fault = fail_check(str(error), text)
        fault.returned = False
        raise fault

    def _fault_of_problem(self, problem: str, kind: str = "") -> StudentFault:
        fault = StudentFault(problem, kind=kind)
        fault.uncalled = True
        return fault

    def _fault_of_exception(self, error: AnswerRaised, owner: str, text: str) -> StudentFault:
        number, line = self._submission_line(error.line)
        if error.kind == "NotImplementedError" and line.startswith("raise NotImplementedError"):
            task = f": {error.message}" if error.message else "."
            return StudentFault(f"{owner} is not written yet{task}", kind=error.kind)
        if error.kind == "MemoryError" or "can't allocate memory" in error.message:
            return fail_check("the call ran out of memory", text)
        if error.kind == "ArenaFull":
            return fail_check(f"the answer is too large: {error.message}", text)
        if error.message in self._problems.values():  # a problem of a function that was called
            return self._fault_of_problem(error.message, error.kind)
        first, *lines = error.message.strip().splitlines()[:MAX_MESSAGE_LINES] or [""]
        problem = f"{error.kind}: {first}"
        lines = [line.strip() for line in lines]
        if line:
            lines.append(f"line {number}: {line}")
        lines += self._advise_on_exception(error, text)
        raised = StudentFault(
            str(fail_check(problem, text, *lines)), kind=error.kind, detail=error.message
        )
        raised.line = error.line if line and error.line else 0
        return raised

    def _advise_on_exception(self, error: AnswerRaised, text: str) -> list[str]:
        """Return the cure of an exception, if the submission shows the cause."""
        if self.answer is None:
            return []
        raised = RaisedException(
            kind=error.kind, message=error.message, lines=self._lines,
            number=error.line if self._submission_line(error.line)[1] and error.line else 0,
            call=text, name_line=partial(name_submission_line, self.answer.lines),
        )  # fmt: skip
        return [told] if (told := advise_on_exception(raised)) else []

    def _fault_of_timeout(self, error: AnswerTimedOut, text: str) -> StudentFault:
        number, line = self._submission_line(error.line)
        if not line:
            return fail_check(str(error), text)
        fault = fail_check(str(error), text, f"line {number}: {line}", _ENDLESS)
        fault.line = error.line or 0
        return fault

    def _submission_line(self, number: int | None) -> tuple[str, str]:
        """Return the number by which the writer knows a line of the submission, and its text."""
        if self.answer is None or number is None or not 0 < number <= len(self._lines):
            return "", ""
        return name_submission_line(self.answer.lines, number), self._lines[number - 1].strip()
