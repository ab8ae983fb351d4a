"""Steps that can't be made, or not here: each is refused, and nothing has happened."""

import asyncio
from typing import Any

import pytest

from nextdue import (
    BadDefinition,
    BadTransaction,
    Context,
    Retry,
)
from nextdue.executors.context import Context as Given

# bad input


@pytest.mark.parametrize(
    ("label", "words"),
    [("", "label"), (5, "label"), ("a\x00b", "label"), ("x" * 201, "label"), ("@after 1", "must not begin with @")],
    ids=repr,
)
def test_bad_labels(box, nd, sent, labels, label, words):
    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        for bad in (
            lambda: ctx.step(label, sent.append, 1),
            lambda: ctx.sleep(label, 1),
            lambda: ctx.idempotency_key(label),
        ):
            with pytest.raises(BadDefinition, match=words):
                bad()

    handle = task.enqueue()
    assert box.drain() == {"done": 1}, handle.view()
    assert (sent, labels()) == ([], [])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"in_doubt": "maybe"}, "in_doubt must be repeat, skip, hold"),
        ({"in_doubt": "hold", "repeatable": True}, "repeatable"),
        ({"in_doubt": "skip", "repeatable": True}, "repeatable"),
    ],
)
def test_bad_options_make_nothing(box, nd, sent, labels, how, words):
    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        ctx.step("mail", sent.append, 1, **how)

    handle = task.enqueue()
    box.drain()
    assert handle.state == "dead"
    assert words in handle.view().message
    assert (sent, labels()) == ([], [])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_two_steps_of_one_label_in_one_attempt_are_refused(box, nd, sent, labels, asynchronous):
    async def asend(what):
        sent.append(what)

    @nd.task(name="sync", retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        for n in (1, 2):
            ctx.step("mail", sent.append, n)

    @nd.task(name="async", retry=Retry(limit=1))
    async def atask(ctx: Context) -> None:
        for n in (1, 2):
            await ctx.step("mail", asend, n)

    handle = (atask if asynchronous else task).enqueue()
    box.drain()
    assert handle.state == "dead"
    assert "two steps of one attempt are called 'mail'" in handle.view().message
    assert (sent, labels()) == ([1], [("mail", True)])


def test_a_coroutine_that_nobody_awaits_is_no_step_that_was_made(box, nd, sent, labels):
    """A plain function that answers a coroutine: nothing happened, and it says so."""

    async def send():
        sent.append(1)

    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        answers: Any = lambda: send()  # noqa: E731, PLW0108
        ctx.step("mail", answers)

    handle = task.enqueue()
    box.drain()
    assert (handle.state, sent, labels()) == ("dead", [], [])
    assert "coroutine" in handle.view().message


# finish, nesting, transactions, calls by hand


def test_a_step_in_finish_or_after_it_is_refused(box, nd, sent):
    caught = []

    @nd.task
    def task(ctx: Context) -> None:
        with ctx.finish():
            try:
                ctx.step("within", sent.append, 1)
            except BadTransaction as exc:
                caught.append(str(exc))
        try:
            ctx.step("after", sent.append, 2)
        except BadTransaction as exc:
            caught.append(str(exc))

    handle = task.enqueue()
    box.drain()
    assert (handle.state, sent) == ("done", [])
    assert ["comes too late" in words for words in caught] == [True, True]


def test_a_step_before_finish_is_passed_by_when_that_failed(box, nd, sent):
    @nd.task(retry=Retry(base=1, jitter=0))
    def task(ctx: Context) -> None:
        ctx.step("mail", sent.append, 1)
        with ctx.finish():
            if ctx.attempt == 1:
                raise OSError

    handle = task.enqueue()
    box.advance("1m")
    assert (handle.state, sent) == ("done", [1])


def test_a_step_inside_of_a_transaction_of_this_thread_is_refused_at_once(box, nd, sent):
    """It would wait for the write lock that the block holds."""

    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        with nd.transaction():
            ctx.step("mail", sent.append, 1)

    handle = task.enqueue()
    box.drain()
    assert (handle.state, sent) == ("dead", [])
    assert handle.view().message.startswith("BadTransaction: ")


def test_steps_in_a_step(box, nd, sent):
    """The inner one is a step of its own; with the outer one done neither is asked for again."""

    @nd.task(retry=Retry(base=1, jitter=0), keep_result=True)
    def task(ctx: Context) -> Any:
        def outer():
            got = ctx.step("inner", lambda: sent.append("inner") or 5)
            sent.append("outer")
            if ctx.attempt == 1:
                raise OSError
            return got + 1

        return ctx.step("outer", outer)

    handle = task.enqueue()
    box.advance("1m")
    assert sent == ["inner", "outer", "outer"]
    assert handle.result() == 6


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_by_hand_just_calls(nd, sent, asynchronous):
    async def asend(n):
        sent.append(n)
        return n

    @nd.task(name="sync")
    def task(ctx: Context) -> Any:
        return ctx.step("a", lambda n: sent.append(n) or n, 1), ctx.results, len(ctx.idempotency_key("a"))

    @nd.task(name="async")
    async def atask(ctx: Context) -> Any:
        return await ctx.step("a", asend, 1), ctx.results, len(ctx.idempotency_key("a"))

    assert (asyncio.run(atask()) if asynchronous else task()) == (1, [], 32)
    assert sent == [1]


def test_a_call_by_hand_makes_a_step_that_would_be_refused_known(nd, sent):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.step("a", sent.append, 1)
        ctx.step("a", sent.append, 2)

    with pytest.raises(BadDefinition, match="called 'a'"):
        task()


def test_waiting_by_hand_is_refused(nd):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.sleep("a", 1)

    with pytest.raises(BadTransaction, match="only a task that a worker runs can wait"):
        task()


def test_a_context_from_nowhere_says_so(nd):
    from nextdue.records import Claim

    with pytest.raises(BadTransaction, match="needs a store"):
        Given(Claim(1, 1, "a", "[]", None, 0, 0, 1, 0, 0)).step("a", int)


def test_a_step_that_nobody_awaits_fails_the_attempt(box, nd, sent, labels):
    async def send() -> None:
        sent.append("mail")

    @nd.task(retry=Retry(limit=1))
    async def forgets(ctx: Context) -> None:
        ctx.step("mail", send)  # type: ignore[unused-coroutine]

    @nd.task(retry=Retry(limit=1))
    def plain(ctx: Context) -> None:
        ctx.step("mail", send)  # type: ignore[unused-coroutine]

    handles = forgets.enqueue(), plain.enqueue()
    with pytest.warns(RuntimeWarning, match="never awaited"):
        box.drain()
    for handle in handles:
        assert (handle.state, handle.view().reason) == ("dead", "coroutine")
        assert "step 'mail' was never awaited" in handle.view().message
    assert (sent, labels()) == ([], [])


@pytest.mark.parametrize("kinds", [ConnectionRefusedError, (1,), [OSError], "OSError"], ids=str)
def test_what_did_not_happen_is_said_by_types(box, nd, sent, labels, kinds):
    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        with pytest.raises(BadDefinition, match="not_happened is a tuple of exception types"):
            ctx.step("mail", sent.append, 1, not_happened=kinds)

    handle = task.enqueue()
    box.drain()
    assert (handle.state, sent, labels()) == ("done", [], [])


def test_a_step_is_given_its_function_not_its_call(box, nd, sent, labels):
    @nd.task(retry=Retry(limit=1))
    def task(ctx: Context) -> None:
        nothing: Any = sent.append("too early")
        with pytest.raises(BadDefinition, match="its function can't be called: None"):
            ctx.step("mail", nothing)

    handle = task.enqueue()
    box.drain()
    assert (handle.state, labels()) == ("done", [])
