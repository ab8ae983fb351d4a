from datetime import UTC, datetime

import pytest

from nextdue import Nextdue
from nextdue.testing import Sandbox

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def box(tmp_path):
    with Sandbox(tmp_path) as box:
        yield box


@pytest.fixture
def seen():
    return []


@pytest.fixture
def app(box, tmp_path):
    """An application in the sandbox, at noon; call it again for one more on the same file, as after a deploy."""
    made: list[Nextdue] = []

    def app(at=NOON):
        nd = Nextdue(tmp_path / "shop.db")
        box.use(nd, at=at) if not made else box.use(nd)
        made.append(nd)
        return nd

    return app
