"""Putting tasks: what is on disk when a call returns, and that a call that raises has stored nothing."""

import asyncio
import contextlib
import inspect
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextdue import BadArguments, BadDefinition, BadTime, Task, codec
from nextdue.clock import MAX_MS, from_ms

LONG = 120_000_000_000_000
NAIVE = datetime(2026, 12, 1, 12)  # noqa: DTZ001


@pytest.fixture
def send(nd):
    @nd.task
    def send(to: str, copies: int = 1) -> None: ...

    return send


def stored(world) -> list[Any]:
    return list(world.sql("SELECT name, args, due_ms, queue, priority, key FROM nextdue_tasks ORDER BY id"))


def test_a_task_is_in_the_file_when_enqueue_returns(world, send):
    handle = send.enqueue("a", copies=2)
    assert (handle.created, handle.name, handle.key, repr(handle)) == (True, "send", None, f"<send #{handle.id}>")
    assert stored(world) == [("send", '["a",2]', world.clock.now(), "default", 0, None)]


@pytest.mark.parametrize(
    ("options", "after_ms"),
    [
        ({}, 0),
        ({"delay": 0}, 0),
        ({"delay": "5m"}, 300_001),
        ({"delay": timedelta(microseconds=1)}, 2),
        ({"delay": 0.25}, 251),
        ({"delay": "12 days"}, 12 * 86_400_000 + 1),
    ],
)
def test_a_delay_counts_from_now_and_is_never_early(world, send, options, after_ms):
    """F107. Now is cut to milliseconds, so that one is added to each delay."""
    handle = send.using(**options).enqueue("a")
    assert stored(world)[0][2] == world.clock.now() + after_ms
    assert handle.due == from_ms(world.clock.now() + after_ms)


@pytest.mark.parametrize(
    ("due", "utc"),
    [
        (datetime(2026, 12, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")), "2026-12-01T11:00:00.000Z"),
        (datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), "2038-01-19T03:14:08.000Z"),
        (datetime(2026, 12, 1, 12, tzinfo=timezone(timedelta(hours=-8))), "2026-12-01T20:00:00.000Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00.000Z"),
    ],
)
def test_a_due_is_stored_exactly(world, send, due, utc):
    """F107, F108."""
    send.using(due=due).enqueue("a")
    assert world.sql("SELECT due_utc FROM nextdue_tasks") == [(utc,)]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_a_due_is_the_same_under_every_zone_of_the_machine(world, send, monkeypatch, zone):
    """F108: an aware one is the same instant, a naive one is refused, as is time.time()."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        send.using(due=datetime(2026, 12, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))).enqueue("a")
        for wrong in (datetime(2026, 12, 1, 12), time.time()):  # noqa: DTZ001
            with pytest.raises((TypeError, ValueError), match=r"naive|fromtimestamp"):
                send.using(due=wrong)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert world.sql("SELECT due_utc FROM nextdue_tasks") == [("2026-12-01T11:00:00.000Z",)]


def test_a_delay_past_the_last_instant_is_clamped(world, send):
    """F105."""
    assert send.using(delay=timedelta.max).enqueue("a").due == from_ms(MAX_MS)
    send.using(due=from_ms(MAX_MS)).enqueue("b")
    assert world.advance("1h") == {}
    send.using(delay=1).enqueue("c")
    assert world.advance(2) == {"done": 1}


def test_queue_and_priority_are_the_tasks_own_unless_said_otherwise(world, nd):
    @nd.task(queue="mail", priority=-5)
    def note() -> None: ...

    note.enqueue()
    note.using(queue="slow", priority=7).enqueue()
    assert [row[3:5] for row in stored(world)] == [("mail", -5), ("slow", 7)]


def test_the_options_of_using_can_be_kept_and_used_again(world, send):
    later = send.using(delay="1h", queue="mail")
    later.enqueue("a")
    world.clock.advance(1000)
    later.enqueue("b")
    dues = [row[2] for row in stored(world)]
    assert dues[1] - dues[0] == 1000


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"delay": 5, "due": datetime(2026, 12, 1, tzinfo=UTC)}, BadDefinition, "task send: give delay or due, not bo"),
        ({"due": NAIVE}, BadTime, "is naive.*add a zone"),
        ({"due": 1_796_126_400}, BadTime, "must be an aware datetime, not int.*fromtimestamp"),
        ({"due": "2026-12-01"}, BadTime, "must be an aware datetime, not the text '2026-12-01'"),
        ({"due": "2026-12-01"}, BadTime, r'datetime.fromisoformat\("2030-01-01T09:00\+01:00"\)'),
        (
            {"expires": "2026-12-01 09:00"},
            BadTime,
            "is an instant and no duration; write it with an offset",
        ),
        ({"due": datetime.max.replace(tzinfo=timezone(timedelta(hours=-8)))}, BadTime, "outside 1970"),
        ({"due": datetime(1969, 12, 31, tzinfo=UTC)}, BadTime, "outside 1970"),
        ({"delay": LONG}, BadTime, "delay of .* probably in milliseconds"),
        ({"delay": -1}, BadTime, "delay must not be negative"),
        ({"delay": float("nan")}, BadTime, "delay must be finite"),
        ({"delay": "soon"}, BadTime, "delay: can't read 'soon'"),
        ({"delay": True}, BadTime, "delay must be a timedelta"),
        ({"queue": ""}, BadDefinition, "a queue's name must have"),
        ({"queue": "a\nb"}, BadDefinition, "control characters"),
        ({"queue": 5}, BadDefinition, "a queue's name must be a str"),
        ({"priority": 101}, BadDefinition, "from -100 to 100"),
        ({"priority": 1.5}, BadDefinition, "from -100 to 100"),
        ({"priority": True}, BadDefinition, "from -100 to 100"),
        ({"remember": "1d"}, BadDefinition, "task send: remember and on_conflict are about a key; give key=..."),
        ({"on_conflict": "reject"}, BadDefinition, "are about a key; give key=..."),
        ({"on_conflict": "merge", "key": "k"}, BadDefinition, "on_conflict must be ignore, reject, replace"),
        ({"key": "k", "remember": -1}, BadTime, "remember must not be negative"),
        ({"key": "k", "remember": "for ever"}, BadTime, "remember: can't read 'for ever'"),
        ({"key": ""}, BadDefinition, "a key must have 1 to 200 characters, this one has 0"),
        ({"key": "k" * 201}, BadDefinition, "a key must have 1 to 200 characters, this one has 201"),
        ({"key": "a\x00"}, BadDefinition, "a key .* control characters or lone surrogates"),
        ({"key": "\ud800"}, BadDefinition, "a key .* control characters or lone surrogates"),
        ({"key": 42}, BadDefinition, "a key must be a str, not int 42"),
        ({"dely": 5}, TypeError, "'dely'"),
    ],
)
def test_options_that_can_not_be_meant_are_refused(send, refuses, options, error, words):
    with refuses(error, words):
        send.using(**options).enqueue("a")


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "0 arguments given, it takes"),
        (("a", 1, 2), {}, "3 arguments given"),
        (("a",), {"to": "b"}, "multiple values for argument 'to'"),
        (("a",), {"copy": 2}, "unexpected keyword argument 'copy'"),
        ((5,), {}, "Expected `str`, got `int` - at `to`"),
        (("a", True), {}, "Expected `int`, got `bool` - at `copies`"),
        (("a\x00",), {}, "to contains a NUL character"),
        (("\ud800",), {}, "to contains a lone surrogate"),
        (("a" * (1 << 20),), {}, "the limit is 1,048,576; put the data into a file or a table"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_the_call(send, refuses, args, kwargs, words):
    """F086, F088."""
    for put in (send.enqueue, send.using(key="k").enqueue):
        with refuses(BadArguments, f"send.*{words}"):
            put(*args, **kwargs)
    if not kwargs:
        with refuses(BadArguments, f"send.*{words}"):
            send.enqueue_many([("a",), args])


@pytest.mark.parametrize("value", [NAIVE, {1}, b"x", float("nan"), {1: 2}, (1, 2), 2**70, Decimal(1), object()])
def test_values_that_would_come_back_changed_are_refused_at_the_call(nd, refuses, value):
    """F087."""

    @nd.task
    def keep(x): ...

    with refuses(BadArguments, "keep.*: x "):
        keep.enqueue(value)
    with refuses(BadArguments, r"keep.*: x\['deep'\]\[1\] "):
        keep.enqueue({"deep": [0, value]})


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, max_examples=25, print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(JSON, st.floats(allow_nan=False, allow_infinity=False), st.integers()), max_size=3))
def test_a_task_gets_exactly_what_was_put(world, calls):
    seen: list[Any] = []
    nd = world.app()

    @nd.task
    def keep(x, f: float, big: int):
        seen.append((x, f, big))

    for call in calls:
        keep.enqueue(*call)
        keep.using(key="k").enqueue(x=call[0], f=call[1], big=call[2])
        world.work(nd)
        world.advance("2d", nd)
    keep.enqueue_many(calls)
    world.work(nd)
    nd.close()
    assert repr(seen) == repr([c for c in calls for _ in range(2)] + calls)


# many


def test_many_are_stored_in_order_by_one_call(world, send):
    handles = send.enqueue_many((f"to {n}", n) for n in range(3))
    assert [h.id for h in handles] == [1, 2, 3]
    assert all(h.created and h.state == "waiting" for h in handles)
    assert [row[1] for row in stored(world)] == ['["to 0",0]', '["to 1",1]', '["to 2",2]']


def test_many_take_the_options_of_using(world, send):
    send.using(delay="1h", queue="mail", priority=3).enqueue_many([("a",), ["b"]])
    assert [row[2:5] for row in stored(world)] == [(world.clock.now() + 3_600_001, "mail", 3)] * 2


def test_ten_thousand_are_many(world, send):
    handles = send.enqueue_many([(str(n),) for n in range(10_000)])
    assert [h.id for h in handles] == list(range(1, 10_001))
    assert world.count() == 10_000


def test_their_handles_are_a_sequence(world, send):
    handles = send.enqueue_many([("a",), ("b",), ("c",)])
    assert (len(handles), handles[-1].id, [h.id for h in handles[1:]]) == (3, 3, [2, 3])
    assert handles == list(handles)
    assert handles != list(handles)[1:]
    assert handles[0] in handles
    assert handles.index(handles[1]) == 1
    assert repr(handles) == "<3 handles of send>"
    with pytest.raises(IndexError):
        handles[3]
    late = send.using(after=handles).enqueue("d")
    assert late.state == "waiting"
    assert world.count() == 4


def test_none_are_none(world, send):
    assert send.enqueue_many([]) == []
    assert send.enqueue_many(iter(())) == []
    assert world.count() == 0


@pytest.mark.parametrize("bad", ["b", 5, None, {"to": "b"}, {"b"}, b"b"])
def test_one_that_is_no_tuple_stores_none_of_them(send, refuses, bad):
    with refuses(BadDefinition, r"task send: enqueue_many takes tuples of arguments, like \[\(1,\), \(2,\)\], not "):
        send.enqueue_many([("a",), bad, ("c",)])


@pytest.mark.parametrize("bad", [(), (5,), ("b", "c"), ("b", 1, 2), ("\ud800",)])
def test_one_that_does_not_fit_stores_none_of_them(send, refuses, bad):
    with refuses(BadArguments, "send"):
        send.enqueue_many([("a",)] * 50 + [bad] + [("c",)] * 50)


def test_a_generator_that_fails_stores_none_of_them(send, refuses):
    def calls():
        yield ("a",)
        raise RuntimeError("the source is gone")

    with refuses(RuntimeError, "the source is gone"):
        send.enqueue_many(calls())


@pytest.mark.parametrize("calls", [None, 5])
def test_what_is_no_series_is_a_type_error(send, refuses, calls):
    with refuses(TypeError, "not iterable"):
        send.enqueue_many(calls)


def test_many_can_not_share_a_key(send, refuses):
    with refuses(BadDefinition, "task send: one key can't be held by many tasks; enqueue them one by one"):
        send.using(key="k").enqueue_many([("a",), ("b",)])


# from a coroutine


def test_a_coroutine_enqueues_without_blocking(world, send):
    async def main():
        first = await send.aenqueue("a")
        second = await send.using(key="k", delay=5).aenqueue("b", copies=2)
        return first, second

    first, second = asyncio.run(main())
    assert (first.id, second.id, second.key) == (1, 2, "k")
    assert [row[1] for row in stored(world)] == ['["a"]', '["b",2]']


def test_a_coroutine_is_refused_like_anybody(send, refuses):
    with refuses(BadArguments, "0 arguments given"):
        asyncio.run(send.aenqueue())


def test_a_cancelled_coroutine_leaves_the_task_stored_or_not_but_whole(world, nd, send, monkeypatch):
    """Cancelling takes back the waiting, not the put."""
    begun = threading.Event()
    put = nd.caller.put

    def slow(*args):
        begun.set()
        return put(*args)

    monkeypatch.setattr(nd.caller, "put", slow)
    send.enqueue("first")

    async def main(other: sqlite3.Connection) -> None:
        begun.clear()
        other.execute("BEGIN IMMEDIATE")  # the put has to wait
        waiting = asyncio.create_task(send.aenqueue("second"))
        assert await asyncio.to_thread(begun.wait, 10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        other.execute("ROLLBACK")

    with contextlib.closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        asyncio.run(main(other))
    assert [row[1] for row in stored(world)] == ['["first"]', '["second"]']
    assert send.enqueue("third").id == 3


def test_an_option_that_is_given_to_enqueue_is_told_where_it_belongs(send, refuses):
    with refuses(BadArguments, r"unexpected keyword argument 'delay'; .*; options go to \.using\(delay=\.\.\.\)"):
        send.enqueue("a", delay="5m")
    with refuses(BadArguments, r"unexpected keyword argument 'wait'; it takes [^;]*$"):
        send.enqueue("a", wait="5m")


def test_the_options_of_a_call_are_those_of_using():
    assert set(inspect.signature(Task.using).parameters) - {"self"} == codec._USING
