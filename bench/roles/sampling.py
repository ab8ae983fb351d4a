"""Roles that take samples of a delay: of a pickup, of a due, of a raw notification."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from bench import records
from bench.apps import load
from bench.inotify import Watch
from bench.roles import Playing

_LONGEST_S = 30.0  # of one sample; beyond it the measurement has failed


def _records_path() -> Path:
    return Path(os.environ[records.RECORDS_VARIABLE])


def _pauses(count: int, seed: int, longest_ms: int = 30) -> list[float]:
    """Random, so as to be in step with nobody's period; long enough for a worker to fall asleep again."""
    generator = random.Random(seed)
    return [generator.uniform(0.005, longest_ms / 1000) for _ in range(count)]


def _sample(put: Callable[[int], object], count: int, seed: int, longest_pause_ms: int) -> list[int]:
    """Put one task at a time before an idle worker; the instants (monotonic ns) at which put had returned."""
    path = _records_path()
    before = records.count(path)
    returned = []
    for number, pause in enumerate(_pauses(count, seed, longest_pause_ms)):
        put(number)
        returned.append(time.monotonic_ns())
        time.sleep(pause)
        if records.count(path) <= before + number:
            # A poller: the next task must not come just as it has looked, which is the worst moment for it.
            records.wait_for(path, before + number + 1, _LONGEST_S)
            time.sleep(pause)
    return returned


def pickup(side: str, count: int, seed: int, longest_pause_ms: int = 30) -> Playing:
    app = load(side)
    app.put_stamp(records.READY)
    yield
    return {"returned": _sample(app.put_stamp, count, seed, longest_pause_ms)}


def raw_sql(side: str, count: int, seed: int, longest_pause_ms: int = 30) -> Playing:
    """The same by any program with SQL: a plain connection that knows nothing of nextdue but its view."""
    connection = sqlite3.connect(records.database(), timeout=5.0, isolation_level=None)
    statement = "INSERT INTO nextdue_tasks(name, args, due_utc, key) VALUES ('stamp', ?, NULL, NULL)"

    def put(number: int) -> None:
        connection.execute(statement, (f"[{number}]",))

    yield
    return {"returned": _sample(put, count, seed, longest_pause_ms)}


def dues(side: str, count: int, lead_ms: int, window_ms: int, seed: int) -> Playing:
    """Put tasks due at random milliseconds of a window that begins in `lead_ms`; wait until all have run."""
    app = load(side)
    app.put_stamp(records.READY)
    yield
    path = _records_path()
    before = records.count(path)
    chosen = _random_dues(count, lead_ms, window_ms, seed)
    for number, due_ms in enumerate(chosen):
        app.put_stamp_at(number, due_ms)
    if time.time_ns() // 1_000_000 >= min(chosen):
        raise RuntimeError("the first task was due before the last was put: the lead is too short")
    records.wait_for(path, before + count, _LONGEST_S)
    return {"dues": chosen}


def _random_dues(count: int, lead_ms: int, window_ms: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    begin = time.time_ns() // 1_000_000 + lead_ms
    return [begin + generator.randrange(window_ms) for _ in range(count)]


def sleeper(side: str, count: int, lead_ms: int, window_ms: int, seed: int) -> Playing:
    """The raw probe of lateness: one thread that sleeps to each due by time.sleep and writes nothing."""
    yield
    late_ms = []
    for due_ms in sorted(_random_dues(count, lead_ms, window_ms, seed)):
        while (ahead_ns := due_ms * 1_000_000 - time.time_ns()) > 0:
            time.sleep(ahead_ns / 1e9)
        late_ms.append((time.time_ns() - due_ms * 1_000_000) / 1e6)
    return {"late_ms": late_ms}


def _bell() -> Path:
    return records.database().with_name("bell")


def notify(side: str, count: int, seed: int) -> Playing:
    """Write one byte to a file, again and again; the instants at which the write had returned."""
    descriptor = os.open(_bell(), os.O_WRONLY | os.O_CREAT, 0o600)
    yield
    returned = []
    for pause in _pauses(count, seed):
        os.pwrite(descriptor, b"x", 0)
        returned.append(time.monotonic_ns())
        time.sleep(pause)
    return {"returned": returned}


def listen(side: str, count: int) -> Playing:
    """Sleep in inotify on that file; the instants at which it woke."""
    watch = Watch(_bell())
    yield
    woken: list[int] = []
    while len(woken) < count:
        events = watch.wait(_LONGEST_S)
        at = time.monotonic_ns()
        if events != 1:
            raise RuntimeError(f"{events} events at once: the samples can't be told apart")
        woken.append(at)
    watch.close()
    return {"woken": woken}
