"""Similar answers: copies are found however they are disguised, honest answers are not accused."""

import json
import random
from dataclasses import replace
from functools import partial

import pytest

from grader.authoring import skeletons
from grader.classroom.similar.similar_search import SearchTerms, find_similar_answers
from grader.core import catalog
from grader.core.catalog import ROOT
from tests.conftest import solution
from tests.course.copying import (
    SLUG,
    copy,
    deal,
    disguised,
    handed_in,
    honest,
    right,
    skeleton,
    variant,
)

# Not those whose answers are a solution but for a line, nor kernels, which have a frame in common.
SLUGS = [
    e.slug
    for e in catalog.list_catalog_exercises()
    if e.language == "python" and not (e.hunts or e.requires)
]


@pytest.fixture
def hand_in(tmp_path):
    """hand_in({"ada": source, ...}) -> the folder of these submissions."""
    return partial(handed_in, tmp_path)


def found(submissions, *also, slug=SLUG, **terms):
    return find_similar_answers(
        submissions, also, [catalog.find_catalog_exercise(slug)], SearchTerms(**terms)
    )


def names(alike):
    return {alike.first.answer.writer.who, alike.second.answer.writer.who}


def listed(result):
    """The names of each pair that is shown, the most unusual first."""
    return [names(alike) for group in result.groups for alike in group.pairs]


@pytest.mark.parametrize("slug", SLUGS)
def test_a_copy_with_other_names_order_comments_and_layout_comes_first(hand_in, slug):
    chance = random.Random(slug)
    choose = deal(chance)
    sources = {f"s{number}": honest(slug, chance, choose) for number in range(8)}
    folder = hand_in(sources | {"copied": copy(sources["s3"])}, slug=slug)
    result = found(folder, slug=slug)
    assert listed(result)[0] == {"s3", "copied"}
    [first, *_] = result.groups[0].pairs
    assert min(first.first.share, first.second.share) > 0.8


@pytest.mark.parametrize("slug", SLUGS)
def test_answers_that_were_written_independently_have_much_less_in_common(hand_in, slug):
    right_answers = {f"s{number}": variant(number, slug) for number in range(3)}
    folder = hand_in(right_answers | {"copied": copy(variant(0, slug))}, slug=slug)
    copied, *honest_ones = [p for g in found(folder, slug=slug, least=1).groups for p in g.pairs]
    assert names(copied) == {"s0", "copied"}
    assert copied.first.share > 0.9
    others = [p for p in honest_ones if not names(p) & {"copied"}]
    assert all(min(p.first.share, p.second.share) < 0.65 for p in others)


def test_what_everybody_was_given_counts_for_nothing(hand_in):
    """One wrote the first function and one the second; heads and docstrings are the same."""
    first, second = (
        right(SLUG)["attention_numpy"][1],
        right(SLUG)["scaled_dot_product_attention"][4],
    )
    given = skeleton(SLUG)
    folder = hand_in({"ada": f"{given}\n\n{first}\n", "ben": f"{given}\n\n{second}\n"})
    everything = find_similar_answers(
        folder, [], [catalog.find_catalog_exercise(SLUG)], SearchTerms(least=1)
    )
    marked = [
        line
        for group in everything.groups
        for alike in group.pairs
        for side in (alike.first, alike.second)
        for line in side.passages()
    ]
    assert everything.answers == 2
    assert [line for line in marked if line < given.count("\n")] == []


@pytest.mark.parametrize("slug", SLUGS)
def test_what_is_left_of_a_skeleton_gives_nothing(hand_in, slug):
    given = skeleton(slug)
    untouched = {"ada": given, "ben": given, "cem": f"# my name\n\n{given}\n\n# later\n"}
    result = found(hand_in(untouched, slug=slug), slug=slug, least=1)
    assert (result.answers, result.groups) == (0, ())


def test_an_untouched_skeleton_of_another_year_gives_nothing(hand_in, monkeypatch):
    monkeypatch.setattr(
        "grader.classroom.similar.similar_search.read_compared_skeleton", lambda exercise: "x = 1"
    )
    folder = hand_in({"ada": skeleton(SLUG), "ben": skeleton(SLUG)})
    assert found(folder, least=1).answers == 0


def test_of_a_file_handed_in_twice_all_is_in_the_other(hand_in):
    [alike] = found(hand_in({"ada": variant(0), "ben": variant(0)})).groups[0].pairs
    assert (alike.first.share, alike.second.share) == (1, 1)
    assert alike.tokens == alike.first.answer.tokens.count
    assert alike.lines == len(alike.first.passages())


def test_a_copy_of_a_short_answer_stands_above_long_ones_that_are_alike_in_part(hand_in):
    chance = random.Random(4)
    short = {f"s{number}": honest("ex02_masking", chance) for number in range(9)}
    folder = hand_in(short | {"s8": copy(short["s0"])}, slug="ex02_masking")
    hand_in(
        {f"s{number}": honest("ex06_kv_cache", chance) for number in range(9)}, slug="ex06_kv_cache"
    )
    exercises = [catalog.find_catalog_exercise(slug) for slug in ("ex02_masking", "ex06_kv_cache")]
    groups = find_similar_answers(folder, [], exercises, SearchTerms()).groups
    assert groups[0].everybody == ("s0", "s8")
    assert {group.slug for group in groups} == {"ex02_masking", "ex06_kv_cache"}
    [one] = find_similar_answers(folder, [], exercises, SearchTerms(most=1)).groups
    assert one.everybody == ("s0", "s8")


def test_a_notebook_and_a_file_with_the_same_answer_are_found(hand_in):
    cells = [
        "import math\nimport numpy as np\nimport torch",
        right(SLUG)["scaled_dot_product_attention"][2],
        "print('a scratch cell')",
        right(SLUG)["attention_numpy"][2],
    ]
    made = [{"cell_type": "code", "source": source, "metadata": {}} for source in cells]
    notebook = json.dumps({"cells": made, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})
    hand_in({"ada": notebook}, suffix=".ipynb")
    result = found(hand_in({"ben": copy(variant(2)), "cem": variant(1), "dia": variant(3)}))
    assert listed(result)[0] == {"ada", "ben"}
    assert result.notes == ()


def test_a_copy_from_an_earlier_year_is_found_and_what_is_alike_there_is_not(hand_in):
    earlier = hand_in({"old": variant(1), "older": variant(1), "oldest": variant(2)}, "2025")
    folder = hand_in({"ada": copy(variant(1)), "ben": variant(3)})
    result = found(folder, earlier)
    assert {"ada", f"{earlier}/old"} in listed(result)
    assert {"ada", f"{earlier}/older"} in listed(result)
    assert all(pair & {"ada", "ben"} for pair in listed(result))


def test_of_a_file_that_is_here_and_there_the_one_here_is_compared_with_others(hand_in):
    earlier = hand_in({"old": variant(1)}, "2025")
    folder = hand_in({"ada": copy(variant(1)) + variant(2), "ben": variant(1), "cem": variant(3)})
    pairs = listed(found(folder, earlier))
    assert {"ben", f"{earlier}/old"} in pairs
    assert {"ada", "ben"} in pairs
    assert {"ada", f"{earlier}/old"} not in pairs


def test_a_copy_of_a_published_solution_is_found(hand_in):
    folder = hand_in({"ada": copy(variant(0)), "ben": variant(1), "cem": variant(2)})
    result = found(folder, ROOT / "solutions")
    assert listed(result)[0] == {"ada", str(ROOT / "solutions")}


def test_five_who_share_a_file_are_one_group_and_others_are_not_in_it(hand_in):
    chance = random.Random(5)
    shared = honest(SLUG, chance)
    clique = {f"c{number}": disguised(shared, chance) for number in range(4)} | {"c4": shared}
    others = {f"s{number}": honest(SLUG, chance) for number in range(8)}
    first, *rest = found(hand_in(clique | others)).groups
    assert set(first.everybody) == set(clique)
    assert len(first.pairs) == 4
    assert all(not set(group.everybody) <= set(clique) for group in rest)


def test_a_large_group_shows_a_few_of_its_pairs_and_names_everybody(hand_in):
    chance = random.Random(1)
    clique = {f"c{number:02}": variant(2) for number in range(30)}
    result = found(hand_in(clique | {"ada": honest(SLUG, chance)}))
    assert len(result.groups[0].pairs) == 5
    assert set(result.groups[0].everybody) == set(clique)


def test_what_many_have_in_common_stands_below_what_two_have(hand_in):
    common = variant(1).replace("def attention_numpy", "def helper")
    chance = random.Random(3)
    sources = {f"s{number}": common + honest(SLUG, chance) for number in range(12)}
    sources["copied"] = common + copy(sources["s5"].removeprefix(common))
    assert listed(found(hand_in(sources)))[0] == {"s5", "copied"}


def test_the_text_in_common_must_be_long_enough(hand_in):
    folder = hand_in({"ada": variant(0), "ben": copy(variant(0)), "cem": variant(1)})
    [alike] = found(folder, most=1).groups[0].pairs
    assert found(folder, least=alike.tokens, most=1).groups
    assert not found(folder, least=alike.tokens + 1).groups


def test_as_many_groups_are_listed_as_were_asked_for(hand_in):
    folder = hand_in({f"s{number}": variant(number // 2) for number in range(8)})
    assert [len(found(folder, most=most).groups) for most in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"\xff\xfe\x00", "is not UTF-8 text: save it as UTF-8."),
        (b"x = 1\n" * 100_000, "is too large: an answer has at most 150,000 bytes."),
        (b"", "is empty."),
    ],
)
def test_a_file_that_cannot_be_read_is_a_sentence_and_the_rest_is_compared(
    hand_in, content, sentence
):
    folder = hand_in({"bad": content, "ada": variant(0), "ben": variant(0)})
    result = found(folder)
    assert listed(result) == [{"ada", "ben"}]
    [note] = result.notes
    assert note.startswith("bad: ")
    assert sentence in note


def test_links_are_not_followed(hand_in, tmp_path):
    folder = hand_in({"ada": variant(0), "ben": variant(1)})
    (folder / "eve").symlink_to(folder / "ada")
    (folder / "mal").mkdir()
    (folder / "mal" / f"{SLUG}.py").symlink_to(folder / "ada" / f"{SLUG}.py")
    result = found(folder, least=1)
    assert result.answers == 2
    assert [note.split(" is a link")[0] for note in result.notes] == ["eve", f"mal: {SLUG}.py"]


def test_code_that_is_no_python_is_compared_all_the_same(hand_in):
    broken = variant(0) + "\ndef broken(:\n    '''never closed"
    assert listed(found(hand_in({"ada": broken, "ben": broken + "   "}))) == [{"ada", "ben"}]


@pytest.mark.parametrize("kept", [True, False])
def test_without_solutions_the_untouched_file_is_the_skeleton(hand_in, tmp_path, monkeypatch, kept):
    """As in a bundle, whose copy of the skeleton may be gone."""
    monkeypatch.setattr(skeletons, "ROOT", tmp_path)
    if kept:
        (tmp_path / "grader/skeletons").mkdir(parents=True)
        (tmp_path / f"grader/skeletons/{SLUG}.py.txt").write_text(skeleton(SLUG))
    folder = hand_in({"ada": f"# ada\n{skeleton(SLUG)}", "ben": f"# ben\n{skeleton(SLUG)}"})
    result = find_similar_answers(
        folder, (), [replace(catalog.find_catalog_exercise(SLUG), home=tmp_path)], SearchTerms()
    )
    assert (result.answers, len(result.groups)) == ((0, 0) if kept else (2, 1))
    assert [note.split(",")[0] for note in result.notes] == (
        [] if kept else [f"{SLUG}: its skeleton is not known here"]
    )


def test_the_solution_itself_is_compared_without_its_prose(hand_in):
    folder = hand_in({"ada": solution(SLUG), "ben": variant(0), "cem": variant(3)})
    assert listed(found(folder))[0] == {"ada", "ben"}
