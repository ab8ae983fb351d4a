"""Steps: an effect outside of the database goes out once where it can, and whoever can't know says so."""

import asyncio
import dataclasses
import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nextdue import (
    Context,
    Retry,
    Snooze,
)
from tests.api.conftest import outcomes
from tests.api.effects.conftest import failing

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
