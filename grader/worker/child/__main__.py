"""The nursery: imports torch once, does no maths, holds no secret, and forks workers on request.

Started as `python -I -S <this folder> serve <socket fd> <settings>`, where the settings are JSON:
{"sites": [folders of packages], "hidden": [packages that no answer may import], "user": number or
null}. Requests and replies are frames (see `frames`); the descriptors for a new worker (its socket,
the two arenas, the file for its output, and its program, if any) travel beside the request.

    {"operators", "without"}           -> {"ready"}; the first request (see `operator_list`)
    {"op": "start", "limits", "lock", "core", "environment", "preload", "gives_back", "kernels",
     "compilers"}                      -> {"pid"}
    {"op": "end", "pid", "wait"}       -> {"exit"} or {"signal"}, with "crowded" and "alive"
    {"op": "stop" | "continue", "pid"} -> {}, once the worker has stopped or continued
    {"op": "interrupt", "pid"}         -> {}; the worker breaks off its call (see `worker`)
    {"op": "usage", "pid"}             -> see `usage`; {} if there is no such worker

`lock` is None, or the files that a locked worker may open (see `sandbox`); `compilers` are the
programs that it may start. "crowded" says that the worker started too many processes, "alive" that
it did not end by itself when it was given the time to.

With `probe <request>` the process locks itself, tries what the lock must refuse, and prints the
attempts that succeeded.
With `compile <request>` the process runs compilers (see `compilation`).
"""

import gc
import importlib.util
import json
import os
import sys
from pathlib import Path


def _load_worker_package() -> None:
    """Make the modules beside this file importable, and nothing else of the project."""
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "attention_worker", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["attention_worker"] = package
    spec.loader.exec_module(package)


def _become_worker_user(user: int | None) -> None:
    """Change this process to a user who owns nothing; only root can."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _run_worker_mode(mode: str, argument: str, settings: str) -> None:
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != Path(__file__).resolve().parent]
    wanted = json.loads(settings)
    _become_worker_user(wanted["user"])
    _load_worker_package()
    if mode == "probe":
        importlib.import_module("attention_worker.sandbox").run_sandbox_probe(argument)
    elif mode == "compile":
        importlib.import_module("attention_worker.compilation").compile_in_sandbox(argument)
    else:
        gc.disable()  # an import of torch makes much and drops little; `fork_server` enables it
        hiding = importlib.import_module("attention_worker.hidden_packages")
        hiding.hide_packages_from_imports(wanted["hidden"], wanted["sites"])
        sys.path += [folder for folder in wanted["sites"] if folder not in sys.path]
        importlib.import_module("attention_worker.fork_server").serve_worker_forks(int(argument))


if __name__ == "__main__":
    _run_worker_mode(*sys.argv[1:])
