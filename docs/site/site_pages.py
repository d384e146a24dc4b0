"""A hook of MkDocs: which of the project's files are pages, and at which addresses.

No text is copied: a page is read where the project keeps it, so that its links hold there and here.
"""

import logging
import re
from pathlib import PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site import stored_plays
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES, Words
from grader.submission.answer_file import locate_lesson_of_submission

_INDEX = {"en": "README.md", "zh": "README.zh-CN.md"}
_CHINESE = r"[\u3001-\u303f\u4e00-\u9fff\uff00-\uffef]"
_CHINESE_LINE_END = re.compile(rf"(?<={_CHINESE})\n(?={_CHINESE})")  # browsers draw a space there
_SCRIPTS_OF_LEARN = ("play.css", "painting.js")

logging.getLogger("jieba").setLevel(logging.WARNING)  # or it tells of its dictionary


def on_config(config: MkDocsConfig) -> None:
    """Name the pages of the language, and translate the sections, in the list of pages."""
    words = Words(config.theme["language"])
    sections = config.extra.get("sections", {})
    entries = [pair for entry in config.nav or () for pair in entry.items()]
    config.nav = [{sections.get(t, t): _list_nav_pages(pages, words)} for t, pages in entries]


def _list_nav_pages(pages: Any, words: Words) -> Any:
    if pages == "index":
        return _INDEX[words.language]
    if pages == "lessons":
        lessons = [
            {f"{e.slug[2:4]} {words.title(e)}": locate_lesson_of_submission(e.slug, words.language)}
            for e in _list_site_exercises()
        ]
        return [*lessons, f"docs/traps.{words.language}.md"]
    return pages


def _list_site_exercises() -> list[Exercise]:
    return [e for e in catalog.list_catalog_exercises() if not e.draft]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the project's pages and pictures, and the stored pictures of the lessons."""
    language = config.theme["language"]
    others = tuple(
        f".{name}{suffix}" for name in LANGUAGES if name != language for suffix in (".md", ".svg")
    )
    paths = [ROOT / _INDEX[language], ROOT / ".github/CONTRIBUTING.md"]
    paths += [
        path
        for folder in ("docs", "docs/lessons")
        for path in sorted((ROOT / folder).glob("*"))
        if path.suffix in (".md", ".svg") and not path.name.endswith(others)
    ]
    for path in paths:
        source = path.relative_to(ROOT).as_posix()
        at = _locate_page(source)
        files.append(File(source, str(ROOT), config.site_dir, True, dest_uri=at))
    for name in _SCRIPTS_OF_LEARN:
        files.append(File(name, str(ROOT / "grader/learn"), config.site_dir, True))
    for exercise in filter(stored_plays.has_play, _list_site_exercises()):
        stored = stored_plays.store_pictures(exercise, Words(language))
        at = f"lessons/{exercise.slug}.json"
        files.append(File.generated(config, at, content=stored))
    return files


def _locate_page(source: str) -> str:
    """Return where a file of the project stands in the site, the same in both languages."""
    path = PurePosixPath(source)
    if path.name.startswith("README"):
        return "index.html"
    folder = "lessons/" if path.parent.name == "lessons" else ""
    if path.suffix != ".md":
        return f"{folder}{path.name}"
    return f"{folder}{path.name.split('.')[0].lower()}/index.html"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what can be moved before the tasks of a lesson."""
    words = Words(config.theme["language"])
    if markdown.startswith("<!--"):  # MkDocs looks for the title in the first line
        markdown = markdown.partition("-->")[2].lstrip()
    for other in LANGUAGES:  # a page without a translation links to lessons in its own language
        markdown = markdown.replace(f".{other}.md)", f".{words.language}.md)")
    parts = markdown.split("```")  # code stands in every second one
    parts[::2] = [_CHINESE_LINE_END.sub("", part) for part in parts[::2]]
    markdown = "```".join(parts)
    for exercise in filter(stored_plays.has_play, _list_site_exercises()):
        if page.file.src_uri == locate_lesson_of_submission(exercise.slug, words.language):
            play = stored_plays.write_play(exercise, words, f"../{exercise.slug}.json")
            lesson, tasks, rest = markdown.partition("\n## ")
            return f"{lesson}\n## {words('Play')}\n\n{play}\n{tasks}{rest}"
    return markdown
