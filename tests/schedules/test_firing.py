"""Schedules fire once for each occurrence, whatever happens to the one before."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from nextdue import BadArguments, Cron, Every, Retry, Snooze
from nextdue.clock import to_ms
from tests.schedules.conftest import NOON

H = timedelta(hours=1)


def only(nd):
    (view,) = nd.schedules.list()
    return view


def test_a_period_begins_at_once_and_counts_from_the_end(app, box, seen):
    nd = app()

    @nd.every("30m")
    def poll(ctx):
        seen.append(box.now)

    box.takes("poll", "10m")
    box.advance("119m")
    starts = [at - NOON for at in seen]
    assert starts[0] == timedelta(0)
    gaps = [b - a for a, b in pairwise(starts)]
    assert all(timedelta(minutes=40) <= gap < timedelta(minutes=40, seconds=1) for gap in gaps)
    assert len(starts) == 3


def test_an_anchored_period_keeps_its_phase_however_long_it_takes(app, box, seen):
    nd = app()

    @nd.every("30m", anchor=NOON + timedelta(minutes=7))
    def poll(ctx):
        seen.append(ctx.scheduled_for - NOON)

    box.takes("poll", "10m")
    box.advance("2h")
    assert seen == [timedelta(minutes=m) for m in (7, 37, 67, 97)]


@pytest.mark.parametrize(("stopped", "started"), [(-10, 10), (-60, 120)])
def test_f012_f038_an_occurrence_in_a_downtime_runs_at_the_start(app, box, seen, stopped, started):
    """F012 F038: the worker is down around noon, for 20 s or three minutes; it runs once, late by what it says."""
    nd = app(at=NOON - H)

    @nd.cron("0 12 * * *")
    def daily(ctx):
        seen.append((ctx.scheduled_for, ctx.late, ctx.missed))

    box.at(NOON + timedelta(seconds=stopped))
    box.at(NOON + timedelta(seconds=started), working=False)
    box.advance("1h")
    assert seen == [(NOON, timedelta(seconds=started), 0)]
    assert only(nd).due / 1000 == (NOON + 24 * H).timestamp()


def test_of_many_missed_ones_the_latest_runs_and_knows_how_many(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *")
    def hourly(ctx):
        seen.append((ctx.scheduled_for, ctx.late, ctx.missed))

    box.drain()
    box.advance("10h 5m", working=False)
    box.drain()
    assert seen == [(NOON + 10 * H, timedelta(minutes=5), 9)]
    assert (only(nd).missed_ever, only(nd).fired) == (9, 1)
    box.advance("1h")
    assert seen[1:] == [(NOON + 11 * H, timedelta(0), 0)]
    assert [run.outcome for run in nd.get("hourly", "@hourly").runs()].count("missed") == 1


def test_f009_skip_runs_nothing_that_was_missed(app, box, seen):
    """F009: the clock jumps over three occurrences: none runs now, three are counted, the next is the regular one."""
    nd = app()

    @nd.cron("0 * * * *", missed="skip")
    def hourly(ctx):
        seen.append((ctx.scheduled_for, ctx.missed))

    box.drain()
    box.step_clock(3 * H + timedelta(minutes=30))
    box.drain()
    assert seen == []
    assert only(nd).missed_ever == 3
    box.advance("30m")
    assert seen == [(NOON + 4 * H, 3)]


def test_f099_a_busy_worker_is_late_and_silent_about_nothing(app, box, seen):
    """F099: the worker is busy for 90 s over the due: by default it runs, late."""
    nd = app(at=NOON - timedelta(seconds=30))

    @nd.cron("0 12 * * *")
    def daily(ctx):
        seen.append(ctx.late)

    @nd.task
    def busy():
        pass

    box.takes("busy", "2m")
    busy.enqueue()
    box.advance("3m")
    assert seen == [timedelta(seconds=90)]


def test_all_runs_each_of_the_latest(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *", missed="all", missed_limit=3)
    def hourly(ctx):
        seen.append((ctx.scheduled_for - NOON, ctx.missed))

    box.drain()
    box.advance("10h 5m", working=False)
    box.drain()
    assert seen == [(8 * H, 7), (9 * H, 0), (10 * H, 0)]
    assert only(nd).missed_ever == 7


def test_a_window_passes_over_what_is_too_late(app, box, seen):
    nd = app()

    @nd.cron("0 13 * * *", missed_window="1h")
    def daily(ctx):
        seen.append(ctx.scheduled_for)

    box.drain()
    box.advance("3h", working=False)
    box.drain()
    assert seen == []
    assert only(nd).missed_ever == 1
    box.advance("22h 30m", working=False)
    box.drain()
    assert seen == [NOON + 25 * H]


def test_three_years_of_downtime_are_one_run(app, box, seen):
    nd = app()

    @nd.cron("* * * * *")
    def minutely(ctx):
        seen.append((ctx.scheduled_for, ctx.missed))

    box.drain()
    box.advance(timedelta(days=3 * 365), working=False)
    box.advance("1s")
    assert seen == [(NOON + timedelta(days=3 * 365), 3 * 365 * 1440 - 1)]
    assert (only(nd).fired, only(nd).missed_ever) == (1, 3 * 365 * 1440 - 1)


@pytest.mark.parametrize("point", ["claim", "settle"])
def test_f040_a_killed_occurrence_is_run_again_with_its_slot(app, box, seen, point):
    """F040: killed right after the claim, or before its end is written: the same scheduled_for again."""
    nd = app()

    @nd.cron("0 13 * * *")
    def daily(ctx):
        seen.append((ctx.scheduled_for, ctx.crashes))

    box.crash_at(point)
    box.advance("2h")
    assert seen == [(NOON + H, crashes) for crashes in ((1,) if point == "claim" else (0, 1))]
    assert only(nd).fired == 1
    assert only(nd).due / 1000 == (NOON + 25 * H).timestamp()


def test_a_failing_occurrence_is_tried_again_until_the_next_one_is_due(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *", retry=Retry(base=600, cap=600, jitter=0, limit=None))
    def hourly(ctx):
        seen.append((ctx.scheduled_for - NOON, ctx.attempt))
        raise ValueError("no")

    box.at(NOON + 2 * H + timedelta(minutes=59))
    assert seen == [(hour * H, attempt) for hour in (1, 2) for attempt in range(1, 7)]
    assert (only(nd).fired, only(nd).missed_ever) == (2, 0)
    outcomes = [run.outcome for run in nd.get("hourly", "@hourly").runs()]
    assert outcomes.count("dead") == 2


def test_a_failing_period_is_never_longer_than_itself(app, box, seen):
    nd = app()

    @nd.every("30s", retry=Retry(base=10, jitter=0))
    def poll(ctx):
        seen.append((round((box.now - NOON).total_seconds()), ctx.attempt))
        raise ValueError("no")

    box.advance("2m")
    assert seen == [(0, 1), (10, 2), (30, 3), (60, 1), (70, 2), (90, 3), (120, 1)]


@pytest.mark.parametrize("error", [ValueError, KeyError, SystemExit])
def test_a_schedule_never_ends_by_failing(app, box, seen, error):
    """A daily task that fails for ever is still tried on day 400, and each dead occurrence is in the history."""
    nd = app()

    @nd.cron("0 13 * * *", retry=Retry(base=60, limit=2, give_up=(KeyError,)))
    def daily(ctx):
        seen.append(ctx.scheduled_for.date())
        raise error("no")  # a new one each time, or its traceback would grow from day to day

    box.advance(timedelta(days=400))
    assert only(nd).fired == 400
    assert len(set(seen)) == 400
    runs = nd.get("daily", "@daily").runs()  # the history goes 30 days back
    assert len({run.scheduled_for for run in runs if run.outcome == "dead"}) >= 29


def test_a_schedule_never_ends_by_killing_its_worker(app, box, seen):
    nd = app()

    @nd.cron("0 13 * * *")
    def daily(ctx):
        seen.append(ctx.scheduled_for - NOON)

    for nth in (1, 2, 3):
        box.crash_at("settle", nth=nth)
    box.advance(timedelta(days=3))
    assert seen == [H, H, H, 25 * H, 49 * H]
    assert (only(nd).state, only(nd).fired) == ("waiting", 3)
    runs = nd.get("daily", "@daily").runs()
    assert ("dead", "worker_died", to_ms(NOON + H)) in {(run.outcome, run.reason, run.scheduled_for) for run in runs}


def test_a_schedule_that_kills_its_worker_each_day_is_tried_on_day_400(app, box, seen):
    """Each day's occurrence is tried three times, the last time alone, and is dead then; the next day's as well."""
    nd = app()

    @nd.cron("0 13 * * *")
    def daily(ctx):
        seen.append((ctx.scheduled_for - NOON) // timedelta(days=1))

    for nth in (*range(1, 25), 26, 27, 28):  # the 25th passes over what was missed
        box.crash_at("settle", nth=nth)
    box.advance(timedelta(days=8))
    box.advance(timedelta(days=392), working=False)
    box.advance(timedelta(days=1))
    assert seen == [day for day in (*range(8), 399) for _ in range(3)] + [400]
    assert (only(nd).state, only(nd).fired, only(nd).missed_ever) == ("waiting", 10, 391)
    dead = [run for run in nd.get("daily", "@daily").runs() if run.outcome == "dead"]
    assert to_ms(NOON + H + timedelta(days=399)) in {run.scheduled_for for run in dead}


def unfit(text):
    raise BadArguments("no")


def test_a_schedule_never_ends_by_arguments_that_fit_no_longer(app, box, seen, monkeypatch):
    nd = app()
    nd.cron("0 13 * * *", name="daily", args=("x",))(seen.append)
    box.advance(timedelta(days=1))
    assert seen == ["x"]
    # What a deploy with another signature does to each occurrence from now on.
    monkeypatch.setattr(nd.definitions["daily"].signature, "decode", unfit)
    box.advance(timedelta(days=400))
    assert only(nd).fired == 401
    assert only(nd).state == "waiting"
    runs = nd.get("daily", "@daily").runs()  # the history goes 30 days back
    assert len({run.scheduled_for for run in runs if run.outcome == "held" and run.reason == "arguments"}) >= 29


def test_f112_an_occurrence_that_is_due_while_the_last_one_runs_is_counted(app, box, seen):
    """F112: no overlap and no error: what came while it ran is missed, and counted."""
    nd = app()

    @nd.cron("* * * * *")
    def minutely(ctx):
        seen.append((ctx.scheduled_for - NOON, ctx.missed))

    box.takes("minutely", "150s")
    box.advance("6m")
    assert seen[0] == (timedelta(minutes=1), 0)
    assert seen[1] == (timedelta(minutes=3), 1)
    assert all(b[0] - a[0] >= timedelta(minutes=2) for a, b in pairwise(seen))


def test_a_snoozed_occurrence_keeps_its_slot(app, box, seen):
    nd = app()

    @nd.cron("0 13 * * *")
    def daily(ctx):
        seen.append(ctx.scheduled_for)
        if len(seen) < 3:
            raise Snooze("10m")

    box.advance("2h")
    assert seen == [NOON + H] * 3
    assert only(nd).fired == 1


def test_jitter_delays_the_due_and_not_the_slot(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *", jitter="10m")
    def hourly(ctx):
        seen.append((ctx.scheduled_for - NOON, ctx.late))

    box.advance("5h")
    assert [slot for slot, _ in seen][:4] == [hour * H for hour in (1, 2, 3, 4)]
    assert all(timedelta(0) <= late <= timedelta(minutes=10) for _, late in seen)


def test_starting_ending_and_count(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *", key="a", args=("a",), starting=NOON + 3 * H, ending=NOON + 5 * H)
    @nd.cron("0 * * * *", key="b", args=("b",), count=2)
    @nd.every("1h", key="c", args=("c",), count=1)
    def hourly(ctx, word: str):
        seen.append((word, (ctx.scheduled_for - NOON) // H))

    box.advance("10h")
    assert sorted(seen) == [("a", 3), ("a", 4), ("a", 5), ("b", 1), ("b", 2), ("c", 0)]
    assert {view.state for view in nd.schedules.list()} == {"ended"}
    box.advance("10 days")
    assert len(seen) == 6


def test_finish_sets_the_next_occurrence_in_the_same_commit(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *")
    def hourly(ctx):
        with ctx.finish():
            seen.append(ctx.scheduled_for - NOON)

    @nd.every("1h")
    def often(ctx):
        with ctx.finish():
            pass

    box.advance("3h")
    assert seen == [H, 2 * H, 3 * H]
    assert {view.key: view.fired for view in nd.schedules.list()} == {"hourly": 3, "often": 4}


def test_a_cancelled_run_is_followed_by_the_next_occurrence(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *")
    def hourly(ctx):
        seen.append(ctx.scheduled_for - NOON)
        if len(seen) == 1:
            nd.get("hourly", "@hourly").cancel()
            ctx.progress(1)

    box.advance("2h")
    assert seen == [H, 2 * H]
    waiting = nd.get("hourly", "@hourly")
    assert waiting.cancel() is False
    assert waiting.state == "waiting"


def test_the_dst_nights_of_a_nightly_task(app, box, seen):
    nd = app(at=datetime(2026, 3, 28, 12, tzinfo=UTC))

    @nd.cron("30 2 * * *", tz="Europe/Berlin")
    def nightly(ctx):
        seen.append(ctx.scheduled_for)

    box.at(datetime(2026, 3, 30, 12, tzinfo=UTC))
    assert seen == [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 3, 30, 0, 30, tzinfo=UTC)]
    seen.clear()
    box.at(datetime(2026, 10, 24, 12, tzinfo=UTC))
    seen.clear()
    box.at(datetime(2026, 10, 26, 12, tzinfo=UTC))
    assert seen == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 26, 1, 30, tzinfo=UTC)]


def test_put_pause_resume_and_remove_at_run_time(app, box, seen):
    nd = app()

    @nd.task
    def export(region: str) -> None:
        seen.append(region)

    nd.schedules.put(export, Cron("0 * * * *"), key="eu", args=("eu",))
    nd.schedules.put(export, Every("1h", anchor=NOON), key="us", args=("us",))
    box.advance("1h")
    assert sorted(seen) == ["eu", "us"]
    seen.clear()
    assert nd.schedules.pause(export, "us") is True
    assert nd.schedules.pause(export, "us") is False
    box.advance("5h")
    assert seen == ["eu"] * 5
    assert nd.schedules.resume(export, "us") is True
    assert next(v.missed_ever for v in nd.schedules.list() if v.key == "us") == 0
    box.advance("1h")
    assert sorted(seen[5:]) == ["eu", "us"]
    assert nd.schedules.remove(export, "eu") is True
    assert nd.schedules.remove(export, "eu") is False
    seen.clear()
    box.advance("2h")
    assert seen == ["us", "us"]


def test_run_now_is_an_occurrence_more(app, box, seen):
    nd = app()

    @nd.cron("0 13 * * *")
    def daily(ctx):
        seen.append(ctx.scheduled_for - NOON)

    box.drain()
    assert nd.get("daily", "@daily").run_now() is True
    box.drain()
    box.advance("1h")
    assert seen == [timedelta(0), H]


def test_what_once_failed_is_no_news_after_a_success(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *", retry=Retry(base=1, cap=1, jitter=0))
    def sync():
        seen.append("run")
        if len(seen) == 1:
            raise RuntimeError("down")

    box.advance("59m")
    box.advance("60s")
    (view,) = nd.schedules.list()
    assert (seen, view.reason) == (["run"], "RuntimeError")
    box.advance("1m")
    (view,) = nd.schedules.list()
    assert (seen, view.reason, view.message) == (["run", "run"], None, None)
