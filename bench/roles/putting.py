"""Roles that put tasks and measure how long that takes, and those that feed a drain."""

from __future__ import annotations

import random
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import records
from bench.apps import Side, bodies, load
from bench.roles import Playing

HOUR_AHEAD = -2
_MILLISECONDS_AN_HOUR = 3_600_000


def prime(side: str, hour_ahead: bool = False) -> Playing:
    """Make the file, with a READY task and, if wished, one that is due in an hour."""
    app = load(side)
    app.put_stamp(records.READY)
    if hour_ahead:
        app.put_stamp_at(HOUR_AHEAD, time.time_ns() // 1_000_000 + _MILLISECONDS_AN_HOUR)
    yield
    return {}


def enqueue(
    side: str,
    count: int,
    threads: int = 1,
    seconds: float = 60.0,
    pause_ms: tuple[float, float] | None = None,
    spins: tuple[int, int] | None = None,
    seed: int = 0,
) -> Playing:
    """Put up to `count` tasks one at a time within `seconds`; the rate, and the longest wait of one."""
    app = load(side)
    if spins:
        app.put_stamp(records.READY)
        app.put_spins(*spins)
    else:
        app.put(0)
    loops = [_Loop(app.put, count // threads, seconds, pause_ms, seed + n) for n in range(threads)]
    yield
    begun = time.perf_counter()
    if threads == 1:
        loops[0].run()
    else:
        workers = [threading.Thread(target=loop.run) for loop in loops]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    took = time.perf_counter() - begun
    done = sum(loop.done for loop in loops)
    return {
        "rate": done / took,
        "done": done,
        "longest_ms": max(loop.longest_s for loop in loops) * 1000,
        "errors": sum(loop.errors for loop in loops),
    }


class _Loop:
    """Puts in a row, by one thread."""

    def __init__(
        self,
        put: Callable[[int], None],
        count: int,
        seconds: float,
        pause_ms: tuple[float, float] | None,
        seed: int,
    ) -> None:
        self._put, self._count, self._seconds, self._pause_ms = put, count, seconds, pause_ms
        self._random = random.Random(seed)
        self.done, self.longest_s, self.errors = 0, 0.0, 0

    def run(self) -> None:
        before = time.perf_counter()
        end = before + self._seconds
        while self.done + self.errors < self._count and before < end:
            try:
                self._put(self.done)
                self.done += 1
            except sqlite3.OperationalError:  # raw sqlite3 beside it may be starved out: that is a finding
                self.errors += 1
            after = time.perf_counter()
            self.longest_s = max(self.longest_s, after - before)
            if self._pause_ms:
                time.sleep(self._random.uniform(*self._pause_ms) / 1000)
                after = time.perf_counter()
            before = after


def enqueue_many(side: str, count: int, repeats: int, busy: bool = False, index: bool = True) -> Playing:
    """Put `count` at once, `repeats` times; the median rate. `busy`: beside one computing Python thread."""
    app = load(side)
    app.put_many(100)()
    calls = [_many(app, side, count, index) for _ in range(repeats)]
    yield
    rates = []
    with _computing(busy):
        for put in calls:
            begun = time.perf_counter()
            put()
            rates.append(count / (time.perf_counter() - begun))
    return {"rate": statistics.median(rates)}


def _many(app: Side, side: str, count: int, index: bool) -> Callable[[], object]:
    if side == "raw" and not index:
        from bench.apps import with_raw

        connection = with_raw.connect()
        connection.execute("DROP INDEX IF EXISTS task_due")
        return with_raw.put_many(count, connection)
    return app.put_many(count)


@contextmanager
def _computing(wanted: bool) -> Iterator[None]:
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            bodies.spin(5)

    thread = threading.Thread(target=compute, daemon=True)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if wanted:
            thread.join()


def work_feed(side: str, count: int, milliseconds: int) -> Playing:
    """Put the tasks that a killed worker has to finish."""
    app = load(side)
    for number in range(count):
        app.put_work(number, milliseconds)
    yield
    return {}


def drain_feed(side: str, count: int, timeout_s: float = 60.0) -> Playing:
    """Put `count` tasks at once before an idle worker, look every millisecond whether all are settled."""
    app = load(side)
    app.put_stamp(records.READY)
    put = app.put_many(count)
    yield
    looks = sqlite3.connect(f"{records.database().as_uri()}?mode=ro", uri=True, isolation_level=None)
    put()
    begun = time.perf_counter()
    while looks.execute("SELECT EXISTS (SELECT 1 FROM nextdue_tasks)").fetchone()[0]:
        if time.perf_counter() - begun > timeout_s:
            raise TimeoutError(f"tasks are left after {timeout_s:g} s")
        time.sleep(0.001)
    took = time.perf_counter() - begun
    history = looks.execute("SELECT count(*) FROM nextdue_runs WHERE name = 'noop'").fetchone()[0]
    return {"rate": count / took, "history": history}


def stamped_drain_feed(side: str, count: int) -> Playing:
    """A backlog between two stamps, for a queue without history whose worker takes tasks in their order."""
    app = load(side)
    app.put_stamp(0)
    app.put_many(count)()
    app.put_stamp(1)
    yield
    return {}


def drain_raw(side: str, count: int, batch: int = 50) -> Playing:
    """Claim 50, ack 50, each in one transaction, until nothing is due: what plain sqlite3 can do."""
    from bench.apps import with_raw

    with_raw.put_many(count)()
    connection = with_raw.connect()
    yield
    claim = (
        "UPDATE task SET due = ?, token = 1 WHERE id IN"
        " (SELECT id FROM task WHERE due <= ? ORDER BY due LIMIT ?) RETURNING id"
    )
    now = time.time_ns() // 1_000_000
    begun = time.perf_counter()
    done = 0
    while True:
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(claim, (now + 300_000, now, batch)).fetchall()
        connection.execute("COMMIT")
        if not rows:
            break
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("DELETE FROM task WHERE id = ? AND token = 1", rows)
        connection.execute("COMMIT")
        done += len(rows)
    return {"rate": done / (time.perf_counter() - begun)}
