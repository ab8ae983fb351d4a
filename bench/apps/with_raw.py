"""The same puts by plain stdlib sqlite3: WAL, FULL, the least table a queue can do with (indexed by due)."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable

from bench import records

_TABLE = "CREATE TABLE IF NOT EXISTS task(id INTEGER PRIMARY KEY, name TEXT, due INT, args TEXT, token INT)"
_INDEX = "CREATE INDEX IF NOT EXISTS task_due ON task(due) WHERE due IS NOT NULL"
_INSERT = "INSERT INTO task(name, due, args) VALUES (?, ?, ?)"

_own = threading.local()


def connect(index: bool = True) -> sqlite3.Connection:
    """A connection with the durability every side has here; the wait for the lock is SQLite's own."""
    connection = sqlite3.connect(records.database(), timeout=5.0, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_TABLE)
    if index:
        connection.execute(_INDEX)
    return connection


def _connection() -> sqlite3.Connection:
    if not hasattr(_own, "connection"):
        _own.connection = connect()
    connection: sqlite3.Connection = _own.connection
    return connection


def _row(number: int) -> tuple[str, int, str]:
    return ("noop", time.time_ns() // 1_000_000, f"[{number}]")


def put(number: int) -> None:
    _connection().execute(_INSERT, _row(number))


def put_many(count: int, connection: sqlite3.Connection | None = None) -> Callable[[], object]:
    rows = [_row(number) for number in range(count)]
    target = connection or _connection()

    def at_once() -> None:
        target.execute("BEGIN IMMEDIATE")
        target.executemany(_INSERT, rows)
        target.execute("COMMIT")

    return at_once
