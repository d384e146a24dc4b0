"""Takes the solutions out of a notebook as `make skeletons` takes them out of a file."""

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions

from grader.submission.solution_text import has_region, stubbed


class Skeleton(ClearSolutions):  # type: ignore[misc]
    """nbgrader's ClearSolutions, with the stub that tells what there is to do."""

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        if not has_region(cell.source):
            return False
        cell.source = stubbed(cell.source).strip()
        return True
