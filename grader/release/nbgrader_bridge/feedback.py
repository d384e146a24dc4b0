"""Writes nbgrader's feedback in an exam that shows nothing: the notebook without scores."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades

from grader.release.nbgrader_bridge.nbgrader_judge import METADATA_KEY

Resources = dict[str, Any]


class Received(GetGrades):  # type: ignore[misc]
    """The preprocessor that removes scores from HTML feedback, in place of `GetGrades`."""

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        nb, resources = super().preprocess(nb, resources)
        resources["nbgrader"].update(score=0, max_score=0, late_penalty=0)
        for cell in nb.cells:
            cell.metadata.get("nbgrader", {}).update(grade=False, task=False)
            if METADATA_KEY in cell.metadata and "outputs" in cell:
                cell.outputs = [o for o in cell.outputs if o.output_type != "execute_result"]
        return nb, resources
