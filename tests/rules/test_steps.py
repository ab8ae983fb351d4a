"""What definitions and answers cost, counted in calls of functions: the same on any machine, however busy it is."""

import sys
from datetime import UTC, datetime

import pytest

from nextdue import BadDefinition, Cron, Every
from nextdue.clock import to_ms
from nextdue.schedule import first, forward, plan_of

HOUR = 3_600_000
START = to_ms(datetime(2026, 10, 24, tzinfo=UTC))
THREE_YEARS = 3 * 365 * 24 * HOUR


def calls(do, most):
    """How many functions `do` calls; AssertionError at once if it is more than `most`."""
    count = 0

    def seen(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")
        assert count <= most, f"more than {most} calls"

    sys.setprofile(seen)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("expr", "day_and"),
    [
        *(
            (expr, None)
            for expr in ("0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 FEB *", "* * 31 2 *", "0 0 30 2 */2")
        ),
        *((expr, True) for expr in ("0 0 30 2 5#5", "0 0 L 2 2#1", "0 0 8-31 * 1#1")),
    ],
)
def test_a_date_that_never_comes_is_refused_after_few_steps(expr, day_and):
    """F015: in far less than 10 ms: it looks at some years, and through no calendar without an end."""

    def define():
        with pytest.raises(BadDefinition):
            Cron(expr, day_and=day_and)

    assert calls(define, 60_000) > 10


@pytest.mark.parametrize(
    "expr", ["0 0 29 2 *", "0 0 29 2 5#5", "59 23 29 2 1", "*/30 * * * *", "30 2 * * *", "0 0 L 2 *"]
)
def test_the_rarest_valid_one_is_found_after_few_steps(expr):
    """F017: over decades, day by day only within the months that match."""
    rare = Cron(expr, tz="America/New_York", day_and=True)
    assert calls(lambda: rare.next_ms(START), 20_000) > 1


@pytest.mark.parametrize(
    "rule",
    [
        Cron("* * * * *", tz="Europe/Berlin"),
        Cron("*/5 * * * * *", tz="America/Santiago"),
        Cron("30 2 * * *", tz="Africa/Casablanca"),
        Cron("0 * * * MON", tz="America/New_York"),
        Every("1m", anchor=datetime(2026, 10, 1, tzinfo=UTC)),
        Every(months=1, anchor=datetime(2026, 1, 31, 2, 30, tzinfo=UTC), tz="Europe/Berlin"),
    ],
)
@pytest.mark.parametrize(
    "missed",
    [
        *({"missed": missed} for missed in ("run_once", "skip", "all")),
        *({"missed": missed, "window_ms": HOUR} for missed in ("run_once", "skip", "all")),
        {"missed": "all", "limit": 1_000_000},
    ],
)
def test_three_years_of_downtime_are_few_steps(rule, missed):
    """F038: of 19 million missed occurrences or of 36 the right one is found by days, in far less than 50 ms."""
    plan = plan_of(rule, **missed)
    slot = first(plan, START)
    assert slot is not None
    assert calls(lambda: forward(plan, slot, START + THREE_YEARS), 150_000) > 1
