"""Grades answers one after another, in one process and from one nursery.

`python -m grade_many WALL SLUG DESCRIPTOR`, in a folder of a course in which this file lies as
well, so that it finds the modules that `python -m grader` would. First it grades the solution of
SLUG, and sends `{"report": ...}` (as in docs/formats.md) as a line of JSON through the socket. Then
it answers every line that comes, `{"slugs": [...], "place": ..., "limits": {slug: {...}}, "open": ...}`, with
such a line. `grade_all` is what `grader grade` calls; it is given this nursery instead of one of
its own. When the nursery had to be started anew, it is closed, and `"last": true` says so.
"""

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from open_list import opened

from grader.core import catalog
from grader.core.records import Exercise
from grader.diagnosis import time_limit
from grader.grading import session
from grader.reporting.as_json import convert_report_to_dict
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import Wall, choose_wall, hide_grader_from_workers


def main(wall: str, slug: str, descriptor: str) -> None:
    """Answer requests until there are no more, or the nursery is not the first one any more."""
    hide_grader_from_workers()
    with closing(socket.socket(fileno=int(descriptor))) as sock:
        for reply in _replies(choose_wall(wall), slug, sock):
            sock.sendall(json.dumps(reply).encode() + b"\n")


def _replies(wall: Wall, slug: str, sock: socket.socket) -> Iterator[dict[str, Any]]:
    with (
        Nursery(wall) as nursery,
        patch.object(session, "Nursery", lambda wall: nullcontext(nursery)),
        patch.object(time_limit, "NAMING_SECONDS", 0.0),  # points are asked here, not names
        sock.makefile("r", encoding="utf-8") as requests,
    ):
        yield {"report": _graded({"slugs": [slug], "place": "solutions", "limits": {}}, wall)}
        for line in requests:
            report = _graded(json.loads(line), wall)
            if nursery.failures:
                break
            yield {"report": report}
        else:
            return
    yield {"report": report, "last": True}


def _graded(request: dict[str, Any], wall: Wall) -> dict[str, Any]:
    exercises = [
        _limited(catalog.find_catalog_exercise(s), request["limits"].get(s, {}))
        for s in request["slugs"]
    ]
    with opened(open_=request.get("open", False)):
        return convert_report_to_dict(
            session.grade_all_exercises(exercises, Path(request["place"]), wall=wall, speed=False)
        )


def _limited(exercise: Exercise, limits: dict[str, float]) -> Exercise:
    return replace(exercise, limits=replace(exercise.limits, **limits))


if __name__ == "__main__":
    main(*sys.argv[1:])
