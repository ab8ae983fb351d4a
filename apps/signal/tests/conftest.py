"""What the tests of Signal share: hypothesis runs as in tests/, and the server that misbehaves.

A test that measures real time says so by itself: pytestmark = pytest.mark.alone.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

import tests.conftest  # noqa: F401
from apps.signal.tests.server import Server

# As in the tests of nextdue: no deadline, for a machine may be busy; new examples at a desk, the same ones in CI.
settings.register_profile("signal", deadline=None, max_examples=100, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("signal")


@pytest.fixture
def server() -> Iterator[Server]:
    """A fresh one per test, on a port of its own."""
    with Server() as server:
        yield server
