"""Values that several tests make the same way."""

import sqlite3
from typing import Any

from signal_feeds.records import Answer, Hints, Item, Parsed, Source
from signal_feeds.store import SQL

NOW = 1_796_083_200_000
"""2026-12-01 00:00 UTC, a Tuesday, in ms."""
NO_HINTS = Hints()
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def source(**values: Any) -> Source:
    """A source that was never asked, but for `values`."""
    plain: dict[str, Any] = {
        **{"number": 1, "id": "ada", "url": "http://ada.example/feed", "given": "http://ada.example/feed"},
        **{"kind": "http", "origin": "added", "orphaned": False, "added": NOW, "title": None, "site": None},
        **{"etag": None, "last_modified": None, "digest": None, "hints": Hints(), "fresh_s": 0, "failures": 0},
        **{"faults": 0, "last_error": None, "last_ok": None, "last_attempt": None, "not_before": 0},
        **{"gone_first": None, "gone_times": 0, "moved_to": None, "moved_first": None, "moved_times": 0},
        "same_as": None,
    }
    return Source(**{**plain, **values})


def item(key: str, text: str = "text", title: str = "title") -> Item:
    """An entry whose fingerprint is of its key's text and title."""
    fingerprint = f"{title}|{text}".encode().hex().ljust(64, "0")[:64]
    return Item(key, fingerprint, title, f"http://ada.example/{key}", "Ada", f"<p>{text}</p>", text, NOW)


def parsed(*items: Item, hints: Hints = NO_HINTS, cut: int = 0) -> Parsed:
    """A feed of these entries."""
    return Parsed("Ada's feed", "http://ada.example/", hints, items, cut)


def answer(body: bytes = b"<rss/>", **values: Any) -> Answer:
    """A 200 of `ada`."""
    return Answer(200, values.pop("url", "http://ada.example/feed"), body, **values)


def unchanged(**values: Any) -> Answer:
    """A 304 of `ada`."""
    return Answer(304, values.pop("url", "http://ada.example/feed"), **values)


def add(tx: sqlite3.Connection, name: str) -> None:
    """A source in the tables."""
    url = f"http://{name}.example/feed"
    values = {"id": name, "url": url, "address": f"{name}.example/feed", "kind": "http", "origin": "added", "now": 0}
    tx.execute(SQL["add_source"], values)
