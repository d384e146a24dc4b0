"""Writes all files of a new exercise as a draft, from the templates in `new/`.

A place that the author fills has TODO in it. A draft is done when no TODO is left and
`make house` finds no law broken.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from grader.authoring import skeletons
from grader.core import catalog
from grader.core.catalog import ROOT, SUITES_FOLDER
from grader.core.errors import UserError
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES
from grader.submission import answer_file

_TEMPLATE_FOLDER = Path(__file__).with_name("new")
_SLUG_PATTERN = re.compile(r"ex\d\d(_[a-z0-9]+)+")
_TODO_PATTERN = re.compile(r"\bTODO\b[:：]?\s*(.*)")
# Of what stands behind TODO: the end of its sentence, or of the string that it is in.
_TODO_END = re.compile(r"[.!?](?=\s)|[。！？]|[\"'](?=\s*(?:[])},]|$))|\"\"\"")
_FIRST_OF_PACK = 50  # as docs/packs.md says; the numbers before are ours
_SUFFIXES_WITH_TODO = (".py", ".toml", ".cu")


class CannotWrite(UserError):
    """Raised if a new exercise cannot be written; the message says why, and how to fix it."""


def write_new_exercise(slug: str, pack: Path | None = None) -> Iterator[Path]:
    """Write the files of a new exercise, here or into a pack's folder; yield each path."""
    _check_new_exercise_slug(slug, pack)
    room, suites = (ROOT, SUITES_FOLDER) if pack is None else (pack, pack / "suites")
    name = slug.partition("_")[2]
    places = {
        "solution.py": room / "solutions" / f"{slug}.py",
        "reference.py": room / "reference" / f"{slug}.py",
        "test.py": suites / slug / f"test_{name}.py",
    }
    files = {
        places.get(kind := path.name.removesuffix(".in"), suites / slug / kind): path
        for path in sorted(_TEMPLATE_FOLDER.glob("*.in"))
    }
    for path in (suites / slug, *files):
        if path.exists():
            raise CannotWrite(
                f"{path} is there already, and nothing is written over: take another name, "
                "or remove it."
            )
    values = {"slug": slug, "name": name, "title": name.replace("_", " ").capitalize()}
    values["order"] = str(int(slug[2:4]))
    for path, template in sorted(files.items()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            _fill_new_exercise_template(template.read_text(encoding="utf-8"), values),
            encoding="utf-8",
        )
        yield path
    yield from _write_new_exercise_skeleton(
        catalog.read_exercise_manifest(suites / slug / "exercise.toml", room)
    )


def _check_new_exercise_slug(slug: str, pack: Path | None) -> None:
    if not _SLUG_PATTERN.fullmatch(slug):
        raise CannotWrite(
            f"{slug!r} is no name of an exercise: two digits after ex, then words in small letters"
            " and digits, such as ex18_alibi."
        )
    suites = [] if pack is None else [p.name for p in (pack / "suites").glob("ex*") if p.is_dir()]
    taken = {
        name[:4]: name for name in [*suites, *(e.slug for e in catalog.list_catalog_exercises())]
    }
    if slug[:4] in taken:
        first = max(int(slug[2:4]) + 1, 0 if pack is None else _FIRST_OF_PACK)
        free = next((n for n in range(first, 100) if f"ex{n:02}" not in taken), 0)
        another = f"ex{free:02}{slug[4:]}" if free else "a number that is free"
        raise CannotWrite(f"{slug[:4]} is {taken[slug[:4]]}: take {another}.")


def _fill_new_exercise_template(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def _write_new_exercise_skeleton(exercise: Exercise) -> Iterator[Path]:
    """Write the skeleton and the lessons of one exercise; yield each new path."""
    source = exercise.solution.read_text(encoding="utf-8")
    texts = {exercise.home / "exercises" / exercise.file: skeletons.make_skeleton(exercise, source)}
    for language in LANGUAGES:
        lesson = exercise.home / answer_file.locate_lesson_of_submission(exercise.slug, language)
        texts[lesson] = skeletons.make_lesson(exercise, source, language)
    for path, text in texts.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            yield path


def list_new_exercise_todos(exercise: Exercise) -> Iterator[str]:
    """An exercise has no open places: none of its files has a TODO."""
    own = [exercise.solution, exercise.home / "reference" / f"{exercise.slug}.py"]
    suite = sorted(p for p in exercise.folder.rglob("*") if p.suffix in _SUFFIXES_WITH_TODO)
    for path in (*suite, *(p for p in own if p.is_file())):
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if found := _TODO_PATTERN.search(line):
                name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                what = _read_todo_text(found[1]) or "no word says what belongs there"
                yield f"{name} line {number} is open: {what}. Write it."


def _read_todo_text(text: str) -> str:
    """Return the first sentence of what stands behind TODO, without the marks of its string."""
    end = _TODO_END.search(text)
    return (text[: end.start()] if end else text).strip(" \"'[],").rstrip(".")
