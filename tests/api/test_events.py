"""Waiting: for an event that somebody sends, or for a time, without a slot, a lease, or a worker that stays alive."""

import asyncio
import contextlib
import datetime as dt
import sqlite3
from typing import Any

import pytest

from nextdue import (
    BadArguments,
    BadDefinition,
    BadTime,
    BadTransaction,
    Context,
    LeaseLost,
    Nextdue,
    Retry,
    StoreError,
)
from nextdue.executors.steps import Resting
from nextdue.testing import Sandbox
from tests.api.conftest import outcomes, sound

NOON = dt.datetime(2030, 6, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def nd(box):
    return box.use(Nextdue("/nowhere/shop.db"), at=NOON)


@pytest.fixture
def rows(nd):
    def rows(sql, *values):
        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            return connection.execute(sql, values).fetchall()

    return rows


@pytest.fixture
def seen():
    return []


@pytest.fixture
def order(box, nd, seen):
    """A task that makes a step, waits for a payment, and makes another step. It notes what and when."""

    @nd.task(keep_result=True, retry=Retry(base=60, jitter=0, limit=3))
    def order(ctx: Context, n: int, timeout: str | int | None = None) -> Any:
        ctx.step("bill", seen.append, ("bill", n))
        try:
            data = ctx.wait_for(f"paid:{n}", timeout)
        except TimeoutError:
            data = "too late"
        ctx.step("ship", seen.append, ("ship", n, data, box.now - NOON))
        return data

    return order


def shipped(seen):
    return [entry[1:] for entry in seen if entry[0] == "ship"]


# sending and waiting


def test_an_event_that_comes_later_wakes_it(box, nd, order, seen):
    handle = order.enqueue(42)
    box.drain()
    assert (handle.state, handle.due, seen) == ("waiting", None, [("bill", 42)])
    assert box.advance("10 days") == {}
    assert nd.send("paid:42", {"cents": 100}) is True
    assert box.drain() == {"done": 1}
    assert handle.result() == {"cents": 100}
    assert shipped(seen) == [(42, {"cents": 100}, dt.timedelta(days=10))]
    assert seen[0] == ("bill", 42)
    assert len(seen) == 2  # a step before the wait isn't repeated
    assert outcomes(handle) == ["snoozed", "done"]
    assert (handle.view().attempts, handle.view().crashes) == (0, 0)


def test_an_event_that_came_before_is_not_lost(box, nd, order, seen):
    nd.send("paid:42", 5)
    handle = order.enqueue(42)
    assert box.drain() == {"done": 1}
    assert handle.result() == 5
    assert outcomes(handle) == ["done"]


def test_an_event_wakes_only_who_waits_for_it(box, nd, order):
    one, two = order.enqueue(1), order.enqueue(2)
    box.drain()
    nd.send("paid:1")
    nd.send("paid:")
    nd.send("2")
    box.drain()
    assert (one.state, two.state) == ("done", "waiting")


def test_it_wakes_all_who_wait_for_it(box, nd, seen):
    @nd.task
    def wait(ctx: Context, n: int) -> None:
        seen.append((n, ctx.wait_for("go")))

    wait.enqueue_many([(n,) for n in range(500)])
    box.drain()
    assert seen == []
    nd.send("go", "now")
    box.drain(limit=2000)
    assert sorted(seen) == [(n, "now") for n in range(500)]


def test_sent_twice_the_first_one_stays(box, nd, order):
    assert nd.send("paid:1", 1) is True
    assert nd.send("paid:1", 2) is False
    handle = order.enqueue(1)
    box.drain()
    assert handle.result() == 1


def test_sent_twice_to_one_that_waits(box, nd, order):
    handle = order.enqueue(1)
    box.drain()
    assert nd.send("paid:1", 1) is True
    assert nd.send("paid:1", 2) is False
    box.drain()
    assert handle.result() == 1


DATA: list[Any] = [None, 0, 5, 2.5, "", "text ü \U0001f600", [1, {"a": [None, True]}], {}, [], False, "null", 10**15]


@pytest.mark.parametrize("data", DATA, ids=repr)
@pytest.mark.parametrize("early", [True, False])
def test_data_comes_as_it_was_sent(box, nd, order, data, early):
    if early:
        nd.send("paid:1", data)
    handle = order.enqueue(1)
    box.drain()
    if not early:
        nd.send("paid:1", data)
    box.drain()
    assert handle.result() == data
    assert type(handle.result()) is type(data)


@pytest.mark.parametrize("data", [(1, 2), {1, 2}, object(), float("nan"), "\ud800", {1: 2}, NOON, b"x"])
def test_data_that_json_can_not_hold_is_refused(nd, order, rows, data):
    with pytest.raises(BadArguments, match="event 'paid:1'"):
        nd.send("paid:1", data)
    assert not nd.path.exists() or rows("SELECT * FROM nextdue_event") == []


@pytest.mark.parametrize("event", ["", 5, None, "a\x00", "x" * 201, "\ud800"], ids=repr)
def test_bad_names_are_refused_by_both_sides(box, nd, event):
    with pytest.raises(BadDefinition):
        nd.send(event)

    @nd.task
    def wait(ctx: Context) -> None:
        with pytest.raises(BadDefinition):
            ctx.wait_for(event)

    wait.enqueue()
    assert box.drain() == {"done": 1}


def test_a_name_of_any_length_that_is_allowed(box, nd, seen):
    event = "x" * 200

    @nd.task
    def wait(ctx: Context) -> None:
        seen.append(ctx.wait_for(event))

    wait.enqueue()
    box.drain()
    nd.send(event, 1)
    box.drain()
    assert seen == [1]


def test_a_number_is_no_task(box, nd, seen):
    """An event called like a task's id is not that task's end."""

    @nd.task
    def wait(ctx: Context) -> None:
        seen.append(ctx.wait_for("1"))

    first = nd.task(name="first")(lambda: None).using(delay=60).enqueue()
    assert first.id == 1
    child = nd.task(name="child")(lambda: seen.append("child")).using(after=first).enqueue()
    wait.enqueue()
    box.drain()
    nd.send("1", "event")
    box.drain()
    assert (seen, child.state) == (["event"], "waiting")
    box.advance("2m")
    assert seen == ["event", "child"]


# in time, and too late


def test_what_does_not_come_in_time(box, order, seen):
    handle = order.enqueue(1, "1h")
    box.drain()
    assert handle.state == "waiting"
    box.advance("59m")
    assert shipped(seen) == []
    box.advance("2m")
    (found,) = shipped(seen)
    assert found[:2] == (1, "too late")
    assert dt.timedelta(hours=1) <= found[2] <= dt.timedelta(hours=1, milliseconds=2)
    assert handle.state == "done"


def test_what_comes_in_time(box, nd, order, seen):
    order.enqueue(1, "1h")
    box.advance("30m")
    nd.send("paid:1", "ok")
    box.drain()
    assert shipped(seen) == [(1, "ok", dt.timedelta(minutes=30))]
    assert box.advance("1 day") == {}


def test_too_late_stays_too_late(box, nd, seen):
    """In every attempt: what follows it may be out already."""

    @nd.task(retry=Retry(base=60, jitter=0, limit=5))
    def wait(ctx: Context) -> None:
        try:
            ctx.wait_for("go", 10)
            seen.append("came")
        except TimeoutError:
            ctx.step("give back", seen.append, "late")
        if ctx.attempt < 3:
            nd.send("go")
            raise OSError

    wait.enqueue()
    box.advance("1h")
    assert seen == ["late"]


@pytest.mark.parametrize("data", [5, None])
def test_both_at_once_is_one_of_them(box, nd, order, seen, data):
    """The event is sent when the time is over and nobody was there to see either."""
    handle = order.enqueue(1, "1h")
    box.drain()
    box.advance("2h", working=False)
    nd.send("paid:1", data)
    box.drain()
    assert handle.state == "done"
    assert len(shipped(seen)) == 1
    assert shipped(seen)[0][1] == data


def test_no_time_at_all_is_a_look(box, nd, order, seen):
    order.enqueue(1, 0)
    box.advance("1s")
    assert shipped(seen)[0][1] == "too late"
    nd.send("paid:2", 1)
    order.enqueue(2, 0)
    box.drain()
    assert shipped(seen)[1][1] == 1


@pytest.mark.parametrize("timeout", [-1, "soon", float("nan"), object()])
def test_bad_times(box, nd, timeout):
    @nd.task
    def wait(ctx: Context) -> None:
        for bad in (lambda: ctx.wait_for("go", timeout), lambda: ctx.sleep("a", timeout)):
            with pytest.raises(BadTime):
                bad()
        with pytest.raises(BadTime):
            nd.send("go", keep=timeout)

    wait.enqueue()
    assert box.drain() == {"done": 1}


# events go


def test_an_event_is_kept_for_its_time(box, nd, order):
    nd.send("paid:1", 1, keep="1h")
    box.advance("59m")
    handle = order.enqueue(1)
    box.drain()
    assert handle.state == "done"


def test_an_event_whose_time_is_over_never_was(box, nd, order):
    nd.send("paid:1", 1, keep="1h")
    box.advance("61m")
    handle = order.enqueue(1)
    box.drain()
    assert handle.state == "waiting"
    assert nd.send("paid:1", 2) is True
    box.drain()
    assert handle.result() == 2


def test_events_are_purged_by_those_that_follow(box, nd, rows):
    for n in range(50):
        nd.send(f"e{n}", n, keep="1h")
    box.advance("2h")
    for n in range(50):
        nd.send(f"f{n}", n, keep="1h")
    assert rows("SELECT count(*) FROM nextdue_event WHERE name LIKE 'e%'") == [(0,)]
    assert rows("SELECT count(*) FROM nextdue_event") == [(50,)]


def test_a_waiter_needs_no_event_that_is_kept(box, nd, order):
    handle = order.enqueue(1)
    box.drain()
    nd.send("paid:1", 1, keep=0)
    box.advance("1h")
    assert handle.result() == 1


# transactions, coroutines, other programs


def test_in_a_transaction(box, nd, order, rows):
    handle = order.enqueue(1)
    box.drain()
    with contextlib.suppress(ZeroDivisionError), nd.transaction() as tx:
        assert nd.send("paid:1", 1, tx=tx)
        raise ZeroDivisionError
    assert box.drain() == {}
    with nd.transaction() as tx:
        assert nd.send("paid:1", 2, tx=tx)
        assert handle.state == "waiting"
    box.drain()
    assert handle.result() == 2


def test_in_a_connection_of_one_s_own(box, nd, order):
    handle = order.enqueue(1)
    box.drain()
    with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as own:
        with pytest.raises(BadTransaction, match="no transaction open"):
            nd.send("paid:1", 1, tx=own)
        own.execute("BEGIN IMMEDIATE")
        nd.send("paid:1", 1, tx=own)
        own.execute("ROLLBACK")
        own.execute("BEGIN IMMEDIATE")
        nd.send("paid:1", 2, tx=own)
        own.execute("COMMIT")
    box.drain()
    assert handle.result() == 2


def test_inside_of_a_transaction_without_it(nd, order):
    with nd.transaction(), pytest.raises(BadTransaction, match="inside of a transaction"):
        nd.send("paid:1")


def test_from_a_coroutine(box, nd, order):
    handle = order.enqueue(1)
    box.drain()

    async def main():
        return await nd.asend("paid:1", 5), await nd.asend("paid:1", 6)

    assert asyncio.run(main()) == (True, False)
    box.drain()
    assert handle.result() == 5


def test_from_the_end_of_another_task(box, nd, order):
    """Sent and done by one commit."""

    @nd.task
    def pay(ctx: Context, n: int) -> None:
        with ctx.finish() as tx:
            nd.send(f"paid:{n}", n, tx=tx)

    handle = order.enqueue(1)
    box.drain()
    pay.enqueue(1)
    box.drain()
    assert handle.result() == 1


# coming back


def test_another_worker_goes_on(box, nd, order, seen):
    handle = order.enqueue(1)
    box.advance("1h", working=True)
    box.advance("1h", working=False)
    nd.send("paid:1", 5)
    box.advance("1h", working=False)
    box.drain()
    assert handle.result() == 5
    assert seen[0] == ("bill", 1)


@pytest.mark.parametrize("point", ["claim", "begun", "effect", "marked", "settle", "commit"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_worker_that_dies_anywhere_loses_no_event(box, nd, order, point, nth):
    box.crash_at(point, nth=nth)
    handle = order.enqueue(1)
    for _ in range(3):
        box.advance("5m")
        nd.send("paid:1", 5)
    if point in ("settle", "commit") and nth == 2:
        order.enqueue(2)
        nd.send("paid:2")
        box.advance("5m")
    assert handle.result() == 5


def test_several_waits_one_after_the_other(box, nd, seen):
    @nd.task
    def wait(ctx: Context) -> None:
        for event in "abc":
            seen.append((event, ctx.wait_for(event)))

    handle = wait.enqueue()
    for event in "cab":
        box.drain()
        nd.send(event, event.upper())
    box.drain()
    assert handle.state == "done"
    assert seen[-3:] == [("a", "A"), ("b", "B"), ("c", "C")]


def test_one_event_asked_for_twice_is_one(box, nd, seen):
    @nd.task
    def wait(ctx: Context) -> None:
        seen.append((ctx.wait_for("go"), ctx.wait_for("go")))

    wait.enqueue()
    box.drain()
    nd.send("go", 1)
    box.drain()
    assert seen == [(1, 1)]


# durable sleep


@pytest.fixture
def sleeper(box, nd, seen):
    @nd.task
    def sleeper(ctx: Context) -> None:
        ctx.step("first", seen.append, box.now - NOON)
        ctx.sleep("a while", "1h")
        ctx.step("second", seen.append, box.now - NOON)
        ctx.sleep("a while more", "1 day")
        seen.append(box.now - NOON)

    return sleeper


HOUR = dt.timedelta(hours=1)


def test_a_sleep_outlives_everything(box, sleeper, seen):
    handle = sleeper.enqueue()
    box.advance("30m")
    assert handle.due == NOON + HOUR + dt.timedelta(milliseconds=1)
    box.advance("10m", working=False)
    box.crash_at("claim")
    box.advance("2 days")
    assert handle.state == "done"
    first, second, third = seen
    assert first == dt.timedelta(0)
    assert HOUR <= second < HOUR + dt.timedelta(seconds=1)
    assert dt.timedelta(days=1) <= third - second < dt.timedelta(days=1, seconds=1)


@pytest.mark.parametrize("step", [dt.timedelta(minutes=-30), dt.timedelta(minutes=30), dt.timedelta(days=2)], ids=str)
def test_a_sleep_ends_at_its_instant_whatever_is_done_to_the_clock(box, nd, sleeper, seen, step):
    handle = sleeper.enqueue()
    box.drain()
    box.step_clock(step)
    box.advance("3 days")
    assert handle.state == "done"
    assert seen[1] == max(HOUR + dt.timedelta(milliseconds=1), step)


def test_hurrying_a_sleeper_makes_it_sleep_on(box, sleeper, seen):
    """A person may look at it at any time; its sleep ends when it ends."""
    handle = sleeper.enqueue()
    box.drain()
    handle.run_now()
    box.drain()
    assert (handle.state, len(seen)) == ("waiting", 1)
    box.advance("2h")
    assert len(seen) == 2


def test_two_sleeps_of_one_label_are_refused(box, nd, seen):
    """The second would pass for the first."""

    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        for _ in range(3):
            ctx.sleep("nap", 60)
        seen.append(1)

    handle = task.enqueue()
    box.advance("1h")
    assert (handle.state, seen) == ("dead", [])
    assert "'nap'" in handle.view().message


def test_a_step_and_a_sleep_may_share_a_label(box, nd, seen):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.step("a", seen.append, 1)
        ctx.sleep("a", 60)
        ctx.wait_for("a", 60) if not seen[1:] else None

    nd.send("a")
    handle = task.enqueue()
    box.advance("1h")
    assert (handle.state, seen) == ("done", [1])


# code that catches too much


@pytest.mark.parametrize("catches", [Exception, BaseException])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_who_catches_everything_rests_all_the_same(box, nd, seen, catches, asynchronous):
    """And makes nothing meanwhile: no step, no finish, no other wait."""

    @nd.task(name="sync")
    def task(ctx: Context) -> None:
        came = None
        with contextlib.suppress(catches):
            came = ctx.wait_for("go")
        for more in (
            lambda: ctx.step("mail", seen.append, came),
            lambda: ctx.sleep("a", 0),
            lambda: ctx.finish().__enter__(),
        ):
            with contextlib.suppress(BaseException):
                more()
                if came is None:
                    seen.append("went on")
                return

    @nd.task(name="async")
    async def atask(ctx: Context) -> None:
        came = None
        with contextlib.suppress(catches):
            came = await ctx.await_for("go")
        with contextlib.suppress(BaseException):
            ctx.step("mail", seen.append, came)

    handle = (atask if asynchronous else task).enqueue()
    box.drain()
    assert (handle.state, seen) == ("waiting", [])
    assert outcomes(handle) == ["snoozed"]
    nd.send("go", 1)
    box.drain()
    assert (handle.state, seen) == ("done", [1])
    assert outcomes(handle) == ["snoozed", "done"]


@pytest.mark.parametrize("error", [Exception, KeyboardInterrupt, asyncio.CancelledError, LeaseLost])
def test_who_raises_something_else_instead_rests_all_the_same(box, nd, error):
    @nd.task
    def task(ctx: Context) -> None:
        try:
            ctx.wait_for("go")
        except BaseException:
            raise error from None

    handle = task.enqueue()
    box.drain()
    assert handle.state == "waiting"
    assert outcomes(handle) == ["snoozed"]
    nd.send("go")
    box.drain()
    assert handle.state == "done"


def test_resting_is_no_exception(nd):
    assert not issubclass(Resting, Exception)


async def both(*awaitables):
    return await asyncio.gather(*awaitables)


async def all_caught(*awaitables):
    return await asyncio.gather(*awaitables, return_exceptions=True)


async def group(*awaitables):
    async with asyncio.TaskGroup() as tasks:
        found = [tasks.create_task(one) for one in awaitables]
    return [task.result() for task in found]


@pytest.mark.parametrize("together", [both, all_caught, group])
def test_waits_side_by_side(box, nd, seen, together):
    @nd.task
    async def task(ctx: Context) -> None:
        found = await together(ctx.await_for("a"), ctx.await_for("b"), ctx.asleep("c", "1h"))
        seen.append(found)

    handle = task.enqueue()
    box.advance("1m")
    assert handle.state == "waiting", handle.view()
    for event in "ba":
        nd.send(event, event)
        box.advance("10m")
        assert handle.state == "waiting", handle.view()
    box.advance("3h")
    assert handle.state == "done", handle.view()
    assert seen[-1] == ["a", "b", None]
    assert handle.view().attempts == 0


@pytest.mark.parametrize("together", [both, all_caught, group])
def test_a_wait_beside_a_step(box, nd, seen, together):
    """The step beside it may be in doubt then, but it's never lost."""

    @nd.task
    async def task(ctx: Context) -> None:
        async def send():
            await asyncio.sleep(0)
            seen.append("sent")

        await together(ctx.await_for("a"), ctx.step("mail", send))

    handle = task.enqueue()
    box.advance("1m")
    nd.send("a")
    box.advance("1h")
    assert handle.state == "done", handle.view()
    assert 1 <= len(seen) <= 2


def test_a_wait_in_finish_is_refused(box, nd, seen):
    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        with ctx.finish():
            ctx.wait_for("go")

    handle = task.enqueue()
    box.drain()
    assert handle.state == "dead"
    assert "BadTransaction" in handle.view().message


def test_a_wait_in_a_transaction_is_refused(box, nd, seen):
    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        with nd.transaction():
            ctx.wait_for("go")

    handle = task.enqueue()
    box.drain()
    assert handle.state == "dead"
    assert "BadTransaction" in handle.view().message


# what people do with one that rests


def test_pause_and_resume(box, nd, order, seen):
    handle = order.enqueue(1)
    box.drain()
    assert handle.pause()
    nd.send("paid:1", 5)
    assert box.advance("1h") == {}
    assert handle.resume()
    box.drain()
    assert handle.result() == 5


def test_pause_and_resume_before_it_comes(box, nd, order):
    handle = order.enqueue(1)
    box.drain()
    handle.pause()
    handle.resume()
    assert (handle.state, handle.due) == ("waiting", None)
    box.advance("1h")
    nd.send("paid:1", 5)
    box.drain()
    assert handle.result() == 5


@pytest.mark.parametrize("comes", [True, False])
def test_pause_of_a_wait_with_an_end(box, nd, order, comes):
    handle = order.enqueue(1, "10h")
    box.drain()
    handle.pause()
    box.advance("1h")
    if comes:
        nd.send("paid:1", 5)
    handle.resume()
    box.drain()
    assert handle.state == ("done" if comes else "waiting")
    box.advance("10h")
    assert handle.result() == (5 if comes else "too late")


@pytest.mark.parametrize("key", ["k", None])
def test_cancelled_it_stays_so(box, nd, order, rows, key):
    handle = order.using(key=key).enqueue(1)
    box.drain()
    assert handle.cancel()
    nd.send("paid:1", 5)
    box.advance("1h")
    assert handle.state == "cancelled"
    if key is None:
        assert rows("SELECT * FROM nextdue_mark") == []
        return
    assert handle.retry()
    box.drain()
    assert handle.result() == 5


def test_asked_to_stop_it_rests_no_more(box, nd, seen):
    @nd.task
    def task(ctx: Context) -> None:
        handle.cancel()
        ctx.wait_for("go")

    handle = task.enqueue()
    box.drain()
    assert handle.state == "cancelled"


def test_there_is_nothing_to_retry_or_hurry(box, nd, order):
    handle = order.enqueue(1)
    box.drain()
    assert handle.retry() is False
    assert handle.run_now() is False
    nd.send("paid:1", 5)
    box.drain()
    assert handle.result() == 5


def test_a_failed_one_that_waited_before_needs_no_second_event(box, nd, seen):
    @nd.task(retry=Retry(base=60, jitter=0, limit=2))
    def task(ctx: Context) -> None:
        seen.append(ctx.wait_for("go"))
        if len(seen) < 4:
            raise OSError

    handle = task.enqueue()
    box.drain()
    nd.send("go", 1, keep=0)
    box.advance("1h")
    assert handle.state == "dead"
    handle.retry()
    box.advance("1h")
    assert (handle.state, seen) == ("done", [1] * 4)


@pytest.mark.parametrize("mode", ["replace", "earliest", "extend"])
@pytest.mark.parametrize("n", [1, 2])
def test_one_that_rests_and_is_changed_waits_for_what_it_now_waits_for(box, nd, order, seen, mode, n):
    handle = order.using(key="k").enqueue(1)
    box.drain()
    order.using(key="k", on_conflict=mode).enqueue(n)
    box.drain()
    assert handle.state == "waiting"
    nd.send(f"paid:{n}", 5)
    box.drain()
    assert handle.result() == 5
    assert shipped(seen)[0][0] == n


def test_a_next_life_that_was_asked_for_while_it_ran_begins_instead_of_resting(box, nd, seen):
    @nd.task
    def task(ctx: Context, n: int) -> None:
        if n == 1:
            task.using(key="k", on_conflict="again").enqueue(2)
            ctx.wait_for("never")
        seen.append(n)

    handle = task.using(key="k").enqueue(1)
    box.advance("1m")
    assert (handle.state, seen) == ("done", [2])


def test_they_are_listed_as_waiting(box, nd, order):
    handle = order.enqueue(1)
    box.drain()
    assert [found.id for found in nd.find(state="waiting")] == [handle.id]
    assert [found.id for found in nd.find(name="order")] == [handle.id]


def test_its_end_can_be_waited_for(box, nd, order):
    handle = order.enqueue(1)
    box.drain()
    with pytest.raises(TimeoutError):
        handle.result(timeout=1)
    nd.send("paid:1", 5)
    assert handle.result(timeout=1) == 5


def test_an_expiry_is_about_the_start(box, nd, order):
    """Not to be started after it; what was started goes on."""
    handle = order.using(expires="1h").enqueue(1)
    box.advance("2h")
    nd.send("paid:1", 5)
    box.drain()
    assert outcomes(handle)[-1] in ("done", "expired")


# schedules, groups, keys


def test_a_schedule_s_task_waits_and_its_next_occurrence_comes_after(box, nd, seen):
    @nd.cron("0 * * * *", tz="UTC", missed="skip")
    def hourly(ctx: Context) -> None:
        slot = ctx.scheduled_for.hour
        seen.append((slot, ctx.wait_for(f"go:{slot}", "150m" if slot > 13 else None)))

    box.advance("1h1m")
    (handle,) = nd.find(name="hourly")
    assert handle.state == "waiting"
    box.advance("3h")
    assert (handle.state, seen) == ("waiting", [])
    nd.send("go:13", 5)
    box.drain()
    assert seen == [(13, 5)]
    assert handle.due.hour == 17
    nd.send("go:17", 6)
    box.advance("1h")
    assert seen == [(13, 5), (17, 6)]


def test_a_schedule_s_task_sleeps(box, nd, seen):
    @nd.every("1h")
    def hourly(ctx: Context) -> None:
        ctx.sleep("a", "90m")
        seen.append(ctx.scheduled_for)

    box.advance("10h")
    assert len(seen) == len(set(seen)) == 4


def test_resting_takes_no_place_of_its_group(box, nd, seen):
    @nd.task(limit=1)
    def one(ctx: Context, n: int) -> None:
        if n == 1:
            ctx.wait_for("go")
        seen.append(n)

    for n in (1, 2, 3):
        one.using(group="g").enqueue(n)
    box.drain()
    assert seen == [2, 3]
    nd.send("go")
    box.drain()
    assert seen == [2, 3, 1]


# many, and for nothing


def test_thousands_that_wait_cost_nothing(box, nd, rows, seen):
    @nd.task
    def wait(ctx: Context, n: int) -> None:
        ctx.wait_for(f"go:{n}")
        seen.append(n)

    wait.enqueue_many([(n,) for n in range(2_000)])
    box.drain(limit=5_000)
    resting = "rest = 'waits' AND due IS NULL AND token IS NULL"
    assert rows(f"SELECT count(*) FROM nextdue_task WHERE {resting}") == [(2_000,)]
    assert box.advance("30 days") == {}

    def steps(event):
        count = [0]
        from nextdue.sqlite import marks

        def progress():
            count[0] += 1

        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            connection.set_progress_handler(progress, 1)

            class Wire:
                def execute(self, sql, params):
                    return connection.execute(sql, params).fetchall()

            connection.execute("BEGIN IMMEDIATE")
            marks.send(Wire(), event, None, 1000, 1)
            connection.execute("COMMIT")
        return count[0]

    assert steps("go:5") < 2_000
    box.drain()
    assert seen == [5]


# what a sandbox of a user does with it


def test_assert_repeatable_goes_through_sleeps(nd, seen):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.sleep("a", "1 day")
        ctx.step("mail", seen.append, ctx.idempotency_key("mail"))

    with Sandbox() as box:
        box.use(Nextdue("/nowhere/else.db"))
    from nextdue import assert_repeatable

    assert_repeatable(task, state=lambda: len(set(seen)), reset=seen.clear)


def test_what_check_finds(box, nd, order, rows):
    order.enqueue(1)
    box.drain()
    rows("DELETE FROM nextdue_mark WHERE label LIKE '@event%'")
    assert sound(nd.path) == ["task 1: it waits, and for nothing"]
    rows("DELETE FROM nextdue_task")


def test_a_file_that_is_gone_is_said(nd):
    nd.send("a")
    nd.path.unlink()
    with pytest.raises(StoreError):
        nd.send("b")
    for file in nd.path.parent.glob("shop.db-*"):
        file.unlink()


# where nobody can wait


@pytest.mark.parametrize("how", ["asleep", "await_for"])
def test_a_wait_that_nobody_awaits_fails_the_attempt(box, nd, rows, how):
    @nd.task(retry=Retry(limit=1))
    async def forgets(ctx: Context) -> None:
        if how == "asleep":
            ctx.asleep("night", "8h")  # type: ignore[unused-coroutine]
        else:
            ctx.await_for("night")  # type: ignore[unused-coroutine]

    handle = forgets.enqueue()
    with pytest.warns(RuntimeWarning, match="never awaited"):
        box.drain()
    assert (handle.state, handle.view().reason) == ("dead", "coroutine")
    assert f"{how} 'night' was never awaited" in handle.view().message
    assert f"await ctx.{how}(...)" in handle.view().message
    assert rows("SELECT * FROM nextdue_mark") == []


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("how", ["sleep", "wait_for"])
def test_a_wait_inside_of_a_step_is_refused(box, nd, seen, rows, how, asynchronous):
    words = r"inside of step 'mail' .* wait before the step or after it"

    def wait(ctx: Context) -> None:
        with pytest.raises(BadDefinition, match=words):
            ctx.sleep("night", "8h") if how == "sleep" else ctx.wait_for("go")
        seen.append("mail")

    async def await_(ctx: Context) -> None:
        with pytest.raises(BadDefinition, match=words):
            await (ctx.asleep("night", "8h") if how == "sleep" else ctx.await_for("go"))
        seen.append("mail")

    @nd.task(name="task", retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        ctx.step("mail", wait, ctx)
        ctx.wait_for("go")

    @nd.task(retry=Retry(limit=1))
    async def atask(ctx: Context) -> None:
        await ctx.step("mail", await_, ctx)
        await ctx.await_for("go")

    handle = (atask if asynchronous else task).enqueue()
    box.drain()
    assert (handle.state, outcomes(handle)) == ("waiting", ["snoozed"])
    assert rows("SELECT label FROM nextdue_mark ORDER BY label") == [("@event go",), ("mail",)]
    nd.send("go")
    box.drain()
    assert (handle.state, seen) == ("done", ["mail"])
