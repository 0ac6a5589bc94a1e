"""Addresses of databases without their passwords, so that they can be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote, unquote_plus

MASK = "***"
"""What is shown in place of a password."""
PASSWORD_HINT = (
    f"The password is not shown. Leave {MASK} in its place, and put the password into the environment as PGPASSWORD or "
    "into the file ~/.pgpass."
)

_SCHEME = r"[\w.+=-]+:/"
_PATTERNS = (
    # From the first colon behind the scheme to the last @: a mistyped password may hold @, / and #.
    re.compile(rf"\s*{_SCHEME}/*+[^:]*:(?P<secret>.+)@", re.DOTALL),
    # The same without slashes; C:\ is the beginning of a path.
    re.compile(rf"\s*(?!{_SCHEME}|[A-Za-z]:\\)[^\s:]*:(?P<secret>\S+)@"),
    # Text in the place of a port that is no number: @ and host were forgotten.
    re.compile(rf"\s*{_SCHEME}/*+[^:/?#@\[]*:(?P<secret>(?!\d*(?:[/?#,]|$))[^@]+)$"),
)
# An option behind ? or &, or one of several words such as host=h.
_OPTION = re.compile(
    r"(?:^|[?&\s])(?P<name>[\w%]+)\s*=\s*(?P<secret>'(?:[^'\\]|\\.)*'?|[^#\s]*?(?=&[\w%]+=|[#\s]|$))", re.DOTALL
)
_SECRET_NAME = re.compile(r"pass(?!file)|pwd", re.IGNORECASE)
# "postgres" is a common password, and addresses begin with it, too.
_NO_SCHEME = r"(?!(?:ql)?:/)"


def masked(address: str) -> str:
    """Return an address with ``***`` in place of each password; other text is unchanged.

    Passwords are looked for before the host, in options such as ``?password=``, and in words such as ``password=``.
    Text without a password, such as the name of a file, is returned unchanged.
    """
    shown, position = "", 0
    for start, end in sorted(_places(address)):
        if start >= position:
            shown += address[position:start] + MASK
        position = max(position, end)
    return shown + address[position:]


def without_passwords(text: str, addresses: Iterable[str]) -> str:
    """Return a text with ``***`` in place of every password in these ``addresses``.

    The text may hold a password as the address spells it, decoded, encoded, or quoted. Called for error messages.
    """
    secrets = {address[start:end].strip("'") for address in addresses for start, end in _places(address)}
    spellings = {spelling for secret in secrets - {"", MASK} for spelling in _spellings(secret)}
    for spelling in sorted(spellings, key=len, reverse=True):
        text = re.sub(re.escape(spelling) + _NO_SCHEME, MASK, text)
    return text


def _places(address: str) -> list[tuple[int, int]]:
    """Return the beginning and end of each password in an address. Places can overlap, and are not sorted."""
    options = [o for o in _OPTION.finditer(address) if o["secret"] and _SECRET_NAME.search(unquote(o["name"]))]
    matches = [match for pattern in _PATTERNS if (match := pattern.match(address))]
    return [match.span("secret") for match in [*matches, *options]]


def _spellings(secret: str) -> set[str]:
    """Return the spellings of a password: as given, decoded, and as addresses encode it.

    Each of these is also there as Python and JSON write it between quotation marks.
    """
    spellings = {secret}
    for plain in (secret, unquote(secret), unquote_plus(secret)):
        spellings |= {plain, quote(plain, safe=""), quote(plain), quote_plus(plain)}
    return spellings | {quoted[1:-1] for s in spellings for quoted in (repr(s), json.dumps(s))}
