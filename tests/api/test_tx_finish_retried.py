"""ctx.finish(tx=...) that was rolled back and is tried again, and several tasks that finish in one transaction."""

import contextlib
import sqlite3

import pytest

from nextdue import BadTransaction, Context, LeaseLost
from nextdue.records import Serving, TickRequest
from tests.api.conftest import outcomes


class Undone(Exception):
    """Something else of the transaction failed."""


@pytest.fixture
def connection(nd):
    with contextlib.closing(sqlite3.connect(nd.path)) as found:
        yield found


def begin_ours(nd, connection):
    return nd.transaction()


def begin_plain(nd, connection):
    return connection


BOTH = pytest.mark.parametrize("begin", [begin_ours, begin_plain], ids=["ours", "sqlite3"])


def put_back(ctx, begun, nd, shop, n):
    """finish() in a transaction that is rolled back after its block."""
    with contextlib.suppress(Undone), begun as tx:
        with ctx.finish(tx=tx or nd.path):
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
        raise Undone


@BOTH
def test_what_was_rolled_back_may_finish_again(begin, shop, nd, connection):
    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        for again in range(3):
            put_back(ctx, begin(nd, connection), nd, shop, n + again)
        with begin(nd, connection) as tx, ctx.finish(tx=tx):
            tx.execute("INSERT INTO orders VALUES (?)", (n,))

    handle = receipt.enqueue(7)
    assert shop.work() == {"done": 1}
    assert (handle.state, shop.orders(), outcomes(handle)) == ("done", [7], ["done"])


def test_the_second_one_may_be_in_a_transaction_of_its_own(shop, nd, connection):
    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        put_back(ctx, nd.transaction(), nd, shop, 1)
        with ctx.finish(again="1h") as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (n,))

    handle = receipt.enqueue(7)
    assert shop.work() == {"done": 1}
    assert (handle.state, shop.orders()) == ("waiting", [7])


@BOTH
def test_two_in_one_transaction_are_refused_and_roll_it_back(begin, shop, nd, connection):
    """The token protects: the second one would write rows of a task that is over."""

    def twice(ctx, n):
        with begin(nd, connection) as tx:
            for _ in range(2):
                with ctx.finish(tx=tx):
                    tx.execute("INSERT INTO orders VALUES (?)", (n,))

    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        with pytest.raises(BadTransaction, match="finishes once, and did so in this transaction"):
            twice(ctx, n)
        shop.seen.append(shop.orders())
        with begin(nd, connection) as tx, ctx.finish(tx=tx):
            tx.execute("INSERT INTO orders VALUES (?)", (n,))

    receipt.enqueue(7)
    assert shop.work() == {"done": 1}
    assert (shop.seen, shop.orders()) == ([[]], [7])


@BOTH
def test_after_the_commit_it_is_refused(begin, shop, nd, connection):
    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        with begin(nd, connection) as tx, ctx.finish(tx=tx):
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
        with pytest.raises((BadTransaction, LeaseLost)), begin(nd, connection) as tx, ctx.finish(tx=tx):
            tx.execute("INSERT INTO orders VALUES (?)", (n + 1,))

    receipt.enqueue(7)
    assert shop.work() == {"done": 1}
    assert shop.orders() == [7]


@BOTH
def test_rolled_back_and_not_tried_again_is_a_failure(begin, shop, nd, connection):
    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        put_back(ctx, begin(nd, connection), nd, shop, n)

    handle = receipt.enqueue(7)
    assert shop.work() == {"failed": 1}
    assert (handle.view().reason, shop.orders()) == ("not_committed", [])


def test_a_savepoint_that_is_rolled_back_takes_the_end_with_it(shop, nd):
    """What the commit kept is read from the file then, and not taken for granted."""

    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        with nd.transaction() as tx:
            tx.execute("SAVEPOINT one")
            with ctx.finish(tx=tx):
                tx.execute("INSERT INTO orders VALUES (?)", (n,))
            tx.execute("ROLLBACK TO one")
            tx.execute("INSERT INTO orders VALUES (?)", (n + 1,))

    handle = receipt.enqueue(7)
    assert shop.work() == {"failed": 1}
    assert (handle.view().reason, shop.orders()) == ("not_committed", [8])


def test_a_wait_after_it_is_refused(shop, nd):
    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        with nd.transaction() as tx, ctx.finish(tx=tx):
            tx.execute("INSERT INTO orders VALUES (?)", (n,))
        with pytest.raises(BadTransaction, match="finishes once"):
            ctx.sleep("nap", "1h")

    receipt.enqueue(7)
    assert shop.work() == {"done": 1}


def test_an_end_that_ours_committed_is_known_without_a_look_at_the_file(shop, nd, monkeypatch):
    @nd.task
    def receipt(ctx: Context, n: int) -> None:
        with nd.transaction() as tx, ctx.finish(tx=tx):
            tx.execute("INSERT INTO orders VALUES (?)", (n,))

    monkeypatch.setattr(nd.desk, "holds", lambda claim: pytest.fail("it asked"))
    receipt.enqueue(7)
    assert shop.work() == {"done": 1}


def test_a_batch_purges_what_it_adds(world, shop):
    """F121: once for all that ended in one transaction, and as much as each alone would."""
    few = world.app(keep_runs=5)

    @few.task
    def together(ctx: Context, n: int) -> None:
        with few.transaction() as tx:
            for other in range(20):
                one = Context(claims[other], few.desk)
                with one.finish(tx=tx):
                    pass
            with ctx.finish(tx=tx):
                pass

    claims = {}

    @few.task
    def work(ctx: Context, n: int) -> None: ...

    for _ in range(3):
        with contextlib.closing(few.open_store()) as store:
            work.enqueue_many([(n,) for n in range(20)])
            worker = store.enlist()
            store.serve({"work": Serving(60_000)}, None)
            answer = store.tick(TickRequest(worker, [], worker << 32 | 1, 20))
            claims = dict(enumerate(answer.claims))
            assert len(claims) == 20
            together.enqueue(1)
            assert world.work(few) == {"done": 1}
    assert world.sql("SELECT count(*) FROM nextdue_run")[0][0] <= 26
