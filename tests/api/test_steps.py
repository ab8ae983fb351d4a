"""Steps: an effect outside of the database goes out once where it can, and whoever can't know says so."""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from nextdue import (
    BadDefinition,
    BadTransaction,
    Context,
    GiveUp,
    Nextdue,
    Retry,
    RetryAfter,
    Snooze,
)
from nextdue.errors import NotInDoubt
from nextdue.executors.context import Context as Given
from nextdue.sqlite import marks
from tests.api.conftest import outcomes, sound

NOON = dt.datetime(2030, 6, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def nd(box):
    return box.use(Nextdue("/nowhere/shop.db"), at=NOON)


@pytest.fixture
def sent():
    """The effects that went out."""
    return []


@pytest.fixture
def rows(nd):
    def rows(sql, *values):
        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            return connection.execute(sql, values).fetchall()

    return rows


@pytest.fixture
def labels(rows):
    """The labels of all marks, with whether they are done."""
    return lambda: [(label, done is not None) for label, done in rows("SELECT label, done FROM nextdue_mark")]


@pytest.fixture
def resolve(nd):
    def resolve(handle, label, *, happened, result=None):
        with nd.caller.use() as store:
            return marks.resolve(store, handle.id, label, happened=happened, result=result)

    return resolve


def failing(nd, sent, *, until=2, **how):
    """A task that makes two steps and then fails, until its nth attempt."""

    @nd.task(name="failing", retry=Retry(base=1, jitter=0, limit=5), keep_result=True)
    def failing(ctx: Context, order: int) -> list[Any]:
        def send(what):
            sent.append(what)
            return f"{what} of {order}"

        said = [ctx.step("mail", send, "mail", **how), ctx.step("ship", send, "ship", **how)]
        if ctx.attempt < until:
            raise OSError("not yet")
        return said

    return failing


# once


@pytest.mark.parametrize("how", [{}, {"in_doubt": "skip"}, {"in_doubt": "hold"}, {"repeatable": True}], ids=str)
def test_a_step_that_was_made_is_passed_by_with_what_it_returned(box, nd, sent, labels, how):
    handle = failing(nd, sent, until=4, **how).enqueue(7)
    box.drain()
    assert labels() == [("mail", True), ("ship", True)]
    box.advance("1m")
    assert outcomes(handle) == ["failed", "failed", "failed", "done"]
    assert sent == ["mail", "ship"]
    assert handle.result() == ["mail of 7", "ship of 7"]
    assert labels() == []


def test_reordered_steps_run_once_each(box, nd, sent):
    """F096: steps have names, no numbers."""

    @nd.task(retry=Retry(base=1, jitter=0))
    def task(ctx: Context) -> None:
        for label in ("a", "b", "c") if ctx.attempt == 1 else ("c", "new", "b", "a"):
            ctx.step(label, sent.append, label)
        if ctx.attempt == 1:
            raise OSError

    task.enqueue()
    box.advance("1m")
    assert sent == ["a", "b", "c", "new"]


@dataclasses.dataclass
class Parcel:
    number: int
    at: dt.datetime


PARCEL = Parcel(5, dt.datetime(2026, 12, 1, tzinfo=dt.UTC))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Parcel, PARCEL),
        (list[Parcel], [PARCEL]),
        (tuple[int, str], (1, "a")),
        (bytes, b"\xff\x00"),
        (dict[int, str], {1: "a"}),
        (int | None, None),
        (None, None),
        (Any, {"a": [1, None, 2.5, "x"]}),
        (..., [1, {"a": True}]),
    ],
    ids=str,
)
def test_the_result_of_a_rerun_is_of_the_annotated_type(box, nd, annotation, value):
    def fn():
        return value

    if annotation is not ...:
        fn.__annotations__["return"] = annotation
    got = []

    @nd.task(retry=Retry(base=1, jitter=0))
    def task(ctx: Context) -> None:
        got.append(ctx.step("a", fn))
        if ctx.attempt == 1:
            raise OSError

    task.enqueue()
    box.advance("1m")
    assert got == [value, value]
    assert type(got[0]) is type(got[1])


@pytest.mark.parametrize("value", [(1, 2), {1, 2}, object(), float("nan"), "\ud800", {1: 2}, "x" * (1 << 20)])
@pytest.mark.parametrize("in_doubt", ["repeat", "skip", "hold"])
def test_a_result_that_json_can_not_keep_repeats_no_effect(box, nd, sent, labels, resolve, value, in_doubt):
    """F083 for steps: an error that says what to do, and nothing goes out twice."""
    got = []

    def send():
        sent.append(1)
        return value

    @nd.task(retry=Retry(base=1, jitter=0, limit=2))
    def task(ctx: Context) -> None:
        got.append(ctx.step("mail", send, in_doubt=in_doubt))

    handle = task.enqueue()
    box.advance("1m")
    assert handle.state == "dead"
    assert outcomes(handle) == ["failed", "dead"]
    for run in handle.runs():
        assert "step 'mail'" in run.message
        assert f"nextdue resolve FILE {handle.id} mail --happened --result" in run.message
    assert sent == [1]
    assert labels() == [("mail", True)]
    resolve(handle, "mail", happened=True, result='"mended"')
    handle.retry()
    box.drain()
    assert (handle.state, got, sent) == ("done", ["mended"], [1])


@pytest.mark.parametrize("name", ["loop", "process"])
def test_asynchronous_steps_are_as_others(box, nd, sent, name):
    async def send(what):
        await asyncio.sleep(0)
        sent.append(what)
        return {"what": what}

    @nd.task(retry=Retry(base=1, jitter=0), keep_result=True)
    async def task(ctx: Context) -> Any:
        one = await ctx.step("one", send, 1)
        two = ctx.step("two", lambda: sent.append(2))
        if ctx.attempt == 1:
            raise OSError
        return [one, two]

    handle = task.enqueue()
    box.advance("1m")
    assert handle.result() == [{"what": 1}, None]
    assert sent == [1, 2]


def test_asynchronous_steps_side_by_side(box, nd, sent):
    async def send(what):
        await asyncio.sleep(0)
        sent.append(what)
        return what

    @nd.task(retry=Retry(base=1, jitter=0), keep_result=True)
    async def task(ctx: Context) -> list[int]:
        found = await asyncio.gather(*(ctx.step(f"send {n}", send, n) for n in range(10)))
        if ctx.attempt == 1:
            raise OSError
        return found

    handle = task.enqueue()
    box.advance("1m")
    assert handle.result() == list(range(10))
    assert sorted(sent) == list(range(10))


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


# marks belong to one occurrence


def test_marks_are_kept_where_a_person_may_retry(box, nd, sent, labels):
    handle = failing(nd, sent, until=6).enqueue(7)
    box.advance("1h")
    assert handle.state == "dead"
    assert len(labels()) == 2
    handle.retry()
    box.advance("1h")
    assert sent == ["mail", "ship"]
    handle.cancel()
    assert handle.state == "cancelled"
    assert labels() == []  # nobody can retry what has no row


def test_a_cancelled_key_keeps_them_until_its_next_life(box, nd, sent, labels):
    task = failing(nd, sent, until=99)
    handle = task.using(key="k").enqueue(7)
    box.drain()
    assert handle.cancel()
    assert len(labels()) == 2
    assert handle.retry()
    box.drain()
    assert sent == ["mail", "ship"]
    assert handle.cancel()
    assert task.using(key="k").enqueue(7).created
    assert labels() == []
    box.drain()
    assert sent == ["mail", "ship"] * 2


@pytest.mark.parametrize("through", ["enqueue", "tx", "sql"])
@pytest.mark.parametrize("ended", ["dead", "cancelled"])
def test_a_new_life_of_a_key_begins_without(box, nd, sent, labels, rows, through, ended):
    task = failing(nd, sent, until=99)
    handle = task.using(key="k").enqueue(7)
    box.advance("1h" if ended == "dead" else 0)
    if ended == "cancelled":
        handle.cancel()
    assert (handle.state, len(labels())) == (ended, 2)
    if through == "enqueue":
        task.using(key="k").enqueue(7)
    elif through == "tx":
        with nd.transaction() as tx:
            task.using(key="k", tx=tx).enqueue(7)
    else:
        rows("INSERT INTO nextdue_tasks(name, args, key) VALUES ('failing', '[7]', 'k')")
    assert labels() == []
    assert handle.state == "waiting"


@pytest.mark.parametrize("how", ["replace", "earliest", "extend"])
def test_other_arguments_are_another_occurrence(box, nd, sent, labels, how):
    task = failing(nd, sent)
    handle = task.using(key="k").enqueue(7)
    box.drain()
    assert len(labels()) == 2
    task.using(key="k", on_conflict=how).enqueue(8)
    assert labels() == []
    box.advance("1m")
    assert handle.state == "done"
    assert sent == ["mail", "ship"] * 2


def test_a_life_that_was_asked_for_meanwhile_begins_without(box, nd, sent, labels):
    @nd.task
    def task(ctx: Context, n: int) -> None:
        ctx.step("mail", sent.append, n)
        if n == 1:
            task.using(key="k", on_conflict="again").enqueue(2)

    task.using(key="k").enqueue(1)
    box.advance("1m")
    assert sent == [1, 2]
    assert labels() == []


@pytest.mark.parametrize("key", ["k", None])
def test_a_task_that_comes_again_makes_its_steps_again(box, nd, sent, labels, key):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.step("mail", sent.append, len(sent))
        with ctx.finish(again="1h" if len(sent) < 3 else None):
            pass

    task.using(key=key).enqueue()
    box.advance("1 day")
    assert sent == [0, 1, 2]
    assert labels() == []


def test_each_occurrence_of_a_schedule_makes_its_steps(box, nd, sent, labels):
    keys = []

    @nd.every("1h", retry=Retry(base=1, jitter=0, limit=2))
    def hourly(ctx: Context) -> None:
        keys.append(ctx.idempotency_key("mail"))
        ctx.step("mail", sent.append, ctx.scheduled_for.hour)
        if ctx.attempt == 1:
            raise OSError

    box.advance("3h10m")
    assert len(sent) == len(set(sent)) >= 3
    assert len(keys) == 2 * len(sent)
    assert len(set(keys)) == len(sent)
    assert labels() == []


@pytest.mark.parametrize("missed", ["run_once", "skip", "all"])
@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("crash", [True, False])
def test_an_occurrence_in_doubt_is_not_passed_over(box, nd, sent, resolve, missed, happened, crash):
    """It stays the row's occurrence until a person has decided, and is brought to its end then."""
    slots = []

    @nd.cron("0 * * * *", tz="UTC", missed=missed)
    def hourly(ctx: Context) -> None:
        slots.append(ctx.scheduled_for)

        def send():
            if not crash and len(slots) == 1:
                raise TimeoutError
            sent.append(ctx.scheduled_for.hour)

        ctx.step("mail", send, in_doubt="hold")

    if crash:
        box.crash_at("begun")
    box.advance("1h1m")
    (handle,) = nd.find(name="hourly")
    assert (handle.state, handle.view().reason) == ("held", "in_doubt")
    first = slots[-1]
    box.advance("5h")
    assert (handle.state, set(slots)) == ("held", {first})
    assert resolve(handle, "mail", happened=happened)
    box.drain()
    assert slots[1 + crash] == first
    assert sent[:1] == ([] if happened else [first.hour]) or (happened and first.hour not in sent)
    box.advance("2h")
    assert handle.state == "waiting"
    assert slots[-1] > first + timedelta(hours=5)


# the key by which others know an effect


@pytest.fixture
def keyed(nd):
    keys = []

    @nd.task(retry=Retry(base=1, jitter=0, limit=3))
    def keyed(ctx: Context, fails: int) -> None:
        keys.append((ctx.idempotency_key("mail"), ctx.idempotency_key("ship")))
        if len(keys) <= fails:
            raise OSError

    keyed.keys = keys
    return keyed


def test_an_idempotency_key_is_the_same_in_every_attempt(box, keyed):
    handle = keyed.enqueue(4)
    box.crash_at("settle")
    box.advance("1h")
    assert handle.state == "dead"
    handle.retry()
    box.advance("1h")
    assert handle.state == "done"
    assert len(keyed.keys) >= 5
    ((mail, ship),) = set(keyed.keys)
    assert mail != ship
    assert len(mail) == 32
    assert int(mail, 16)


def test_it_is_another_one_for_another_task_and_another_life(box, keyed):
    keyed.enqueue(0)
    keyed.enqueue(0)
    for _ in range(3):
        keyed.using(key="k", remember=0).enqueue(0)
        box.advance("1s")
    assert len({key for pair in keyed.keys for key in pair}) == 2 * len(keyed.keys) == 10


def test_it_is_the_same_after_a_cancellation_that_was_taken_back(box, keyed):
    handle = keyed.using(key="k").enqueue(1)
    box.drain()
    handle.cancel()
    handle.retry()
    box.advance("1m")
    assert len(set(keyed.keys)) == 1
    assert len(keyed.keys) == 2


def test_threads_of_one_task_make_steps_side_by_side(box, nd, sent):
    @nd.task(retry=Retry(base=1, jitter=0), keep_result=True)
    def task(ctx: Context) -> list[int]:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: ctx.step(f"send {n}", lambda: sent.append(n) or n), range(100)))
        if ctx.attempt == 1:
            raise OSError
        return found

    handle = task.enqueue()
    box.advance("1m")
    assert handle.result() == list(range(100))
    assert sorted(sent) == list(range(100))


def test_snoozes_keep_what_was_made(box, nd, sent):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.step("mail", sent.append, ctx.idempotency_key("mail"))
        if ctx.claim < 5:
            raise Snooze("1h")

    handle = task.enqueue()
    box.advance("1 day")
    assert (handle.state, len(sent)) == ("done", 1)


# what check() finds


@pytest.fixture
def damaged(box, nd, sent, rows):
    """Answers what check() finds after some damage, and repairs it."""
    failing(nd, sent).enqueue(7)
    box.drain()

    def damaged(sql, *values):
        assert sound(nd.path) == []
        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute(sql, values)
            connection.execute("COMMIT")
        found = sound(nd.path)
        rows("DELETE FROM nextdue_mark WHERE task <> 1 OR json_valid(coalesce(result, '0')) = 0")
        return found

    return damaged


def test_marks_that_outlived_their_task_are_found(damaged):
    (said,) = damaged("INSERT INTO nextdue_mark(task, label, begun) VALUES (99, 'mail', 0)")
    assert "'mail' of task 99: its task isn't there" in said


def test_results_that_are_no_json_are_found(damaged):
    (said,) = damaged("UPDATE nextdue_mark SET result = 'x' WHERE label = 'mail'")
    assert "its result isn't JSON" in said


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
