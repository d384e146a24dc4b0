"""`grader` as a process that knows the results of another run: it needs neither torch nor a pool.

`python -m tests.classes.known FOLDER class ...` says that it is ready, and does what `grader class`
does, except that an answer's result comes from FOLDER after a moment, and that a file that is
written takes a moment to come to its place. So those moments are a large part of the run's life.
"""

import os
import sys
import time
from pathlib import Path

from grader.cli import main
from grader.course.class_run import grading
from grader.course.class_run.folder import PARTS
from grader.course.class_run.store import Store
from tests.classes.lanes import Known

replace = os.replace


def slowly(old: str, new: Path) -> None:
    """Replace a file as a slow disk does."""
    time.sleep(0.03)
    replace(old, new)


if __name__ == "__main__":
    os.replace = slowly
    store = Store(Path(sys.argv.pop(1)) / PARTS)
    grading.Local = lambda jobs, secret: Known(store, moment=0.1)
    print("ready", flush=True)
    main()
