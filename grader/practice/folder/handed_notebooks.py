"""Lists the notebooks of a learner's folder, for those who asked for them."""

from collections.abc import Iterator

from grader.authoring.learner_notebook import (
    NOTEBOOKS_FOLDER,
    parse_repository_address,
    write_learner_notebook,
)
from grader.core.catalog import list_catalog_exercises
from grader.core.installed_copies import find_project_file
from grader.core.translation import Words
from grader.submission.answer_file import locate_lesson_of_submission
from grader.worker.parent.requirements import (
    find_unmet_worker_requirement,
    list_worker_requirements,
)


def list_handed_notebooks(language: str, repository: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of the notebook of every exercise that can be graded here.

    `repository` is the address from which Colab is to open them; "" leaves that link out.
    """
    place = parse_repository_address(repository) if repository else None
    for exercise in list_catalog_exercises():
        name = locate_lesson_of_submission(exercise.slug, language)
        lesson = find_project_file(name, exercise.home)
        lacking = find_unmet_worker_requirement(list_worker_requirements(exercise, on_cuda=False))
        if lesson.is_file() and not exercise.draft and not lacking:
            text = lesson.read_text(encoding="utf-8")
            notebook = write_learner_notebook(exercise, text, Words(language), place)
            yield f"{NOTEBOOKS_FOLDER}/{exercise.slug}.ipynb", notebook.encode()
