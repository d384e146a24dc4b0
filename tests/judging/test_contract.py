"""Kinds and shapes of answers are held to the manifest at every call."""

import re
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch

from grader.core import catalog
from grader.core.records import DeclaredClass, DeclaredFunction
from grader.core.translation import Words
from grader.judging import contract, describe, expect_shapes
from grader.judging.case import CURRENT_CASE, Case, StudentFault, find_case
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall

ATTENTION = DeclaredFunction(
    name="attention",
    signature="(q, k, v, keep=None)",
    shapes={"q": "... Lq D", "k": "... Lk D", "v": "... Lk Dv"},
    returns={"output": "tensor ... Lq Dv", "weights": "tensor ... Lq Lk"},
)
Q, K, V = torch.zeros(2, 1, 3, 4), torch.zeros(2, 5, 7, 4), torch.zeros(5, 7, 6)
NO_RETURN = "A function that ends without `return` gives None: does every path return a value?"
OUTPUT, WEIGHTS = torch.zeros(2, 5, 3, 6), torch.zeros(2, 5, 3, 7)


@pytest.fixture(autouse=True)
def case():
    CURRENT_CASE.set(Case())


def check(value, function=ATTENTION, args=(Q, K, V), **kwargs):
    contract.judge_answer_form(value, function, args, kwargs, "f()")


def message(value, *args) -> str:
    with pytest.raises(StudentFault) as caught:
        check(value, *args)
    return str(caught.value)


def returning(**returns) -> DeclaredFunction:
    return DeclaredFunction(name="f", signature="(x)", shapes={"x": "B L E"}, returns=returns)


def test_leading_dimensions_are_broadcast_over_the_inputs():
    check((OUTPUT, WEIGHTS))


def test_arguments_by_name_bind_as_well():
    contract.judge_answer_form((OUTPUT, WEIGHTS), ATTENTION, (Q,), {"v": V, "k": K}, "f()")


@pytest.mark.parametrize(
    "value, says",
    [
        (OUTPUT, "the call returned a tensor, but should return (output, weights)  [f()]"),
        ((OUTPUT,), "the call returned a tuple of 1, but should return (output, weights)  [f()]"),
        (None, f"the call returned None, but should return (output, weights)  [f()]\n{NO_RETURN}"),
        ((OUTPUT, None), "weights is None, but should be a tensor  [f()]"),
        (
            (WEIGHTS, OUTPUT),
            "output.shape is (2, 5, 3, 7), but should be (2, 5, 3, 6)  [f()]",
        ),
        ((OUTPUT[0], WEIGHTS), "output.shape is (5, 3, 6), but should be (2, 5, 3, 6)  [f()]"),
    ],
)
def test_what_does_not_fit_is_said(value, says):
    assert message(value) == says


@pytest.mark.parametrize(
    "wanted, value",
    [
        ("tensor B L E", torch.zeros(2, 3, 4)),
        ("tensor B H L D", torch.zeros(2, 9, 3, 8)),  # letters that nothing binds match any size
        ("tensor B 1 L", torch.zeros(2, 1, 3)),
        ("tensor", torch.zeros(5)),
        ("array B L", np.zeros((2, 3))),
        ("bool tensor L L", torch.zeros(3, 3, dtype=torch.bool)),
        ("bool? tensor L L", None),
        ("tensor? B", None),
        ("int", 3),
        ("float", 3.0),
        ("str", "x"),
        ("none", None),
        ("object", object()),
        (("tensor B", "tensor L"), (torch.zeros(2), torch.zeros(3))),
    ],
)
def test_kinds_fit(wanted, value):
    check(value, returning(out=wanted), (torch.zeros(2, 3, 4),))


@pytest.mark.parametrize(
    "wanted, value, says",
    [
        ("tensor B L E", torch.zeros(2, 3), "out.shape is (2, 3), but should be (2, 3, 4)"),
        ("tensor B n", torch.zeros(3, 3), "out.shape is (3, 3), but should be (2, n)"),
        ("tensor", np.zeros(3), "out is an array, but should be a tensor"),
        ("array", torch.zeros(3), "out is a tensor, but should be an array"),
        ("bool tensor L L", torch.zeros(3, 3), "out.dtype is float32, but should be bool"),
        ("tensor", None, f"out is None, but should be a tensor  [f()]\n{NO_RETURN}"),
        ("int", True, "out is a bool, but should be an int"),
        ("int", torch.tensor(3), "out is a tensor, but should be an int"),
        ("str", None, "out is None, but should be a string"),
        ("none", 3, "out is an int, but should be None"),
        ("object", (1,), "out is a tuple of 1, but should be an object"),
        (("tensor B", "tensor L"), [torch.zeros(2)], "out is a list of 1, but should be (out[0], out[1])"),
        (("tensor B", "tensor L"), (torch.zeros(2),) * 2, "out[1].shape is (2,), but should be (3,)"),
    ],
)  # fmt: skip
def test_kinds_do_not_fit(wanted, value, says):
    assert says in message(value, returning(out=wanted), (torch.zeros(2, 3, 4),))


@pytest.mark.parametrize(
    "slug, name, given, value, says",
    [
        ("ex02_masking", "padding_mask", (torch.zeros(5, dtype=torch.int64), 7), (5, 7), "(5, 1, 1, 7)"),
        ("ex05_causal_mask", "causal_mask", (3, 5), (3, 3), "(3, 5)"),
    ],
)  # fmt: skip
def test_a_size_that_the_call_gives_is_said_as_its_number(slug, name, given, value, says):
    function = catalog.find_catalog_exercise(slug).functions[name]
    told = message(torch.zeros(value, dtype=torch.bool), function, given)
    assert told == f"keep.shape is {value}, but should be {says}  [f()]"


@pytest.mark.parametrize("value", [1, 1.0, True, "x", (1,), [1], {}, Q, np.zeros(1), object()])
def test_the_kinds_of_values_are_said_in_chinese(value):
    for kind in ("tensor", "array", "bool", "int", "float", "flag", "str", "none", "object"):
        wanted = contract._name_judged_kind(kind)
        told = Words("zh").said(f"out is {describe.describe_kind(value)}, but should be {wanted}")
        assert not re.search(r"\b(an?|of|or)\b", told)


def test_every_one_of_many_arguments_binds():
    combine = DeclaredFunction(
        name="f", signature="(*masks)", shapes={"masks": "..."}, returns={"keep": "bool tensor ..."}
    )
    masks = (torch.ones(3, 1, dtype=torch.bool), None, torch.ones(2, 1, 4, dtype=torch.bool))
    check(torch.ones(2, 3, 4, dtype=torch.bool), combine, masks)
    assert "keep.shape" in message(torch.ones(3, 4, dtype=torch.bool), combine, masks)


ROWS = DeclaredFunction(
    name="matmul", signature="(a, b)", shapes={"a": "n m", "b": "m p"}, returns={"c": "rows n p"}
)
A, B = [[1, 2, 3], [4, 5, 6]], [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize("value", [[[1], [2]], [[1.0], [float("nan")]]])
def test_rows_are_lists_of_lists_of_numbers(value):
    contract.judge_answer_form(value, ROWS, (A, B), {}, "f()")


@pytest.mark.parametrize("a, b", [([], [[1.0]]), ([[], []], [])])
def test_no_rows_have_no_width(a, b):
    contract.judge_answer_form([[]] * len(a), ROWS, (a, b), {}, "f()")


@pytest.mark.parametrize(
    "value, says",
    [
        ([[1, 2], [3]], "len(c[1]) is 1, but should be 2  [f()]"),
        ([[1], [True]], "c[1, 0] is a bool, but should be a number  [f()]"),
        ([[1], [[2]]], "c[1, 0] is a list of 1, but should be a number  [f()]"),
        ([[1], (2,)], "c[1] is a tuple of 1, but should be a list of numbers  [f()]"),
        ([1, 2], "c[0] is an int, but should be a list of numbers  [f()]"),
        (([1], [2]), "c is a tuple of 2, but should be a list of rows  [f()]"),
        (torch.zeros(2, 1), "c is a tensor, but should be a list of rows  [f()]"),
        ([[1.0]], "c.shape is (1, 1), but should be (2, 1)  [f()]"),
        ([[1.0, 2.0], [3.0, 4.0]], "c.shape is (2, 2), but should be (2, 1)  [f()]"),
        ([], "c.shape is (0,), but should be (2,)  [f()]"),
    ],
)  # fmt: skip
def test_what_is_not_rows_of_the_right_size(value, says):
    with pytest.raises(StudentFault) as caught:
        contract.judge_answer_form(value, ROWS, (A, B), {}, "f()")
    assert str(caught.value) == says


@pytest.mark.parametrize("value, fine", [(True, True), (False, True), (1, False), (None, False)])
def test_a_flag_is_true_or_false(value, fine):
    if fine:
        contract.judge_answer_kind(value, "flag", "fused", "f()")
    else:
        with pytest.raises(StudentFault, match="should be True or False"):
            contract.judge_answer_kind(value, "flag", "fused", "f()")


POOL = "(num_blocks, head_dim, dtype=None)"


@pytest.mark.parametrize(
    "wanted, value",
    [
        ("tensor num_blocks head_dim", torch.zeros(5, 3)),
        ("tensor num_blocks head_dim n", torch.zeros(5, 3, 8)),
        ("tensor 2 head_dim", torch.zeros(2, 3)),
        ("int", 7),
    ],
)
def test_the_letters_of_an_attribute_are_what_the_constructor_was_given(wanted, value):
    sizes = contract.read_judged_sizes(POOL, (5,), {"head_dim": 3, "dtype": torch.float16})
    contract.judge_attribute_form(value, wanted, "keys", sizes, "pool.keys")


@pytest.mark.parametrize(
    "value, says",
    [
        (torch.zeros(3, 5), "keys.shape is (3, 5), but should be (5, 3)  [Pool(5, 3).keys]"),
        (torch.zeros(5, 3, 1), "keys.shape is (5, 3, 1), but should be (5, 3)  [Pool(5, 3).keys]"),
        ([1], "keys is a list of 1, but should be a tensor  [Pool(5, 3).keys]"),
        (None, "keys is None, but should be a tensor  [Pool(5, 3).keys]"),
    ],
)
def test_an_object_is_held_to_its_attributes(value, says):
    module = ModuleType("made_up")
    module.Pool = type("Pool", (), {"__init__": lambda self, n, d: None, "keys": value})
    declared = DeclaredClass(
        name="Pool", signature=POOL, methods={}, attributes={"keys": "tensor num_blocks head_dim"}
    )
    exercise = replace(catalog.find_catalog_exercise("ex16"), classes={"Pool": declared})
    pool = Student(exercise, call_without_wall(module)).Pool(5, 3)
    with pytest.raises(StudentFault) as caught:
        pool.keys  # noqa: B018 (it is read)
    assert str(caught.value) == says


class Layer(torch.nn.Module):
    to = None

    def __init__(self, *given):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2, 3))
        self.bias = None


@pytest.fixture
def layers():
    """A student with a class, and the requests that its client makes."""
    module, asked = ModuleType("made_up"), []
    module.Layer = Layer
    declared = DeclaredClass(name="Layer", signature="(*given)", methods={})
    exercise = replace(catalog.find_catalog_exercise("ex04"), classes={"Layer": declared})
    client = call_without_wall(module)
    exchange = client._exchange

    def count(request):
        asked.append((request["op"], *request.get("names", ())))
        return exchange(request)

    client._exchange = count
    return Student(exercise, client), asked


def test_a_method_of_modules_is_looked_for_once_in_a_class(layers):
    student, asked = layers
    for _ in range(3):
        student.Layer().eval()
    assert asked.count(("get", "eval")) == 1
    assert len(asked) == 7


def test_what_stands_in_the_place_of_a_method_is_named(layers):
    student, _ = layers
    for _ in range(2):
        with pytest.raises(StudentFault, match=r"^Layer\(\)\.to is None, but should be a method$"):
            student.Layer().to(torch.float64)


def test_attributes_are_read_with_one_request_and_each_is_logged(layers):
    student, asked = layers
    weight, bias = student.Layer(3).read_each(["weight", "bias"])
    assert (weight.shape, bias) == ((2, 3), None)
    assert asked[1:] == [("get", "weight", "bias")]
    assert find_case().origin(weight) == ("weight", "Layer(3).weight")
    assert find_case().last_call == "Layer(3).bias"


def test_a_fault_of_an_attribute_comes_when_it_is_reached(layers):
    student, _ = layers
    found = student.Layer().read_each(["weight", "missing", "bias"])
    assert next(found).shape == (2, 3)
    with pytest.raises(StudentFault, match=r"AttributeError: .*\[Layer\(\)\.missing\]"):
        next(found)


def test_parameters_are_held_to_their_shapes(layers):
    layer = layers[0].Layer()
    expect_shapes(layer, {"weight": (2, 3), "bias": None})
    with pytest.raises(StudentFault, match=r"the shape of weight is \(2, 3\), but should be None"):
        expect_shapes(layer, {"weight": None, "missing": None})
    with pytest.raises(StudentFault, match=r"the shape of bias is None, but should be \(2,\)"):
        expect_shapes(layer, {"weight": (2, 3), "bias": (2,)})
