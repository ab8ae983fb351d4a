"""Schedules under a clock that somebody sets, and on a machine that sleeps."""

import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from nextdue import Retry, Snooze
from tests.schedules.conftest import NOON

H, M = timedelta(hours=1), timedelta(minutes=1)


def test_f007_a_clock_set_back_and_forth_fires_once(app, box, seen):
    """F007: asleep towards noon, an hour back, an hour on: once, when the clock shows noon."""
    nd = app(at=NOON - 10 * M)
    nd.cron("0 12 * * *", name="daily")(lambda ctx: seen.append((ctx.scheduled_for, ctx.late)))
    box.drain()
    box.step_clock(-H)
    box.advance("20m")
    assert seen == []
    box.step_clock(H)
    box.advance("3h")
    assert seen == [(NOON, 10 * M)]


def test_f007_a_clock_set_back_repeats_no_slot(app, box, seen):
    """F007: set back behind what has run: it waits for the next slot, and nothing runs twice."""
    nd = app()
    nd.cron("0 * * * *", name="hourly")(lambda ctx: seen.append(ctx.scheduled_for - NOON))
    box.advance("2h 30m")
    box.step_clock(-2 * H)
    box.advance("4h")
    assert seen == [H, 2 * H, 3 * H, 4 * H]
    (view,) = nd.schedules.list()
    assert (view.fired, view.missed_ever) == (4, 0)


@pytest.mark.parametrize(("missed", "runs"), [("run_once", [3 * H]), ("skip", []), ("all", [H, 2 * H, 3 * H])])
def test_f008_a_machine_that_slept_does_as_its_schedules_say(app, box, seen, missed, runs):
    """F008: the wall clock goes on by three hours and the other one doesn't: noticed at once, and one rule for all."""
    nd = app()
    nd.cron("0 * * * *", missed=missed, name="hourly")(lambda ctx: seen.append(ctx.scheduled_for - NOON))
    box.drain()
    box.step_clock(3 * H + 10 * M)
    box.advance("1s")
    assert seen == runs
    (view,) = nd.schedules.list()
    assert (view.fired + view.missed_ever, view.due / 1000) == (3, (NOON + 4 * H).timestamp())


def test_f003_each_minute_of_a_repeated_hour_has_its_run(app, box, seen):
    """F003: every minute through the night of 25 October: one run for each real minute."""
    nd = app(at=datetime(2026, 10, 24, 23, 59, 30, tzinfo=UTC))
    nd.cron("* * * * *", tz="Europe/Berlin", name="minutely")(lambda ctx: seen.append(ctx.scheduled_for))
    box.advance("2h")
    assert len(seen) == len(set(seen)) == 120


@pytest.mark.parametrize("lived", [True, False])
def test_f007_a_period_from_the_end_is_never_longer_than_itself(app, box, seen, lived):
    """F007: set back by a day while it waits, or while no worker lives: it waits for a period from then at most."""
    nd = app()
    nd.every("30m", name="poll")(lambda: seen.append(box.now))
    box.drain()
    box.advance("10m", working=lived)
    seen.clear()
    box.step_clock(-24 * H)
    set_back = box.now
    box.advance("110m")
    gaps = [later - one for one, later in pairwise([set_back, *seen])]
    assert len(gaps) == 3
    assert all(timedelta(0) < gap - H / 2 < timedelta(seconds=1) for gap in gaps)


def test_f007_a_period_that_failed_is_tried_again_within_itself(app, box, seen):
    """F007: set back by a day while it waits to be tried again: it waits for a period from then at most."""
    nd = app()

    @nd.every("30m", retry=Retry(base=1200, jitter=0))
    def poll(ctx):
        seen.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError("no")

    box.drain()
    box.step_clock(-24 * H)
    box.advance("29m")
    assert seen == [1]
    box.advance("2m")
    assert seen == [1, 2]
    box.advance("31m")
    assert seen == [1, 2, 1]


def test_a_period_from_the_end_keeps_its_jitter_and_its_beginning(app, box, seen):
    """F007: what is cut is only what no plan could have said."""
    nd = app()
    nd.every("30m", name="poll", jitter="2h")(lambda: seen.append("poll"))
    nd.every("30m", name="later", starting=NOON + 5 * H)(lambda: seen.append("later"))
    box.drain()
    dues = {view.name: view.due for view in nd.schedules.list()}
    for step in (-M, M, -M):
        box.step_clock(step)
        box.drain()
    assert {view.name: view.due for view in nd.schedules.list()} == dues
    assert seen == ["poll"]


def test_what_a_task_asked_for_itself_is_no_period(app, box, seen):
    """F007: neither a snooze nor finish(again=...) is brought nearer by a clock that is set back."""
    nd = app()

    @nd.every("30m")
    def poll(ctx):
        seen.append(box.now - NOON)
        with ctx.finish(again="5h"):
            pass

    @nd.every("30m")
    def nap():
        raise Snooze("6h")

    box.drain()
    dues = {view.name: view.due for view in nd.schedules.list()}
    box.step_clock(-H)
    box.advance("1h")
    assert {view.name: view.due for view in nd.schedules.list()} == dues
    box.advance("6h")
    assert seen[:2] == [timedelta(0), 5 * H + timedelta(milliseconds=1)]


@pytest.mark.parametrize("plan", ["{", "null", "[1]", '{"period_ms": "x"}', '{"period_ms": 1.5, "jitter_ms": 1e300}'])
def test_a_plan_that_is_none_keeps_no_worker_from_a_clock_that_was_set_back(app, box, seen, plan):
    nd = app()
    nd.every("30m", name="poll")(lambda: seen.append(box.now))
    nd.every("30m", name="other")(lambda: None)
    box.drain()
    with contextlib.closing(sqlite3.connect(box.files[0], isolation_level=None)) as db:
        db.execute("UPDATE nextdue_schedule SET plan = ? WHERE name = 'other'", (plan,))
        db.execute("UPDATE nextdue_task SET due = 253402300799999 WHERE name = 'other'")
    box.step_clock(-24 * H)
    box.advance("40m")
    assert len(seen) == 2


def test_f007_what_ran_under_a_clock_ten_years_ahead(app, box, seen):
    """F007: the next slot comes after that, none twice; a period goes on; paused and resumed it begins anew."""
    nd = app()
    nd.cron("0 * * * *", name="hourly")(lambda ctx: seen.append(ctx.scheduled_for))
    nd.every("1h", name="period")(lambda: seen.append("period"))
    box.drain()
    years = timedelta(days=3652)
    box.step_clock(years)
    box.drain()
    assert seen == ["period", "period", NOON + years]
    box.step_clock(-years)
    box.advance("2h 30m")
    assert seen[3:] == ["period", "period"]
    assert nd.schedules.pause("hourly")
    assert nd.schedules.resume("hourly")
    box.advance("1h")
    assert seen[5:] == [NOON + 3 * H, "period"]
