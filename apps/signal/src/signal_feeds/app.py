"""Signal in one folder: its settings, its file, and the task that collects."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from nextdue import Context, Nextdue, Retry, Service
from signal_feeds import refreshing, store, urls
from signal_feeds.collecting import Collector, Fetch, FindOffers, Line, Parse
from signal_feeds.errors import BadSource
from signal_feeds.politeness import AHEAD_S, HOUR_S, JITTER_S, due_of_ahead, first_due, regular_due
from signal_feeds.recording import Recorder
from signal_feeds.records import Origin, Orphaned, Source
from signal_feeds.settings import DATABASE, Declared, Network, checked_name, read_settings
from signal_feeds.store import SQL, Store, Tx, one, sources_in

if TYPE_CHECKING:
    from signal_feeds.parsing.pool import Parser

SPACING = "30/m"
"""Two requests to one host begin 2 s apart, unless signal.toml says otherwise, and never run at once."""
OnConflict = Literal["ignore", "earliest", "replace"]
LOCAL, HTTP = "local", "http"
"""The queues: what is read from this machine, and what is asked over the network."""
GRACE_S = 5
"""What a fetch gets at a stop. It may take 30 s, but to ask once more harms less than a SIGKILL would."""
FILES = urls.host_of("fixture:")
"""The group of the fixtures: they are read one after the other, without a pause."""


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
        self.path, self.lock = self.folder / DATABASE, self.folder / "signal.lock"
        self.now_ms, self.tell = now_ms, tell
        self.nd = Nextdue(self.path, exclusive=self.lock, queues=[LOCAL])
        self.store = Store(self.path)
        self._recorder = Recorder(self.nd.transaction)
        self._fetch, self._parse, self._offers = fetch, parse, offers
        self._collector: Collector | None = None
        self._parser: Parser | None = None
        self._allow_net: tuple[Network, ...] = ()

        # The retry is for attempts that couldn't be written down: all others set their next due themselves.
        @self.nd.task(
            limit=1,
            rate=SPACING,
            rates={FILES: None, **self.settings.rates()},
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

            networks = (*self.settings.allow_net, *self._allow_net)
            client = Client(contact=self.settings.contact, allow_net=networks, robots=self.settings.robots)
            self._parser = parser = Parser()
            self._collector = Collector(
                self.store,
                self._recorder,
                fetch=self._fetch or client.fetch,
                parse=self._parse or parser.parse,
                offers=self._offers or parser.offers,
                now_ms=self.now_ms,
                interval_s=self.settings.interval_of,
                moved=self._put_under,
                tell=self.tell,
            )
        return self._collector

    # the worker

    def work(
        self,
        *,
        network: bool = False,
        once: bool = False,
        jobs: int | None = None,
        allow_net: Sequence[Network] = (),
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        """Collect in this thread, until SIGTERM or Ctrl-C; or `once`: what is due now, each source at most once.

        Without `network` only local files are read. `allow_net`: networks that may be asked beside those of the
        settings. It takes the lock, then makes or opens the file; then it calls `begun`, before it asks anybody. Raises
        OwnerBusy, naming the holder, and StoreError.
        """
        self._allow_net = tuple(allow_net)
        queues = [LOCAL, HTTP] if network else [LOCAL]
        try:
            service = self._worker(queues, once, jobs)
            due = self._due(queues) if once else {}
            begun()
            service.run()
            while once and not service.stopping() and (later := self._put_off(due)) is not None:
                service = self._worker(queues, once, jobs, later)
                service.run()
        finally:
            self._collector = None
            if self._parser is not None:
                self._parser.close()

    def _worker(self, queues: list[str], once: bool, jobs: int | None, not_before_ms: int = 0) -> Service:
        """One that has the lock and an open file. It waits for `not_before_ms` in between."""
        if HTTP in queues:
            # Now: the spacing counts from when a task is taken, and a first request that is late comes near the second.
            import signal_feeds.fetching.client  # noqa: F401
        service = self.nd.working(loop=jobs or self.settings.jobs, queues=queues, once=once, grace=GRACE_S)
        service.lock()
        try:
            stopped = _told_to_stop_within(max(0, not_before_ms - self.now_ms()) / 1000)
            self.install()  # before the worker notes what `once` means, so that what is new here belongs to it
            service.open()
            self._orphan_all()  # again: those whose worker was killed are given back by now
            if stopped:
                service.ask_to_stop()
        except BaseException:
            service.stop()
            raise
        return service

    def _due(self, queues: list[str]) -> dict[str, int | None]:
        """The sources that are due, and when each was asked last."""
        values = {"now": self.now_ms(), "queues": msgspec.json.encode(queues).decode()}
        return {row[0]: row[1] for row in self.store.rows("due", **values)}

    def _put_off(self, due: dict[str, int | None]) -> int | None:
        """When those of `due` come that another one of their host stood before, by the spacing; None: all are through.

        Those that are through leave `due`.
        """
        keys = msgspec.json.encode(list(due)).decode()
        rows = {row["id"]: row for row in self.store.rows("put_off", ids=keys)}
        left = {id: asked for id, asked in due.items() if id in rows and rows[id]["last_attempt"] == asked}
        if len(left) == len(due):
            return None  # nothing comes of waiting for them
        due.clear()
        due.update(left)
        dues = [rows[id]["due_ms"] for id in left if rows[id]["due_ms"] is not None]
        return min(dues, default=None)

    # sources

    def install(self) -> None:
        """Make the tables, and bring the built-in sources and those of signal.toml into them. Again: nothing changes.

        One that is no longer named is orphaned: its task rests until it is named again, and longer if a person had
        paused it. One that has only another name there is renamed. A source whose task is over, as after `nextdue
        cancel` or too many deaths of its worker, gets a new one.
        """
        every = self.settings.declared()
        named = msgspec.json.encode([declared.id for declared in every]).decode()
        with self.nd.transaction() as tx:
            store.install(tx)
            for declared in every:
                self._declare(tx, declared, named)
            for row in tx.execute(SQL["without_task"], {}).fetchall():
                source = self._source(tx, row[0])
                due = max(regular_due(source, self.settings.interval_of(source)), self.now_ms())
                self._put(tx, source.id, source.url, source.kind, due, "replace")
            self._bring_back(tx)
        for row in self.store.rows("without_source"):
            if (task := self.nd.get("collect", row[0])) is not None:
                task.cancel()
        self._orphan_all()

    def _bring_back(self, tx: Tx) -> None:
        """Those that a clock was ahead for wait no longer than they would by this one.

        Only their dues change: should it be this clock that is behind, the collector sends them back to their turn.
        """
        now = self.now_ms()
        for id, due in tx.execute(SQL["ahead"], {"now": now + AHEAD_S * 1000}).fetchall():
            source = self._source(tx, id)
            nearer = due_of_ahead(source, self.settings.interval_of(source), now)
            if due is not None and nearer < due:
                self._put(tx, id, source.url, source.kind, nearer, "earliest")

    def _orphan_all(self) -> None:
        ids = {declared.id for declared in self.settings.declared()}
        for source in self.store.sources_by("named_sources"):
            self._orphan(source, source.id not in ids)

    def _orphan(self, source: Source, orphaned: bool) -> None:
        task = self.nd.get("collect", source.id) if orphaned or source.orphaned else None
        if task is None:
            return
        if not orphaned:
            if source.orphaned == 1:
                task.resume()
            else:
                task.pause()  # a person had: that of before rests already, that of another name doesn't
            self._mark(source, 0)
        elif task.state != "running":  # else its worker was killed, and nobody has given it back yet: at the next start
            if not source.orphaned:
                self._mark(source, 2 if task.state == "held" else 1)
            if task.state == "waiting":
                task.pause()

    def _mark(self, source: Source, orphaned: Orphaned) -> None:
        with self.nd.transaction() as tx:
            tx.execute(SQL["orphan"], {"number": source.number, "orphaned": orphaned})

    def add(self, url: str, name: str | None = None, origin: Origin = "added") -> Source:
        """A new source, asked for the first time within half an hour. Raises BadSource."""
        with self.nd.transaction() as tx:
            return self.add_in(tx, url, name, origin)

    def add_in(self, tx: Tx, url: str, name: str | None = None, origin: Origin = "added") -> Source:
        """The same as part of a transaction, in which nothing has happened if it raises BadSource."""
        checked = urls.checked(url)
        id = checked_name(name) if name is not None else _free_name(tx, urls.readable(urls.host_of(checked)))
        return self._add(tx, Declared(id, checked, "http", origin))

    def refresh(self, name: str, who: str) -> None:
        """Ask for a request out of turn; the collector makes it. Raises UnknownSource, NotYet."""
        source, now = self.store.source(name), self.now_ms()
        with self.nd.transaction() as tx:
            refreshing.wish(tx, source, who, now)
            self._put(tx, source.id, source.url, source.kind, now, "earliest")

    def _declare(self, tx: Tx, declared: Declared, named: str) -> None:
        """`named`: the ids of all that are declared, as JSON."""
        found = sources_in(tx.execute(SQL["source"], {"id": declared.id}))
        if not found:
            if not _rename(tx, declared, named):
                self._add(tx, declared)
        elif found[0].given != declared.url:
            address = urls.address_of(declared.url)
            _refuse_twin(tx, declared, address)
            values = {"number": found[0].number, "url": declared.url, "address": address}
            tx.execute(SQL["redeclare"], values)
            tx.execute(SQL["drop_offers"], values)
            due = first_due(self.now_ms(), declared.id)
            self._put(tx, declared.id, declared.url, declared.kind, due, "replace")

    def _add(self, tx: Tx, declared: Declared) -> Source:
        if one(tx, "source", id=declared.id) is not None:
            raise BadSource("source.taken", name=declared.id)
        address, now = urls.address_of(declared.url), self.now_ms()
        _refuse_twin(tx, declared, address)
        tx.execute(SQL["add_source"], {**declared._asdict(), "address": address, "now": now})
        due = now if declared.kind == "fixture" else first_due(now, declared.id)
        self._put(tx, declared.id, declared.url, declared.kind, due, "ignore")
        return self._source(tx, declared.id)

    def _source(self, tx: Tx, id: str) -> Source:
        return sources_in(tx.execute(SQL["source"], {"id": id}))[0]

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
        source = self._source(tx, id)
        self._put(tx, id, source.url, source.kind, due_ms, "replace")

    def close(self) -> None:
        """Let go of the file."""
        self._recorder.close()
        self.store.close()
        self.nd.close()


def _told_to_stop_within(seconds: float) -> bool:
    """Wait so long; True at once if SIGTERM or SIGINT comes, which end a worker in its main thread."""
    told = threading.Event()
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        return told.wait(seconds)
    numbers = (signal.SIGTERM, signal.SIGINT)
    previous = {number: signal.signal(number, lambda *ignored: told.set()) for number in numbers}
    try:
        return told.wait(seconds)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _rename(tx: Tx, declared: Declared, named: str) -> bool:
    """Whether a source that is no longer named has this URL: then it goes on under this name."""
    values = {**declared._asdict(), "address": urls.address_of(declared.url), "named": named}
    return tx.execute(SQL["rename"], values).rowcount == 1


def _refuse_twin(tx: Tx, declared: Declared, address: str) -> None:
    twin = one(tx, "source_by_address", address=address)
    if twin is not None and twin[1] != declared.id:
        raise BadSource("source.twin", url=declared.url, name=twin[1])


def _free_name(tx: Tx, host: str) -> str:
    """The host, or the host and a number."""
    for number in count(1):
        name = host if number == 1 else f"{host}-{number}"
        if one(tx, "source", id=name) is None:
            return name
    raise AssertionError
