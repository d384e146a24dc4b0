"""Writes the settings of a course as a `course.toml`."""

import json
from collections.abc import Iterator

from grader.classroom.course.settings import ChosenExercise, CourseSettings

COURSE_FILE_HEAD = "# Written by `make release`, every time; what the course has settled.\n"


def write_course_toml(settings: CourseSettings) -> str:
    """Return the text of a file that reads as these settings."""
    return COURSE_FILE_HEAD + "".join(f"{line}\n" for line in _write_course_toml_lines(settings))


def _write_course_toml_lines(settings: CourseSettings) -> Iterator[str]:
    yield f"name = {_write_course_text(settings.name)}"
    if settings.language is not None:
        yield f"language = {_write_course_text(settings.language)}"
    yield f"device = {_write_course_text(settings.device)}"
    yield f"speed = {str(settings.speed).lower()}"
    if settings.wall is not None:
        yield f"wall = {_write_course_text(settings.wall)}"
    yield f"help = {_write_course_text(settings.help)}"
    if settings.help == "exam":
        yield f"exam_shows = {_write_course_text(settings.exam_shows)}"
    if settings.packs:
        yield f"packs = [{', '.join(_write_course_text(str(pack)) for pack in settings.packs)}]"
    yield from ("", "[late]", f"penalty_per_day = {settings.late.penalty_per_day}")
    yield f"at_most = {settings.late.at_most}"
    yield f"grace_minutes = {settings.late.grace_minutes}"
    for one in settings.chosen:
        yield from _write_course_exercise_lines(one)
    for extension in settings.extensions:
        yield from ("", "[[extensions]]", f"student = {_write_course_text(extension.student)}")
        if extension.slug is not None:
            yield f"ex = {_write_course_text(extension.slug)}"
        if extension.until is None:
            yield f"days = {extension.days}"
        else:
            yield f"until = {extension.until.isoformat()}"


def _write_course_exercise_lines(one: ChosenExercise) -> Iterator[str]:
    yield from ("", "[[exercises]]", f"ex = {_write_course_text(one.slug)}")
    if one.weight is not None:
        yield f"weight = {one.weight}"
    if one.deadline is not None:
        yield f"deadline = {one.deadline.isoformat()}"


def _write_course_text(text: str) -> str:
    """Return a text as TOML writes it, which is JSON but for one sign."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
