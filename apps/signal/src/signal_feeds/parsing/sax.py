"""The SAX driver that feedparser is given: expat, told to hand over text in one piece and to take a document in one."""

import xml.sax.expatreader
from typing import Any

from signal_feeds.reasons import Failed

MOST_NAMES = 500
"""Attributes of an element, and prefixes of a document: feedparser looks through all of them for each. Real feeds have
some tens."""
_AT_ONCE = 1 << 25
"""Bytes. In pieces of 64 KiB, a token of 8 MiB would be looked at 128 times."""


class Driver(xml.sax.expatreader.ExpatParser):
    """Python's own, but for the buffer: without it each line and each entity is a call. 20 entries: 4.3 to 3.3 ms."""

    def __init__(self) -> None:
        super().__init__(bufsize=_AT_ONCE)

    def reset(self) -> None:
        """Make the parser anew."""
        super().reset()
        parser: Any = self._parser  # type: ignore[attr-defined]
        parser.buffer_text = True
        self._prefixes = set[str | None]()

    def start_namespace_decl(self, prefix: str | None, uri: str) -> None:
        """A prefix. Raises Failed('too_large')."""
        self._prefixes.add(prefix)
        if len(self._prefixes) > MOST_NAMES:
            raise Failed("too_large")
        super().start_namespace_decl(prefix, uri)

    def start_element_ns(self, name: str, attrs: Any) -> None:
        """An element. Raises Failed('too_large')."""
        if len(attrs) > MOST_NAMES:
            raise Failed("too_large")
        super().start_element_ns(name, attrs)


def create_parser() -> Driver:
    """What xml.sax.make_parser calls."""
    return Driver()
