"""Builds the release of a course from `solutions/` alone: an nbgrader course and zips."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from grader.classroom.course.course_file import write_course_toml
from grader.classroom.course.settings import COURSE_FILE, NO_COURSE, ChosenExercise, CourseSettings
from grader.core import catalog
from grader.core.errors import UserError
from grader.core.grade_ids import build_core_grade_id
from grader.core.packs import list_packs_in_use
from grader.core.records import Exercise
from grader.core.this_python import build_pip_install_command
from grader.core.translation import Words
from grader.grading.official_grader import load_grading_secret
from grader.release import bundle
from grader.release.course_gradebook import is_gradebook_begun, open_course_gradebook

if TYPE_CHECKING:  # nbgrader brings it
    from traitlets.config import Config

COURSE, EXCHANGE = "course", "exchange"
BUNDLE, GRADESCOPE = "attention-by-hand.zip", "gradescope.zip"
SEALED_BUNDLE_NAME = "attention-by-hand-sealed.zip"
WEAKEST_WALL = "locked"  # of marks that count, as `make class` demands it
CONFIG, GENERATED = "nbgrader_config.py", "release_config.py"
_CONFIG_TEMPLATE = """\
# The course's own settings, yours to change: `make release` does not write over this file.
c = get_config()
load_subconfig("release_config.py")  # what `make release` sets: the judge, language and device

# Where students fetch and submit, writable by everybody: on a server, the folder that it has.
c.Exchange.root = {exchange!r}
# c.CourseDirectory.db_url = "postgresql+psycopg://user:password@host/gradebook"
# c.Judge.isolation = "contained"  # demand a wall
"""
_GENERATED_CONFIG_TEMPLATE = """\
# Written by every `make release`; settings of your own belong into nbgrader_config.py.
import sys

from pathlib import Path

sys.path.insert(0, {root!r})
from grader.core import catalog
from grader.release.nbgrader_bridge import configure

catalog.add_packs_to_catalog(map(Path, {packs!r}))

c = get_config()
c.CourseDirectory.course_id = "attention-by-hand"
c.Judge.language = {language!r}
c.Judge.device = {device!r}
c.Judge.weakest = {weakest!r}
c.Judge.shows = {shows!r}
configure(c)
"""


class CannotRelease(UserError):
    """Raised when a release cannot be made; the message says why, and how to fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTerms:
    """The options of a release."""

    language: str = "en"
    device: str = "cpu"
    speed: bool = True  # whether points for speed are part of the release
    sealed: bool = False  # students get stored cases in the place of right answers
    course: CourseSettings = NO_COURSE

    @property
    def released_settings(self) -> CourseSettings:
        """Return the course's settings with the release's options in the place of its own."""
        return replace(self.course, language=self.language, device=self.device, speed=self.speed)


def release_course(
    out: Path, exercises: list[Exercise], terms: ReleaseTerms
) -> Iterator[tuple[str, Path | str]]:
    """Write the course and the zips into `out`; yield what was written, and where.

    An existing gradebook and existing submissions stay as they are.
    """
    _check_release_possible(exercises, terms)
    course = out / COURSE
    course.mkdir(parents=True, exist_ok=True)
    secret = load_grading_secret(course)
    _write_nbgrader_config(course, terms)
    yield "the course", course / CONFIG
    for exercise in exercises:
        _check_released_grades(course, exercise, terms)
    for exercise in exercises:
        yield "source", _write_source_notebook(course, exercise, terms)
    for exercise in exercises:
        yield "release", _generate_release_notebook(course, exercise)
        _set_released_due_date(course, exercise, terms)
    notebooks = {e.slug: course / "release" / e.slug / f"{e.slug}.ipynb" for e in exercises}
    text = _release_course_toml(exercises, terms)
    if terms.sealed:
        yield from _release_sealed_bundle(out, exercises, notebooks, secret, terms)
    else:
        (out / BUNDLE).write_bytes(bundle.build_open_bundle(exercises, notebooks, text))
        yield "for students", out / BUNDLE
    if terms.course.shows == "nothing":  # an autograder prints marks
        (out / GRADESCOPE).unlink(missing_ok=True)
        return
    (out / GRADESCOPE).write_bytes(bundle.build_gradescope_bundle(exercises, text))
    yield "for Gradescope", out / GRADESCOPE


def _check_release_possible(exercises: Sequence[Exercise], terms: ReleaseTerms) -> None:
    """Raise `CannotRelease` for what is known to be missing before anything is written."""
    try:
        import nbgrader  # noqa: F401
    except ImportError:
        cure = f"{build_pip_install_command('nbgrader')}, or `make release`, which does that."
        raise CannotRelease(f"nbgrader is not installed: {cure}") from None
    if terms.sealed and find_spec("safetensors") is None:
        raise CannotRelease(
            f"safetensors is not installed: {build_pip_install_command('safetensors')}"
        )
    if terms.sealed:
        from grader.release.sealed import record_cases

        reasons = [(e.slug, record_cases.explain_unsealable_exercise(e)) for e in exercises]
        if all(why for _, why in reasons):
            _refuse_to_seal([": ".join(one) for one in reasons])


def _refuse_to_seal(reasons: Sequence[str]) -> NoReturn:
    raise CannotRelease(f"Nothing can be sealed. {'. '.join(reasons)}.")


def _release_course_toml(exercises: Sequence[Exercise], terms: ReleaseTerms) -> str:
    """Return the students' course.toml: the released exercises, without anybody's extension."""
    if terms.course.path is None:
        return ""
    settled = {one.slug: one for one in terms.course.chosen}
    chosen = tuple(settled.get(e.slug, ChosenExercise(slug=e.slug)) for e in exercises)
    return write_course_toml(replace(terms.released_settings.for_students(), chosen=chosen))


def _release_sealed_bundle(
    out: Path,
    exercises: list[Exercise],
    notebooks: Mapping[str, Path],
    secret: str,
    terms: ReleaseTerms,
) -> Iterator[tuple[str, Path | str]]:
    """Write the sealed bundle; raise `CannotRelease` if a file in it is an answer."""
    from grader.release.sealed import bundle_contents, leaks, record_cases

    seed = hashlib.sha256(f"sealed {secret}".encode()).hexdigest()[:16]
    recorded = list(record_cases.record_all_sealed_cases(exercises, seed))
    without = [": ".join(one) for one in recorded if isinstance(one, tuple)]
    if len(without) == len(recorded):
        _refuse_to_seal(without)
    yield from (("not sealed", why) for why in without)
    stored = {one.slug for one in recorded if isinstance(one, record_cases.Recorded)}
    text = _release_course_toml([e for e in exercises if e.slug in stored], terms)
    made = bundle_contents.build_sealed_bundle(exercises, notebooks, recorded, seed, text)
    if found := leaks.find_bundle_leaks(made, exercises):
        raise CannotRelease(
            f"The sealed bundle would hold answers: {'; '.join(map(str, found))}. Take them out of "
            "what is released; nothing was written for students."
        )
    (out / BUNDLE).unlink(missing_ok=True)  # an earlier open bundle holds the answers
    (out / SEALED_BUNDLE_NAME).write_bytes(made)
    yield "for students", out / SEALED_BUNDLE_NAME


def _write_nbgrader_config(course: Path, terms: ReleaseTerms) -> None:
    text = _GENERATED_CONFIG_TEMPLATE.format(
        root=str(catalog.ROOT), packs=list(map(str, list_packs_in_use())), language=terms.language,
        device=terms.device, weakest=terms.course.wall or WEAKEST_WALL, shows=terms.course.shows,
    )  # fmt: skip
    if terms.course.path is not None:
        (course / COURSE_FILE).write_text(
            write_course_toml(terms.released_settings), encoding="utf-8"
        )
    (course / GENERATED).write_text(text, encoding="utf-8")
    if not (course / CONFIG).exists():
        exchange = str(course.parent.absolute() / EXCHANGE)
        (course / CONFIG).write_text(_CONFIG_TEMPLATE.format(exchange=exchange), encoding="utf-8")


def _check_released_grades(course: Path, exercise: Exercise, terms: ReleaseTerms) -> None:
    """Raise `CannotRelease` if the exercise has grades for tasks that this release lacks."""
    from nbgrader.api import MissingEntry

    from grader.authoring.exercise_cells import count_task_points

    url = _build_nbgrader_gradebook_url(course)
    if not is_gradebook_begun(url):
        return
    wanted = count_task_points(exercise, cuda=terms.device == "cuda", speed=terms.speed)
    with open_course_gradebook(url) as gradebook:
        try:
            cells = gradebook.find_notebook(exercise.slug, exercise.slug).grade_cells
        except MissingEntry:
            return
        before = {cell.name for cell in cells}
        graded = bool(gradebook.assignment_submissions(exercise.slug))
    if graded and before != {build_core_grade_id(task) for task in wanted}:
        raise CannotRelease(
            f"{exercise.slug} has grades already, and this release would have other points. Make "
            "it on the same terms (--no-speed, DEVICE=), or in another folder (OUT=)."
        )


def _build_nbgrader_gradebook_url(course: Path) -> str:
    own = load_nbgrader_config(course).CourseDirectory.get(
        "db_url", f"sqlite:///{course / 'gradebook.db'}"
    )
    return str(own)


def _set_released_due_date(course: Path, exercise: Exercise, terms: ReleaseTerms) -> None:
    """Set the deadline that nbgrader shows; without a course.toml, leave nbgrader's own."""
    if terms.course.path is not None:
        due = terms.course.deadlines.get(exercise.slug)
        with open_course_gradebook(_build_nbgrader_gradebook_url(course)) as gradebook:
            gradebook.update_or_create_assignment(exercise.slug, duedate=due)


def load_nbgrader_config(course: Path) -> "Config":
    """Load the nbgrader settings of a course."""
    from traitlets.config import PyFileConfigLoader

    return PyFileConfigLoader(CONFIG, path=str(course.absolute())).load_config()


def _write_source_notebook(course: Path, exercise: Exercise, terms: ReleaseTerms) -> Path:
    from grader.release import notebook_pages

    path = course / "source" / exercise.slug / f"{exercise.slug}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    built = notebook_pages.build_released_notebook(
        exercise, Words(terms.language), cuda=terms.device == "cuda", speed=terms.speed,
        shows=terms.course.shows,
    )  # fmt: skip
    path.write_text(notebook_pages.write_released_notebook(built), encoding="utf-8")
    return path


def _generate_release_notebook(course: Path, exercise: Exercise) -> Path:
    """Make the release notebook with nbgrader's `generate_assignment`; return its path."""
    from nbgrader.apps import NbGraderAPI

    settings = load_nbgrader_config(course)
    settings.CourseDirectory.root = str(course.absolute())
    done = NbGraderAPI(config=settings).generate_assignment(exercise.slug, force=True, create=True)
    if not done["success"]:
        last = (done.get("error") or done.get("log") or "").strip().splitlines()[-1:]
        raise CannotRelease(f"nbgrader made no release of {exercise.slug}: {''.join(last)}")
    return course / "release" / exercise.slug / f"{exercise.slug}.ipynb"
