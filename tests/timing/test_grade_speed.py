"""Speed as a part of grading: measured for what is right, and counted or left out."""

from dataclasses import replace

import pytest

from grader.authoring.skeletons import make_skeleton
from grader.core import catalog
from grader.core.errors import GraderFault
from grader.core.records import Score
from grader.grading import exercise as grading
from grader.grading.exercise import Run, grade_answer
from grader.judging import agree, suite_runner
from tests.conftest import solution
from tests.timing.contests import feed, made_up
from tests.timing.rounds import rounds

SLUG = "ex03_sdpa"
QUICK = "ex05_causal_mask"  # whose checks take half the time of those of ex03
RIGHT = solution(SLUG)
WRONG_WEIGHTS = RIGHT + (
    "\n\n_right = scaled_dot_product_attention\n\n"
    "def scaled_dot_product_attention(q, k, v, keep=None, scale=None):\n"
    "    output, weights = _right(q, k, v, keep, scale)\n"
    "    return output, weights * 2\n"
)
WAITS = "speed is measured when every check passes"


@pytest.fixture(autouse=True)
def _unexplained(unexplained):
    """What is wrong is not timed, whatever the mistake is called."""


@pytest.fixture
def timed(monkeypatch):
    """The contests that were begun; each of them has rounds that nobody ran."""
    begun = []

    def measure(contest, progress):
        begun.append(contest)
        progress(1.0)
        return real(made_up(lambda number: rounds(40, seed=number), points=contest.case.points))

    real = grading.measure_speed
    monkeypatch.setattr(grading, "measure_speed", measure)
    return begun


@pytest.fixture
def report(nursery, tmp_path):
    def run(source: str | None, slug: str = SLUG, **more):
        if source is not None:
            (tmp_path / catalog.find_catalog_exercise(slug).file).write_text(source)
        default = {"nursery": nursery, "student": "test", "secret": "test"}
        return grade_answer(catalog.find_catalog_exercise(slug), tmp_path, Run(**(default | more)))

    return run


def worth(slug: str = SLUG) -> tuple[int, int]:
    """The points of the checks that run on the CPU, and those of speed."""
    exercise = catalog.find_catalog_exercise(slug)
    checks = sum(c.points for c in suite_runner.list_suite_checks(exercise) if not c.cuda)
    return checks, suite_runner.find_suite_speed_case(exercise).points


def test_what_is_right_is_timed_and_its_points_count(report, timed):
    found = report(solution(QUICK), QUICK)
    checks, speed = worth(QUICK)
    assert [c.exercise.slug for c in timed] == [QUICK]
    assert found.speed.verdict == "scored"
    assert found.speed.points == speed
    assert 0 < found.speed.earned < speed
    assert found.score == Score(
        earned=checks + found.speed.earned, possible=checks + speed, not_run=0
    )


def test_what_is_wrong_is_not_timed_and_its_points_are_not_earned(report, timed):
    found = report(WRONG_WEIGHTS)
    checks, speed = worth()
    assert timed == []
    assert (found.speed.verdict, found.speed.earned) == ("failed", 0)
    assert found.speed.why == WAITS
    assert found.score.possible == checks + speed
    assert found.score.not_run == 0


def test_without_speed_its_points_are_left_out(report, timed):
    checks, speed = worth()
    for source in (RIGHT, WRONG_WEIGHTS):
        found = report(source, speed=False)
        assert (found.speed.verdict, found.speed.why) == ("not_run", "left out with --no-speed")
        assert (found.score.possible, found.score.not_run) == (checks, speed)
    assert timed == []


@pytest.mark.parametrize(
    "speed, verdict, not_run", [(True, "failed", 0), (False, "not_run", worth()[1])]
)
@pytest.mark.parametrize(
    "source, state",
    [
        (make_skeleton(catalog.find_catalog_exercise(SLUG), RIGHT), "not_started"),
        (None, "missing"),
        ("def f(:\n", "unreadable"),
        ("import torch\ntorch.nn.MultiheadAttention\n", "refused"),
        ("x = 1 / 0\n", "unreadable"),
    ],
    ids=["not started", "missing", "not Python", "refused", "raises"],
)
def test_what_cannot_be_graded_earns_nothing_for_speed_either(
    report, timed, source, state, speed, verdict, not_run
):
    found = report(source, speed=speed)
    assert (found.state, found.speed.verdict, found.speed.earned) == (state, verdict, 0)
    assert found.score == Score(earned=0, possible=sum(worth()) - not_run, not_run=not_run)
    if speed:
        assert found.speed.why == found.sentence
    assert timed == []


def test_an_exercise_without_a_speed_case_has_no_speed(report, timed):
    assert report(solution("ex01_softmax"), "ex01_softmax").speed is None
    assert timed == []


@pytest.mark.parametrize("source", [solution("ex15_cuda_kernel"), None], ids=["right", "missing"])
def test_points_for_speed_on_cuda_are_left_out_on_the_cpu(report, monkeypatch, source):
    def measure(contest, progress):
        assert contest.case.cuda
        return real(replace(fake, case=contest.case, exercise=contest.exercise))

    real, fake = grading.measure_speed, made_up(lambda number: rounds(40, seed=number))
    monkeypatch.setattr(grading, "measure_speed", measure)
    slug = "ex15_cuda_kernel"
    checks, speed = worth(slug)
    found = report(source, slug)
    assert (found.speed.verdict, found.speed.why, found.speed.earned) == (
        "not_run",
        "needs CUDA",
        0,
    )
    assert found.score.possible == checks
    assert found.score.not_run >= speed


def test_a_fault_of_ours_in_timing_gives_no_score(report, monkeypatch):
    def measure(contest, progress):
        raise GraderFault("the zero of ex05_causal_mask: out[0] is 1")

    monkeypatch.setattr(grading, "measure_speed", measure)
    found = report(solution(QUICK), QUICK)
    assert (found.state, found.score, found.speed) == ("fault", None, None)
    assert found.sentence == "the zero of ex05_causal_mask: out[0] is 1"


@pytest.fixture
def small(monkeypatch):
    """A case of ex03's that takes milliseconds, between its own parties."""

    def bench(race):
        for draw in race:
            q, k, v = (draw.normal(1, 2, 64, 16) for _ in range(3))
            weights = (q @ k.mT / 4).softmax(-1)
            for found in race.time("scaled_dot_product_attention", q, k, v):
                agree(found[0], weights @ v)

    case = replace(
        suite_runner.find_suite_speed_case(catalog.find_catalog_exercise(SLUG)), bench=bench
    )
    monkeypatch.setattr(suite_runner, "find_suite_speed_case", lambda exercise: case)


def test_a_whole_run_is_timed_on_the_clock_of_the_grader(report, small, monkeypatch):
    feed(monkeypatch, zero=8.0, reference=1.0, student=2.0)
    told: list[tuple[str, float]] = []
    found = report(RIGHT, progress=lambda doing, share: told.append((doing, share)))
    assert found.state == "graded"
    assert found.speed.verdict == "scored", found.speed.why
    assert found.speed.measured.unit == "s"
    assert len(found.speed.measured.rounds) % 20 == 0
    assert found.speed.measured.typical == pytest.approx((8.0, 1.0, 2.0), rel=1e-3)
    assert told[0] == (f"grading {SLUG}", 0.0)
    assert told[-1] == (f"timing {SLUG}", 1.0)


def test_an_answer_that_is_wrong_only_when_it_is_timed_earns_nothing_for_speed(report, small):
    at_64 = RIGHT + (
        "\n\n_right = scaled_dot_product_attention\n\n"
        "def scaled_dot_product_attention(q, k, v, keep=None, scale=None):\n"
        "    output, weights = _right(q, k, v, keep, scale)\n"
        "    return output + (q.shape == (1, 2, 64, 16)), weights\n"
    )
    found = report(at_64)
    checks, speed = worth()
    assert (found.speed.verdict, found.speed.earned, found.speed.measured) == ("failed", 0, None)
    assert "scaled_dot_product_attention(float32 (1, 2, 64, 16)" in found.speed.why
    assert found.score == Score(earned=checks, possible=checks + speed, not_run=0)
