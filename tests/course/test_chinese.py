"""What a learner reads is there in both languages, and one says what the other says."""

import ast
import re
import tomllib

import pytest

from grader.authoring import chinese_rules
from grader.core import catalog, translation
from grader.core.catalog import ROOT
from grader.core.records import Verdict
from grader.core.translation import Words, choose_translation_language
from grader.submission import solution_text
from tests.conftest import solution

EXERCISES = [e for e in catalog.list_catalog_exercises() if not e.draft]
OWN = tomllib.loads((ROOT / "grader/core/zh.toml").read_text(encoding="utf-8"))
HAN = re.compile("[\u4e00-\u9fff]")
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)


@each
def test_every_sentence_of_a_suite_is_there_in_chinese(exercise):
    assert [
        *chinese_rules.list_untranslated_exercise_texts(exercise),
        *chinese_rules.check_needless_translations_law(exercise),
    ] == []


@each
def test_a_missing_sentence_is_missed(exercise, tmp_path, monkeypatch):
    wanted = chinese_rules._list_wanted_translations(exercise)
    monkeypatch.setattr(
        chinese_rules, "_list_wanted_translations", lambda _: wanted | {"checks.test_new"}
    )
    assert list(chinese_rules.list_untranslated_exercise_texts(exercise)) == [
        "zh.toml has no checks.test_new. Write it."
    ]


def test_what_no_check_says_is_needless_in_chinese(monkeypatch):
    exercise = catalog.find_catalog_exercise("ex05_causal_mask")
    known = chinese_rules._list_exercise_translations(exercise)
    more = {"said.output ({a} scores)", "said.output of a volcano"}
    monkeypatch.setattr(chinese_rules, "_list_exercise_translations", lambda _: known | more)
    assert list(chinese_rules.check_needless_translations_law(exercise)) == [
        "zh.toml has said.output of a volcano, but no check says volcano. Remove it."
    ]


@each
def test_the_worked_examples_of_both_lessons_are_the_same(exercise):
    found = {"en": [], "zh": []}
    for cell in solution_text.split_cells(solution(exercise.slug)):
        if cell.kind == "markdown":
            found[cell.language] += re.findall(r"```pycon\n.*?```", cell.text, re.DOTALL)
            found[cell.language] += re.findall(r"\$\$.*?\$\$", cell.text, re.DOTALL)
    without_words = [
        [re.sub(r"\\text\{.*?\}|\s", "", x) for x in found[language]] for language in ("en", "zh")
    ]
    assert without_words[0] == without_words[1]


@pytest.mark.parametrize("english", OWN)
def test_a_sentence_of_ours_leaves_the_same_open_in_both_languages(english):
    names = re.compile(r"\{(\w+)\}")
    assert set(names.findall(english)) == set(names.findall(OWN[english]))
    assert re.search("[\u4e00-\u9fff\uff00-\uffef]", OWN[english]) or not re.search(
        "[a-z]{3}", names.sub("", english)
    )


def test_every_sentence_that_is_asked_for_has_a_chinese_one():
    missing = set()
    for path in (ROOT / "grader").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="words"), args=[ast.Constant(value=str(text)), *_]):
                    missing |= {text} - OWN.keys()
    assert missing == set()


@pytest.mark.parametrize(
    "english, said",
    [
        ("out[1, 2] is 5, but should be 0.09  [softmax(float32 (3, 4))]",
         "out[1, 2] 是 5，应为 0.09  [softmax(float32 (3, 4))]"),
        ("3 of 6 entries differ; RMS error of the worst row 0.47, allowed 1.4e-06.",
         "6 个元素中有 3 个不同；最差一行的均方根误差 0.47，允许 1.4e-06。"),
        ("While the file was loaded, no answer within 0.5 s.", "加载文件的时候，0.5 秒内没有结果。"),
        ("While the file was loaded, no answer within 0.5 s (line 3: while True: pass).", "加载文件的时候，0.5 秒内没有结果（第 3 行：while True: pass）。"),
        ("Line 3: a breakpoint was left in: take it out. `make debug` stops at it.", "第 3 行：留下了一个断点，请去掉。`make debug` 会停在断点处。"),
        ("np.exp takes no tensor that needs a gradient: write torch.exp. With .detach() the gradient would be lost.",
         "np.exp 不接受需要梯度的张量：请写 torch.exp。用 .detach() 会丢掉梯度。"),
        ("line 7: return x", "第 7 行：return x"),
        ("line 3 of cell 4: return x", "单元格 4 第 3 行：return x"),
        ("weights is None, but should be a tensor  [f(float32 (3,))]", "weights 是 None，应为张量  [f(float32 (3,))]"),
        ("c[1] is a list of 2, but should be a number  [f()]", "c[1] 是长度为 2 的列表，应为一个数  [f()]"),
        ("gradient of q through the weights[0, 1] is 2.0, but should be 1.0  [f()]", "q 的梯度（经过 weights）[0, 1] 是 2.0，应为 1.0  [f()]"),
        ("TimeoutError: no answer within 10 s  [f()]", "10 秒内没有结果  [f()]"),
        ("The file waits for somebody to type something (line 3: input()): leave that out.", "文件在等待键盘输入（第 3 行：input()）：请去掉这一句。"),
        ("Line 9: F.softmax is not allowed in this exercise. Write it with two matrix products and a softmax.", "第 9 行：这道题不允许用 F.softmax。用两次矩阵乘法和一次 softmax 自己写。"),
        ("PyTorch in softmax_numpy", "softmax_numpy 里的 PyTorch"),
        ("seed 7 (SEED=7 repeats this run's inputs)", "种子 7（SEED=7 重现这次的输入）"),
        ("nothing that we say", "nothing that we say"),
    ],
)  # fmt: skip
def test_a_sentence_with_its_values_in_it_is_recognised(english, said):
    assert Words("zh").said(english) == said
    assert Words("en").said(english) == english


def test_what_the_judging_says_about_a_mistake_is_said_in_chinese(graded):
    source = solution("ex03_sdpa").replace("scale = 1 / math.sqrt(q.shape[-1])", "scale = 1.0")
    report = graded("ex03_sdpa", source)
    failed = [c for c in report.checks if c.verdict is Verdict.FAILED]
    assert failed
    for check in failed:
        for line in Words("zh").said(check.why).splitlines():
            assert HAN.search(line), line


@pytest.mark.parametrize(
    "environment, language",
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh:en"}, "zh"),
        ({"LANG": "C", "LANGUAGE": "zh"}, "en"),
    ],
)
def test_the_language_is_that_of_the_environment(environment, language):
    assert choose_translation_language(environment) == language


def test_braces_in_what_a_student_wrote_do_no_harm():
    line = "{x}[0] is {0}, but should be {y!r}  [f({})]"
    assert Words("zh").said(line) == "{x}[0] 是 {0}，应为 {y!r}  [f({})]"
    assert translation.LANGUAGES == ("en", "zh")


def test_a_task_with_an_of_in_it_is_no_mark():
    task = "Turn the scores of an array into weights along `axis`, in NumPy."
    assert Words("zh").said(task) == task
    assert Words("zh").said("7.5 of 10") == "10 分中的 7.5 分"
