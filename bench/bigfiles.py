"""Big databases for the figures of scale: built once by plain SQL, kept under build/, copied for each use."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import zlib
from pathlib import Path

from bench.rooms import TOP
from nextdue.sqlite.migrate import VERSION
from nextdue.sqlite.migrate import statements as migrations
from nextdue.sqlite.store import SqliteStore

NAME = "noop"
FAR_MS = 4_000_000_000_000  # 2096
_DAY_MS = 86_400_000

_COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
_FUTURE = (
    _COUNT + "INSERT INTO nextdue_task(lane, name, due, args, remember, created)"
    f" SELECT 1, '{NAME}', {FAR_MS} + i, '[1]', 0, 1764500000000 FROM n"
)
_TOMBSTONES = (
    _COUNT + "INSERT INTO nextdue_task(lane, name, rest, key, args, remember, claims, created, gone_at)"
    f" SELECT 1, '{NAME}', 'done', 'key-' || i, '[1]', {_DAY_MS}, 1, 1764500000000, {{gone}} FROM n"
)
_RUNS = (
    _COUNT + "INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, started, ended, outcome, worker)"
    f" SELECT i, '{NAME}', 'key-' || i, 1, 1764500000000, 1764500000000, 1764500000001, 'done', 1 FROM n"
)


def future(count: int, room: Path) -> None:
    """A database with so many tasks that are due in 2096, as `room`."""
    _copy(_built(f"future-{count}", [(_FUTURE, count)]), room)


def finished(count: int, room: Path) -> None:
    """A database with so many rows of finished tasks that still guard their keys, and a short history."""
    tombstones = _TOMBSTONES.format(gone=FAR_MS)
    _copy(_built(f"finished-{count}", [(tombstones, count), (_RUNS, min(count, 20_000))]), room)


def over(count: int, room: Path) -> None:
    """A database in which so many rows are to be purged: half of them tombstones, half of them history."""
    tombstones = _TOMBSTONES.format(gone=1764500000001)
    _copy(_built(f"over-{count}", [(tombstones, count // 2), (_RUNS, count // 2)]), room)


def _built(name: str, statements: list[tuple[str, int]]) -> Path:
    # A file of an older schema would be refused, or measured for what it isn't.
    schema = zlib.crc32("".join(text for n in range(1, VERSION + 1) for text in migrations(n)).encode())
    path = TOP / "build" / f"scale-{name}-{schema:08x}.db"
    if path.exists():
        return path
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.unlink(missing_ok=True)
    SqliteStore(fresh).close()
    with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as database:
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-1000000"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("BEGIN")
        database.execute("INSERT INTO nextdue_worker(id, started, host, pid) VALUES (1, 1, 'bench', 1)")
        database.execute("DELETE FROM nextdue_worker")
        database.execute(f"INSERT INTO nextdue_lane(queue, name, priority, alone) VALUES ('default', '{NAME}', 0, 0)")
        for statement, count in statements:
            database.execute(statement, (count,))
        database.execute("COMMIT")
    os.rename(fresh, path)
    return path


def _copy(path: Path, room: Path) -> None:
    shutil.copyfile(path, room)
    room.chmod(0o600)
