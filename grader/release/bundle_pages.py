"""Fits the pages of a bundle to what is in it: no dead link, no goal that `make` refuses.

A page is written for the whole project. A link to a file that is left out keeps only its own text.
Every page loses the rows, the lines and the sentences that name a goal which cannot be made; the
README also loses those about exercises, pages and folders that are left out.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from grader.authoring.skeletons import drop_generated_note

README_FILES = ("README.md", "README.zh-CN.md")
_LESSONS_FOLDER = "docs/lessons/"
# Words for the whole: they hold only if every exercise of the core track is there.
_WHOLE = re.compile(r"\b100\b")
# What the README says of points for speed alone.
_SPEED = re.compile(r"docs/speed\.md|\bsecond number\b|\bspeed points\b|第二个数|的速度分")
_SPEED_POINTS = re.compile(r"(?<=\d) \+ \d+(?= \|$)")  # at the end of a row
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_SLUG = re.compile(r"\bex\d\d(?:_\w+)?\b")
_EXAMPLE = re.compile(r"(?<=EX=)ex\d\d\w*")
_GOAL = re.compile(r"(?:`|&&\s|^)make\s+([a-z-]+)", re.M)
_HEADING = re.compile(r"^(##+) (.*)\n+", re.M)
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？]|$)\s*", re.S)
_LEAST_TABLE_LINES = 2  # line ends in a table with a row: its head and the line below it


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFacts:
    """What a bundle has of what a page speaks of."""

    page: str  # its name
    files: Collection[str]
    released: tuple[str, ...]  # exercises
    refused: Collection[str]  # goals of the Makefile
    whole: bool  # whether the points of its exercises make the total
    speed: bool  # whether it grades speed

    def has_exercise(self, name: str) -> bool:
        return any(slug.startswith(name) for slug in self.released)

    def refuses_goal_in(self, text: str) -> bool:
        return any(goal in self.refused for goal in _GOAL.findall(text))

    def begins_with_refused_goal(self, text: str) -> bool:
        goal = _GOAL.match(text)
        return goal is not None and goal[1] in self.refused

    def has_file(self, target: str) -> bool:
        """Return whether a link of the page leads to a file or a folder of the bundle."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), target))
        return any(file == path or file.startswith(f"{path}/") for file in self.files)

    def use_own_example(self, text: str) -> str:
        """Put an exercise of the bundle in the place of one that is not there, behind EX=."""
        if self.page not in README_FILES:
            return text
        first = self.released[0]
        short, long = first.partition("_")[0], first
        return _EXAMPLE.sub(
            lambda m: m[0] if self.has_exercise(m[0]) else long if "_" in m[0] else short, text
        )

    def leaves_out(self, sentence: str) -> bool:
        return self.refuses_goal_in(sentence) or (
            self.page in README_FILES
            and (
                "SUBMISSION=solutions" in sentence
                or not all(map(self.has_exercise, _SLUG.findall(sentence)))
                or (not self.whole and bool(_WHOLE.search(sentence)))
                or (not self.speed and bool(_SPEED.search(sentence)))
                or any(found[0][0] == "[" and not self.has_file(found[2])
                       for found in _LINK.finditer(sentence))
            )
        )  # fmt: skip


def fit_pages_to_bundle(
    files: Iterable[tuple[str, bytes]], refused: Collection[str], core: Collection[str],
    *, speed: bool = True,
) -> Iterator[tuple[str, bytes]]:  # fmt: skip
    """Yield the files of a bundle, with pages that speak of these files alone.

    refused  goals of the Makefile that cannot be made in the bundle
    core     the exercises whose points make the total
    speed    whether the bundle grades speed; if not, no page speaks of `make bench`
    """
    refused = refused if speed else {*refused, "bench"}
    found = dict(files)
    exercises = (re.match(r"exercises/(\w+)\.", name) for name in sorted(found))
    released = tuple(match[1] for match in exercises if match)
    for name, content in found.items():
        if not name.endswith(".md"):
            yield name, content
            continue
        facts = BundleFacts(
            page=name, files=found, released=released, refused=refused,
            whole=speed and {*core} <= {*released}, speed=speed,
        )  # fmt: skip
        text = drop_generated_note(content.decode("utf-8"))
        if released and not name.startswith(_LESSONS_FOLDER):
            text = _drop_sections(_fit_page(_drop_sections(text, facts), facts), facts)
        yield name, unlink_missing_files(text, facts.has_file).encode()


def unlink_missing_files(text: str, has_file: Callable[[str], bool]) -> str:
    """Put its text in the place of each link to a file that is not there."""
    return _LINK.sub(lambda found: found[0] if has_file(found[2]) else found[1], text)


def _drop_sections(text: str, facts: BundleFacts) -> str:
    """Drop the sections that begin with a goal that is refused, and those that are empty."""
    for heading in _HEADING.finditer(text):
        following = _HEADING.finditer(text, heading.end())
        ends = (h.start() for h in following if len(h[1]) <= len(heading[1]))
        end = next(ends, len(text))
        section = text[heading.end() : end]
        if not section.strip() or facts.begins_with_refused_goal(section):
            rest = text[: heading.start()] + text[end:]
            anchor = re.sub(r"[^\w -]", "", heading[2].lower()).replace(" ", "-")
            return _drop_sections(rest.replace(f"](#{anchor})", "](#)"), facts)
    return re.sub(r"\[([^\]]*)\]\(#\)", r"\1", text)


def _fit_page(text: str, facts: BundleFacts) -> str:
    parts = re.split(r"(^```.*?^```\n)", text, flags=re.M | re.S)
    fitted = (
        _fit_commands(part, facts) if part.startswith("```") else _fit_prose(part, facts)
        for part in parts
    )
    return "".join(fitted)


def _fit_commands(block: str, facts: BundleFacts) -> str:
    lines = block.splitlines(keepends=True)
    return "".join(facts.use_own_example(ln) for ln in lines if not facts.refuses_goal_in(ln))


def _fit_prose(text: str, facts: BundleFacts) -> str:
    """Fit paragraphs, lists and tables; drop those of which nothing is left."""
    kept: list[str] = []
    for paragraph in text.split("\n\n"):
        fitted = _fit_paragraph(paragraph, facts)
        if paragraph.startswith("|") and fitted.count("\n") < _LEAST_TABLE_LINES:
            if kept and kept[-1].endswith((":", "：")):  # which led to the table
                kept[-1] = _drop_last_sentence(kept[-1])
        elif fitted or not paragraph:
            kept.append(fitted)
    return "\n\n".join(kept)


def _fit_paragraph(text: str, facts: BundleFacts) -> str:
    if text.startswith(("|", "#", ">", "!")):
        rows = text.split("\n")
        return "\n".join(_fit_row(row, facts) for row in rows if not _is_row_left_out(row, facts))
    bare = text.strip("\n")
    begin, _, end = text.partition(bare) if bare else ("", "", text)
    items = (_fit_item(item, facts) for item in re.split(r"^(?=- )", bare, flags=re.M))
    return begin + "\n".join(item for item in items if item) + end


def _is_row_left_out(row: str, facts: BundleFacts) -> bool:
    named = re.match(r"\| (ex\d\d_\w+) \|", row) if facts.page in README_FILES else None
    return facts.refuses_goal_in(row) or bool(named and not facts.has_exercise(named[1]))


def _fit_row(row: str, facts: BundleFacts) -> str:
    without = facts.page in README_FILES and not facts.speed
    return _SPEED_POINTS.sub("", row) if without else row


def _fit_item(text: str, facts: BundleFacts) -> str:
    bullet = text[: 2 * text.startswith("- ")]
    if facts.begins_with_refused_goal(text.removeprefix(bullet)):
        return ""
    sentences = map(facts.use_own_example, _SENTENCE.findall(text.removeprefix(bullet)))
    told = "".join(s for s in sentences if not facts.leaves_out(s)).strip("\n")
    return f"{bullet}{told.rstrip()}" if told else ""


def _drop_last_sentence(text: str) -> str:
    return "".join(_SENTENCE.findall(text)[:-1]).rstrip()
