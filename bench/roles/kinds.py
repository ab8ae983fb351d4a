"""Roles that put tasks of the kinds that only nextdue has."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator

from bench import records, walfile
from bench.apps import bodies
from bench.apps.kinds import KINDS
from bench.roles import Playing


class _History:
    """How many attempts were settled, by the newest line's number: as quick after many as after few."""

    def __init__(self, looks: sqlite3.Connection) -> None:
        self._looks = looks

    def newest(self) -> int:
        (newest,) = self._looks.execute("SELECT coalesce(max(id), 0) FROM nextdue_run").fetchone()
        return int(newest)

    def wait_for(self, line: int, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while (newest := self.newest()) < line:
            if time.monotonic() > end:
                raise TimeoutError(f"{line - newest} tasks are left after {timeout_s:g} s")
            time.sleep(0.001)

    def tasks(self, name: str, outcome: str) -> int:
        counted = "SELECT count(DISTINCT task) FROM nextdue_runs WHERE name = ? AND outcome = ?"
        return int(self._looks.execute(counted, (name, outcome)).fetchone()[0])


@contextlib.contextmanager
def _history() -> Iterator[_History]:
    uri = f"{records.database().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as looks:
        yield _History(looks)


def drain_kind(side: str, kind: str, count: int, timeout_s: float = 60.0) -> Playing:
    """Put `count` tasks at once before an idle worker; the rate from that commit until all have ended."""
    one = KINDS[kind]
    one.ready.enqueue()
    yield
    with _history() as history:
        history.wait_for(1, 20.0)  # the settlement of the task by which its worker said that it is up
        before = history.newest()
        one.put_many(count)
        begun = time.perf_counter()
        history.wait_for(before + count, timeout_s)
        took = time.perf_counter() - begun
        ended = history.tasks(one.task.name, one.outcome)
    if ended != count:
        raise RuntimeError(f"{ended} of {count} tasks ended as {one.outcome}")
    return {"rate": count / took}


def enqueue_kind(side: str, kind: str, count: int) -> Playing:
    """Put `count` tasks one at a time, without a worker; the rate."""
    one = KINDS[kind]
    one.put(-1)
    yield
    begun = time.perf_counter()
    for number in range(count):
        one.put(number)
    return {"rate": count / (time.perf_counter() - begun)}


def commits(side: str, kind: str, count: int) -> Playing:
    """Put one task after another, each when the one before is settled; the commits to the file for each."""
    one = KINDS[kind]
    one.ready.enqueue()
    with contextlib.closing(sqlite3.connect(records.database())) as database:
        database.execute(bodies.ORDERS)
    yield
    with _history() as history:
        history.wait_for(1, 20.0)
        for number in range(-1, count):
            if number == 0:  # the first one made the lane
                before = walfile.commits(records.database())
            line = history.newest() + 1
            one.put(number)
            history.wait_for(line, 20.0)
        time.sleep(0.1)  # so that nothing that comes later is missed
        after = walfile.commits(records.database())
    if after.salt != before.salt:
        raise RuntimeError("the -wal was begun anew meanwhile: its commits can't be counted")
    return {"commits": (after.count - before.count) / count}
