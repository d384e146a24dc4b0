"""What lies in a sealed bundle: the open one without right answers, and stored cases instead."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from grader.core import sealed_bundle
from grader.core.catalog import ROOT
from grader.core.records import Exercise
from grader.judging.recorded_cases import NAME
from grader.release import bundle
from grader.release.sealed.record_cases import Recorded, modules
from grader.release.sealed.sealed_page import page

# Of a suite: right answers, wrong ones made of them, and what runs or draws from them.
WITHOUT = (
    "mistakes.py", "variants.py", "trials.py", "hard.toml", "show.py", "drills.toml", "bench_*.py",
    "parties/*",
)  # fmt: skip
_MISTAKES = re.compile(r"^\[mistakes\..*?(?=^\[(?!mistakes\.)|\Z)", re.M | re.S)


def for_students(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path],
    recorded: Sequence[Recorded | tuple[str, str]], seed: str, course: str = "",
) -> bytes:  # fmt: skip
    """The bundle's bytes, the same for the same sources and the same seed."""
    found = contents(exercises, notebooks, recorded, seed, course)
    return bundle.zipped((f"{bundle.TOP}/{name}", text) for name, text in found)


def contents(
    exercises: Sequence[Exercise], notebooks: Mapping[str, Path],
    recorded: Sequence[Recorded | tuple[str, str]], seed: str, course: str,
) -> Iterator[tuple[str, bytes]]:  # fmt: skip
    """Every file by its name. Exercises that could not be recorded are left out."""
    stored = {r.slug: r for r in recorded if isinstance(r, Recorded)}
    kept = [e for e in exercises if e.slug in stored]
    for name, content in bundle.contents(kept, notebooks, course):
        if _stays(name, stored.keys()):
            yield name, without_mistakes(content) if name.endswith("/zh.toml") else content
    for slug, one in stored.items():
        yield f"{sealed_bundle.FOLDER}/{slug}.safetensors", one.content
    expected = ROOT / NAME / "expected.py"  # what an expected value is; no answer is in it
    yield f"{sealed_bundle.FOLDER}/{sealed_bundle.EXPECTED}", expected.read_bytes()
    about = json.dumps({"seed": seed, "modules": modules(kept)}, indent=2) + "\n"
    yield f"{sealed_bundle.FOLDER}/{sealed_bundle.ABOUT}", about.encode()
    yield sealed_bundle.PAGE, page(exercises, recorded, seed).encode()


def without_mistakes(chinese: bytes) -> bytes:
    """A suite's zh.toml without the catalogue of mistakes, whose cures are half an answer."""
    return _MISTAKES.sub("", chinese.decode()).encode()


def _stays(name: str, slugs: Collection[str]) -> bool:
    if name.startswith(f"{NAME}/"):
        return False
    room, _, rest = name.partition("grader/suites/")
    if room or "/" not in rest:
        return True
    slug, _, file = rest.partition("/")
    return slug in slugs and not any(fnmatch(file, left) for left in WITHOUT)
