"""Shows the learner's own functions and weights, in the learner's own process."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grader.core import catalog, sealed_bundle
from grader.core.records import Exercise
from grader.core.translation import Words, choose_translation_language
from grader.practice.show.example import (
    check_head_to_show,
    has_example_to_show,
    trace_example_to_show,
)
from grader.practice.show.recorded_answers import show_answer_in_process
from grader.practice.show.sentence import CannotShow, cut_tokens_to_show, split_sentence_to_show
from grader.practice.show.show_view import View
from grader.practice.show.trace import Array, ShownStep, Trace, convert_shown_numbers


def show_beside_reference(
    functions: Sequence[Callable[..., Any]], like: str, tokens: str, embedding: str,
    head: int | None, lang: str,
) -> View:  # fmt: skip
    """Return a view of functions of one exercise beside its reference."""
    if sealed_bundle.is_core_sealed():
        raise CannotShow("A sealed bundle has no reference to show them beside.")
    if not functions:
        raise CannotShow("Which function? `show.attention(scaled_dot_product_attention)`.")
    names = [getattr(function, "__name__", repr(function)) for function in functions]
    names[0] = like or names[0]
    exercises = [e for e in catalog.list_catalog_exercises() if has_example_to_show(e)]
    exercise = next((e for e in exercises if names[0] in e.names), None)
    if exercise is None:
        raise _explain_unknown_shown(names[0], exercises)
    given = dict(zip(names, functions, strict=True))
    student = show_answer_in_process(exercise, given)
    found = trace_example_to_show(
        exercise, split_sentence_to_show(tokens, embedding), student, head
    )
    return View(trace=found, words=Words(lang or choose_translation_language()))


def show_weights_in_notebook(
    weights: Any, tokens: str, against: Any, head: int | None, lang: str
) -> View:
    """Return a view of tables of weights, with other weights beside them."""
    yours = _convert_shown_weights(weights)
    other = None if against is None else _convert_shown_weights(against)
    if other is not None and other.shape != yours.shape:
        problem = f"The weights have shape {yours.shape}, but those beside them {other.shape}."
        raise CannotShow(problem)
    reference = yours if other is None else other
    step = ShownStep(name="weights", letters="", reference=reference,
                yours=None if other is None else yours)  # fmt: skip
    keys = yours.shape[-1]
    labels = cut_tokens_to_show(tokens) if tokens else tuple(str(n + 1) for n in range(keys))
    if len(labels) != keys:
        raise CannotShow(f"There are {len(labels)} tokens, but weights for {keys} keys.")
    found = Trace(title="", tokens=labels, steps=(step,), head=head)
    check_head_to_show(found)
    return View(trace=found, words=Words(lang or choose_translation_language()))


def _convert_shown_weights(weights: Any) -> Array:
    try:
        found = convert_shown_numbers(weights)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CannotShow(f"These are no weights: {error}.") from None
    if found.ndim < 2 or not found.size:
        raise CannotShow(
            "Weights have a row for each query and a column for each key; "
            f"these have shape {found.shape}."
        )
    return np.asarray(found)


def _explain_unknown_shown(name: str, exercises: Sequence[Exercise]) -> CannotShow:
    close = catalog.suggest_close_name(name, [n for e in exercises for n in e.names])
    return CannotShow(f"No exercise has a function called {name}: say which with like=.{close}")
