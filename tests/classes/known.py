"""`grader` as a process that knows the results of another run: it needs neither torch nor a pool.

`python -m tests.classes.known FOLDER MOMENT class ...` does what `grader class` does, except that
an answer's result comes from FOLDER, and that the process kills itself before it changes the file
system for the MOMENTth time. If it comes to its end, the last line says how many changes there were.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from grader.classroom.run import class_grading
from grader.classroom.run.results_folder import PARTS_FOLDER
from grader.cli.app import app
from grader.core.result_store import ResultStore
from tests.classes.lanes import Known

CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir"}


class Killer:
    """Counts what changes the file system, and kills this process at one of those moments."""

    def __init__(self, moment: int) -> None:
        self.moment, self.changes = moment, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in CHANGES:
            self.changes += 1
            if self.changes == self.moment:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    store, killer = ResultStore(Path(sys.argv.pop(1)) / PARTS_FOLDER), Killer(int(sys.argv.pop(1)))
    class_grading.LocalLanes = lambda jobs, secret: Known(store)
    sys.addaudithook(killer)
    app(standalone_mode=False)
    print(killer.changes)
