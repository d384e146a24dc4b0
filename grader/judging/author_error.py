"""Tells an author what exception the author's own files raised, and in which line."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.core.errors import GraderFault, UserError
from grader.core.records import Exercise


class AuthorError(UserError):
    """Raised for an exception of a suite, a solution or a reference; the message has its line."""


@contextmanager
def tell_author_errors(exercise: Exercise) -> Iterator[None]:
    """Raise `AuthorError` for an exception that a file of this exercise raised."""
    try:
        yield
    except (GraderFault, UserError):
        raise
    except Exception as error:  # an author's code may raise anything
        if told := _describe_author_error(error, exercise):
            raise AuthorError(told) from None
        raise


def _describe_author_error(error: Exception, exercise: Exercise) -> str:
    """Return the last line of the author's that an exception passed, as a sentence; "" if none."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and _is_of_author(error.filename or "", exercise):
        return f"{error.filename}, line {error.lineno}: {error.msg}. Mend it."
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_of_author(frame.filename, exercise):
            return f"{frame.filename}, line {frame.lineno}, raises {what}. Mend it."
    return ""


def _is_of_author(name: str, exercise: Exercise) -> bool:
    folders = (exercise.folder, exercise.home / "reference", exercise.home / "solutions")
    return any(Path(name).is_relative_to(folder) for folder in folders)
