"""The pictures and papers of lessons: in step with the code, and with words for everybody."""

import inspect
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from docs.lesson_pictures import LESSON_TABLES, SENTENCE, draw_lesson_picture
from grader.authoring.lesson_notes import LESSON_PAPERS, LESSON_PICTURE_WORDS, write_picture_link
from grader.core.running_sentence import RUNNING_SENTENCE
from tests.conftest import ROOT

SLUGS = list(LESSON_TABLES)
NAMES = {"svg": "http://www.w3.org/2000/svg"}
FOLDER = ROOT / "docs" / "lessons"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("slug", SLUGS)
def test_the_file_is_in_step_with_the_code(slug, language):
    kept = (FOLDER / f"{slug}.{language}.svg").read_text(encoding="utf-8")
    assert kept == draw_lesson_picture(slug, language), "run `make picture`"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("slug", SLUGS)
def test_a_picture_has_words_for_those_who_cannot_see_it(slug, language):
    root = ElementTree.fromstring(draw_lesson_picture(slug, language))
    assert root.get("role") == "img"
    assert root.findtext("svg:title", namespaces=NAMES) == slug
    told = root.findtext("svg:desc", namespaces=NAMES)
    assert told == LESSON_PICTURE_WORDS[slug].told(language)


@pytest.mark.parametrize("slug", SLUGS)
def test_no_text_of_a_chinese_picture_is_english(slug):
    root = ElementTree.fromstring(draw_lesson_picture(slug, "zh"))
    texts = [text.text or "" for text in root.iterfind(".//svg:text", NAMES)]
    stay = {*SENTENCE, "exp", "sqrt", "token", "float16", "KV", "MiB", "kv", "Hk"}
    left = {word for text in texts for word in re.findall(r"[A-Za-z]{2}\w*", text)} - stay
    assert left == set()
    assert any(re.search("[\u4e00-\u9fff]", text) for text in texts)


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
    whole = LESSON_TABLES["ex01_softmax"]()[2].values[-1]
    assert LESSON_TABLES["ex08_cuda_sdpa"]()[2].values[0] == pytest.approx(whole)


def test_the_running_maximum_grows_in_the_second_tile():
    first, second = LESSON_TABLES["ex08_cuda_sdpa"]()[1].values.T
    assert second[0] > first[0]
    assert second[1] == pytest.approx(np.exp(first[0] - second[0]))


def test_two_queries_at_the_end_see_more_than_two_at_the_top_left():
    square, _, right, wrong = LESSON_TABLES["ex05_causal_mask"]()
    assert (right.values == square.values[-2:]).all()
    assert (right.keep.sum(), wrong.keep.sum()) == (3 + 4, 1 + 2)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("slug", SLUGS)
def test_prose_and_picture_follow_one_sentence_with_the_same_numbers(slug, language):
    text = (FOLDER / f"{slug}.{language}.md").read_text(encoding="utf-8")
    [told] = [p for p in text.split("\n\n") if f"*{RUNNING_SENTENCE}*" in p]
    drawn = (FOLDER / f"{slug}.{language}.svg").read_text(encoding="utf-8")
    numbers = re.findall(r"\d\.\d\d", told)
    assert numbers and all(f">{number}<" in drawn for number in numbers)
    assert RUNNING_SENTENCE in LESSON_PICTURE_WORDS[slug].english
    assert RUNNING_SENTENCE in LESSON_PICTURE_WORDS[slug].chinese
    assert all(f">{word}" in drawn for word in RUNNING_SENTENCE.split())


def test_what_is_shown_and_played_follows_the_same_sentence():
    from grader.notebook import show
    from grader.suites.ex01_softmax import play
    from grader.suites.ex06_kv_cache import play as cache

    assert inspect.signature(show.attention).parameters["tokens"].default == RUNNING_SENTENCE
    assert play.TOKENS == cache.TOKENS == SENTENCE


@pytest.mark.parametrize("slug", SLUGS)
def test_a_picture_is_readable_in_the_dark(slug):
    assert re.search(r"prefers-color-scheme: dark", draw_lesson_picture(slug))
