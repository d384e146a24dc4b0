"""Which names mean something of their own where, and which nodes are never evaluated."""

import ast
from collections.abc import Iterable, Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_INNER_SCOPES = Function | ast.ClassDef


def walk_submission_scopes(
    node: ast.AST, own: frozenset[str]
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Yield every node, with the names that enclosing functions bind there.

    own  the names that the functions around `node` bind

    Names that a class binds are left out: `torch = torch` in a class reads the name from outside,
    and not from the functions around the class.
    """
    yield node, own
    outside, inner = list(ast.iter_child_nodes(node)), own
    inside: list[ast.AST] = []
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            outside, inside = _split_submitted_function(node)
            inner = list_submitted_names_within(node, own)
        case ast.ClassDef():
            inside = list(node.body)
            outside = [
                *node.decorator_list,
                *node.bases,
                *node.keywords,
                *list_submitted_type_parameters(node),
            ]
            inner = own - _list_submitted_class_names(node)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            first = node.generators[0].iter
            outside = [first]
            inside = [n for n in _split_submitted_comprehension(node) if n is not first]
            inner = own.union(*(list_submitted_bound_names([g.target]) for g in node.generators))
    for child in outside:
        yield from walk_submission_scopes(child, own)
    for child in inside:
        yield from walk_submission_scopes(child, inner)


def _split_submitted_function(node: Function) -> tuple[list[ast.AST], list[ast.AST]]:
    """Return what is evaluated where a function is defined, and what where it is called."""
    args = node.args
    outside: list[ast.AST] = [*args.defaults, *(d for d in args.kw_defaults if d)]
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            outside.append(arg)
    if isinstance(node, ast.Lambda):
        return outside, [node.body]
    outside += list_submitted_type_parameters(node)
    outside += [*node.decorator_list, *([node.returns] if node.returns else [])]
    return outside, list(node.body)


def _split_submitted_comprehension(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a comprehension, each clause by itself."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):
            yield from ast.iter_child_nodes(child)
        else:
            yield child


def list_submitted_type_parameters(node: ast.AST) -> list[ast.AST]:
    """Return the type parameters of a function or class: `T` in `def f[T]()`."""
    return list(getattr(node, "type_params", []))


def list_submitted_names_within(function: Function, own: frozenset[str]) -> frozenset[str]:
    """Return the names that a function and those around it bind, as its body sees them.

    own  the names that the functions around it bind
    """
    nodes = list(_walk_submitted_scope(function))
    hidden = {n for x in nodes if isinstance(x, ast.Global) for n in x.names}
    return own - hidden - _list_submitted_imports(nodes) | list_submitted_local_names(function)


def list_submitted_local_names(function: Function) -> frozenset[str]:
    """Return the names that a function binds itself, except imported ones."""
    args = function.args
    given = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    nodes, inner = list(_walk_submitted_scope(function)), list(ast.walk(function))
    elsewhere = {n for x in nodes if isinstance(x, ast.Global | ast.Nonlocal) for n in x.names}
    shared = {n for x in inner if isinstance(x, ast.Nonlocal) for n in x.names}
    imported = _list_submitted_imports(nodes) | (shared & _list_submitted_imports(inner))
    return frozenset(
        {*list_submitted_bound_names(nodes), *(a.arg for a in given if a)} - elsewhere - imported
    )


def _list_submitted_class_names(node: ast.ClassDef) -> set[str]:
    """Return the names that the body of a class binds, or takes from the file."""
    nodes = list(_walk_submitted_scope(node))
    taken = {n for x in nodes if isinstance(x, ast.Global | ast.Nonlocal) for n in x.names}
    return taken | {*list_submitted_bound_names(nodes)}


def _list_submitted_imports(nodes: Iterable[ast.AST]) -> set[str]:
    imports = (x for x in nodes if isinstance(x, ast.Import | ast.ImportFrom))
    return {a.asname or a.name.split(".")[0] for x in imports for a in x.names}


def _walk_submitted_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that bind names in the scope of a function or class."""
    body = [node.body] if isinstance(node, ast.Lambda) else getattr(node, "body", [])
    waiting: list[ast.AST] = list(body)
    while waiting:
        found = waiting.pop()
        if isinstance(found, _COMPREHENSIONS):
            waiting += _list_submitted_walruses(found)
            continue
        yield found
        if isinstance(found, ast.NamedExpr):
            yield found.target
            waiting.append(found.value)
        elif not isinstance(found, _INNER_SCOPES):
            waiting += ast.iter_child_nodes(found)


def _list_submitted_walruses(comprehension: ast.AST) -> Iterator[ast.AST]:
    """Yield each := of a comprehension that binds a name in the scope around it."""
    waiting = [comprehension]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.NamedExpr):
                yield child
            elif not isinstance(child, ast.Lambda):
                waiting.append(child)


def list_submitted_bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every name that the nodes bind, once for each binding."""
    for node in nodes:
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield node.id
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield from list_submitted_bound_names(parts)
            case ast.Starred(value=value):
                yield from list_submitted_bound_names([value])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.alias():
                yield node.asname or node.name.split(".")[0]
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name


def list_unread_annotations(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of annotations, if the file says that annotations are texts."""
    if not any(isinstance(s, ast.ImportFrom) and s.module == "__future__" and not s.level
               and any(a.name == "annotations" for a in s.names) for s in tree.body):  # fmt: skip
        return
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as told) | ast.AnnAssign(annotation=told):
                yield from ast.walk(told)
            case ast.FunctionDef(returns=ast.expr() as told):
                yield from ast.walk(told)
