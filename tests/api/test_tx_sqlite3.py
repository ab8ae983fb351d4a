"""using(tx=...) with the user's own connection of the standard library."""

import contextlib
import logging
import os
import sqlite3
import threading

import pytest

from nextdue import BadTransaction, NextdueError, NotAStore, StoreBusy, StoreGone
from nextdue.sqlite.tx import translated


@pytest.fixture
def connection(world, receipt):
    with contextlib.closing(sqlite3.connect(world.path, timeout=0.05)) as connection:
        yield connection


@pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_rows_and_tasks_are_committed_together(level, world, receipt, connection):
    """Law 2: in sqlite3's own way of beginning, before the first INSERT, ours too."""
    connection.isolation_level = level
    with connection:
        one = receipt.using(tx=connection, delay="1m").enqueue(1)
        assert connection.in_transaction
        connection.execute("INSERT INTO orders VALUES (1)")
        many = receipt.using(tx=connection).enqueue_many([(2,), (3,)])
    assert [h.state for h in (one, *many)] == ["waiting"] * 3
    world.work()
    assert world.seen == [2, 3]
    world.advance("1m 1s")
    assert world.seen == [2, 3, 1]


def test_a_rollback_leaves_nothing(world, receipt, connection):
    """Law 2."""
    with contextlib.suppress(ZeroDivisionError), connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        receipt.using(tx=connection, key="1").enqueue(1)
        receipt.using(tx=connection).enqueue_many([(2,), (3,)])
        _ = 1 // 0
    assert (world.count(), world.orders()) == (0, [])
    assert world.sql("SELECT count(*) FROM nextdue_lane") == [(0,)]
    assert receipt.using(key="1").enqueue(1).created


def test_a_savepoint_takes_its_tasks_with_it(world, receipt, connection):
    connection.isolation_level = None
    connection.execute("BEGIN IMMEDIATE")
    receipt.using(tx=connection).enqueue(1)
    connection.execute("SAVEPOINT a")
    receipt.using(tx=connection).enqueue(2)
    connection.execute("ROLLBACK TO a")
    connection.execute("COMMIT")
    world.work()
    assert world.seen == [1]


def test_keys_of_the_transaction(world, receipt, connection):
    with connection:
        first = receipt.using(tx=connection, key="a").enqueue(1)
        second = receipt.using(tx=connection, key="a").enqueue(2)
    assert (first.created, second.created, first.id == second.id) == (True, False, True)
    world.work()
    with connection:
        third = receipt.using(tx=connection, key="a").enqueue(3)
    assert (third.created, third.state) == (False, "done")
    assert world.seen == [1]


def test_nothing_of_ours_stays_on_the_connection(receipt, connection):
    with connection:
        receipt.using(tx=connection).enqueue(1)
    assert connection.execute("SELECT name FROM sqlite_temp_master").fetchall() == []
    assert connection.isolation_level == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda c: setattr(c, "row_factory", sqlite3.Row),
        lambda c: setattr(c, "row_factory", lambda cursor, row: dict(enumerate(map(str, row)))),
        lambda c: setattr(c, "text_factory", bytes),
    ],
)
def test_whatever_the_program_makes_of_its_rows(change, world, receipt, connection):
    change(connection)
    with connection:
        handle = receipt.using(tx=connection, key="a").enqueue(1)
    assert handle.created
    assert world.work() == {"done": 1}


# misuse


def test_without_a_transaction_it_is_refused(receipt, connection, refuses):
    connection.isolation_level = None
    for put in (lambda c: c.enqueue(1), lambda c: c.enqueue_many([(1,)])):
        with refuses(BadTransaction, "no transaction open"):
            put(receipt.using(tx=connection))
    connection.execute("BEGIN")
    receipt.using(tx=connection).enqueue(1)
    connection.execute("COMMIT")


def test_another_file_is_refused(receipt, tmp_path, refuses):
    for path in (tmp_path / "other.db", ":memory:", ""):
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE t(a)")
            with refuses(BadTransaction, "only one file commits at once"):
                receipt.using(tx=other).enqueue(1)


def test_the_same_file_by_another_path_is_the_same(world, receipt, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "link" / "shop.db")) as connection, connection:
        receipt.using(tx=connection).enqueue(1)
    assert world.work() == {"done": 1}


def test_a_database_that_is_only_attached_is_refused(world, receipt, tmp_path, refuses):
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("ATTACH ? AS shop", (str(world.path),))
        with refuses(BadTransaction, "only one file commits at once"):
            receipt.using(tx=other).enqueue(1)


def test_a_closed_connection_is_refused(receipt, connection, refuses):
    connection.close()
    with refuses(BadTransaction, "closed"):
        receipt.using(tx=connection).enqueue(1)


def test_another_thread_s_connection_is_refused(receipt, connection):
    said = []

    def other():
        try:
            receipt.using(tx=connection).enqueue(1)
        except NextdueError as exc:
            said.append(exc)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert isinstance(said[0], BadTransaction)
    assert "same thread" in str(said[0])


def test_a_cursor_is_no_connection(receipt, connection, refuses):
    with refuses(BadTransaction, "not Cursor"):
        receipt.using(tx=connection.cursor()).enqueue(1)


def test_synchronous_off_is_refused_and_normal_warned_of_once(world, nd, receipt, connection, refuses, caplog):
    """Law 1: inside the user's own connection the moment is the user's commit."""
    connection.execute("PRAGMA synchronous=OFF")
    with refuses(BadTransaction, "synchronous=OFF"):
        receipt.using(tx=connection).enqueue(1)
    connection.execute("PRAGMA synchronous=NORMAL")
    caplog.set_level(logging.WARNING, "nextdue")
    for n in (1, 2):
        with connection:
            receipt.using(tx=connection).enqueue(n)
    assert caplog.text.count("synchronous=NORMAL") == 1
    assert world.work() == {"done": 2}


def test_tables_that_are_not_there_yet(world, nd):
    @nd.task
    def early() -> None: ...

    with contextlib.closing(sqlite3.connect(world.path, timeout=0.05)) as connection:
        connection.execute("CREATE TABLE orders(id)")
        connection.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(NotAStore, match="no tables of nextdue yet"):
            early.using(tx=connection).enqueue()
        connection.rollback()
        nd.find()
        early.using(tx=connection).enqueue()
        connection.commit()
    assert world.work() == {"done": 1}


def test_a_transaction_that_was_overtaken_says_so(world, receipt, connection):
    """F053: begun by reading, then somebody else wrote: SQLite answers busy at once, whatever the timeout."""
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM orders").fetchall()
    world.sql("INSERT INTO orders VALUES (1)")
    with pytest.raises(StoreBusy, match="Roll back and do it again") as error:
        receipt.using(tx=connection).enqueue(1)
    assert isinstance(error.value.__cause__, sqlite3.OperationalError)
    connection.rollback()
    with connection:
        receipt.using(tx=connection).enqueue(1)
    assert world.work() == {"done": 1}


def test_nothing_is_read_before_it_is_written(world, receipt, connection):
    """F053: else a commit of somebody else just then would make the transaction unable to write."""
    traced: list[str] = []
    connection.execute("BEGIN")
    connection.set_trace_callback(traced.append)
    receipt.using(tx=connection).enqueue(1)
    connection.set_trace_callback(None)
    connection.rollback()
    reads = [line for line in traced if not line.startswith("PRAGMA")]
    assert reads[0].startswith("INSERT OR IGNORE INTO nextdue_lane"), traced
    connection.execute("BEGIN")
    connection.execute("PRAGMA database_list").fetchall()
    connection.execute("PRAGMA synchronous").fetchall()
    world.sql("INSERT INTO orders VALUES (1)")
    receipt.using(tx=connection).enqueue(1)
    connection.commit()


def test_somebody_else_s_write_lock(world, receipt, connection):
    with contextlib.closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="another connection held the write lock"):
            receipt.using(tx=connection).enqueue(1)


def test_other_errors_stay_the_user_s(connection):
    with pytest.raises(sqlite3.IntegrityError), translated():
        connection.execute("INSERT INTO orders VALUES (1), (1)")


def test_a_file_that_was_replaced_is_noticed(world, nd, receipt, connection):
    """F066: what is committed into a deleted file is lost."""
    with connection:
        receipt.using(tx=connection).enqueue(1)
    os.rename(world.path, world.path.with_name("moved.db"))
    with pytest.raises((BadTransaction, StoreGone)):
        receipt.using(tx=connection).enqueue(2)
    os.rename(world.path.with_name("moved.db"), world.path)
