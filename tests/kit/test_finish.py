"""Transactions, ctx.finish and results in a sandbox."""

import asyncio
import contextlib
import sqlite3
from datetime import timedelta

import pytest

from nextdue import BadTransaction, Context, Nextdue, Retry, TaskFailed, assert_repeatable
from nextdue.testing import NeverEnds


@pytest.fixture
def mail(nd, seen):
    @nd.task
    def mail(to: str) -> None:
        seen.append(to)

    return mail


@pytest.fixture
def order(nd, mail):
    @nd.task
    def order(ctx: Context, n: int) -> None:
        with ctx.finish() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS orders(n)")
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
            mail.using(tx=tx, delay="5m").enqueue("ada")

    return order


def orders(path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'orders'").fetchall():
            return 0
        return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])


def test_a_transaction_goes_by_the_clock_of_the_test(box, nd, mail, seen):
    with nd.transaction() as tx:
        mail.using(tx=tx, delay="1h").enqueue("bob")
    assert box.drain() == {}
    assert box.advance("1h") == {"done": 1}
    assert seen == ["bob"]


def test_a_connection_to_the_program_s_own_file_is_told_where_the_test_is(nextdue, tmp_path):
    nd = Nextdue(tmp_path / "shop.db")
    mail = nd.task(name="mail")(lambda: None)
    with contextlib.closing(sqlite3.connect(nd.path)) as own:
        own.execute("CREATE TABLE orders(n)")
        nextdue.use(nd)
        own.execute("BEGIN IMMEDIATE")
        with pytest.raises(BadTransaction, match=rf"in this test the tasks are kept in {nd.path}: .* made after use"):
            mail.using(tx=own).enqueue()


@pytest.mark.parametrize(("where", "rows"), [("enqueue", 0), ("finish", 0), ("finished", 1)])
def test_a_death_in_finish_leaves_all_of_it_or_nothing(box, nd, order, seen, where, rows):
    handle = order.enqueue(1)
    box.crash_at(where)
    box.drain()
    assert (orders(nd.path), handle.state) == (rows, "done" if rows else "waiting")
    box.advance("10m")
    assert (orders(nd.path), handle.state, seen) == (1, "done", ["ada"])


def test_what_is_committed_with_its_end_is_repeatable(nd, order):
    def state() -> tuple[int, int]:
        return orders(nd.path), len(nd.find(name="mail"))

    assert_repeatable(order, (1,))
    assert_repeatable(order, (1,), state=state, reset=lambda: None)


def test_more_time_is_asked_of_the_sandbox_s_own_store(box, nd):
    @nd.task
    def long(ctx: Context) -> None:
        ctx.extend("1h")

    box.takes(long, "1s")
    handle = long.enqueue()
    box.drain()
    assert handle.due == box.now + timedelta(hours=1)
    assert box.advance("1s") == {"done": 1}


def test_waiting_for_a_result_lets_the_sandbox_work(box, nd):
    @nd.task(keep_result=True)
    def add(a: int, b: int) -> int:
        return a + b

    @nd.task(keep_result=True, retry=Retry(limit=1))
    def bad() -> int:
        raise ValueError

    async def body() -> object:
        return await (await add.aenqueue(3, 4)).aresult()

    assert add.enqueue(1, 2).result() == 3
    late = add.using(delay="1h").enqueue(2, 3)
    with pytest.raises(TimeoutError):
        late.result(timeout="30m")
    assert late.result(timeout="31m") == 5
    with pytest.raises(TaskFailed):
        bad.enqueue().result()
    assert asyncio.run(body()) == 7


def test_waiting_for_what_nobody_ends_fails(box, nd, mail):
    with contextlib.closing(sqlite3.connect(nd.path)) as connection, connection:
        mail.enqueue("ada")
        connection.execute("INSERT INTO nextdue_tasks(name, due_utc) VALUES ('stranger', '2026-01-01')")
    with pytest.raises(NeverEnds, match="nothing that falls due would end it"):
        nd.find(name="stranger")[0].wait()
