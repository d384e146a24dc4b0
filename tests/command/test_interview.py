"""`grader interview`: the blank file, the clock, what counts at the end, the questions."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader.cli import app, interview_command
from grader.core import catalog
from grader.core.questions import Question
from grader.core.translation import Words
from grader.practice.interview import clock, sitting
from tests.classes.handing import in_chinese
from tests.reporting import samples

ASKED = tuple(
    Question(id=f"q{n}", asks=f"What is {n}?", answer=f"It is {n}, exactly.") for n in range(5)
)


class Desk:
    """Somebody at work: time goes by, and at certain seconds something is done or typed."""

    closed = False

    def __init__(self) -> None:
        self.time = 0.0
        self.steps = 1.0  # seconds that a look at the keyboard takes
        self.at: dict[float, object] = {}  # what is typed then, or done
        self.answers: list[str] = []

    def line(self, seconds: float) -> str | None:
        self.time += max(self.steps, seconds)
        for moment in [m for m in self.at if m <= self.time]:
            thing = self.at.pop(moment)
            if isinstance(thing, str):
                return thing
            thing()
        return None

    def text(self) -> str:
        return self.answers.pop(0) if self.answers else ""

    def forget(self) -> None:
        pass


@pytest.fixture
def desk(monkeypatch) -> Desk:
    desk = Desk()
    monkeypatch.setattr(interview_command, "Keyboard", lambda: desk)
    now = lambda: desk.time  # noqa: E731
    monkeypatch.setattr(
        interview_command, "InterviewClock", lambda seconds: clock.InterviewClock(seconds, now)
    )
    monkeypatch.setattr(interview_command, "read_questions_toml", lambda exercise: ASKED)
    return desk


@pytest.fixture
def graded(monkeypatch) -> list[tuple[Path, str]]:
    """What was graded: where it lay, and its text. The report is made up."""
    seen = []

    def grade_all(exercises, place, **options):
        seen.append((place, place.read_text(encoding="utf-8")))
        assert options["speed"] is False
        [exercise] = exercises
        made = samples.exercise(exercise.slug, path=str(place))
        return replace(samples.report(), exercises=(made,))

    monkeypatch.setattr("grader.grading.session.grade_all_exercises", grade_all)
    return seen


@pytest.fixture
def held(tmp_path):
    """held("ex02", ...): the exit code, what was printed, what was said."""

    def hold(*arguments: str, lang: str = "en"):
        options = ["-o", str(tmp_path / "held"), "--lang", lang, "--isolation", "process"]
        done = CliRunner(env={"COLUMNS": "200"}).invoke(
            app.app, ["interview", *arguments, *options], catch_exceptions=False
        )
        return done.exit_code, done.stdout, done.stderr

    return hold


@pytest.fixture
def folder(tmp_path):
    return lambda: next((tmp_path / "held").iterdir())


@pytest.fixture
def writes(folder):
    """writes(text): what writes this into the file of ex02."""
    return lambda text: lambda: (folder() / "ex02_masking.py").write_text(text, encoding="utf-8")


def test_an_answer_is_handed_in_graded_and_asked_about(desk, held, folder, writes, graded):
    desk.at = {300: writes("mine = 1\n"), 754: ""}
    desk.answers = ["Because of the variance.\n# twice", "", "I do not know."]
    code, printed, said = held("ex02", "--seed", "7")
    assert (code, said) == (0, "")
    assert "Handed in after 12:34." in printed
    assert [text for _, text in graded] == ["mine = 1\n"]
    assert printed.index("Divide by `sqrt(D)`.") < printed.index("Question 1 of 3")
    assert printed.count("A model answer:") == 3
    kept = (folder() / "answers.md").read_text(encoding="utf-8")
    assert "> Because of the variance.\n> # twice\n" in kept
    assert "(none written)" in kept
    assert "Divide by `sqrt(D)`." in (folder() / "report.txt").read_text(encoding="utf-8")
    assert printed.endswith(": answers.md, ex02_masking.py, handed_in.py, report.txt.\n")


@pytest.mark.parametrize("typed", ["", "done", " DONE "])
def test_enter_or_done_hands_in(desk, held, graded, writes, typed):
    desk.at = {5: writes("mine = 1\n"), 9: typed}
    assert "Handed in after 0:09." in held("ex02")[1]


def test_any_other_word_does_not(desk, held, graded, writes):
    desk.at = {5: writes("mine = 1\n"), 9: "no"}
    assert "Time is up: your last save is graded." in held("ex02")[1]
    assert desk.time == 30 * 60


def test_what_is_saved_after_the_end_does_not_count(desk, held, graded, writes, monkeypatch):
    opened = Late(writes("late = 1\n"))
    desk.at = {5: writes("in_time = 1\n")}
    monkeypatch.setattr(sitting.editor, "choose_interview_editor", lambda: ["ed"])
    monkeypatch.setattr(
        sitting.editor, "open_interview_editor", lambda *_: desk.line(2.0 * 60 * 60) or opened
    )
    code, printed, _ = held("ex02", "--edit")
    [(place, text)] = graded
    assert (code, place.name, text) == (0, "handed_in.py", "in_time = 1\n")
    assert (place.parent / "ex02_masking.py").read_text() == "late = 1\n"
    assert "The end was noticed 90:00 late, because this machine slept or" in printed


class Late:
    """An editor that is still open at the end, in which something is saved then."""

    def __init__(self, saves) -> None:
        self.wait = saves

    def poll(self) -> None:
        return None


@pytest.mark.parametrize("steps, told", [(7.0, False), (25.0, True)])
def test_a_small_delay_is_not_told(desk, held, graded, writes, steps, told):
    desk.at, desk.steps = {5: writes("mine = 1\n")}, steps
    printed = held("ex02", "--minutes", "1")[1]
    assert ("The end was noticed 0:15 late" in printed) == told


@pytest.mark.parametrize(
    "leave",
    [
        lambda path: None,
        lambda path: path.write_text(""),
        lambda path: path.write_bytes(b"\xef\xbb\xbf# a note\r\n\r\n   # \xff\r\n"),
        lambda path: path.unlink(),
        lambda path: path.unlink() or path.mkdir(),
    ],
    ids=["untouched", "empty", "comments", "deleted", "a folder"],
)
def test_nothing_written_earns_nothing_and_is_asked_about(desk, held, folder, graded, leave):
    desk.at = {5: lambda: leave(folder() / "ex02_masking.py"), 9: ""}
    code, printed, said = held("ex02")
    assert (code, said, graded) == (0, "", [])
    assert f"Nothing is written in {folder() / 'ex02_masking.py'}: no points." in printed
    assert printed.count("A model answer:") == 3


def test_ctrl_c_says_where_the_file_is_and_how_to_grade_it(desk, held, folder):
    def interrupt():
        raise KeyboardInterrupt

    desk.at = {5: interrupt}
    code, printed, said = held("ex02")
    path = folder() / "ex02_masking.py"
    assert (code, said) == (0, "")
    assert printed.endswith(
        f"\nEnded. Your file is {path}; this grades it:\n"
        f"  make grade EX=ex02_masking SUBMISSION={path}\n"
    )


def test_a_file_that_the_grader_fails_on_ends_with_3(desk, held, writes, monkeypatch):
    made = samples.exercise("ex02_masking", "fault", score=None)
    report = replace(samples.report(), exercises=(made,))
    monkeypatch.setattr("grader.grading.session.grade_all_exercises", lambda *_, **__: report)
    desk.at = {5: writes("mine = 1\n"), 9: ""}
    code, printed, _ = held("ex02")
    assert code == 3
    assert printed.count("A model answer:") == 3


def test_a_seed_brings_the_same_exercise_and_questions_back(desk, held):
    first, again = (held("--seed", "4711", "--minutes", "45")[1] for _ in range(2))
    [slug] = {
        e.slug for e in catalog.list_catalog_exercises() if f"Drawn: {e.slug} (SEED=4711" in first
    }
    assert f"Drawn: {slug} (SEED=4711 draws it again)." in again
    asked = [line for line in first.splitlines() if line.startswith("What is")]
    assert len(asked) == len(set(asked)) == 3
    assert asked == [line for line in again.splitlines() if line.startswith("What is")]


def test_what_is_drawn_fits_and_needs_no_cuda():
    drawn = {
        interview_command._choose_exercise_for_command(None, 60, seed, Words()).slug.split("_")[0]
        for seed in range(100)
    }
    assert drawn == {
        *("ex00", "ex01", "ex02", "ex03", "ex04", "ex05", "ex06", "ex07"),
        *("ex09", "ex10", "ex11", "ex12", "ex13", "ex16"),
    }
    short = {
        interview_command._choose_exercise_for_command(None, 20, seed, Words()).minutes
        for seed in range(50)
    }
    assert max(short) == 40


NO_TIME = "{!r} is no time for an interview: give whole minutes, 1 to 240."
NO_SEED = "{!r} is no seed of an interview: at most 18 digits, or no --seed at all."
WRONG = [
    *((["ex02", "--minutes", m], NO_TIME.format(m)) for m in ("0", "241", "-3", "1.5", "", "٣")),
    *((["ex02", "--seed", s], NO_SEED.format(s)) for s in ("x", "-1", "9" * 19)),
    (["ex5"], "There is no exercise called 'ex5'. Did you mean ex05?"),
    (["ex17"], "ex17_bug_hunt is a bug hunt, which begins with an answer: name another exercise."),
    (["--minutes", "5"], "No exercise fits in 5 minutes: give more time, or name one (EX=ex01_softmax)."),
]  # fmt: skip


@pytest.mark.parametrize("arguments, says", WRONG)
def test_what_cannot_be_held_gets_a_sentence(desk, held, tmp_path, arguments, says):
    code, printed, said = held(*arguments)
    assert (code, printed, said) == (2, "", f"{says}\n")
    assert not (tmp_path / "held").exists()


def test_what_cannot_be_graded_here_is_not_begun(desk, held, tmp_path, monkeypatch):
    why = "needs triton, which is not installed here: pip install triton"
    monkeypatch.setattr(
        interview_command.requirements, "find_unmet_worker_requirement", lambda _: why
    )
    assert held("ex14") == (2, "", f"ex14_triton cannot be graded here: {why}\n")
    assert not (tmp_path / "held").exists()


def test_a_folder_that_cannot_be_written_gets_a_sentence(desk, held, tmp_path):
    (tmp_path / "held").write_text("")
    code, _, said = held("ex02")
    assert code == 2
    assert said.endswith("cannot be written: Not a directory.\n")


def test_without_questions_there_is_a_sentence(desk, held, monkeypatch):
    monkeypatch.setattr(interview_command, "read_questions_toml", lambda exercise: ())
    assert "There are no questions on ex02_masking yet." in held("ex02")[1]


def test_every_sentence_is_there_in_chinese():
    english = [
        *(says for arguments, says in WRONG if arguments != ["ex5"]),
        sitting._LATE_SENTENCE.format(time="1:30"),
    ]
    for sentence in english:
        assert in_chinese(sentence), sentence
