"""What is published, as plain values."""

import hashlib
from datetime import UTC, datetime
from typing import NamedTuple

from signal_feeds.texts import Language

MOST = 500
"""So many entries a published feed has; older decisions are left out."""


class Published(NamedTuple):
    """An approved revision of an entry. Instants are UTC ms."""

    entry: int
    key: str
    source: str
    source_number: int
    source_title: str | None
    source_url: str
    site: str | None
    title: str
    link: str | None
    author: str
    html: str
    text: str
    published: int
    """When it was seen first if its feed doesn't say."""
    updated: int
    """When it was approved, or came back to what is approved."""

    @property
    def id(self) -> str:
        """Made of what names the entry alone: the same after it has changed, and in a database made anew."""
        return tag("entry", f"{self.source}\n{self.key}")

    @property
    def source_name(self) -> str:
        """What a reader calls the source."""
        return self.source_title or self.source


class Feed(NamedTuple):
    """A feed to publish."""

    id: str
    title: str
    language: Language
    url: str | None
    """Where its files are found, with a slash at its end; None: nobody said."""
    entries: tuple[Published, ...]

    @property
    def updated(self) -> int:
        """UTC ms, 0 if it is empty: of what is in it, not of the clock, so that the same content has the same bytes."""
        return max((entry.updated for entry in self.entries), default=0)


def tag(kind: str, what: str) -> str:
    """A tag URI (RFC 4151). No name on the net is ours for ever, so the authority is the one that all have."""
    return f"tag:localhost,2026:signal/{kind}/{hashlib.sha256(what.encode()).hexdigest()[:32]}"


def rfc3339(ms: int) -> str:
    """An instant as Atom and JSON Feed write it.

    >>> rfc3339(1_500)
    '1970-01-01T00:00:01Z'
    """
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
