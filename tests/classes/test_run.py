"""What a run grades, what it keeps, and what the next one finds."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from grader.classroom.run.class_progress import ClassProgress
from grader.classroom.run.class_run import ClassRun
from grader.classroom.run.gather_answers import list_class_students
from grader.classroom.run.grade_task import SPEED, VALUES, GradeTerms
from grader.core import catalog
from grader.core.result_store import ResultStore
from grader.core.translation import Words
from grader.grading import source_digest
from tests.classes.lanes import Pretended

SLUG = "ex01_softmax"
TERMS = GradeTerms(seed_id="0" * 16, device="cpu", wall="locked", versions={"torch": "2.13.0"})


@pytest.fixture
def folder(tmp_path):
    """Submissions of three: one right, one wrong, one who handed in nothing."""
    for student, text in (("ada", "right"), ("ben", "wrong"), ("cy", None)):
        (tmp_path / "submissions" / student).mkdir(parents=True)
        if text:
            hand_in(tmp_path, student, text)
    return tmp_path


def hand_in(folder: Path, student: str, text: str) -> None:
    (folder / "submissions" / student / f"{SLUG}.py").write_text(text)


def run(folder: Path, *, speed: bool = True, terms: GradeTerms = TERMS, during=None) -> ClassRun:
    """A whole run; `lanes` of what is returned says what was asked of it."""
    students, _ = list_class_students(folder / "submissions")
    lanes = Pretended()
    progress = ClassProgress(Console(file=io.StringIO()), Words())
    made = ClassRun(entries=students, exercises=[catalog.find_catalog_exercise(SLUG)], terms=terms,
                    store=ResultStore(folder / "parts"), start=lambda: lanes)  # fmt: skip
    with made:
        made.judge(progress)
        if during:
            during()
        if speed:
            made.time(progress)
    made.pretended = lanes if "lanes" in made.__dict__ else Pretended()
    return made


def asked(made: ClassRun) -> list[tuple[str, str]]:
    return made.pretended.asked


def speeds(made: ClassRun) -> dict[str, str | None]:
    found = {row.student: made.result(row.tasks[0]) for row in made.rows}
    return {name: r and r["speed"]["verdict"] for name, r in found.items()}


def test_everybody_is_judged_and_then_what_is_right_is_timed(folder):
    made = run(folder)
    assert asked(made) == [(VALUES, "ada"), (VALUES, "ben"), (VALUES, "cy"), (SPEED, "ada")]
    assert speeds(made) == {"ada": "scored", "ben": "failed", "cy": "failed"}
    assert made.graded == 4
    assert made.pretended.closed == [False]


def test_a_second_run_starts_no_process(folder):
    first, second = run(folder), run(folder)
    assert "lanes" not in second.__dict__
    assert speeds(second) == speeds(first)


def test_only_what_was_changed_is_graded_again(folder):
    run(folder)
    hand_in(folder, "ben", "right now")
    assert asked(run(folder)) == [(VALUES, "ben"), (SPEED, "ben")]


def test_speed_can_come_later(folder):
    assert SPEED not in dict(asked(run(folder, speed=False)))
    assert asked(run(folder)) == [(SPEED, "ada")]


@pytest.mark.parametrize("change", ["suite", "versions", "secret"])
def test_another_suite_version_or_secret_is_another_result(folder, monkeypatch, change):
    run(folder)
    terms = TERMS
    if change == "suite":
        monkeypatch.setattr(source_digest, "digest_grading_code", lambda slug: "another")
    else:
        new = {"versions": {"torch": "3"}} if change == "versions" else {"seed_id": "1" * 16}
        terms = GradeTerms(**{"seed_id": TERMS.seed_id, "device": "cpu", "wall": "locked",
                         "versions": TERMS.versions, **new})  # fmt: skip
    assert len(asked(run(folder, terms=terms))) == 4


@pytest.mark.parametrize("word, again", [("fault", VALUES), ("deadly", VALUES), ("busy", SPEED)])
def test_what_is_not_certain_is_tried_again_by_the_next_run(folder, word, again):
    hand_in(folder, "ada", word)
    first = run(folder)
    assert speeds_or_none(first)["ada"] in (None, "inconclusive")
    assert (again, "ada") in asked(run(folder))


def speeds_or_none(made: ClassRun) -> dict[str, str | None]:
    found = {row.student: made.result(row.tasks[0]) for row in made.rows}
    return {n: None if r is None or r["score"] is None else r["speed"]["verdict"]
            for n, r in found.items()}  # fmt: skip


def test_what_ends_its_process_costs_nobody_else(folder):
    hand_in(folder, "ada", "deadly")
    found = speeds_or_none(run(folder))
    assert found == {"ada": None, "ben": "failed", "cy": "failed"}


def test_a_file_that_is_changed_during_the_run_is_not_timed_and_told(folder):
    made = run(folder, during=lambda: hand_in(folder, "ada", "right but other"))
    assert SPEED not in dict(asked(made))
    assert made.remarks == {
        "ada": [f"submissions/ada/{SLUG}.py was changed during the run: grade again."]
    }


def test_a_damaged_result_is_made_again(folder):
    run(folder)
    for path in (folder / "parts").rglob("*.json"):
        path.write_text("{")
    assert len(asked(run(folder))) == 4


def test_an_error_ends_the_processes_at_once(folder):
    lanes, (students, _) = Pretended(), list_class_students(folder / "submissions")
    made = ClassRun(entries=students, exercises=[catalog.find_catalog_exercise(SLUG)], terms=TERMS,
                    store=ResultStore(folder / "parts"), start=lambda: lanes)  # fmt: skip
    made.lanes  # noqa: B018 - it is started
    made.__exit__(RuntimeError, RuntimeError(), None)
    assert lanes.closed == [True]
