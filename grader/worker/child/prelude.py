"""Runs the prelude of an exercise: a text by its author that runs before the submission.

A prelude sets up what the submission will use, and keeps variables for the suite (`Student.told`).
If the exercise cannot run in this process, the variable `needs` of the prelude says why. The
submission shares the process with the prelude, so no verdict may rest on those variables.
"""

from functools import cache
from types import ModuleType


@cache  # one setup, however many submissions a process of ours loads
def run_worker_prelude(text: str) -> ModuleType:
    """Run a prelude in a new module, and return the module."""
    module = ModuleType("prelude")
    exec(compile(text, "<prelude>", "exec"), module.__dict__)
    return module
