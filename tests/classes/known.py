"""`grader` as a process that knows the results of another run: it needs neither torch nor a pool.

`python -m tests.classes.known FOLDER class ...` says that it is ready, and does what `grader class`
does, except that an answer's result comes from FOLDER after a moment. So the moments at which the
run keeps a result or writes a file are a large part of its life.
"""

import sys
from pathlib import Path

from grader.cli import main
from grader.course.class_run import grading
from grader.course.class_run.folder import PARTS
from grader.course.class_run.store import Store
from tests.classes.lanes import Known

if __name__ == "__main__":
    store = Store(Path(sys.argv.pop(1)) / PARTS)
    grading.Local = lambda jobs, secret: Known(store, moment=0.2)
    print("ready", flush=True)
    main()
