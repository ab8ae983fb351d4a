"""ctx.finish(): the task's own rows and its completion in one fenced commit."""

import contextlib
import sqlite3

import pytest

from nextdue import BadTransaction, Context, LeaseLost, Nextdue, Snooze
from tests.api.conftest import outcomes


def steal(tx):
    """What happens to the row when another worker takes it."""
    tx.execute("UPDATE nextdue_task SET token = token + 1")


def test_rows_and_completion_are_one_commit(shop, nd):
    """Law 14."""

    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        with ctx.finish() as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
            shop.seen.append((nd.get(ctx.id).state, shop.orders()))
        shop.seen.append((nd.get(ctx.id).state, shop.orders()))

    handle = receipt.enqueue(7)
    assert shop.work() == {"done": 1}
    assert shop.seen == [("running", []), ("done", [7])]
    assert (handle.state, outcomes(handle)) == ("done", ["done"])
    (run,) = handle.runs()
    assert (run.worker, run.claim, run.started is not None, run.result) == (1, 1, True, None)
    assert shop.count() == 0


def test_tasks_put_in_it_are_part_of_it(shop, nd):
    """F039: the follow-up is there if and only if this is done."""

    @nd.task
    def mail(n: int) -> None:
        shop.seen.append(n)

    @nd.task
    def receipt(ctx, n: int) -> None:
        with contextlib.suppress(KeyError), ctx.finish() as tx:
            mail.using(tx=tx).enqueue(n)
            raise KeyError
        with ctx.finish() as tx:
            mail.using(tx=tx).enqueue(n + 1)

    receipt.enqueue(1)
    assert shop.work() == {"done": 2}
    assert shop.seen == [2]


def test_an_exception_in_the_block_is_the_attempt_s_failure(shop, nd):
    @nd.task
    def receipt(ctx, n: int) -> None:
        with ctx.finish() as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
            if ctx.attempt == 1:
                raise OSError("no mail")

    handle = receipt.enqueue(7)
    assert shop.work() == {"failed": 1}
    assert shop.orders() == []
    assert handle.view().message.startswith("OSError: no mail (test_tx_finish.py:")
    assert shop.advance("2m") == {"done": 1}
    assert (shop.orders(), outcomes(handle)) == ([7], ["failed", "done"])


@pytest.mark.parametrize("error", [ValueError("late"), Snooze(60), SystemExit(3)])
def test_what_is_raised_after_it_changes_nothing(error, shop, nd, caplog):
    @nd.task
    def receipt(ctx, n: int) -> None:
        with ctx.finish() as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
        raise error

    handle = receipt.enqueue(7)
    assert shop.work() == {"done": 1}
    assert (handle.state, shop.orders(), outcomes(handle)) == ("done", [7], ["done"])
    assert "changes nothing" in caplog.text


def test_a_second_finish_is_refused(shop, nd):
    @nd.task
    def receipt(ctx, n: int) -> None:
        with ctx.finish() as tx:
            tx.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(BadTransaction, match="finishes once"), ctx.finish() as tx:
            tx.execute("INSERT INTO orders VALUES (2)")
        shop.seen.append(n)

    @nd.task
    def nested(ctx) -> None:
        with ctx.finish(), pytest.raises(BadTransaction, match="finishes once"), ctx.finish():
            shop.seen.append("never")

    receipt.enqueue(1)
    nested.enqueue()
    assert shop.work() == {"done": 2}
    assert (shop.seen, shop.orders()) == ([1], [1])


def test_a_lease_that_is_lost_before_runs_no_block(shop, nd):
    """Law 5, F024, F027."""

    @nd.task
    def receipt(ctx, n: int) -> None:
        with nd.transaction() as tx:
            steal(tx)
        with pytest.raises(LeaseLost, match="its lease is lost"), ctx.finish() as tx:
            shop.seen.append("never")
        shop.seen.append(n)

    receipt.enqueue(7)
    shop.work()
    assert (shop.seen, shop.orders()) == ([7], [])


def test_a_lease_that_is_lost_within_rolls_back(shop, nd):
    """Law 5: can't happen while the block holds the write lock; the completion shows its token all the same."""

    @nd.task
    def receipt(ctx, n: int) -> None:
        try:
            with ctx.finish() as tx:
                tx.execute("INSERT INTO orders VALUES (?)", (n,))
                steal(tx)
        except LeaseLost:
            shop.seen.append(n)

    handle = receipt.enqueue(7)
    assert shop.work() == {"done": 1}, "the theft was rolled back too, and the task returned"
    assert (shop.seen, shop.orders(), outcomes(handle)) == ([7], [], ["done"])


def test_a_key_is_guarded_after_it(shop, nd):
    """F116: as after any success, for as long as was said, and no longer."""

    @nd.task
    def receipt(ctx, n: int) -> None:
        with ctx.finish():
            shop.seen.append(n)

    call = receipt.using(key="a", remember="1h")
    first = call.enqueue(1)
    assert shop.work() == {"done": 1}
    again = call.enqueue(2)
    assert (again.created, again.state) == (False, "done")
    shop.advance("61m")
    assert call.enqueue(3).created
    shop.work()
    assert (shop.seen, first.state) == ([1, 3], "done")


def test_a_result(shop, nd):
    @nd.task(keep_result=True)
    def kept(ctx) -> dict[str, int]:
        with ctx.finish(result={"sent": 3}):
            pass
        return {"sent": 4}

    @nd.task
    def unkept(ctx) -> None:
        with ctx.finish(result=5):
            pass

    first, second = kept.enqueue(), unkept.enqueue()
    shop.work()
    assert [h.runs()[0].result for h in (first, second)] == ['{"sent":3}', None]
    assert first.result(timeout=0) == {"sent": 3}


def test_a_result_that_is_no_json_is_refused_before_the_block(shop, nd):
    @nd.task(keep_result=True)
    def kept(ctx) -> None:
        with ctx.finish(result=object()) as tx:
            tx.execute("INSERT INTO orders VALUES (1)")

    handle = kept.enqueue()
    assert shop.work() == {"failed": 1}
    assert shop.orders() == []
    assert "can't be written as JSON" in handle.view().message


def test_the_next_of_its_group_gets_the_slot(shop, nd):
    """The one that has waited longest, and only one."""

    @nd.task(limit=1)
    def work(ctx, n: int) -> None:
        blocked = shop.sql("SELECT count(*) FROM nextdue_task WHERE rest = 'blocked'")[0][0]
        shop.seen.append((n, blocked))
        with ctx.finish():
            pass

    work.enqueue_many([(n,) for n in range(4)])
    assert shop.work() == {"done": 4}
    assert shop.seen == [(0, 3), (1, 2), (2, 1), (3, 0)]


def test_each_finish_purges_what_it_adds(shop, world, nd):
    """F121: a program whose tasks all finish themselves has a bounded history too."""
    few = world.app(keep_runs=5)

    @few.task
    def work(ctx, n: int) -> None:
        with ctx.finish():
            pass

    for n in range(20):
        work.using(key=str(n), remember="1ms").enqueue(n)
        world.advance("1s", few)
    assert world.sql("SELECT count(*) FROM nextdue_run")[0][0] <= 6
    assert world.count() <= 2


def test_results_that_are_kept_do_not_stop_the_purge(world):
    """F121: they outlive their lines of the history."""
    few = world.app(keep_runs=5)

    @few.task(keep_result="1h")
    def work(ctx, n: int) -> int:
        with ctx.finish(result=n):
            pass
        return 0

    handles = work.enqueue_many([(n,) for n in range(20)])
    world.work(few)
    assert world.sql("SELECT count(*) FROM nextdue_run")[0][0] <= 6
    assert [handle.result(timeout=0) for handle in handles] == list(range(20))
    world.advance("2h")
    for n in range(20, 40):
        work.using(delay=1).enqueue(n)
    world.advance("2s", few)
    assert world.sql("SELECT count(*) FROM nextdue_result WHERE keep < ?", world.clock.now()) == [(0,)]


def test_no_history_is_kept_where_none_is_wanted(world, shop):
    none = world.app(keep_runs=0)

    @none.task
    def work(ctx) -> None:
        with ctx.finish():
            pass

    work.enqueue()
    assert world.work(none) == {"done": 1}
    assert world.sql("SELECT count(*) FROM nextdue_run") == [(0,)]


def test_in_one_s_own_connection(shop, nd):
    """Law 14: yours to commit."""

    @nd.task
    def receipt(ctx, n: int) -> None:
        with contextlib.closing(sqlite3.connect(nd.path)) as connection, connection:
            with ctx.finish(tx=connection) as tx:
                assert tx is connection
                connection.execute("INSERT INTO orders VALUES (?)", (n,))
            assert nd.get(ctx.id).state == "running"

    handle = receipt.enqueue(7)
    assert shop.work() == {"done": 1}
    assert (handle.state, shop.orders(), outcomes(handle)) == ("done", [7], ["done"])


def test_in_the_program_s_transaction_of_ours(shop, nd):
    @nd.task
    def receipt(ctx, n: int) -> None:
        with nd.transaction() as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
            with pytest.raises(BadTransaction, match="would wait for itself"), ctx.finish():
                pass
            with ctx.finish(tx=tx):
                tx.execute("INSERT INTO orders VALUES (?)", (n + 1,))

    assert shop.run(receipt.enqueue(7)) == "done"
    assert shop.orders() == [7, 8]


def test_a_failed_block_of_it_can_t_be_committed_by_catching(shop, nd):
    @nd.task
    def receipt(ctx, n: int) -> None:
        with nd.transaction() as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
            with contextlib.suppress(ZeroDivisionError), ctx.finish(tx=tx):
                _ = 1 // 0

    handle = receipt.enqueue(7)
    assert shop.work() == {"failed": 1}
    assert shop.orders() == []
    assert "was rolled back" in handle.view().message


@pytest.mark.parametrize("raises", [False, True])
def test_one_s_own_that_is_never_committed_is_a_failure(raises, shop, nd):
    @nd.task
    def receipt(ctx, n: int) -> None:
        connection = sqlite3.connect(nd.path)
        with ctx.finish(tx=connection):
            connection.execute("INSERT INTO orders VALUES (?)", (n,))
        connection.close()
        if raises:
            raise OSError("its own")

    handle = receipt.enqueue(7)
    assert shop.work() == {"failed": 1}
    assert handle.view().reason == ("OSError" if raises else "not_committed")
    assert shop.orders() == []


def test_misuse_of_one_s_own(shop, nd, tmp_path):
    @nd.task
    def receipt(ctx, n: int) -> None:
        other = sqlite3.connect(tmp_path / "other.db")
        with pytest.raises(BadTransaction, match="only one file"), ctx.finish(tx=other):
            shop.seen.append("never")
        other.close()
        with pytest.raises(BadTransaction, match="tx must be"), ctx.finish(tx="default"):
            shop.seen.append("never")
        with ctx.finish():
            shop.seen.append("still can")

    assert shop.run(receipt.enqueue(7)) == "done"
    assert shop.seen == ["still can"]


def test_extend_moves_the_end_of_the_lease(shop, nd):
    """F028."""

    @nd.task(lease=60)
    def long(ctx) -> None:
        ctx.extend("10m")
        shop.seen.append(nd.get(ctx.id).view().due - shop.clock.now())
        ctx.extend("1s")
        shop.seen.append(nd.get(ctx.id).view().due - shop.clock.now())
        with nd.transaction() as tx:
            steal(tx)
        with pytest.raises(LeaseLost):
            ctx.extend("10m")
        shop.seen.append("lost")

    long.enqueue()
    shop.work()
    assert shop.seen == [600_000, 600_000, "lost"]


def test_called_by_hand_it_is_just_a_transaction(shop, nd):
    @nd.task
    def receipt(ctx, n: int) -> None:
        ctx.extend("1m")
        with ctx.finish(again=60) as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (n,))

    receipt(7)
    assert (shop.orders(), shop.count()) == ([7], 0)


def test_the_connections_are_given_back(shop, nd: Nextdue):
    @nd.task
    def receipt(ctx, n: int) -> None:
        with ctx.finish() as tx:
            if n % 3 == 0:
                raise OSError("no")
            tx.execute("INSERT INTO orders VALUES (?)", (n,))

    receipt.enqueue_many([(n,) for n in range(20)])
    shop.work()
    assert len(nd.desk.connections._idle) == 1


def test_a_finish_without_the_result_that_is_kept_says_how_to_give_it(world, nd):
    @nd.task(keep_result=True)
    def total(ctx: Context) -> int:
        with ctx.finish():
            pass
        return 5

    handle = total.enqueue()
    world.work()
    message = handle.view().message
    assert "; what the function is to return is given by finish(result=...) (test_tx_finish.py:" in message
