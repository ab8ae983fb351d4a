"""Looking into the file without changing it: the fsck of the tables, what waits, who works."""

import json
import os
import re
import socket
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from nextdue.sqlite.database import Database
from nextdue.sqlite.lives import Lives
from nextdue.sqlite.migrate import VERSION, statements

PAGE = "inspect.sql"
FINDINGS = 50
"""The most findings of one kind that check() lists."""
_MADE = re.compile(r"^CREATE (?:UNIQUE )?(TABLE|INDEX|VIEW|TRIGGER) (nextdue_\w+)", re.MULTILINE)


class Readable(Protocol):
    """What these functions need of a database."""

    def bring(self, page: str) -> bool:
        """Have the statements of a page at hand."""
        ...

    def rows(self, name: str, params: Mapping[str, Any]) -> list[Any]:
        """All rows of a statement."""
        ...


@cache
def objects() -> dict[str, str]:
    """Our tables, indexes, views and triggers: name to kind, as the migrations make them."""
    found: dict[str, str] = {}
    for number in range(1, VERSION + 1):
        found.update((name, kind) for text in statements(number) for kind, name in _MADE.findall(text))
    return found


def rows(database: Readable, name: str, params: Mapping[str, Any] | None = None) -> list[Any]:
    """All rows of a statement of inspect.sql."""
    database.bring(PAGE)
    return database.rows(name, params or {})


def value(database: Database, name: str, params: Mapping[str, Any] | None = None) -> Any:
    """The first value of the first row of a statement of inspect.sql."""
    return rows(database, name, params)[0][0]


def check(database: Readable, *, integrity: bool = True) -> list[str]:
    """The fsck of our tables: every broken invariant, one line each; [] for a sound file. Changes nothing.

    Without `integrity` SQLite's own check is left out, as where it was made of the whole file.
    """
    findings = [text for (text,) in rows(database, "check_objects", {"names": json.dumps(list(objects()))})]
    tables = [name for name, kind in objects().items() if kind == "TABLE"]
    if {finding.split()[1] for finding in findings} & set(tables):
        return findings
    findings += [text for (text,) in rows(database, "check_meta", {"version": VERSION}) if text]
    for table in tables if integrity else ():
        findings += [text for (text,) in rows(database, "check_integrity", {"name": table, "limit": FINDINGS})]
    for name in ("tasks", "keys", "marks", "waits", "lanes", "schedules", "runs", "endings", "workers"):
        found = rows(database, f"check_{name}", {"limit": FINDINGS + 1})
        findings += [text or f"{name}: NULL where none may be" for (text,) in found[:FINDINGS]]
        if len(found) > FINDINGS:
            findings.append(f"{name}: there are more findings than these {FINDINGS}")
    return findings


class Backlog(NamedTuple):
    """What waits in the file. Instants in UTC ms."""

    now: int
    waiting: Counter[str]
    """By name: neither finished nor running."""
    running: Counter[str]
    resting: Counter[str]
    """Of those that wait: for other tasks, or for an event."""
    overdue: int
    """Due and not running, or running under a lease that ended."""
    oldest: int | None
    """The due of the one that is overdue longest."""
    next: int | None
    """The nearest due that is still to come."""


def backlog(
    database: Database,
    *,
    now: int | None = None,
    names: Collection[str] | None = None,
    queues: Collection[str] | None = None,
) -> Backlog:
    """What waits of these names and in these queues (None: of all)."""
    now = database.read("now", {"now": now})[0]
    waiting, running, resting = Counter[str](), Counter[str](), Counter[str]()
    overdue, oldest, nearest = 0, [], []

    def meant(name: str, queue: str) -> bool:
        return (queues is None or queue in queues) and (names is None or name in names)

    for name, queue, runs, count, late, first, coming in rows(database, "backlog", {"now": now}):
        if not meant(name, queue):
            continue
        (running if runs else waiting)[name] += count
        overdue += late
        if late:
            oldest.append(first)
        if coming is not None:
            nearest.append(coming)
    for name, queue, count in rows(database, "backlog_waits"):
        if meant(name, queue):
            waiting[name] += count
            resting[name] += count
    return Backlog(now, +waiting, +running, resting, overdue, min(oldest, default=None), min(nearest, default=None))


def names(database: Database) -> set[str]:
    """Every task name that this file has ever stored and still knows."""
    return {name for name, _ in rows(database, "lanes_known")}


def queues(database: Database) -> set[str]:
    """Every queue that this file knows."""
    return {queue for _, queue in rows(database, "lanes_known")}


class Life(NamedTuple):
    """One worker as the file and its lock tell of it."""

    id: int
    started: int
    host: str
    pid: int
    holds: int
    """How many tasks it holds."""
    state: Literal["alive", "dead", "unknown"]
    """By its lock; unknown where the lock's file is gone, so that only its leases speak."""
    said: tuple[list[str], list[str] | None] | None = None
    """The names and queues that it serves, None: all queues; None as a whole: it hasn't said yet."""

    def serves(self, name: str, queue: str) -> bool | None:
        """Whether it serves the tasks of this name and queue; None if it hasn't said yet."""
        if self.said is None:
            return None
        names, queues = self.said
        return name in names and (queues is None or queue in queues)

    def where(self) -> str:
        """Which process it is."""
        return f"worker {self.id} (pid {self.pid} on {self.host})"


def lives(database: Database) -> list[Life]:
    """The workers that the file knows, with whether they live."""
    locks = Lives(database.path)
    found = []
    for id, started, host, pid, serves, holds in rows(database, "workers_known"):
        there = (locks.folder / str(id)).exists()
        state: Literal["alive", "dead", "unknown"]
        if there:
            state = "alive" if locks.alive(id) else "dead"
        else:
            state = "dead" if host == socket.gethostname() and not _is_running(pid) else "unknown"
        found.append(Life(id, started, host, pid, holds, state, _serves(serves)))
    return found


def _serves(text: str | None) -> tuple[list[str], list[str] | None] | None:
    """As the worker wrote it; any program may have written something else."""
    try:
        return msgspec.json.decode(text or "null", type=tuple[list[str], list[str] | None] | None)
    except msgspec.MsgspecError:
        return None


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
