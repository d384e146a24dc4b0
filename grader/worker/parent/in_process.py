"""Runs a submission in the grader's own process: for debugging and our catalogue, not for marks."""

import importlib.util
import io
import linecache
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

from grader.worker.child import frames, wire
from grader.worker.child.deferred_dynamo import defer_dynamo_import
from grader.worker.child.executor import Executor
from grader.worker.child.prelude import run_worker_prelude
from grader.worker.child.raised import FILENAME
from grader.worker.parent.client import Client

ARENA_BYTES = 64 << 20
Room = TypeVar("Room", bound=Executor)


def make_room_without_wall(kind: type[Room]) -> Room:
    """Return an executor of this kind in this process, with arenas of its own."""
    defer_dynamo_import()
    inputs, answers = (wire.Arena(mmap.mmap(-1, ARENA_BYTES)) for _ in range(2))
    room = kind(inputs, answers)
    room.in_own_process = False
    return room


def call_without_wall(
    module: ModuleType, prelude: str = "", room: Executor | None = None, source: str = ""
) -> Client:
    """Return a client of `module` that encodes values as for a worker, without a wall.

    room    the executor that answers the calls, if a plain `Executor` is not enough
    source  the module's text, if changed texts may run in its place
    """
    # PyTorch makes this folder for tensors on `meta`: an existing one leaves nothing behind.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())
    room = room or make_room_without_wall(Executor)
    room.bind(module, prelude)
    text = _TextInProcess(source, module, prelude, room) if source else None
    answer = partial(_answer_like_worker, room)
    return Client(answer, room.inputs, room.answers, lambda: 1, text=text)


def _answer_like_worker(room: Executor, request: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a request, or the error of a reply that no worker could send."""
    reply = room.answer(request)
    try:
        frames.encode_frame(reply)
    except (frames.WireError, MemoryError) as problem:
        return room.refuse_reply(request, problem)
    return reply


@dataclass(frozen=True, slots=True)
class _TextInProcess:
    """The text of a module in this process: see `ChangeableText`."""

    source: str
    module: ModuleType
    prelude: str
    room: Executor

    @contextmanager
    def change(self) -> Iterator[Callable[[str], bool]]:
        name = self.module.__name__
        before, lines = sys.modules.get(name), linecache.cache.get(FILENAME)

        def load(source: str) -> bool:
            return "error" not in self.room.answer({"op": "load", "slug": name, "source": source})

        try:
            yield load
        finally:
            self.room.bind(self.module, self.prelude)
            if before is not None:
                sys.modules[name] = before
            if lines is not None:
                linecache.cache[FILENAME] = lines


def load_file_without_wall(path: Path, name: str, prelude: str = "") -> ModuleType:
    """Run the prelude of an exercise, then load a module from a file."""
    _prepare_process(prelude)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    exec(_compile_file(path, path.stat().st_mtime_ns), module.__dict__)
    return module


def _prepare_process(prelude: str) -> None:
    defer_dynamo_import()  # torch.nn.attention.bias, too, would import the compiler
    run_worker_prelude(prelude)


@cache
def _compile_file(path: Path, changed_ns: int) -> CodeType:
    """Compile a file as it was when it changed last: a solution is loaded a hundred times."""
    return compile(path.read_bytes(), str(path), "exec")


def load_text_without_wall(
    source: str, name: str, prelude: str = "", *, as_worker: bool = False
) -> ModuleType:
    """Run the prelude, then load a module from a text as a worker does: Triton can read the text.

    as_worker  give the text the file name that a worker gives it: then exceptions have their line
    """
    file = FILENAME if as_worker else f"<{name}>"
    linecache.cache[file] = (len(source), None, [*io.StringIO(source)], file)
    return load_code_without_wall(lambda: compile(source, file, "exec"), name, prelude)


def load_code_without_wall(
    build: Callable[[], CodeType], name: str, prelude: str = "", **given: object
) -> ModuleType:
    """Run the prelude, then the code, in a module that has the names `given`."""
    _prepare_process(prelude)
    module = ModuleType(name)
    module.__file__ = f"{name}.py"
    sys.modules[name] = module
    module.__dict__.update(given)
    exec(build(), module.__dict__)
    return module
