"""No way of getting at a name reaches what is not on the list, whatever it reaches for."""

import pytest

from grader import catalog
from grader.reading import outline
from grader.reading.cut import cut
from tests.reading.ways import TARGETS, WAYS, answers

EXERCISE = catalog.find("ex01_softmax")


def refused(source):
    """The sentence about a file or its softmax, "" if it runs as it is, or why it is no Python."""
    try:
        done = cut(source, outline.parse(source), EXERCISE, frozenset())
    except outline.NotPython as problem:
        return str(problem)
    return done.file or done.refused.get("softmax", "")


def test_there_are_many():
    assert len(WAYS) * len(TARGETS) >= 1500


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_allowed_is_refused_in_every_way(way, graded):
    for name, source in answers(way):
        if not refused(source):
            report = graded("ex01_softmax", source)
            assert report.state == "graded", name
            assert report.score.earned == 0, name
