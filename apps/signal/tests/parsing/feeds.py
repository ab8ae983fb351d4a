"""Small documents, and how the tests read them."""

import html
import json

from signal_feeds.parsing import parse
from signal_feeds.records import Item, Parsed

URL = "https://example.org/blog/feed.xml"
NOW_MS = 1_796_083_200_000
"""2026-12-01T00:00:00Z"""
HOUR_MS = 3_600_000


def rss(*items: str, channel: str = "<title>Blog</title><link>https://example.org/</link>", head: str = "") -> str:
    """RSS 2.0; the items as XML."""
    body = "".join(f"<item>{item}</item>" for item in items)
    names = (
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/" '
        'xmlns:content="http://purl.org/rss/1.0/modules/content/"'
    )
    return f'{head}<rss version="2.0" {names}><channel>{channel}{body}</channel></rss>'


def atom(*entries: str, feed: str = "<title>Blog</title>", attributes: str = "") -> str:
    """Atom 1.0; the entries as XML."""
    body = "".join(f"<entry>{entry}</entry>" for entry in entries)
    return f'<feed xmlns="http://www.w3.org/2005/Atom" {attributes}>{feed}{body}</feed>'


def json_feed(*items: object, version: str = "https://jsonfeed.org/version/1.1", **others: object) -> str:
    """JSON Feed; the items as values."""
    return json.dumps({"version": version, "title": "Blog", "items": items, **others})


def described(markup: str) -> str:
    """An item of RSS with this HTML."""
    return f"<guid>1</guid><description>{html.escape(markup)}</description>"


def read(document: str | bytes, content_type: str = "", url: str = URL, most: int = 2_000) -> Parsed:
    """As the collector does."""
    body = document.encode() if isinstance(document, str) else document
    return parse(body, content_type, url, now_ms=NOW_MS, most=most)


def items(document: str | bytes, content_type: str = "", url: str = URL) -> tuple[Item, ...]:
    """Its entries."""
    return read(document, content_type, url).items


def only(document: str | bytes, content_type: str = "", url: str = URL) -> Item:
    """Its one entry."""
    (item,) = items(document, content_type, url)
    return item


def safe(markup: str) -> str:
    """What becomes of this HTML in an entry."""
    return only(rss(described(markup))).html
