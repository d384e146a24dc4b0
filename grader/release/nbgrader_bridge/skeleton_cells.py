"""Removes the solutions from a notebook as `make skeletons` removes them from a file."""

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions

from grader.submission.solution_text import has_solution_region, remove_solutions


class Skeleton(ClearSolutions):  # type: ignore[misc]
    """nbgrader's ClearSolutions, with stubs that say what a student has to do."""

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        if not has_solution_region(cell.source):
            return False
        cell.source = remove_solutions(cell.source).strip()
        return True
