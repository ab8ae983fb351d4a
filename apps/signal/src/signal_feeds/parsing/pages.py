"""The feeds that an HTML page advertises: <link rel="alternate" type="application/rss+xml" href="...">."""

import html
import re

from signal_feeds.errors import BadSource
from signal_feeds.parsing.drafts import cut, line
from signal_feeds.parsing.encoding import decode
from signal_feeds.records import Offer
from signal_feeds.urls import checked, joined

MOST = 20
_LOOK = 512 * 1024
"""Bytes of a page that are looked at."""
_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json", "application/json")
_TAG = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1|\Z)|<(link|base)\s([^>]*)", re.I | re.S)
_ATTRIBUTE = re.compile(r"""([a-z-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)


def offers(body: bytes, content_type: str, url: str) -> tuple[Offer, ...]:
    """The feeds that the page at `url` names, in its order, at most MOST."""
    text = decode(body[:_LOOK], content_type)
    base, found = url, dict[str, Offer]()
    for tag in _TAG.finditer(text):
        name = (tag.group(2) or "").lower()
        attributes = _attributes(tag.group(3)) if name else {}
        if name == "base" and base == url:
            base = joined(url, attributes.get("href", "")) or url
        elif name == "link" and (offer := _offer(attributes, base)) is not None and len(found) < MOST:
            found.setdefault(offer.url, offer)
    return tuple(found.values())


def _offer(attributes: dict[str, str], base: str) -> Offer | None:
    kind = attributes.get("type", "").partition(";")[0].strip().lower()
    rel = attributes.get("rel", "").lower().split()
    href = attributes.get("href", "")
    # WordPress names its API in the same way.
    if "alternate" not in rel or "stylesheet" in rel or kind not in _TYPES or not href or "/wp-json/" in href:
        return None
    try:
        return Offer(checked(joined(base, href)), cut(line(attributes.get("title", "")), 200), kind)
    except BadSource:
        return None


def _attributes(text: str) -> dict[str, str]:
    found = dict[str, str]()
    for name, double, single, bare in _ATTRIBUTE.findall(text):
        found.setdefault(name.lower(), html.unescape(double or single or bare))
    return found
