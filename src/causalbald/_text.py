"""Text that can be stored as UTF-8. Python text can also hold other bytes, as halves of surrogate pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from causalbald.errors import InputError

_SURROGATES = re.compile("[\ud800-\udfff]")


def check_text(text: str, what: str) -> None:
    """Raise InputError if a text holds bytes that are not UTF-8. Text from a shell or a file name may hold such bytes.

    ``what`` names the text in the message.
    """
    if _SURROGATES.search(text):
        # The message quotes the text with repr: no terminal and no file takes it as it is.
        raise InputError(f"{what} is {text!r}, which is not text in UTF-8: write it again in letters that are.")


def check_texts(value: Any, what: str) -> None:
    """Raise InputError if any text in a value of plain JSON is not UTF-8. Names of entries count as text.

    ``what`` names the value; the message adds where in the value the text is.
    """
    for path, text in _texts(value, what):
        check_text(text, path)


def readable(value: Any) -> Any:
    """Return a copy of a value of plain JSON with a replacement character for each byte that is not UTF-8.

    Called for records of version 0.1.0, which did not check text.
    """
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {readable(name): readable(entry) for name, entry in value.items()}
    return [readable(entry) for entry in value] if isinstance(value, list) else value


def _texts(value: Any, what: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a name and a text for each text in a value of plain JSON; the name says where the text is."""
    if isinstance(value, str):
        yield what, value
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield f"a name in {what}", str(name)
            yield from _texts(entry, f"{name} of {what}")
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _texts(entry, what)
