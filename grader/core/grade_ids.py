"""What the making of notebooks and their grading agree on; it imports nothing that is slow."""

CUDA, SPEED = "cuda", "speed"  # what an exercise asks beside its tasks
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def build_core_grade_id(task: str) -> str:
    """Return the nbgrader id of the cell that checks a task."""
    return f"check-{task}"
