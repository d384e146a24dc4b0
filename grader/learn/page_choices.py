"""Keeps what a person chose on the page in a file beside the progress, for the next start."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.core.records import Exercise
from grader.core.translation import LANGUAGES
from grader.learn.open_files import replace_text
from grader.practice.learner_progress import find_progress_file, read_learner_progress
from grader.submission.answer_file import UnreadableFile, read_submission_bytes

MAX_BYTES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChoices:
    """The choices of a person; what was not chosen is empty."""

    language: str = ""
    dark: bool | None = None  # None: as the browser prefers
    slug: str = ""  # of the exercise that was open last


def read_page_choices(place: Path) -> PageChoices:
    """Read the choices; those that are missing or do not fit are empty."""
    try:
        found = json.loads(read_submission_bytes(_find_page_choices_file(place), MAX_BYTES))
    except (UnreadableFile, OSError, ValueError, RecursionError):
        return PageChoices()
    match found:
        case {"language": str(language), "dark": bool() | None as dark, "slug": str(slug)}:
            return PageChoices(
                language=language if language in LANGUAGES else "", dark=dark, slug=slug
            )
    return PageChoices()


def write_page_choices(place: Path, choices: PageChoices) -> None:
    """Write the choices; a folder that cannot be written loses them at the next start."""
    with suppress(OSError):
        replace_text(_find_page_choices_file(place), json.dumps(asdict(choices)) + "\n")


def choose_first_exercise(exercises: Sequence[Exercise], place: Path) -> Exercise:
    """Return the exercise that was open last, else the first that was never passed."""
    last, progress = read_page_choices(place).slug, read_learner_progress(place)
    open_last = (e for e in exercises if e.slug == last)
    never_passed = (e for e in exercises if not progress.about(e.slug).passed)
    return next(open_last, None) or next(never_passed, exercises[0])


def _find_page_choices_file(place: Path) -> Path:
    progress = find_progress_file(place)
    return progress.with_name(f"{progress.name}.page")
