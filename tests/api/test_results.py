"""Results: kept if wanted, of the type that the function names, and a clear word where there is none."""

import asyncio
import copy
import dataclasses
import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from nextdue import (
    BadDefinition,
    BadTime,
    GiveUp,
    ResultNotKept,
    Retry,
    StoreGone,
    TaskFailed,
    WouldDeadlock,
    due,
)
from nextdue.records import Claim, Ending
from nextdue.sqlite.waiting import PAGE
from nextdue.statements import load
from nextdue.task import Options

DAY_MS = 86_400_000


@dataclasses.dataclass
class Order:
    number: int
    placed: dt.datetime
    total: Decimal = Decimal("0.10")


NOON = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)
TYPED = [
    (Order, Order(1, NOON)),
    (list[Order], [Order(1, NOON), Order(2, NOON, Decimal("1e400"))]),
    (UUID, UUID(int=5)),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (dict[int, bytes], {1: b"\xff\x00"}),
    (Order | None, None),
    (str, "a\x00b"),
    (dt.timedelta, dt.timedelta(seconds=1.5)),
]


def returning(value: Any, annotation: Any = ...) -> Any:
    """A function that returns this."""

    def task():
        return value

    if annotation is not ...:
        task.__annotations__["return"] = annotation
    return task


def done(world, nd, fn, **options):
    handle = nd.task(**{"keep_result": True, **options})(fn).enqueue()
    world.work(nd)
    assert handle.state == "done"
    return handle


@pytest.mark.parametrize(("annotation", "value"), TYPED, ids=str)
def test_a_result_is_of_the_annotated_type(world, nd, annotation, value):
    handle = done(world, nd, returning(value, annotation))
    for same in (handle, nd.get(handle.id)):
        result = same.result()
        assert (type(result), result) == (type(value), value)


@pytest.mark.parametrize("annotation", [..., None, Any, object])
@pytest.mark.parametrize("value", [None, 5, 2.5, "text", [1, {"a": [None, True]}], {}])
def test_without_an_annotation_plain_json_comes_back(world, nd, annotation, value):
    assert done(world, nd, returning(value, annotation)).result() == value


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (..., (1, 2), "the result is a tuple: JSON would not bring it back; annotate its type, or convert it"),
        (..., NOON, "the result is a datetime"),
        (..., {1: "a"}, "the result has the key 1"),
        (..., float("nan"), "the result is nan"),
        (..., "\ud800", "the result can't be written as JSON"),
        (None, {1, 2}, "the result is a set"),
        (dict[str, Any], {"at": [NOON]}, r"the result\['at'\]\[0\] is a datetime"),
        (int, "five", "the result is not what its annotation says: Expected `int`, got `str`"),
        (Order, None, "the result is not what its annotation says"),
        (float | None, float("inf"), "the result would come back as None instead of inf"),
        (str, "x" * (1 << 20), "the result is 1,048,578 bytes of JSON"),
        (..., object(), "the result can't be written as JSON"),
    ],
)
def test_what_would_come_back_changed_is_not_kept_and_repeats_no_effect(world, nd, annotation, value, words):
    """F087, and F083 for results: never stored changed; the task is done, since its effect is out."""
    handle = done(world, nd, returning(value, annotation))
    with pytest.raises(ResultNotKept, match=f"<task #1> is done, but its result can't be given: .*{words}"):
        handle.result()
    assert world.advance("1d") == {}
    run = handle.runs()[0]
    assert (run.outcome, run.reason, run.result) == ("done", "result", None)


def test_an_annotation_that_json_can_not_restore_is_refused_where_it_is_written(nd):
    @dataclasses.dataclass
    class Other:
        number: int

    with pytest.raises(BadDefinition, match=r"JSON can't restore what it returns: .*more than one"):
        nd.task(keep_result=True)(returning(1, Order | Other))
    assert nd.tasks == {}
    nd.task(returning(1, Order | Other))  # nobody wants to keep it


def test_an_annotation_that_is_not_defined_yet_is_resolved_when_it_is_needed(world, nd):
    fn = returning(5, "Later")
    task = nd.task(keep_result=True)(fn)
    fn.__globals__["Later"] = int
    try:
        handle = task.enqueue()
        world.work()
        assert handle.result() == 5
    finally:
        del fn.__globals__["Later"]


def test_an_annotation_that_is_never_defined_is_refused_when_a_call_is_put(nd, refuses):
    task = nd.task(keep_result=True)(returning(5, "Nowhere"))
    with refuses(BadDefinition, "its annotations can't be resolved"):
        task.enqueue()


def test_a_program_that_does_not_know_the_task_gets_plain_json(world, nd):
    handle = done(world, nd, returning(Order(1, NOON), Order))
    expected = {"number": 1, "placed": "2026-12-01T12:00:00Z", "total": "0.10"}
    assert world.app().get(handle.id).result() == expected


def test_a_former_name_knows_its_type(world, nd):
    old = world.app()
    handle = done(world, old, returning((1, 2), tuple[int, int]), name="old")
    nd.task(name="new", aliases="old", keep_result=True)(returning((1, 2), tuple[int, int]))
    assert nd.get(handle.id).result() == (1, 2)


def test_a_result_of_another_type_than_the_function_returns_now_is_said_so(world, nd):
    old = world.app()
    handle = done(world, old, returning("five", str), name="task")
    nd.task(name="task", keep_result=True)(returning(5, int))
    with pytest.raises(ResultNotKept, match=r"of another type than .* now: .* as JSON it is in runs\(\)\[0\].result"):
        nd.get(handle.id).result()
    assert (nd.get(handle.id).runs()[0].result, handle.result()) == ('"five"', "five")


# where there is none


def test_a_task_without_results_says_so_at_once_and_can_be_waited_for(world, nd):
    handle = nd.task(name="task")(lambda: 5).enqueue()
    words = r"task task keeps no results; declare it with keep_result=True, or wait for its end by wait\(\)"
    with pytest.raises(ResultNotKept, match=words):
        handle.result()
    world.work()
    assert handle.wait() == "done"


def test_a_result_of_a_time_when_none_were_kept(world, nd):
    old = world.app()
    handle = done(world, old, lambda: 5, name="task", keep_result=False)
    nd.task(name="task", keep_result=True)(lambda: 5)
    with pytest.raises(ResultNotKept, match="none was kept when it ended"):
        nd.get(handle.id).result()


def test_what_became_of_a_task_may_be_forgotten(world):
    nd = world.app()
    handle = nd.task(name="task", keep_result=True)(lambda: 5).enqueue()
    world.work(nd)
    world.sql("DELETE FROM nextdue_run")
    with pytest.raises(ResultNotKept, match=r"<task #1> is neither in .*shop.db nor is its end in the run history"):
        handle.result()
    assert handle.wait() == "gone"


def test_a_tombstone_without_its_history(world, nd):
    handle = nd.task(name="task", keep_result=True)(lambda: 5).using(key="k").enqueue()
    world.work()
    assert handle.result() == 5
    world.sql("DELETE FROM nextdue_run")
    with pytest.raises(ResultNotKept, match="<task #1 key='k'> is done, but its result can't be given"):
        handle.result()


@pytest.fixture
def act(nd):
    """A task that ends as it is told."""

    @nd.task(keep_result=True, retry=Retry(base=60, jitter=0, limit=2, reasons={ValueError: "bad value"}))
    def act(how: str = "well") -> str:
        if how == "fail":
            raise ValueError("no")
        if how == "give up":
            raise GiveUp("enough")
        return how

    return act


def failure(handle) -> tuple[str, str, str]:
    with pytest.raises(TaskFailed) as caught:
        handle.result()
    twin = copy.copy(caught.value)  # as on its way between processes
    assert (str(twin), vars(twin)) == (str(caught.value), vars(caught.value))
    assert repr(handle) in str(twin)
    return (twin.state, twin.reason, twin.message.partition(" (test_")[0])


@pytest.mark.parametrize("key", ["k", None])
def test_a_task_that_ended_without_a_result_says_how(world, act, key):
    def put(*args):
        return act.using(key=f"{key}{args}" if key else None).enqueue(*args)

    handles = [put("fail"), put("give up"), put(), put("later")]
    world.sql("UPDATE nextdue_task SET args = ? WHERE id = ?", '["a", 2, 3]', handles[2].id)
    handles[3].cancel()
    world.advance("2m")
    assert failure(handles[0]) == ("dead", "bad value", "ValueError: no")
    assert failure(handles[1]) == ("dead", "GiveUp", "GiveUp: enough")
    state, reason, message = failure(handles[2])
    assert (state, reason) == ("held", "arguments")
    assert "3 arguments given, it takes (how: str = 'well')" in message
    assert failure(handles[3]) == ("cancelled", "cancelled", "")
    assert [h.wait() for h in handles] == ["dead", "dead", "held", "cancelled"]


def test_a_cancelled_retry_doesn_t_tell_of_its_last_failure(world, act):
    handle = act.using(key="k").enqueue("fail")
    world.work()
    handle.cancel()
    assert failure(handle) == ("cancelled", "cancelled", "")


def test_an_expired_task_says_so(world, act):
    """As the history tells it, when its row is gone."""
    handle = act.enqueue()
    world.work()
    world.sql("UPDATE nextdue_run SET outcome = 'expired', result = NULL")
    assert failure(handle) == ("dead", "expired", "")


def test_a_purged_dead_task_is_still_known_to_be_dead(world, act):
    handle = act.enqueue("give up")
    world.work()
    world.sql("DELETE FROM nextdue_task")
    assert failure(handle) == ("dead", "GiveUp", "GiveUp: enough")
    assert handle.wait() == "dead"


def test_a_result_that_outlived_its_line_of_the_history(world, act):
    """It is that of the latest life, or none."""
    handle, keyed = act.enqueue("a"), act.using(key="k", remember="1m").enqueue("b")
    world.work()
    world.sql("INSERT INTO nextdue_result SELECT task, name, key, result, 0 FROM nextdue_run")
    assert (handle.result(), keyed.result()) == ("a", "b")
    world.sql("DELETE FROM nextdue_run")
    assert (handle.result(), keyed.result()) == ("a", "b")
    assert (handle.wait(), keyed.wait()) == ("done", "done")
    world.advance("1h")
    again = act.using(key="k").enqueue("c")
    world.work()
    world.sql("INSERT OR REPLACE INTO nextdue_result VALUES (?, 'act', 'k', '\"of an earlier life\"', 0)", again.id)
    assert again.result() == "c"
    world.sql("UPDATE nextdue_run SET result = NULL")
    with pytest.raises(ResultNotKept, match="its result can't be given"):
        again.result()


def test_a_result_is_kept_whatever_the_bounds_of_the_history(world):
    nd = world.app(keep_runs=3, keep_runs_for="1h")
    task = nd.task(name="task", keep_result="2d")(lambda n: n)
    other = nd.task(name="other")(lambda: None)
    kept = [task.using(key=key).enqueue(n) for n, key in enumerate(["k", None])]
    world.work(nd)
    for hours in (2, 20, 20):
        world.clock.advance(hours * 3_600_000)
        other.enqueue_many([()] * 10)
        world.work(nd)
        assert [handle.result() for handle in kept] == [0, 1]
        found = [nd.get(handle.id) for handle in kept]
        assert [(handle.name, handle.key, handle.state) for handle in found] == [
            ("task", "k", "done"),
            ("task", None, "done"),
        ]
        assert [handle.result() for handle in found] == [0, 1]
    world.clock.advance(10 * 3_600_000)
    other.enqueue_many([()] * 10)
    world.work(nd)
    for handle in kept:
        with pytest.raises(ResultNotKept):
            handle.result()
        assert nd.get(handle.id) is None


def test_asking_for_ends_doesn_t_grow_with_the_backlog_or_the_history(world, act):
    act.enqueue()
    text = load("nextdue.sqlite", PAGE)["ended"]
    plan = [row[3] for row in world.sql(f"EXPLAIN QUERY PLAN {text.replace(':ids', '?')}", "[1]")]
    assert [line for line in plan if line.startswith("SCAN")] == ["SCAN i VIRTUAL TABLE INDEX 1:"]
    assert not [line for line in plan if "AUTOMATIC" in line or "TEMP" in line]


def test_a_file_that_is_gone_is_no_old_answer(world, nd, act):
    """F066: what the deleted file said is not passed on."""
    handle = act.enqueue()
    world.work()
    world.path.rename(world.path.with_name("moved.db"))
    for ask in (handle.result, lambda: handle.result(0), handle.wait):
        with pytest.raises(StoreGone):
            ask()
    world.path.with_name("moved.db").rename(world.path)
    assert handle.result() == "well"


# how long


def test_a_timeout_says_where_the_task_stands_and_changes_nothing(world, nd, act):
    handle = act.using(delay="1h").enqueue("fail")
    with pytest.raises(TimeoutError, match=r"<act #1> is still waiting, due 20\S+Z, and no worker lives on /"):
        handle.result(timeout=0)
    world.advance("3601s")
    with pytest.raises(TimeoutError, match=r"<act #1> after 0.02 s is still waiting, due \S+ after 1 failure, and"):
        handle.result(timeout="20ms")
    assert handle.wait(dt.timedelta(milliseconds=5)) == "waiting"
    assert world.run(handle, "2m") == "dead"


@pytest.mark.parametrize("timeout", [-1, "soon", True, float("nan"), [], 10**12])
@pytest.mark.parametrize("verb", ["result", "wait"])
def test_a_timeout_that_can_not_be_meant_is_refused(act, timeout, verb):
    with pytest.raises(BadTime, match="the timeout"):
        getattr(act.enqueue(), verb)(timeout)


def test_a_revived_key_has_the_result_of_its_latest_life(world, nd, act):
    handle = act.using(key="k", remember="1m").enqueue("first")
    world.work()
    assert handle.result() == "first"
    world.advance("1h")
    again = act.using(key="k").enqueue("second")
    if again.id == handle.id:
        with pytest.raises(TimeoutError, match="is still waiting"):
            handle.result(0)
    world.work()
    assert again.result() == "second"
    assert handle.result() == ("second" if again.id == handle.id else "first")


def test_a_revived_dead_task_is_waited_for(world, act):
    handle = act.using(key="k").enqueue("give up")
    world.work()
    assert failure(handle)[0] == "dead"
    assert act.using(key="k").enqueue("better").id == handle.id
    with pytest.raises(TimeoutError, match="is still waiting"):
        handle.result(0)
    world.work()
    assert handle.result() == "better"


def test_a_task_must_not_wait_for_another_one_but_may_look(world, nd, act):
    """It would take the slot that the other one needs."""
    seen: list[Any] = []

    async def awaited(handle):
        await handle

    @nd.task
    def parent() -> None:
        child, finished = act.using(delay=1).enqueue(), act.using(key="k").enqueue()
        waits = (
            child.result,
            child.wait,
            lambda: child.result(5),
            finished.result,
            lambda: asyncio.run(awaited(child)),
        )
        for wait in waits:
            with pytest.raises(WouldDeadlock, match=r"task parent #\d+ would wait for <act #\d+.*timeout=0"):
                wait()
        with pytest.raises(TimeoutError):
            child.result(0)
        seen.append((child.wait(0), finished.result(0)))

    act.using(key="k").enqueue("well")
    world.work()
    parent.enqueue()
    assert world.work()["done"] == 1
    assert seen == [("waiting", "well")]


def test_the_word_of_a_task_doesn_t_outlive_it(world, nd, act):
    """A worker in the caller's own thread, as in tests, leaves it free to wait."""
    act.enqueue()
    world.work()
    assert nd.get(1).result() == "well"


# how long they are kept


@pytest.mark.parametrize(
    ("keep", "ms"), [(True, DAY_MS), (False, None), ("1h", 3_600_000), (60, 60_000), (dt.timedelta(days=400), None)]
)
def test_a_result_may_be_kept_for_a_stated_time(nd, keep, ms):
    task = nd.task(name="task", keep_result=keep)(lambda: 5)
    expected = 400 * DAY_MS if isinstance(keep, dt.timedelta) else ms
    assert (task.options.keep_result_ms, task.options.keep_result) == (expected, expected is not None)


@pytest.mark.parametrize("key", ["k", None])
def test_the_settlement_says_how_long_the_history_must_keep_it(key):
    claim = Claim(1, 2, "task", "[]", key, 0, 0, 1, 0, 0)
    options = Options(name="task", keep_result_ms=5000)

    def kept(kind, result):
        return due.settle(claim, Ending(claim, kind, ran_ms=0, result=result), options, lambda: 0.0).keep_ms

    assert kept("done", "5") == 5000
    assert [kept(kind, None) for kind in ("done", "failed", "cancelled", "held")] == [None] * 4


def test_a_dead_task_says_how_it_is_started_anew(world, act):
    """Whether it has a key or not."""
    handle = act.enqueue("give up")
    world.work()
    with pytest.raises(
        TaskFailed, match=rf"; its handle's retry\(\), or `nextdue retry {world.path} 1`, starts it anew$"
    ):
        handle.result()
    assert handle.retry()
    assert handle.state == "waiting"
