"""The built-in names of an answer look at what only running shows."""

import warnings

import pytest

from grader.worker.child.builtin_names import NotAllowed, list_worker_builtins
from grader.worker.parent.faults import AnswerRaised
from tests.worker.asking import call, worker

FIELDS = """
from dataclasses import Field, MISSING, dataclass, field, fields, replace

@dataclass(frozen=True, order=True)
class Sizes:
    heads: int
    widths: list = field(default_factory=list)

def honest(): return [f.name for f in fields(replace(Sizes(1), heads=2))]

def derived():
    class Own(Field): pass

class Posing:
    __class__ = property(lambda self: Field)
    name = default = kw_only = init = compare = _field_type = None

def posing():
    @dataclass
    class Way:
        a: int = Posing()

def renamed():
    one = field()
    class Renames:
        def __get__(self, thing, kind): one.name = "{__import__('os')}"
    @dataclass
    class Way:
        a: int = one
        b: int = Renames()
"""


def run(text):
    names = {"__name__": "ex99", "__builtins__": list_worker_builtins("ex99")}
    exec(text, names)
    return names


def test_no_attribute_that_a_text_names_is_a_module():
    names = run("def look(thing, name): return getattr(thing, name)")
    kept = type("Kept", (warnings.catch_warnings,), {"__module__": "ex99"})()
    with pytest.raises(NotAllowed, match="'_module' is a module"):
        names["look"](kept, "_module")


@pytest.mark.parametrize(
    "way", ["type(int)", "type(type(3))", "type", "type.__call__", "type(type)"]
)
def test_no_call_makes_a_class(way):
    with pytest.raises((NotAllowed, TypeError)):
        run(f"make = {way}\nmake('Way', (), {{'__array_interface__': 1}})")


def test_type_is_as_ever_with_one_argument():
    asked = "type(3) is int, type(int) is type, type(int) == type, isinstance(int, type)"
    also = "not isinstance(3, type), issubclass(type, type), type[int] is not None, type | None"
    assert all(run(f"found = [{asked}, {also}]")["found"])


def test_a_field_of_a_dataclass_has_a_name_and_nothing_else(nursery):
    with worker(nursery, FIELDS) as (client, _):
        assert call(client, "honest") == ["heads", "widths"]
        for name in ("derived", "posing", "renamed"):
            with pytest.raises(AnswerRaised, match="NotAllowed"):
                call(client, name)
