"""Says, after an exercise is passed, what was learned and what comes next, in at most ten lines."""

from collections.abc import Sequence
from pathlib import Path

from grader.core.questions import read_questions_toml
from grader.core.records import Exercise, ExerciseReport
from grader.core.translation import Words
from grader.practice.hints import is_practice_passed
from grader.practice.learner_progress import (
    PROGRESS_FILE,
    LearnedExercise,
    read_learner_progress,
    record_attempt,
)
from grader.submission import answer_file


def follow_practice_report(
    exercise: Exercise, place: Path, report: ExerciseReport, exercises: Sequence[Exercise],
    words: Words,
) -> tuple[str, ...]:  # fmt: skip
    """Record an attempt in the learner's progress; return the lines for a passed exercise."""
    damaged = read_learner_progress(place).damaged
    passed = is_practice_passed(report)
    record_attempt(place, report, passed=passed)
    lines = list_passed_lines(exercise, place, exercises, words) if passed else ()
    told = "{file} is damaged and counts as empty; it is kept under another name, and begun anew."
    return (*lines, *([words(told, file=PROGRESS_FILE)] if damaged else []))


def list_passed_lines(
    exercise: Exercise, place: Path, exercises: Sequence[Exercise], words: Words
) -> tuple[str, ...]:
    """Return what a learner reads after a pass: what was learned, and the ways on."""
    entry = read_learner_progress(place).about(exercise.slug)
    lines = [words("{slug} is passed. You now know:", slug=exercise.slug)]
    lines += [f"  · {sentence}" for sentence in words.learned(exercise)]
    lines += [
        _point_to_model_answer(exercise, words),
        _ask_interview_question(exercise, entry, words),
    ]
    lines += [describe_learner_progress(entry, words)]
    lines += [_name_next_exercise(exercise, place, exercises, words)]
    return tuple(line for line in lines if line)


def describe_learner_progress(entry: LearnedExercise, words: Words) -> str:
    """Return one line about attempts, hints and the first pass; empty before the first attempt."""
    if not entry.attempts:
        return ""
    told = "Attempts: {attempts}. Hints: {hints}."
    if entry.passed:
        told = "Attempts: {attempts}. Hints: {hints}. First passed on {day}, at attempt {needed}."
    return words(told, attempts=entry.attempts, hints=entry.hints, day=entry.passed,
                 needed=entry.needed)  # fmt: skip


def _point_to_model_answer(exercise: Exercise, words: Words) -> str:
    """Return how to lay the model answer beside one's own, with what is there of the two ways."""
    ways = []
    if (exercise.folder / "show.py").is_file():
        ways.append(words("`make show EX={slug}` sets every step beside the right one.",
                          slug=exercise.slug))  # fmt: skip
    if exercise.solution.is_file():
        ways.append(words("`make hint EX={slug} ARGS=--solution` prints the model answer.",
                          slug=exercise.slug))  # fmt: skip
    return words.joined(*ways)


def _ask_interview_question(exercise: Exercise, entry: LearnedExercise, words: Words) -> str:
    questions = read_questions_toml(exercise)
    if not questions:
        return ""
    chosen = questions[entry.attempts % len(questions)]  # another one after another attempt
    asks, _ = words.question(exercise.slug, chosen.id, chosen.asks, chosen.answer)
    told = "An interviewer asks: {asks} (`make interview EX={slug}`)"
    return words(told, asks=asks, slug=exercise.slug)


def _name_next_exercise(
    exercise: Exercise, place: Path, exercises: Sequence[Exercise], words: Words
) -> str:
    """Return the next exercise that has never been passed, and its lesson."""
    progress = read_learner_progress(place)
    slugs = [e.slug for e in exercises if not e.draft]
    at = slugs.index(exercise.slug) + 1 if exercise.slug in slugs else 0
    waiting = [s for s in [*slugs[at:], *slugs[:at]] if not progress.about(s).passed]
    waiting = [s for s in waiting if s != exercise.slug]
    if not waiting:
        return words("Every exercise here is passed.")
    lesson = answer_file.locate_lesson_of_submission(waiting[0], words.language)
    return words("Next: {slug}, with its lesson {lesson}", slug=waiting[0], lesson=lesson)
