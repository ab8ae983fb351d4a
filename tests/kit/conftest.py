"""An application whose own file can't even be made: whatever touched it would fail."""

import contextlib
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from nextdue import Nextdue
from nextdue.testing import Sandbox

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def nd() -> Nextdue:
    return Nextdue("/nowhere/shop.db")


@pytest.fixture
def box(nextdue: Sandbox, nd: Nextdue) -> Sandbox:
    nextdue.use(nd, at=NOON)
    return nextdue


@pytest.fixture
def seen() -> list[Any]:
    """What the tasks of a test note."""
    return []


@pytest.fixture
def rows(nd: Nextdue) -> Callable[[], list[Any]]:
    """The rows of the test's file, as another program sees them."""

    def rows() -> list[Any]:
        with contextlib.closing(sqlite3.connect(nd.path)) as connection:
            return connection.execute("SELECT id, name, key, state FROM nextdue_tasks ORDER BY id").fetchall()

    return rows
