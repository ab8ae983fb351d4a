"""A Signal under the test kit of nextdue: real files, a real server, and a clock that moves when it is told to."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from apps.signal.tests.samples import NOW
from apps.signal.tests.server import Request, Script, Server
from nextdue.testing import Sandbox
from signal_feeds import parsing
from signal_feeds.app import Signal
from signal_feeds.collecting import Line
from signal_feeds.fetching.client import Client
from signal_feeds.records import Answer, Offer, Parsed, Source
from signal_feeds.settings import network
from signal_feeds.store import Store

QUIET = """
[builtin]
fixture-rss = false
fixture-atom = false
fixture-json = false
github-blog = false
"""
"""No source but those of the test."""


class World:
    """One folder, its server and its clock."""

    def __init__(self, folder: Path, sandbox: Sandbox, server: Server, settings: str = QUIET) -> None:
        self.sandbox, self.server, self.lines = sandbox, server, list[Line]()
        self.folder = folder
        self.takes_ms = 0
        """How long each request takes by Signal's clock."""
        self._passed_ms = 0
        self.write(settings)
        self.begin()

    def write(self, settings: str) -> None:
        (self.folder / "signal.toml").write_text(settings)

    def begin(self) -> None:
        """What a start of a worker does. Again: another file, with the settings as they are now."""
        self.signal = Signal(
            self.folder, fetch=self._fetch, parse=_parse, offers=_offers, now_ms=self.now, tell=self.lines.append
        )
        self.sandbox.use(self.signal.nd, at=None if self.sandbox.files else datetime.fromtimestamp(NOW / 1000, UTC))
        self.signal.store = Store(self.signal.nd.path)
        self._client = Client(allow_net=[network("127.0.0.0/8")], now_s=lambda: self.now() / 1000)
        self.signal.install()

    async def _fetch(self, url: str, *, etag: str | None, last_modified: str | None) -> Answer:
        try:
            return await self._client.fetch(url, etag=etag, last_modified=last_modified)
        finally:
            self._passed_ms += self.takes_ms

    def now(self) -> int:
        """UTC ms."""
        return int(self.sandbox.now.timestamp() * 1000) + self._passed_ms

    def put(self, name: str, *scripts: Script, address: str = "127.0.0.1", first: bool = True) -> Source:
        """A source whose requests are answered so, one after the other; the last one stays. It is asked at once."""
        from apps.signal.tests.behaviours import in_turn

        self.server.put(f"/{name}", in_turn(*scripts))
        source = self.signal.add(self.server.url(f"/{name}", address), name)
        if first:
            self.until_due(name)
        return source

    def row(self, name: str) -> Source:
        return self.signal.store.source(name)

    def due(self, name: str) -> int:
        """When it is asked next, UTC ms."""
        (found,) = self.query("SELECT due_ms FROM nextdue_tasks WHERE name = 'collect' AND key = ?", name)
        return int(found["due_ms"])

    def wait_s(self, name: str) -> float:
        """How long its next due is after the end of its last attempt."""
        return (self.due(name) - (self.row(name).last_attempt or 0)) / 1000

    def query(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        return self.signal.store.connection().execute(sql, values).fetchall()

    def attempts(self, name: str) -> list[sqlite3.Row]:
        """Its history, the oldest first."""
        return self.query(
            "SELECT a.* FROM attempt a JOIN source s ON s.number = a.source WHERE s.id = ? ORDER BY a.id", name
        )

    def seen(self, name: str) -> list[Request]:
        """The requests that the server got."""
        return self.server.seen(f"/{name}")

    def until_due(self, name: str) -> None:
        """Let time pass until it has been asked once more."""
        before = len(self.attempts(name))
        left_ms = self.due(name) - self.now() + self._passed_ms
        self.sandbox.advance(max(left_ms + 1, 0) / 1000)
        assert len(self.attempts(name)) == before + 1


async def _parse(body: bytes, content_type: str, url: str, *, now_ms: int) -> Parsed:
    return parsing.parse(body, content_type, url, now_ms=now_ms)


async def _offers(body: bytes, content_type: str, url: str) -> tuple[Offer, ...]:
    return parsing.offers(body, content_type, url)


@pytest.fixture
def world(tmp_path: Path, server: Server) -> Iterator[World]:
    """One, empty."""
    (tmp_path / "sandbox").mkdir()
    with Sandbox(tmp_path / "sandbox") as sandbox:
        world = World(tmp_path, sandbox, server)
        yield world
        world.signal.close()
