"""Finds the checks whose verdict a change of the solution can alter: the others need not run."""

import ast
from collections.abc import Collection, Iterator, Mapping

from grader.submission.reach import list_definition_users, list_definitions

Calls = Mapping[str, Collection[str]]  # of each check the names that it calls of the solution


def list_touched_checks(solution: str, other: str, calls: Calls) -> frozenset[str]:
    """Return the checks that call a definition that differs between two files, or one that uses it.

    All checks are returned if anything but definitions and imports differs. A check that calls
    nothing is always returned: nobody knows what it looks at.
    """
    names: set[str] = set()
    for one, beside in (solution, other), (other, solution):
        users = list_definition_users(one)
        for node in _list_own_statements(one, beside):
            defined = list(list_definitions(node))
            if not defined and not isinstance(node, ast.Import | ast.ImportFrom):
                return frozenset(calls)
            names.update(*(users[name] for name in defined))
    return list_checks_calling(names, calls)


def list_checks_calling(names: Collection[str], calls: Calls) -> frozenset[str]:
    """Return the checks that call one of these names, and those that call nothing."""
    return frozenset(
        check for check, called in calls.items() if not called or not set(names).isdisjoint(called)
    )


def _list_own_statements(source: str, beside: str) -> Iterator[ast.stmt]:
    """Yield the statements of a file that another file does not have."""
    known = {ast.dump(node) for node in ast.parse(beside).body}
    yield from (node for node in ast.parse(source).body if ast.dump(node) not in known)
