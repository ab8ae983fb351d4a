"""Hypothesis runs as in tests/. A test that measures real time says so by itself: pytestmark = pytest.mark.alone."""

import tests.conftest  # noqa: F401
