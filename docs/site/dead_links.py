"""Checks a built site: no link is dead, and no page loads anything from elsewhere.

python -m docs.site.dead_links out/site
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
_HERE = "http://site.invalid/"


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


def list_dead_links(site: Path) -> Iterator[str]:
    """Yield a sentence for each dead link of a site, and each address that it loads elsewhere."""
    pages = {path: _read_page_links(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in sorted(page.loads):
            if problem := _find_load_problem(site, path, address):
                yield f"{name} loads {address}, {problem}."
        for address in sorted(page.links):
            target, anchor = _resolve_site_address(site, path, address)
            if target is None:
                continue
            if not target.is_file():
                yield f"{name} links to {address}, which is not in the site."
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{name} links to {address}, but that page has no such place."
    for path in sorted([*site.rglob("*.css"), *site.rglob("*.svg")]):
        for address in sorted(set(_list_style_addresses(path.read_text(encoding="utf-8")))):
            if problem := _find_load_problem(site, path, address):
                yield f"{path.relative_to(site)} loads {address}, {problem}."


def _read_page_links(path: Path) -> PageLinks:
    reader = LinkReader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.found


def _list_style_addresses(style: str) -> Iterator[str]:
    for found in _STYLE_ADDRESS.finditer(style):
        yield found[1] or found[2]


def _find_load_problem(site: Path, path: Path, address: str) -> str:
    if address.startswith("data:"):
        return ""
    target, _ = _resolve_site_address(site, path, address)
    if target is None:
        return "which is elsewhere"
    return "" if target.is_file() else "which is not in the site"


def _resolve_site_address(site: Path, path: Path, address: str) -> tuple[Path | None, str]:
    """Return the file that an address names, with the place in it; no file if it is elsewhere."""
    whole = urlsplit(urljoin(_HERE + path.relative_to(site).as_posix(), address))
    if f"{whole.scheme}://{whole.netloc}/" != _HERE:
        return None, ""
    target = site / unquote(whole.path).lstrip("/")
    return target / "index.html" if whole.path.endswith("/") else target, unquote(whole.fragment)


if __name__ == "__main__":
    dead = list(list_dead_links(Path(sys.argv[1])))
    print(*dead, sep="\n", end="\n" * bool(dead))
    sys.exit(bool(dead))
