"""What the tests of Signal share: hypothesis runs as in tests/, and the server that misbehaves.

A test that measures real time says so by itself: pytestmark = pytest.mark.alone.
"""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import tests.conftest  # noqa: F401
from apps.signal.tests.samples import add
from apps.signal.tests.server import Server
from signal_feeds import store

# As in the tests of nextdue: no deadline, for a machine may be busy; new examples at a desk, the same ones in CI.
settings.register_profile("signal", deadline=None, max_examples=100, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("signal")


@pytest.fixture
def server() -> Iterator[Server]:
    """A fresh one per test, on a port of its own."""
    with Server() as server:
        yield server


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A real file with Signal's tables and the source `ada`; a connection on which each statement commits by itself."""
    connection = sqlite3.connect(tmp_path / "signal.db", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    # What Signal needs of nextdue's tables is the due of a task.
    connection.execute("CREATE TABLE nextdue_tasks(name TEXT, key TEXT, due_ms INTEGER, state TEXT)")
    store.install(connection)
    add(connection, "ada")
    yield connection
    connection.close()
