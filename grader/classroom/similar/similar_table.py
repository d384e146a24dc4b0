"""What was found as a person reads it in a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.classroom.similar.compare_answers import Alike, Side
from grader.classroom.similar.similar_search import Found, Group
from grader.core.translation import Words
from grader.worker.harmless_text import harmless


def show(found: Found, console: Console, words: Words) -> None:
    """Draw the list, and say what it is and what it is not."""
    if found.groups:
        console.print(_table(found, words))
    for line in (*said(found, words), *told(found, words)):
        console.print(Text(_printed(line)), soft_wrap=True)


def said(found: Found, words: Words) -> list[str]:
    """What the list is, and what it is not."""
    compared = words("Answers compared: {answers}.", answers=found.answers)
    if not found.groups:
        return [words.joined(compared, words("No two are alike enough to be listed."))]
    return [
        words(
            "These are for a person to look at. They prove nothing, and no score depends on them: "
            "short answers are alike by nature, and so are those that follow one lesson."
        ),
        words.joined(
            compared,
            words("What everybody was given counts for nothing; the most unusual comes first."),
        ),
    ]


def told(found: Found, words: Words) -> list[str]:
    """The sentences on what could not be read, each in one line."""
    return [" ".join(harmless(_translated(note, words)).split()) for note in found.notes]


def _translated(note: str, words: Words) -> str:
    whole = words.said(note)
    who, colon, sentence = note.partition(": ")
    return f"{who}{colon}{words.said(sentence)}" if whole == note else whole


def percent(side: Side) -> str:
    """The share of an answer that is in the other; 100% only if all of it is."""
    return f"{int(100 * side.share)}%"


def _table(found: Found, words: Words) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", style="dim")
    for heading in ("Student", "Student", "Exercise"):
        table.add_column(words(heading), overflow="fold")
    for heading in ("Share of each", "Lines", "Tokens"):
        table.add_column(words(heading), justify="right")
    for number, group in enumerate(found.groups, 1):
        for place, alike in enumerate(group.pairs):
            table.add_row("" if place else f"{number}", *_row(group, alike))
        if more := len(others(group)):
            table.add_row("", Text(words("not shown: {count}", count=more), style="dim"))
    return table


def others(group: Group) -> list[str]:
    """Those of a group of whom no pair is shown."""
    shown = {s.answer.writer.who for alike in group.pairs for s in (alike.first, alike.second)}
    return [who for who in group.everybody if who not in shown]


def _row(group: Group, alike: Alike) -> list[Text]:
    first, second = alike.first, alike.second
    shares = f"{percent(first)} {percent(second)}"
    names = (_printed(s.answer.writer.who) for s in (first, second))
    return [Text(x) for x in (*names, group.slug, shares, f"{alike.lines}", f"{alike.tokens}")]


def _printed(text: str) -> str:
    """A text without what changes how a terminal writes the rest of the line."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
