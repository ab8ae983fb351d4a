"""What tests of effects have in common: an application in a sandbox, and the tasks that they put."""

import contextlib
import datetime as dt
import sqlite3
from typing import Any

import pytest

from nextdue import Context, GiveUp, Nextdue, Retry
from nextdue.sqlite import marks

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


@pytest.fixture
def seen():
    return []


@pytest.fixture
def order(box, nd, seen):
    """A task that makes a step, waits for a payment, and makes another step. It notes what and when."""

    @nd.task(keep_result=True, retry=Retry(base=60, jitter=0, limit=3))
    def order(ctx: Context, n: int, timeout: str | int | None = None) -> Any:
        ctx.step("bill", seen.append, ("bill", n))
        try:
            data = ctx.wait_for(f"paid:{n}", timeout)
        except TimeoutError:
            data = "too late"
        ctx.step("ship", seen.append, ("ship", n, data, box.now - NOON))
        return data

    return order


def shipped(seen):
    return [entry[1:] for entry in seen if entry[0] == "ship"]


@pytest.fixture
def part(nd, seen):
    """A task that notes its word and what it got, and ends as it is told: "ok", "die", "later"."""

    @nd.task(keep_result=True, retry=Retry(base=60, jitter=0, limit=2))
    def part(ctx: Context, word: str = "", how: str = "ok") -> Any:
        seen.append((word, ctx.results))
        if how == "die" and not part.mended:
            raise GiveUp("no")
        return word or None

    part.mended = False
    return part


def words(seen):
    return [word for word, _ in seen]


def whole(nd):
    """All there is in the tables, to be compared."""
    with contextlib.closing(sqlite3.connect(nd.path)) as connection:
        return list(connection.iterdump())
