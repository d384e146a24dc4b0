"""Builds what a course hands out, from `solutions/` alone: an nbgrader course and zips."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import catalog
from grader.course import bundle
from grader.course.official import secret_of
from grader.languages import Words
from grader.records import Exercise

COURSE, BUNDLE, GRADESCOPE = "course", "attention-by-hand.zip", "gradescope.zip"
_CONFIG = """\
# Written by `make release`. nbgrader reads it; `nbgrader autograde` judges with the grader.
import sys

sys.path.insert(0, {root!r})
from grader.course.bridge import configure

c = get_config()
c.CourseDirectory.course_id = "attention-by-hand"
# c.CourseDirectory.db_url = "postgresql://user:password@host/gradebook"  # instead of SQLite
c.Judge.language = {language!r}
c.Judge.device = {device!r}
c.Judge.isolation = "auto"  # or a wall that is demanded: "locked", "contained"
configure(c)
"""


class CannotRelease(Exception):
    """A release that cannot be made; the message is a sentence with the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a release contains."""

    language: str = "en"
    device: str = "cpu"
    speed: bool = True  # points for speed are part of it


def release(out: Path, exercises: list[Exercise], terms: Terms) -> Iterator[tuple[str, Path]]:
    """Write the course and the bundle into `out`; yields what was written, and where.

    A gradebook and submissions that are there already stay as they are.
    """
    try:
        import nbgrader  # noqa: F401
    except ImportError:
        cure = 'pip install "attention-by-hand[notebooks]", or `make release`, which does that.'
        raise CannotRelease(f"nbgrader is not installed: {cure}") from None
    course = out / COURSE
    course.mkdir(parents=True, exist_ok=True)
    secret_of(course)
    _write_config(course, terms)
    yield "the course", course / "nbgrader_config.py"
    for exercise in exercises:
        yield "source", _write_source(course, exercise, terms)
    for exercise in exercises:
        yield "release", _generate(course, exercise)
    notebooks = {e.slug: course / "release" / e.slug / f"{e.slug}.ipynb" for e in exercises}
    (out / BUNDLE).write_bytes(bundle.for_students(exercises, notebooks))
    yield "for students", out / BUNDLE
    (out / GRADESCOPE).write_bytes(bundle.for_gradescope(exercises))
    yield "for Gradescope", out / GRADESCOPE


def _write_config(course: Path, terms: Terms) -> None:
    text = _CONFIG.format(root=str(catalog.ROOT), language=terms.language, device=terms.device)
    (course / "nbgrader_config.py").write_text(text, encoding="utf-8")


def _write_source(course: Path, exercise: Exercise, terms: Terms) -> Path:
    from grader.course import notebooks

    path = course / "source" / exercise.slug / f"{exercise.slug}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    built = notebooks.source_notebook(
        exercise, Words(terms.language), cuda=terms.device == "cuda", speed=terms.speed
    )
    path.write_text(notebooks.to_text(built), encoding="utf-8")
    return path


def _generate(course: Path, exercise: Exercise) -> Path:
    """nbgrader's own `generate_assignment`."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    from grader.course.bridge import configure

    config = Config()
    config.CourseDirectory.root = str(course.absolute())
    config.CourseDirectory.course_id = "attention-by-hand"
    configure(config)
    done = NbGraderAPI(config=config).generate_assignment(exercise.slug, force=True, create=True)
    if not done["success"]:
        last = (done.get("error") or done.get("log") or "").strip().splitlines()[-1:]
        raise CannotRelease(f"nbgrader made no release of {exercise.slug}: {''.join(last)}")
    return course / "release" / exercise.slug / f"{exercise.slug}.ipynb"
