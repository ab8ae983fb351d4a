"""nd.transaction(): the program's rows and its tasks in one commit."""

import asyncio
import contextlib
import sqlite3
import threading

import pytest

from nextdue import BadTransaction, Every, KeyTaken, Nextdue, NextdueError, StoreBusy


def test_rows_and_tasks_are_committed_together(world, nd, receipt):
    """Law 2."""
    with nd.transaction() as tx:
        tx.execute("INSERT INTO orders VALUES (?)", (42,))
        tx.executemany("INSERT INTO orders VALUES (:id)", [{"id": 43}, {"id": 44}])
        one = receipt.using(tx=tx, key="42", queue="mail", priority=5).enqueue(42)
        many = receipt.using(tx=tx, delay="1h").enqueue_many([(43,), (44,)])
        assert tx.execute("SELECT count(*) FROM orders").fetchone() == (3,)
        assert [h.state for h in (one, *many)] == ["gone"] * 3, "nobody else sees them before the commit"
    assert [h.state for h in (one, *many)] == ["waiting"] * 3
    assert (one.view().queue, one.view().priority, one.key, one.created) == ("mail", 5, "42", True)
    world.work()
    assert world.seen == [42]
    world.advance("59m")
    assert world.seen == [42]
    world.advance("2m")
    assert sorted(world.seen) == [42, 43, 44]
    assert world.orders() == [42, 43, 44]


def test_an_exception_leaves_nothing(world, nd, receipt):
    """Law 2."""
    before = world.count()
    with contextlib.suppress(ZeroDivisionError), nd.transaction() as tx:
        tx.execute("INSERT INTO orders VALUES (42)")
        receipt.using(tx=tx).enqueue(42)
        receipt.using(tx=tx).enqueue_many([(43,), (44,)])
        _ = 1 // 0
    assert world.count() == before
    assert world.orders() == []
    assert world.work() == {}


def test_a_savepoint_takes_its_tasks_with_it(world, nd, receipt):
    with nd.transaction() as tx:
        receipt.using(tx=tx).enqueue(1)
        tx.execute("SAVEPOINT inner")
        receipt.using(tx=tx, queue="new").enqueue(2)
        tx.execute("ROLLBACK TO inner")
        tx.execute("RELEASE inner")
    world.work()
    assert world.seen == [1]
    assert world.sql("SELECT count(*) FROM nextdue_lane WHERE queue = 'new'") == [(0,)], "the lane went too"


def test_keys_are_those_of_the_transaction_and_of_the_file(world, nd, receipt):
    """F110, F111: ignored or refused; dead and cancelled ones begin anew."""
    outside = receipt.using(key="a").enqueue(1)
    cancelled = receipt.using(key="b").enqueue(1)
    assert cancelled.cancel()
    with nd.transaction() as tx:
        again = receipt.using(tx=tx, key="a").enqueue(2)
        assert (again.id, again.created) == (outside.id, False)
        with pytest.raises(KeyTaken, match="which is waiting"):
            receipt.using(tx=tx, key="a", on_conflict="reject").enqueue(2)
        revived = receipt.using(tx=tx, key="b").enqueue(3)
        assert (revived.id, revived.created) == (cancelled.id, True)
        twice = receipt.using(tx=tx, key="c").enqueue(4), receipt.using(tx=tx, key="c").enqueue(5)
        assert [h.created for h in twice] == [True, False]
    world.work()
    assert sorted(world.seen) == [1, 3, 4]


def test_it_begins_by_taking_the_lock(world, nd, receipt):
    """F053: what is read in it can't be outdated when it writes."""
    other = sqlite3.connect(world.path, timeout=0)
    with nd.transaction() as tx:
        tx.execute("SELECT * FROM orders").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("INSERT INTO orders VALUES (1)")
        receipt.using(tx=tx).enqueue(1)
    other.close()
    assert world.work() == {"done": 1}


def test_somebody_else_s_transaction_is_waited_for_and_then_said(world, nd, receipt, monkeypatch):
    monkeypatch.setattr("nextdue.sqlite.database.WAIT_S", 0.05)
    other = sqlite3.connect(world.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy), nd.transaction():
        raise AssertionError("the block must not run")
    other.execute("ROLLBACK")
    other.close()
    with nd.transaction() as tx:
        receipt.using(tx=tx).enqueue(1)
    assert world.work() == {"done": 1}


def test_inside_of_one_nothing_waits_for_it(world, nd, receipt, refuses):
    """A put without tx= and a second transaction would wait for themselves: they are refused at once."""
    with nd.transaction() as tx:
        for put in (
            lambda: receipt.enqueue(1),
            lambda: receipt.enqueue_many([(1,)]),
            lambda: receipt.using(key="a").enqueue(1),
            lambda: asyncio.run(receipt.aenqueue(1)),
        ):
            with refuses(BadTransaction, r"using\(tx=tx\)"):
                put()
        with refuses(BadTransaction, "would wait for itself"), nd.transaction():
            pass
        receipt.using(tx=tx).enqueue(2)
    receipt.enqueue(3)
    world.work()
    assert sorted(world.seen) == [2, 3]


CHANGES = {
    "cancel": lambda nd, task: task.cancel(),
    "retry": lambda nd, task: task.retry(),
    "run-now": lambda nd, task: task.run_now(),
    "pause": lambda nd, task: task.pause(),
    "resume": lambda nd, task: task.resume(),
    "resolve": lambda nd, task: task.resolve("charge", happened=False),
    "pause-a-queue": lambda nd, task: nd.pause(queue="mail"),
    "resume-a-name": lambda nd, task: nd.resume(name="receipt"),
    "put-a-schedule": lambda nd, task: nd.schedules.put(nd.tasks["receipt"], Every("1h"), args=(1,)),
    "pause-a-schedule": lambda nd, task: nd.schedules.pause("receipt"),
    "resume-a-schedule": lambda nd, task: nd.schedules.resume("receipt"),
    "remove-a-schedule": lambda nd, task: nd.schedules.remove("receipt"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_inside_of_one_no_change_waits_for_it(world, nd, receipt, refuses, change):
    """Else it would hold the write lock for 5 s before it fails, and stop everybody else."""
    task = receipt.using(delay="1h").enqueue(1)
    with nd.transaction() as tx:
        tx.execute("INSERT INTO orders VALUES (42)")
        with refuses(BadTransaction, "before the block or after it"):
            change(nd, task)
        assert task.state == "waiting", "looking is no change"
    assert world.orders() == [42]


def test_it_ends_with_its_block(world, nd, receipt, refuses):
    with nd.transaction() as tx:
        pass
    for use in (
        lambda: tx.execute("INSERT INTO orders VALUES (1)"),
        lambda: tx.executemany("INSERT INTO orders VALUES (?)", [(1,)]),
        lambda: receipt.using(tx=tx).enqueue(1),
    ):
        with refuses(BadTransaction, "has ended with its block"):
            use()
    assert "ended" in repr(tx)
    assert world.orders() == []


def test_it_belongs_to_its_thread(world, nd, receipt):
    said: list[str] = []

    def other():
        try:
            tx.execute("INSERT INTO orders VALUES (1)")
        except BadTransaction as exc:
            said.append(str(exc))

    with nd.transaction() as tx:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "each thread begins its own" in said[0]
    assert world.orders() == []


@pytest.mark.parametrize("words", ["COMMIT", " commit", "END", "rollback transaction", "/* */ -- a\nCOMMIT"])
def test_its_end_is_not_the_program_s(words, world, nd, receipt):
    with nd.transaction() as tx:
        with pytest.raises(BadTransaction, match="leave COMMIT and ROLLBACK out"):
            tx.execute(words)
        tx.execute("INSERT INTO orders VALUES (1)")
    assert world.orders() == [1]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_statement_that_rolls_back_ends_the_block(goes_on, world, nd, receipt):
    def hides():
        with nd.transaction() as tx:
            tx.execute("INSERT INTO orders VALUES (1)")
            with contextlib.suppress(sqlite3.IntegrityError):
                tx.execute("INSERT OR ROLLBACK INTO orders VALUES (1)")
            if goes_on:
                tx.execute("INSERT INTO orders VALUES (2)")

    with pytest.raises(NextdueError, match="rolled"):
        hides()
    assert world.orders() == []


def test_a_failed_statement_may_be_caught(world, nd, receipt):
    with nd.transaction() as tx:
        tx.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError):
            tx.execute("INSERT INTO orders VALUES (1)")
        receipt.using(tx=tx).enqueue(1)
    assert world.orders() == [1]
    assert world.work() == {"done": 1}


def test_another_application_s_transaction_is_another_file(world, nd, receipt, tmp_path, refuses):
    other = Nextdue(tmp_path / "other.db")
    with other.transaction() as tx, refuses(BadTransaction, "only one file commits at once"):
        receipt.using(tx=tx).enqueue(1)
    other.close()


def test_two_applications_on_one_file_share_transactions(world, nd, receipt):
    with world.app().transaction() as tx:
        receipt.using(tx=tx).enqueue(1)
    world.work()
    assert world.seen == [1]


@pytest.mark.parametrize("thing", ["shop.db", 7, object(), sqlite3, True])
def test_what_is_no_transaction_is_refused(thing, receipt, refuses):
    with refuses(BadTransaction, "tx must be a transaction"):
        receipt.using(tx=thing).enqueue(1)


def test_bad_arguments_are_refused_as_ever(world, nd, receipt, refuses):
    with nd.transaction() as tx, refuses(TypeError, "receipt"):
        receipt.using(tx=tx).enqueue("forty-two")


def test_many_threads_each_have_one(world, nd, receipt):
    def puts(first):
        for n in range(first, first + 20):
            with nd.transaction() as tx:
                tx.execute("INSERT INTO orders VALUES (?)", (n,))
                receipt.using(tx=tx).enqueue(n)

    threads = [threading.Thread(target=puts, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(world.orders()) == 80
    world.work()
    assert sorted(world.seen) == world.orders()


def test_a_long_block_is_warned_of(world, nd, receipt, monkeypatch, caplog):
    monkeypatch.setattr("nextdue.sqlite.tx.LONG_S", 0.0)
    with nd.transaction() as tx:
        receipt.using(tx=tx).enqueue(1)
    assert "nd.transaction() held the write lock for" in caplog.text
