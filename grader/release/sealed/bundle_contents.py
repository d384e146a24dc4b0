"""Builds the sealed bundle: the open bundle with stored cases in the place of right answers."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from grader.core import sealed_bundle
from grader.core.catalog import ROOT
from grader.core.records import Exercise
from grader.judging.recorded_cases import REFERENCE_PACKAGE
from grader.release import bundle
from grader.release.bundle_pages import fit_pages_to_bundle
from grader.release.sealed.record_cases import Recorded, list_modules_to_seal
from grader.release.sealed.sealed_page import write_sealed_page

# Files of a suite with right answers, with mistakes made of them, or with code that runs them.
EXCLUDED_SUITE_FILES = (
    "mistakes.py", "mistakes/*", "steps.py", "variants.py", "trials.py", "hard.toml",
    "play.py", "show.py", "drills.toml", "bench_*.py", "parties/*",
)  # fmt: skip
# Demonstrations whose code is nearly an answer, in the folder and on the pages about it.
_EXCLUDED_PLACES = ("docs/traps/", "docs/traps.")
# The sentence, or the cell of a table, that leads there.
_LEFT_OUT_LINK = re.compile(r"[^.。\n|]*\]\((docs/)?traps\.\w+\.md\)([^.。|]*[.。])?")
_REFUSED_GOALS = ("show", "bench", "drill", "class")  # without right answers
_ANSWERS_TABLES = re.compile(
    r"^\[(mistakes\.|variants\]).*?(?=^\[(?!mistakes\.|variants\])|\Z)", re.M | re.S
)


def build_sealed_bundle(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path],
    recorded: Sequence[Recorded | tuple[str, str]], seed: str, course: str = "",
) -> bytes:  # fmt: skip
    """Return the sealed bundle: a zip for students, with stored cases and no right answers.

    The same sources and the same seed give the same bytes.
    """
    refused = [*bundle.list_refused_goals(), *_REFUSED_GOALS]
    found = fit_pages_to_bundle(
        list_sealed_bundle_files(exercises, notebooks, recorded, seed, course), refused,
        bundle.list_core_slugs(), speed=False,
    )  # fmt: skip
    return bundle.zip_bundle((f"{bundle.TOP_FOLDER}/{name}", text) for name, text in found)


def list_sealed_bundle_files(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path],
    recorded: Sequence[Recorded | tuple[str, str]], seed: str, course: str,
) -> Iterator[tuple[str, bytes]]:  # fmt: skip
    """Yield every file of the sealed bundle; leave out exercises that could not be recorded."""
    stored = {r.slug: r for r in recorded if isinstance(r, Recorded)}
    kept = [e for e in exercises if e.slug in stored]
    for name, content in bundle.list_open_bundle_files(kept, notebooks, course):
        if _is_in_sealed_bundle(name, stored.keys()):
            yield name, _seal_bundle_file(name, content)
    for slug, one in stored.items():
        yield f"{sealed_bundle.STORED_CASES_FOLDER}/{slug}.safetensors", one.content
    expected = ROOT / REFERENCE_PACKAGE / "expected.py"  # defines `Expected`, and holds no answer
    yield f"{sealed_bundle.STORED_CASES_FOLDER}/{sealed_bundle.EXPECTED}", expected.read_bytes()
    about = json.dumps({"seed": seed, "modules": list_modules_to_seal(kept)}, indent=2) + "\n"
    yield f"{sealed_bundle.STORED_CASES_FOLDER}/{sealed_bundle.ABOUT}", about.encode()
    yield sealed_bundle.SEALED_PAGE_NAME, write_sealed_page(exercises, recorded, seed).encode()


def _seal_bundle_file(name: str, content: bytes) -> bytes:
    """Return a file's content without what a sealed bundle leaves out."""
    if name.endswith("/zh.toml"):
        return seal_without_answers(content)
    if name.endswith(".md"):
        return _LEFT_OUT_LINK.sub("", content.decode()).encode()
    return content


def seal_without_answers(chinese: bytes) -> bytes:
    """Return a suite's zh.toml without mistakes and variants, which would give away the answer."""
    return _ANSWERS_TABLES.sub("", chinese.decode()).encode()


def _is_in_sealed_bundle(name: str, slugs: Collection[str]) -> bool:
    if name.startswith((f"{REFERENCE_PACKAGE}/", *_EXCLUDED_PLACES)):
        return False
    room, _, rest = name.partition("grader/suites/")
    if room or "/" not in rest:
        return True
    slug, _, file = rest.partition("/")
    return slug in slugs and not any(fnmatch(file, left) for left in EXCLUDED_SUITE_FILES)
