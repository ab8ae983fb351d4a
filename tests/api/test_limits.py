"""Limits, rates, expiry and being asked to stop, as a program sees them."""

import itertools

import pytest

from nextdue import BadDefinition, Cancelled, Context, Retry, Snooze


def test_a_rate_gives_each_start_its_slot(world, nd):
    starts: list[tuple[int, int]] = []

    @nd.task(rate="10/m")
    def ask(n: int) -> None:
        starts.append((n, world.clock.now()))

    begun = world.clock.now()
    handles = ask.enqueue_many([(n,) for n in range(30)])
    world.work()
    assert [n for n, _ in starts] == [0]
    waiting = sorted(handle.view().due for handle in handles[1:] if handle.state == "waiting")
    assert waiting[0] == begun + 6_000  # seen in advance
    world.advance("5m")
    assert starts == [(n, begun + n * 6_000) for n in range(30)]


def test_after_a_pause_a_rate_allows_no_burst(world, nd):
    starts: list[int] = []

    @nd.task(rate="1/s")
    def ask(n: int) -> None:
        starts.append(world.clock.now())

    ask.enqueue_many([(n,) for n in range(5)])
    world.advance("10s")
    world.clock.advance(3_600_000)
    ask.enqueue_many([(n,) for n in range(5)])
    world.advance("1m")
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert len(starts) == 10
    assert min(gaps) >= 1_000
    assert sorted(gaps)[-1] > 3_000_000


def test_slots_that_were_missed_are_given_anew_one_by_one(world, nd):
    """A worker that was away for an hour doesn't start all at once what had a slot in it."""
    starts: list[tuple[int, int]] = []

    @nd.task(rate="1/m")
    def ask(n: int) -> None:
        starts.append((n, world.clock.now()))

    ask.enqueue_many([(n,) for n in range(20)])
    world.work()
    world.clock.advance(3_600_000)
    world.advance("1h")
    assert [n for n, _ in starts] == list(range(20))
    gaps = [b[1] - a[1] for a, b in itertools.pairwise(starts)]
    assert min(gaps) >= 60_000


def test_groups_have_slots_of_their_own(world, nd):
    starts: list[tuple[str, int]] = []

    @nd.task(rate="1/m")
    def ask(who: str) -> None:
        starts.append((who, world.clock.now()))

    begun = world.clock.now()
    for _ in range(2):
        for who in ("ada", "bob"):
            ask.using(group=who).enqueue(who)
    world.advance("1h")
    assert starts == [("ada", begun), ("bob", begun), ("ada", begun + 60_000), ("bob", begun + 60_000)]


def test_what_is_past_its_expiry_is_recorded_and_not_started(world, nd):
    seen: list[int] = []

    @nd.task
    def look(n: int) -> None:
        seen.append(n)

    late = look.using(expires="10s").enqueue(1)
    keyed = look.using(expires="10s", key="k").enqueue(2)
    timely = look.using(expires="1h").enqueue(3)
    world.clock.advance(10_001)
    world.work()
    assert seen == [3]
    assert [h.state for h in (late, keyed, timely)] == ["dead", "dead", "done"]
    assert [h.runs()[0].outcome for h in (late, keyed)] == ["expired", "expired"]
    assert [h.view().reason for h in (late, keyed)] == ["expired", "expired"]
    assert {h.id for h in nd.find(state="dead", reason="expired")} == {late.id, keyed.id}
    assert late.retry()
    world.work()
    assert (late.state, seen) == ("done", [3, 1])
    assert look.using(key="k").enqueue(4).created


def test_an_attempt_that_fails_after_its_expiry_is_not_tried_again(world, nd):
    @nd.task(retry=Retry(base=60, jitter=0, limit=None))
    def fails() -> None:
        raise ValueError

    handle = fails.using(expires="30s").enqueue()
    world.advance("1h")
    assert [run.outcome for run in handle.runs()] == ["expired", "failed"]


@pytest.mark.parametrize("end", ["progress", "fails", "snoozes", "returns"])
def test_a_running_task_that_was_asked_to_stop_is_not_tried_again(world, nd, end):
    @nd.task(retry=Retry(base=60, jitter=0, limit=None))
    def work(ctx: Context) -> None:
        ctx.ask_to_stop()  # as the worker does when it sees the row
        assert not nd.get(ctx.id).cancel()
        assert ctx.cancelled()
        if end == "progress":
            ctx.progress(1, 2)
        if end == "fails":
            raise ValueError
        if end == "snoozes":
            raise Snooze(60)

    handle = work.enqueue()
    world.advance("1h")
    assert handle.state == ("done" if end == "returns" else "cancelled")
    assert len(handle.runs()) == 1


def test_a_task_may_clean_up_before_it_stops(world, nd):
    done: list[str] = []

    @nd.task
    def work(ctx: Context) -> None:
        ctx.ask_to_stop()
        try:
            ctx.progress(1)
        except Cancelled:
            done.append("cleaned up")
            raise

    handle = work.enqueue()
    world.work()
    assert (handle.state, done) == ("cancelled", ["cleaned up"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 0}, "limit must be a whole number from 1"),
        ({"limit": True}, "limit must be a whole number from 1"),
        ({"limit": "2"}, "limit must be a whole number from 1"),
        ({"rate": "fast"}, 'a rate is a text like "10/m"'),
        ({"rate": 10}, 'a rate is a text like "10/m"'),
        ({"rate": "0/s"}, 'a rate is a text like "10/m"'),
        ({"rate": "5000/s"}, "a rate over 1,000 a second can't be kept"),
    ],
)
def test_limits_that_can_not_be_meant_are_refused(nd, refuses, options, words):
    from nextdue import BadDefinition

    with refuses(BadDefinition, words):

        @nd.task(**options)
        def work() -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group": "a"}, "a group is counted by a limit or a rate"),
        ({"latest": "1h"}, 'latest bounds on_conflict="extend"'),
        ({"key": "k", "on_conflict": "again", "latest": "1h"}, 'latest bounds on_conflict="extend"'),
        ({"on_conflict": "replace"}, "remember and on_conflict are about a key"),
        ({"expires": "soon"}, "expires"),
    ],
)
def test_options_that_can_not_be_meant_are_refused(nd, refuses, options, words):
    from nextdue import NextdueError

    @nd.task
    def work() -> None: ...

    with refuses(NextdueError, words):
        work.using(**options).enqueue()


def test_single_groups_have_rates_of_their_own(world, nd):
    starts: dict[str, list[int]] = {}

    @nd.task(rate="30/m", rates={"feeds.example.com": "5/s", "mirror": None})
    def fetch(host: str) -> None:
        starts.setdefault(host, []).append(world.clock.now() - begun)

    begun = world.clock.now()
    for host in ("feeds.example.com", "mirror", "elsewhere"):
        fetch.using(group=host).enqueue_many([(host,)] * 3)
    world.work()
    world.advance("1m")
    assert starts == {"feeds.example.com": [0, 200, 400], "mirror": [0, 0, 0], "elsewhere": [0, 2_000, 4_000]}


def test_rates_alone_let_tasks_be_put_in_groups(world, nd):
    starts: list[tuple[str | None, int]] = []

    @nd.task(rates={"slow": "1/m"})
    def ask(group: str | None) -> None:
        starts.append((group, world.clock.now() - begun))

    begun = world.clock.now()
    for group in ("slow", None, "slow", None):
        ask.using(group=group).enqueue(group)
    world.advance("5m")
    assert starts == [("slow", 0), (None, 0), (None, 0), ("slow", 60_000)]


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ("5/s", "rates is a dict of groups to rates"),
        ([("a", "5/s")], "rates is a dict of groups to rates"),
        ({"a": "5/x"}, "rates, group 'a': a rate is a text like"),
        ({"a": 5}, "rates, group 'a': a rate is a text like"),
        ({"a": "2000/s"}, "rates, group 'a': a rate over 1,000 a second"),
        ({7: "5/s"}, "rates, group 7: a group must be a str"),
        ({None: "5/s"}, "rates, group None: a group must be a str"),
        ({"": "5/s"}, "rates, group '': a group must have 1 to 200 characters"),
    ],
)
def test_rates_that_can_not_be_kept_are_refused_at_once(nd, rates, words):
    with pytest.raises(BadDefinition, match=words):
        nd.task(rates=rates)(len)


def test_no_rates_are_no_reason_for_a_group(nd):
    @nd.task(rates={})
    def ask() -> None: ...

    with pytest.raises(BadDefinition, match="a group is counted by a limit or a rate"):
        ask.using(group="a")
