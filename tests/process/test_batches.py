"""Many coroutines whose ends another thread commits together, as a program does that spares commits."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nextdue import Context, LeaseLost, Nextdue
from nextdue.sqlite.inspect import check
from tests.process.harness import until

MANY = 50
LOST = 17


class Recorder:
    """Commits the ends of all coroutines in one transaction; if that fails, of each alone."""

    def __init__(self, nd: Nextdue, many: int) -> None:
        self.nd, self.many = nd, many
        self.given: list[tuple[Context, int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self.full = threading.Event()
        self.before = lambda: None
        self.transactions: list[str] = []
        self.thread = threading.Thread(target=self.work)

    async def record(self, ctx: Context, n: int) -> None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        self.given.append((ctx, n, loop, told))
        if len(self.given) == self.many:
            self.full.set()
        await told

    def work(self) -> None:
        self.full.wait()
        self.before()
        try:
            self.write(self.given)
        except LeaseLost:
            for one in self.given:
                with contextlib.suppress(LeaseLost):
                    self.write([one])

    def write(self, batch: list[Any]) -> None:
        try:
            with self.nd.transaction() as tx:
                for ctx, n, *_ in batch:
                    with ctx.finish(tx=tx, again="1h"):
                        tx.execute("INSERT INTO written VALUES (?)", (n,))
            self.transactions.append(f"{len(batch)} committed")
        except LeaseLost as lost:
            self.transactions.append(f"{len(batch)} rolled back")
            for _, _, loop, told in batch if len(batch) == 1 else []:
                loop.call_soon_threadsafe(told.set_exception, lost)
            raise
        for _, _, loop, told in batch:
            loop.call_soon_threadsafe(told.set_result, None)


@pytest.fixture
def nd(tmp_path: Path) -> Iterator[Nextdue]:
    nd = Nextdue(tmp_path / "shop.db")
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE written(n INTEGER)")
    yield nd
    nd.close()


@pytest.mark.beside
@pytest.mark.parametrize("lost", [None, LOST])
def test_fifty_coroutines_end_in_one_transaction_of_another_thread(nd: Nextdue, lost: int | None) -> None:
    """Laws 5 and 14: one whose lease is lost takes the whole batch back; then each is done alone, and it isn't."""
    settled: list[str] = []
    recorder = Recorder(nd, MANY)

    @nd.task(limit=1, rate="30/m")
    async def fetch(ctx: Context, n: int) -> None:
        await recorder.record(ctx, n)

    def steal() -> None:
        with nd.transaction() as tx:
            tx.execute("UPDATE nextdue_task SET token = token + 1000 WHERE key = ?", (str(lost),))

    if lost is not None:
        recorder.before = steal
    for n in range(MANY):
        fetch.using(key=str(n), group=f"host{n}").enqueue(n)
    recorder.thread.start()
    with nd.working(loop=MANY, hook=lambda settlements: settled.extend(s.outcome for s in settlements)) as service:
        ends = MANY - (lost is not None)
        until(lambda: len(settled) == ends)
        assert service.worker is not None
        totals = dict(service.worker.totals)
    recorder.thread.join()
    alone = ["1 committed"] * LOST + ["1 rolled back"] + ["1 committed"] * (MANY - LOST - 1)
    assert recorder.transactions == ([f"{MANY} committed"] if lost is None else [f"{MANY} rolled back", *alone])
    with nd.transaction() as tx:
        written = [n for (n,) in tx.execute("SELECT n FROM written ORDER BY n")]
    assert written == [n for n in range(MANY) if n != lost]
    assert settled == ["done"] * ends
    assert totals["done"] == ends
    assert {handle.state for handle in nd.find() if handle.key != str(lost)} == {"waiting"}
    with contextlib.closing(nd.open_store()) as store:
        assert check(store.database) == []
