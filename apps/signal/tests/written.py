"""A database with sources and entries as the collector writes them, for what reads them."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from signal_feeds import store
from signal_feeds.records import Item
from signal_feeds.store import SQL
from signal_feeds.store.attempts import save_items
from signal_feeds.urls import address_of

START = 1_790_000_000_000
"""UTC ms; each writing is a second later than the one before."""


class Database:
    """Signal's tables, in memory or in a file. `tx` is what its functions take."""

    def __init__(self, path: str | Path = ":memory:") -> None:
        self.tx = sqlite3.connect(path, isolation_level=None)
        self.now = START
        store.install(self.tx)

    def later(self) -> int:
        self.now += 1000
        return self.now

    @contextmanager
    def begin(self) -> Iterator[sqlite3.Connection]:
        """A transaction, as nextdue opens them."""
        self.tx.execute("BEGIN IMMEDIATE")
        try:
            yield self.tx
        except BaseException:
            self.tx.execute("ROLLBACK")
            raise
        self.tx.execute("COMMIT")

    def source(self, id: str = "news", url: str | None = None, title: str | None = "The News") -> int:
        url = url or f"https://{id}.example/feed"
        values = {
            "id": id,
            "url": url,
            "address": address_of(url),
            "kind": "http",
            "origin": "added",
            "now": self.later(),
        }
        number = self.tx.execute(SQL["add_source"], values).lastrowid
        assert number is not None
        self.tx.execute(
            "UPDATE source SET title = ?, site = ? WHERE number = ?", (title, f"https://{id}.example/", number)
        )
        return number

    def says(
        self,
        number: int,
        key: str,
        title: str = "A title",
        text: str = "Some text.",
        link: str | None = "https://news.example/1",
        html: str | None = None,
        author: str = "",
        published: int | None = START - 86_400_000,
    ) -> int:
        """The source says this of the entry with this key; answers the entry's id."""
        fingerprint = fingerprint_of(title, link, text)
        item = Item(key, fingerprint, title, link, author, html or f"<p>{text}</p>", text, published)
        save_items(self.tx, number, (item,), self.later())
        (entry,) = self.tx.execute("SELECT id FROM entry WHERE source = ? AND key = ?", (number, key)).fetchone()
        return int(entry)

    def dump(self) -> list[str]:
        """All rows of all tables: equal where nothing has changed."""
        return list(self.tx.iterdump())


def fingerprint_of(title: str, link: str | None, text: str) -> str:
    return hashlib.sha256("\0".join((title, link or "", text)).encode()).hexdigest()
