"""What a submission can do instead of answering. Each is the student's, and reads as a sentence."""

from grader.core.errors import GraderFault


class WorkerFault(Exception):
    """The submission did not answer; the message is the sentence the student reads."""


class Raised(WorkerFault):
    """The submission raised an exception."""

    def __init__(self, kind: str, message: str, line: int | None) -> None:
        self.kind = kind
        self.message = message
        self.line = line
        what = f"{kind}: {message}" if message else kind
        super().__init__(what if line is None else f"line {line}: {what}")


class TimedOut(WorkerFault):
    """The call, or the exercise, took too long."""


class Died(WorkerFault):
    """The submission's process ended."""


class NoAnswer(WorkerFault):
    """What came back is no answer."""


class NotHere(Exception):
    """The machine lacks a requirement of the exercise; the message names it."""


class NurseryFailed(GraderFault):
    """Workers cannot be started: a grader fault, not the student's."""
