"""The class page is safe, whatever the names of students and of their files."""

import re
from urllib.parse import unquote_to_bytes, urljoin, urlsplit

import pytest

from grader.core.catalog import ROOT
from tests.reporting.class_samples import CLASS, ONE, drawn, everywhere, graded, of, page, right
from tests.reporting.markup import Page
from tests.reporting.samples import HOSTILE


@pytest.mark.parametrize(
    "path, href",
    [
        ("students/ada/report.html", "./students/ada/report.html"),
        ("s/a b?c#d%e/r.html", "./s/a%20b%3Fc%23d%25e/r.html"),
        ("javascript:alert(1)", "./javascript%3Aalert%281%29"),
        ("//example.org/x", ".///example.org/x"),
        ('s/"><b>/r.html', "./s/%22%3E%3Cb%3E/r.html"),
        ("s/刘徽/r.html", "./s/%E5%88%98%E5%BE%BD/r.html"),
        ("s/caf\udce9/r.html", "./s/caf%E9/r.html"),  # bytes that are no UTF-8
        ("s/\ud800/r.html", "./s/%3F/r.html"),  # what no file can be called
        ("s/a\nb/r.html", "./s/a%0Ab/r.html"),
    ],
)
def test_a_link_leads_to_the_page_of_the_student_and_nowhere_else(path, href):
    found = page(of(graded("ada", right(ONE), page=path)))
    assert {a.attributes["href"] for a in found.all("a")} == {href}
    reached = urlsplit(urljoin("file:///results/class.html", href))
    assert (reached.scheme, reached.netloc) == ("file", "")
    assert unquote_to_bytes(reached.path).startswith(b"/results/")


def test_nothing_of_a_submission_becomes_markup():
    hurt, harmless = (
        page(everywhere(text), title=text, facts={text: text}) for text in (HOSTILE, "`x`")
    )
    assert [e.tag for e in hurt.elements] == [e.tag for e in harmless.elements]
    assert [sorted(e.attributes) for e in hurt.elements] == [
        sorted(e.attributes) for e in harmless.elements
    ]
    assert {e.text for e in hurt.all("bdi")} == {HOSTILE}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_whatever_the_names_the_page_can_be_written(language):
    odd = "caf\udce9\ud800\x00\x1b[31m\u202e\r\n{x}{0}%s"
    text = drawn(everywhere(odd), language, title=odd, facts={odd: odd})
    text.encode()
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", text)


def test_the_page_needs_nothing_from_elsewhere():
    text = drawn(of(*CLASS))
    found = Page(text)
    assert found.all("script") == []
    assert [e.attributes["href"] for e in found.all("link")] == ["data:,"]
    assert not re.search(r"url\(|@import|https?:|\bsrc=", text)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:;" in text


def test_the_policy_is_that_of_the_report():
    policy = '<meta http-equiv="Content-Security-Policy"[^>]*>'
    [report] = re.findall(policy, (ROOT / "grader/reporting/report.html.j2").read_text())
    assert re.findall(policy, drawn(of(*CLASS))) == [report]
