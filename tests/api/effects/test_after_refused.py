"""Tasks that can't come after others, and those that share a key or a transaction with them."""

import asyncio
import contextlib
import sqlite3

import pytest

from nextdue import (
    BadArguments,
    BadDefinition,
    BadTransaction,
    Context,
    KeyTaken,
    Nextdue,
    UnknownTask,
)
from tests.api.effects.conftest import whole, words

# refused


def test_a_parent_of_which_nothing_is_known(nd, box, part, rows):
    parent = part.enqueue("p")
    box.drain()
    rows("DELETE FROM nextdue_run")
    rows("DELETE FROM nextdue_result")
    before = whole(nd)
    with pytest.raises(UnknownTask, match=rf"can't come after task #{parent.id}: neither its row nor its history"):
        part.using(after=parent).enqueue("child")
    with pytest.raises(UnknownTask):
        part.using(after=parent).enqueue_many([("child",)])
    assert whole(nd) == before


def test_a_result_that_outlived_its_history_is_enough(nd, box, part, seen, rows):
    parent = part.enqueue("p")
    box.drain()
    kept = "task, name, key, result, keep"
    rows(f"INSERT INTO nextdue_result({kept}) SELECT {kept} FROM nextdue_run")
    rows("DELETE FROM nextdue_run")
    part.using(after=parent).enqueue("child")
    box.drain()
    assert seen[-1] == ("child", ["p"])


def test_cycles_are_refused_and_change_nothing(nd, box, part):
    a = part.using(key="a").enqueue("a", "die")
    box.drain()
    assert a.state == "dead"
    b = part.using(key="b", after=a).enqueue("b")
    c = part.using(after=b).enqueue("c")
    for parents in ([a], [b], [c], [part.using(delay=60).enqueue("other"), c]):
        before = whole(nd)
        with pytest.raises(BadArguments, match="would wait for itself"):
            part.using(key="a", after=parents).enqueue("a")
        assert whole(nd) == before
    assert a.state == "dead"


def test_a_cycle_in_a_user_s_own_transaction_leaves_that_as_it_was(nd, box, part, rows):
    a = part.using(key="a").enqueue("a", "die")
    box.drain()
    b = part.using(key="b", after=a).enqueue("b")
    rows("CREATE TABLE orders(id INTEGER PRIMARY KEY)")
    with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as own:
        own.execute("BEGIN IMMEDIATE")
        own.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(BadArguments, match="would wait for itself"):
            part.using(key="a", after=b, tx=own).enqueue("a")
        assert own.in_transaction
        own.execute("COMMIT")
    assert rows("SELECT id FROM orders") == [(1,)]
    assert (a.state, b.state) == ("dead", "held")


@pytest.mark.parametrize("after", [1, "x", ["x"], [1], {"a": 1}, False], ids=repr)
def test_after_takes_handles(part, after):
    with pytest.raises(BadDefinition, match="after= takes the handles"):
        part.using(after=after)


@pytest.mark.parametrize("after", [None, (), []], ids=repr)
def test_no_parent_is_none(box, part, seen, after):
    part.using(after=after, on_conflict="replace", key="k").enqueue("alone")
    box.drain()
    assert seen == [("alone", [])]


def test_bad_options(nd, box, part):
    parent = part.enqueue("p")
    with pytest.raises(BadDefinition, match="if_dead must be hold or cancel"):
        part.using(after=parent, if_dead="skip")
    for mode in ("replace", "earliest", "extend", "again"):
        with pytest.raises(BadDefinition, match=rf"task part: what comes after= .* ignore or reject, not {mode}"):
            part.using(after=parent, key="k", on_conflict=mode)
    demand = nd.on_demand("1m", name="demand")(lambda: None)
    with pytest.raises(BadDefinition, match=r"task demand runs on demand: .* never of after="):
        demand.using(after=parent)


def test_a_handle_of_another_file_is_refused(box, nd, part):
    other = box.use(Nextdue("/nowhere/other.db"))
    foreign = other.task(name="foreign")(lambda: None).enqueue()
    with pytest.raises(BadDefinition, match=r"can't come after <foreign #1>, which is in .*other.db"):
        part.using(after=foreign)


def test_an_own_transaction_is_not_waited_for(nd, part):
    parent = part.using(delay=60).enqueue("p")
    with nd.transaction(), pytest.raises(BadTransaction, match="inside of a transaction"):
        part.using(after=parent).enqueue("child")


# keys


def test_a_key_in_use_stays_as_it_is(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    first = part.using(key="c", delay=1).enqueue("c")
    again = part.using(key="c", after=parent).enqueue("c")
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(KeyTaken):
        part.using(key="c", after=parent, on_conflict="reject").enqueue("c")
    box.advance("1m")
    assert words(seen) == ["c"]


@pytest.mark.parametrize("ended", ["cancelled", "dead", "done"])
def test_a_new_life_of_a_key_comes_after_others_than_the_one_before(box, part, seen, ended):
    old = part.using(delay="10h").enqueue("old")
    child = part.using(key="c", remember=0, after=old if ended == "cancelled" else ()).enqueue("c", "die")
    if ended == "cancelled":
        child.cancel()
    else:
        part.mended = ended == "done"
        box.drain()
    assert child.state == ended
    part.mended = True
    new = part.using(delay="1h").enqueue("new")
    box.advance("1s")
    anew = part.using(key="c", after=new).enqueue("c")
    assert anew.created
    assert (anew.id == child.id) == (ended != "done")
    box.advance("30m")
    assert anew.state == "waiting"
    box.advance("31m")
    assert (anew.state, seen[-1]) == ("done", ("c", ["new"]))


def test_a_cancelled_child_that_is_retried_before_its_parent_is_done(box, part, seen):
    """A person's word: it waits no more; what comes later changes nothing."""
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(key="c", after=parent).enqueue("c")
    child.cancel()
    assert child.retry()
    box.drain()
    box.advance("2h")
    assert (child.state, words(seen)) == ("done", ["c", "p"])


@pytest.mark.parametrize("mode", ["replace", "earliest", "extend"])
@pytest.mark.parametrize("word", ["c", "d"])
def test_a_waiting_child_may_be_changed_and_waits_on(box, part, seen, mode, word):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(key="c", after=parent).enqueue("c")
    part.using(key="c", on_conflict=mode).enqueue(word)
    box.advance("30m")
    assert (child.state, seen) == ("waiting", [])
    box.advance("31m")
    assert (child.state, seen[-1]) == ("done", (word, ["p"]))


# transactions


def test_what_is_rolled_back_was_never_there(nd, box, part, rows):
    parent = part.using(delay=60).enqueue("p")
    before = whole(nd)
    with contextlib.suppress(ZeroDivisionError), nd.transaction() as tx:
        part.using(after=parent, tx=tx).enqueue("child")
        part.using(after=parent, tx=tx).enqueue_many([("a",), ("b",)])
        raise ZeroDivisionError
    after = [line for line in whole(nd) if "sqlite_sequence" not in line]
    assert after == [line for line in before if "sqlite_sequence" not in line]


@pytest.mark.parametrize("if_dead", ["hold", "cancel"])
def test_in_a_connection_whose_triggers_fire_again_and_again(nd, box, part, if_dead):
    dead = part.enqueue("p", "die")
    box.drain()
    with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as own:
        own.execute("PRAGMA recursive_triggers = ON")
        own.execute("PRAGMA foreign_keys = ON")
        own.execute("BEGIN IMMEDIATE")
        child = part.using(after=dead, if_dead=if_dead, tx=own).enqueue("child")
        other = part.using(after=child, if_dead=if_dead, tx=own).enqueue("other")
        own.execute("COMMIT")
    box.drain()
    assert child.state == {"hold": "held", "cancel": "cancelled"}[if_dead]
    assert other.state == {"hold": "waiting", "cancel": "cancelled"}[if_dead]


def test_parent_and_child_in_one_transaction(nd, box, part, seen):
    with nd.transaction() as tx:
        parent = part.using(tx=tx).enqueue("p")
        child = part.using(after=parent, tx=tx).enqueue("child")
        grandchild = part.using(after=child, tx=tx).enqueue("grandchild")
    box.drain()
    assert words(seen) == ["p", "child", "grandchild"]
    assert grandchild.state == "done"


def test_a_task_that_puts_its_own_followers(nd, box, seen):
    @nd.task(keep_result=True)
    def leaf(n: int) -> int:
        return n * n

    @nd.task
    def total(ctx: Context) -> None:
        seen.append(sum(ctx.results))

    @nd.task
    def fan() -> None:
        with nd.transaction() as tx:
            total.using(after=leaf.using(tx=tx).enqueue_many([(n,) for n in range(10)]), tx=tx).enqueue()

    fan.enqueue()
    box.drain()
    assert seen == [285]


async def later(call):
    return await call.aenqueue("child")


def test_asynchronously(nd, box, part, seen):

    parent = part.enqueue("p")
    child = asyncio.run(later(part.using(after=parent)))
    box.drain()
    assert (child.state, seen[-1]) == ("done", ("child", ["p"]))
