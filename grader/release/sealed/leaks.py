"""Tests a bundle for leaks: submits all code in it as answers, which must earn no point.

Code that defines no name of the exercise is no answer, and its outline shows that at once; but each
function in it may be an answer once it is renamed. Answers are graded by the whole project, behind
a wall and on fresh cases.
"""

import io
import json
import re
import secrets
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from grader.core import catalog
from grader.core.records import Exercise
from grader.cuda import declarations as cuda_outline
from grader.grading.exercise import Run, grade_answer
from grader.judging.recorded_cases import REFERENCE_PACKAGE
from grader.release.sealed.renamed_answers import list_loose_functions, write_renamed_answer
from grader.submission import answer_file, python_outline
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery

_PROGRAM_SUFFIXES = (".so", ".pyd", ".dll", ".dylib", ".pyc", ".exe", ".o", ".a", ".whl")
_ANSWER_SUFFIXES = (".py", ".ipynb", ".cu")
_READERS_OF_TEXTS: dict[str, Callable[[str], Any]] = {
    ".toml": tomllib.loads,
    ".ipynb": json.loads,
}
_FENCED_CODE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n(.*?)^[ \t]*\1", re.M | re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLeak:
    """A text or a program in a bundle that is, or may be, an answer."""

    name: str
    slug: str
    earned: int | None  # None if the grader could not say

    def __str__(self) -> str:
        worth = "cannot be judged" if self.earned is None else f"earns {self.earned} points"
        return f"{self.name}, submitted as {self.slug}, {worth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakCandidate:
    """A text that may be an answer, and its place in the bundle."""

    name: str
    content: bytes
    suffix: str  # of the file as which it is submitted


def find_bundle_leaks(bundle: bytes, exercises: Sequence[Exercise]) -> list[BundleLeak]:
    """Return the texts of a bundle that earn a point in an exercise, and the programs in it."""
    files = _unzip_bundle_files(bundle)
    found = [
        BundleLeak(name=name, slug="any exercise", earned=None)
        for name in files
        if name.endswith(_PROGRAM_SUFFIXES)
    ]
    texts = list({(c.content, c.suffix): c for c in _list_leak_candidates(files)}.values())
    likely = [(e, c) for e in exercises for c in _list_likely_leaks(texts, e)]
    with tempfile.TemporaryDirectory() as folder, Nursery(walls.choose_wall("auto")) as nursery:
        run = Run(
            nursery=nursery, student="leak", secret=secrets.token_hex(8), speed=False, explain=False
        )
        for exercise, candidate in likely:
            path = Path(folder) / f"{exercise.slug}{candidate.suffix}"
            path.write_bytes(candidate.content)
            score = grade_answer(exercise, path, run).score
            if score is None or score.earned:
                earned = None if score is None else score.earned
                found.append(BundleLeak(name=candidate.name, slug=exercise.slug, earned=earned))
    return found


def _unzip_bundle_files(bundle: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return {name.partition("/")[2]: archive.read(name) for name in names}


def _list_leak_candidates(files: dict[str, bytes]) -> Iterator[LeakCandidate]:
    """Yield every text of a bundle that could be code: files, notebooks, blocks in any text."""
    for name, content in files.items():
        suffix = PurePosixPath(name).suffix
        if suffix in _ANSWER_SUFFIXES:
            yield LeakCandidate(name=name, content=content, suffix=suffix)
        if suffix == ".safetensors":  # numbers
            continue
        text = content.decode("utf-8", errors="replace")
        yield from _list_leaked_code_blocks(name, text)
        if read := _READERS_OF_TEXTS.get(suffix):
            for part in _list_leaked_strings(read(text)):
                yield LeakCandidate(
                    name=f"{name}, a text in it", content=part.encode(), suffix=".py"
                )
                yield from _list_leaked_code_blocks(name, part)


def _list_leaked_code_blocks(name: str, text: str) -> Iterator[LeakCandidate]:
    """Yield the blocks of code in a document, one by one and all together."""
    blocks = [found[2] for found in _FENCED_CODE.finditer(text)]
    for code in [*blocks, *(["\n\n".join(blocks)] if len(blocks) > 1 else [])]:
        for suffix in (".py", ".cu"):
            yield LeakCandidate(name=f"{name}, code in it", content=code.encode(), suffix=suffix)


def _list_leaked_strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case [str(), *_] if all(isinstance(item, str) for item in value):  # a cell, line by line
            yield "".join(value)
            yield from value
        case list():
            for item in value:
                yield from _list_leaked_strings(item)
        case dict():
            yield from _list_leaked_strings(list(value.values()))


def _list_likely_leaks(
    texts: Sequence[LeakCandidate], exercise: Exercise
) -> Iterator[LeakCandidate]:
    """Yield the texts that define a name of the exercise, and imports of such names."""
    if exercise.language == "cuda":
        kinds = (".cu", ".ipynb")
        yield from (t for t in texts if t.suffix in kinds and _does_leak_define_name(t, exercise))
        return
    names = ", ".join(exercise.names)
    places = [
        REFERENCE_PACKAGE,
        f"{REFERENCE_PACKAGE}.{exercise.slug}",
        f"solutions.{exercise.slug}",
    ]
    for text in texts:
        if text.suffix != ".cu" and _does_leak_define_name(text, exercise):
            yield text
            if text.suffix == ".py" and "," not in text.name:
                places.append(text.name.removesuffix(".py").replace("/", "."))
    for place in dict.fromkeys(places):
        code = f"from {place} import {names}\n".encode()
        yield LeakCandidate(name=f"an import from {place}", content=code, suffix=".py")
    yield from _list_renamed_leaks(texts, exercise)


def _list_renamed_leaks(
    texts: Sequence[LeakCandidate], exercise: Exercise
) -> Iterator[LeakCandidate]:
    """Yield the functions of all texts under the names of the exercise."""
    found: dict[str, str] = {}
    for text in (t for t in texts if t.suffix == ".py"):
        for one in list_loose_functions(text.content.decode("utf-8", errors="replace")):
            # What the grader computes with is imported; a block of a page may leave imports out.
            if one.imports or not text.name.startswith("grader/"):
                found.setdefault(
                    write_renamed_answer(one, exercise), f"{one.name} in {text.name}, renamed"
                )
    for code, name in found.items():
        if code:
            yield LeakCandidate(name=name, content=code.encode(), suffix=".py")


def _does_leak_define_name(text: LeakCandidate, exercise: Exercise) -> bool:
    if not any(name.encode() in text.content for name in exercise.names):
        return False
    try:
        notebook = text.suffix == ".ipynb"
        source = _write_leaked_notebook(text, exercise) if notebook else text.content.decode()
        if exercise.language == "cuda":
            found = cuda_outline.compare_cuda_with_manifest(source, exercise)
        else:
            found = python_outline.compare_submission_with_manifest(
                python_outline.parse_submission(source), exercise
            )
    except (python_outline.NotPython, answer_file.UnreadableFile):
        return False
    return len(found) < len(exercise.names)


def _write_leaked_notebook(text: LeakCandidate, exercise: Exercise) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{exercise.slug}.ipynb"
        path.write_bytes(text.content)
        return answer_file.read_submission(
            path, exercise.slug, catalog.list_catalog_names(exercise)
        ).source
