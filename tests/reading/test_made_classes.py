"""No class, attribute or array is made in a way that the reader cannot see."""

import dataclasses

import pytest

from grader.worker.child import builtin_names
from tests.reading.test_ways_around import refused

MADE = [
    *("T = type", "map(type, x)", "class A(type): pass", "functools.partial(type)", "[type]"),
    *("type('A', (), {})", "type(*x)", "def hold(type=type): pass", "if 0: type = 1\nT = type"),
    *("int.__class__", "x.__class__('A', (), {})", "getattr(x, '__class__')", "x.__class__ = int"),
    *("class A(metaclass=x): pass", "class A(**x): pass", "class A(__array_interface__=1): pass"),
    *("f(__array_interface__=1)", "from types import SimpleNamespace\nSimpleNamespace()"),
    *("typing.get_origin(x)", "object.__setattr__(x, 'a', 1)", "memoryview(x)", "np.recarray(1)"),
    *("class A:\n    def __getattr__(self, name): return 1", "x.__set_name__(A, 'b')"),
    *("np.ndarray((1,), np.int64, x)", "np.ndarray.__new__(np.ndarray, 1)", "np.frombuffer(x)"),
    *("Way = np.ndarray\nWay(1)", "(Way := np.ndarray)\nWay(1)", "class A(np.ndarray): pass"),
    *("class A: pass\nmatch x:\n    case A(__dict__=d): pass", "torch.frombuffer(x)"),
    *(
        "class A: pass\nmatch x:\n    case A(__class__=d): pass",
        "match x:\n    case __dict__: pass",
    ),
    *("try: pass\nexcept x as __builtins__: pass", "for __builtins__ in x: pass"),
    "class A:\n    gi_frame = 1\na = A()\na.gi_frame",
    "class A(torch.nn.Module):\n    _buffers: dict\na = A()\na._buffers['b'] = 1",
    "import warnings\nclass A(warnings.catch_warnings):\n    _module: int\na = A()\na._module",
]
FINE = [
    *(
        "type(x)",
        "type(x) is int",
        "type(x)(1)",
        "isinstance(x, type)",
        "isinstance(x, (int, type))",
    ),
    *("def f(a: type[int], b: type | None = None) -> type: return [a]", "x.__class__.__name__"),
    *("isinstance(x, np.ndarray)", "def f(a: np.ndarray) -> np.ndarray: return a"),
    *("Array = np.ndarray\ndef f(a: Array): return a", "type(x) is np.ndarray", "f(**x)"),
    *("def f(type): return [type]", "class A:\n    def f(self): return type(self)(1)"),
    *("match x:\n    case np.ndarray(): pass", "Union = np.ndarray | torch.Tensor"),
    *("class A:\n    frame = 1\na = A()\na.frame",),
]


def written(code):
    return f"import functools, typing\nimport numpy as np\nimport torch\n{code}\n"


@pytest.mark.parametrize("code", MADE)
def test_what_makes_classes_attributes_or_arrays_unseen_is_refused(code):
    assert refused(written(code))


@pytest.mark.parametrize("code", FINE)
def test_the_type_of_an_object_is_told(code):
    assert refused(written(code)) == ""


@pytest.fixture
def run():
    """Run code with the built-in names of an answer."""
    names = {"__name__": "way", "__builtins__": builtin_names.list_worker_builtins("way")}
    return lambda code: exec(code, names)


@pytest.mark.parametrize(
    "code",
    [
        "type(int)('A', (), {})",
        "type(type)('A', (), {})",
        "type('A', (), {})",
        "type(type(int))('A', (), {})",
        "type[int]('A', (), {})",
        "type(x=1)",
    ],
)
def test_a_worker_makes_no_class_by_a_call_of_type(run, code):
    with pytest.raises(builtin_names.NotAllowed):
        run(code)


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    __annotations__ = {'__array_interface__': dict}",
        "class A:\n    __annotations__ = {'a b': dict}",
        "class A:\n    __annotations__ = Way(a=int)",
    ],
)
def test_a_dataclass_has_the_fields_that_were_looked_at(run, code, monkeypatch):
    for owner, name in ((dataclasses, "_process_class"), (dataclasses, "_get_field")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(dataclasses.Field, "name", vars(dataclasses.Field)["name"])
    builtin_names._guard_worker_dataclasses()
    try:
        run("from dataclasses import Field, dataclass\nclass Way(dict): pass")
        with pytest.raises(builtin_names.NotAllowed):
            run("class Own(Field): pass")
    finally:
        del dataclasses.Field.__init_subclass__
    run("@dataclass(frozen=True, slots=True)\nclass Fine:\n    a: int = 0\nassert Fine(1).a == 1")
    with pytest.raises(builtin_names.NotAllowed):
        run(f"@dataclass\n{code}")


@pytest.mark.parametrize("name", ["_buffers", "__class__", "gi_frame", "kept"])
def test_a_worker_looks_up_no_module_and_no_table_of_one(run, name):
    code = "class A:\n    _buffers = gi_frame = 1\na = A()\na.kept = math\ngetattr(a, {!r})"
    with pytest.raises(builtin_names.NotAllowed):
        run("import math\n" + code.format(name))


@pytest.mark.parametrize(
    "code",
    [
        "assert type(1) is int and isinstance(int, type) and not isinstance(1, type)",
        "def f(a: type[int], b: type | None): pass",
        "class A: pass\nassert type(type(A())()) is A",
    ],
)
def test_a_worker_tells_the_type_of_an_object(run, code):
    run(code)
