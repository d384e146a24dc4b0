"""The nursery: imports torch once, does no maths, holds no secret, and forks workers on request.

Started as `python -I <this folder> <socket fd> <site folder>...`. Requests and replies are frames
of `wire` without an arena; the four descriptors of a new worker (its socket, the two arenas, the
file for what it prints) travel beside the request.

    {"op": "start", "home", "limits"}  -> {"pid"}
    {"op": "status", "pid"}            -> {"exit"} or {"signal"}, once the worker has ended
"""

import importlib.util
import sys
from pathlib import Path


def _load_package() -> None:
    """Make the modules beside this file importable, and nothing else of the project."""
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "attention_worker", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["attention_worker"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != Path(__file__).resolve().parent]
    sys.path += [folder for folder in sys.argv[2:] if folder not in sys.path]
    _load_package()
    importlib.import_module("attention_worker.nursery").serve(int(sys.argv[1]))
