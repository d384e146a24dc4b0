"""Runs the program of workers under coverage: `counted_child.py CONFIG CHILD MODE ARGUMENT SETTINGS`.

Workers see no variable of coverage: they are forked after it is removed.
"""

import json
import os
import runpy
import sys

_, os.environ["COVERAGE_PROCESS_CONFIG"], *sys.argv = sys.argv
sys.path += json.loads(sys.argv[-1])["sites"]

import coverage  # noqa: E402 (found in the folders just named)

coverage.process_startup()
del os.environ["COVERAGE_PROCESS_CONFIG"]
runpy.run_path(sys.argv[0], run_name="__main__")
