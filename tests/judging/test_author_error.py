"""An exception of an author's file is told in a sentence with its line; another one is not hidden."""

import importlib.util
from dataclasses import replace

import pytest

from grader.authoring.mutants import run_suite_on_mistake
from grader.core import catalog
from grader.core.errors import GraderFault
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.judging.author_error import AuthorError, tell_author_errors

EXERCISE = catalog.find_catalog_exercise("ex01_softmax")


def run(path):
    spec = importlib.util.spec_from_file_location("made_up", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize(
    "text, says",
    [
        ("import math\n\nmath.root(2)\n", ", line 3, raises AttributeError: module 'math' has no"),
        ("raise KeyError\n", ", line 1, raises KeyError. Mend it."),
        ("\nx = (\n", ", line 2: '(' was never closed. Mend it."),
    ],
)
def test_an_authors_exception_has_its_file_and_line(text, says, tmp_path):
    (tmp_path / "test_made_up.py").write_text(text)
    of_author = tell_author_errors(replace(EXERCISE, folder=tmp_path))
    with pytest.raises(AuthorError) as told, of_author:
        run(tmp_path / "test_made_up.py")
    assert str(told.value).startswith(f"{tmp_path}/test_made_up.py{says}")


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), GraderFault("ours")])
def test_an_exception_of_ours_stays_as_it_is(error):
    with pytest.raises(type(error), match="ours") as told, tell_author_errors(EXERCISE):
        raise error
    assert told.value is error


def test_a_mistake_names_a_check_of_the_suite():
    known = MistakeCatalogue(EXERCISE)
    mistake = replace(known.mistakes[0], caught_by="weights_agree")
    with pytest.raises(AuthorError, match="names weights_agree, which is no check of the suite"):
        run_suite_on_mistake(mistake, EXERCISE, known, {})


def test_a_mistake_that_lacks_a_name_is_a_fault_of_the_catalogue():
    known = MistakeCatalogue(EXERCISE)
    [mistake] = [m for m in known.mistakes if m.id == "half_precision_not_raised"]

    def misspelt(x, dim=-1):
        return exact_softmaks(x, dim)  # noqa: F821

    wrong = replace(mistake, answer=misspelt)
    found = run_suite_on_mistake(wrong, EXERCISE, known, {}, naming=False)
    assert not found.right
    assert "name 'exact_softmaks' is not defined" in found.faults[0]
