"""Builds the wheel: the grader as an open bundle has it, and copies of what a learner is handed.

Only setuptools is there when this runs, beside the standard library.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from setuptools.build_meta import *  # noqa: F403 (this module is the backend)
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

from grader.authoring.skeletons import NoSkeleton, find_skeleton_copy, make_untouched_skeleton
from grader.core.catalog import ROOT, list_catalog_exercises
from grader.core.installed_copies import COPIES_FOLDER
from grader.release.bundle import is_file_bundled
from grader.release.bundle_pages import unlink_missing_files

LESSONS_FOLDER = "docs/lessons"
_COPIED_FILES = ("Makefile", ".vscode/launch.json")
_PICTURE = re.compile(r"^!\[.*\]\(.*\)\n+", re.M)


class BuildWheelFiles(build_py):  # type: ignore[misc]
    """Leaves right answers and drafts out of the packages, and adds the copies."""

    def run(self) -> None:
        """Build into an empty folder: what an earlier build left there would be packed too."""
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        built = Path(self.build_lib)
        drafts = [exercise.slug for exercise in list_catalog_exercises() if exercise.draft]
        for name, content in _list_wheel_copies(drafts):
            (built / name).parent.mkdir(parents=True, exist_ok=True)
            (built / name).write_bytes(content)
        for path in list(built.rglob("*")):
            if path.is_file() and not is_file_bundled(ROOT / path.relative_to(built), drafts):
                path.unlink()


class WriteWheelDescription(egg_info):  # type: ignore[misc]
    """Leaves out of the description what leads nowhere on the page of a package index."""

    def run(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        self.distribution.metadata.long_description = write_wheel_description(readme)
        super().run()


def write_wheel_description(readme: str) -> str:
    """Return the README without pictures; of links to the project's files their words stay."""
    return unlink_missing_files(_PICTURE.sub("", readme), lambda _: False)


def _list_wheel_copies(drafts: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the project outside its packages that `init` hands out."""
    for name in _COPIED_FILES:
        yield f"{COPIES_FOLDER}/{name}", (ROOT / name).read_bytes()
    for exercise in list_catalog_exercises():
        if exercise.slug not in drafts:
            with suppress(NoSkeleton):  # a course's bundle has those that were released
                yield find_skeleton_copy(exercise), make_untouched_skeleton(exercise).encode()
    for path in sorted((ROOT / LESSONS_FOLDER).iterdir()):
        if path.suffix in (".md", ".svg") and not path.name.startswith(tuple(drafts)):
            yield f"{COPIES_FOLDER}/{LESSONS_FOLDER}/{path.name}", path.read_bytes()
