"""What a learner reads, in English or in Chinese.

English sentences stand where they are used. The Chinese for a suite's sentences is in the suite's
`zh.toml`: by id, or under `said` by the English words. For all others it is in the `zh.toml` beside
this file, by the English sentence with names in braces for its values. A sentence without Chinese
stays English.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from grader.core import catalog, manifest, toml_file
from grader.core.advice import fit_advice, fit_quoted_advice
from grader.core.diagnosis_records import NamedMistake
from grader.core.records import Exercise

LANGUAGES = ("en", "zh")
_NUMBERS = ("counts", "possible")  # or "Turn the scores of an array ..." would be a mark
_LONGEST = ("subject",)  # which may have the words that follow it, too: "y (row 1 is -inf) is 2"
_ANY = "(?:(?!, but should be ).)+"  # a value; what it should be is another one
_CHINESE = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"  # letters, and signs as wide as they are
# Behind what a check says: which entry, or part, or call it speaks of. That stays as it is.
_WHERE = re.compile(r"(?:\[[^\[\]]*\]|\.shape|\.dtype|\.device)+$|  \[.*\]$")
_CORE_TRANSLATIONS_PATH = Path(__file__).with_name("zh.toml")


def choose_translation_language(environment: Mapping[str, str] = os.environ) -> str:
    """Return the language of the environment by the C library's rules; English unless Chinese."""
    chosen = next(
        (environment[n] for n in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(n)), ""
    )
    wished = environment.get("LANGUAGE", "") if chosen not in ("", "C", "POSIX") else ""
    return "zh" if (wished or chosen).lower().startswith("zh") else "en"


@dataclass(frozen=True, slots=True)
class Words:
    """Sentences in one language."""

    language: str = "en"

    def __call__(self, english: str, **values: Any) -> str:
        """A sentence of ours, with `values` in the place of the names in braces."""
        text = _read_core_translations().get(english, english) if self.language == "zh" else english
        text = fit_advice(text)
        if self.language == "zh":
            return _fill_chinese(text, values) if values else text
        return text.format(**values) if values else text

    def said(self, sentence: str) -> str:
        """A sentence of ours whose values are in it already, line by line."""
        return fit_quoted_advice("\n".join(map(self._translate_line, sentence.splitlines())))

    def _translate_line(self, line: str) -> str:
        if self.language == "en":
            return line
        if (cut := _WHERE.search(line)) and (said := self._match_line(line[: cut.start()])):
            return said + cut[0]
        return self._match_line(line) or line

    def _match_line(self, line: str) -> str:
        """Return a line in Chinese; "" if no sentence of ours is like it."""
        for pattern, chinese in _build_translation_patterns():
            if found := pattern.fullmatch(line):
                values = {
                    name: self._translate_line(value) for name, value in found.groupdict().items()
                }
                return _fill_chinese(chinese, values)
        return ""

    def joined(self, *sentences: str) -> str:
        """Sentences one after the other, as the language writes them."""
        return ("" if self.language == "zh" else " ").join(s for s in sentences if s)

    def title(self, exercise: Exercise) -> str:
        """The title of an exercise; of a draft, that it is one."""
        title = str(self._suite_texts(exercise.slug).get("title", exercise.title))
        return self("{title} (draft)", title=title) if exercise.draft else title

    def check(self, slug: str, id: str, english: str) -> str:
        """The sentence of a check."""
        return str(self._suite_texts(slug).get("checks", {}).get(id, english))

    def speed(self, slug: str, english: str) -> str:
        """The sentence of the speed case; an exercise has at most one."""
        return str(next(iter(self._suite_texts(slug).get("speed", {}).values()), english))

    def variant(self, slug: str, id: str, english: str) -> str:
        """The sentence of a right answer that is written otherwise."""
        return str(self._suite_texts(slug).get("variants", {}).get(id, english))

    def hints(self, exercise: Exercise, name: str) -> tuple[str, ...]:
        """The hints of a function, a class or a check; each tells more than the one before."""
        named = exercise.functions.get(name) or exercise.classes.get(name)
        english = named.hints if named else exercise.hints.get(name, ())
        hints = self._suite_texts(exercise.slug).get("hints", {}).get(name, english)
        return tuple(map(fit_quoted_advice, hints))

    def learned(self, exercise: Exercise) -> tuple[str, ...]:
        """What a student knows who has passed an exercise."""
        return tuple(self._suite_texts(exercise.slug).get("learned", exercise.learned))

    def mistake(self, slug: str, id: str, says: str, mend: str) -> tuple[str, str]:
        """What a mistake is, and how to mend it."""
        entry = self._suite_texts(slug).get("mistakes", {}).get(id, {})
        return entry.get("says", says), fit_quoted_advice(entry.get("mend", mend))

    def mistakes(self, slug: str, found: Sequence[NamedMistake]) -> list[tuple[str, str]]:
        """What each mistake is, and how to mend it; a cure that the next one shares is left out."""
        told = [self.mistake(slug, m.id, m.says, m.mend) for m in found]
        after = [mend for _, mend in (*told[1:], ("", ""))]
        return [
            (says, "" if mend == following else mend)
            for (says, mend), following in zip(told, after, strict=False)
        ]

    def question(self, slug: str, id: str, asks: str, answer: str) -> tuple[str, str]:
        """A question of an interview, and a model answer."""
        entry = self._suite_texts(slug).get("questions", {}).get(id, {})
        return entry.get("asks", asks), entry.get("answer", answer)

    def _suite_texts(self, slug: str) -> Mapping[str, Any]:
        return _read_suite_translations(slug) if self.language == "zh" else {}


def _fill_chinese(text: str, values: Mapping[str, Any]) -> str:
    """Put values in the place of their names in braces, without a blank between Chinese letters.

    The blank beside "{name}" is meant for Latin letters; a value may be in either script.
    """
    for name, value in values.items():
        if re.match(_CHINESE, str(value)):
            text = re.sub(rf"(?<={_CHINESE}) (?={{{name}}})", "", text)
        if re.search(rf"{_CHINESE}\Z", str(value)):
            text = re.sub(rf"(?<={{{name}}}) (?={_CHINESE})", "", text)
    return text.format(**values)


@cache
def _read_suite_translations(slug: str) -> Mapping[str, Any]:
    path = catalog.find_catalog_suite(slug) / "zh.toml"
    return toml_file.read_toml_table(path, manifest.CHINESE_TABLE) if path.is_file() else {}


@cache
def _build_translation_patterns() -> list[tuple[re.Pattern[str], str]]:
    """Return our sentences as patterns, those with the least open text first."""
    exercises = catalog.list_catalog_exercises()
    said = [_read_suite_translations(e.slug).get("said", {}) for e in exercises]
    cures = {e.cure: _read_suite_translations(e.slug).get("cure", e.cure) for e in exercises}
    tables = (_read_core_translations(), cures, *said)
    every = dict(chain(*(table.items() for table in tables)))
    fixed = sorted(every.items(), key=lambda pair: -len(re.sub(r"\{\w+\}", "", pair[0])))
    return [
        (re.compile(_build_translation_pattern(english)), chinese) for english, chinese in fixed
    ]


def _build_translation_pattern(english: str) -> str:
    named: set[str] = set()

    def part(number: int, text: str) -> str:
        if number % 2 == 0:
            return re.escape(text)
        again = text in named
        named.add(text)
        value = r"[\d.–]+" if text in _NUMBERS else _ANY if text in _LONGEST else f"{_ANY}?"
        return f"(?P={text})" if again else f"(?P<{text}>{value})"

    return "".join(part(n, text) for n, text in enumerate(re.split(r"\{(\w+)\}", english)))


@cache
def _read_core_translations() -> Mapping[str, str]:
    return (
        toml_file.read_toml_table(
            _CORE_TRANSLATIONS_PATH, toml_file.TomlTable(others=toml_file.TEXT)
        )
        if _CORE_TRANSLATIONS_PATH.is_file()
        else {}
    )
