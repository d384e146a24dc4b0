"""Shows similar answers as a table in a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.classroom.similar.compare_answers import AnswerLikeness, SimilarSide
from grader.classroom.similar.similar_search import SimilarAnswers, SimilarGroup
from grader.core.translation import Words
from grader.worker.parent.harmless_text import clean_worker_text


def print_similar(found: SimilarAnswers, console: Console, words: Words) -> None:
    """Print the list of similar answers, and what the list means."""
    if found.groups:
        console.print(_build_similar_table(found, words))
    for line in (*summarise_similar_answers(found, words), *describe_similar_notes(found, words)):
        console.print(Text(_clean_similar_text(line)), soft_wrap=True)


def summarise_similar_answers(found: SimilarAnswers, words: Words) -> list[str]:
    """Return sentences on what the list shows, and on what it does not prove."""
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


def describe_similar_notes(found: SimilarAnswers, words: Words) -> list[str]:
    """Return the sentences on unreadable answers, each on one line."""
    return [
        " ".join(clean_worker_text(_translate_similar_note(note, words)).split())
        for note in found.notes
    ]


def _translate_similar_note(note: str, words: Words) -> str:
    whole = words.said(note)
    who, colon, sentence = note.partition(": ")
    return f"{who}{colon}{words.said(sentence)}" if whole == note else whole


def format_similar_share(side: SimilarSide) -> str:
    """Return an answer's common share in percent, rounded down: 100% only for the whole answer."""
    return f"{int(100 * side.share)}%"


def _build_similar_table(found: SimilarAnswers, words: Words) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", style="dim")
    for heading in ("Student", "Student", "Exercise"):
        table.add_column(words(heading), overflow="fold")
    for heading in ("Share of each", "Lines", "Tokens"):
        table.add_column(words(heading), justify="right")
    for number, group in enumerate(found.groups, 1):
        for place, alike in enumerate(group.pairs):
            table.add_row("" if place else f"{number}", *_build_similar_row(group, alike))
        if more := len(list_unshown_similar_writers(group)):
            table.add_row("", Text(words("not shown: {count}", count=more), style="dim"))
    return table


def list_unshown_similar_writers(group: SimilarGroup) -> list[str]:
    """Return the writers of a group without a shown pair."""
    shown = {s.answer.writer.who for alike in group.pairs for s in (alike.first, alike.second)}
    return [who for who in group.everybody if who not in shown]


def _build_similar_row(group: SimilarGroup, alike: AnswerLikeness) -> list[Text]:
    first, second = alike.first, alike.second
    shares = f"{format_similar_share(first)} {format_similar_share(second)}"
    names = (_clean_similar_text(s.answer.writer.who) for s in (first, second))
    return [Text(x) for x in (*names, group.slug, shares, f"{alike.lines}", f"{alike.tokens}")]


def _clean_similar_text(text: str) -> str:
    """Replace letters that change how a terminal writes the rest of the line."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
