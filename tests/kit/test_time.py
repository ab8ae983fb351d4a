"""The sandbox's clock: what falls due is run in order, at its exact due, and nothing else moves."""

import asyncio
import os
import threading
import time
from datetime import timedelta
from itertools import pairwise

import pytest

from nextdue import Context, Nextdue, Retry, Snooze
from tests.kit.conftest import NOON

MS = timedelta(milliseconds=1)


@pytest.fixture
def mark(box, nd, seen):
    @nd.task
    def mark(word: str) -> None:
        seen.append((word, box.now - NOON))

    return mark


def test_nothing_runs_before_its_time_and_all_of_it_then(box, mark, seen):
    mark.using(delay="6h").enqueue("later")
    assert box.drain() == {}
    assert box.advance(timedelta(hours=6) - MS) == {}
    assert box.now == NOON + timedelta(hours=6) - MS
    assert box.advance(MS) == {"done": 1}
    assert box.drain() == {}


def test_a_delay_is_over_when_just_so_much_time_has_passed(box, mark, seen):
    mark.using(delay="6h").enqueue("later")
    assert box.advance("6h") == {"done": 1}


def test_each_runs_at_its_own_due_in_order(box, mark, seen):
    for hour in (3, 1, 2):
        mark.using(due=NOON + timedelta(hours=hour)).enqueue(str(hour))
    mark.using(due=NOON + timedelta(hours=9)).enqueue("9")
    assert box.advance("1 day") == {"done": 4}
    assert seen == [(str(hour), timedelta(hours=hour)) for hour in (1, 2, 3, 9)]
    assert box.now == NOON + timedelta(days=1)


def test_of_those_due_now_the_one_with_the_highest_priority_comes_first(box, mark, seen):
    for priority in (0, 5, -5):
        mark.using(priority=priority).enqueue(str(priority))
    box.drain()
    assert [word for word, _ in seen] == ["5", "0", "-5"]


def test_at_lets_time_pass_to_an_instant(box, mark, seen):
    mark.using(delay="30m").enqueue("a")
    assert box.at(NOON + timedelta(hours=1)) == {"done": 1}
    assert box.now == NOON + timedelta(hours=1)
    assert box.at(box.now) == {}


def test_retries_come_at_their_back_off_without_jitter(box, nd, seen):
    @nd.task(retry=Retry(base="1m", cap="4m", limit=5, jitter="30s"))
    def fails() -> None:
        seen.append(box.now)
        raise ValueError("no")

    handle = fails.enqueue()
    assert box.advance("1m") == {"failed": 2}
    assert box.advance("10m") == {"failed": 2, "dead": 1}
    assert [(b - a) // timedelta(minutes=1) for a, b in pairwise(seen)] == [1, 2, 4, 4]
    assert handle.state == "dead"


def test_a_failure_is_logged_for_the_report_of_the_test(box, nd, caplog):
    @nd.task
    def fails() -> None:
        raise ValueError("no such order")

    fails.enqueue()
    box.drain()
    assert "fails #1 failed: ValueError: no such order" in caplog.text


def test_tasks_of_all_kinds_run_in_the_test_s_own_process(box, nd, seen):
    """So that fakes and what a test patched are seen by those of child processes too."""

    @nd.task(run_in="process")
    def heavy() -> None:
        seen.append(("process", os.getpid(), threading.current_thread()))

    @nd.task
    async def light() -> None:
        seen.append(("loop", os.getpid(), threading.current_thread()))

    heavy.enqueue()
    light.enqueue()
    assert box.drain() == {"done": 2}
    assert {kind for kind, *_ in seen} == {"process", "loop"}
    assert {tuple(where) for _, *where in seen} == {(os.getpid(), threading.current_thread())}


def test_a_chain_of_delays_takes_as_long_as_it_says(box, nd, seen):
    @nd.task
    def poll() -> None:
        seen.append(box.now)
        if len(seen) <= 6:
            raise Snooze("10m")

    poll.enqueue()
    assert box.advance("1h") == {"snoozed": 6, "done": 1}


def test_drain_runs_what_is_enqueued_for_now_too(box, nd, seen):
    @nd.task
    def down(n: int) -> None:
        seen.append(n)
        if n:
            down.enqueue(n - 1)
        else:
            down.using(delay="1s").enqueue(9)

    down.enqueue(3)
    assert box.drain() == {"done": 4}
    assert seen == [3, 2, 1, 0]


def test_a_downtime_runs_nothing_and_then_all_that_is_late(box, mark, seen):
    mark.using(delay="1h").enqueue("a")
    assert box.advance("5h", working=False) == {}
    assert seen == []
    assert box.drain() == {"done": 1}
    assert seen == [("a", timedelta(hours=5))]


def test_a_downtime_in_the_middle_of_a_run_costs_a_repetition_and_no_crash(box, mark, seen):
    box.takes(mark, "1h")
    handle = mark.enqueue("a")
    box.advance("30m")
    box.advance("1h", working=False)
    assert (handle.state, handle.view().crashes) == ("waiting", 0)
    assert box.advance("1h") == {"done": 1}
    assert [run.outcome for run in handle.runs()] == ["done", "released"]


def test_a_task_of_an_hour_keeps_its_lease(box, mark):
    box.takes(mark, "1h")
    handle = mark.enqueue("long")
    assert box.advance("59m") == {}
    assert handle.state == "running"
    assert box.advance("1m") == {"done": 1}
    run = handle.runs()[0]
    assert (run.claim, run.ended - (run.started or 0)) == (1, 3_600_000)


def test_a_time_limit_ends_a_task_that_takes_longer(box, nd):
    @nd.task(time_limit="10m", retry=Retry(limit=1))
    def slow() -> None: ...

    box.takes("slow", "1h")
    handle = slow.enqueue()
    assert box.advance("9m") == {}
    assert box.advance("1m") == {"dead": 1}
    assert handle.view().reason == "time_limit"


def test_two_applications_put_tasks_for_each_other(nextdue):
    first, second, seen = Nextdue("/nowhere/a.db"), Nextdue("/nowhere/b.db"), []

    @first.task
    def ping(n: int) -> None:
        seen.append(n)
        if n:
            pong.enqueue(n - 1)

    @second.task
    def pong(n: int) -> None:
        seen.append(n)
        if n:
            ping.using(delay="1h").enqueue(n - 1)

    nextdue.use(first)
    nextdue.use(second)
    pong.enqueue(3)
    assert nextdue.drain() == {"done": 1}
    assert nextdue.advance("2h") == {"done": 3}
    assert seen == [3, 2, 1, 0]


def test_a_task_declared_in_the_middle_is_known(box, nd, mark, seen):
    mark.enqueue("a")
    box.drain()

    @nd.task
    def later() -> None:
        seen.append("later")

    later.enqueue()
    assert box.drain() == {"done": 1}


def test_a_clock_set_back_delays_by_as_much_and_loses_nothing(box, mark, seen):
    """F007. The task runs once, when the wall clock first shows its due."""
    mark.using(due=NOON + timedelta(hours=1)).enqueue("a")
    box.advance("30m")
    box.step_clock(timedelta(hours=-1))
    assert box.now == NOON - timedelta(minutes=30)
    assert box.advance("89m") == {}
    assert box.advance("1m") == {"done": 1}
    box.step_clock(timedelta(hours=-1))
    assert box.advance("3h") == {}


def test_a_clock_set_forward_makes_what_it_skips_due(box, mark, seen):
    mark.using(delay="1h").enqueue("a")
    box.step_clock(timedelta(hours=2))
    assert box.drain() == {"done": 1}


def test_a_running_task_keeps_its_claim_whatever_the_clock_does(box, mark):
    """F007. No lease becomes a day long, and nobody takes a living task over."""
    box.takes(mark, "20m")
    handle = mark.enqueue("a")
    box.advance("1m")
    for step in (timedelta(days=-1), timedelta(days=2)):
        box.step_clock(step)
        assert box.advance("1m") == {}
        due = handle.due
        assert due is not None
        assert timedelta(0) < due - box.now <= timedelta(minutes=5)
    assert box.advance("18m") == {"done": 1}
    assert [run.outcome for run in handle.runs()] == ["done"]


def test_an_async_test_may_do_all_of_it(box, mark, seen):
    async def test() -> None:
        await mark.using(delay="1h").aenqueue("a")
        assert await box.adrain() == {}
        assert await box.aadvance("1h") == {"done": 1}
        await mark.aenqueue("b")
        assert box.drain() == {"done": 1}
        await mark.using(delay="5m").aenqueue("c")
        assert await box.aat(box.now + timedelta(hours=1)) == {"done": 1}

    asyncio.run(test())
    assert [word for word, _ in seen] == ["a", "b", "c"]


def test_the_clock_begins_at_the_time_of_now(nextdue, nd):
    nextdue.use(nd)
    assert abs(nextdue.now.timestamp() - time.time()) < 10


def test_a_task_sees_its_own_times(box, nd, seen):
    @nd.task
    def look(ctx: Context) -> None:
        seen.append(ctx.scheduled_for)

    look.using(due=NOON + timedelta(days=400)).enqueue()
    box.advance(timedelta(days=401))
    assert seen == [NOON + timedelta(days=400)]


def test_it_works_until_something_is_so(box, mark, seen):
    for hour in (1, 2, 3):
        mark.using(delay=timedelta(hours=hour)).enqueue(str(hour))
    assert box.run_until(lambda: len(seen) == 2)
    assert box.now == NOON + timedelta(hours=2) + MS
    assert not box.run_until(lambda: False, "30m")
    assert box.now == NOON + timedelta(minutes=150) + MS
    assert not box.run_until(lambda: False)
    assert (len(seen), box.now) == (3, NOON + timedelta(hours=3) + MS)


def test_a_year_of_work_is_over_in_a_moment(box, mark):
    mark.using(delay=timedelta(days=365)).enqueue("a")
    begun = time.monotonic()
    assert box.advance(timedelta(days=366)) == {"done": 1}
    assert time.monotonic() - begun < 5


def test_what_expired_is_counted(box, nd):
    @nd.task
    def look() -> None: ...

    handle = look.using(delay="2m", expires="1m").enqueue()
    assert box.advance("5m") == {"expired": 1}
    assert handle.state == "dead"
