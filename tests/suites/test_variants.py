"""Right answers that are written otherwise than the solution earn everything."""

import pytest

from grader import catalog
from grader.course import mutants_table
from grader.judging import suite
from grader.judging.grade import Run
from tests.part import part

VARIANTS = [(e, v) for e in catalog.exercises() if not e.draft for v in suite.variants(e)]
SOME = part(VARIANTS, lambda case: case[1].id, one_in=6)

# What cannot be asked of a right answer: it is "not run", and costs nothing. A kernel whose threads
# walk over the whole grid has no block that could be run alone.
TOO_MUCH = {("naive_grid_stride_in_double", "test_far_places")}


@pytest.mark.parametrize("exercise, variant", SOME, ids=lambda x: getattr(x, "slug", None) or x.id)
def test_a_right_answer_written_otherwise_earns_everything(exercise, variant, nursery):
    run = Run(nursery=nursery, student="s", secret="variants", speed=False)
    report = mutants_table.graded(exercise, variant, run)
    assert report.sentence == ""
    assert [
        (c.id, c.why)
        for c in report.checks
        if c.earned < c.points and c.why != "needs CUDA" and (variant.id, c.id) not in TOO_MUCH
    ] == []
    assert mutants_table.earns_all(report)
