"""What a student's own runs keep, when it counts again, and when everything is judged anew."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from grader.classroom.course.settings import NO_COURSE
from grader.cli.app import app
from grader.cli.grade_command import is_own_grade_command
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.records import Speed, Verdict
from grader.core.scoring import CHANGED
from grader.diagnosis import failed_checks
from grader.grading import exercise as exercise_module
from grader.grading import kept_results, session
from grader.grading.kept_results import open_kept_results
from grader.grading.session import Session
from grader.worker.parent.walls import PROCESS
from tests.conftest import solution

SLUGS = ("ex01_softmax", "ex09_gradients")
EXERCISES = [catalog.find_catalog_exercise(slug) for slug in SLUGS]
FIRST = EXERCISES[0]
TIMED = [
    catalog.find_catalog_exercise(slug) for slug in ("ex10_online_softmax", "ex05_causal_mask")
]
NAMED = catalog.find_catalog_exercise("ex03_sdpa")
ENDLESS = "def softmax(x, dim=-1):\n    while True:\n        pass\n"


@pytest.fixture
def calls(nursery, monkeypatch, tmp_path):
    """What was judged and timed, in order; workers come from the tests' own nursery."""
    found: list[str] = []
    judge, time = exercise_module.grade_answer, exercise_module.grade_answer_speed
    diagnose = failed_checks.diagnose_failed_checks

    def judged(exercise, *more):
        found.append(f"judge {exercise.slug}")
        return judge(exercise, *more)

    def timed(exercise, *more):
        found.append(f"time {exercise.slug}")
        return time(exercise, *more)

    def diagnosed(exercise, checks, judge):
        """Diagnose what fails, but not in the answers in which nothing is."""
        return checks if exercise.slug in SLUGS else diagnose(exercise, checks, judge)

    monkeypatch.setattr(failed_checks, "diagnose_failed_checks", diagnosed)
    monkeypatch.setattr(exercise_module, "grade_answer", judged)
    monkeypatch.setattr(exercise_module, "grade_answer_speed", timed)
    monkeypatch.setattr(session, "Nursery", lambda wall: nullcontext(nursery))
    monkeypatch.setenv("GRADER_KEPT", str(tmp_path / "kept"))
    return found


@pytest.fixture
def answers(tmp_path):
    """A folder of answers: two that are quickly judged, since nothing is in them, and two right."""
    folder = tmp_path / "answers"
    folder.mkdir()
    for exercise in EXERCISES:
        (folder / exercise.file).write_text("nothing = None\n")
    for exercise in TIMED:
        (folder / exercise.file).write_text(solution(exercise.slug))
    return folder


@pytest.fixture
def run(calls, answers, tmp_path):
    """Grade some answers; returns the report. `calls` then has what was asked for it."""

    def graded(exercises=EXERCISES, **more):
        calls.clear()
        kept = open_kept_results(tmp_path / "kept", PROCESS, "cpu", "")
        asked = {"exercises": exercises, "place": answers, "speed": False, "kept": kept} | more
        with Session(**asked) as one:
            one.judge()
            return one.time()

    return graded


@pytest.fixture
def speeds(monkeypatch):
    """The verdicts of timing, in place of a contest."""
    verdicts = {slug.slug: "scored" for slug in TIMED}

    def measure(contest, progress):
        case, verdict = contest.case, verdicts[contest.exercise.slug]
        earned = case.points if verdict == "scored" else 0
        return Speed(says=case.says, verdict=verdict, points=case.points, earned=earned)

    monkeypatch.setattr(exercise_module, "measure_speed", measure)
    return verdicts


def grade(answers, *more: str):
    names = [e.slug for e in EXERCISES]
    place = ("--submission", str(answers), "--isolation", "process")
    return CliRunner().invoke(app, ["grade", *names, *place, *more])


def append(answers, slug: str, text: str = "# changed\n") -> None:
    with (answers / f"{slug}.py").open("a") as file:
        file.write(text)


def test_what_did_not_change_is_shown_with_the_time_and_is_not_judged(calls, answers):
    first = grade(answers)
    assert first.exit_code == 0, first.output
    assert "unchanged" not in first.output
    assert calls == [f"judge {slug}" for slug in SLUGS]
    calls.clear()
    second = grade(answers)
    assert second.output.count("checks passed · unchanged since ") == 2
    assert "what is unchanged was judged earlier (FRESH=1 judges it again)" in second.output
    assert len(calls) == 1  # one of them, with new inputs, when the report was on the screen


def test_a_kept_report_is_the_report_that_was_kept(run):
    first, second = run(), run()
    assert [replace(e, kept_since="", kept_seed="") for e in second.exercises] == [
        replace(e, checks=kept.checks, seconds=kept.seconds)
        for e, kept in zip(first.exercises, second.exercises, strict=True)
    ]
    assert second.score == first.score
    assert second.seed == first.seed == second.exercises[0].kept_seed
    assert second.versions == first.versions


def test_a_run_with_nothing_changed_imports_no_torch(calls, answers, tmp_path):
    grade(answers)
    command = (
        "import sys\n"
        "from grader.grading.session import Session\n"
        "Session.judge_one_again = lambda *_: print('torch' in sys.modules)\n"
        "from grader.cli.app import run_command_line\n"
        "run_command_line()\n"
    )
    place = ("--submission", str(answers), "--isolation", "process")
    done = subprocess.run(
        [sys.executable, "-c", command, "grade", *SLUGS, *place],
        cwd=ROOT, capture_output=True, text=True, env=os.environ,
    )  # fmt: skip
    assert done.stdout.count("unchanged since ") == 2, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "False"


def test_a_changed_answer_alone_is_judged_anew(run, calls, answers):
    run()
    append(answers, "ex09_gradients")
    report = run()
    assert calls == ["judge ex09_gradients"]
    assert [bool(e.kept_since) for e in report.exercises] == [True, False]


def test_an_answer_in_another_place_is_judged_anew_and_both_are_kept(run, calls, answers):
    run()
    other = answers.parent / "other"
    answers.rename(other)
    run(place=other)
    assert len(calls) == 2
    other.rename(answers)
    run()
    assert calls == []


@pytest.mark.parametrize("what", ["fresh", "seed"])
def test_who_asks_anew_is_answered_anew_and_that_is_kept(run, calls, what):
    run()
    report = run(fresh=True) if what == "fresh" else run(seed="7")
    assert calls == [f"judge {slug}" for slug in SLUGS]
    assert run().seed == report.seed
    assert calls == []


@pytest.mark.parametrize("options", [("--fresh",), ("--seed", "7")])
def test_the_options_ask_anew(calls, answers, options):
    grade(answers)
    calls.clear()
    assert "unchanged" not in grade(answers, *options).output
    assert calls == [f"judge {slug}" for slug in SLUGS]


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch(kept_results, "digest_grading_code", lambda slug: "another suite"),
        lambda patch: patch(kept_results, "digest_grading_folders", lambda *_: "another session"),
        lambda patch: patch(kept_results, "list_grading_versions", lambda _: {"torch": "another"}),
        lambda patch: patch(kept_results, "sys", SimpleNamespace(version="another")),
        lambda patch: patch(os, "cpu_count", lambda: 1000),
        lambda patch: patch(os, "environ", {**os.environ, "OMP_NUM_THREADS": "1000"}),
    ],
    ids=["suite", "grader", "versions", "python", "processors", "threads"],
)
def test_another_suite_grader_or_machine_judges_anew(run, calls, monkeypatch, change):
    run()
    change(monkeypatch.setattr)
    run()
    assert calls == [f"judge {slug}" for slug in SLUGS]


def test_another_solution_manifest_course_or_wall_judges_anew(tmp_path, answers):
    kept = open_kept_results(tmp_path, PROCESS, "cpu", "")
    moved = replace(FIRST, home=tmp_path)
    longer = replace(FIRST, limits=replace(FIRST.limits, call_seconds=99))
    digests = [kept.digest(one, answers / FIRST.file) for one in (FIRST, moved, longer)]
    others = [
        open_kept_results(tmp_path, PROCESS, "cpu", "another course"),
        open_kept_results(tmp_path, replace(PROCESS, name="locked"), "cpu", ""),
    ]
    digests += [one.digest(FIRST, answers / FIRST.file) for one in others]
    assert len(set(digests)) == len(digests)


def test_every_suite_counts_for_a_bug_hunt(tmp_path, answers, monkeypatch):
    [hunt] = [e for e in catalog.list_catalog_exercises() if e.hunts]
    kept = open_kept_results(tmp_path, PROCESS, "cpu", "")
    before = kept.digest(hunt, answers / hunt.file), kept.digest(FIRST, answers / FIRST.file)
    real = kept_results.digest_grading_code
    monkeypatch.setattr(
        kept_results,
        "digest_grading_code",
        lambda slug: "new" if slug == "ex05_causal_mask" else real(slug),
    )
    after = kept.digest(hunt, answers / hunt.file), kept.digest(FIRST, answers / FIRST.file)
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, text: path.write_text(text[:-9]),
        lambda path, text: path.write_text("[" * 100_000),
        lambda path, text: path.write_bytes(b"\xff\xfe"),
        lambda path, text: (path.unlink(), os.mkfifo(path)),
        lambda path, text: (path.unlink(), path.mkdir()),
    ],
    ids=["cut", "nested", "no text", "a pipe", "a folder"],
)
def test_a_damaged_file_is_judged_anew(run, calls, tmp_path, damage):
    run([FIRST])
    [path] = (tmp_path / "kept").glob("*/*.json")
    damage(path, path.read_text())
    assert run([FIRST]).exercises[0].kept_since == ""
    assert calls == [f"judge {FIRST.slug}"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["judged"].update(title=5),
        lambda d: d["judged"]["checks"][0].update(says=["a"]),
        lambda d: d["judged"]["checks"][0].update(points=4000, earned=4000),
        lambda d: d["judged"]["score"].update(earned=4000),
        lambda d: d["judged"].update(slug="ex02_masking"),
        lambda d: d["judged"].pop("checks"),
        lambda d: d["judged"]["kept"].update(since="yesterday"),
        lambda d: d["judged"].pop("kept"),
        lambda d: d.update(versions={"torch": 2}),
        lambda d: d.update(speed=3),
    ],
)
def test_a_file_that_is_no_result_of_ours_is_judged_anew(run, calls, tmp_path, change):
    run([FIRST])
    [path] = (tmp_path / "kept").glob("*/*.json")
    content = json.loads(path.read_text())
    change(content["result"])
    path.write_text(json.dumps(content))
    run([FIRST])
    assert calls == [f"judge {FIRST.slug}"]


def test_where_nothing_can_be_written_nothing_is_kept(run, calls, tmp_path):
    (tmp_path / "kept").write_text("a file")
    run()
    run()
    assert calls == [f"judge {slug}" for slug in SLUGS]


def test_the_oldest_results_go_first(run, calls, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_results, "MAX_FILES", 1)
    run()
    run([EXERCISES[0]])
    assert len(calls) == 1
    assert len(list((tmp_path / "kept").glob("*/*.json"))) == 1


def test_what_was_saved_during_the_run_is_not_kept_for_the_file_before(run, calls, answers):
    before = (answers / FIRST.file).read_text()

    def save(doing, share):
        append(answers, FIRST.slug)

    kept = open_kept_results(answers.parent / "kept", PROCESS, "cpu", "")
    with Session(exercises=[FIRST], place=answers, kept=kept, speed=False) as one:
        one.judge(save)
    (answers / FIRST.file).write_text(before)
    run([FIRST])
    assert calls == [f"judge {FIRST.slug}"]


def test_what_a_busy_machine_may_have_caused_is_not_kept(run, calls, answers):
    (answers / FIRST.file).write_text(ENDLESS)
    short = replace(FIRST, limits=replace(FIRST.limits, call_seconds=0.2, exercise_seconds=1))
    for _ in range(2):
        [report] = run([short]).exercises
        assert any(c.verdict is Verdict.FAILED for c in report.checks)
        assert calls == [f"judge {FIRST.slug}"]


def test_a_mistake_is_kept_with_its_diagnosis(run, calls, answers):
    source = solution("ex03_sdpa").replace("scale = 1 / math.sqrt(q.shape[-1])", "scale = 1.0")
    (answers / "ex03_sdpa.py").write_text(source)
    first, second = run([NAMED]), run([NAMED])
    assert calls == []
    assert [c.why for c in second.exercises[0].checks] == [c.why for c in first.exercises[0].checks]
    assert any(c.diagnosis is not None for c in second.exercises[0].checks)


def test_everything_is_judged_before_anything_is_timed(run, calls, speeds):
    report = run(TIMED, speed=True)
    slugs = [e.slug for e in TIMED]
    assert calls == [*(f"judge {slug}" for slug in slugs), *(f"time {slug}" for slug in slugs)]
    assert [e.speed.verdict for e in report.exercises] == ["scored", "scored"]


def test_a_speed_is_kept_and_one_that_could_not_be_told_is_measured_again(run, calls, speeds):
    speeds["ex05_causal_mask"] = "inconclusive"
    first = run(TIMED, speed=True)
    second = run(TIMED, speed=True)
    assert calls == ["time ex05_causal_mask"]
    assert second.score == first.score
    assert [e.speed.verdict for e in second.exercises] == ["scored", "inconclusive"]


def test_a_run_without_speed_keeps_what_one_with_speed_then_times(run, calls, speeds):
    without = run(TIMED)
    timed = run(TIMED, speed=True)
    assert calls == ["time ex10_online_softmax", "time ex05_causal_mask"]
    again = run(TIMED)
    assert calls == []
    assert again.score == without.score != timed.score
    assert {e.speed.why for e in again.exercises} == {"left out with --no-speed"}


def test_a_file_that_is_saved_before_it_is_timed_is_not_timed(run, calls, answers, speeds):
    with Session(exercises=TIMED[:1], place=answers) as one:
        one.judge()
        append(answers, "ex10_online_softmax")
        [report] = one.time().exercises
    assert (report.speed.verdict, report.speed.why) == ("not_run", CHANGED)


def test_a_kept_result_that_does_not_come_out_again_is_removed(calls, answers, monkeypatch):
    grade(answers)
    judge = exercise_module.grade_answer

    def differently(exercise, *more):
        report = judge(exercise, *more)
        fault = replace(report.checks[0], verdict=Verdict.GRADER_FAULT, why="it is another")
        return replace(report, checks=(fault, *report.checks[1:]))

    with monkeypatch.context() as patched:
        patched.setattr(exercise_module, "grade_answer", differently)
        told = grade(answers)
    assert "differs from its kept result" in " ".join(told.output.split())
    assert "it is another" in told.output
    [slug] = [call.removeprefix("judge ") for call in calls[2:]]
    calls.clear()
    grade(answers)
    assert calls[0] == f"judge {slug}"
    assert len(calls) == 2  # it, and then one that was kept


def test_the_verdicts_of_the_one_that_is_judged_again_come_from_new_inputs(calls, answers):
    grade(answers)
    seeds = []
    kept = open_kept_results(answers.parent / "kept", PROCESS, "cpu", repr(NO_COURSE))
    with Session(exercises=EXERCISES, place=answers, kept=kept, speed=False) as one:
        seeds.append(one.judge().seed)
        assert one.judge_one_again() is None
        seeds.append(one._run.secret)
    assert calls[:2] == [f"judge {slug}" for slug in SLUGS]
    assert len(calls) == 3
    assert len(set(seeds)) == 2


@pytest.mark.parametrize("format", ["json", "junit", "gradescope", "github"])
def test_a_record_of_marks_is_judged_anew(calls, answers, format):
    grade(answers)
    calls.clear()
    done = grade(answers, "--format", format)
    assert done.exit_code == 0, done.output
    assert calls == [f"judge {slug}" for slug in SLUGS]
    assert "unchanged" not in done.output


def test_a_hint_from_what_is_kept_is_on_the_function_that_fails(calls, answers):
    right = solution(FIRST.slug)
    wrong = right.replace("dim=dim, keepdim=True)\n", "dim=-1, keepdim=True)\n")
    assert wrong != right
    (answers / FIRST.file).write_text(wrong)
    place = ("--submission", str(answers), "--isolation", "process")
    judged_now = CliRunner().invoke(app, ["hint", FIRST.slug, *place, "--level", "1"])
    assert calls.pop() == f"judge {FIRST.slug}"
    kept = CliRunner().invoke(app, ["hint", FIRST.slug, *place, "--level", "1"])
    assert calls == []
    assert "on softmax:" in kept.output
    assert kept.output == judged_now.output


@pytest.mark.parametrize("command", ["hint", "drill"])
def test_practice_judges_nothing_that_grade_has_judged(calls, answers, command):
    place = ("--submission", str(answers), "--isolation", "process")
    grade(answers)
    for judged in (calls[:], [*calls, f"judge {FIRST.slug}"]):
        done = CliRunner().invoke(app, [command, FIRST.slug, *place])
        assert not done.exception or isinstance(done.exception, SystemExit), done.exception
        assert calls == judged
        (answers / FIRST.file).write_text("nothing = 1\n")  # which the next command judges


@pytest.mark.parametrize(
    "change, own",
    [
        ({}, True),
        ({"format": "html"}, True),
        ({"format": "json"}, False),
        ({"format": "classroom50"}, False),
        ({"min_score": 1}, False),
        ({"environment": {"CI": "true"}}, False),
        ({"course": replace(NO_COURSE, help="exam")}, False),
        ({"course": replace(NO_COURSE, help="hints")}, False),
    ],
)
def test_only_a_students_own_run_uses_what_is_kept(change, own):
    given = {"format": "terminal", "min_score": 0, "course": NO_COURSE, "environment": {}}
    assert is_own_grade_command(**(given | change)) is own


def test_a_sealed_bundle_uses_nothing_that_is_kept(monkeypatch):
    monkeypatch.setattr("grader.core.sealed_bundle.is_core_sealed", lambda: True)
    assert not is_own_grade_command("terminal", 0, NO_COURSE, {})


def test_a_page_says_it_too(calls, answers):
    grade(answers)
    page = grade(answers, "--format", "html").output
    assert page.count("unchanged since ") == 2
