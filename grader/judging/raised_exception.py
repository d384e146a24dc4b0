"""An exception in an answer, and what the lines around it show."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

_MAX_BODY = 200  # lines of a function that are read
_DEFINES = re.compile(r"\s*(?:(?:async\s+)?def\b|class\b|@)")
_MAX_LINE = 300  # characters of a line that are read


@dataclass(frozen=True)
class RaisedException:
    """An exception, the lines of the answer, and the call that raised it."""

    kind: str
    message: str
    lines: Sequence[str]
    number: int  # of the line that raised, from 1; 0 if it is no line of the answer
    call: str
    name_line: Callable[[int], str]  # the number by which the writer knows a line

    @cached_property
    def line(self) -> str:
        return self.read_line(self.number)

    @cached_property
    def start(self) -> int:
        """The number of the line with the `def` around the line that raised; 0 if there is none."""
        return self.find_def(self.number)

    def find_def(self, inside: int) -> int:
        """Return the number of the line with the `def` around a line; 0 if there is none."""
        indent = _measure_line_indent(self.read_line(inside))
        for number in range(inside, max(0, inside - _MAX_BODY), -1):
            line = self.read_line(number)
            mine = _measure_line_indent(line)
            if re.match(r"\s*def\s", line) and (number == inside or mine < indent):
                return number
            if re.match(r"\s*(?:class|if|for|while|with|try)\b", line):  # what is around the line
                indent = min(indent, mine)
        return 0

    def binds_inside(self, name: str) -> bool:
        """Return whether a comprehension of the function seems to set a variable of its own."""
        near = map(self.read_line, range(self.start, self.number + 1) if self.start else ())
        return any(re.search(rf"\bfor\b[^:]*\b{name}\b[^:]*\bin\b", line) for line in near)

    @cached_property
    def settings(self) -> list[tuple[int, str]]:
        """The variables that lines of functions seem to set, each after the number of its line."""
        found, quoted = [], False
        for number in range(1, len(self.lines) + 1):
            line = self.read_line(number)
            if not quoted:
                found += [(number, name) for name in _list_assigned_names(line)]
            quoted ^= bool((line.count('"""') + line.count("'''")) % 2)
        return found

    @cached_property
    def own_settings(self) -> list[tuple[int, str]]:
        """Those of the function around the line that raised."""
        near = range(self.start + 1, self.start + _MAX_BODY if self.start else 0)
        return [(n, name) for n, name in self.settings
                if n in near and self.find_def(n) == self.start]  # fmt: skip

    def list_functions_without_return(self) -> list[str]:
        """Return the functions and methods of the answer in which no line returns a value."""
        found: dict[str, bool] = {}
        for number in range(1, len(self.lines) + 1):
            if (named := re.match(r"\s*def\s+(\w+)", self.read_line(number))) is not None:
                returns = re.search(r"\b(?:return\b\s*[^\s#]|yield\b)", self._read_body(number))
                found[named[1]] = found.get(named[1], False) or returns is not None
        return [name for name, returns in found.items() if not returns]

    def _read_body(self, start: int) -> str:
        """Return the lines from a `def` to the next one that is not inside it, without comments.

        A text or a call may have lines that are indented less: they do not end a function.
        """
        indent = _measure_line_indent(self.read_line(start))
        last = min(len(self.lines), start + _MAX_BODY)
        below = map(self.read_line, range(start + 1, last + 1))
        return "\n".join(
            x.partition("#")[0]
            for x in takewhile(
                lambda x: not _DEFINES.match(x) or _measure_line_indent(x) > indent, below
            )
        )

    @cached_property
    def header(self) -> str:
        """The text from the `def` to the end of its parameters."""
        numbers = range(self.start, self.number + 1) if self.start else ()
        text = "\n".join(map(self.read_line, numbers))
        return re.split(r"\)\s*(?:->[^\n]*)?:", text, maxsplit=1)[0]

    @cached_property
    def parameters(self) -> set[str]:
        return set(re.findall(r"[(,]\s*\**(\w+)", self.header))

    def read_line(self, number: int) -> str:
        """Return a line of the answer, cut where it is too long to be searched; "" of 0."""
        return self.lines[number - 1][:_MAX_LINE] if number else ""

    def holds_given(self, name: str) -> bool:
        """Return whether a name is a parameter that no line before this one assigns."""
        first = self.start + self.header.count("\n") + 1
        body = map(self.read_line, range(first, self.number))
        assigned = re.compile(rf"[\s\w,()]*\b{name}\b[\s\w,()]*=[^=]")
        return name in self.parameters and not any(map(assigned.match, body))

    def list_set_attributes(self, owner: str = "") -> set[str]:
        """Return the attributes that any line of the answer seems to set, of whatever object.

        owner  a class: what methods of other classes set counts only if one names the other
        """
        found, others = set[str](), False
        for number in range(1, len(self.lines) + 1):
            line = self.read_line(number)
            if begun := re.match(r"class\s+(\w+)([^:]*)", line):
                related = owner in (begun[1], "") or re.search(rf"\b{owner}\b", begun[2])
                named = self.mentions(rf"^class\s+{owner}\b[^:]*\b{begun[1]}\b") if owner else ""
                others = not related and not named
            elif re.match(r"\S", line):
                others = False
            if not others:
                found |= set(_list_assigned_attributes(line))
        return found

    def has_property(self, name: str) -> bool:
        """Return whether a line of the answer defines a property of this name."""
        numbers = range(2, len(self.lines) + 1)
        return any(
            re.match(rf"\s*def\s+{name}\b", self.read_line(n))
            and self.read_line(n - 1).strip() == "@property"
            for n in numbers
        )

    def mentions(self, pattern: str) -> bool:
        """Return whether a pattern matches in any line of the answer."""
        return any(re.search(pattern, line[:_MAX_LINE]) for line in self.lines)


def _measure_line_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _list_assigned_attributes(line: str) -> list[str]:
    """Return the attributes on the left of the first `=` of a line; of a call's, the last alone."""
    left, sign, right = line.partition("=")
    if not sign or right.startswith("="):
        return []
    called = "(" in left.lstrip()[1:]
    return re.findall(r"\.(\w+)\s*$" if called else r"\.(\w+)", left)


def _list_assigned_names(line: str) -> list[str]:
    """Return the variables that an indented line sets, alone, as a tuple or in a loop."""
    text = line.strip()
    if text == line or text.endswith(","):  # of the module; or an argument of a longer call
        return []
    if text.startswith("for ") and " in " in text:
        left = text[4:].partition(" in ")[0]
    else:
        left, sign, right = text.partition("=")
        if not sign or right.startswith("=") or right.count(")") > right.count("("):
            return []
        left = left.partition(":")[0].rstrip("+-*/@&|^%<>")
    plain = re.fullmatch(r"[\w ,()*]+", left)
    return re.findall(r"[A-Za-z_]\w*", left) if plain and not re.search(r"\w\(", left) else []
