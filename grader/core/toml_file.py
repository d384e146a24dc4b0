"""Reads a TOML file that a person wrote, and says in a sentence what does not fit in it."""

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from grader.core.errors import UserError

PLAUSIBLE_YEARS = range(2000, 2101)
MAX_SHOWN_CHARACTERS = 60  # characters of a value


class BadFile(UserError):
    """A TOML file that cannot be used. The message names the file, what is wrong, and the cure."""


@dataclass(frozen=True, slots=True)
class TomlKind:
    """The kind of a single value: its description, and a test for it."""

    says: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlTable:
    """The entries that a table may have, those that it needs, and the kind of all other entries."""

    entries: Mapping[str, "TomlEntry"] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    others: "TomlEntry | None" = None


@dataclass(frozen=True, slots=True)
class TomlTables:
    """Any number of tables under one name: `[[functions]]`."""

    each: TomlTable


TomlEntry = TomlKind | TomlTable | TomlTables


def _is_toml_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)


def _is_toml_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_toml_moment(value: Any) -> bool:
    return (
        isinstance(value, datetime) and value.tzinfo is not None and value.year in PLAUSIBLE_YEARS
    )


TEXT = TomlKind("text in quotes", lambda x: isinstance(x, str))
FILLED_TEXT = TomlKind(
    "text in quotes, not empty", lambda x: isinstance(x, str) and bool(x.strip())
)
TEXTS = TomlKind("a list of texts in quotes", _is_toml_text_list)
WHOLE = TomlKind("a whole number", lambda x: _is_toml_number(x) and isinstance(x, int) and x >= 0)
POSITIVE = TomlKind("a number above 0", lambda x: _is_toml_number(x) and 0 < x < float("inf"))
FLAG = TomlKind("true or false", lambda x: isinstance(x, bool))
MOMENT = TomlKind(  # without its offset, it is not the same moment everywhere
    f"a date and a time of the years {PLAUSIBLE_YEARS[0]} to {PLAUSIBLE_YEARS[-1]}, with the "
    "offset from UTC and "
    "without quotes, such as 2027-03-01T23:59:00+01:00",
    _is_toml_moment,
)


def expect_toml_choice(*values: str) -> TomlKind:
    """Return the kind of a text that is one of these."""
    return TomlKind(" or ".join(map(repr, values)), lambda x: isinstance(x, str) and x in values)


def expect_toml_choices(values: Collection[str]) -> TomlKind:
    """Return the kind of a list whose entries are among these."""
    says = f"a list of some of {', '.join(map(repr, values))}"
    return TomlKind(says, lambda x: _is_toml_text_list(x) and set(x) <= set(values))


def expect_toml_number(most: float) -> TomlKind:
    """Return the kind of a number from 0 to `most`."""
    return TomlKind(f"a number from 0 to {most:g}", lambda x: _is_toml_number(x) and 0 <= x <= most)


def read_toml_table(path: Path, wanted: TomlTable) -> dict[str, Any]:
    """Return the entries of the file at `path`, if they fit `wanted`. Raises `BadFile`."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}. Put the file there.") from None
    except UnicodeDecodeError:
        raise BadFile(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:  # ValueError: also a number of too many digits
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadFile(f"{path} is not valid TOML: {why}. Mend that line.") from None
    for sentence in find_toml_misfits(entries, wanted):
        raise BadFile(f"{path}: {sentence}")
    return entries


def find_toml_misfits(value: Any, wanted: TomlEntry, where: str = "") -> Iterator[str]:
    """Yield a sentence about each entry that does not fit `wanted`."""
    match wanted:
        case TomlKind() if not wanted.fits(value):
            yield f"{where} is {_show_toml_value(value)}. Write {wanted.says}."
        case TomlTable():
            yield from _find_toml_table_misfits(value, wanted, where)
        case TomlTables() if isinstance(value, list) and all(isinstance(x, dict) for x in value):
            for number, one in enumerate(value, 1):
                yield from _find_toml_table_misfits(
                    one, wanted.each, label_toml_table(where, number, one)
                )
        case TomlTables():
            yield f"{where} is no list of tables. Write [[{where}]] above each of them."


def label_toml_table(where: str, number: int, table: Any) -> str:
    """Return the label of one table among those called `where`: by its name, or its number."""
    keys = ("name", "id", "mistake", "ex")
    names = [table.get(key) for key in keys] if isinstance(table, dict) else []
    return f"{where}.{next((name for name in names if isinstance(name, str)), number)}"


def _find_toml_table_misfits(value: Any, wanted: TomlTable, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        shown = _show_toml_value(value)
        yield f"{where} is {shown}. Write a table, [{where}], and its entries under it."
        return
    front = f"{where}." if where else ""
    for name in wanted.needs:
        if name not in value:
            yield f"{front}{name} is missing. Add it."
    for name, one in value.items():
        entry = wanted.entries.get(name, wanted.others)
        if entry is None:
            close = get_close_matches(name, wanted.entries, n=1)
            cure = f"Write {close[0]}" if close else "Remove it"
            yield f"{front}{name} is an entry that nothing reads. {cure}."
        else:
            yield from find_toml_misfits(one, entry, f"{front}{name}")


def _show_toml_value(value: Any) -> str:
    try:
        text = str(value) if isinstance(value, date) else repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        return "a number of too many digits"
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]} ..."
