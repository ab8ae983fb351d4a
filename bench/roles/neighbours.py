"""Roles that live beside a worker: an application that commits to the same file, a process that computes."""

from __future__ import annotations

import sqlite3
import threading
import time

from bench import records
from bench.apps import bodies
from bench.roles import Playing

_COMMITS_TO_FULL_LENGTH = 1100  # SQLite starts the -wal anew after 1,000 pages, a commit here writes one or two


def application(side: str, seconds: float, rate: int) -> Playing:
    """Commit by raw sqlite3 to a table of its own, `rate` times a second; 0 = as fast as it can."""
    connection = sqlite3.connect(records.database(), timeout=5.0, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(bodies.ORDERS)
    if not rate:
        # A commit that extends the -wal costs more than one that overwrites it: both are compared with the
        # file at its full length, whoever opened it first.
        for _ in range(_COMMITS_TO_FULL_LENGTH):
            connection.execute(bodies.ORDER)
    yield
    begun = time.perf_counter()
    commits = 0
    while (elapsed := time.perf_counter() - begun) < seconds:
        if rate and commits > elapsed * rate:
            time.sleep(commits / rate - elapsed)
            continue
        connection.execute(bodies.ORDER)
        commits += 1
    return {"rate": commits / (time.perf_counter() - begun)}


def spinner(side: str, seconds: float, threads: int) -> Playing:
    """Compute in so many Python threads, touch no file: the least that a busy worker costs its neighbours."""
    workers = [threading.Thread(target=_compute, args=(seconds,)) for _ in range(threads)]
    yield
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {}


def _compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        bodies.spin(10)
