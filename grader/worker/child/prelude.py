"""The prelude of an exercise: a text of its author's that runs before the submission.

It readies what the submission will use, and keeps what the suite may ask for (`Student.told`).
Where the exercise cannot be asked at all in this process, it says why in a variable `needs`. The
submission shares the process with it: it can inform, and decides nothing.
"""

from functools import cache
from types import ModuleType


@cache  # what it readies is there once, however many submissions a process of ours loads
def prepare(text: str) -> ModuleType:
    """Run a prelude, in a module of its own."""
    module = ModuleType("prelude")
    exec(compile(text, "<prelude>", "exec"), module.__dict__)
    return module
