"""Steps of which nobody knows whether they happened: after a death, after an exception."""

import asyncio
import contextlib
from typing import Any

import pytest

from nextdue import (
    Context,
    GiveUp,
    Retry,
    RetryAfter,
    Snooze,
)
from nextdue.errors import NotInDoubt
from tests.api.conftest import outcomes
from tests.api.effects.conftest import failing

# in doubt


DOUBTS = [("repeat", 2, "done"), ("skip", 1, "done"), ("hold", 1, "held")]


@pytest.mark.parametrize(("in_doubt", "times", "state"), DOUBTS)
def test_a_worker_that_dies_between_effect_and_mark(box, nd, sent, in_doubt, times, state):
    handle = failing(nd, sent, until=1, in_doubt=in_doubt).enqueue(7)
    box.crash_at("effect")
    box.advance("1m")
    assert (handle.state, sent.count("mail")) == (state, times)
    if in_doubt == "skip":
        assert handle.result() == [None, "ship of 7"]
    if state == "held":
        assert (handle.view().reason, sent) == ("in_doubt", ["mail"])
        assert "step 'mail' was begun" in handle.view().message


@pytest.mark.parametrize(("in_doubt", "times"), [("repeat", 1), ("skip", 0), ("hold", 0)])
def test_a_worker_that_dies_before_the_effect(box, nd, sent, in_doubt, times):
    handle = failing(nd, sent, until=1, in_doubt=in_doubt).enqueue(7)
    box.crash_at("begun")
    box.advance("1m")
    assert sent.count("mail") == times
    assert handle.state == ("held" if in_doubt == "hold" else "done")


@pytest.mark.parametrize("how", [{"in_doubt": d} for d in ("repeat", "skip", "hold")] + [{"repeatable": True}], ids=str)
def test_a_worker_that_dies_after_the_mark_repeats_nothing(box, nd, sent, how):
    handle = failing(nd, sent, until=1, **how).enqueue(7)
    box.crash_at("marked")
    box.advance("1m")
    assert (handle.state, sent) == ("done", ["mail", "ship"])
    assert outcomes(handle) == ["crashed", "done"]


def test_what_may_be_repeated_is(box, nd, sent, labels):
    handle = failing(nd, sent, until=1, repeatable=True).enqueue(7)
    box.crash_at("effect")
    box.drain()
    assert labels() == []
    box.advance("1m")
    assert (handle.state, sent) == ("done", ["mail", "mail", "ship"])


@pytest.mark.parametrize(("in_doubt", "times", "state"), DOUBTS)
def test_an_exception_leaves_the_step_in_doubt(box, nd, sent, in_doubt, times, state):
    def send():
        sent.append(1)
        if len(sent) == 1:
            raise TimeoutError("no answer")
        return "ok"

    @nd.task(retry=Retry(base=1, jitter=0), keep_result=True)
    def task(ctx: Context) -> Any:
        return ctx.step("mail", send, in_doubt=in_doubt)

    handle = task.enqueue()
    box.advance("1m")
    assert (handle.state, len(sent)) == (state, times)
    if state == "held":
        assert outcomes(handle) == ["held"]
        assert "TimeoutError: no answer" in handle.view().message
    else:
        assert handle.result() == ("ok" if in_doubt == "repeat" else None)


@pytest.mark.parametrize("in_doubt", ["repeat", "skip", "hold"])
@pytest.mark.parametrize("error", [Snooze(1), RetryAfter(1), ConnectionRefusedError()], ids=repr)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_exception_that_says_that_nothing_happened(box, nd, sent, labels, in_doubt, error, asynchronous):
    seen = []

    def send():
        seen.append(labels())
        if len(seen) == 1:
            raise error
        sent.append(1)

    async def asend():
        send()

    def task(ctx: Context) -> Any:
        how = {"in_doubt": in_doubt, "not_happened": (ConnectionRefusedError,)}
        return ctx.step("mail", asend if asynchronous else send, **how)

    async def atask(ctx: Context) -> None:
        await task(ctx)

    handle = nd.task(name="task", retry=Retry(base=1, jitter=0))(atask if asynchronous else task).enqueue()
    box.drain()
    assert labels() == []
    box.advance("1m")
    assert (handle.state, sent) == ("done", [1])
    assert seen == [[("mail", False)]] * 2


def test_not_happened_says_nothing_of_other_exceptions(box, nd, labels):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.step("mail", int, "x", in_doubt="hold", not_happened=(ConnectionRefusedError,))

    handle = task.enqueue()
    box.drain()
    assert (handle.state, labels()) == ("held", [("mail", False)])


def test_giving_up_in_a_step_to_be_held_is_a_doubt_too(box, nd):
    def send():
        raise GiveUp("no such order")

    @nd.task
    def task(ctx: Context) -> None:
        ctx.step("mail", send, in_doubt="hold")

    handle = task.enqueue()
    box.drain()
    assert (handle.state, handle.view().reason) == ("held", "in_doubt")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_who_catches_everything_is_held_all_the_same(box, nd, sent, asynchronous):
    """And makes no further effect: it is a person's turn."""

    def fail():
        raise TimeoutError

    async def afail():
        fail()

    async def asend(what):
        sent.append(what)

    @nd.task(name="sync")
    def task(ctx: Context) -> None:
        for label in ("a", "b"):
            with contextlib.suppress(BaseException):
                ctx.step(label, fail, in_doubt="hold") if label == "a" else ctx.step(label, sent.append, label)

    @nd.task(name="async")
    async def atask(ctx: Context) -> None:
        for label in ("a", "b"):
            with contextlib.suppress(BaseException):
                await (ctx.step(label, afail, in_doubt="hold") if label == "a" else ctx.step(label, asend, label))

    handle = (atask if asynchronous else task).enqueue()
    box.drain()
    assert (handle.state, handle.view().reason) == ("held", "in_doubt")
    assert sent == []


@pytest.mark.parametrize(("happened", "expected"), [(True, ["ship"]), (False, ["mail", "ship"])])
def test_a_person_decides(box, nd, sent, resolve, happened, expected):
    handle = failing(nd, sent, until=1, in_doubt="hold").enqueue(7)
    box.crash_at("begun")
    box.advance("1m")
    assert handle.state == "held"
    assert box.advance("1 day") == {}
    assert resolve(handle, "mail", happened=happened, result='"by hand"' if happened else None) is True
    box.drain()
    assert (handle.state, sent) == ("done", expected)
    assert handle.result() == ["by hand" if happened else "mail of 7", "ship of 7"]


def test_a_doubt_may_be_decided_before_the_next_attempt(box, nd, sent, resolve):
    def send():
        sent.append(1)
        raise TimeoutError

    @nd.task(retry=Retry(base=60, jitter=0), keep_result=True)
    def task(ctx: Context) -> Any:
        return ctx.step("mail", send)

    handle = task.enqueue()
    box.drain()
    assert resolve(handle, "mail", happened=True, result="5") is False  # it isn't held: it goes on at its time
    box.advance("5m")
    assert (handle.result(), sent) == (5, [1])


def test_what_is_in_no_doubt_can_not_be_resolved(box, nd, sent, resolve, labels):
    handle = failing(nd, sent, until=9).enqueue(7)
    box.drain()
    before = labels()
    for label in ("mail", "nothing", "@event x"):
        with pytest.raises(NotInDoubt, match="in no doubt"):
            resolve(handle, label, happened=True)
    assert labels() == before


def test_two_in_doubt_are_both_decided_before_it_goes_on(box, nd, sent, resolve):
    async def fail():
        sent.append(1)
        raise TimeoutError

    @nd.task
    async def task(ctx: Context) -> None:
        await asyncio.gather(*(ctx.step(x, fail, in_doubt="hold") for x in "ab"), return_exceptions=True)

    handle = task.enqueue()
    box.drain()
    assert (handle.state, len(sent)) == ("held", 2)
    assert resolve(handle, "a", happened=True) is False
    assert handle.state == "held"
    assert resolve(handle, "b", happened=True) is True
    box.drain()
    assert (handle.state, len(sent)) == ("done", 2)


def test_retry_of_a_held_one_asks_again(box, nd, sent):
    """`nextdue retry` decides nothing: who is in doubt stays so."""
    handle = failing(nd, sent, until=1, in_doubt="hold").enqueue(7)
    box.crash_at("effect")
    box.advance("1m")
    assert handle.retry()
    box.advance("1m")
    assert (handle.state, sent) == ("held", ["mail"])
