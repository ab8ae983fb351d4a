"""From what a format says to entries: identity, dates, safe HTML, visible text, fingerprint."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from signal_feeds.parsing.cleaning import clean, text_of
from signal_feeds.parsing.encoding import without_controls
from signal_feeds.reasons import Failed
from signal_feeds.records import Item

DAY_MS = 86_400_000
EARLIEST_MS = -2_208_988_800_000
"""1900: a date before that is a mistake."""
LARGEST_HTML = 1 << 25
"""Characters of all entries."""
LONGEST_KEY = 1_000
LONGEST_TITLE = 1_000
LONGEST_AUTHOR = 200
_HTTPS = re.compile("https://", re.I)


class Draft(NamedTuple):
    """An entry as its format says it."""

    guid: str
    """As it is there; '' where there is none."""
    link: str | None
    """Canonical."""
    title: str
    """Text in one line."""
    author: str
    html: str
    """Whatever was sent."""
    base: str
    """By what the URLs in it are resolved."""
    published_ms: int | None


def items_of(drafts: Iterable[Draft], now_ms: int) -> tuple[Item, ...]:
    """The entries in the order of the document, no key twice.

    Twice the same guid: with the same link the last one stays, with different links each is known by guid and link.
    Raises Failed: too_large.
    """
    made, size = list[Item](), 0
    for draft in drafts:
        made.append(_item(draft, now_ms))
        size += len(made[-1].html)
        if size > LARGEST_HTML:  # what is misnested is written out again and again
            raise Failed("too_large")
    links: dict[str, set[str]] = {}
    for item in made:
        links.setdefault(item.key, set()).add(_link_of(item))
    items: dict[str, Item] = {}
    for item in made:
        clash = len(links[item.key]) > 1
        key = _short(f"{item.key}|{_link_of(item)}") if clash else item.key
        items[key] = msgspec.structs.replace(item, key=key) if clash else item
    return tuple(items.values())


def fingerprint(title: str, link: str | None, text: str) -> str:
    """64 hex digits over what a reader sees. Neither dates nor HTML: a new sanitiser changes none of them.

    >>> fingerprint("a  b", None, "c\\nd") == fingerprint("a b", None, "c d") != fingerprint("a b", "http://e/", "c d")
    True
    """
    seen = "\0".join((_normal(title), link or "", _normal(text)))
    return hashlib.sha256(seen.encode()).hexdigest()


def same_scheme(url: str) -> str:
    """An http URL as an https one; anything else as it is."""
    return f"https{url[4:]}" if url[:7].lower() == "http://" else f"https{url[5:]}" if _HTTPS.match(url) else url


def _item(draft: Draft, now_ms: int) -> Item:
    html = clean(draft.html, draft.base)
    text = text_of(html)
    title = cut(line(draft.title), LONGEST_TITLE)
    return Item(
        key=_key(line(draft.guid), draft, title, text),
        fingerprint=fingerprint(title, draft.link, text),
        title=title,
        link=draft.link,
        author=cut(line(draft.author), LONGEST_AUTHOR),
        html=html,
        text=text,
        published_ms=_believed(draft.published_ms, now_ms),
    )


def _key(guid: str, draft: Draft, title: str, text: str) -> str:
    """The guid, else the link, else a hash. The date in it is the one that was sent, which time doesn't change."""
    if guid or draft.link:
        return _short(same_scheme(guid or draft.link or ""))
    seen = "\0".join((_normal(title), str(draft.published_ms), _normal(text)))
    return f"sha256:{hashlib.sha256(seen.encode()).hexdigest()}"


def _short(key: str) -> str:
    return key if len(key) <= LONGEST_KEY else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def _link_of(item: Item) -> str:
    return same_scheme(item.link or "")


def _believed(published_ms: int | None, now_ms: int) -> int | None:
    """A date more than 24 h ahead, or of before 1900, is unknown."""
    return published_ms if published_ms is not None and EARLIEST_MS <= published_ms <= now_ms + DAY_MS else None


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))


def line(text: str) -> str:
    """Without control characters, in one line."""
    return " ".join(without_controls(text).split())


def cut(text: str, most: int) -> str:
    """At most so many characters, the last of them a mark if something was cut off."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
