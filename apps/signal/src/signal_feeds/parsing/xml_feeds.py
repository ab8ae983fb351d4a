"""RSS 0.9x, 1.0 and 2.0, Atom 0.3 and 1.0, as feedparser reads them."""

import calendar
import io
import xml.sax
from collections.abc import Iterator
from typing import Any

import feedparser

from signal_feeds.parsing import lean
from signal_feeds.parsing.cleaning import html_of, plain
from signal_feeds.parsing.documents import Document
from signal_feeds.parsing.drafts import Draft, cut, line
from signal_feeds.parsing.hints import hints_of
from signal_feeds.reasons import Failed
from signal_feeds.records import Hints
from signal_feeds.urls import canonical_link, joined

# What feedparser is told, so that it takes our decoding for true; not where the document is from, so that guids that
# are no URLs stay as they are.
_HEADERS = {"content-type": "application/xml; charset=utf-8"}
_HTML = ("text/html", "application/xhtml+xml")


lean.install()


class Feed:
    """A feed in XML. Raises Failed: parse if nothing can be made of it, not_a_feed if it is something else, too_large
    if it has too many names."""

    def __init__(self, document: Document, url: str) -> None:
        body = document.text.encode("utf-8", "replace")
        try:
            found = feedparser.parse(
                io.BytesIO(body), response_headers=_HEADERS, sanitize_html=False, resolve_relative_uris=False
            )
        except Failed:
            raise
        except Exception:
            raise Failed("parse") from None
        self._entries: list[Any] = found["entries"]
        broken = isinstance(found.get("bozo_exception"), xml.sax.SAXException)
        if not self._entries and (broken or not found["version"]):
            raise Failed("parse" if broken else "not_a_feed")
        feed = found["feed"]
        self.url = url
        self.title = cut(_title(feed), 500)
        self.site = canonical_link(_text(feed.get("link")), url)
        # Whoever wrote a feed wrote the entries that name nobody: RFC 4287, 4.2.1.
        self._author = _author(feed)
        self.base = self.site or url
        self.hints: Hints = hints_of(feed, document.around)

    def drafts(self) -> Iterator[Draft]:
        """Its entries."""
        for entry in self._entries:
            html, base = _content(entry)
            yield Draft(
                guid=_text(entry.get("id")),
                link=self._link(entry),
                title=_title(entry),
                author=_author(entry) or self._author,
                html=html,
                base=joined(self.base, base) if base else self.base,
                published_ms=_published_ms(entry),
            )

    def _link(self, entry: Any) -> str | None:
        """The link; a guid stands for it only if it is a URL."""
        link = _text(entry.get("link"))
        if link and not (link == entry.get("id") and not link.lower().startswith(("http://", "https://"))):
            return canonical_link(link, self.url)
        others = (one for one in entry.get("links") or () if one.get("rel") == "alternate" and one.get("href"))
        return next((found for one in others if (found := canonical_link(_text(one["href"]), self.url))), None)


def _content(entry: Any) -> tuple[str, str]:
    """The fullest text as HTML, and its xml:base."""
    parts = [*(entry.get("content") or ()), *filter(None, [entry.get("summary_detail")])]
    for part in parts:
        value, kind = _text(part.get("value")), _text(part.get("type"))
        if value and kind in _HTML:
            return value, _text(part.get("base"))
        if value and kind.startswith("text/"):
            return html_of(value), _text(part.get("base"))
    return _text(entry.get("summary")), ""


def _title(of: Any) -> str:
    value = _text(of.get("title"))
    detail = of.get("title_detail")
    return plain(value) if detail is not None and detail.get("type") in _HTML else line(value)


def _author(of: Any) -> str:
    """The name, else whatever is said of the author."""
    detail = of.get("author_detail")
    return _text(detail.get("name") if detail else "") or _text(of.get("author"))


def _published_ms(entry: Any) -> int | None:
    """When it was published, else changed, else made."""
    for name in ("published_parsed", "updated_parsed", "created_parsed"):
        parts = dict.get(entry, name)  # its own get() takes one date for another, and warns of it
        if parts is not None:
            return calendar.timegm(parts) * 1000
    return None


def _text(value: Any) -> str:
    """What should be a string: feedparser puts a dict where an element has unexpected attributes."""
    return value if isinstance(value, str) else ""
