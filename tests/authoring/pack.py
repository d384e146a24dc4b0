"""A pack with one exercise, whose suite sees some changes of its solution and misses others."""

from pathlib import Path

SLUG = "ex91_mechanical"
NAMES = ("shifted", "counted", "guarded", "untried", "broken", "branched")
SOLUTION = """
import os
import signal


def shifted(x, by=1.0):
    return (x + 0.0) + by


def counted(n):
    while n > 0:
        n = n - 1
    return n


def guarded(x):
    if x is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def untried(x):
    return -x


def broken(x):
    return abs(x)


def branched(n):
    if n > 20:
        return n + 0
    if n > 40:
        return -n
    return n
"""
TESTS = '''
"""Little checks."""

from grader.judging import check, expect


@check(points=1)
def test_shifted(student, draw):
    """shifted adds a number."""
    expect(student.shifted(1.0, 2.0) == 3.0, "shifted is wrong")


@check(points=1)
def test_counted(student, draw):
    """counted counts down."""
    expect(student.counted(3) == 0, "counted is wrong")


@check(points=1)
def test_guarded(student, draw):
    """guarded returns what it is given."""
    expect(student.guarded(1) == 1, "guarded is wrong")


@check(points=1)
def test_untried(student, draw):
    """untried returns a number."""
    student.untried(1)


@check(points=1)
def test_broken(student, draw):
    """broken has a check with a fault of its own."""
    [3][1 - student.broken(1)]


@check(points=1)
def test_branched(student, draw):
    """branched returns what it is given."""
    expect(student.branched(1) == 1, "branched is wrong")
'''
TRIALS = '''
"""Random calls."""

from grader.judging import called, trial


@trial(of="shifted")
def shifts(student, draw):
    """Tensors of several sizes; the number is left out where they are large enough."""
    n = draw.integer(1, 30)
    yield from called(student.shifted, draw.normal(n), *([] if n > 7 else [2.0]))


@trial(of=("counted", "guarded", "broken"))
def others(student, draw):
    """Numbers."""
    for call in (student.counted, student.guarded, student.broken):
        yield from called(call, 1)


@trial(of="branched")
def branches(student, draw):
    """Numbers that go both ways."""
    yield from called(student.branched, draw.integer(1, 30))
'''
_MANIFEST = """
title = "Mechanical"
order = 91
track = "further"
minutes = 5
requires = []

[not_allowed]
groups = ["attention"]
"""
_FUNCTION = """
[[functions]]
name = "{}"
signature = "(x, by=1.0)"
returns = {{ y = "any" }}
"""


def write(home: Path, trials: str = TRIALS) -> Path:
    """Write the pack into an empty folder."""
    files = {
        f"solutions/{SLUG}.py": SOLUTION,
        f"suites/{SLUG}/exercise.toml": _MANIFEST + "".join(_FUNCTION.format(n) for n in NAMES),
        f"suites/{SLUG}/test_mechanical.py": TESTS,
        f"suites/{SLUG}/trials.py": trials,
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    (home / "reference").mkdir()
    return home
