"""Text of others as a page may show it."""

import re
from typing import Any

from markupsafe import Markup

# Controls but tab and line ends, what turns the direction of all that follows, and halves of surrogate pairs.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202d\u202e\ud800-\udfff]")


def shown(text: str) -> str:
    """The text with what can't be seen made visible, rather than swallowed.

    >>> shown("a\\x1b[31mb\\x85c")
    'a[U+001B][31mb[U+0085]c'
    """
    return _HIDDEN.sub(_sign, text.replace("\r\n", "\n"))


def _sign(found: re.Match[str]) -> str:
    # Not as the pictures of U+2400 and on, for few fonts have them.
    return f"[U+{ord(found[0]):04X}]"


def finished(value: Any) -> Any:
    """Every value that a template prints comes through here."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def brief(text: str, most: int) -> str:
    """The beginning of a text, up to the end of a word where there is one.

    >>> brief("one two three", 9), brief("one", 9)
    ('one two…', 'one')
    """
    if len(text) <= most:
        return text
    head, _, _ = text[:most].rpartition(" ")
    return f"{(head or text[:most]).rstrip()}…"


def web_link(url: str | None) -> str | None:
    """The URL if a reader may follow it: http and https, nothing else."""
    return url if url and re.match(r"https?://[^/?#\s]", url, re.IGNORECASE) else None
