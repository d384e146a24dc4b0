"""Feeds a reader with texts that coverage-guided fuzzing makes up (needs atheris).

    python -m tests.fuzz python --seconds 120 --corpus corpus/python

It begins with the answers of this repository, and adds to the corpus what reaches code that nothing
before it has reached. It ends with a text that a reader raises at, or that takes it longer than it
has; the text lies beside, as `crash-...` or `timeout-...`.
"""

import argparse
import contextlib
import hashlib
import io
import json
import random
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["grader.submission", "grader.cuda"]):
    from grader.submission import readers, reading_limits

from grader.core import catalog

LENGTH = 20_000  # letters of a text
ZIPS = ("zipped", "unzipped")
_PIECE = re.compile(r"\w+|\s+|[^\w\s]")


def seeds(question: str) -> list[bytes]:
    """Answers of ours in the form that this reader meets."""
    of_cuda = question == "cuda"
    found = [
        e.solution for e in catalog.list_catalog_exercises() if (e.language == "cuda") == of_cuda
    ]
    found += [e.folder / "variants.py" for e in catalog.list_catalog_exercises() if not of_cuda]
    texts = [p.read_text(encoding="utf-8") for p in found if p.is_file()]
    if question == "notebook":
        cells = ({"cell_type": "code", "source": part} for t in texts for part in t.split("\n\n\n"))
        texts = [json.dumps({"cells": [cell]}) for cell in cells]
    if question in ZIPS:
        return [zipped(t) for t in texts]
    return [t[:LENGTH].encode() for t in texts]


def zipped(text: str) -> bytes:
    """A zip of a short answer, and of a notebook that is none."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("hw/ex01_softmax.py", text[: LENGTH // 20])
        archive.writestr("hw/ex02_masking.ipynb", "{}")
    return content.getvalue()


def asks(question: str) -> Callable[[bytes], object]:
    """The reader, with what it is told besides."""
    exercises = {
        e.language: e
        for e in (catalog.find_catalog_exercise("ex15"), catalog.find_catalog_exercise("ex03"))
    }
    slugs = frozenset(e.slug for e in catalog.list_catalog_exercises())
    given = {
        "notebook": {"names": ["sdpa"], "language": "python"},
        "python": {"exercise": exercises["python"], "slugs": slugs},
        "cuda": {"exercise": exercises["cuda"]},
        "drawn": {},
        "letters": {"language": "python"},
        "zipped": {"shown": "bob.zip"},
        "unzipped": {"shown": "bob.zip", "number": 0, "left": 10**6},
    }[question]
    reader = readers.READERS[question]

    def ask(content: bytes) -> None:
        if question not in ("notebook", *ZIPS):  # its text has been decoded
            content = content.decode("utf-8", "replace").encode("utf-8")
        with contextlib.suppress(RecursionError, MemoryError):  # a sentence of the grader's
            json.dumps(reader(content, **given))

    def ask_for_one(content: bytes) -> None:
        files = readers.READERS["zipped"](content, shown="bob.zip").get("files", [])
        given["number"] = files[0]["number"] if files and not files[0]["problem"] else None
        if given["number"] is not None and files[0]["name"].endswith((".py", ".ipynb")):
            ask(content)

    return ask_for_one if question == "unzipped" else ask


def mixed(data: bytes, most: int, seed: int) -> bytes:
    """A text of which some pieces are repeated, moved, left out, or have changed places."""
    rng = random.Random(seed)
    if rng.random() < 0.4 or data.startswith(b"PK"):
        return bytes(atheris.Mutate(data, most))
    pieces = _PIECE.findall(data.decode("utf-8", "replace")) or ["x"]
    for _ in range(rng.randint(1, 4)):
        a, b = sorted(rng.randrange(len(pieces) + 1) for _ in range(2))
        part, at = pieces[a : min(b, a + 40)], rng.randrange(len(pieces) + 1)
        match rng.randrange(4):
            case 0:
                pieces[at:at] = part * rng.choice([1, 2, 50])
            case 1:
                del pieces[a : a + len(part)]
            case 2:
                pieces[at : at + 1] = part
            case _:
                rng.shuffle(part)
                pieces[a : a + len(part)] = part
        pieces = pieces or ["x"]
    return "".join(pieces).encode()[:most]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("reader", choices=sorted(readers.READERS))
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--corpus", type=Path, required=True)
    given = parser.parse_args()
    given.corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds(given.reader):
        (given.corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    options = [f"-max_total_time={given.seconds}", f"-timeout={reading_limits.READER_CPU_SECONDS}",
               f"-max_len={LENGTH}", f"-rss_limit_mb={4 * reading_limits.READER_MEMORY_MIB}"]  # fmt: skip
    atheris.Setup(
        [sys.argv[0], *options, str(given.corpus)], asks(given.reader), custom_mutator=mixed
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
