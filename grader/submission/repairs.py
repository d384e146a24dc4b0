"""Lists the changes of a submission that may mend it, as edits of its text."""

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from grader.submission import reach
from grader.submission.changed_places import (
    ChangedPlace,
    list_changed_places,
    remove_changed_docstrings,
)
from grader.submission.file_words import (
    ATTRIBUTE_CALLS,
    list_function_parameters,
    name_called,
    read_file_words,
)
from grader.submission.python_outline import parse_submission
from grader.submission.repair_replacements import Surroundings, make_repairing_replacements
from grader.submission.replacements import (
    Replacement,
    ReplacementKind,
    make_mechanical_replacements,
)
from grader.submission.value_sources import count_steps_to_lines

# They may hide a mistake that is elsewhere.
REMOVALS = frozenset((ReplacementKind.STATEMENT.name, ReplacementKind.CONDITION.name))
MAX_EDITS = 3000
MAX_SOURCE_BYTES = 100_000
MAX_CHANGED_BYTES = 1000  # of one node
MAX_CONSTANT = 16  # a larger one is the size of a block: with another the check asks elsewhere
# The likeliest first; before them, with rank 0, all other kinds.
_KINDS = (
    frozenset((ReplacementKind.SIGN_ADDED, ReplacementKind.FUNCTION, ReplacementKind.KEYWORD)),
    frozenset(
        (
            ReplacementKind.STATEMENT,
            ReplacementKind.CONDITION,
            ReplacementKind.CALL,
            ReplacementKind.ARGUMENT,
            ReplacementKind.SLICE,
        )
    ),
    frozenset((ReplacementKind.CALL_LACKED,)),
    frozenset((ReplacementKind.ADDED, ReplacementKind.BOUND)),
    frozenset((ReplacementKind.NAME,)),
    frozenset((ReplacementKind.CALL_ADDED,)),
)

_ALL = range(len(_KINDS) + 1)
_LIKELY, _RARE = _ALL[:4], _ALL[4:]
_LACKED = _ALL[3:4]
MAX_LACKED = 2  # calls: with more of them, an answer is written in another way than the solution
_FAR = 3  # steps to a suspect line: all lines that are farther away count as equally far
# Steps to a suspect line and kinds of changes, in the order in which they are tried, until there
# are `MAX_EDITS`.
_FIRST = tuple((steps, _LACKED) for steps in range(_FAR + 1))
_PASSES = (
    (0, _LIKELY), (1, _LIKELY), (2, _LIKELY), (0, _RARE), (_FAR, _LIKELY), (1, _RARE), (2, _RARE),
    (_FAR, _RARE),
)  # fmt: skip

Edit = dict[str, Any]


def list_repairs_of_submission(
    source: str, names: Collection[str], refused: Collection[str] = (),
    suspects: Collection[int] = (), calls: Sequence[str] = (),
) -> list[Edit]:  # fmt: skip
    """Return edits of the definitions that some functions and classes need, the likeliest first.

    names    the functions and classes; their own definitions come before those that they use
    refused  the last parts of names that the exercise does not allow: no change adds them
    suspects lines whose statements come first; after them those from which these get what they use
    calls    what the solution calls, as often as it does: "_.transpose(1, 2)", "torch.exp(_)";
             what the file calls less often is likely to be lacking

    An edit is {"line", "statement", "kind", "tested", "dropped", "name", "sets", "rank", "start",
    "end", "text"}: the line of what is changed, the line of its statement, the kind of change,
    whether it is in the condition of an `if`, the argument that it leaves out ("" for none), the
    variable that is changed and the one that is set to what is changed ("" for none), how likely it
    is (the pass and the kind, the likeliest first), where the replaced bytes start and end, and
    the text that replaces them.
    Nothing in a `while` loop is changed, so that no changed loop is endless.
    """
    if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES or "\r" in source:
        return []
    tree = remove_changed_docstrings(parse_submission(source))
    lister = _RepairLister(source, tree, refused, frozenset(suspects), calls)
    users, wanted = reach.list_definition_users(source), frozenset(names)
    own = [node for node in tree.body if not wanted.isdisjoint(_list_names(node))]
    used = [
        node for node in tree.body
        if node not in own and any(not wanted.isdisjoint(users[n]) for n in _list_names(node))
    ]  # fmt: skip
    found: dict[tuple[int, int, str], Edit] = {}
    few = len(lister.words.lacked) <= MAX_LACKED
    passes = (*_FIRST, *_PASSES) if few else _PASSES
    for number, (place, kinds) in enumerate(passes, len(_PASSES) - len(passes)):
        edits = chain.from_iterable(
            lister.list_edits(node, place, kinds, number) for node in (*own, *used)
        )
        for edit in islice(edits, MAX_EDITS - len(found)):
            found.setdefault((edit["start"], edit["end"], edit["text"]), edit)
    return sorted(found.values(), key=lambda edit: edit["rank"])  # stable: own definitions first


def edit_submission(source: str, edit: Edit) -> str:
    """Return a text with an edit made."""
    content = source.encode("utf-8", "surrogatepass")
    new: bytes = edit["text"].encode("utf-8", "surrogatepass")
    made: bytes = content[: edit["start"]] + new + content[edit["end"] :]
    return made.decode("utf-8", "surrogatepass")


def _list_names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


class _RepairLister:
    def __init__(
        self, source: str, tree: ast.Module, refused: Collection[str],
        suspects: frozenset[int], calls: Sequence[str],
    ) -> None:  # fmt: skip
        lines = source.encode("utf-8", "surrogatepass").split(b"\n")
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self.words = read_file_words(tree, refused)
        self.words.lacked = list(Counter(calls) - self.words.counts)
        self._steps = count_steps_to_lines(tree, suspects)

    def list_edits(
        self, definition: ast.stmt, place: int, kinds: Collection[int], number_of_pass: int
    ) -> Iterator[Edit]:
        """Yield the edits of these kinds, at this place, of a definition at the top of the file."""
        scopes: dict[int, tuple[Sequence[str], Sequence[str]]] = {}
        for scope in (n for n in ast.walk(definition) if isinstance(n, ast.FunctionDef)):
            scopes |= dict.fromkeys(map(id, ast.walk(scope)), _list_scope_names(scope))
        for node, at in list_changed_places(definition, (ast.While,)):
            if isinstance(node, ast.While) or not isinstance(node, ast.expr | ast.stmt | ast.Slice):
                continue
            span = self._find_span(node)
            if span is None or _is_unchanged_call(node) or _is_unchanged_call(at.parent):
                continue
            if _is_large_number(node):
                continue
            known, parameters = scopes.get(id(node), ((), ()))
            lines = node.lineno, at.statement.lineno
            if self._find_place(lines) != place:
                continue
            where = Surroundings(at.parent, at.field, self.words, known, parameters)
            for number, (kind, other) in _rank_replacements(node, at, where):
                if number not in kinds:
                    continue
                yield {
                    "line": lines[0], "statement": lines[1], "kind": kind.name,
                    "tested": isinstance(at.statement, ast.If),
                    "dropped": _write_dropped_argument(kind, node, other),
                    "name": node.id if isinstance(node, ast.Name) else "",
                    "sets": _find_set_variable(node, at.statement),
                    "rank": [number_of_pass, number], "start": span[0], "end": span[1],
                    "text": _write_changed(other, at),
                }  # fmt: skip

    def _find_place(self, lines: Sequence[int]) -> int:
        return min(_FAR, *(self._steps.get(line, _FAR) for line in lines))

    def _find_span(self, node: ast.AST) -> tuple[int, int] | None:
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is None or last is None:
            return None
        start = self._starts[first - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[last - 1] + node.end_col_offset  # type: ignore[attr-defined]
        small = end - start <= MAX_CHANGED_BYTES
        return (start, end) if small or isinstance(node, ast.stmt) else None


def _rank_replacements(
    node: ast.AST, place: ChangedPlace, where: Surroundings
) -> Iterator[tuple[int, Replacement]]:
    known = make_mechanical_replacements(node, place.parent, place.field, where.modules)
    for kind, other in chain(known, make_repairing_replacements(node, where)):
        rank = next((number for number, kinds in enumerate(_KINDS, 1) if kind in kinds), 0)
        yield rank, (kind, other)


def _is_large_number(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int)
        and abs(node.value) > MAX_CONSTANT
    )


def _is_unchanged_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and name_called(node) in ATTRIBUTE_CALLS


def _write_dropped_argument(kind: ReplacementKind, node: ast.AST, changed: ast.AST) -> str:
    if kind is not ReplacementKind.ARGUMENT:
        return ""
    assert isinstance(node, ast.Call) and isinstance(changed, ast.Call)
    left = {id(argument) for argument in (*changed.args, *changed.keywords)}
    dropped = [a for a in (*node.args, *node.keywords) if id(a) not in left]
    return ", ".join(map(ast.unparse, dropped))


def _find_set_variable(node: ast.AST, statement: ast.stmt) -> str:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            return name
    return ""


def _list_scope_names(scope: ast.FunctionDef) -> tuple[Sequence[str], Sequence[str]]:
    parameters = list_function_parameters(scope)
    bound = [
        n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    return list(dict.fromkeys([*parameters, *bound])), parameters


def _write_changed(node: ast.AST, place: ChangedPlace) -> str:
    bare = place.field == "slice" or isinstance(place.parent, ast.Tuple)
    if isinstance(node, ast.Tuple) and bare:
        return ", ".join(map(ast.unparse, node.elts))  # brackets around slices are no Python
    text = ast.unparse(node)
    return text if isinstance(node, ast.stmt | ast.Slice) else f"({text})"
