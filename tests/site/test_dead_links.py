"""The check of a built site, on small sites with one fault each."""

import pytest

from docs.site.dead_links import list_dead_links
from grader.core.catalog import ROOT

PAGE = '<html><body><h1 id="top">A</h1>{}</body></html>'


def check(folder, text: str, style: str = "", address: str = "") -> list[str]:
    (folder / "b").mkdir()
    (folder / "index.html").write_text(PAGE.format(text))
    (folder / "b" / "index.html").write_text(PAGE.format(""))
    (folder / "site.css").write_text(style)
    return list(list_dead_links(folder, address))


@pytest.mark.parametrize(
    "text",
    [
        "",
        '<a href="b/">b</a> <a href="b/#top">b</a> <a href="#top">a</a> <a href="/b/">b</a>',
        '<a href="https://example.org/x">elsewhere</a> <a href="mailto:a@example.org">m</a>',
        '<link rel="stylesheet" href="site.css"> <link rel="canonical" href="https://example.org/">',
        '<img src="data:image/png;base64,AA==">',
    ],
)
def test_a_site_without_a_fault_has_none(tmp_path, text):
    assert check(tmp_path, text, "p { background: url(data:image/png;base64,AA==) }") == []


@pytest.mark.parametrize(
    "text, says",
    [
        ('<a href="c/">c</a>', "links to c/, which is not in the site."),
        ('<a href="b/#bottom">b</a>', "links to b/#bottom, but that page has no such place."),
        ('<a href="#bottom">a</a>', "links to #bottom, but that page has no such place."),
        ('<img src="a.svg">', "loads a.svg, which is not in the site."),
        ('<div data-stored="a.json"></div>', "loads a.json, which is not in the site."),
        ('<script src="https://example.org/a.js"></script>', "loads https://example.org/a.js, which is elsewhere."),
        ('<link rel="preconnect" href="//example.org">', "loads //example.org, which is elsewhere."),
        ('<p style="background: url(//example.org/a.png)">', "loads //example.org/a.png, which is elsewhere."),
    ],
)  # fmt: skip
def test_a_fault_is_told_in_a_sentence(tmp_path, text, says):
    assert check(tmp_path, text) == [f"index.html {says}"]


@pytest.mark.parametrize(
    "style", ["p { background: url('https://example.org/a') }", "@import 'https://example.org/a';"]
)
def test_a_style_sheet_loads_nothing_from_elsewhere(tmp_path, style):
    says = "site.css loads https://example.org/a, which is elsewhere."
    assert check(tmp_path, "", style) == [says]


def test_every_page_of_the_project_is_in_the_list_of_pages():
    """A page that is missing there would end `make site`, which runs every week only."""
    listed = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    missing = {p for p in pages if f"docs/{p}" not in listed} - {"traps.en.md", "traps.zh.md"}
    assert not missing, f"name it under `nav` in docs/site/mkdocs.yml: {missing}"


def test_a_picture_loads_nothing_from_elsewhere(tmp_path):
    font = "<svg><style>@font-face { src: url('https://example.org/a') }</style></svg>"
    (tmp_path / "a.svg").write_text(font)
    assert check(tmp_path, '<img src="a.svg">') == [
        "a.svg loads https://example.org/a, which is elsewhere."
    ]


@pytest.mark.parametrize("address", ["https://example.org/a", "https://example.org/a/"])
def test_a_site_that_knows_its_address_may_use_it(tmp_path, address):
    links = ["/a/b/", "https://example.org/a/b/#top", "/a/", "/b/", "/a/c/", "/a/b/#bottom"]
    found = check(tmp_path, " ".join(f'<a href="{link}">l</a>' for link in links), address=address)
    assert found == [
        "index.html links to /a/b/#bottom, but that page has no such place.",
        "index.html links to /a/c/, which is not in the site.",
    ]
