"""The questions that follow an exercise are there in both languages, and their figures are right."""

import math
import re
import shutil
import tomllib
from dataclasses import replace

import pytest

from grader.authoring import chinese_rules as wanted
from grader.core import catalog
from tests.course.test_chinese import HAN

EXERCISES = catalog.list_catalog_exercises()
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)

TERM = re.compile(r"[(]*[0-9.,*/+^()-]*(?:\de-?\d+)?[0-9.,*/+^()-]*")  # or an operator
PRECISE = re.compile(r"\d+(?:,\d{3})+|\d+\.\d+")


def english(exercise):
    return tomllib.loads((exercise.folder / "questions.toml").read_text("utf-8"))["questions"]


def chinese(exercise):
    return tomllib.loads((exercise.folder / "zh.toml").read_text("utf-8"))["questions"]


def value(terms):
    """Of numbers and operators; None of what is no arithmetic."""
    try:
        return eval(" ".join(terms).replace(",", "").replace("^", "**"), {"__builtins__": {}})
    except SyntaxError:
        return None


def last_place(number):
    """What the last digit of a number counts for."""
    mantissa, _, power = number.replace(",", "").partition("e")
    return 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))


def leading(terms):
    """The terms up to the first that is none, or that a mark ends."""
    for n, term in enumerate(terms):
        if not TERM.fullmatch(term):
            return terms[:n]
        if term[-1] in ",.":
            return [*terms[:n], term.rstrip(",.")]
    return terms


def trailing(terms):
    """The terms behind the last that is none, or that a mark ends."""
    starts = [n + 1 for n, x in enumerate(terms) if not TERM.fullmatch(x) or x[-1] in ",."]
    return terms[max(starts, default=0) :]


def equations(text):
    """Each equation between numbers in an answer, and whether it holds to the digits written."""
    terms = re.sub(r"[^\x00-\x7f]+|[;:]", " | ", text.replace("%", " % ")).split()
    for place in (n for n, term in enumerate(terms) if term == "="):
        left, right = trailing(terms[:place]), leading(terms[place + 1 :])
        a, b = value(left), value(right)
        if a is not None and b is not None:
            percent = terms[place + 1 + len(right) :][:1] == ["%"]
            off = abs(a * (100 if percent else 1) - b)
            allowed = 1e-12 if len(right) > 1 or "/" in right[0] else 0.5 * last_place(right[0])
            yield " ".join([*left, "=", *right, *["%"] * percent]), off <= allowed + 1e-12 * abs(b)


@each
def test_there_are_enough_questions_and_each_has_its_own_id(exercise):
    ids = [question["id"] for question in english(exercise)]
    assert len(ids) >= 4
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{2,30}", id) for id in ids)


@each
def test_a_question_has_what_is_read_of_it_and_nothing_else(exercise):
    assert all(question.keys() == {"id", "asks", "answer"} for question in english(exercise))


@each
def test_each_is_there_in_both_languages_in_the_same_order(exercise):
    said = chinese(exercise)
    assert list(said) == [question["id"] for question in english(exercise)]
    for texts in said.values():
        assert texts.keys() == {"asks", "answer"}
        assert all(HAN.search(text) for text in texts.values())


@each
def test_answers_are_as_long_as_one_says_aloud_and_plain_text(exercise):
    for question in english(exercise):
        assert 120 <= len(question["answer"]) <= 900, question["id"]
        assert question["asks"][-1] in ".?"
    texts = [text for question in english(exercise) for text in question.values()]
    texts += [text for said in chinese(exercise).values() for text in said.values()]
    for text in texts:
        assert "```" not in text
        assert "\n" not in text and "  " not in text
        assert text == text.strip()


@each
def test_both_languages_give_the_same_figures(exercise):
    said = chinese(exercise)
    for question in english(exercise):
        answers = question["answer"], said[question["id"]]["answer"]
        assert len({frozenset(PRECISE.findall(answer)) for answer in answers}) == 1, question["id"]


@each
def test_the_arithmetic_of_the_answers_is_right(exercise):
    answers = [question["answer"] for question in english(exercise)]
    answers += [said["answer"] for said in chinese(exercise).values()]
    assert [told for answer in answers for told, holds in equations(answer) if not holds] == []


@pytest.mark.parametrize(
    "text, found",
    [
        ("so 2 * 32 * 32 * 128 * 2 = 524,288 bytes", [("2 * 32 * 32 * 128 * 2 = 524,288", True)]),
        ("so 2 * 32 = 65 bytes", [("2 * 32 = 65", False)]),
        ("2^-8 = 0.39 % of it", [("2^-8 = 0.39 %", True)]),
        ("2^-8 = 0.40%", [("2^-8 = 0.40 %", False)]),
        ("l = 1/3 + 1 = 4/3", [("1/3 + 1 = 4/3", True)]),
        ("l = 1/3 + 1 = 5/3", [("1/3 + 1 = 5/3", False)]),
        ("6 * 175e9 * 300e9 = 3.15e23", [("6 * 175e9 * 300e9 = 3.15e23", True)]),
        ("Lq = 2 and 4 E = 8", []),
    ],
)
def test_arithmetic_is_found_and_recomputed(text, found):
    assert list(equations(text)) == found


def test_most_of_the_figures_stand_in_equations():
    answers = [question["answer"] for e in EXERCISES for question in english(e)]
    assert sum(len(list(equations(answer))) for answer in answers) >= 70


E128 = 10_000 ** (126 / 128)  # of the last of 64 pairs, one over its frequency
H100 = 989e12, 3.35e12  # operations a second in bfloat16, bytes a second

# Figures that the answers give as "about" or without the arithmetic in front of them.
FIGURES = [
    ("ex01_softmax", "subtract_maximum", f"e^{math.log(3.4028235e38):.2f}"),
    ("ex01_softmax", "subtract_maximum", f"e^{math.log(65504):.2f}"),
    ("ex03_sdpa", "why_scale", f"{math.exp(math.sqrt(256)) / 1e6:.1f}"),
    ("ex03_sdpa", "temperature", f"{math.exp(1):.3f}"),
    ("ex03_sdpa", "temperature", f"{math.exp(1 / 0.5):.3f}"),
    ("ex03_sdpa", "complexity", f"{2 * 4096:,}"),
    ("ex04_heads", "parameter_count", f"{12 * (4 * 768**2 + 4 * 768):,}"),
    ("ex05_causal_mask", "why_not_prefixes", f"{sum(n * n for n in range(1025)) / 1024**2:.0f}"),
    ("ex05_causal_mask", "half_the_work", f"{528 / 1024:.1%}".replace("%", "")),
    ("ex06_kv_cache", "bytes_per_token", f"{2 * 32 * 32 * 128 * 2:,}"),
    ("ex06_kv_cache", "bytes_per_token", f"{6.74e9 * 2 / 2**30:.1f}"),
    ("ex06_kv_cache", "prefill_or_decode", f"{math.ceil(H100[1] / 13.48e9)}"),
    ("ex07_mqa_gqa", "decode_bandwidth", f"{2 * 80 * 64 * 128 * 2:,}"),
    ("ex08_cuda_sdpa", "memory_bound", f"{4 * 16384**2 * 128 / H100[0] * 1e3:.3f}"),
    ("ex08_cuda_sdpa", "memory_bound", f"{4 * 2**29 / H100[1] * 1e3:.3f}"),
    ("ex08_cuda_sdpa", "memory_bound", f"{(4 * 2**29 / H100[1]) / (2**37 / H100[0]):.1f}"),
    ("ex11_positions", "rope_is_relative", f"{math.cos(2):.4f}"),
    ("ex11_positions", "frequencies", f"{2 * math.pi:.2f}"),
    ("ex11_positions", "frequencies", f"{2 * math.pi * E128:,.0f}"),
    ("ex11_positions", "frequencies", f"{2 * math.pi * 500_000 ** (126 / 128) / 1e6:.2f}"),
    ("ex11_positions", "longer_contexts", f"{16384 / (2 * math.pi * E128):.3f}"),
    ("ex11_positions", "longer_contexts", f"{10_000 * 4 ** (128 / 126):,.0f}"),
    ("ex12_attention_block", "residual", f"{1.1**80:,.0f}"),
    ("ex12_attention_block", "qk_norm", f"{math.sqrt(128):.1f}"),
    ("ex13_mla", "cache_size", f"{2 * 128 * 128 / (512 + 64):.1f}"),
    ("ex13_mla", "cache_size", f"{128 * (128 + 64 + 128) / (512 + 64):.1f}"),
    ("ex13_mla", "absorbed_matrices", f"{131_072 / (1_088 - 320):.0f}"),
    ("ex13_mla", "decoupled_rope", f"{math.sqrt(128 + 64):.2f}"),
    ("ex13_mla", "against_mqa", f"{128 * 2 * 1_088 / (576 * 2):.0f}"),
    ("ex14_triton", "powers_of_two", f"{math.log2(math.e):.4f}"),
    ("ex15_cuda_kernel", "shared_tiles", f"{3 * 4096**2 / (2 * 64 * 4096)}".removesuffix(".0")),
    ("ex16_paged_cache", "block_table", f"{100_000 * 0.5 / 1024:.1f}"),
    ("ex16_paged_cache", "preemption", f"{1000 * 2**19 / 32e9 * 1e3:.1f}"),
    ("ex16_paged_cache", "ragged_batch", f"{3000 / 1110:.1f}"),
    ("ex17_bug_hunt", "training_hides", f"{math.log(50_257):.2f}"),
]


@pytest.mark.parametrize("slug, id, figure", FIGURES)
def test_a_figure_is_what_its_formula_gives(slug, id, figure):
    exercise = catalog.find_catalog_exercise(slug)
    answer = next(q["answer"] for q in english(exercise) if q["id"] == id)
    for text in (answer, chinese(exercise)[id]["answer"]):
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", text)


def test_a_question_without_chinese_and_chinese_without_a_question_are_told(tmp_path):
    exercise = catalog.find_catalog_exercise("ex02")
    folder = tmp_path / exercise.slug
    shutil.copytree(exercise.folder, folder)
    path = folder / "questions.toml"
    path.write_text(path.read_text("utf-8").replace('id = "which_axis"', 'id = "which_side"'))
    changed = replace(exercise, folder=folder)
    assert list(wanted.list_untranslated_exercise_texts(changed)) == [
        "zh.toml has no questions.which_side.answer. Write it.",
        "zh.toml has no questions.which_side.asks. Write it.",
    ]
    assert list(wanted.check_needless_translations_law(changed)) == [
        "zh.toml has questions.which_axis.answer, which the suite has not. Remove it.",
        "zh.toml has questions.which_axis.asks, which the suite has not. Remove it.",
    ]
