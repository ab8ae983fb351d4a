"""ctx.finish(again=...), and the next life that others asked for: a task that is settled and goes on."""

from datetime import UTC, datetime, timedelta

import pytest

from nextdue import BadTime
from tests.api.conftest import outcomes


@pytest.mark.parametrize(
    ("again", "wait"),
    [
        (timedelta(minutes=5), 300_001),
        ("5m", 300_001),
        (300, 300_001),
        (datetime.fromtimestamp(1_800_000_600, UTC), None),
    ],
)
def test_again_sets_the_next_due_instead_of_ending(again, wait, shop, nd):
    """A task that decides its own next run: the same row, as a fresh one."""

    @nd.task
    def poll(ctx) -> None:
        if ctx.attempt == 1:
            raise OSError("once")
        shop.seen.append(ctx.scheduled_for)
        with ctx.finish(again=again) as tx:
            tx.execute("INSERT INTO orders DEFAULT VALUES")

    handle = poll.using(key="poll").enqueue()
    with shop._worker(nd) as worker:
        worker.tick()
        worker.tick()
        shop.clock.advance(worker.look_ms() or 0)
        worker.tick()
        worker.tick()
    view = handle.view()
    assert (view.state, view.attempts, view.scheduled_for, view.reason) == ("waiting", 0, None, None)
    assert view.due == (1_800_000_600_000 if wait is None else shop.clock.now() + wait)
    assert (shop.orders(), outcomes(handle)) == ([1], ["failed", "done"])


@pytest.mark.parametrize("again", [0, datetime(2001, 1, 1, tzinfo=UTC)])
def test_again_at_once(again, shop, nd):
    @nd.task
    def poll(ctx) -> None:
        shop.seen.append(nd.get(ctx.id).view().claims)
        with ctx.finish(again=again if len(shop.seen) < 3 else None):
            pass

    poll.enqueue()
    assert shop.work() == {"done": 3}
    assert shop.seen == [1, 2, 3]


def test_a_task_that_goes_on_by_itself(shop, nd):
    @nd.task
    def poll(ctx) -> None:
        with ctx.finish(again=timedelta(minutes=30)) as tx:
            tx.execute("INSERT INTO orders DEFAULT VALUES")

    handle = poll.enqueue()
    assert shop.advance("2h") == {"done": 4}
    assert (len(shop.orders()), shop.count(), handle.state) == (4, 1, "waiting")


def test_a_cancellation_asked_for_ends_what_would_go_on(shop, nd):
    @nd.task
    def poll(ctx) -> None:
        with ctx.finish(again=60) as tx:
            tx.execute("UPDATE nextdue_task SET stop = 1")

    poll.enqueue()
    assert shop.advance("1h") == {"done": 1}
    assert shop.count() == 0


def test_a_wish_for_its_next_life_keeps_its_bound(shop, nd):
    """on_conflict="extend" while it runs: the latest moment holds for the life that then begins."""

    @nd.task
    def tidy(ctx, n: int) -> None:
        with ctx.finish() as tx:
            shop.seen.append(n)
            if n == 1:
                call = tidy.using(key="a", on_conflict="extend", latest="10m", delay="6m", tx=tx)
                assert not call.enqueue(2).created

    handle = tidy.using(key="a").enqueue(1)
    shop.work()
    assert handle.view().due == shop.clock.now() + 360_001
    shop.clock.advance(300_000)
    tidy.using(key="a", on_conflict="extend", delay="6m").enqueue(3)
    assert handle.view().due == shop.clock.now() + 300_000
    shop.advance("11m")
    assert shop.seen == [1, 3]


def test_a_next_life_that_others_asked_for_begins(shop, nd):
    """A change made during the run is never lost."""

    @nd.task
    def receipt(ctx, n: int) -> None:
        shop.seen.append(n)
        with ctx.finish() as tx:
            if n == 1:
                due = shop.clock.now() + 60_000
                tx.execute("UPDATE nextdue_task SET again_due = ?, again_args = '[2]'", (due,))

    handle = receipt.using(key="a").enqueue(1)
    shop.work()
    assert (handle.state, handle.view().args, shop.seen) == ("waiting", "[2]", [1])
    shop.advance("2m")
    assert (handle.state, shop.seen) == ("done", [1, 2])


@pytest.mark.parametrize("bad", [-1, "soon", datetime(2030, 1, 1)])  # noqa: DTZ001
def test_a_bad_again_is_refused(bad, shop, nd):
    @nd.task
    def poll(ctx) -> None:
        with pytest.raises(BadTime):
            ctx.finish(again=bad)
        shop.seen.append(1)

    poll.enqueue()
    assert shop.work() == {"done": 1}
    assert shop.seen == [1]
