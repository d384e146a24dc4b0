"""Writes docs/exercises.md: the names, signatures and shapes of every exercise."""

from collections.abc import Iterator, Mapping

from grader.core import catalog
from grader.core.manifest import ANSWER_KINDS
from grader.core.records import DeclaredClass, DeclaredFunction, Exercise, Shape

PATH = "docs/exercises.md"
_OPENING = """\
<!-- Generated from the manifests (grader/suites/*/exercise.toml) by `make skeletons`. -->

# The exercises, exactly

Names, signatures, shapes and parameters of all that is asked for. Letters: `B` batch, `H` query
heads, `Hk` key/value heads, `L` length (`Lq` of queries, `Lk` of keys, `Lc` of a context), `D` head
width, `Dv` value width, `Dr` rotary width, `E` model width, `R` rank of a latent, `T` all tokens of
a ragged batch together (`Tq`, `Tk`), `N` any number of sequences, of heads or, as `M` and `N`, of
rows and columns; `t` is new tokens, `n` tokens so far or, as `n`, `m` and `p`, rows and columns,
and `...` any leading dimensions. What it is all for is said in the lessons
(docs/lessons/).

In every exercise the same call gives the same answer, whatever was called before, and an answer
that was returned stays as it was during later calls. Inputs stay as they were; they may be strided
or expanded, and one tensor may be given twice. A call that switches the recording of gradients off
or on puts it back, also where it raises an error. A result may be an input or a view of it, and one
that depends on no input need have no graph. Where half precision is computed in float32, weights
may be rounded before they meet the values. The message of a `ValueError` may hold more than the
numbers that it must hold, such as whole shapes, but at most 16 numbers that appear in no call. A
function that returns an array is written in NumPy: while it is called, every operator of PyTorch is
refused.

| exercise | title | track |
|---|---|---|
"""


def render_generated_page() -> str:
    """Return the whole page."""
    exercises = [
        e for e in catalog.list_catalog_exercises() if e.home == catalog.ROOT and not e.draft
    ]
    table = "".join(f"| [{e.slug}](#{e.slug}) | {e.title} | {e.track} |\n" for e in exercises)
    return _OPENING + table + "".join(f"\n{build_exercise_index_section(e)}" for e in exercises)


def build_exercise_index_section(exercise: Exercise) -> str:
    """Return the section of the page on one exercise."""
    parts = [
        f"## {exercise.slug}",
        f"**{exercise.title}.** {exercise.about}".strip(),
        *(
            [f"Not allowed: {', '.join(refused)}."]
            if (refused := exercise.not_allowed_text)
            else []
        ),
        *(part for f in exercise.functions.values() for part in _write_index_function(f, "###")),
        *(part for c in exercise.classes.values() for part in _write_index_class(c)),
    ]
    return "\n\n".join(parts) + "\n"


def _write_index_function(function: DeclaredFunction, heading: str, of: str = "") -> Iterator[str]:
    yield f"{heading} `{of}{function.name}{function.signature}`"
    takes = [
        f"`{name}` {_write_index_letters(letters)}" for name, letters in function.shapes.items()
    ]
    gives = ", ".join(_write_index_return(name, what) for name, what in function.returns.items())
    yield f"{', '.join(takes)} → {gives}" if takes else f"→ {gives}"
    if function.about:
        yield function.about


def _write_index_class(declared: DeclaredClass) -> Iterator[str]:
    yield f"### `{declared.name}{declared.signature}`"
    if declared.about:
        yield declared.about
    if declared.attributes:
        yield f"Attributes: {_write_index_attributes(declared.attributes)}."
    if declared.parameters:
        lines = [f"- `{name}`: {what}" for name, what in declared.parameters.items()]
        yield "\n".join(["Parameters:", "", *lines])
    for method in declared.methods.values():
        yield from _write_index_function(method, "####", f"{declared.name}.")


def _write_index_attributes(entries: Mapping[str, str]) -> str:
    words = {"flag": "True or False"}
    return ", ".join(
        f"`{name}` ({words.get(kind, _write_index_shape(kind))})" for name, kind in entries.items()
    )


def _write_index_return(name: str, what: Shape | tuple[Shape, ...]) -> str:
    if isinstance(what, tuple):
        parts = ", ".join(_write_index_shape(part) for part in what)
        return f"`{name}` = ({parts})"
    return "None" if what == "none" else f"`{name}`: {_write_index_shape(what)}"


def _write_index_shape(what: Shape) -> str:
    """Return "tensor (..., Lq, D)" for "tensor ... Lq D"."""
    words = what.split()
    kind = [w.rstrip("?") for w in words if w.rstrip("?") in ANSWER_KINDS]
    letters = [w for w in words if w.rstrip("?") not in ANSWER_KINDS]
    text = " ".join([*kind, _write_index_letters(" ".join(letters))] if letters else kind)
    return f"{text} or None" if "?" in words[0] else text


def _write_index_letters(letters: str) -> str:
    return f"({', '.join(letters.split())})"
