"""Tests of safe_export.py with the real engine and a clock that the test moves: run `pytest test_shop.py`.

The fixture `nextdue` comes with nextdue. The example's own database is never touched.
"""

import pytest
import safe_export

from nextdue import assert_repeatable

FILE = safe_export.HERE / "orders-2026-12-01.csv"


@pytest.fixture(autouse=True)
def app(nextdue):
    nextdue.use(safe_export.nd)
    FILE.unlink(missing_ok=True)


def test_the_export_is_written_in_the_night(nextdue):
    safe_export.export.using(delay="8h").enqueue("2026-12-01")
    assert nextdue.advance("7h") == {}
    assert not FILE.exists()
    assert nextdue.advance("1h") == {"done": 1}
    assert len(FILE.read_text("utf-8").splitlines()) == 1001


def test_a_worker_that_dies_before_the_rename_leaves_no_half_file(nextdue):
    safe_export.export.enqueue("2026-12-01")
    nextdue.crash_at("replace")
    assert nextdue.drain() == {"crashed": 1}
    assert not FILE.exists()
    assert nextdue.advance("1s") == {"done": 1}


def test_it_is_harmless_to_repeat():
    assert_repeatable(safe_export.export, ("2026-12-01",))
