"""Finds the hints on what fails in a report: on its mistake, its check, or its function."""

import re
from dataclasses import dataclass

from grader.core.records import CheckResult, Exercise, ExerciseReport
from grader.core.translation import Words
from grader.reporting.next_step import find_failure_to_mend

KNOWN = "__"  # a key stays a name of Python's
_RAISED_KIND = re.compile(r"(\w+): ")
_REFUSED_LINE = re.compile(r"Line (\d+(?: of cell \d+)?): ")
_RAISED_LINE = re.compile(r"^line (\d+(?: of cell \d+)?): ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HintLadder:
    """The hints on what fails in a report, each telling more than the one before.

    A mistake that is known has its cure, and a check may have hints of its own; both end with the
    last hint of the function, which tells nearly all of it. Any other failure has the
    hints of the function. These speak of wrong numbers, so an exception that is no known mistake
    has one more hint before them, and so has a line that is not allowed.
    """

    key: str  # a name; or a check, and behind KNOWN the mistakes known, "raised", or "refused"
    name: str
    hints: tuple[str, ...]


def find_name_to_hint(exercise: Exercise, check: CheckResult | None) -> str:
    """Return the function or class that a failed check is about; without a check, the first name.

    If the check called several names, take the one that its failure names first: that message holds
    the call that went wrong.
    """
    called = [] if check is None else [n for n in exercise.names if n in check.calls]
    why = "" if check is None else check.why
    found = {n: at.start() for n in called if (at := re.search(rf"\b{re.escape(n)}\b", why))}
    return min(found, key=found.__getitem__, default=[*called, *exercise.names][0])


def find_hint_ladder(exercise: Exercise, report: ExerciseReport, words: Words) -> HintLadder:
    """Return the hints on the first failed check; see `HintLadder`."""
    failed = find_failure_to_mend(report)
    name = find_name_to_hint(exercise, failed)
    whole = words.hints(exercise, name)
    if failed is None or f"{name} is not written yet" in failed.why:
        return HintLadder(key=name, name=name, hints=whole)
    known = failed.diagnosis.mistakes if failed.diagnosis else ()
    if known:
        cures = (words.mistake(exercise.slug, m.id, m.says, m.mend)[1] for m in known)
        key = KNOWN.join([failed.id, *(m.id for m in known)])
        return HintLadder(key=key, name=name, hints=(*cures, whole[-1]))
    own = words.hints(exercise, failed.id)
    key, hints = (failed.id, (*own, whole[-1])) if own else (name, whole)
    if first := _write_hint_on_exception(exercise, failed, words):
        key, hints = KNOWN.join([failed.id, "raised"]), (first, *hints)
    elif refused := _REFUSED_LINE.match(failed.why):
        first = words("What calls line {line} was not run: write that line with what an answer may "
                      "use, which docs/allowed.md lists.", line=words.said(refused[1]))  # fmt: skip
        key, hints = KNOWN.join([failed.id, "refused"]), (first, *hints)
    return HintLadder(key=key, name=name, hints=hints)


def _write_hint_on_exception(exercise: Exercise, failed: CheckResult, words: Words) -> str:
    """Say where a call raised an exception, and what to look at there; "" if it raised none."""
    kind, line = _RAISED_KIND.match(failed.why), _RAISED_LINE.search(failed.why)
    if not kind or not line:
        return ""
    return words("The call raised {kind} in line {line} and returned nothing: which shapes and "
                 "types have the names in that line? `make debug EX={slug}` stops there.",
                 kind=kind[1], line=words.said(line[1]), slug=exercise.slug)  # fmt: skip
