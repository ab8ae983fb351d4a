"""Which occurrence of a schedule is to run, against lists of all of them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextdue.clock import to_ms
from nextdue.cron import Cron
from nextdue.every import Every
from nextdue.schedule import (
    SKIP_AFTER_MS,
    Forward,
    Plan,
    _nth,
    first,
    following,
    forward,
    jittered,
    plan_of,
    retried_until,
    rule_of,
)

HOUR = 3_600_000
START = to_ms(datetime(2026, 10, 24, tzinfo=UTC))
RULES = [
    Cron("* * * * *", tz="Europe/Berlin"),
    Cron("*/20 2 * * *", tz="Europe/Berlin"),
    Cron("0,30 0-3 * * *", tz="Europe/Berlin"),
    Cron("0 * * * MON", tz="America/New_York"),
    Cron("15,45 30 2 * * *", tz="Australia/Lord_Howe"),
    Cron("0 0 1 * *"),
    Every("7m", anchor=datetime(2026, 10, 1, tzinfo=UTC)),
    Every("1000s", anchor=datetime(2026, 10, 24, 12, tzinfo=UTC)),
    Every(months=1, anchor=datetime(2026, 1, 31, 2, 30, tzinfo=UTC), tz="Europe/Berlin"),
]


def every_one(rule, slot, until):
    """All occurrences from `slot`, itself one, to `until`."""
    found = []
    at = slot
    while at is not None and at <= until:
        found.append(at)
        at = rule.next_ms(at)
    return found


def expected(plan, slot, now):
    """The rules in the plainest words: a list of what has come, and of it what may run."""
    rule = rule_of(plan)
    end = now if plan.ending_ms is None else min(now, plan.ending_ms)
    come = every_one(rule, slot, end)
    coming = rule.next_ms(come[-1])
    coming = None if coming is None or (plan.ending_ms is not None and coming > plan.ending_ms) else coming
    late = [now - one for one in come]
    if plan.missed == "skip":
        longest = SKIP_AFTER_MS if plan.window_ms is None else plan.window_ms
        run = come if len(come) == 1 and late[0] <= longest else []
    else:
        run = come[-(1 if plan.missed == "run_once" else plan.limit) :]
        if plan.window_ms is not None:
            run = [one for one in run if now - one <= plan.window_ms]
    if not run:
        return Forward(coming, len(come))
    return Forward(run[0], come.index(run[0]))


PLANS = st.builds(
    plan_of,
    st.sampled_from(RULES),
    missed=st.sampled_from(["run_once", "skip", "all"]),
    limit=st.integers(1, 30),
    window_ms=st.one_of(st.none(), st.integers(0, 40 * HOUR)),
)


@given(PLANS, st.integers(0, 30 * HOUR), st.integers(0, 40 * HOUR), st.one_of(st.none(), st.integers(0, 60 * HOUR)))
def test_what_is_missed_and_what_is_run(plan, shift, down, ending):
    """F009: with skip nothing is run late, and all is counted."""
    slot = rule_of(plan).next_ms(START + shift)
    assert slot is not None
    if ending is not None:
        plan = Plan(**{name: getattr(plan, name) for name in plan.__struct_fields__} | {"ending_ms": slot + ending})
    assert forward(plan, slot, slot + down) == expected(plan, slot, slot + down)


@given(st.sampled_from(RULES), st.integers(0, 30 * HOUR), st.integers(0, 30 * HOUR), st.integers(0, 50))
def test_the_nth(rule, shift, length, n):
    slot = rule.next_ms(START + shift)
    assert slot is not None
    come = every_one(rule, slot, slot + length)
    n = min(n, len(come) - 1)
    assert _nth(rule, slot, slot + length, n) == come[n]


@pytest.mark.parametrize("missed", ["run_once", "skip", "all"])
def test_in_time_it_simply_runs(missed):
    plan = plan_of(Cron("0 3 * * *"), missed=missed)
    slot = first(plan, START)
    assert slot is not None
    for late in (0, 1, 59_999, SKIP_AFTER_MS):
        assert forward(plan, slot, slot + late) == Forward(slot, 0)


def test_a_jump_over_three_occurrences_with_skip():
    """F009: none is run, three are counted, the next is the regular one."""
    plan = plan_of(Cron("0 * * * *"), missed="skip")
    slot = START + HOUR
    assert forward(plan, slot, slot + 2 * HOUR + 1) == Forward(slot + 3 * HOUR, 3)


def test_three_years_of_minutes():
    """However much was missed, it is found by counting days."""
    slot, now = START, START + 3 * 365 * 24 * HOUR
    minutes = 3 * 365 * 24 * 60
    for missed, answer in [
        ("run_once", Forward(now, minutes)),
        ("skip", Forward(now + 60_000, minutes + 1)),
        ("all", Forward(now - 99 * 60_000, minutes - 99)),
    ]:
        assert forward(plan_of(Cron("* * * * *", tz="Europe/Berlin"), missed=missed), slot, now) == answer


def test_a_period_from_the_end_misses_nothing():
    plan = plan_of(Every("30m"))
    assert forward(plan, START, START + 1000 * HOUR) == Forward(START, 0)
    assert following(plan, START, START + 5 * HOUR) == START + 5 * HOUR + HOUR // 2
    assert retried_until(plan, START, START + HOUR) == START + HOUR + HOUR // 2


def test_the_first_one():
    assert first(plan_of(Every("30m")), START) == START
    assert first(plan_of(Every("30m"), starting_ms=START + HOUR), START) == START + HOUR
    assert first(plan_of(Cron("0 * * * *")), START) == START + HOUR
    assert first(plan_of(Cron("0 * * * *"), starting_ms=START + 5 * HOUR), START) == START + 5 * HOUR
    assert first(plan_of(Cron("0 * * * *"), starting_ms=START - HOUR), START) == START + HOUR
    assert first(plan_of(Cron("0 * * * *"), ending_ms=START + HOUR), START) == START + HOUR
    assert first(plan_of(Cron("0 * * * *"), ending_ms=START + HOUR - 1), START) is None


@given(PLANS, st.integers(0, 30 * HOUR))
def test_the_next_follows_the_slot_and_not_the_clock(plan, shift):
    slot = rule_of(plan).next_ms(START + shift)
    assert slot is not None
    assert following(plan, slot, slot + 10**9) == rule_of(plan).next_ms(slot)
    assert retried_until(plan, slot, slot + 10**9) == (None if plan.missed == "all" else rule_of(plan).next_ms(slot))


@given(st.integers(0, 10**8), st.floats(0, 1, exclude_max=True))
def test_jitter_is_never_early(jitter, share):
    plan = Plan(period_ms=60_000, jitter_ms=jitter)
    assert START <= jittered(plan, START, lambda: share) <= START + jitter


@pytest.mark.parametrize(
    "rule",
    [
        *RULES,
        Cron("@daily", tz="Asia/Tokyo"),
        Cron("0 0 13 * 5", day_and=True),
        Cron("0 0 13 * 5", day_and=False),
        Every("30m"),
        Every(timedelta(milliseconds=1001)),
    ],
)
def test_a_plan_keeps_its_rule(rule):
    assert rule_of(plan_of(rule)) == rule
