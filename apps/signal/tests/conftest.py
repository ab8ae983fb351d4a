"""What the tests of Signal share: hypothesis runs as in tests/, and the server that misbehaves.

A test that measures real time says so by itself: pytestmark = pytest.mark.alone.
"""

from collections.abc import Iterator

import pytest

import tests.conftest  # noqa: F401
from apps.signal.tests.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A fresh one per test, on a port of its own."""
    with Server() as server:
        yield server
