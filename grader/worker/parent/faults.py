"""The faults of a submission that did not answer; each message is a sentence for the student."""

from grader.core.errors import GraderFault

# How the sentences begin about faults that a busy or a small machine can cause as well.
_MACHINE_SENTENCES = (
    *("no answer within", "the exercise used up its", "the process was killed"),
    "the call ran out of memory",
)


def may_be_worker_overload(sentence: str) -> bool:
    """Return whether a sentence tells of a fault that may not happen on an idle machine."""
    return any(told in sentence for told in _MACHINE_SENTENCES)


class WorkerFault(Exception):
    """Raised when a submission does not answer; the message is the sentence the student reads."""


class AnswerRaised(WorkerFault):
    """Raised when the submission raised an exception."""

    def __init__(self, kind: str, message: str, line: int | None) -> None:
        self.kind = kind
        self.message = message
        self.line = line
        what = f"{kind}: {message}" if message else kind
        super().__init__(what if line is None else f"line {line}: {what}")


class AnswerTimedOut(WorkerFault):
    """Raised when a call, or all calls of an exercise, took too long.

    line  the submission's line that was running, as its worker reports it; None if unknown
    """

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.line = line


class WorkerDied(WorkerFault):
    """Raised when the submission's process ended."""


class NoAnswer(WorkerFault):
    """Raised when a reply has the wrong form."""


class LoadFailed(WorkerFault):
    """Raised when the submission's file raises `problem` while it loads."""

    def __init__(self, problem: AnswerRaised) -> None:
        super().__init__(f"the file could not be loaded again after a crash ({problem})")
        self.problem = problem


class UnmetRequirement(Exception):
    """Raised when the machine lacks a requirement of the exercise; the message names it."""


class NurseryFailed(GraderFault):
    """Raised when workers cannot be started: a fault of the grader, not of the student."""
