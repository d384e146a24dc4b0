"""Reads a report back from its JSON: the inverse of `as_json`, without what that leaves out."""

import json
from typing import Any

from grader.core.diagnosis_records import (
    Diagnosis,
    Fact,
    NamedMistake,
    PinnedLine,
    SmallExample,
    Stage,
    WrongPlaces,
)
from grader.core.errors import UserError
from grader.core.mark_records import CountedExercise, CourseMark
from grader.core.records import (
    CheckResult,
    ExerciseReport,
    Interval,
    Report,
    Score,
    Speed,
    SpeedMeasurement,
    Verdict,
)
from grader.reporting.as_json import PARTIES, REPORT_SCHEMA


class NoReport(UserError):
    """Raised for a text that is no report of ours; the message is a sentence."""


def parse_report_json(text: str) -> Report:
    """Read the report that `write_report_json` wrote; `NoReport` says why a text is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise NoReport("This is no JSON.") from None
    if not isinstance(found, dict) or found.get("schema") != REPORT_SCHEMA:
        raise NoReport(f"This is no report: its schema is not {REPORT_SCHEMA}.")
    try:
        return _build_report_from_json(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoReport(f"This report is damaged ({type(error).__name__}: {error}).") from None


def _build_report_from_json(found: dict[str, Any]) -> Report:
    core = (parse_exercise_report(e, track="core") for e in found["exercises"])
    further = (
        parse_exercise_report(e, track="draft" if e.get("draft") else "further")
        for e in found["further"]
    )
    return Report(
        student=found["student"],
        seed_id=found["seed_id"],
        seed=found.get("seed"),
        device=found["device"],
        isolation=found["isolation"],
        versions=found["versions"],
        exercises=(*core, *further),
        seconds=found["seconds"],
        mark=_parse_course_mark(found["mark"]) if "mark" in found else None,
    )


def _parse_course_mark(found: dict[str, Any]) -> CourseMark:
    counted = tuple(CountedExercise(**one) for one in found["exercises"])
    return CourseMark(**{**found, "exercises": counted})


def parse_exercise_report(found: dict[str, Any], track: str) -> ExerciseReport:
    """Read the report on one exercise."""
    same = ("slug", "title", "path", "sha256", "state", "sentence", "output", "seconds")
    return ExerciseReport(
        **{name: found[name] for name in same},
        track=track,
        score=None if found["score"] is None else Score(**found["score"]),
        checks=tuple(map(_parse_reported_check, found["checks"])),
        speed=None if found["speed"] is None else parse_speed_report(found["speed"]),
        **{f"kept_{name}": found["kept"][name] for name in ("since", "seed") if "kept" in found},
    )


def _parse_reported_check(found: dict[str, Any]) -> CheckResult:
    same = ("id", "says", "points", "why", "where", "seconds")
    result = CheckResult(
        **{name: found[name] for name in same},
        verdict=Verdict(found["verdict"]),
        diagnosis=None
        if found["diagnosis"] is None
        else _parse_reported_diagnosis(found["diagnosis"]),
    )
    if found["earned"] != result.earned:
        raise ValueError(f"{result.id} did not earn {found['earned']}")
    return result


def _parse_reported_diagnosis(found: dict[str, Any]) -> Diagnosis:
    return Diagnosis(
        mistakes=tuple(NamedMistake(**m) for m in found["mistakes"]),
        together=found.get("together", False),
        places=tuple(
            WrongPlaces(axis=p["axis"], wrong=tuple(p["wrong"]), size=p["size"])
            for p in found["places"]
        ),
        stage=None if found["stage"] is None else _parse_reported_stage(found["stage"]),
        pinned=_parse_reported_pin(found["pinned"]) if found.get("pinned") else None,
        example=None if found.get("example") is None else _parse_reported_example(found["example"]),
        facts=tuple(Fact(key=f["key"], values=f["values"]) for f in found.get("facts", ())),
    )


def _parse_reported_pin(found: dict[str, Any]) -> PinnedLine:
    right = None if found["right"] is None else tuple(found["right"])
    place = {name: found[name] for name in ("line", "cell", "name")}
    newer = "change", "text", "dropped"  # not in older reports
    change = {name: found.get(name, "") for name in newer}
    return PinnedLine(**place, **change, got=tuple(found["got"]), right=right)


def _parse_reported_example(found: dict[str, Any]) -> SmallExample:
    same = ("name", "got", "right")
    return SmallExample(
        inputs=tuple(found["inputs"].items()), **{name: found[name] for name in same}
    )


def _parse_reported_stage(found: dict[str, Any]) -> Stage:
    got, right = (
        tuple(tuple(float("nan") if x is None else x for x in row) for row in found[name])
        for name in ("got", "right")
    )
    return Stage(name=found["name"], factor=found["factor"], got=got, right=right)


def parse_speed_report(found: dict[str, Any]) -> Speed:
    """Read a verdict on speed."""
    same = ("verdict", "says", "points", "earned", "why", "fraction")
    return Speed(
        **{name: found[name] for name in same},
        measured=None if found["measured"] is None else _parse_reported_measurement(found),
    )


def _parse_reported_measurement(found: dict[str, Any]) -> SpeedMeasurement:
    measured = found["measured"]
    low, high = found["interval"]
    zero, reference, student = (measured["typical"][party] for party in PARTIES)
    rounds = (measured["rounds"][party] for party in PARTIES)
    return SpeedMeasurement(
        unit=measured["unit"],
        typical=(zero, reference, student),
        position=_parse_reported_interval(*measured["position"]),
        ratio=_parse_reported_interval(low, found["ratio"], high),
        rounds=tuple(zip(*rounds, strict=True)),
        device=measured["device"],
    )


def _parse_reported_interval(low: float, middle: float, high: float) -> Interval:
    return Interval(low=low, middle=middle, high=high)
