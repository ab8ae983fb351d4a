"""Looking into the file without changing it: the fsck of the tables, what waits, who works; and the uninstaller."""

import contextlib
import json
import os
import re
import shutil
import socket
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from nextdue.errors import StoreError
from nextdue.sqlite.database import Database
from nextdue.sqlite.files import beside
from nextdue.sqlite.lives import Lives
from nextdue.sqlite.migrate import VERSION, statements
from nextdue.statements import load

PAGE = "inspect.sql"
FINDINGS = 50
"""The most findings of one kind that check() lists."""
_MADE = re.compile(r"^CREATE (?:UNIQUE )?(TABLE|INDEX|VIEW|TRIGGER) (nextdue_\w+)", re.MULTILINE)


class Readable(Protocol):
    """What these functions need of a database."""

    sql: dict[str, str]

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
    if name not in database.sql:
        database.sql = {**database.sql, **load("nextdue.sqlite", PAGE)}
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
    for name in ("tasks", "keys", "lanes", "runs", "endings", "workers"):
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
    now = value(database, "inspect_now", {"now": now})
    waiting, running = Counter[str](), Counter[str]()
    overdue, oldest, nearest = 0, [], []
    for name, queue, count, late, first, coming, leased in rows(database, "backlog", {"now": now}):
        if (queues is not None and queue not in queues) or (names is not None and name not in names):
            continue
        waiting[name] += count - leased
        running[name] += leased
        overdue += late
        if late:
            oldest.append(first)
        if coming is not None:
            nearest.append(coming)
    return Backlog(now, +waiting, +running, overdue, min(oldest, default=None), min(nearest, default=None))


def names(database: Database) -> set[str]:
    """Every task name that this file has ever stored and still knows."""
    return {name for (name,) in rows(database, "names_known")}


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

    def where(self) -> str:
        """Which process it is."""
        return f"worker {self.id} (pid {self.pid} on {self.host})"


def lives(database: Database) -> list[Life]:
    """The workers that the file knows, with whether they live."""
    locks = Lives(database.path)
    found = []
    for id, started, host, pid, holds in rows(database, "workers_known"):
        there = (locks.folder / str(id)).exists()
        state: Literal["alive", "dead", "unknown"]
        if there:
            state = "alive" if locks.alive(id) else "dead"
        else:
            state = "dead" if host == socket.gethostname() and not _is_running(pid) else "unknown"
        found.append(Life(id, started, host, pid, holds, state))
    return found


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def uninstall(database: Database) -> None:
    """Drop our tables and views in one transaction, and remove our files beside the database.

    Raises StoreError, with nothing dropped, while a worker lives or something of the user's leans on our tables.
    """
    rows(database, "inspect_now", {"now": None})
    database.write("uninstall_begin", {})
    try:
        refuse_uninstall(database)
        for name in (
            "tasks_view",
            "runs_view",
            "task",
            "run",
            "result",
            "schedule",
            "pause",
            "rate",
            "lane",
            "worker",
            "meta",
        ):
            database.temporary(f"uninstall_{name}", {})
        database.temporary("uninstall_commit", {})
    except BaseException:
        with contextlib.suppress(StoreError):
            database.temporary("uninstall_rollback", {})
        raise
    for path in leftovers(database.path):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def refuse_uninstall(database: Database) -> None:
    """Raise StoreError if somebody still needs the tables."""
    for life in lives(database):
        if life.state == "alive" or (life.state == "unknown" and life.holds):
            raise StoreError(f"{life.where()} works on {database.path}; stop it first")
    leaning = [f"{kind} {name}" for kind, name in rows(database, "user_triggers")]
    if leaning:
        raise StoreError(f"{', '.join(leaning)} of yours would break without nextdue's tables; drop it first")


def leftovers(path: Path) -> list[Path]:
    """The files of ours beside the database, those that exist. -wal and -shm are SQLite's."""
    return [found for suffix in ("-wake", "-owner", "-workers") if (found := beside(path, suffix)).exists()]
