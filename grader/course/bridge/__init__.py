"""How nbgrader judges with our engine, through its own points of configuration.

A course's `nbgrader_config.py` calls `configure`. `nbgrader autograde` (the command, its Python
API, the button in formgrader) then takes each submitted notebook through `Restore`, which gives the
cells that nbgrader needs their places again, and `Judge`, which grades the file as it was submitted
in the place of running it. Nothing of a student's runs in nbgrader's process or in a kernel.
"""

import os
import sys
from pathlib import Path

from traitlets.config import Config


def configure(c: Config) -> None:
    """Have nbgrader make releases, grade and export with the classes of this package."""
    from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
    from nbgrader.preprocessors import (
        AssignLatePenalties,
        CheckCellMetadata,
        ClearHiddenTests,
        ClearMarkScheme,
        ClearOutput,
        ComputeChecksums,
        LimitOutput,
        LockCells,
        OverwriteCells,
        SaveCells,
    )

    from grader.course.bridge.feedback import Received
    from grader.course.bridge.judge import Judge, SaveJudged
    from grader.course.bridge.late import Late
    from grader.course.bridge.restore import Restore, TolerantExporter
    from grader.course.bridge.skeleton import Skeleton

    _reach_alembic()
    c.Exporter.preprocessors = []
    c.GenerateAssignment.preprocessors = [
        LockCells, Skeleton, ClearOutput, CheckCellMetadata, ComputeChecksums, SaveCells,
        ClearHiddenTests, ClearMarkScheme, ComputeChecksums, CheckCellMetadata,
    ]  # fmt: skip
    c.Autograde.exporter_class = TolerantExporter
    c.Autograde.sanitize_preprocessors = [
        Restore, OverwriteCells, CheckCellMetadata,
    ]  # fmt: skip
    c.Autograde.autograde_preprocessors = [
        Judge, LimitOutput, SaveJudged, AssignLatePenalties, CheckCellMetadata,
    ]  # fmt: skip
    if c.Judge.get("shows") == "nothing":
        c.GenerateFeedback.preprocessors = [Received, CSSHTMLHeaderPreprocessor]
    c.AssignLatePenalties.plugin_class = Late
    c.ExportApp.plugin_class = "grader.course.bridge.export.SafeCsv"


def _reach_alembic() -> None:
    """nbgrader starts `alembic` by its name: it lies beside this Python, whose venv may be off."""
    beside, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    if beside not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join((beside, path))
