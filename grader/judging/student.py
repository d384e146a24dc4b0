"""The student's module as a suite sees it, wherever it runs.

`student.softmax(x)` is a call through the wire whose answer has been held to the manifest's kinds
and shapes. A class gives a handle whose methods are calls. A call on tensors that require a
gradient is an autograd function whose backward pass runs in the submission, so that
`torch.autograd.gradcheck(student.softmax, x)` just works.
"""

from collections.abc import Callable, Mapping
from typing import Any

from grader.core.records import Exercise, Submission
from grader.judging import describe
from grader.judging.case import fail_check, find_case
from grader.judging.door import Connection
from grader.judging.student_calls import StudentCall, StudentCallAbout, StudentConstructor
from grader.worker.child.chain import Chain
from grader.worker.parent.client import Client
from grader.worker.parent.faults import WorkerFault


class Student:
    """The functions and classes of one exercise, as attributes.

    leaves_out_meta  make no call with tensors on the device `meta`; assume that devices are right
                     (the first such call of a process takes PyTorch about a second)
    """

    def __init__(
        self,
        exercise: Exercise,
        client: Client,
        problems: Mapping[str, str] | None = None,
        answer: Submission | None = None,
        *,
        leaves_out_meta: bool = False,
    ) -> None:
        self._exercise = exercise
        self._door = Connection(client, problems or {}, answer, leaves_out_meta=leaves_out_meta)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        functions, classes = self._exercise.functions, self._exercise.classes
        if name in functions:
            return StudentCall(self._door, None, name, functions[name], name)
        if name in self._exercise.given:
            return StudentCallAbout(self._door, None, name, self._exercise.given[name], name)
        if name in classes:
            return StudentConstructor(self._door, classes[name])
        raise AttributeError(f"{self._exercise.slug} declares no {name!r} in its manifest")

    def run_chain(self, name: str, chain: Chain, **named: Any) -> Any:
        """Return the digest of a chain of calls to a function of the student's."""
        text = describe.describe_call(name, (), named)
        return self._door.guard(name, text, self._door.client.chain, name, chain, named)

    def told(self, name: str) -> Any:
        """Return a value that the prelude keeps or returns in the worker; it is not trusted."""
        try:
            return self._door.client.told(name)
        except WorkerFault as error:
            raise fail_check(str(error), find_case().last_call) from None

    def begin_case(self) -> None:
        """Forget the inputs of the last case."""
        self._door.client.fresh()

    def list_refused(self) -> tuple[str, ...]:
        """Return the names that the exercise does not allow."""
        return tuple(self._exercise.not_allowed)

    def count_seconds(self) -> float:
        """Return the seconds that the worker has used for calls; 0 without one."""
        return self._door.client.count_seconds()
