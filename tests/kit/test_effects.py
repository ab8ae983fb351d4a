"""Steps, waits and chains in the sandbox: its deaths, its time, and what it calls harmless."""

import asyncio
import contextlib
import sqlite3
from collections import Counter
from datetime import timedelta

import pytest

from nextdue import Context, assert_repeatable
from nextdue.sqlite.inspect import check


@pytest.fixture
def marks(nd):
    def marks():
        with contextlib.closing(sqlite3.connect(nd.path)) as connection:
            return connection.execute("SELECT label, done IS NOT NULL FROM nextdue_mark ORDER BY label").fetchall()

    return marks


@pytest.fixture(params=["thread", "loop", "process"])
def mail(request, nd, seen):
    """A task of each kind with two steps."""

    def send(to):
        seen.append(to)

    async def asend(to):
        await asyncio.sleep(0)
        seen.append(to)

    def mail(ctx: Context, to: str) -> None:
        ctx.step("first", send, f"first {to}")
        ctx.step("second", send, f"second {to}")

    async def amail(ctx: Context, to: str) -> None:
        await ctx.step("first", asend, f"first {to}")
        await ctx.step("second", asend, f"second {to}")

    if request.param == "loop":
        return nd.task(name="mail")(amail)
    return nd.task(name="mail", run_in=request.param)(mail)


DEATHS = [
    ("begun", 1, [], [("first", 0)], ["first", "second"]),
    ("effect", 1, ["first"], [("first", 0)], ["first", "first", "second"]),
    ("marked", 1, ["first"], [("first", 1)], ["first", "second"]),
    ("begun", 2, ["first"], [("first", 1), ("second", 0)], ["first", "second"]),
    ("effect", 2, ["first", "second"], [("first", 1), ("second", 0)], ["first", "second", "second"]),
    ("marked", 2, ["first", "second"], [("first", 1), ("second", 1)], ["first", "second"]),
]


@pytest.mark.parametrize(("point", "nth", "before", "left", "after"), DEATHS)
def test_a_death_in_a_step_leaves_just_that(box, mail, seen, marks, point, nth, before, left, after):
    handle = mail.enqueue("ada")
    box.crash_at(point, mail, nth=nth)
    assert box.drain() == {"crashed": 1}
    assert (seen, marks()) == ([f"{word} ada" for word in before], left)
    assert box.crashes == [point]
    assert box.advance("1s") == {"done": 1}
    assert seen == [f"{word} ada" for word in after]
    assert (handle.state, marks()) == ("done", [])


def test_who_is_dead_marks_nothing(box, nd, seen, marks):
    """A `finally` still runs here, which it would not under a real kill -9; what it does through nextdue is refused."""

    @nd.task
    def stubborn(ctx: Context) -> None:
        for label in ("first", "second"):
            with contextlib.suppress(BaseException):
                ctx.step(label, seen.append, label)
        with contextlib.suppress(BaseException):
            ctx.sleep("a while", "1h")

    handle = stubborn.enqueue()
    box.crash_at("begun")
    box.drain()
    assert (seen, marks()) == ([], [("first", 0)])
    box.advance("2h")
    assert (handle.state, seen) == ("done", ["first", "second"])


def test_time_passes_through_sleeps_and_timeouts(box, nd, seen):
    @nd.task
    def patient(ctx: Context) -> None:
        began = box.now
        ctx.sleep("a day", "1 day")
        with contextlib.suppress(TimeoutError):
            ctx.wait_for("never", "1 day")
        seen.append(ctx.wait_for("paid", "10 days"))
        assert box.now >= began

    handle = patient.enqueue()
    begin = box.now
    assert box.advance("47h") == {"snoozed": 2}
    assert box.advance("2h") == {"snoozed": 1}
    nd.send("paid", 5)
    assert box.drain() == {"done": 1}
    assert seen == [5]
    assert box.now - begin <= timedelta(hours=49, seconds=1)
    assert handle.state == "done"


def test_a_chain_in_the_sandbox(box, nd, seen):
    @nd.task(keep_result=True)
    def part(ctx: Context, n: int) -> int:
        seen.append((n, ctx.results))
        return n

    one = part.using(delay="1h").enqueue(1)
    two = part.using(after=one).enqueue(2)
    box.crash_at("commit", part)
    assert box.drain() == {}
    box.advance("2h")
    assert seen == [(1, []), (2, [1])]
    assert two.result() == 2


def test_a_crash_at_a_step_that_never_came_fails_the_test(nextdue, nd):
    nextdue.use(nd)
    nextdue.crash_at("effect")
    with pytest.raises(AssertionError, match=r"crash_at\('effect'\): the worker never came to this point"):
        nextdue.check()
    nextdue._crashes._armed.clear()


# is it harmless to repeat?


@pytest.fixture
def inbox():
    """What a mail server has got: Message-IDs, as often as they came."""
    return Counter()


def test_a_mail_without_a_step_or_a_key_is_not(nd, inbox):
    @nd.task
    def mail(ctx: Context, to: str) -> None:
        inbox[f"{len(inbox)}"] += 1

    with pytest.raises(AssertionError, match=r"mail\('ada'\) is not harmless to repeat"):
        assert_repeatable(mail, ("ada",), state=lambda: sorted(inbox), reset=inbox.clear)


def test_a_step_with_a_key_is(nd, inbox):
    @nd.task
    def mail(ctx: Context, to: str) -> None:
        def send():
            inbox[ctx.idempotency_key("mail")] += 1

        ctx.step("mail", send)

    assert_repeatable(mail, ("ada",), state=lambda: len(inbox), reset=inbox.clear)


def test_a_step_alone_has_its_gap_and_that_is_named(nd, inbox):
    @nd.task
    def mail(ctx: Context, to: str) -> None:
        def send():
            inbox[to] += 1

        ctx.step("mail", send)

    with pytest.raises(AssertionError) as caught:
        assert_repeatable(mail, ("ada",), state=lambda: dict(inbox), reset=inbox.clear)
    said = str(caught.value)
    assert "its worker died after the effect of a step, before it was marked as done (mail)" in said
    once, now = said.split("now:")
    assert "{'ada': 1}" in once
    assert "{'ada': 2}" in now


def test_a_step_to_be_skipped_may_be_lost_and_that_is_named(nd, inbox):
    @nd.task
    def mail(ctx: Context, to: str) -> None:
        def send():
            inbox[to] += 1

        ctx.step("mail", send, in_doubt="skip")

    with pytest.raises(AssertionError, match=r"after a step was marked as begun, before its effect \(mail\)"):
        assert_repeatable(mail, ("ada",), state=lambda: dict(inbox), reset=inbox.clear)


def test_sleeps_are_gone_through(nd, inbox):
    @nd.task
    def remind(ctx: Context) -> None:
        ctx.sleep("a day", "1 day")
        ctx.step("mail", inbox.update, [ctx.idempotency_key("mail")])
        with contextlib.suppress(TimeoutError):
            ctx.wait_for("answer", "1 day")

    assert_repeatable(remind, state=lambda: len(inbox), reset=inbox.clear)


def test_who_waits_for_ever_is_no_candidate(nd):
    @nd.task
    def wait(ctx: Context) -> None:
        ctx.wait_for("paid")

    with pytest.raises(AssertionError, match=r"wait\(\) ended waiting in a single run: .*; send it in reset="):
        assert_repeatable(wait, state=lambda: None)
    assert_repeatable(wait, state=lambda: None, reset=lambda: nd.send("paid"))


def test_followers_are_an_effect_that_is_seen(box, nd, mail):
    """As tasks that were enqueued; put without a key, there are two of them after a repetition."""

    @nd.task
    def order(keyed: bool) -> None:
        first = mail.using(key="a" if keyed else None).enqueue("a")
        mail.using(after=first, key="b" if keyed else None).enqueue("b")

    assert_repeatable(order, (True,))
    with pytest.raises(AssertionError, match="not harmless"):
        assert_repeatable(order, (False,))


def test_the_file_is_sound_after_all_of_it(box, nd, mail):
    for point in ("begun", "effect", "marked") * 2:
        mail.enqueue(point)
        box.crash_at(point)
        box.advance("5s")
    with nd.caller.use() as store:
        assert check(store.database) == []
