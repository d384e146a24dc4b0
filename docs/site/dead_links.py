"""Checks a built site: no link is dead, and no page loads anything from elsewhere.

python -m docs.site.dead_links out/site [https://where.it/stands/]
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

_LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
_POINTING = {"canonical", "prev", "next", "alternate"}  # what <link> only names
_STYLE_ADDRESS = re.compile(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)")
_ANYWHERE = "http://site.invalid/"  # for a site that does not know its address


@dataclass(slots=True)
class PageLinks:
    """What a page links to, what it loads, and the places in it that a link may name."""

    links: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)


class LinkReader(HTMLParser):
    """Reads the links of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.found = PageLinks()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the addresses of an element, and its name."""
        values = {name: value or "" for name, value in attrs}
        self.found.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.found.loads |= set(_list_style_addresses(values.get("style", "")))
        if tag == "a" and "href" in values:
            self.found.links.add(values["href"])
        if stored := values.get("data-stored"):  # the pictures of docs/site/stored_plays.py
            self.found.loads.add(stored)
        if (name := _LOADED.get(tag)) in values:
            pointing = tag == "link" and values.get("rel") in _POINTING
            (self.found.links if pointing else self.found.loads).add(values[str(name)])


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """A folder of pages, and the address at which it stands."""

    folder: Path
    address: str

    def resolve(self, path: Path, link: str) -> tuple[Path | None, str]:
        """Return the file that a link names, with the place in it; no file if it is elsewhere."""
        page = self.address + path.relative_to(self.folder).as_posix()
        whole, _, place = urljoin(page, link).partition("#")
        if not whole.startswith(self.address):
            return None, ""
        target = self.folder / unquote(urlsplit(whole.removeprefix(self.address)).path)
        ending = whole.endswith("/")
        return target / "index.html" if ending else target, unquote(place)


def list_dead_links(folder: Path, address: str = "") -> Iterator[str]:
    """Yield a sentence for each dead link of a site, and each address that it loads elsewhere."""
    site = BuiltSite(folder, f"{(address or _ANYWHERE).rstrip('/')}/")
    pages = {path: _read_page_links(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        for address in sorted(page.loads):
            if problem := _find_load_problem(site, path, address):
                yield f"{name} loads {address}, {problem}."
        for address in sorted(page.links):
            target, anchor = site.resolve(path, address)
            if target is None:
                continue
            if not target.is_file():
                yield f"{name} links to {address}, which is not in the site."
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{name} links to {address}, but that page has no such place."
    for path in sorted([*folder.rglob("*.css"), *folder.rglob("*.svg")]):
        for address in sorted(set(_list_style_addresses(path.read_text(encoding="utf-8")))):
            if problem := _find_load_problem(site, path, address):
                yield f"{path.relative_to(folder)} loads {address}, {problem}."


def _read_page_links(path: Path) -> PageLinks:
    reader = LinkReader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.found


def _list_style_addresses(style: str) -> Iterator[str]:
    for found in _STYLE_ADDRESS.finditer(style):
        yield found[1] or found[2]


def _find_load_problem(site: BuiltSite, path: Path, address: str) -> str:
    if address.startswith("data:"):
        return ""
    target, _ = site.resolve(path, address)
    if target is None:
        return "which is elsewhere"
    return "" if target.is_file() else "which is not in the site"


if __name__ == "__main__":
    dead = list(list_dead_links(Path(sys.argv[1]), *sys.argv[2:]))
    print(*dead, sep="\n", end="\n" * bool(dead))
    sys.exit(bool(dead))
