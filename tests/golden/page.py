"""What is to be read on an HTML page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_HIDDEN = {"style", "script", "svg", "head"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = 0
        self.pieces: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in _HIDDEN

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in _HIDDEN

    def handle_data(self, data: str) -> None:
        if not self.hidden and data.strip():
            self.pieces.append(" ".join(data.split()))


def text_of(page: str) -> str:
    """Return the text of a page, a line per piece; pictures and the version of the package are left out."""
    reader = _Reader()
    reader.feed(page)
    return re.sub(r"causalbald \d[\w.+]*", "causalbald VERSION", "\n".join(reader.pieces))
