"""Reads the entries of a TOML file that a person wrote: what is wrong is one sentence."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import NoReturn

from grader.core.catalog import did_you_mean
from grader.core.errors import UserError

MOMENT = "2027-03-01T23:59:00+01:00"  # how a moment is written
YEARS = range(2000, 2101)


class BadCourse(UserError):
    """A file that cannot be followed; the message names the file, the entry and the cure."""


def load_entries(path: Path) -> "Entries":
    """Return the top table of the file at `path`. Raises `BadCourse`."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        cure = f"`grader course new -o {path}` writes one."
        raise BadCourse(f"{path} is not there: {cure}") from None
    except OSError as error:
        raise BadCourse(f"{path} cannot be read: {error.strerror}. Name a file.") from None
    except UnicodeDecodeError:
        raise BadCourse(f"{path} cannot be read: save it as UTF-8 text.") from None
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadCourse(f"{path} is not valid TOML: {why}. Mend it there.") from None
    return Entries(str(path), table)


@dataclass(frozen=True, slots=True)
class Entries:
    """One table of a file. A missing entry is its default, or None."""

    file: str
    table: Mapping[str, object]
    where: str = ""  # of this table, before the names of its entries

    def wrong(self, name: str, says: str) -> NoReturn:
        raise BadCourse(f"{self.file}: {self.where}{name} {says}")

    def only(self, *names: str) -> None:
        """Refuse every entry that has another name."""
        for name in self.table:
            if name not in names:
                close = did_you_mean(name, names) or f" Known are {', '.join(names)}."
                self.wrong(name, f"is an entry that nothing reads: mend its name.{close}")

    def needed(self, name: str, example: str) -> str:
        found = self.text(name)
        return self.wrong(name, f"is missing: add {name} = {example}.") if found is None else found

    def text(self, name: str) -> str | None:
        found = self.table.get(name)
        if found is not None and not (isinstance(found, str) and found.strip()):
            self.wrong(name, f"should be a text in quotes, but is {_show_value(found)}.")
        return found

    def choice(self, name: str, known: Sequence[str]) -> str | None:
        found = self.text(name)
        if found is not None and found not in known:
            wanted = " or ".join(known)
            self.wrong(name, f"is {found!r}, but should be {wanted}.{did_you_mean(found, known)}")
        return found

    def flag(self, name: str, default: bool) -> bool:
        found = self.table.get(name, default)
        if not isinstance(found, bool):
            self.wrong(name, f"should be true or false, but is {_show_value(found)}.")
        return found

    def number(self, name: str, most: float) -> float | None:
        """A number from 0 to `most`."""
        found = self.table.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            self.wrong(name, f"should be a number without quotes, but is {_show_value(found)}.")
        if not 0 <= found <= most:
            self.wrong(name, f"should be from 0 to {most:g}, but is {_show_value(found)}.")
        return found

    def moment(self, name: str) -> datetime | None:
        """A date and a time with its offset from UTC: no other is the same moment everywhere."""
        found = self.table.get(name)
        if found is None:
            return None
        if not isinstance(found, date | time):
            self.wrong(name, f"should be a moment without quotes, such as {MOMENT}.")
        if not isinstance(found, datetime) or found.tzinfo is None:
            self.wrong(
                name, f"is {found}, which no zone belongs to: write it as in {MOMENT}, or end it "
                "with Z for UTC.",
            )  # fmt: skip
        if found.year not in YEARS:
            self.wrong(name, f"is in the year {found.year}: mend the year.")
        return found

    def texts(self, name: str) -> list[str]:
        found = self.table.get(name, [])
        if not isinstance(found, list) or not all(isinstance(t, str) and t for t in found):
            self.wrong(
                name, f'should be a list of texts, such as ["a", "b"], but is {_show_value(found)}.'
            )
        return found

    def inner(self, name: str) -> "Entries":
        found = self.table.get(name, {})
        if not isinstance(found, dict):
            self.wrong(name, f"should be a table: write [{name}] on a line, its entries below.")
        return Entries(self.file, found, f"{self.where}[{name}] ")

    def each(self, name: str) -> Iterator["Entries"]:
        found = self.table.get(name, [])
        if not isinstance(found, list) or not all(isinstance(t, dict) for t in found):
            self.wrong(name, f"should be tables: write [[{name}]] on a line before each of them.")
        for number, table in enumerate(found, 1):
            yield Entries(self.file, table, f"[[{name}]] number {number}: ")


def _show_value(value: object) -> str:
    try:
        text = str(value).lower() if isinstance(value, bool) else repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        return "too long to be shown"
    return text if len(text) <= 60 else f"{text[:60]}…"
