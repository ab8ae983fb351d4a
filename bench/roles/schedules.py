"""Roles that put thousands of schedules, and one that lives through a day in a moment."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from bench import records
from bench.apps import with_nextdue
from bench.roles import Playing
from nextdue import Cron, Nextdue, schedule
from nextdue.records import Declared
from nextdue.sqlite import schedules as stored
from nextdue.sqlite.alarm import ring
from nextdue.testing import Sandbox

_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney")
_DAY_MS = 86_400_000
_NAME = with_nextdue.noop.name
_WORKERS = "SELECT count(*) FROM nextdue_worker WHERE serves IS NOT NULL"
_LAST = "SELECT max(id) FROM nextdue_run"
_FIRED = (
    "SELECT count(*), coalesce(sum(runs), 0), max(started) FROM (SELECT count(*) AS runs, max(started) AS started"
    " FROM nextdue_run WHERE name = ? AND scheduled_for = ? AND outcome = 'done' GROUP BY key)"
)
_NEXT = "SELECT count(*) FROM nextdue_task WHERE name = ? AND due = scheduled_for AND due BETWEEN ? AND ?"


def _put(count: int, first_ms: int, apart_ms: int = 0) -> None:
    """Daily schedules in five zones, the first due at an instant (whole seconds), each `apart_ms` after the other."""
    rows = []
    for number in range(count):
        at = (first_ms + number * apart_ms) // 1000 * 1000
        tz = _ZONES[number % len(_ZONES)]
        wall = datetime.fromtimestamp(at / 1000, UTC).astimezone(ZoneInfo(tz))
        plan = schedule.plan_of(Cron(f"{wall.second} {wall.minute} {wall.hour} * * *", tz=tz))
        text = schedule.written(plan)
        rows.append(Declared(_NAME, f"{schedule.MARK}{number}", "default", 0, f"[{number}]", text, None, at, at))
    with with_nextdue.nd.caller.use() as store:
        stored.put(store, rows)
    ring(with_nextdue.nd.path)


def schedules_ahead(side: str, count: int) -> Playing:
    """A READY task, and schedules that are due one after the other in the day that begins in an hour."""
    with_nextdue.put_stamp(records.READY)
    _put(count, time.time_ns() // 1_000_000 + 3_600_000, _DAY_MS // count)
    yield
    return {}


def schedules_at_once(side: str, count: int, in_s: float, workers: int, timeout_s: float = 60.0) -> Playing:
    """Schedules that are due at one instant before idle workers: when the last was started, lost and doubled."""
    with_nextdue.put_stamp(records.READY)
    yield
    uri = f"{records.database().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as looks:
        while looks.execute(_WORKERS).fetchone()[0] < workers:
            time.sleep(0.01)
        at = (time.time_ns() // 1_000_000 + int(in_s * 1000)) // 1000 * 1000 + 1000
        _put(count, at)
        before = looks.execute(_LAST).fetchone()[0] or 0
        end = at / 1000 + timeout_s
        while (looks.execute(_LAST).fetchone()[0] or 0) < before + count and time.time() < end:
            time.sleep(0.005)
        time.sleep(0.2)  # for what would come twice
        fired, runs, last = looks.execute(_FIRED, (_NAME, at)).fetchone()
        # At the next instant of the same wall time: a day later, but where the clocks are changed.
        followed = looks.execute(_NEXT, (_NAME, at + _DAY_MS // 2, at + 2 * _DAY_MS)).fetchone()[0]
    return {"last_s": ((last or 0) - at) / 1000, "lost": 2 * count - fired - followed, "doubled": runs - fired}


def due_again_raw(side: str, count: int, batch: int = 50) -> Playing:
    """Claim 50, then make those 50 due a day later, each in one transaction, until nothing is due."""
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
    while True:
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(claim, (now + 300_000, now, batch)).fetchall()
        connection.execute("COMMIT")
        if not rows:
            break
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "UPDATE task SET due = ?, token = NULL WHERE id = ? AND token = 1", [(now + _DAY_MS, id) for (id,) in rows]
        )
        connection.execute("COMMIT")
    return {"last_s": time.perf_counter() - begun}


def day(side: str, rule: str, changes: int, minutes: int, seed: int) -> Playing:
    """So many changes spread over so long on a fake clock, seen by one of two rules: runs, and CPU in all."""
    nd = Nextdue(records.database())

    def look() -> None:
        """What would be done about the changes since the last run."""

    task = nd.on_demand("1m")(look) if rule == "on-demand" else nd.cron("* * * * *")(look)
    chance = random.Random(seed)
    at = sorted(chance.uniform(0, minutes) for _ in range(changes))
    yield
    runs = 0
    with Sandbox() as sandbox:
        sandbox.use(nd, at=datetime(2026, 12, 1, tzinfo=UTC))
        sandbox.drain()
        begun = time.process_time()
        for before, now in zip([0.0, *at], [*at, minutes + 1], strict=True):
            runs += sum(sandbox.advance(timedelta(minutes=now - before), limit=2 * minutes).values())
            if rule == "on-demand" and now <= minutes:
                task.enqueue()
        return {"runs": runs, "cpu_ms": (time.process_time() - begun) * 1000}
