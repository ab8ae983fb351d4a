"""The place in which a test's processes live."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import Place, place_in


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_in(tmp_path) as place:
        yield place
