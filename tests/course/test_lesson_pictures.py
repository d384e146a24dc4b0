"""The pictures and papers of lessons: in step with the code, and with words for everybody."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from docs.lesson_pictures import LESSON_TABLES, SENTENCE, draw_lesson_picture
from grader.authoring.lesson_notes import LESSON_PAPERS, LESSON_PICTURE_WORDS, write_picture_link
from tests.conftest import ROOT

SLUGS = list(LESSON_TABLES)
NAMES = {"svg": "http://www.w3.org/2000/svg"}
FOLDER = ROOT / "docs" / "lessons"


@pytest.mark.parametrize("slug", SLUGS)
def test_the_file_is_in_step_with_the_code(slug):
    kept = (FOLDER / f"{slug}.svg").read_text(encoding="utf-8")
    assert kept == draw_lesson_picture(slug), "run `make picture`"


@pytest.mark.parametrize("slug", SLUGS)
def test_a_picture_has_words_for_those_who_cannot_see_it(slug):
    root = ElementTree.fromstring(draw_lesson_picture(slug))
    assert root.get("role") == "img"
    assert root.findtext("svg:title", namespaces=NAMES) == slug
    assert root.findtext("svg:desc", namespaces=NAMES) == LESSON_PICTURE_WORDS[slug].english


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("slug", SLUGS)
def test_a_lesson_shows_its_picture_and_links_its_papers(slug, language):
    text = (FOLDER / f"{slug}.{language}.md").read_text(encoding="utf-8")
    assert write_picture_link(slug, language) in text
    assert all(f"https://arxiv.org/abs/{number}" in text for _, number in LESSON_PAPERS[slug])


def test_the_weights_of_a_picture_sum_to_one():
    [*_, weights] = LESSON_TABLES["ex01_softmax"]()
    assert weights.values.sum(-1) == pytest.approx(1.0)
    assert weights.rows == SENTENCE


def test_tiles_give_the_weights_of_the_whole_row():
    whole = LESSON_TABLES["ex01_softmax"]()[2].values[2]
    assert LESSON_TABLES["ex08_cuda_sdpa"]()[2].values[0] == pytest.approx(whole)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_picture_is_readable_in_the_dark(slug):
    assert re.search(r"prefers-color-scheme: dark", draw_lesson_picture(slug))
