"""Text that can be kept as UTF-8: Python also holds bytes that are none, as halves of surrogate pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from causalbald.errors import InputError

_HALVES = re.compile("[\ud800-\udfff]")


def check_text(text: str, what: str) -> None:
    """Refuse text with bytes that are not UTF-8, as a shell or a file name may hand them over."""
    if _HALVES.search(text):
        # repr, as no terminal and no file takes such text as it stands.
        raise InputError(f"{what} is {text!r}, which is not text in UTF-8: write it again in letters that are.")


def check_texts(value: Any, what: str) -> None:
    """Refuse a value of plain JSON in which any text, also the name of an entry, is not UTF-8."""
    for path, text in _texts(value, what):
        check_text(text, path)


def readable(value: Any) -> Any:
    """Return a value of plain JSON with a replacement character for each byte that is no text."""
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {readable(name): readable(entry) for name, entry in value.items()}
    return [readable(entry) for entry in value] if isinstance(value, list) else value


def _texts(value: Any, what: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield what, value
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield f"a name in {what}", str(name)
            yield from _texts(entry, f"{name} of {what}")
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _texts(entry, what)
