"""Explains failed checks: the mistake that gives the answer, and where the answer is wrong."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from grader.core.diagnosis_records import Diagnosis, NamedMistake, PinnedLine, Stage
from grader.core.records import CheckResult, Exercise
from grader.diagnosis import facts, location, pinned_line, stages, time_limit
from grader.diagnosis.check_naming import Named, name_mistakes_behind_failures
from grader.diagnosis.mistake_catalogue import MistakeCatalogue, bind_mistake_catalogue
from grader.diagnosis.name_trials import NameTrials
from grader.diagnosis.plainest import find_plainest_failures, show_plainest_failures
from grader.diagnosis.remembered import find_functions_that_keep
from grader.diagnosis.repair import find_repaired_lines
from grader.diagnosis.small_examples import add_small_examples
from grader.diagnosis.student_runs import StudentRuns
from grader.diagnosis.time_limit import limit_diagnosis_time
from grader.judging.judge import CheckFailure, Judge


def diagnose_failed_checks(
    exercise: Exercise, checks: Sequence[CheckResult], judge: Judge
) -> tuple[CheckResult, ...]:
    """Return the checks, with a diagnosis for each failed check that has one.

    What is not found within `DIAGNOSIS_SECONDS` is left out. To load the catalogue does not count:
    it is done once, and may import modules that take longer.
    """
    if not judge.failures:
        return tuple(checks)
    known = bind_mistake_catalogue(exercise.slug)
    with limit_diagnosis_time(time_limit.DIAGNOSIS_SECONDS, judge.student.count_seconds):
        return _diagnose_in_time(exercise, checks, judge, known)


def _diagnose_in_time(
    exercise: Exercise, checks: Sequence[CheckResult], judge: Judge, known: MistakeCatalogue
) -> tuple[CheckResult, ...]:
    failures = {failure.check: failure for failure in judge.failures}
    # The functions that a bug hunt calls are those of another exercise.
    judged_here = () if exercise.hunts else judge.failures
    keeps = find_functions_that_keep(judged_here, judge.student)
    runs = StudentRuns(judge)
    with limit_diagnosis_time(time_limit.NAMING_SECONDS):
        with limit_diagnosis_time(time_limit.PLAINEST_SECONDS):
            plainest = find_plainest_failures(judge, runs)
        mended: dict[str, PinnedLine] = {}

        def mend(failures: Sequence[CheckFailure], trials: NameTrials) -> Collection[str]:
            mended.update(find_repaired_lines(exercise, failures, judge, trials, plainest))
            return mended

        # The line is what a bug hunt asks for.
        named = name_mistakes_behind_failures(judge, known, runs, None if exercise.hunts else mend)
    found = _find_wrong_stages(exercise, plainest, judge, known)
    diagnosed = tuple(
        replace(c, diagnosis=_diagnose_failed_check(
            exercise, failures[c.id], named[c.id], found.get(c.id)
        ))
        if c.id in failures else c
        for c in checks
    )  # fmt: skip
    shown = show_plainest_failures(exercise, diagnosed, plainest)
    right = known.right
    shown = facts.add_judged_facts(exercise, shown, plainest, judge.student, right, keeps)
    shown = pinned_line.add_pinned_lines(exercise, shown, plainest, judge, mended)
    return add_small_examples(exercise, shown, plainest, judge.student, right)


def _find_wrong_stages(
    exercise: Exercise, shown: Mapping[str, CheckFailure], judge: Judge, known: MistakeCatalogue
) -> dict[str, Stage]:
    """Return for each function its first wrong stage, by the first check that can show it.

    shown  the failure that a report shows, by check
    """
    found: dict[str, Stage] = {}
    if known.right is None:
        return found
    wrong: dict[str, stages.WrongStage | None] = {}
    for check, failure in shown.items():
        differs = failure.fault.differs
        name = "" if differs is None else differs.call.partition("(")[0]
        if name not in exercise.functions:
            continue
        if name not in wrong:
            wrong[name] = stages.diagnose_first_wrong_stage(
                exercise, name, judge.student, known.right
            )
        stage = wrong[name]
        if stage is not None and stage.explains(exercise.functions[name], failure.asked):
            found[check], wrong[name] = stage.stage, None
    return found


def _diagnose_failed_check(
    exercise: Exercise, failure: CheckFailure, named: Named, stage: Stage | None
) -> Diagnosis | None:
    mistakes = tuple(NamedMistake(id=m.id, says=m.says, mend=m.mend) for m in named.mistakes)
    places = location.locate_wrong_places(exercise, failure.fault.differs)
    nothing = not (mistakes or places or stage)
    return None if nothing else Diagnosis(
        mistakes=mistakes, together=named.together, places=places, stage=stage
    )  # fmt: skip
