"""JSON Feed 1.0 and 1.1."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from signal_feeds.parsing.cleaning import html_of
from signal_feeds.parsing.drafts import LONGEST_AUTHOR, Draft, cut, line
from signal_feeds.parsing.encoding import without_controls
from signal_feeds.reasons import Failed
from signal_feeds.records import Hints
from signal_feeds.urls import canonical_link

_VERSIONS = ("https://jsonfeed.org/version/", "http://jsonfeed.org/version/")


class Feed:
    """A feed in JSON. Raises Failed('parse') if it is broken, Failed('not_a_feed') if it is something else.

    Lenient, as feeds are: a number for an id, a null for a text, an author in the manner of the other version.
    """

    hints = Hints()

    def __init__(self, text: str, url: str, most: int) -> None:
        try:
            found = json.loads(text)  # where msgspec would refuse half a surrogate pair, which _text drops
        except (ValueError, RecursionError):
            raise Failed("parse" if "jsonfeed.org/version" in text else "not_a_feed") from None
        items = found.get("items") if isinstance(found, dict) else None
        if not isinstance(items, list) or not _text(found.get("version")).startswith(_VERSIONS):
            raise Failed("not_a_feed")
        items = [item for item in items if isinstance(item, dict)]
        self._items, self.cut = items[:most], max(0, len(items) - most)
        self.url = url
        self.title = cut(line(_text(found.get("title"))), 500)
        self.site = canonical_link(_text(found.get("home_page_url")), url)
        self._author = cut(line(_author(found)), LONGEST_AUTHOR)  # each entry has it

    def drafts(self) -> Iterator[Draft]:
        """Its entries."""
        for item in self._items:
            html = _text(item.get("content_html")) or html_of(_text(item.get("content_text")))
            yield Draft(
                guid=_text(item.get("id")),
                link=self._link(item),
                title=line(_text(item.get("title"))),
                author=_author(item) or self._author,
                html=html or html_of(_text(item.get("summary"))),
                base=self.site or self.url,
                published_ms=_ms(_text(item.get("date_published")) or _text(item.get("date_modified"))),
            )

    def _link(self, item: dict[str, Any]) -> str | None:
        found = (_text(item.get(name)) for name in ("url", "external_url"))
        return next((link for url in found if url and (link := canonical_link(url, self.url))), None)


def _author(of: dict[str, Any]) -> str:
    """Of 1.1 `authors`, of 1.0 `author`."""
    authors = of.get("authors")
    found = [*(authors if isinstance(authors, list) else ()), of.get("author")]
    return ", ".join(name for one in found if isinstance(one, dict) and (name := _text(one.get("name"))))


def _ms(text: str) -> int | None:
    """RFC 3339, as UTC ms; without an offset it is taken for UTC."""
    try:
        at = datetime.fromisoformat(text.strip())
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _text(value: Any) -> str:
    """A string or a number, as a string that can be encoded; '' for anything else."""
    if isinstance(value, str):
        return without_controls(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
