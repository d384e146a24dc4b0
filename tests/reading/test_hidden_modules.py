"""A module does not become a value by way of a name that something else binds, or of an operator."""

import ast

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
