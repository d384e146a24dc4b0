"""Reports with something of everything in them, for the formats that draw them."""

import math

from grader.core.diagnosis_records import (
    Diagnosis,
    Fact,
    NamedMistake,
    PinnedLine,
    SmallExample,
    Stage,
    WrongPlaces,
)
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

HOSTILE = (
    "'\"></pre></style><script>alert(1)</script><img src=x onerror=alert(2)>`<b>`{{ 7 * 7 }}&lt;"
)
LONG = "a" * 400  # no place to break a line

MEASURED = SpeedMeasurement(
    unit="s", typical=(0.04, 0.00525, 0.0123), rounds=((0.04, 0.005, 0.012), (0.05, 0.006, 0.013)),
    position=Interval(low=0.61, middle=0.66, high=0.72), ratio=Interval(low=2.1, middle=2.34, high=2.5),
    device={"device": "NVIDIA H200"},
)  # fmt: skip
SCORED = Speed(says="As fast as can be.", verdict="scored", points=3, earned=1, measured=MEASURED)
DIAGNOSIS = Diagnosis(
    mistakes=(
        NamedMistake(id="own_1", says="Divided by D.", mend="Divide by `sqrt(D)`."),
        NamedMistake(id="own_2", says="Not divided.", mend=""),
    ),
    places=(
        WrongPlaces(axis="head", wrong=(3,), size=8),
        WrongPlaces(axis="row", wrong=(0, 1), size=9),
    ),
    stage=Stage(name="mask", got=((0.75, 0.25), (0.5, math.nan)), right=((1.0, 0.0), (0.5, 0.5))),
    pinned=PinnedLine(line=14, name="scores", got=(2, 4), right=(2, 3)),
    facts=(Fact(key="row_sums", values={"sum": 0.98}), Fact(key="ignores_k")),
    example=SmallExample(inputs=(("q", "[[1]]"),), name="output", got="[[2]]", right="[[3]]"),
)


def check(id: str, verdict: Verdict, **more) -> CheckResult:
    default = {"says": f"What {id} asks.", "points": 2}
    return CheckResult(id=id, verdict=verdict, **(default | more))


CHECKS = (
    check("own_a", Verdict.PASSED, points=4),
    check(
        "own_b",
        Verdict.FAILED,
        why="out[0] is 1, but should be 2\n3 of 4 entries differ.",
        diagnosis=DIAGNOSIS,
    ),
    check("own_c", Verdict.BLOCKED, why="What own_b asks."),
    check("own_d", Verdict.NOT_RUN, why="needs CUDA"),
)


def exercise(slug: str = "ex03_sdpa", state: str = "graded", **more) -> ExerciseReport:
    default = {
        "title": "Attention", "track": "core", "path": f"exercises/{slug}.py", "sha256": "a" * 64,
        "sentence": "", "score": Score(earned=5, possible=11, not_run=2), "checks": CHECKS,
        "speed": SCORED, "output": "",
    }  # fmt: skip
    return ExerciseReport(slug=slug, state=state, **(default | more))


def report(*exercises: ExerciseReport, **more) -> Report:
    default = {
        "student": "me",
        "seed_id": "0" * 16,
        "seed": "5eed",
        "versions": {"torch": "2.13.0"},
    }
    return Report(
        device="cpu", isolation="locked", exercises=exercises, seconds=1.25, **(default | more)
    )


RIGHT = exercise(
    "ex01_softmax", checks=CHECKS[:1], speed=None, score=Score(earned=4, possible=4, not_run=0)
)
NOTHING = Score(earned=0, possible=8, not_run=2)
NOT_STARTED = exercise(
    "ex06_kv_cache", "not_started", sentence="Not started yet.", speed=None, score=NOTHING,
    checks=(check("own_a", Verdict.BLOCKED, why="Not started yet."),),
)  # fmt: skip
NOT_RUN = exercise(
    "ex14_triton", speed=None, score=Score(earned=0, possible=0, not_run=4),
    checks=(check("own_a", Verdict.NOT_RUN, why="needs CUDA"),),
)  # fmt: skip
REFUSED = exercise(
    "ex05_causal_mask", "refused", sentence="Line 1: `eval` is not allowed.", score=NOTHING
)
FAULT = exercise(
    "ex07_mqa_gqa", "fault", score=None, sentence="the suite cannot be run", checks=(), speed=None
)
FURTHER = exercise("ex08_cuda_sdpa", track="further", score=Score(earned=7, possible=7, not_run=0))
KEPT = exercise("ex02_masking", kept_since="2026-11-24T14:02:00+01:00", kept_seed="7")


def everywhere(text: str) -> Report:
    """A report in which `text` stands wherever a submission, or its folder, could put it."""
    failed = check("own_b", Verdict.FAILED, why=f"{text}\n{text}")
    fault = check("own_f", Verdict.GRADER_FAULT, why=text)
    slow = Speed(says="As fast as can be.", verdict="failed", points=3, why=text)
    hurt = {"path": text, "output": text, "checks": (failed, fault), "speed": slow}
    return report(
        exercise("ex03_sdpa", **hurt), exercise("ex04_heads", "unreadable", sentence=text, **hurt), student=text
    )  # fmt: skip


EVERYTHING = report(RIGHT, exercise(output="hello\n" + LONG), REFUSED, NOT_STARTED, FURTHER)
