"""Finds the line of an answer in which one change mends a failed check.

Changes of the student's text are tried in the student's worker: those of suspect lines first, and
of these the likeliest: operators, constants, arguments, names. A change mends if it passes the
failed case, every other failure that runs the changed code, the cases that passed, and fresh
inputs. If all changes that mend lie in one statement, that is the line; the report says the kind of
the change, but not the change itself.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from grader.core.diagnosis_records import PinnedLine
from grader.core.records import Exercise
from grader.diagnosis import failure_signs, time_limit
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.pinned_line import name_pinned_line
from grader.diagnosis.suspect_lines import find_suspect_lines, list_solution_calls
from grader.diagnosis.time_limit import (
    OutOfTime,
    check_diagnosis_time,
    is_diagnosis_time_left,
    limit_diagnosis_time,
)
from grader.diagnosis.trial_run import WantedInput
from grader.diagnosis.wrong_call import WrongCall, find_wrong_call
from grader.judging.case import LastCall, StudentFault, find_case
from grader.judging.judge import CheckFailure, Judge
from grader.judging.marks import CheckCase
from grader.judging.student_file import (
    find_changeable_text,
    find_file_of_student,
    leave_out_meta,
)
from grader.submission.line_names import find_submission_line
from grader.submission.reader_client import UnreadableContent, ask_submission_reader
from grader.submission.repairs import REMOVALS, Edit, edit_submission
from grader.worker.parent.client import ChangeableText
from grader.worker.parent.faults import WorkerFault
from grader.worker.parent.harmless_text import clean_worker_text

MAX_SEARCHES = 2  # for failed checks of one answer
TRIAL_INPUTS = 16
MAX_PASSED_CASES = 1  # of a check that passed
MAX_MORE_CASES = 2  # of a check that failed, that were not run
MORE_SECONDS = 0.2  # for the cases that passed, with one change that mends
MAX_WRONG_CALLS = 6  # that are made again for each change
MAX_TEXT = 80  # characters of the line that are told


# Runs a case of a check, or an input of a trial, on a changed answer: "" if that is right, else the
# kind of exception that it raised, or another word.
_Test = Callable[[], str]
_PROBE, _PROBE_RAISES = "(1/0)", "ZeroDivisionError"


def find_repaired_lines(
    exercise: Exercise, failures: Sequence[CheckFailure], judge: Judge, trials: NameTrials,
    plainest: dict[str, CheckFailure],
) -> dict[str, PinnedLine]:  # fmt: skip
    """Return, by failed check, the line in which a change mends it; {} if there is none.

    plainest  by failed check, the failure that is tried first
    """
    text = find_changeable_text(judge.student)
    found: dict[str, PinnedLine] = {}
    if text is None or judge.is_replayed or not is_diagnosis_time_left():
        return found
    searched = 0
    with limit_diagnosis_time(time_limit.REPAIR_SECONDS):
        try:
            for failure in failures:
                if failure.check in found or searched == MAX_SEARCHES:
                    continue
                if failure.fault.says_all_itself:
                    continue
                searched += 1
                alike = [f for f in failures if f.calls <= failure.calls]
                rest = [f for f in failures if f not in alike]
                one = plainest[failure.check]
                search = _Search(exercise, failure, alike, rest, judge, trials, one, text)
                if (line := search.find_line()) is not None:
                    found |= {f.check: line for f in alike}
        except (OutOfTime, WorkerFault, UnreadableContent):
            pass
    return found


class _Search:
    """The search for what mends one failed check."""

    def __init__(
        self, exercise: Exercise, failure: CheckFailure, alike: Sequence[CheckFailure],
        rest: Sequence[CheckFailure], judge: Judge, trials: NameTrials, plainest: CheckFailure,
        text: ChangeableText,
    ) -> None:  # fmt: skip
        """Prepare the tests: first the cheap one that most changes fail, last the passed cases.

        alike  the failures that call only functions that `failure` calls too
        rest   all other failures that no mistake explains
        """
        self._judge, self._text = judge, text
        self._suspects = find_suspect_lines(exercise, plainest, judge)
        self._calls = list_solution_calls(exercise)
        self._leaves_out, self._right = trials.leaves_out_meta, trials.right
        self._names = failure_signs.find_blamed_names(failure, judge)
        self._places: dict[int, list[Edit]] = {}  # the statements at a line
        self._runs: dict[int, bool] = {}  # whether the first test runs one of them
        self._rest = [f.case for f in rest if not f.fault.says_all_itself]
        wanted = trials.list_wanted(self._names, TRIAL_INPUTS)
        wrong = sorted((one for one in wanted if one.wrong), key=lambda one: one.needed)
        right = [one for one in wanted if not one.wrong]
        mine, others = [plainest.case, failure.case], [f.case for f in alike if f is not failure]
        passed = [
            case for name in sorted(self._names)
            for case in judge.list_passed_cases(name, MAX_PASSED_CASES)
        ]  # fmt: skip
        more = [case for f in alike for case in f.more[:MAX_MORE_CASES]]
        self._wrong_calls: list[WrongCall] = []
        self._keep_wrong_call(plainest.fault, plainest.asked)
        self._tests: list[_Test] = [
            *(partial(self._run_trial, one) for one in wrong),
            *(partial(self._run_case, case) for case in {c.name: c for c in mine}.values()),
            *(partial(self._run_trial, one) for one in right),
            *(partial(self._run_case, case) for case in others),
        ]
        self._more_tests = [partial(self._run_case, case) for case in (*more, *passed)]

    def find_line(self) -> PinnedLine | None:
        """Return the line of the changes that mend: of the likeliest kinds with which any does."""
        refused = [name.split(".")[-1] for name in self._judge.student.list_refused()]
        edits: list[Edit] = ask_submission_reader(
            "repairs", self._text.source, names=sorted(self._names), refused=refused,
            suspects=sorted(self._suspects), calls=self._calls,
        )  # fmt: skip
        for edit in edits:
            if edit["kind"] == "STATEMENT":
                self._places.setdefault(edit["statement"], []).append(edit)
        found: list[Edit] = []
        with self._text.change() as load, leave_out_meta(self._judge.student, self._leaves_out):
            try:
                for _, some in groupby(edits, key=lambda edit: edit["rank"]):
                    for edit in some:
                        found += [edit] if self._mends(edit, load) else []
                    if any(edit["kind"] not in REMOVALS for edit in found):
                        break
            except OutOfTime:
                pass  # what was found until here mends
        kept = [edit for edit in found if edit["kind"] not in REMOVALS]
        return self._choose_line(kept or found)

    def _mends(self, edit: Edit, load: Callable[[str], bool]) -> bool:
        """Return whether a change passes all tests, and those of what passed as time allows.

        A failure in other functions that runs the changed code has to pass too.
        """
        check_diagnosis_time()
        if not self._may_matter(edit, load):
            return False
        if not load(edit_submission(self._text.source, edit)):
            return False
        if any(test() for test in self._list_tests()):
            return False
        with limit_diagnosis_time(MORE_SECONDS):
            if any(is_diagnosis_time_left() and test() for test in self._more_tests):
                return False
        failing = [case for case in self._rest if self._run_case(case)]
        return not any(self._is_run(edit, partial(self._run_case, c), load) for c in failing)

    def _may_matter(self, edit: Edit, load: Callable[[str], bool]) -> bool:
        """Return whether the first test runs a statement: seen with an error in its place."""
        line = edit["statement"]
        if line in self._places and line not in self._runs:
            self._runs[line] = self._is_run(edit, self._list_tests()[0], load)
        return self._runs.get(line, True)

    def _is_run(self, edit: Edit, test: _Test, load: Callable[[str], bool]) -> bool:
        """Return whether a test runs the statement of a change, or else what is changed in it."""
        for one in self._places.get(edit["statement"], [edit]):
            probe = edit_submission(self._text.source, one | {"text": _PROBE})
            if not load(probe) or test() == _PROBE_RAISES:
                return True
        return False

    def _run_case(self, case: CheckCase) -> str:
        fault = self._judge.ask(self._judge.student, case)
        if fault is None:
            return ""
        self._keep_wrong_call(fault, find_case().asked)
        return fault.kind or "wrong"

    def _keep_wrong_call(self, fault: StudentFault, asked: LastCall | None) -> None:
        """Keep the call that shows a change to be wrong: it may show so of others, and is quick."""
        if len(self._wrong_calls) < MAX_WRONG_CALLS and self._right is not None:
            found = find_wrong_call(fault, asked, self._right)
            self._wrong_calls += [] if found is None else [found]

    def _list_tests(self) -> list[_Test]:
        return [
            *(partial(one.compare, self._judge.student) for one in self._wrong_calls),
            *self._tests,
        ]

    def _run_trial(self, one: WantedInput) -> str:
        return one.compare(self._judge, self._judge.student)

    def _choose_line(self, mends: Sequence[Edit]) -> PinnedLine | None:
        """Return the line of the changes that mend, if they are in one statement.

        What mends a variable where it is used, and also where it is set, belongs where it is set.
        """
        places = {edit["sets"] for edit in mends if edit["sets"]}
        mends = [edit for edit in mends if edit["name"] not in places] or mends
        if len({edit["statement"] for edit in mends}) != 1:
            return None
        first = mends[0]
        line = first["line"] if len({e["line"] for e in mends}) == 1 else first["statement"]
        answer = find_file_of_student(self._judge.student)
        text = clean_worker_text(find_submission_line(self._text.source, line))[:MAX_TEXT]
        # A branch that is too much has a condition that is right: no constant of it is wrong.
        change = "CONDITION" if first["tested"] else first["kind"]
        [dropped, *others] = {edit["dropped"] for edit in mends}
        part = "" if others or first["tested"] else clean_worker_text(dropped)[:MAX_TEXT]
        found = PinnedLine(line=line, change=change, text=text, dropped=part)
        return name_pinned_line(found, answer)
