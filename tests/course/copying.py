"""Answers for the search of similar ones: honest ones, each in a hand of its own, and copies."""

import ast
import inspect
import random
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from grader.authoring.skeletons import make_skeleton
from grader.core import catalog
from grader.judging import suite_runner
from grader.submission.solution_text import split_cells
from tests.conftest import solution

SLUG = "ex03_sdpa"
_PARTS = ("aux", "cur", "res", "tmp", "val", "out", "arr", "part", "inner", "big")
_COMMENTS = ("as in the lesson", "see the formula", "careful here", "this took me a while")
_OWN = (  # lines of one's own
    "assert {name}.ndim >= {number}",
    "{part} = {name}.shape[-{number}]",
    "{part} = len({name}) - {number}",
    "if {name} is None:\n    raise TypeError('{name}')",
    "{part} = {name}.dtype",
    "{part}, {name} = {number}, {name}",
    "print({name}.shape, {number})",
)
_SPLIT = 0.3  # the share of inner expressions that get a name of their own


def variant(number: int, slug: str = SLUG) -> str:
    """A right answer; those with other small numbers share no function with it."""
    return written(slug, lambda texts: texts[number % len(texts)])


def copy(source: str) -> str:
    """A copy of it, always the same."""
    return disguised(source, random.Random(7))


Choose = Callable[[list[str]], str]  # one of several right texts


def handed_in(
    place: Path,
    sources: Mapping[str, str | bytes],
    folder: str = "class",
    slug: str = SLUG,
    suffix: str = ".py",
) -> Path:
    """The folder of a class, with the answers of its students by name."""
    for student, source in sources.items():
        (place / folder / student).mkdir(parents=True, exist_ok=True)
        content = source if isinstance(source, bytes) else source.encode()
        (place / folder / student / f"{slug}{suffix}").write_bytes(content)
    return place / folder


@cache
def skeleton(slug: str) -> str:
    return make_skeleton(catalog.find_catalog_exercise(slug), solution(slug))


@cache
def right(slug: str) -> Mapping[str, list[str]]:
    """By name, its right texts: the solution's, and the variants'."""
    code = "\n\n".join(c.text for c in split_cells(solution(slug)) if c.kind == "code")
    found = {
        node.name: [ast.unparse(node)] for node in ast.parse(code).body if hasattr(node, "name")
    }
    for variant in suite_runner.list_suite_variants(catalog.find_catalog_exercise(slug)):
        [node] = ast.parse(textwrap.dedent(inspect.getsource(variant.answer))).body
        node.name, node.decorator_list = variant.of, []
        found[variant.of].append(ast.unparse(node))
    return found


def written(slug: str, choose: Choose) -> str:
    """The skeleton with one of the right texts in the place of each stub."""
    texts = right(slug)
    made = ast.parse(skeleton(slug))
    for place, node in enumerate(made.body):
        if getattr(node, "name", "") in texts:
            [chosen] = ast.parse(choose(texts[node.name])).body
            made.body[place] = _under(node, chosen)
    return ast.unparse(made)


def _under(stub: ast.stmt, chosen: ast.stmt) -> ast.stmt:
    """A right text under the head that was given, with its docstring."""
    if isinstance(stub, ast.FunctionDef) and isinstance(chosen, ast.FunctionDef):
        names = [a.arg for a in (*chosen.args.args, *chosen.args.kwonlyargs)]
        if names == [a.arg for a in (*stub.args.args, *stub.args.kwonlyargs)]:
            stub.body = [stub.body[0], *_without_docstring(chosen.body)]
            return stub
    return chosen


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if documented else body


def deal(chance: random.Random) -> Choose:
    """Choose each text once, in any order, before one comes again: no two authors are twins."""
    left: dict[int, list[str]] = {}

    def choose(texts: list[str]) -> str:
        if not left.get(id(texts)):
            left[id(texts)] = chance.sample(texts, len(texts))
        return left[id(texts)].pop()

    return choose


def honest(slug: str, chance: random.Random, choose: Choose | None = None) -> str:
    """A right answer whose author chose the way, the names, and what gets a name at all."""
    made = _Hand(chance).visit(ast.parse(written(slug, choose or chance.choice)))
    for function in _functions(made):
        _split(function, chance)
        _add(function, chance)
    return disguised(ast.unparse(made), chance)


def disguised(source: str, chance: random.Random) -> str:
    """A copy with other names, another order where it is free, other layout and comments."""
    made = ast.parse(source)
    for function in _functions(made):
        _rename(function, chance)
        _reorder(function.body, chance)
    lines = []
    for line in ast.unparse(made).splitlines():
        if chance.random() < 0.1 and line.lstrip().startswith(("return ", "if ", "for ")):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}# {chance.choice(_COMMENTS)}")
        lines.append(line)
    return "\n".join(lines) + "\n"


class _Hand(ast.NodeTransformer):
    """What one author writes one way and the next another."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """`a * b` or `b * a`; `a @ b` or `torch.matmul(a, b)`."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult | ast.Add) and self._chance.random() < 0.5:
            node.left, node.right = node.right, node.left
        if isinstance(node.op, ast.MatMult) and self._chance.random() < 0.5:
            return ast.Call(_attribute("torch", "matmul"), [node.left, node.right], [])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`x.sum(-1)` or `torch.sum(x, -1)`."""
        self.generic_visit(node)
        method = node.func
        if (
            isinstance(method, ast.Attribute)
            and not ast.unparse(method.value).startswith(("torch", "np", "math", "self", "super"))
            and self._chance.random() < 0.5
        ):
            return ast.Call(
                _attribute("torch", method.attr), [method.value, *node.args], node.keywords
            )
        return node


def _attribute(of: str, name: str) -> ast.Attribute:
    return ast.Attribute(ast.Name(of, ast.Load()), name, ast.Load())


def _functions(made: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(made) if isinstance(node, ast.FunctionDef)]


def _names(node: ast.AST, kind: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}


def _rename(function: ast.FunctionDef, chance: random.Random) -> None:
    parameters = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    own = sorted(_names(function, ast.Store) - parameters)
    new = {name: f"{chance.choice(_PARTS)}_{number}" for number, name in enumerate(own)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            node.id = new.get(node.id, node.id)


def _reorder(body: list[ast.stmt], chance: random.Random) -> None:
    """Exchange assignments that do not need each other."""
    for place in range(len(body) - 1):
        one, other = body[place : place + 2]
        if not (isinstance(one, ast.Assign) and isinstance(other, ast.Assign)):
            continue
        bound, bound_after = _names(one, ast.Store), _names(other, ast.Store)
        needed = bound & (_names(other, ast.Load) | bound_after)
        if not needed and not bound_after & _names(one, ast.Load) and chance.random() < 0.5:
            body[place : place + 2] = other, one


def _split(function: ast.FunctionDef, chance: random.Random) -> None:
    """Give a name to some inner expressions, each in an assignment before its statement."""
    body: list[ast.stmt] = []
    for statement in function.body:
        if isinstance(statement, ast.Assign | ast.Return) and statement.value is not None:
            for parent in list(ast.walk(statement.value)):
                for field, value in ast.iter_fields(parent):
                    if isinstance(value, ast.BinOp | ast.Call) and chance.random() < _SPLIT:
                        name = f"step_{len(body)}"
                        body.append(ast.Assign([ast.Name(name, ast.Store())], value))
                        setattr(parent, field, ast.Name(name, ast.Load()))
        body.append(statement)
    function.body = [ast.fix_missing_locations(statement) for statement in body]


def _add(function: ast.FunctionDef, chance: random.Random) -> None:
    """Put lines of the author's own between the others."""
    names = [a.arg for a in function.args.args] or ["self"]
    for place in range(len(function.body), 0, -1):
        if chance.random() < 0.5:
            line = chance.choice(_OWN).format(
                name=chance.choice(names), number=chance.randint(0, 9), part=chance.choice(_PARTS)
            )
            function.body[place:place] = ast.parse(line).body
