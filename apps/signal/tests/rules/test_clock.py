"""A clock that is set: no source is asked early, and none waits for a time that was never true."""

from datetime import timedelta

import pytest

from apps.signal.tests.behaviours import answer, conditional, feed
from apps.signal.tests.rules.conftest import World
from apps.signal.tests.samples import DAY, HOUR
from signal_feeds.errors import NotYet

SAME = conditional(feed(2), etag='"1"')
JUMPS = {"a-day": DAY, "a-year": 365 * DAY}
jumps = pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)


def step(world: World, ms: int) -> None:
    world.sandbox.step_clock(timedelta(milliseconds=ms))


def asked_while_ahead(world: World, jump: int) -> None:
    """`ada` was asked once, and then again by a clock that was ahead. It is right again; the worker starts anew."""
    step(world, jump)
    world.sandbox.advance("1s")
    assert len(world.seen("ada")) == 2
    step(world, -jump)
    world.signal.install()


@jumps
def test_who_was_asked_while_the_clock_was_ahead_comes_again(world: World, jump: int) -> None:
    """Not before its interval is over, and within the spread of half an hour after it."""
    world.put("ada", SAME)
    asked_while_ahead(world, jump)
    world.sandbox.advance("29m")
    assert len(world.seen("ada")) == 2
    world.sandbox.advance("32m")
    assert len(world.seen("ada")) == 3
    assert world.wait_s("ada") == 1800
    assert (world.row("ada").last_attempt or 0) <= world.now()


def test_what_its_server_asked_for_counts_from_now(world: World) -> None:
    """Acceptance 5: a Retry-After is waited for in full, and no longer than the spread."""
    world.put("ada", SAME, answer(b"", 503, retry_after="86400"), SAME)
    asked_while_ahead(world, 365 * DAY)
    world.sandbox.advance("24h")
    assert len(world.seen("ada")) == 2
    world.sandbox.advance("31m")
    assert (len(world.seen("ada")), world.row("ada").last_error) == (3, None)


def test_starts_one_after_the_other_put_nobody_off(world: World) -> None:
    world.put("ada", SAME)
    asked_while_ahead(world, 365 * DAY)
    for _ in range(4):
        world.sandbox.advance("16m")
        world.signal.install()
    assert len(world.seen("ada")) >= 3


def test_who_was_added_while_the_clock_was_ahead_is_asked(world: World) -> None:
    step(world, 365 * DAY)
    world.put("ada", SAME, first=False)
    step(world, -365 * DAY)
    world.signal.install()
    world.sandbox.advance("31m")
    assert len(world.seen("ada")) == 1


@jumps
def test_a_worker_that_starts_before_the_clock_is_set_asks_nobody_early(world: World, jump: int) -> None:
    """Acceptance 4: a machine without a clock boots in the past, and learns the time when the worker runs."""
    world.put("ada", SAME)
    due = world.due("ada")
    step(world, -jump)
    world.signal.install()
    world.sandbox.advance("5m")
    step(world, jump)
    world.sandbox.advance("24m")
    assert (len(world.seen("ada")), world.due("ada")) == (1, due)
    world.sandbox.advance("2m")
    assert len(world.seen("ada")) == 2


@jumps
def test_a_jump_forwards_asks_once(world: World, jump: int) -> None:
    """However many turns were missed; and then in its interval again."""
    world.put("ada", SAME)
    step(world, jump)
    world.sandbox.advance("29m")
    assert len(world.seen("ada")) == 2
    assert world.wait_s("ada") == 1800


def test_a_refresh_need_not_wait_for_a_time_that_was_never_true(world: World) -> None:
    """Rule forced refresh: nor do requests out of turn count that were made by a clock that was ahead."""
    world.put("ada", SAME)
    step(world, 365 * DAY)
    world.sandbox.advance("31m")
    for _ in range(6):
        world.sandbox.advance("6m")
        world.signal.refresh("ada", "eve")
        world.sandbox.drain()
    step(world, -365 * DAY)
    before = len(world.seen("ada"))
    world.signal.refresh("ada", "eve")
    world.sandbox.drain()
    assert len(world.seen("ada")) == before + 1
    assert world.attempts("ada")[-1]["asked_by"] == "eve"
    with pytest.raises(NotYet) as caught:
        world.signal.refresh("ada", "eve")
    assert caught.value.at <= world.now() + 300_000


def test_a_gone_source_is_gone_by_the_right_clock(world: World) -> None:
    """Acceptance 10: 410 over 24 h; the first one was heard in a future that never came."""
    world.put("ada", SAME, answer(b"", 410))
    asked_while_ahead(world, 365 * DAY)
    start = world.now()
    while world.now() < start + DAY + 3 * HOUR:
        world.sandbox.advance("1h")
    assert world.wait_s("ada") >= 604_800
