"""A page as its elements."""

from html.parser import HTMLParser

VOID = {"meta", "link", "rect", "line", "circle", "br"}


class Element:
    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag, self.attributes, self.text = tag, attributes, ""

    def has(self, name: str) -> bool:
        return name in (self.attributes.get("class") or "").split()


class Page(HTMLParser):
    """The elements of a page in their order, each with all the text within."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"<{tag}> says something twice: {attrs}"
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop().tag == tag

    def handle_data(self, data):
        for element in self.open:
            element.text += data

    def all(self, tag: str, name: str = "") -> list[Element]:
        return [e for e in self.elements if e.tag == tag and (not name or e.has(name))]

    def texts(self, tag: str, name: str = "") -> list[str]:
        return [" ".join(e.text.split()) for e in self.all(tag, name)]
