"""Heat maps."""

import io

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the extra `report` is not installed")

from matplotlib.image import imread

from grader.core.translation import Words
from grader.practice import show
from grader.practice.show import picture
from tests.show.asking import mistaken, shown, solver

WORDS = Words("en")


def titles(found):
    return [axes.get_title() for axes in picture.show_heat_maps(found, WORDS).axes]


def labels(axes):
    return [tick.get_text() for tick in axes.get_xticklabels()]


def test_all_heads_beside_the_reference_and_the_difference():
    found = titles(shown("ex03_sdpa", mistaken("ex03_sdpa", "scale_missing")))
    assert len(found) == 2 * 3
    assert found[-1] == "Difference: weights, head 1 of 2"


def test_one_head_if_one_was_asked_for():
    found = titles(shown("ex07_mqa_gqa", solver("ex07_mqa_gqa"), head=3))
    assert found == [
        f"{part}: weights, head 3 of 4" for part in ("Yours", "Reference", "Difference")
    ]


def test_the_reference_alone_where_there_is_no_answer():
    assert titles(shown("ex03_sdpa", None, head=0)) == ["Reference: weights, head 0 of 2"]


def test_the_numbers_are_those_of_the_weights():
    weights = np.array([[1.0, 0.0], [0.25, 0.75]])
    [axes] = show.weights(weights).figure().axes
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert [text.get_text() for text in axes.texts] == ["1", "0", ".25", ".75"]


def test_yours_the_reference_and_the_difference_are_in_their_places():
    yours, reference = np.eye(2), np.full((2, 2), 0.25)
    maps = [a.images[0].get_array() for a in show.weights(yours, against=reference).figure().axes]
    for got, wanted in zip(maps, (yours, reference, yours - reference), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_large_weights_are_dark():
    data = show.weights(np.eye(2)).trace
    image = imread(io.BytesIO(picture.show_heat_maps_png(data, WORDS)))
    brightness = image[..., :3].mean(-1)
    height, width = brightness.shape
    quarter = brightness[int(height * 0.35), int(width * 0.4)], brightness[int(height * 0.35), -20]
    assert quarter[0] < 0.5 < quarter[1]


def test_no_number_has_a_colour_of_its_own():
    [axes] = show.weights(np.array([[np.nan, 1.0]])).figure().axes
    assert axes.images[0].get_array().mask.tolist() == [[True, False]]


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_files(tmp_path, ending):
    path = tmp_path / f"weights{ending}"
    show.weights(np.eye(3)).save(path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("weights.jpg", "should end in one of .png, .svg, .pdf."),
        ("weights", "should end in one of .png, .svg, .pdf."),
        ("no/such/folder.png", "cannot be written: No such file or directory."),
    ],
)
def test_files_that_cannot_be(tmp_path, name, sentence):
    with pytest.raises(ValueError, match=sentence):
        show.weights(np.eye(3)).save(tmp_path / name)


def test_letters_that_no_font_has_are_numbered(monkeypatch):
    monkeypatch.setattr(
        picture, "_find_font_to_show", lambda letters: "" if letters else "DejaVu Sans"
    )
    found = show.weights(np.eye(2), tokens="猫 狗")
    assert labels(found.figure().axes[0]) == ["1", "2"]
    assert picture.lacks_font_to_show(found.trace, WORDS)


def test_a_font_that_has_only_boxes_is_no_font():
    assert not picture._find_font_to_show(frozenset("\U0001f9ff\u16a0\u1b05\ua8f2")).startswith(
        "Last Resort"
    )
