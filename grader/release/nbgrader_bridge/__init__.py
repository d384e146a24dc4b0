"""How nbgrader judges with our engine, through its own points of configuration.

A course's `nbgrader_config.py` calls `configure`. `nbgrader autograde` (the command, its Python
API, the button in formgrader) then takes each submitted notebook through two steps: `Restore` puts
the cells that nbgrader needs back in their places, and `Judge` grades the file as it was submitted,
instead of running it. No student's code runs in nbgrader's process or in a kernel.
"""

import os
import sys
import warnings
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

    from grader.release.nbgrader_bridge.feedback import FeedbackExporter, Received
    from grader.release.nbgrader_bridge.judged_autograde import install_judged_autograde
    from grader.release.nbgrader_bridge.late_penalty import Late
    from grader.release.nbgrader_bridge.nbgrader_judge import Judge, SaveJudged
    from grader.release.nbgrader_bridge.read_cells import TolerantExporter
    from grader.release.nbgrader_bridge.release_feedback import ReleaseWhatCanBeFetched
    from grader.release.nbgrader_bridge.restore_cells import Restore
    from grader.release.nbgrader_bridge.skeleton_cells import Skeleton

    _put_nbgrader_on_path()
    _hide_warnings_of_libraries()
    install_judged_autograde()
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
    c.GenerateFeedback.exporter_class = FeedbackExporter
    c.ExchangeFactory.release_feedback = ReleaseWhatCanBeFetched
    if c.Judge.get("shows") == "nothing":
        c.GenerateFeedback.preprocessors = [Received, CSSHTMLHeaderPreprocessor]
    c.AssignLatePenalties.plugin_class = Late
    c.ExportApp.plugin_class = "grader.release.nbgrader_bridge.safe_csv.SafeCsv"


def _hide_warnings_of_libraries() -> None:
    """Hide what SQLAlchemy says to nbgrader's authors: dozens of lines for each student."""
    from sqlalchemy.exc import SAWarning

    warnings.filterwarnings("ignore", category=SAWarning, module=r"nbgrader\.")


def _put_nbgrader_on_path() -> None:
    """Put this Python's folder on PATH, as nbgrader starts `alembic` by name without its venv."""
    beside, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    if beside not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join((beside, path))
