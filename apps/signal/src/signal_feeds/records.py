"""Plain values that pass between the parts. Instants are UTC ms, durations seconds, unless the name says otherwise."""

from typing import Literal

import msgspec

Kind = Literal["http", "fixture"]
Origin = Literal["builtin", "toml", "added", "opml"]
Verdict = Literal["approved", "rejected"]
Orphaned = Literal[0, 1, 2]
"""0: not; 1: nobody names the source any more; 2: the same, and a person had paused it before that."""


class Hints(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a feed says of its own rhythm (RSS 2.0 ttl, skipHours, skipDays; RSS 1.0's syndication module)."""

    period_s: int | None = None
    skip_hours: tuple[int, ...] = ()
    """Hours of the day in GMT, 0 to 23."""
    skip_days: tuple[int, ...] = ()
    """Days of the week in GMT, Monday is 0."""


class Answer(msgspec.Struct, frozen=True):
    """What a server said: a 200 with a body, or a 304 without. Everything else is raised as Failed."""

    status: Literal[200, 304]
    url: str
    """Where it came from in the end, after redirects."""
    body: bytes = b""
    """Decoded of gzip or br, still encoded text."""
    content_type: str = ""
    etag: str | None = None
    last_modified: str | None = None
    """Both byte for byte, as latin-1."""
    fresh_s: int = 0
    """How long the server wants not to be asked again: max-age minus Age, or Expires; 0 if it doesn't say."""
    moved_to: str | None = None
    """The new URL, if every redirect on the way was a permanent one (301, 308)."""


class Item(msgspec.Struct, frozen=True):
    """One entry as parsed, sanitised and identified."""

    key: str
    """Its identity within its source."""
    fingerprint: str
    """64 hex digits over what a reader sees; see parsing.fingerprint."""
    title: str
    link: str | None
    """Canonical, http or https, or None."""
    author: str
    html: str
    """Safe: sanitised, whatever the source sent."""
    text: str
    """What is visible of it."""
    published_ms: int | None
    """None: unknown, or more than 24 h in the future."""


class Offer(msgspec.Struct, frozen=True):
    """A feed that a page advertises."""

    url: str
    title: str
    type: str


class Parsed(msgspec.Struct, frozen=True):
    """A whole feed."""

    title: str
    site: str | None
    hints: Hints
    items: tuple[Item, ...]
    """In the order of the document; no key twice."""
    cut: int = 0
    """How many entries were over the limit and left out."""


class Source(msgspec.Struct, frozen=True):
    """A row of `source`."""

    number: int
    id: str
    url: str
    given: str
    """The URL as it was declared; a permanent redirect changes `url` alone."""
    kind: Kind
    origin: Origin
    orphaned: Orphaned
    added: int
    title: str | None
    site: str | None
    etag: str | None
    last_modified: str | None
    digest: str | None
    """sha256 of the body that was parsed last; None: nothing is stored yet."""
    hints: Hints
    fresh_s: int
    failures: int
    faults: int
    """Failures of our own, counted apart."""
    last_error: str | None
    last_ok: int | None
    last_attempt: int | None
    """The end of the last attempt that dialled."""
    not_before: int
    """Until then the server wants no request; 0: it doesn't say."""
    gone_first: int | None
    gone_times: int
    moved_to: str | None
    moved_first: int | None
    moved_times: int
    same_as: str | None
    """The id of another source that this one leads to."""
