"""Sets a passed answer beside the model answer, definition by definition, with the reasons.

An answer is read as text here and never parsed: a definition is what stands between two lines
that begin at the margin.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from grader.core.records import Exercise
from grader.core.translation import Words
from grader.judging import suite_runner
from grader.judging.marks import Variant
from grader.submission import solution_text
from grader.worker.parent.harmless_text import clean_worker_text

MAX_LINES, MAX_WIDTH = 400, 400  # of a definition that is compared; the rest of it is left out
_SHOWN_AROUND = 3  # lines that are the same, before and after those that differ
_MARGIN = re.compile(r"[^\s#)\]}]")  # how a line begins that may begin a definition
_DEFINED = re.compile(
    r"(?:async )?(?:def|class) +(\w+)|(\w+) *(?::[^=]*)?=(?!=)"
    r"|(?:extern|static|inline|__global__|__device__)\b[^(]*?(\w+)\("
)
_COMMENT = re.compile(r"(?:^|\s\s)\s*(?:#|//).*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLine:
    """A line of an answer beside one of the model answer; None stands where one has no line."""

    yours: str | None
    model: str | None
    differs: bool
    left_out: int = 0  # instead of a line: how many that are the same on both sides


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedDefinition:
    """What an exercise asks for under one name, in an answer and in the model answer."""

    name: str
    why: str  # Markdown: what the lesson says about it
    lines: tuple[ComparedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWay:
    """A right answer that is written otherwise than the model answer."""

    name: str
    says: str
    code: str


def compare_with_model_answer(
    exercise: Exercise, source: str, language: str
) -> tuple[ComparedDefinition, ...]:
    """Return each name's definition in the answer and in the model answer; () if there is none.

    source    the text of an answer
    language  "en" or "zh": of the reasons for what the model answer does
    """
    if not exercise.solution.is_file():
        return ()
    yours = split_definitions(clean_worker_text(source))
    told: tuple[set[str], set[str]] = set(), set()
    return tuple(
        ComparedDefinition(
            name=name, why=why,
            lines=compare_lines_with_model_answer(
                _join_definitions(name, yours, told[0]), _join_definitions(name, model, told[1])
            ),
        )
        for name, why, model in _list_model_definitions(exercise, language)
    )  # fmt: skip


def list_other_ways(exercise: Exercise, words: Words) -> tuple[OtherWay, ...]:
    """Return two right answers to a part of an exercise; () where the project has none to show."""
    return tuple(
        OtherWay(name=v.of, says=words.variant(exercise.slug, v.id, v.says), code=_write_variant(v))
        for v in suite_runner.list_shown_variants(exercise)
    )


def split_definitions(code: str) -> dict[str, list[str]]:
    """Return the lines of each function, class and assignment at the margin, by its name."""
    found: dict[str, list[str]] = {}
    decorators: list[str] = []
    name = ""
    for line in code.splitlines():
        if line.strip() in solution_text.MARKS:
            continue
        if _MARGIN.match(line) is None:
            if name:
                found[name].append(line)
        elif defined := _DEFINED.match(line):
            name = defined[1] or defined[2] or defined[3]
            found[name] = [*decorators, line]
            decorators = []
        else:
            name = ""
            decorators = [*decorators, line] if line.startswith("@") else []
    return {name: _trim_definition_lines(lines) for name, lines in found.items()}


def compare_lines_with_model_answer(
    yours: Sequence[str], model: Sequence[str]
) -> tuple[ComparedLine, ...]:
    """Return the lines side by side; comments make no difference, and long equal parts go."""
    yours, model = ([line[:MAX_WIDTH] for line in side[:MAX_LINES]] for side in (yours, model))
    keys = [[_COMMENT.sub("", line).rstrip() for line in side] for side in (yours, model)]
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    found: list[ComparedLine] = []
    for kind, a, b, c, d in matcher.get_opcodes():
        pairs = zip_longest(yours[a:b], model[c:d])
        found += [ComparedLine(yours=x, model=y, differs=kind != "equal") for x, y in pairs]
    return tuple(_leave_out_equal_lines(found))


def _leave_out_equal_lines(lines: Sequence[ComparedLine]) -> Iterator[ComparedLine]:
    """Yield the lines near a difference, and one for each gap between them."""
    near = {n + k for n, line in enumerate(lines) if line.differs
            for k in range(-_SHOWN_AROUND, _SHOWN_AROUND + 1)}  # fmt: skip
    gap = 0
    for number, line in enumerate(lines):
        if number not in near:
            gap += 1
            continue
        if gap:
            yield ComparedLine(yours=None, model=None, differs=False, left_out=gap)
        gap = 0
        yield line
    if gap:
        yield ComparedLine(yours=None, model=None, differs=False, left_out=gap)


def _list_model_definitions(
    exercise: Exercise, language: str
) -> Iterator[tuple[str, str, Mapping[str, list[str]]]]:
    """Yield each name that the exercise asks for, the prose of its task, and all definitions."""
    cells = solution_text.split_cells(exercise.solution.read_text(encoding="utf-8"))
    model = split_definitions("\n".join(cell.text for cell in cells if cell.kind == "code"))
    why = ""
    for cell in cells:
        if cell.kind == "markdown":
            why = cell.text if cell.language == language else why
            continue
        own = split_definitions(cell.text)
        yield from ((name, why, model) for name in own if name in exercise.names)


def _join_definitions(name: str, definitions: Mapping[str, list[str]], told: set[str]) -> list[str]:
    """Return a definition after those that it needs and that were not told before."""
    needed, waiting = set[str](), {name} & definitions.keys()
    while waiting:
        needed |= waiting
        words = {w for n in waiting for line in definitions[n] for w in re.findall(r"\w+", line)}
        waiting = (words & definitions.keys()) - needed
    new = [n for n in definitions if n in needed - told and n != name] + [name] * bool(needed)
    told |= needed
    return [line for n in new for line in ["", "", *definitions[n]]][2:]


def _write_variant(variant: Variant) -> str:
    """Return the code of a variant under the name that it has in an answer."""
    code = textwrap.dedent(inspect.getsource(variant.answer))
    [node] = ast.parse(code).body
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    told = node.body[0]  # the docstring, which is shown before the code
    kept = [
        line
        for number, line in enumerate(code.splitlines(), 1)
        if number >= node.lineno and not told.lineno <= number <= (told.end_lineno or 0)
    ]
    return "\n".join(kept).replace(variant.id, variant.of, 1).replace(":\n\n", ":\n", 1)


def _trim_definition_lines(lines: Sequence[str]) -> list[str]:
    """Return lines without the empty ones and the comments at their end."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return list(lines[:end])
