"""The zips: for students all that `make grade` needs, and for Gradescope the same as an autograder.

The oracle in `reference/` and the suites are in it openly: grading at home needs them. Left out is
what holds an answer in the student's own form: `solutions/`, and each suite's `variants.py`.
"""

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from grader.authoring.skeletons import copy_path, lesson_text, skeleton_text
from grader.classroom.settings import FILE
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES
from grader.submission.answer_file import lesson_path

TOP = "attention-by-hand"
_FILES = ("LICENSE", "pyproject.toml", "constraints.txt", ".github/CONTRIBUTING.md")
_READMES = {  # with what is said first of all, below the title
    "README.md": """
> This is the bundle of a course, a part of the project: `solutions/`, the project's tests and what
> was not released are not in it. If there is a `SEALED.md`, that says what else is not.
""",
    "README.zh-CN.md": """
> 这是一门课程的压缩包，只是项目的一部分：没有 `solutions/`、项目自身的测试和未发布的题目。
> 如果有 `SEALED.md`，它说明还缺少什么。
""",
}
_FOLDERS = ("grader", "reference", "docs", ".devcontainer")
_OURS = (  # goals of the Makefile that need what is left out
    "test", "weekly", "lint", "skeletons", "release", "mutants", "mechanical", "headroom", "cheats",
    "house", "new", "gpu-check", "picture", "wheel", "bench-.*",
)  # fmt: skip
_REFUSED = (
    "@echo '`make $@` needs the whole project, of which this bundle is a part: `make` lists what"
    " can be made here.' >&2; exit 2"
)
_WORKFLOW = Path(__file__).with_name("grade.yml")
_AUTOGRADER = [Path(__file__).with_name(name) for name in ("setup.sh", "run_autograder")]
_WHEN = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can name
_LEFT_OUT = frozenset({"variants.py", "__pycache__"})


def for_students(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path], course: str = ""
) -> bytes:
    """The open bundle's bytes, the same for the same sources; `course` is its course.toml."""
    return zipped((f"{TOP}/{name}", text) for name, text in contents(exercises, notebooks, course))


def for_gradescope(exercises: Sequence[Exercise], course: str = "") -> bytes:
    """Gradescope's autograder: `setup.sh`, `run_autograder` and the grader beside them."""
    names = " ".join(exercise.slug for exercise in exercises).encode()
    scripts = {path.name: path.read_bytes() for path in _AUTOGRADER}
    grader = [*_grader(exercises, course), *_packed(exercises)]
    return zipped([*grader, *scripts.items(), ("exercises.txt", names)])


def _packed(exercises: Iterable[Exercise]) -> Iterator[tuple[str, bytes]]:
    """What packs bring: it becomes part of the one tree."""
    for exercise in exercises:
        if exercise.home != ROOT:
            for path in exercise.folder.rglob("*"):
                name = path.relative_to(exercise.folder.parent).as_posix()
                if path.is_file() and not _LEFT_OUT.intersection(path.parts):
                    yield f"grader/suites/{name}", path.read_bytes()
            for path in (exercise.home / "reference").glob(f"{exercise.slug}*.py"):
                yield f"reference/{path.name}", path.read_bytes()


def zipped(contents: Iterable[tuple[str, bytes]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(contents):
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.external_attr = (0o755 if content.startswith(b"#!") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return file.getvalue()


def _grader(exercises: Sequence[Exercise], course: str) -> Iterator[tuple[str, bytes]]:
    """What grading needs, at home or elsewhere; of a draft nothing, unless it is released."""
    drafts = {e.slug for e in catalog.exercises() if e.draft} - {e.slug for e in exercises}
    for name in _FILES:
        yield name, (ROOT / name).read_bytes()
    for name, note in _READMES.items():
        title, _, text = (ROOT / name).read_text(encoding="utf-8").partition("\n\n")
        yield name, f"{title}\n{note}\n{text}".encode()
    rules = makefile((ROOT / "Makefile").read_text(encoding="utf-8"))
    if course:
        yield FILE, course.encode()
        rules = rules.replace("COURSE ?=\n", f"COURSE ?= {FILE}\n")
    yield "Makefile", rules.encode()
    for folder in _FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and _goes_along(path, drafts):
                yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def contents(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path], course: str
) -> Iterator[tuple[str, bytes]]:
    """Every file of the open bundle by its name."""
    yield from _grader(exercises, course)
    yield from _packed(exercises)
    yield ".github/workflows/grade.yml", _WORKFLOW.read_bytes()
    yield "AI-POLICY.md", (ROOT / "docs/ai-policy.md").read_bytes()
    for exercise in exercises:
        source = exercise.solution.read_text(encoding="utf-8")
        skeleton = skeleton_text(exercise, source).encode()
        yield f"exercises/{exercise.file}", skeleton
        yield copy_path(exercise), skeleton  # for `make reset`
        yield f"notebooks/{exercise.slug}.ipynb", notebooks[exercise.slug].read_bytes()
        for language in LANGUAGES:
            lesson = lesson_text(exercise, source, language)
            yield lesson_path(exercise.slug, language), lesson.encode()


def _goes_along(path: Path, drafts: Iterable[str]) -> bool:
    name = path.relative_to(ROOT)
    # Lessons are written for what is released; the picture is drawn from the solutions.
    ours = name.is_relative_to("docs/lessons") or name == Path("docs/picture.py")
    left_out = {*_LEFT_OUT, *drafts, *(f"{slug}.py" for slug in drafts)}
    return not ours and left_out.isdisjoint(name.parts)


def makefile(text: str) -> str:
    """The Makefile; goals that need the project's own files end with a sentence."""
    ours = re.compile(rf"({'|'.join(_OURS)}):")
    rules = text.split("\n\n")
    left_out = [rule.partition(":")[0] for rule in rules if ours.match(rule)]
    kept = [rule for rule in rules if not ours.match(rule)]
    refused = f"{' '.join(left_out)}:\n\t{_REFUSED}\n"
    return "\n\n".join([*kept, refused]).replace("\n\n\n", "\n\n")
