"""Tasks that come after others: they rest until all of those are done, and say so when one never will be."""

import contextlib
import sqlite3
from typing import Any

import pytest

from nextdue import (
    BadArguments,
    BadDefinition,
    BadTransaction,
    Context,
    GiveUp,
    KeyTaken,
    Nextdue,
    Retry,
    UnknownTask,
)
from tests.api.conftest import outcomes, sound


@pytest.fixture
def nd(box):
    return box.use(Nextdue("/nowhere/shop.db"))


@pytest.fixture
def rows(nd):
    def rows(sql, *values):
        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            return connection.execute(sql, values).fetchall()

    return rows


@pytest.fixture
def seen():
    return []


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


# chains and fans


def test_a_chain_runs_in_its_order(box, part, seen):
    last = part.using(delay="1h").enqueue("0")
    for n in range(1, 20):
        last = part.using(after=last).enqueue(f"{n}")
    box.drain()
    assert seen == []
    assert last.state == "waiting"
    assert last.due is None
    box.advance("1h")
    assert words(seen) == [f"{n}" for n in range(20)]
    assert seen[-1] == ("19", ["18"])


def test_a_fan_in_gets_the_results_in_the_order_of_after(box, part, seen):
    parents = [part.using(delay=10 - n).enqueue(str(n)) for n in range(10)]
    child = part.using(after=[*reversed(parents), parents[3]]).enqueue("child")
    box.advance("5s")
    assert child.state == "waiting"
    box.advance("10s")
    assert seen[-1] == ("child", [str(n) for n in reversed(range(10))])
    assert outcomes(child) == ["done"]


def test_a_fan_out(box, part, seen, nd):
    parent = part.using(delay=60).enqueue("parent")
    children = part.using(after=parent).enqueue_many([(f"{n}",) for n in range(100)])
    box.drain()
    assert {child.state for child in children} == {"waiting"}
    box.advance("2m")
    assert {child.state for child in children} == {"done"}
    assert seen[1:] == [(f"{n}", ["parent"]) for n in range(100)]
    assert part.using(after=parent).enqueue_many([]) == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_parents_that_are_done_before(box, part, seen, when):
    parent = part.enqueue("parent")
    keyed = part.using(key="k").enqueue("keyed")
    box.drain()
    child = part.using(after=[keyed, parent], delay=60).enqueue("child")
    box.drain()
    assert child.state == "waiting"
    assert child.due is not None
    box.advance("2m")
    assert seen[-1] == ("child", ["keyed", "parent"])


def test_its_delay_counts_from_the_put_and_is_kept(box, part, seen):
    parent = part.using(delay="1h").enqueue("parent")
    early = part.using(after=parent, delay="1m").enqueue("early")
    late = part.using(after=parent, delay="2h").enqueue("late")
    box.advance("61m")
    assert (early.state, late.state) == ("done", "waiting")
    box.advance("1h")
    assert late.state == "done"


def test_parents_that_keep_no_result_and_types(box, nd, part, seen):
    bare = nd.task(name="bare")(lambda: 5).enqueue()
    rich = nd.task(name="rich", keep_result=True)(lambda: {"a": [1, None]}).enqueue()
    part.using(after=[bare, rich]).enqueue("child")
    box.drain()
    assert seen == [("child", [None, {"a": [1, None]}])]


def test_a_parent_that_settles_itself(box, nd, part, seen):
    @nd.task(keep_result=True)
    def parent(ctx: Context) -> Any:
        with ctx.finish(result=5):
            pass

    first = parent.enqueue()
    part.using(after=first).enqueue("child")
    box.drain()
    assert seen == [("child", [5])]


def test_a_parent_with_a_next_life(box, nd, part, seen):
    """Done once is done; its next life is another matter."""

    @nd.task(keep_result=True)
    def parent(n: int) -> int:
        if n == 1:
            parent.using(key="p", on_conflict="again", delay="1h").enqueue(2)
        return n

    first = parent.using(key="p").enqueue(1)
    child = part.using(after=first).enqueue("child")
    box.drain()
    assert (child.state, seen) == ("done", [("child", [1])])
    assert first.state == "waiting"
    second = part.using(after=first).enqueue("second")
    box.drain()
    assert second.state == "waiting"
    box.advance("2h")
    assert seen[1:] == [("second", [2])]


def test_a_parent_that_comes_again_by_itself(box, nd, part, seen):
    @nd.task
    def parent(ctx: Context) -> None:
        with ctx.finish(again="1h"):
            pass

    part.using(after=parent.enqueue()).enqueue("child")
    box.drain()
    assert words(seen) == ["child"]


def test_a_schedule_s_task_as_a_parent(box, nd, part, seen):
    @nd.every("1h")
    def hourly() -> None:
        if not seen:
            seen.append("hourly")

    box.drain()
    (row,) = nd.find(name="hourly")
    child = part.using(after=row).enqueue("child")
    box.drain()
    assert child.state in ("waiting", "done")
    box.advance("2h")
    assert child.state == "done"


# parents that never will be done


@pytest.fixture
def kill(box, part):
    """Lets a task end otherwise than done, in each way that there is."""

    def kill(how, key=None):
        options = {"key": key} if key else {}
        if how == "expired":
            parent = part.using(delay="1h", expires="30m", **options).enqueue("p")
            return parent, lambda: box.advance("2h")
        parent = part.using(delay="1h", **options).enqueue("p", "die")
        if how == "cancelled":
            return parent, lambda: (parent.cancel(), box.drain())
        return parent, lambda: box.advance("2h")

    return kill


ENDS = ["dead", "cancelled", "expired"]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("early", [True, False])
def test_a_child_of_one_that_ended_badly_is_held(box, part, seen, kill, how, key, early):
    parent, ends = kill(how, key)
    if not early:
        ends()
    child = part.using(after=parent).enqueue("child")
    if early:
        ends()
    box.advance("1 day")
    assert (child.state, child.view().reason) == ("held", "parent")
    assert child.view().message.startswith(f"task #{parent.id}, which it comes after, is ")
    assert "child" not in words(seen)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("early", [True, False])
def test_or_cancelled_with_all_that_comes_after_it(box, part, seen, kill, how, key, early):
    parent, ends = kill(how, key)
    if not early:
        ends()
    children = [part.using(after=parent, if_dead="cancel", key=key and "c").enqueue("child")]
    for _ in range(3):
        children.append(part.using(after=children[-1], if_dead="cancel").enqueue("child"))
    kept = part.using(after=children[-1]).enqueue("child")
    if early:
        ends()
    box.advance("1 day")
    assert [child.state for child in children] == ["cancelled"] * 4
    assert [outcomes(child) for child in children] == [["cancelled"]] * 4
    assert kept.state == "held"
    assert "child" not in words(seen)


def test_why_it_was_cancelled_is_in_the_history(box, part, kill):
    parent, ends = kill("dead")
    child = part.using(after=parent, if_dead="cancel").enqueue("child")
    ends()
    box.advance("1h")
    (run,) = child.runs()
    assert (run.reason, run.message) == ("parent", f"task #{parent.id}, which it comes after, is dead")


@pytest.mark.parametrize("times", [1, 2])
def test_a_parent_that_is_retried_and_done_lets_it_go_on(box, part, seen, times):
    parents = [part.enqueue(f"{n}", "die") for n in range(times)]
    child = part.using(after=parents).enqueue("child")
    box.drain()
    assert child.state == "held"
    part.mended = True
    for n, parent in enumerate(parents):
        assert child.state == "held"
        parent.retry()
        box.drain()
        assert parent.state == "done", n
    assert child.state == "done"
    assert seen[-1] == ("child", [f"{n}" for n in range(times)])


def test_a_parent_that_dies_again_leaves_it_held(box, part):
    parent = part.enqueue("p", "die")
    child = part.using(after=parent).enqueue("child")
    for _ in range(3):
        box.drain()
        assert (parent.state, child.state) == ("dead", "held")
        parent.retry()


def test_one_bad_parent_of_many(box, part, seen):
    good, bad = part.using(delay="1h").enqueue("good"), part.enqueue("bad", "die")
    held = part.using(after=[good, bad]).enqueue("held")
    off = part.using(after=[good, bad], if_dead="cancel").enqueue("off")
    box.drain()
    assert (held.state, off.state) == ("held", "cancelled")
    box.advance("2h")
    assert (held.state, off.state) == ("held", "cancelled")
    part.mended = True
    bad.retry()
    box.drain()
    assert (held.state, seen[-1]) == ("done", ("held", ["good", "bad"]))


def test_the_death_that_a_worker_s_crashes_bring_counts_too(box, part, seen):
    parent = part.enqueue("p")
    child = part.using(after=parent).enqueue("child")
    for _ in range(3):
        box.crash_at("settle", part)
    box.advance("1h")
    assert (parent.state, child.state) == ("dead", "held")


def test_a_dead_parent_may_be_purged(box, nd, part, seen, rows):
    parent = part.enqueue("p", "die")
    child = part.using(after=parent).enqueue("child")
    box.drain()
    rows("DELETE FROM nextdue_task WHERE id = ?", parent.id)
    assert child.state == "held"
    assert sound(nd.path) == []
    child.retry()  # a person's word
    box.drain()
    assert (child.state, seen[-1]) == ("done", ("child", [None]))


def test_a_waiting_parent_that_is_deleted_by_hand(box, nd, part, rows):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("child")
    rows("DELETE FROM nextdue_task WHERE id = ?", parent.id)
    assert child.state == "held"


@pytest.mark.parametrize("if_dead", ["hold", "cancel"])
def test_a_parent_that_was_deleted_between_two_attempts(box, nd, part, rows, if_dead):
    """Its history ends with a failure, and nothing will follow on that."""

    @nd.task(retry=Retry(base=60, jitter=0))
    def fails() -> None:
        raise OSError

    parent = fails.enqueue()
    box.drain()
    rows("DELETE FROM nextdue_task WHERE id = ?", parent.id)
    child = part.using(after=parent, if_dead=if_dead).enqueue("c")
    box.drain()
    assert child.state == {"hold": "held", "cancel": "cancelled"}[if_dead]


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
    import asyncio

    parent = part.enqueue("p")
    child = asyncio.run(later(part.using(after=parent)))
    box.drain()
    assert (child.state, seen[-1]) == ("done", ("child", ["p"]))


# what people do with one that waits


def test_a_pause_of_one_that_waits(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    first, second = (part.using(after=parent).enqueue(word) for word in "ab")
    assert first.pause()
    assert second.pause()
    assert second.resume()
    assert second.state == "waiting"
    assert second.due is None
    box.advance("2h")
    assert (first.state, second.state) == ("held", "done")
    assert first.resume()
    box.drain()
    assert first.state == "done"


def test_a_paused_one_whose_parent_dies(box, part, seen):
    """Resumed, it doesn't run as if nothing had been."""
    parent = part.enqueue("p", "die")
    held, off = (part.using(after=parent, if_dead=how).enqueue("c") for how in ("hold", "cancel"))
    held.pause()
    off.pause()
    box.drain()
    held.resume()
    off.resume()
    box.advance("1h")
    assert "c" not in words(seen)
    assert (held.state, held.view().reason) == ("held", "parent")
    assert off.state == "cancelled"


def test_a_cancelled_one_is_gone(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("c")
    assert child.cancel()
    box.advance("2h")
    assert (child.state, words(seen)) == ("cancelled", ["p"])


def test_nobody_hurries_one_that_waits(box, part, seen):
    """run_now and retry are for what is due later, or has ended."""
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("c")
    assert child.run_now() is False
    assert child.retry() is False
    box.drain()
    assert seen == []
    box.advance("2h")
    assert child.state == "done"


def test_a_held_one_that_is_retried_runs_at_a_person_s_word(box, nd, part, seen):
    parent = part.enqueue("p", "die")
    child = part.using(after=parent).enqueue("c")
    box.drain()
    assert child.retry()
    box.drain()
    assert (child.state, seen[-1]) == ("done", ("c", [None]))
    part.mended = True
    parent.retry()
    box.drain()
    assert words(seen) == ["p", "c", "p"]


def test_a_retried_one_can_wait_for_an_event_all_the_same(box, nd, part, seen):
    """Nothing of its parent keeps it from being woken."""

    @nd.task
    def child(ctx: Context) -> None:
        seen.append(ctx.wait_for("go"))

    handle = child.using(after=part.enqueue("p", "die")).enqueue()
    box.drain()
    handle.retry()
    box.drain()
    assert handle.state == "waiting"
    nd.send("go", 5)
    box.drain()
    assert (handle.state, seen[-1]) == ("done", 5)


def test_a_parent_that_is_resumed_or_hurried_is_a_parent_as_before(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    part.using(after=parent).enqueue("c")
    parent.pause()
    box.advance("2h")
    assert seen == []
    parent.resume()
    box.drain()
    assert words(seen) == ["p", "c"]
    parent = part.using(delay="1h").enqueue("q")
    part.using(after=parent).enqueue("d")
    parent.run_now()
    box.drain()
    assert words(seen) == ["p", "c", "q", "d"]


def test_it_is_found_and_seen(box, nd, part):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("c")
    assert {handle.id for handle in nd.find(state="waiting")} == {parent.id, child.id}
    with pytest.raises(TimeoutError):
        child.result(timeout=0)


def test_its_end_is_waited_for(box, part):
    child = part.using(after=part.using(delay="1h").enqueue("p")).enqueue("c")
    assert child.result(timeout="2h") == "c"


def test_it_expires_as_others_do(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent, expires="30m").enqueue("c")
    box.advance("2h")
    assert outcomes(child) == ["expired"]
    assert words(seen) == ["p"]


def test_the_attempts_of_a_child_keep_its_results(box, nd, seen, part):
    @nd.task(retry=Retry(base=60, jitter=0))
    def child(ctx: Context) -> None:
        seen.append(ctx.results)
        if ctx.attempt < 3:
            raise OSError

    child.using(after=part.enqueue("p")).enqueue()
    box.advance("1h")
    assert seen[1:] == [["p"]] * 3


# limits, groups, rates


def test_children_in_a_group_keep_its_limit(box, nd, part):
    @nd.task(limit=1)
    def one(ctx: Context) -> None: ...

    box.takes(one, "10m")
    parent = part.using(delay="1h").enqueue("p")
    handles = [one.using(after=parent, group="g").enqueue() for _ in range(3)]
    box.advance("1h5m")
    assert sorted(handle.state for handle in handles) == ["running", "waiting", "waiting"]
    box.advance("1h")
    assert {handle.state for handle in handles} == {"done"}


def test_a_child_that_waits_takes_no_place_of_its_group(box, nd, part, seen):
    @nd.task(limit=1)
    def one(n: int) -> None:
        seen.append(n)

    waits = one.using(after=part.using(delay="1h").enqueue("p"), group="g").enqueue(1)
    one.using(group="g").enqueue(2)
    box.drain()
    assert (seen, waits.state) == ([2], "waiting")
    one.using(group="g").enqueue(3)
    box.advance("2h")
    assert seen == [2, 3, ("p", []), 1]


def test_a_parent_of_a_group(box, nd, part, seen):
    @nd.task(limit=1)
    def one() -> None: ...

    parents = one.using(group="g").enqueue_many([()] * 3)
    part.using(after=parents).enqueue("c")
    box.drain()
    assert words(seen) == ["c"]


# what check() finds


def test_one_that_waits_for_nothing_is_found(box, nd, part, rows):
    parent = part.using(delay=60).enqueue("p")
    child = part.using(after=parent).enqueue("c")
    rows("DELETE FROM nextdue_mark")
    assert sound(nd.path) == [f"task {child.id}: it waits, and for nothing"]
    rows("DELETE FROM nextdue_task WHERE id = ?", child.id)


def test_one_that_waits_for_nobody_is_found(box, nd, part, rows):
    parent = part.using(delay=60).enqueue("p")
    child = part.using(after=parent).enqueue("c")
    rows("UPDATE nextdue_mark SET waits = 99")
    assert sound(nd.path) == [f"task {child.id}: it waits for task 99, which isn't there"]
    rows("DELETE FROM nextdue_task WHERE id = ?", child.id)


# the price for others


@pytest.mark.parametrize("what", ["delete", "dead", "done"])
def test_foreign_waits_cost_a_task_s_end_nothing(box, nd, part, what):
    """The triggers find marks by an index, however many there are of others."""
    parent = part.using(delay="1 day").enqueue("p")
    plain = [part.using(delay="1 day", key=f"{n}").enqueue("q") for n in range(2)]

    def steps(id):
        count = [0]
        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")

            def progress():
                count[0] += 1

            connection.set_progress_handler(progress, 1)
            if what == "delete":
                connection.execute("DELETE FROM nextdue_task WHERE id = ?", (id,))
            else:
                connection.execute(
                    "UPDATE nextdue_task SET due = NULL, rest = ?, gone_at = ? WHERE id = ?",
                    (what, None if what == "dead" else 1 << 42, id),
                )
            connection.set_progress_handler(None, 0)
        return count[0]

    before = steps(plain[0].id)
    part.using(after=parent).enqueue_many([("c",)] * 10_000)
    after = steps(plain[1].id)
    assert after <= before * 1.5, (before, after)
