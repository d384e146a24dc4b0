"""Opens the gradebook that a course's settings name, and makes a PostgreSQL database for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from grader.core.errors import UserError
from grader.core.this_python import build_pip_install_command

if TYPE_CHECKING:
    from nbgrader.api import Gradebook
    from sqlalchemy import URL

DRIVER = "psycopg[binary]"
_MAINTENANCE = "postgres"  # the database that every server has


class NoGradebook(UserError):
    """Raised when the gradebook cannot be opened; the message says why, and how to fix it."""


def create_missing_gradebook(url: str) -> None:
    """Create the gradebook's database if it is one of PostgreSQL's that is not there yet."""
    from sqlalchemy import create_engine, make_url, text
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        place = make_url(url)
    except ArgumentError:
        raise NoGradebook("db_url in nbgrader_config.py is no address of a database.") from None
    if place.get_backend_name() != "postgresql":
        return
    try:
        server = create_engine(place.set(database=_MAINTENANCE), isolation_level="AUTOCOMMIT")
        with server.connect() as connection:
            known = text("SELECT 1 FROM pg_database WHERE datname = :name")
            if connection.execute(known, {"name": place.database}).first() is None:
                quoted = server.dialect.identifier_preparer.quote(str(place.database))
                connection.execute(text(f"CREATE DATABASE {quoted}"))
        server.dispose()
    except ModuleNotFoundError as error:
        cure = build_pip_install_command(DRIVER)
        raise NoGradebook(f"{error.name}, PostgreSQL's driver, is not installed: {cure}") from None
    except SQLAlchemyError as error:
        raise NoGradebook(_explain_refusal(place, error)) from None


def _explain_refusal(place: "URL", error: Exception) -> str:
    said = str(getattr(error, "orig", error)).strip().splitlines()[:1]
    shown = place.render_as_string(hide_password=True)
    cure = "See db_url in nbgrader_config.py."
    return f"The gradebook {shown} cannot be opened: {''.join(said)}. {cure}"


@contextmanager
def open_course_gradebook(url: str) -> Iterator["Gradebook"]:
    """Open the gradebook at a course's address; make what it needs."""
    from nbgrader.api import Gradebook

    create_missing_gradebook(url)
    with Gradebook(url) as gradebook:
        yield gradebook


def is_gradebook_begun(url: str) -> bool:
    """Return whether there can be grades; a file of SQLite appears with the first."""
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()
