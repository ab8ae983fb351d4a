"""Parts of the figures of scale."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator

from bench import records
from bench.apps import load
from bench.bigfiles import FAR_MS, NAME
from bench.roles import Playing

# What waits by lane and due, what runs by its lease: the look itself must not grow with the file.
_LEFT = (
    "SELECT EXISTS (SELECT 1 FROM nextdue_task t WHERE t.lane IN"
    f" (SELECT id FROM nextdue_lane WHERE name = '{NAME}') AND t.due < {FAR_MS} AND t.token IS NULL)"
    " OR EXISTS (SELECT 1 FROM nextdue_task t WHERE t.token IS NOT NULL)"
)


@contextlib.contextmanager
def _looking() -> Iterator[sqlite3.Connection]:
    uri = f"{records.database().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as looks:
        yield looks


def drain_beside(side: str, count: int, repeats: int = 1, timeout_s: float = 120.0) -> Playing:
    """Put `count` due tasks at once before an idle worker, so often; the rate until all are settled."""
    app = load(side)
    app.put_stamp(records.READY)
    puts = [app.put_many(count) for _ in range(repeats)]
    yield
    took = 0.0
    with _looking() as looks:
        for put in puts:
            put()
            begun = time.perf_counter()
            while looks.execute(_LEFT).fetchone()[0]:
                if time.perf_counter() - begun > timeout_s:
                    raise TimeoutError(f"tasks are left after {timeout_s:g} s")
                time.sleep(0.001)
            took += time.perf_counter() - begun
    return {"rate": count * repeats / took}


def long_reader(side: str, seconds: float) -> Playing:
    """Hold one snapshot for so long."""
    with _looking() as looks:
        looks.execute("BEGIN")
        looks.execute("SELECT count(*) FROM nextdue_lane").fetchone()
        yield
        time.sleep(seconds)
        looks.execute("ROLLBACK")
    return {}
