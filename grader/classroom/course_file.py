"""Writes what a course has settled as a `course.toml`."""

import json
from collections.abc import Iterator

from grader.classroom.settings import Chosen, Settings

HEAD = "# Written by `make release`, every time; what the course has settled.\n"


def to_toml(settings: Settings) -> str:
    """The text of a file that reads as these settings."""
    return HEAD + "".join(f"{line}\n" for line in _lines(settings))


def _lines(settings: Settings) -> Iterator[str]:
    yield f"name = {_text(settings.name)}"
    if settings.language is not None:
        yield f"language = {_text(settings.language)}"
    yield f"device = {_text(settings.device)}"
    yield f"speed = {str(settings.speed).lower()}"
    if settings.wall is not None:
        yield f"wall = {_text(settings.wall)}"
    yield f"help = {_text(settings.help)}"
    if settings.help == "exam":
        yield f"exam_shows = {_text(settings.exam_shows)}"
    if settings.packs:
        yield f"packs = [{', '.join(_text(str(pack)) for pack in settings.packs)}]"
    yield from ("", "[late]", f"penalty_per_day = {settings.late.penalty_per_day}")
    yield f"at_most = {settings.late.at_most}"
    yield f"grace_minutes = {settings.late.grace_minutes}"
    for one in settings.chosen:
        yield from _exercise(one)
    for extension in settings.extensions:
        yield from ("", "[[extensions]]", f"student = {_text(extension.student)}")
        if extension.slug is not None:
            yield f"ex = {_text(extension.slug)}"
        if extension.until is None:
            yield f"days = {extension.days}"
        else:
            yield f"until = {extension.until.isoformat()}"


def _exercise(one: Chosen) -> Iterator[str]:
    yield from ("", "[[exercises]]", f"ex = {_text(one.slug)}")
    if one.weight is not None:
        yield f"weight = {one.weight}"
    if one.deadline is not None:
        yield f"deadline = {one.deadline.isoformat()}"


def _text(text: str) -> str:
    """A text as TOML writes it, which is JSON but for one sign."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
