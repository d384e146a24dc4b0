"""Writes docs/allowed.md: the names that an answer may use, from the list and the manifests."""

import textwrap
from collections.abc import Iterable

from grader.core import allowed_tables, catalog
from grader.worker.child.builtin_names import BUILTINS, ORDINARY_DUNDERS

PATH = allowed_tables.ALLOWED_PAGE_PATH
_OPENING = """\
<!-- Generated from grader/core/allowed.toml and the manifests by `make skeletons`. -->

# What an answer may use

An answer in Python may use what stands on this page, and nothing else; what an exercise takes from
it stands in [exercises.md](exercises.md) under "Not allowed". (A CUDA file is read otherwise:
`grader/cuda/allowed_cuda.py`.) The file is read before it is run:

- **Imports.** The modules below. An import of another module does not run and costs nothing, until
  a name that it brings is used. `from x import *` says nothing of what it brings, and costs the
  file.
- **Names of modules.** Those listed. A module itself is no value: `xp = torch` and `xp = np if
  small else torch` are followed and `xp is np` is compared; `f(torch)`, `[torch]` and `x == torch`
  are refused. Nothing of a module or of
  its classes can be set.
- **Attributes of anything else** that do not begin with `_`. A name that begins with `_` may be
  used if the file itself defines it: `self._x`, and every name in one of its classes. Attributes
  that lead from frames, generators or tracebacks to code are refused.
- **Names with two underscores on each side.** Those listed: {dunders}.
- **Looking up by name.** `getattr`, `setattr`, `delattr` and `hasattr` can be called and no more,
  with a name in quotes; in a method, `getattr(self, name)` may have any name without a `_` first.
- **Classes** have no `metaclass` and no imports in them. `type` is called with one object that is
  no class, or named in an annotation or by `isinstance`; of `x.__class__` only the name is taken.
  `np.ndarray` is not called. A class pattern names a built-in type or a class of the file with no
  decorator but `dataclass`.
- **Built-in names.** {builtins}.
- **Operators of PyTorch.** By whatever way it is reached, an operator runs only if it is what a
  name on this page or a method of a tensor stands for, or one of those [at the end](#operators). In
  a function that returns a NumPy array, and in what it calls, no operator runs.

What is not allowed costs the function in which it stands: it raises the sentence about it, with the
line, and the other functions are graded. What runs with the file itself (at its top level, as a
default, in a decorator) costs the file. What stands under `if __name__ == "__main__":` is neither
run nor looked at: prints, plots and timings of your own can stay there. After `from __future__
import annotations`, annotations are texts, which nobody looks at either.

Is something missing that an honest answer needs? Open an issue with the answer.
"""


_OPERATORS = """\
## Operators

An operator is let through if its name is that of a function on this page or of a tensor's method,
with or without what PyTorch puts around it (`_softmax_backward_data` and `softmax_` go with
`softmax`). These run besides, since PyTorch is made of them:
"""


def render_generated_page() -> str:
    """Return the whole page."""
    open_, asked = allowed_tables.load_allowed_module_tables()
    names = ", ".join(f"`{n}`" for n in sorted(BUILTINS) if not n.endswith(("Error", "Warning")))
    opening = _OPENING.replace("{builtins}", f"{names}, and all errors and warnings")
    dunders = ", ".join(f"`{name}`" for name in sorted(ORDINARY_DUNDERS))
    opening = opening.replace("{dunders}", dunders)
    parts = ["\n".join(_wrap_allowed_page_lines(opening)), "## Modules for every exercise\n"]
    parts += [_build_allowed_module_section(name, open_[name]) for name in open_]
    parts.append("## Modules that an exercise asks for\n")
    for name, found in asked.items():
        here = (
            e.slug
            for e in catalog.list_catalog_exercises()
            if name in e.modules and e.home == catalog.ROOT
        )
        parts.append(_build_allowed_module_section(name, found, f"In {', '.join(here)}."))
    parts.append(_OPERATORS)
    parts.append(_build_allowed_names_block(allowed_tables.load_underlying_operators()))
    parts.append("These methods of a tensor are not counted:\n")
    parts.append(_build_allowed_names_block(allowed_tables.load_allowed_operators()[1]))
    return "\n".join(parts)


def _wrap_allowed_page_lines(text: str) -> list[str]:
    """Return the lines of a text, wrapped at 100 columns."""
    return [
        part
        for line in text.split("\n")
        for part in (
            textwrap.wrap(line, 100, subsequent_indent="  ") if len(line) > 100 else [line]
        )
    ]


def _build_allowed_module_section(name: str, names: frozenset[str], says: str = "") -> str:
    before = f"{says}\n\n" if says else ""
    return f"### {name}\n\n{before}{_build_allowed_names_block(names)}"


def _build_allowed_names_block(names: Iterable[str]) -> str:
    text = " ".join(sorted(names, key=lambda n: (n.lower(), n)))
    return f"```text\n{textwrap.fill(text, 100)}\n```\n"
