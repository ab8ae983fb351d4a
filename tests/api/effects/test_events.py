"""Events: sent before or after somebody waits for them, kept for their time, in a transaction or not."""

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
    Retry,
)
from tests.api.conftest import outcomes
from tests.api.effects.conftest import NOON, shipped

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
