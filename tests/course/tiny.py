"""A sound exercise, as small as the laws let it be, in a home of its own."""

import importlib
import sys
from pathlib import Path

import grader.suites
import reference
from grader.authoring import project_rules, skeletons, suite_rules
from grader.core import catalog

SLUG = "ex90_double"
SOLUTION, SUITE = f"solutions/{SLUG}.py", f"suites/{SLUG}"

_SOLUTION = '''\
# %% [markdown] lang="en"
# # Twice as much
# Add a number to itself.

# %% [markdown] lang="zh"
# # 两倍
# 把一个数加上它自己。

# %%
import torch


# %%
def double(x):
    """Double a tensor."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION
'''
_MANIFEST = """\
title = "Twice as much"
order = 90
track = "core"
minutes = 5
requires = []
learned = ["A double is a sum.", "It keeps the sign.", "It is linear."]

[not_allowed]
groups = ["attention"]
names = ["torch.Tensor.mul"]
cure = "Write it with a sum."

[[functions]]
name = "double"
signature = "(x)"
shapes = { x = "..." }
returns = { y = "tensor ..." }
hints = ["What is twice a number?", "It is a sum."]
"""
_TESTS = '''\
"""Doubling."""

from grader.judging import Hard, check, same


@check(points=1)
def test_values(student, draw):
    """double is twice x."""
    for sizes in [*draw.hard(Hard.ONE, n=3), *draw.hard(Hard.LONG, n=3)]:
        x = draw.normal(sizes["n"])
        same(student.double(x), 2 * x)


@check(points=1)
def test_nothing(student, draw):
    """double of nothing is nothing."""
    x = draw.normal(0)
    same(student.double(x), x)
'''
_MISTAKES = (
    '"""Wrong doubles."""\n\nfrom grader.judging import mistake\n\nfrom .test_double import test_nothing, test_values\n'
    + "".join(
        f'''

@mistake(of="double", caught_by=test_values{", null=True" if number == 9 else ""})
def times_{number}(x):
    """The tensor is taken {number} times.

    Take it twice.
    """
    return {number} * x
'''
        for number in range(3, 13)
    )
)
_VARIANTS = '"""Right doubles."""\n\nfrom grader.judging import variant\n' + "".join(
    f'''

@variant(of="double")
def twice_{number}(x):
    """Twice, and {number} added and taken away."""
    return x + x + {number} - {number}
'''
    for number in range(5)
)
_HARD = """\
[double.asked]
one = ["test_values"]
long = ["test_values"]

[double.not]
changed = "it is not run here"
scores = "nothing is compared"
"""
_TRIALS = '''\
"""How doubling is called."""

from grader.judging import called, trial


@trial(of="double")
def doubled(student, draw):
    """A tensor of any length."""
    yield from called(student.double, draw.normal(draw.sizes(n=5)["n"]))
'''
_BENCH = '''\
"""The speed case of doubling."""

from grader.judging import speed


@speed(points=1)
def bench_double(race):
    """As fast as the sum."""
'''
_DRILLS = "".join(
    f'[[drills]]\nmistake = "times_{number}"\nedits = [["x + x", "{number} * x"]]\n'
    for number in range(3, 8)
)
_CHINESE = """\
title = "两倍"
learned = ["两倍就是和。", "符号不变。", "它是线性的。"]
cure = "用加法来写。"
[checks]
test_values = "double 是 x 的两倍。"
test_nothing = "空张量的两倍是空张量。"
[speed]
bench_double = "和加法一样快。"
[hints]
double = ["一个数的两倍是什么？", "是一个和。"]
[mistakes]
""" + "".join(
    f'times_{number} = {{ says = "取了 {number} 倍。", mend = "取两倍。" }}\n'
    for number in range(3, 13)
)
_QUESTIONS = "".join(
    f'[[questions]]\nid = "what_{number}"\nasks = "What?"\nanswer = "A sum."\n'
    for number in range(3)
)
_CHINESE += "[variants]\n" + "".join(f'twice_{number} = "两倍。"\n' for number in range(2))
_CHINESE += "[questions]\n" + "".join(
    f'what_{number} = {{ asks = "什么？", answer = "一个和。" }}\n' for number in range(3)
)
FILES = {
    SOLUTION: _SOLUTION,
    f"{SUITE}/exercise.toml": _MANIFEST,
    f"{SUITE}/test_double.py": _TESTS,
    f"{SUITE}/mistakes.py": _MISTAKES,
    f"{SUITE}/variants.py": _VARIANTS,
    f"{SUITE}/hard.toml": _HARD,
    f"{SUITE}/trials.py": _TRIALS,
    f"{SUITE}/bench_double.py": _BENCH,
    f"{SUITE}/parties/zero.py": '"""The zero: number by number."""\n',
    f"{SUITE}/parties/reference.py": '"""The reference: the sum."""\n',
    f"{SUITE}/drills.toml": _DRILLS,
    f"{SUITE}/questions.toml": _QUESTIONS,
    f"{SUITE}/zh.toml": _CHINESE,
}


def exercises():
    """What `catalog.list_catalog_exercises` finds where there is nothing else; read anew at each call."""
    return (catalog.read_exercise_manifest(catalog.ROOT / SUITE / "exercise.toml", catalog.ROOT),)


def build(home: Path, monkeypatch) -> Path:
    """Write it into an empty folder, and have the house look there and nowhere else."""
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    for module in (catalog, project_rules, skeletons):
        monkeypatch.setattr(module, "ROOT", home)
    monkeypatch.setattr(catalog, "list_catalog_exercises", exercises)
    monkeypatch.setattr(suite_rules, "SYLLABUS_POINTS", {SLUG: (2, 1)})
    for package in (grader.suites, reference):  # to which the home is added, as that of a pack
        monkeypatch.setattr(package, "__path__", list(package.__path__))
    forget()
    write_skeletons()
    return home


def write_skeletons() -> None:
    """As `make skeletons` does."""
    for _ in skeletons.write_all_skeletons():
        pass


def forget() -> None:
    """The modules of an earlier one are not those of the next."""
    for name in [name for name in sys.modules if name.startswith(f"grader.suites.{SLUG}")]:
        del sys.modules[name]
    importlib.invalidate_caches()
