"""Parse the HTML that objects show in notebooks, and check what every output must fulfil."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = {"br"}
ALLOWED = {
    *("b", "br", "details", "div", "p", "pre", "span", "style", "summary"),
    *("table", "tbody", "td", "th", "thead", "tr"),
}
ATTRIBUTES = {"class", "colspan", "style", "title"}


@dataclass
class Page(HTMLParser):
    """The content of an output."""

    tags: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in ALLOWED, tag
        self.tags.append(tag)
        if tag not in VOID:
            self.pending.append(tag)
        for name, value in attrs:
            assert name in ATTRIBUTES, name
            if name == "title":
                self.titles.append(value)
            if name == "class":
                self.classes += value.split()
            if name == "style":
                self.styles.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.pending.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.pending[-1:] == ["style"]:
            assert not any(text in data for text in ("@import", "url(", "http", "#xb"))
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def page_of(shown: Any) -> Page:
    """Parse what a notebook shows for an object, or HTML text."""
    page = Page()
    page.feed(shown if isinstance(shown, str) else shown._repr_html_())
    page.close()
    assert not page.pending
    return page
