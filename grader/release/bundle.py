"""Builds the zips of a release: the students' bundle, and an autograder for Gradescope.

The students' bundle has all that `make grade` needs, also suites and the oracle in `reference/`.
Files with answers as students write them are left out: `solutions/`, each suite's `variants.py`.
"""

import io
import re
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from grader.authoring.skeletons import find_skeleton_copy, make_lesson, make_skeleton
from grader.classroom.course.settings import COURSE_FILE
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES
from grader.release.bundle_pages import fit_pages_to_bundle
from grader.submission.answer_file import locate_lesson_of_submission

TOP_FOLDER = "attention-by-hand"
_TOP_LEVEL_FILES = ("LICENSE", "pyproject.toml", "constraints.txt")
_README_NOTES = {  # by file, the note below its title
    "README.md": """
> This is the bundle of a course, a part of the project: `solutions/`, the project's tests and what
> was not released are not in it. If there is a `SEALED.md`, that says what else is not.
""",
    "README.zh-CN.md": """
> 这是一门课程的压缩包，只是项目的一部分：没有 `solutions/`、项目自身的测试和未发布的题目。
> 如果有 `SEALED.md`，它说明还缺少什么。
""",
}
_BUNDLED_FOLDERS = ("grader", "reference", "docs", ".devcontainer", ".vscode")
_PROJECT_GOALS = (  # of the Makefile: they need files that are left out
    "test", "weekly", "lint", "skeletons", "release", "mutants", "mechanical", "headroom", "cheats",
    "diagnose-trial",
    "house", "new", "gpu-check", "picture", "site", "wheel", "coverage", "drill", "bench-.*",
)  # fmt: skip
_PAGES_FOR_OTHERS = (  # of docs/: for teachers, authors and maintainers, with the whole project
    "architecture.*", "authors.md", "changelog.md", "classes.md", "evidence.md", "gpu.md",
    "instructors.md", "nbgrader.md", "packs.md", "scale.md", "similar.md",
)  # fmt: skip
_GOAL_REFUSAL_COMMAND = (
    "@echo '`make $@` needs the whole project, of which this bundle is a part: `make` lists what"
    " can be made here.' >&2; exit 2"
)
_GITHUB_WORKFLOW_PATH = Path(__file__).with_name("grade.yml")
_AUTOGRADER_SCRIPTS = [Path(__file__).with_name(name) for name in ("setup.sh", "run_autograder")]
_ZIP_TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can name
_EXCLUDED_NAMES = frozenset({"variants.py", "__pycache__"})


def build_open_bundle(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path], course: str = ""
) -> bytes:
    """Return the open bundle, a zip for students, as bytes; `course` is the text of a course.toml.

    The same sources give the same bytes.
    """
    found = fit_pages_to_bundle(
        list_open_bundle_files(exercises, notebooks, course),
        list_refused_goals(),
        list_core_slugs(),
        speed=tomllib.loads(course).get("speed", True),
    )
    return zip_bundle((f"{TOP_FOLDER}/{name}", text) for name, text in found)


def build_gradescope_bundle(exercises: Sequence[Exercise], course: str = "") -> bytes:
    """Return the zip of Gradescope's autograder: `setup.sh`, `run_autograder` and the grader."""
    names = " ".join(exercise.slug for exercise in exercises).encode()
    scripts = {path.name: path.read_bytes() for path in _AUTOGRADER_SCRIPTS}
    grader = [*_list_grader_bundle_files(exercises, course), *_list_pack_bundle_files(exercises)]
    grader = list(fit_pages_to_bundle(grader, (), ()))
    return zip_bundle([*grader, *scripts.items(), ("exercises.txt", names)])


def _list_pack_bundle_files(exercises: Iterable[Exercise]) -> Iterator[tuple[str, bytes]]:
    """Yield the suites and references of packs, at their places in the project's tree."""
    for exercise in exercises:
        if exercise.home != ROOT:
            for path in exercise.folder.rglob("*"):
                name = path.relative_to(exercise.folder.parent).as_posix()
                if path.is_file() and not _EXCLUDED_NAMES.intersection(path.parts):
                    yield f"grader/suites/{name}", path.read_bytes()
            for path in (exercise.home / "reference").glob(f"{exercise.slug}*.py"):
                yield f"reference/{path.name}", path.read_bytes()


def list_core_slugs() -> list[str]:
    """Return the exercises whose points make the total."""
    return [e.slug for e in catalog.list_catalog_exercises() if e.track == "core"]


def zip_bundle(contents: Iterable[tuple[str, bytes]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(contents):
            entry = zipfile.ZipInfo(name, _ZIP_TIMESTAMP)
            entry.external_attr = (0o755 if content.startswith(b"#!") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return file.getvalue()


def _list_grader_bundle_files(
    exercises: Sequence[Exercise], course: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the files that grading needs; those of drafts only if the draft is released."""
    drafts = {e.slug for e in catalog.list_catalog_exercises() if e.draft} - {
        e.slug for e in exercises
    }
    for name in _TOP_LEVEL_FILES:
        yield name, (ROOT / name).read_bytes()
    for name, note in _README_NOTES.items():
        title, _, text = (ROOT / name).read_text(encoding="utf-8").partition("\n\n")
        yield name, f"{title}\n{note}\n{text}".encode()
    rules = write_bundle_makefile((ROOT / "Makefile").read_text(encoding="utf-8"))
    if course:
        yield COURSE_FILE, course.encode()
        rules = rules.replace("COURSE ?=\n", f"COURSE ?= {COURSE_FILE}\n")
    yield "Makefile", rules.encode()
    for folder in _BUNDLED_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and is_file_bundled(path, drafts):
                yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def list_open_bundle_files(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path], course: str
) -> Iterator[tuple[str, bytes]]:
    """Yield every file of the open bundle: its name and its bytes."""
    yield from _list_grader_bundle_files(exercises, course)
    yield from _list_pack_bundle_files(exercises)
    yield ".github/workflows/grade.yml", _GITHUB_WORKFLOW_PATH.read_bytes()
    yield "AI-POLICY.md", (ROOT / "docs/ai-policy.md").read_bytes()
    for exercise in exercises:
        source = exercise.solution.read_text(encoding="utf-8")
        skeleton = make_skeleton(exercise, source).encode()
        yield f"exercises/{exercise.file}", skeleton
        yield find_skeleton_copy(exercise), skeleton  # for `make reset`
        yield f"notebooks/{exercise.slug}.ipynb", notebooks[exercise.slug].read_bytes()
        for language in LANGUAGES:
            lesson = make_lesson(exercise, source, language)
            yield locate_lesson_of_submission(exercise.slug, language), lesson.encode()
            picture = exercise.home / "docs/lessons" / f"{exercise.slug}.{language}.svg"
            if picture.is_file():
                yield f"docs/lessons/{picture.name}", picture.read_bytes()


def is_file_bundled(path: Path, drafts: Iterable[str]) -> bool:
    name = path.relative_to(ROOT)
    # Lessons are written for what is released; pictures are drawn from what is left out, and the
    # site from the whole project.
    ours = any(name.match(f"docs/{page}") for page in ("*.py", *_PAGES_FOR_OTHERS)) or any(
        name.is_relative_to(folder) for folder in ("docs/lessons", "docs/site")
    )
    left_out = {*_EXCLUDED_NAMES, *drafts, *(f"{slug}.py" for slug in drafts)}
    return not ours and left_out.isdisjoint(name.parts)


def list_refused_goals() -> list[str]:
    """Return the goals of the Makefile that need the whole project."""
    ours = re.compile(rf"({'|'.join(_PROJECT_GOALS)}):")
    rules = (ROOT / "Makefile").read_text(encoding="utf-8").split("\n\n")
    return [rule.partition(":")[0] for rule in rules if ours.match(rule)]


def write_bundle_makefile(text: str) -> str:
    """Return the bundle's Makefile, in which goals that need the whole project print a refusal."""
    left_out = list_refused_goals()
    kept = [rule for rule in text.split("\n\n") if rule.partition(":")[0] not in left_out]
    refused = f"{' '.join(left_out)}:\n\t{_GOAL_REFUSAL_COMMAND}\n"
    return "\n\n".join([*kept, refused]).replace("\n\n\n", "\n\n")
