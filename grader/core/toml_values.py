"""Reads a TOML file that a person wrote, and says in a sentence what does not fit in it."""

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from grader.core.errors import UserError


class BadFile(UserError):
    """A TOML file that cannot be used. The message names the file, what is wrong, and the cure."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a single value may be, in words and as a question."""

    says: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Which entries a table may have, which it needs, and what stands under any other name."""

    entries: Mapping[str, "Entry"] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    others: "Entry | None" = None


@dataclass(frozen=True, slots=True)
class Tables:
    """Any number of tables under one name: `[[functions]]`."""

    each: Table


Entry = Kind | Table | Tables


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TEXT = Kind("text in quotes", lambda x: isinstance(x, str))
TEXTS = Kind("a list of texts in quotes", _is_list_of_texts)
TEXT_OR_TEXTS = Kind(
    "text in quotes, or a list of such", lambda x: isinstance(x, str) or _is_list_of_texts(x)
)
WHOLE = Kind("a whole number", lambda x: _is_number(x) and isinstance(x, int) and x >= 0)
POSITIVE = Kind("a number above 0", lambda x: _is_number(x) and 0 < x < float("inf"))
FLAG = Kind("true or false", lambda x: isinstance(x, bool))


def one_of(*values: str) -> Kind:
    """Return the kind of a text that is one of these."""
    return Kind(" or ".join(map(repr, values)), lambda x: isinstance(x, str) and x in values)


def some_of(values: Collection[str]) -> Kind:
    """Return the kind of a list whose entries are among these."""
    says = f"a list of some of {', '.join(map(repr, values))}"
    return Kind(says, lambda x: _is_list_of_texts(x) and set(x) <= set(values))


def read_table(path: Path, wanted: Table) -> dict[str, Any]:
    """Return the entries of the file at `path`, if they fit `wanted`. Raises `BadFile`."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}. Put the file there.") from None
    except UnicodeDecodeError:
        raise BadFile(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path} is not valid TOML: {error}. Mend that line.") from None
    for sentence in find_misfits(entries, wanted):
        raise BadFile(f"{path}: {sentence}")
    return entries


def find_misfits(value: Any, wanted: Entry, where: str = "") -> Iterator[str]:
    """Yield a sentence about each entry that does not fit `wanted`."""
    match wanted:
        case Kind() if not wanted.fits(value):
            shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]} ..."
            yield f"{where} is {shown}. Write {wanted.says}."
        case Table():
            yield from _find_misfits_in_table(value, wanted, where)
        case Tables() if isinstance(value, list):
            for number, one in enumerate(value, 1):
                yield from _find_misfits_in_table(
                    one, wanted.each, f"{where}.{_label_table(one, number)}"
                )
        case Tables():
            yield f"{where} is no list of tables. Write [[{where}]] above each of them."


def _find_misfits_in_table(value: Any, wanted: Table, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is {value!r}. Write a table, [{where}], and its entries under it."
        return
    front = f"{where}." if where else ""
    for name in wanted.needs:
        if name not in value:
            yield f"There is no {front}{name}. Add it."
    for name, one in value.items():
        entry = wanted.entries.get(name, wanted.others)
        if entry is None:
            close = get_close_matches(name, wanted.entries, n=1)
            cure = f"Write {close[0]}" if close else "Remove it"
            yield f"{front}{name} is an entry that nothing reads. {cure}."
        else:
            yield from find_misfits(one, entry, f"{front}{name}")


def _label_table(table: Any, number: int) -> str:
    """Return the label of one table among several: its name, or its number."""
    names = [table.get(key) for key in ("name", "id", "mistake")] if isinstance(table, dict) else []
    return next((name for name in names if isinstance(name, str)), str(number))
