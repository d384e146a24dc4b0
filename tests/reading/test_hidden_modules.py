"""A module, or what makes classes, does not become a value by way of a name that something else binds, or of an operator."""

import ast
import re

import pytest

from tests.reading.test_ways_around import refused

# In each of these `torch` is the module, though a name around it looks like it.
READ_AS_MODULE = {
    "global in an inner function": (
        "torch = 1\n    def inner():\n        global torch\n        return torch"
    ),
    "global two functions up": (
        "torch = 1\n    def inner():\n        global torch\n        return lambda: torch"
    ),
    "global in a class": "torch = 1\n    class Way:\n        global torch\n        got = torch",
    "bound in a class": "torch = 1\n    class Way:\n        torch = torch",
    "bound later in a class": (
        "torch = 1\n    class Way:\n        got = torch\n        for torch in (): pass"
    ),
    "walrus of a lambda": "[lambda: (torch := 1) for _ in ()]\n    return [torch]",
    "walrus of a lambda in a condition": "[0 for _ in () if (lambda: (torch := 1))]\n    return [torch]",
    "import in an inner function": (
        "torch = 1\n    def inner():\n        import torch\n        return [torch]"
    ),
    "import for the function around": (
        "torch = 1\n    def inner():\n        nonlocal torch\n        import torch\n    return [torch]"
    ),
    "another name of a loop": "return [torch for y in [1]]",
    "first loop of a comprehension": "return [torch for torch in [torch]]",
}
# In each of these `torch` is a variable of the answer.
READ_AS_VARIABLE = {
    "argument": "torch = 1\n    return [torch]",
    "closure": "torch = 1\n    return lambda: [torch]",
    "global of another function": (
        "torch = 1\n    def other():\n        global torch\n    return [torch]"
    ),
    "class that binds another name": "torch = 1\n    class Way:\n        got = [torch]",
    "method": (
        "torch = 1\n    class Way:\n        kept = 2\n        def get(self): return [torch]"
    ),
    "walrus of a comprehension": "[(torch := 1) for _ in ()]\n    return [torch]",
    "loop": "return [[torch] for torch in (1, 2)]",
    "nonlocal": "torch = 1\n    def inner():\n        nonlocal torch\n        torch = 2\n    return [torch]",
}


def written(code):
    return f"import torch\nimport numpy as np\n\n\ndef softmax(x, dim=-1):\n    {code}\n"


@pytest.mark.parametrize("name", READ_AS_MODULE)
def test_a_module_is_seen_behind_a_name_that_something_else_binds(name):
    assert "torch is a module and used as a value" in refused(written(READ_AS_MODULE[name]))


@pytest.mark.parametrize("name", READ_AS_VARIABLE)
def test_a_variable_with_the_name_of_a_module_is_a_variable(name):
    assert refused(written(READ_AS_VARIABLE[name])) == ""


def test_annotations_are_read_unless_python_itself_leaves_them_as_texts():
    code = "def f(x: LEFT.append(torch)): pass\n"
    assert refused(f"from __future__ import annotations\nimport torch\n{code}") == ""
    assert "torch is a module" in refused(
        f"from .__future__ import annotations\nimport torch\n{code}"
    )


@pytest.mark.skipif(not hasattr(ast, "TypeAlias"), reason="needs Python 3.12")
@pytest.mark.parametrize(
    "code",
    [
        "def f[T: [torch]](): pass",
        "class A[T: [torch]]: pass",
        "class A:\n    def f[T: [torch]](self): pass",
        "def softmax(x):\n    def f[T: [torch]](): pass",
        "type X = [torch]",
    ],
)
def test_type_parameters_are_read(code):
    assert "torch is a module" in refused(f"import torch\n{code}\n")


HANDED_OVER = [
    *("E() == torch", "torch != E()", "torch in E()", "E() not in torch", "E() < torch"),
    *("E() == (torch if x else np)", "E() == (way := torch)", "E() is torch == E()"),
    *("E()[torch]", "E()[torch:]", "E() @ torch", "f'{torch}'", "f'{x:{torch}}'", "x += torch"),
    *("print(torch, file=E())", "print(*torch)", "print(**torch)", "E(way=torch)", "-torch"),
    *("raise E from torch", "raise torch", "assert E(), torch", "del torch[E()]", "torch[x]"),
    *("with torch: pass", "with torch as way: pass", "way: object = torch", "a = b = torch"),
    *("def f(a=torch): pass", "def f(*, a=torch): pass", "lambda a=torch: a", "return torch"),
    *("def f(a: torch): pass", "def f() -> torch: pass", "class A(torch): pass", "yield torch"),
    *("class A(way=torch): pass", "[*torch]", "{**torch}", "a, b = torch", "for a in torch: pass"),
    *("match torch:\n        case a: pass", "match E():\n        case torch.nn: pass"),
    *("try: pass\n    except torch: pass", "try: pass\n    except* torch: pass"),
    *("@torch\n    def f(): pass", "@E(torch)\n    class A: pass", "x.way = torch", "x[0] = torch"),
    *("def hasattr(a, b): return a\n    hasattr(torch, 'exp')", "torch and E()", "not torch"),
    *("async def f(): await torch", "async def f():\n        async with torch: pass"),
    *("(math if x else random).random.way", "way = math if x else torch\n    way.random.seed"),
    *("(np if x else torch).random", "(copy if x else dataclasses).copy.weakref"),
]


@pytest.mark.parametrize("code", HANDED_OVER)
def test_a_module_is_handed_to_nothing(code):
    source = "import copy, dataclasses, math, random\nclass E: pass\n" + written(code)
    assert re.match(r"Line \d+: .* (used as a value|not on the list)", refused(source))


@pytest.mark.parametrize("place", ["def hasattr(a, b): return a", "hasattr = print"])
def test_a_module_is_looked_at_only_by_the_builtin_functions(place):
    assert "torch is a module" in refused(written("hasattr(torch, 'exp')") + place)


ALLOWED = [
    *("x.dtype == torch.float16", "x.dtype in (torch.float16, np.float32)", "torch is np"),
    *("hasattr(torch, 'exp')", "getattr(torch, 'exp')(x)", "f'{torch.pi} {torch.e:.2f}'"),
    *("xp = np if dim else torch\n    xp is not torch and xp.exp(x) == xp.pi",),
    *(
        "xp = np if dim else torch\n    return xp.linalg.norm(x), xp.concatenate(x), xp.unsqueeze(x, 0)",
    ),
    *("match x.dtype:\n        case torch.float16: pass", "print(torch.pi, end='')"),
]


@pytest.mark.parametrize("code", ALLOWED)
def test_what_a_module_holds_is_a_value(code):
    assert refused(written(code)) == ""
