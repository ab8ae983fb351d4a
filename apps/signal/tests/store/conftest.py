"""A real file with Signal's tables, and one source in it."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from signal_feeds import store
from signal_feeds.store import SQL


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection on which each statement commits by itself."""
    connection = sqlite3.connect(tmp_path / "signal.db", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    # What Signal needs of nextdue's tables is the due of a task.
    connection.execute("CREATE TABLE nextdue_tasks(name TEXT, key TEXT, due_ms INTEGER)")
    store.install(connection)
    add(connection, "ada")
    yield connection
    connection.close()


def add(tx: sqlite3.Connection, name: str) -> None:
    url = f"http://{name}.example/feed"
    values = {"id": name, "url": url, "address": f"{name}.example/feed", "kind": "http", "origin": "added", "now": 0}
    tx.execute(SQL["add_source"], values)
