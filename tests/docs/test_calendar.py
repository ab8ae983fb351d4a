"""The tables of docs/calendar.md say what Cron does."""

import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from nextdue import Cron
from nextdue.clock import to_ms
from tests.docs.pages import TOP

TEXT = (TOP / "docs" / "calendar.md").read_text("utf-8")
NIGHTS = [datetime(2026, 10, 25, tzinfo=UTC), datetime(2027, 3, 28, tzinfo=UTC)]
ROWS = [
    (night, *row)
    for night, part in zip(NIGHTS, re.split(r"\| expression .*\n", TEXT)[1:], strict=True)
    for row in re.findall(r"^\| `(.+?)` \| ([\d:, ]+|none) \|", part, re.MULTILINE)
]


def test_both_tables_are_found():
    assert len(ROWS) == 10


@pytest.mark.parametrize(("night", "expr", "says"), ROWS)
def test_a_night_is_as_the_page_says(night, expr, says):
    """F003 F005"""
    cron, start, end = Cron(expr, tz="Europe/Berlin"), to_ms(night) - 1, to_ms(night.replace(hour=2))
    found, at = [], cron.next_ms(start)
    while at is not None and at <= end:
        found.append(at)
        at = cron.next_ms(at)
    assert all(one < later for one, later in pairwise(found))
    times = [f"{datetime.fromtimestamp(at / 1000, UTC):%H:%M}" for at in found]
    assert says == (str(len(found)) if len(found) > 10 else ", ".join(times) or "none")
