"""Rows of schedules in the file: between several workers, torn commits, and numbers that nobody expects."""

import contextlib
import sqlite3
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nextdue import Cron, Every, Retry, due, schedule
from nextdue.clock import to_ms
from nextdue.due import Next
from nextdue.records import Declared, Ending, Occurrence
from nextdue.schedule import Plan, plan_of
from nextdue.sqlite import schedules
from nextdue.task import Options
from nextdue.testing import FakeClock
from nextdue.testing.crashes import Killed
from nextdue.testing.worlds.faults import Trap
from tests.contract.places import Place
from tests.schedules.conftest import NOON
from tests.schedules.test_year import worker

MINUTE, HOUR = 60_000, 3_600_000


def instant(year, month, day, hour, minute=0):
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def pair(plan, name="mail", key="k"):
    return Declared(name, schedule.MARK + key, "default", 0, "[1]", schedule.written(plan), "shop", None, None), plan


def all_of(store, table):
    return store.database.connection.execute(f"SELECT * FROM nextdue_{table}").fetchall()


def test_f043_three_workers_fire_each_minute_once(tmp_path):
    """F043: three workers on one machine declare `* * * * *` and work for ten minutes: ten runs."""
    clock, ran = FakeClock(to_ms(NOON)), defaultdict[str, list[int]](list)
    workers = [worker(tmp_path / "shop.db", clock, ("mail",), ran) for _ in range(3)]
    for each in workers:
        schedules.declare(each.store, [pair(plan_of(Cron("* * * * *")))], lambda: 0.0, lambda module: True)
    for _ in range(605):
        clock.advance(1_000)
        for each in workers:
            each.tick()
    assert ran["[1]"] == [to_ms(NOON) + n * MINUTE for n in range(1, 11)]
    assert len(all_of(workers[0].store, "task")) == len(all_of(workers[0].store, "schedule")) == 1
    for each in workers:
        each.close()


@pytest.mark.parametrize("where", ["before", "inside", "after"])
@pytest.mark.parametrize("kind", ["done", "failed", "missed"])
def test_f039_what_ends_and_what_follows_are_one_commit(tmp_path, where, kind):
    """F039: torn anywhere, there is the old slot and no end, or the end and the new slot, never one alone."""
    place, slots = Place("sqlite", tmp_path), set()
    plan = plan_of(Cron("0 * * * *"), missed="skip")
    options = Options(name="mail", retry=Retry(limit=1))
    for steps in range(1, 4_000, 120 if where == "inside" else 2_000):
        hand = place.hand()
        schedules.declare(place.store, [pair(plan)], lambda: 0.0, lambda module: True)
        place.clock.advance(HOUR)
        if kind == "missed":
            place.clock.advance(HOUR)
        (claim,) = hand.claim(1)
        if kind == "missed":
            settlement = due.pass_over(claim, place.clock.now(), lambda: 0.0)
        else:
            settlement = due.settle(claim, Ending(claim, kind, ran_ms=5), options, lambda: 0.0)
        assert settlement is not None
        before = [all_of(place.store, table) for table in ("task", "schedule", "run")]
        trap = Trap(hand.store)
        trap.arm(where, 0, steps)
        with pytest.raises(Killed):
            hand.tick([settlement], slots=5)
        after = [all_of(place.store, table) for table in ("task", "schedule", "run")]
        (view,) = schedules.listed(place.store)
        if after != before:
            assert not view.running
            assert view.slot == settlement.slot_ms > claim.scheduled_for
            assert view.fired + view.missed_ever == (2 if kind == "missed" else 1)
            assert len(after[2]) == len(before[2]) + 1
        slots.add(after != before)
        hand.die()
        place.hand().store.bury()
        assert schedules.remove(place.store, "mail", "k")
    assert slots == {"before": {False}, "inside": {False, True}, "after": {True}}[where]
    place.close()


def test_jitter_makes_each_due_later_than_its_slot(tmp_path):
    """The first due, that of the next one, that of one after a downtime, and a period's: by its share of the jitter."""
    place = Place("sqlite", tmp_path)
    plan, period = plan_of(Cron("0 * * * *"), jitter_ms=10 * MINUTE), plan_of(Every("1h"), jitter_ms=10 * MINUTE)
    schedules.put_now(place.store, pair(plan)[0], plan, lambda: 0.5)
    view = schedules.listed(place.store)[0]
    slot, due_ms = view.slot or 0, view.due or 0
    assert due_ms - slot == 5 * MINUTE
    hand = place.hand()
    place.clock.advance(due_ms - place.clock.now())
    (claim,) = hand.claim(1)
    assert due.next_of(claim, lambda: 0.5) == Next(slot + HOUR + 5 * MINUTE, None, slot + HOUR)
    skips = plan_of(Cron("0 * * * *"), jitter_ms=10 * MINUTE, missed="skip")
    claim = msgspec.structs.replace(claim, occurrence=Occurrence(schedule.written(skips), 0, 0, 0))
    skipped = due.pass_over(claim, slot + 3 * HOUR, lambda: 0.5)
    assert skipped is not None
    assert (skipped.next_ms, skipped.slot_ms) == (slot + 4 * HOUR + 5 * MINUTE, slot + 4 * HOUR)
    schedules.put_now(place.store, pair(period, key="e")[0], period, lambda: 0.5)
    place.clock.advance(5 * MINUTE)
    (claim,) = (each for each in hand.claim() if each.key == "@e")
    assert due.next_of(claim, lambda: 0.5) == Next(None, HOUR + 5 * MINUTE, None)
    place.close()


@pytest.mark.parametrize("attempts", [0, 1, 12, 64, 1024, 10**6, -1, 2**62])
def test_f104_no_number_of_failures_loses_a_row(app, box, attempts):
    """F104: one more failure of a row that has so many: due again within an hour and half a minute."""
    nd = app()

    @nd.task(retry=Retry(limit=None))
    def work():
        raise ValueError("no")

    nd.schedules.put(work, Every("5m"), key="period")
    nd.schedules.put(work, Cron("* * * * *"), key="minutely")
    plain = work.enqueue()
    box.drain()
    rows = {handle.id for handle in (plain, nd.get("work", "@period"), nd.get("work", "@minutely"))}
    with contextlib.closing(sqlite3.connect(box.files[0], isolation_level=None)) as db:
        db.execute("UPDATE nextdue_task SET attempts = ?, due = ?2, scheduled_for = ?2", (attempts, to_ms(box.now)))
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("UPDATE nextdue_task SET attempts = NULL")
    begun = box.now
    box.drain()
    assert {task.id for task in nd.find(name="work")} == rows
    assert {task.state for task in nd.find(name="work")} == {"waiting"}
    assert timedelta(0) < plain.due - begun <= timedelta(seconds=3_631)
    assert nd.get("work", "@period").due - begun <= timedelta(minutes=5, seconds=1)
    assert nd.get("work", "@minutely").due - begun <= timedelta(minutes=1, seconds=1)


@pytest.mark.parametrize(
    ("expr", "zone", "start", "slots"),
    [
        ("0 0 * * *", "America/Santiago", (2026, 9, 5, 12), [(2026, 9, 6, 4), (2026, 9, 7, 3)]),
        ("0 12 * * *", "Pacific/Apia", (2011, 12, 29, 12), [(2011, 12, 29, 22), (2011, 12, 30, 22)]),
        ("0 12 30 12 *", "Pacific/Apia", (2011, 12, 29, 12), []),
        ("45 1 * * *", "Australia/Lord_Howe", (2026, 4, 3, 20), [(2026, 4, 4, 14, 45), (2026, 4, 5, 15, 15)]),
        ("15 2 * * *", "Australia/Lord_Howe", (2026, 10, 2, 20), [(2026, 10, 3, 15, 30), (2026, 10, 4, 15, 15)]),
    ],
)
def test_f005_strange_nights_are_fired_as_they_are_told(app, box, seen, expr, zone, start, slots):
    """F005: a midnight that doesn't exist, a date that doesn't exist, and half an hour more or less: once each."""
    nd = app(at=instant(*start))
    nd.cron(expr, tz=zone, name="nightly")(lambda ctx: seen.append(ctx.scheduled_for))
    box.advance("47h")
    assert seen == [instant(*slot) for slot in slots]


def test_f123_without_a_worker_no_occurrence_is_passed(app, box):
    """F123: what is next stays what it was, and falls ever further behind, until somebody runs it."""
    nd = app()
    nd.cron("0 * * * *", name="hourly")(lambda: None)
    box.drain()
    (before,) = nd.schedules.list()
    for _ in range(3):
        box.advance("5h", working=False)
        assert nd.schedules.list() == [before]
    assert before.due == to_ms(NOON + timedelta(hours=1))


def test_seconds_are_fired(app, box, seen):
    nd = app()
    nd.cron("*/20 * * * * *", name="often")(lambda ctx: seen.append((ctx.scheduled_for - NOON).seconds))
    box.advance("1m")
    assert seen == [20, 40, 60]


def test_one_key_of_two_tasks_is_two_schedules(app, box, seen):
    """A key is one among the schedules of its task."""
    nd = app()
    nd.cron("0 * * * *", name="export", key="eu")(lambda: seen.append("export"))
    nd.cron("0 * * * *", name="report", key="eu")(lambda: seen.append("report"))
    box.advance("1h")
    assert sorted(seen) == ["export", "report"]


def test_what_a_newer_version_added_to_a_plan_is_passed_over():
    assert schedule.read('{"cron":"0 3 * * *","tomorrow":{"x":[1]}}') == Plan(cron="0 3 * * *")
