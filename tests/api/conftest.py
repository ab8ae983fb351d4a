"""The real engine for a user's code: a file, a store and a worker, under a clock that moves only when told to."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nextdue import Handle, Nextdue
from nextdue.clock import Duration, duration_ms
from nextdue.executors.inline import InlineExecutor
from nextdue.sqlite.database import Database
from nextdue.sqlite.inspect import check
from nextdue.sqlite.store import SqliteStore
from nextdue.testing import FakeClock, Sandbox
from nextdue.worker import Worker

PATIENCE = 2_000
"""More ticks than any test needs: a worker that spins fails instead of hanging."""


class _App(Nextdue):
    """An application whose store reads the fake clock."""

    clock: FakeClock

    def open_store(self) -> SqliteStore:
        clock = self.clock
        return SqliteStore(
            self.path, keep_rows=self._keep_rows, keep_ms=self._keep_ms, now=clock.now, monotonic_ms=clock.monotonic_ms
        )


class World:
    """One file, its clock, and workers that live as long as a call: no threads, no sleep, one task at a time."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock = path, FakeClock()
        self.seen: list[Any] = []
        """What tasks have noted."""
        self._apps: list[_App] = []
        self.nd = self.app()

    def app(self, **options: Any) -> Nextdue:
        """Another program on the same file, as after a deploy."""
        app = _App(self.path, **options)
        app.clock = self.clock
        self._apps.append(app)
        return app

    def work(self, nd: Nextdue | None = None, **options: Any) -> dict[str, int]:
        """Run all that is due now to its end; how many claims ended how."""
        return self.advance(0, nd, **options)

    def advance(self, time: Duration, nd: Nextdue | None = None, **options: Any) -> dict[str, int]:
        """Let time pass with a worker at work, which runs everything at its due."""
        with self._worker(nd or self.nd, **options) as worker:
            end = self.clock.now() + duration_ms(time)
            for _ in range(PATIENCE):
                if worker.tick() == 0:
                    continue
                wait = worker.look_ms()
                if wait is not None and self.clock.now() + wait <= end:
                    self.clock.advance(max(0, wait))
                    continue
                self.clock.advance(end - self.clock.now())
                return dict(worker.totals)
        raise AssertionError("the worker spins: something is due, and it neither runs nor rests")

    def run(self, handle: Any, time: Duration = 0) -> str:
        """Let time pass with a worker at work; the state of one task after that."""
        self.advance(time)
        return str(handle.state)

    @contextlib.contextmanager
    def _worker(self, nd: Nextdue, **options: Any) -> Iterator[Worker]:
        definitions = nd._definitions
        worker = Worker(
            nd.open_store(),
            InlineExecutor(definitions, nd.desk),
            {name: d.options for name, d in definitions.items()},
            **{
                "slots": {d.options.run_in: 4 for d in definitions.values()} or {"thread": 4},
                "random": lambda: 0.0,
                **options,
            },
        )
        try:
            yield worker
        finally:
            worker.close()

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """What another program does with the file."""
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def count(self) -> int:
        """How many tasks are stored, whatever their state."""
        if not self.path.exists():
            return 0
        return int(self.sql("SELECT count(*) FROM nextdue_task")[0][0])

    def orders(self) -> list[int]:
        """What the program's own table holds."""
        return [id for (id,) in self.sql("SELECT id FROM orders ORDER BY id")]

    def close(self) -> None:
        for app in self._apps:
            app.close()


def outcomes(handle: Handle) -> list[str]:
    """How its runs ended, the first one first."""
    return [run.outcome for run in reversed(handle.runs())]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "shop.db")
    yield world
    world.close()


@pytest.fixture
def nd(world: World) -> Nextdue:
    """The application of this test."""
    return world.nd


@pytest.fixture
def shop(world: World) -> World:
    """The same, with a table of the program's own."""
    with world.nd.transaction() as tx:
        tx.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY)")
    return world


@pytest.fixture
def receipt(shop: World) -> Any:
    """A task that notes its argument, beside that table."""

    @shop.nd.task
    def receipt(n: int) -> None:
        shop.seen.append(n)

    return receipt


@pytest.fixture
def refuses(world: World) -> Callable[..., contextlib.AbstractContextManager[None]]:
    """`with refuses(Error, "words"):` the block raises it, saying so, and stores nothing."""

    @contextlib.contextmanager
    def check(error: type[BaseException], words: str) -> Iterator[None]:
        before = world.count()
        with pytest.raises(error, match=words):
            yield
        assert world.count() == before

    return check


# effects: a sandbox, whose worker can be let die


def sound(path: Path) -> list[str]:
    """What check() finds in this file."""
    database = Database(path, create=False)
    try:
        return check(database)
    finally:
        database.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    """Of a test of effects: at its end check() finds nothing in its files."""
    with Sandbox(tmp_path) as box:
        yield box
        for file in box.files:
            assert not file.exists() or sound(file) == []
