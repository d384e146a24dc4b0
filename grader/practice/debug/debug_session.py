"""Finds the first failing case of an answer and runs it again in the debugger.

The answer runs in this process, without a wall: it is the student's own code on the student's own
machine, and it gets no marks here.
"""

import bdb
import secrets
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import numpy as np
import torch

from grader.core.advice import fit_advice
from grader.core.errors import GraderFault, UserError
from grader.core.records import Exercise, Submission, Verdict
from grader.core.translation import Words
from grader.judging import drills, recorded_cases, suite_runner
from grader.judging.judge import CheckFailure, Judge
from grader.judging.student import Student
from grader.practice.debug import answer_debugger
from grader.practice.debug.debugged_calls import DebuggedCalls
from grader.practice.debug.stop_statement import STOP_NAME, compile_with_stop, has_own_breakpoint
from grader.submission import admission
from grader.submission.exercise_names import BREAKPOINT_LEFT
from grader.worker.child.raised import FILENAME
from grader.worker.parent import requirements
from grader.worker.parent.in_process import (
    call_without_wall,
    load_code_without_wall,
    make_room_without_wall,
)

_OWN_STOP = "It stops at your own breakpoint: `n` runs a line, `p x` prints x, `q` ends."
_CALL_STOP = "It stops in the call that gave this: `n` runs a line, `p x` prints x, `q` ends."
_RAISED_STOP = "pdb opens where it was raised: `p x` prints x, `u` goes to the caller, `q` ends."
_NO_STOP = "{name} has no `def` to stop in: write breakpoint() where it should stop."


class CannotDebug(UserError):
    """Raised if there is nothing to debug; the message says why, and the cure."""


class _NotLoaded(Exception):
    """Raised if the file itself raised while it was loaded."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class DebuggedAnswer:
    """An answer that can be debugged, and what was found without running it."""

    exercise: Exercise
    answer: Submission
    file: str  # as its frames have it
    problems: Mapping[str, str]


def debug_answer(
    exercise: Exercise, path: Path, *, words: Words, seed: str = "", device: str = "cpu",
    say: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Open the debugger at the first failing case of the answer at `path`. Raises `CannotDebug`."""
    debugged = read_debugged_answer(exercise, path, words)
    say(words("Your code runs in this process, without a wall and without marks."))
    session = DebugSession(debugged, words, seed or secrets.token_hex(8), device, say)
    try:
        session.run()
    except _NotLoaded as problem:
        session.debug_import(problem.error)


def read_debugged_answer(exercise: Exercise, path: Path, words: Words) -> DebuggedAnswer:
    """Read the answer and its outline. Raises `CannotDebug` with the sentence for the student."""
    if exercise.language != "python" or path.suffix != ".py":
        raise CannotDebug(
            words("Only a Python file can be debugged here, and {file} is none.", file=path.name)
        )
    try:
        answer = admission.read_begun_submission(path, exercise)
        exercise = drills.lend_judged_hunt(exercise, answer.source)
        problems = admission.read_submission_outline(answer, exercise)["problems"]
    except admission.NotGraded as problem:
        if not str(problem).endswith(BREAKPOINT_LEFT):
            raise CannotDebug(words.said(str(problem))) from None
        problems = {}  # a breakpoint outside of functions: here it is welcome
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=False)
    ):
        raise CannotDebug(f"{exercise.slug} cannot be graded here: {lacking}")
    here = {name: why for name, why in problems.items() if not why.endswith(BREAKPOINT_LEFT)}
    file = str(path.resolve())
    return DebuggedAnswer(exercise=exercise, answer=answer, file=file, problems=here)


@dataclass(frozen=True, slots=True)
class DebugSession:
    """One answer, the inputs that are drawn for it, and the way to the student's ear."""

    debugged: DebuggedAnswer
    words: Words
    seed: str
    device: str
    say: Callable[[str], None]

    def run(self) -> None:
        """Find the first failing case, say why it fails, and open the debugger there."""
        torch.set_num_threads(1)  # inputs are small: more threads only wait for each other
        room = make_room_without_wall(DebuggedCalls)
        room.seconds = self.debugged.exercise.limits.call_seconds
        code, own = self._compile_unmarked(), has_own_breakpoint(self.debugged.answer.source)
        with answer_debugger.breakpoints_ignored() as reached, np.errstate(all="ignore"):
            failure = find_failure_to_debug(self.debugged.exercise, self._load(room, code), room)
            reached.clear()
            if failure is not None:
                self._load(room, code).run([failure.case])
        if failure is None:
            self.say(self.words("Every case passed (SEED={seed}).", seed=self.seed))
        else:
            self._say_failure(failure)
        if own and not reached:  # the breakpoint is in what other cases call
            self._run_every_case()
        if failure is None or not self._ran(failure) or (own and not reached):
            return
        if room.raised is None or own or answer_debugger.is_other_debugger_there():
            self._run_case(failure, room)
        else:
            self.say(self.words(_RAISED_STOP))
            answer_debugger.open_pdb_after(room.raised, self.debugged.file)

    def debug_import(self, error: BaseException) -> None:
        """Say what the file raised while it was loaded, and open pdb there."""
        if isinstance(error, bdb.BdbQuit):  # the student left pdb
            return
        what = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        self.say(self.words.said(f"The file cannot be imported: {what}."))
        answer_debugger.open_pdb_after(error, self.debugged.file)

    def _compile_unmarked(self) -> CodeType | None:
        """Return code for a search in which the breakpoints that an editor has set do not stop."""
        if not answer_debugger.is_other_debugger_there():
            return None
        return compile(self.debugged.answer.source, FILENAME, "exec")

    def _load(self, room: DebuggedCalls, code: CodeType | None = None) -> Judge:
        """Load the answer into a module of its own, and return a judge of it."""
        exercise, answer = self.debugged.exercise, self.debugged.answer

        def build() -> CodeType:
            return code or compile(answer.source, self.debugged.file, "exec")

        given = {STOP_NAME: room.take_stop}
        try:
            module = load_code_without_wall(build, exercise.slug, exercise.prelude, **given)
        except (Exception, SystemExit) as error:  # a student's file may raise anything
            raise _NotLoaded(error) from error
        client = call_without_wall(module, exercise.prelude, room)
        student = Student(exercise, client, self.debugged.problems, answer)
        tape = recorded_cases.load_judging_tape(exercise.slug)
        return Judge(student, (self.seed, exercise.slug), self.device, tape)

    def _say_failure(self, failure: CheckFailure) -> None:
        check, slug = failure.case.check, self.debugged.exercise.slug
        seed = fit_advice(f"(SEED={self.seed})")
        self.say(f"✗ {self.words.check(slug, check.id, check.says)}  {seed}")
        for line in self.words.said(str(failure.fault)).splitlines():
            self.say(f"    {line}")

    def _ran(self, failure: CheckFailure) -> bool:
        """Return whether a line of the answer ran in the failing call."""
        refused = str(failure.fault) in self.debugged.problems.values()
        return not refused and failure.fault.kind != NotImplementedError.__name__

    def _run_every_case(self) -> None:
        """Run the cases again, and stop at the student's own breakpoints until pdb is left."""
        self.say(self.words(_OWN_STOP))
        with np.errstate(all="ignore"), answer_debugger.breakpoints_open_pdb(self.debugged.file):
            room = make_room_without_wall(DebuggedCalls)
            judge = self._load(room)
            for case in suite_runner.list_suite_cases(self.debugged.exercise):
                judge.run([case])
                if isinstance(room.raised, bdb.BdbQuit):
                    return

    def _run_case(self, failure: CheckFailure, before: DebuggedCalls) -> None:
        """Run the failing case again, with a stop in its last call or at the student's own ones."""
        code, room, call = None, make_room_without_wall(DebuggedCalls), before.call
        answer, file = self.debugged.answer, self.debugged.file
        if has_own_breakpoint(answer.source):
            self.say(self.words(_OWN_STOP))
        elif call is not None:
            code = compile_with_stop(answer.source, file, call.owner, call.name)
            room.stop_at = call.number
            self.say(self.words(_NO_STOP if code is None else _CALL_STOP, name=call.name))
        with np.errstate(all="ignore"), answer_debugger.breakpoints_open_pdb(file):
            self._load(room, code).run([failure.case])


def find_failure_to_debug(
    exercise: Exercise, judge: Judge, room: DebuggedCalls
) -> CheckFailure | None:
    """Run the cases; return the failure of a call that does not end, else the first one, or None.

    After a call that does not end no other case runs: it would wait for such a call again.
    """
    for case in suite_runner.list_suite_cases(exercise):
        judge.run([case])
        if isinstance(room.raised, TimeoutError):
            for failure in judge.failures:
                if failure.case is case:
                    return failure
    if judge.failures:
        return judge.failures[0]
    faults = [c.why for c in judge.results() if c.verdict is Verdict.GRADER_FAULT]
    if faults:
        raise GraderFault(faults[0])
    return None
