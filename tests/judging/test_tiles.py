"""What ex14 asks of tiles, seen in the solution with a tile that takes all keys."""

import pytest

from tests.conftest import solution

TILE = '"BLOCK_K": 16, "num_warps"'


@pytest.mark.parametrize(
    "keys, passes", [(32, True), pytest.param(1024, True, marks=pytest.mark.weekly), (4096, False)]
)
def test_a_tile_of_all_keys_is_told(graded, keys, passes):
    pytest.importorskip("triton")
    source = solution("ex14_triton")
    assert TILE in source
    report = graded("ex14_triton", source.replace(TILE, TILE.replace("16", str(keys))))
    failed = {check.id: check.why for check in report.checks if check.verdict == "failed"}
    if passes:
        assert not failed
    else:
        assert list(failed) == ["test_launches"]
        assert "reads 4096 keys at once: walk over them in tiles" in failed["test_launches"]
