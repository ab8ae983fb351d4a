"""Folders for the pages to show: filled through the store's own functions and nextdue."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from nextdue import Nextdue, Task
from signal_feeds import editing, store
from signal_feeds.politeness import Next
from signal_feeds.reasons import Reason
from signal_feeds.records import Answer, Hints, Item, Offer, Parsed, Source
from signal_feeds.store import SQL, Tx, sources_in
from signal_feeds.store.attempts import Times, save_failure, save_success
from signal_feeds.urls import address_of

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = int(datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp() * 1000)


class Folder:
    """A folder with a database. `now` is the clock of all that is written."""

    def __init__(self, path: Path) -> None:
        self.path = path / "signal.db"
        self.lock = path / "signal.lock"
        self.nd = Nextdue(self.path)
        self.now = NOW

        @self.nd.task(name="collect")
        async def collect(source: str) -> None:
            raise AssertionError("nothing is collected here")

        self.collect: Task = collect
        self.write(store.install)

    def write(self, change: Callable[[Tx], object]) -> object:
        with self.nd.transaction() as tx:
            return change(tx)

    def add(self, id: str, url: str, *, due: int | None = None, origin: str = "added", kind: str = "http") -> Source:
        with self.nd.transaction() as tx:
            values = {"id": id, "url": url, "address": address_of(url), "kind": kind, "origin": origin}
            tx.execute(SQL["add_source"], {**values, "now": self.now})
            at = datetime.fromtimestamp((self.now if due is None else due) / 1000, UTC)
            self.collect.using(tx=tx, key=id, due=at).enqueue(id)
        return self.source(id)

    def source(self, id: str) -> Source:
        with self.nd.transaction() as tx:
            return sources_in(tx.execute(SQL["source"], {"id": id}))[0]

    def succeed(self, source: Source, *items: Item, ended: int, title: str = "", status: int = 200) -> None:
        parsed = Parsed(title, None, Hints(), items)
        answer = Answer(status, source.url, repr(items).encode())  # type: ignore[arg-type]
        times, then = Times(ended - 800, ended), Next(ended + 30 * MINUTE, 0)
        self.write(lambda tx: save_success(tx, self.source_in(tx, source), answer, parsed, times, then))

    def fail(
        self, source: Source, reason: Reason, *, ended: int, status: int | None = None, offers: tuple[Offer, ...] = ()
    ) -> None:
        times, then = Times(ended - 1_200, ended), Next(ended + HOUR, 0)
        self.write(lambda tx: save_failure(tx, self.source_in(tx, source), reason, status, times, then, offers))

    def source_in(self, tx: Tx, source: Source) -> Source:
        return sources_in(tx.execute(SQL["source"], {"id": source.id}))[0]

    def decide(self, entry: int, verdict: str, *, at: int | None = None) -> None:
        def change(tx: Tx) -> None:
            fingerprint = editing.look(tx, entry).current.fingerprint
            decide = editing.approve if verdict == "approved" else editing.reject
            decide(tx, entry, fingerprint, self.now if at is None else at)

        self.write(change)

    def close(self) -> None:
        self.nd.close()


def item(
    key: str,
    title: str,
    text: str = "Words.",
    *,
    html: str | None = None,
    link: str | None = None,
    author: str = "",
    published: int | None = NOW - DAY,
) -> Item:
    fingerprint = hashlib.sha256(f"{title}\n{link}\n{text}".encode()).hexdigest()
    return Item(key, fingerprint, title, link, author, f"<p>{text}</p>" if html is None else html, text, published)
