"""Waiting: for an event that somebody sends, or for a time, without a slot, a lease, or a worker that stays alive."""

import asyncio
import contextlib
import datetime as dt

import pytest

from nextdue import (
    BadDefinition,
    BadTransaction,
    Context,
    LeaseLost,
    Retry,
)
from nextdue.executors.steps import Resting
from tests.api.conftest import outcomes
from tests.api.effects.conftest import NOON

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


@pytest.mark.parametrize("moved", [False, True])
def test_what_would_wait_for_its_own_transaction_is_refused_at_once(box, nd, seen, moved):
    @nd.task
    def task(ctx: Context) -> None:
        if moved:
            ctx.cursor = 5
        with nd.transaction():
            assert ctx.cursor == (5 if moved else None)
            for verb in (lambda: ctx.wait_for("go"), lambda: ctx.sleep("a", 5), lambda: ctx.extend("5m")):
                with pytest.raises(BadTransaction, match=r"inside of .*transaction"):
                    verb()
        seen.append("refused")

    task.enqueue()
    assert box.drain() == {"done": 1}
    assert seen == ["refused"]
