"""What the tests of Signal share: the server that misbehaves."""

from collections.abc import Iterator

import pytest

from apps.signal.tests.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A fresh one per test, on a port of its own."""
    with Server() as server:
        yield server
