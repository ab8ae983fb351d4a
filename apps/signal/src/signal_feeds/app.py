"""Signal in one folder: its settings, its file, and the task that collects."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Literal

from nextdue import Context, Nextdue, Retry, Service
from signal_feeds import refreshing, store, urls
from signal_feeds.collecting import Collector, Fetch, FindOffers, Line, Parse
from signal_feeds.errors import BadSource
from signal_feeds.politeness import HOUR_S, JITTER_S, first_due
from signal_feeds.recording import Recorder
from signal_feeds.records import Origin, Source
from signal_feeds.settings import Declared, read_settings
from signal_feeds.store import SQL, Store, Tx, one, sources_in

SPACING = "30/m"
"""Two requests to one host begin 2 s apart, unless signal.toml says otherwise, and never run at once."""
OnConflict = Literal["ignore", "earliest", "replace"]
LOCAL, HTTP = "local", "http"
"""The queues: what is read from this machine, and what is asked over the network."""


class Signal:
    """One folder: signal.toml, signal.db, signal.lock. Nothing is opened or made before it is needed.

    `fetch`, `parse`, `offers` and `now_ms` (UTC ms) are those of the real world by default; `tell` hears of each
    attempt. Raises BadSettings.

    >>> import tempfile
    >>> signal = Signal(Path(tempfile.mkdtemp()))
    >>> signal.install(); [source.id for source in signal.store.sources()]
    ['fixture-atom', 'fixture-json', 'fixture-rss', 'github-blog']
    """

    def __init__(
        self,
        folder: Path,
        *,
        fetch: Fetch | None = None,
        parse: Parse | None = None,
        offers: FindOffers | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tell: Callable[[Line], None] = lambda line: None,
    ) -> None:
        self.folder = folder.absolute()
        self.settings = read_settings(self.folder)
        self.path, self.lock = self.folder / "signal.db", self.folder / "signal.lock"
        self.now_ms, self.tell = now_ms, tell
        self.nd = Nextdue(self.path, exclusive=self.lock, queues=[LOCAL])
        self.store = Store(self.path)
        self._recorder = Recorder(self.nd.transaction)
        self._fetch, self._parse, self._offers = fetch, parse, offers
        self._collector: Collector | None = None

        # The retry is for attempts that couldn't be written down: all others set their next due themselves.
        @self.nd.task(
            limit=1,
            rate=SPACING,
            rates=self.settings.rates(),
            retry=Retry(base=60, cap=HOUR_S, jitter=JITTER_S, limit=None),
        )
        async def collect(ctx: Context, source: str) -> None:
            await self.collector().collect(ctx, source)

        self.collect = collect

    def collector(self) -> Collector:
        """What the task does; made when the first one runs, in the worker's event loop."""
        if self._collector is None:
            from signal_feeds.fetching.client import Client
            from signal_feeds.parsing.pool import Parser

            parser = Parser() if self._parse is None or self._offers is None else None
            self._collector = Collector(
                self.store,
                self._recorder,
                fetch=self._fetch or Client(contact=self.settings.contact, allow_net=self.settings.allow_net).fetch,
                parse=self._parse or parser.parse,  # type: ignore[union-attr]
                offers=self._offers or parser.offers,  # type: ignore[union-attr]
                now_ms=self.now_ms,
                interval_s=self.settings.interval_of,
                moved=self._put_under,
                tell=self.tell,
            )
        return self._collector

    def worker(self, *, network: bool = False, once: bool = False, jobs: int | None = None) -> Service:
        """A worker: it takes the lock, then makes or opens the file. Raises OwnerBusy, naming the holder."""
        service = self.nd.working(
            loop=jobs or self.settings.jobs, queues=[LOCAL, HTTP] if network else [LOCAL], once=once
        )
        service.open()
        self.install()
        return service

    # sources

    def install(self) -> None:
        """Make the tables, and bring the built-in sources and those of signal.toml into them. Again: nothing changes.

        One that is no longer named is orphaned: its task rests until it is named again.
        """
        named = self.settings.declared()
        with self.nd.transaction() as tx:
            store.install(tx)
            for declared in named:
                self._declare(tx, declared)
        ids = {declared.id for declared in named}
        for source in self.store.sources():
            orphaned = source.origin in ("builtin", "toml") and source.id not in ids
            task = self.nd.get("collect", source.id)
            if orphaned == source.orphaned or task is None:
                continue
            task.pause() if orphaned else task.resume()
            with self.nd.transaction() as tx:
                tx.execute(SQL["orphan"], {"number": source.number, "orphaned": orphaned})

    def add(self, url: str, name: str | None = None, origin: Origin = "added") -> Source:
        """A new source, asked for the first time within half an hour. Raises BadSource."""
        with self.nd.transaction() as tx:
            return self.add_in(tx, url, name, origin)

    def add_in(self, tx: Tx, url: str, name: str | None = None, origin: Origin = "added") -> Source:
        """The same as part of a transaction, in which nothing has happened if it raises BadSource."""
        checked = urls.checked(url)
        id = name if name is not None else _free_name(tx, urls.host_of(checked))
        return self._add(tx, Declared(id, checked, "http", origin))

    def refresh(self, name: str, who: str) -> None:
        """Ask for a request out of turn; the collector makes it. Raises UnknownSource, NotYet."""
        source, now = self.store.source(name), self.now_ms()
        with self.nd.transaction() as tx:
            refreshing.wish(tx, source, who, now)
            self._put(tx, source.id, source.url, source.kind, now, "earliest")

    def _declare(self, tx: Tx, declared: Declared) -> None:
        found = sources_in(tx.execute(SQL["source"], {"id": declared.id}))
        if not found:
            self._add(tx, declared)
        elif found[0].given != declared.url:
            address = urls.address_of(declared.url)
            _refuse_twin(tx, declared, address)
            values = {"number": found[0].number, "url": declared.url, "address": address}
            tx.execute(SQL["redeclare"], values)
            self._put(tx, declared.id, declared.url, declared.kind, self.now_ms(), "replace")

    def _add(self, tx: Tx, declared: Declared) -> Source:
        if one(tx, "source", id=declared.id) is not None:
            raise BadSource(f"a source is called {declared.id!r} already; choose another name with --name")
        address, now = urls.address_of(declared.url), self.now_ms()
        _refuse_twin(tx, declared, address)
        tx.execute(SQL["add_source"], {**declared._asdict(), "address": address, "now": now})
        due = now if declared.kind == "fixture" else first_due(now, declared.id)
        self._put(tx, declared.id, declared.url, declared.kind, due, "ignore")
        return sources_in(tx.execute(SQL["source"], {"id": declared.id}))[0]

    def _put(self, tx: Tx, id: str, url: str, kind: str, due_ms: int, on_conflict: OnConflict) -> None:
        """The task of a source: its due, its queue, and the group that the spacing counts by."""
        self.collect.using(
            tx=tx,
            key=id,
            queue=LOCAL if kind == "fixture" else HTTP,
            group=self.settings.group_of(id, url),
            due=datetime.fromtimestamp(due_ms / 1000, UTC),
            on_conflict=on_conflict,
        ).enqueue(id)

    def _put_under(self, tx: Tx, id: str, due_ms: int) -> None:
        """Its URL is on another host now: the spacing counts by that one from the next time on."""
        source = sources_in(tx.execute(SQL["source"], {"id": id}))[0]
        self._put(tx, id, source.url, source.kind, due_ms, "replace")

    def close(self) -> None:
        """Let go of the file."""
        self._recorder.close()
        self.store.close()
        self.nd.close()


def _refuse_twin(tx: Tx, declared: Declared, address: str) -> None:
    twin = one(tx, "source_by_address", address=address)
    if twin is not None and twin[1] != declared.id:
        raise BadSource(f"{declared.url} is there already: it is the source {twin[1]!r}")


def _free_name(tx: Tx, host: str) -> str:
    """The host, or the host and a number."""
    for number in count(1):
        name = host if number == 1 else f"{host}-{number}"
        if one(tx, "source", id=name) is None:
            return name
    raise AssertionError
