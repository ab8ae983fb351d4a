"""Roles that put tasks which come after others, or wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from sqlite3 import connect

from bench import records
from bench.apps.kinds import noop, ready, threads, waits
from bench.roles import Playing
from nextdue import Handle


def chain(side: str, count: int) -> Playing:
    """`count` tasks, each after the one before; from the commit of the first until the last has ended."""
    up = ready.enqueue()
    with threads.transaction() as tx:
        first = last = noop.using(tx=tx, delay="1h").enqueue(0)
        for number in range(1, count):
            last = noop.using(tx=tx, after=last).enqueue(number)
    yield
    return {"took": _until(up, first.run_now, last)}


def fan_in(side: str, count: int) -> Playing:
    """One task after `count` others; from their commit until it has ended."""
    up = ready.enqueue()
    threads.pause(name="noop")
    last = noop.using(after=noop.enqueue_many([(number,) for number in range(count)])).enqueue(count)
    yield
    return {"took": _until(up, lambda: threads.resume(name="noop"), last)}


def _until(up: Handle[None], begin: Callable[[], object], last: Handle[None]) -> float:
    up.wait(20)
    begun = time.perf_counter()
    begin()
    if last.wait(60) != "done":
        raise RuntimeError(f"the last one is {last.state}")
    return time.perf_counter() - begun


def wait_many(side: str, count: int) -> Playing:
    """`count` tasks that rest until an event comes, as if each had begun to wait."""
    up = ready.enqueue()
    threads.pause(name="waits")
    with closing(connect(records.database(), isolation_level=None)) as database:
        waits.enqueue_many([(number,) for number in range(count)])
        # By plain SQL: to wait is a transaction each, and this is about what comes after that.
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE nextdue_task SET scheduled_for = due WHERE name = 'waits'")
        database.execute(
            "INSERT INTO nextdue_mark(task, label, begun, waits) "
            "SELECT id, '@event x', created, 'x' FROM nextdue_task WHERE name = 'waits'"
        )
        database.execute("UPDATE nextdue_task SET rest = 'waits', wished = due, due = NULL WHERE name = 'waits'")
        database.execute("COMMIT")
    threads.resume(name="waits")
    yield
    up.wait(20)
    if len(threads.find(name="waits", state="waiting")) != count:
        raise RuntimeError("not all of them wait")
    return {}
