"""Tasks at rest beside the rest: people, schedules, groups, and thousands of them."""

import contextlib
import sqlite3

import pytest

from nextdue import Context, Nextdue, Retry, StoreError
from nextdue.sqlite import marks
from nextdue.testing import Sandbox
from tests.api.conftest import outcomes, sound
from tests.api.effects.conftest import shipped

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
