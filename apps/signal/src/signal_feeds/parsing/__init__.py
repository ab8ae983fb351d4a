"""Documents to records: `parse` reads a feed of any format, `offers` the feeds that a page names. Pure, and slow."""

from signal_feeds.parsing.documents import document, is_json
from signal_feeds.parsing.drafts import fingerprint, items_of
from signal_feeds.parsing.encoding import decode
from signal_feeds.parsing.pages import offers
from signal_feeds.reasons import Failed
from signal_feeds.records import Parsed

__all__ = ["LARGEST", "MOST", "fingerprint", "offers", "parse"]

LARGEST = 8 * 1024 * 1024
"""Bytes of a body."""
MOST = 2_000
"""Entries of a document that are read: the first of them."""
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04")


def parse(body: bytes, content_type: str, url: str, *, now_ms: int, most: int = MOST) -> Parsed:
    """The feed in `body`, which came from `url`; the first `most` entries of it.

    Raises Failed: empty, too_large, bad_encoding (still packed), not_a_feed, parse (a feed, but broken).
    """
    if len(body) > LARGEST:
        raise Failed("too_large")
    if body.startswith(_PACKED):
        raise Failed("bad_encoding")
    text = decode(body, content_type).strip()
    if not text:
        raise Failed("empty")
    if is_json(text):
        from signal_feeds.parsing import json_feeds

        json_feed = json_feeds.Feed(text, url, most)
        items = items_of(json_feed.drafts(), now_ms)
        return Parsed(json_feed.title, json_feed.site, json_feed.hints, items, json_feed.cut)
    from signal_feeds.parsing import xml_feeds

    ready = document(text, most)
    feed = xml_feeds.Feed(ready, url)
    return Parsed(feed.title, feed.site, feed.hints, items_of(feed.drafts(), now_ms), ready.cut)
