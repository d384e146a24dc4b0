"""The report as JSON: `attention-by-hand/report/v1`, described in docs/formats.md."""

import json
import math
from dataclasses import asdict
from typing import Any

from grader.core.diagnosis_records import Diagnosis, PinnedLine, SmallExample, Stage
from grader.core.records import CheckResult, ExerciseReport, Report, Score, Speed, SpeedMeasurement

REPORT_SCHEMA = "attention-by-hand/report/v1"
PARTIES = ("zero", "reference", "student")


def write_report_json(report: Report) -> str:
    """Return the report as indented JSON text, its keys in the order of the description."""
    return json.dumps(convert_report_to_dict(report), indent=2, ensure_ascii=False) + "\n"


def convert_report_to_dict(report: Report) -> dict[str, Any]:
    """Return the report as dicts, lists and numbers."""
    own = {} if report.seed is None else {"seed": report.seed}
    return {
        "schema": REPORT_SCHEMA,
        "student": report.student,
        "seed_id": report.seed_id,
        **own,
        "device": report.device,
        "isolation": report.isolation,
        "versions": dict(report.versions),
        "seconds": round(report.seconds, 3),
        "score": _report_score_as_json(report.score),
        **({} if report.mark is None else {"mark": asdict(report.mark)}),
        "exercises": [convert_exercise_report(e) for e in report.core],
        "further": [convert_exercise_report(e) for e in report.further],
    }


def convert_exercise_report(e: ExerciseReport) -> dict[str, Any]:
    """Return the report on one exercise as dicts, lists and numbers."""
    return {
        "slug": e.slug,
        **({"draft": True} if e.track == "draft" else {}),
        "title": e.title,
        "path": e.path,
        "sha256": e.sha256,
        "state": e.state,
        "sentence": e.sentence,
        "score": None if e.score is None else _report_score_as_json(e.score),
        "checks": [_report_check_as_json(c) for c in e.checks],
        "speed": None if e.speed is None else convert_speed_report(e.speed),
        "output": e.output,
        "seconds": round(e.seconds, 3),
        **({"kept": {"since": e.kept_since, "seed": e.kept_seed}} if e.kept_since else {}),
    }


def _report_check_as_json(c: CheckResult) -> dict[str, Any]:
    return {
        "id": c.id,
        "says": c.says,
        "verdict": c.verdict.value,
        "points": c.points,
        "earned": c.earned,
        "why": c.why,
        "diagnosis": None if c.diagnosis is None else _report_diagnosis_as_json(c.diagnosis),
        "where": c.where,
        "seconds": round(c.seconds, 3),
    }


def _report_diagnosis_as_json(d: Diagnosis) -> dict[str, Any]:
    return {
        "mistakes": [{"id": m.id, "says": m.says, "mend": m.mend} for m in d.mistakes],
        "together": d.together,
        "places": [{"axis": p.axis, "wrong": list(p.wrong), "size": p.size} for p in d.places],
        "stage": None if d.stage is None else _report_stage_as_json(d.stage),
        "pinned": None if d.pinned is None else _report_pinned_line_as_json(d.pinned),
        "facts": [{"key": f.key, "values": dict(f.values)} for f in d.facts],
        "example": None if d.example is None else _report_example_as_json(d.example),
    }


def _report_pinned_line_as_json(p: PinnedLine) -> dict[str, Any]:
    right = None if p.right is None else list(p.right)
    place = {"line": p.line, "cell": p.cell, "name": p.name, "got": list(p.got), "right": right}
    return place | {"change": p.change, "text": p.text, "dropped": p.dropped}


def _report_example_as_json(x: SmallExample) -> dict[str, Any]:
    return {"inputs": dict(x.inputs), "name": x.name, "got": x.got, "right": x.right}


def _report_stage_as_json(s: Stage) -> dict[str, Any]:
    got, right = (
        [[_report_number_as_json(x) for x in row] for row in rows] for rows in (s.got, s.right)
    )
    return {"name": s.name, "factor": s.factor, "got": got, "right": right}


def _report_number_as_json(x: float) -> float | None:
    return x if math.isfinite(x) else None  # JSON has no NaN


def convert_speed_report(s: Speed) -> dict[str, Any]:
    """Return a verdict on speed as dicts, lists and numbers."""
    m = s.measured
    return {
        "verdict": s.verdict,
        "says": s.says,
        "points": s.points,
        "earned": s.earned,
        "why": s.why,
        "fraction": s.fraction,
        "ratio": None if m is None else m.ratio.middle,
        "interval": None if m is None else [m.ratio.low, m.ratio.high],
        "measured": None if m is None else _report_measurement_as_json(m),
    }


def _report_measurement_as_json(m: SpeedMeasurement) -> dict[str, Any]:
    return {
        "unit": m.unit,
        "typical": dict(zip(PARTIES, m.typical, strict=True)),
        "position": [m.position.low, m.position.middle, m.position.high],
        "device": dict(m.device),
        "rounds": {p: list(r) for p, r in zip(PARTIES, zip(*m.rounds, strict=True), strict=True)},
    }


def _report_score_as_json(s: Score) -> dict[str, int]:
    return {"earned": s.earned, "possible": s.possible, "not_run": s.not_run}
