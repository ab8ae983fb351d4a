"""What is marked of a task belongs to one occurrence of it; so does the key by which others know its effects."""

import contextlib
import sqlite3
from datetime import timedelta

import pytest

from nextdue import Context, Retry
from tests.api.conftest import sound
from tests.api.effects.conftest import failing

# marks belong to one occurrence


def test_marks_are_kept_where_a_person_may_retry(box, nd, sent, labels):
    handle = failing(nd, sent, until=6).enqueue(7)
    box.advance("1h")
    assert handle.state == "dead"
    assert len(labels()) == 2
    handle.retry()
    box.advance("1h")
    assert sent == ["mail", "ship"]
    handle.cancel()
    assert handle.state == "cancelled"
    assert labels() == []  # nobody can retry what has no row


def test_a_cancelled_key_keeps_them_until_its_next_life(box, nd, sent, labels):
    task = failing(nd, sent, until=99)
    handle = task.using(key="k").enqueue(7)
    box.drain()
    assert handle.cancel()
    assert len(labels()) == 2
    assert handle.retry()
    box.drain()
    assert sent == ["mail", "ship"]
    assert handle.cancel()
    assert task.using(key="k").enqueue(7).created
    assert labels() == []
    box.drain()
    assert sent == ["mail", "ship"] * 2


@pytest.mark.parametrize("through", ["enqueue", "tx", "sql"])
@pytest.mark.parametrize("ended", ["dead", "cancelled"])
def test_a_new_life_of_a_key_begins_without(box, nd, sent, labels, rows, through, ended):
    task = failing(nd, sent, until=99)
    handle = task.using(key="k").enqueue(7)
    box.advance("1h" if ended == "dead" else 0)
    if ended == "cancelled":
        handle.cancel()
    assert (handle.state, len(labels())) == (ended, 2)
    if through == "enqueue":
        task.using(key="k").enqueue(7)
    elif through == "tx":
        with nd.transaction() as tx:
            task.using(key="k", tx=tx).enqueue(7)
    else:
        rows("INSERT INTO nextdue_tasks(name, args, key) VALUES ('failing', '[7]', 'k')")
    assert labels() == []
    assert handle.state == "waiting"


@pytest.mark.parametrize("how", ["replace", "earliest", "extend"])
def test_other_arguments_are_another_occurrence(box, nd, sent, labels, how):
    task = failing(nd, sent)
    handle = task.using(key="k").enqueue(7)
    box.drain()
    assert len(labels()) == 2
    task.using(key="k", on_conflict=how).enqueue(8)
    assert labels() == []
    box.advance("1m")
    assert handle.state == "done"
    assert sent == ["mail", "ship"] * 2


def test_a_life_that_was_asked_for_meanwhile_begins_without(box, nd, sent, labels):
    @nd.task
    def task(ctx: Context, n: int) -> None:
        ctx.step("mail", sent.append, n)
        if n == 1:
            task.using(key="k", on_conflict="again").enqueue(2)

    task.using(key="k").enqueue(1)
    box.advance("1m")
    assert sent == [1, 2]
    assert labels() == []


@pytest.mark.parametrize("key", ["k", None])
def test_a_task_that_comes_again_makes_its_steps_again(box, nd, sent, labels, key):
    @nd.task
    def task(ctx: Context) -> None:
        ctx.step("mail", sent.append, len(sent))
        with ctx.finish(again="1h" if len(sent) < 3 else None):
            pass

    task.using(key=key).enqueue()
    box.advance("1 day")
    assert sent == [0, 1, 2]
    assert labels() == []


def test_each_occurrence_of_a_schedule_makes_its_steps(box, nd, sent, labels):
    keys = []

    @nd.every("1h", retry=Retry(base=1, jitter=0, limit=2))
    def hourly(ctx: Context) -> None:
        keys.append(ctx.idempotency_key("mail"))
        ctx.step("mail", sent.append, ctx.scheduled_for.hour)
        if ctx.attempt == 1:
            raise OSError

    box.advance("3h10m")
    assert len(sent) == len(set(sent)) >= 3
    assert len(keys) == 2 * len(sent)
    assert len(set(keys)) == len(sent)
    assert labels() == []


@pytest.mark.parametrize("missed", ["run_once", "skip", "all"])
@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("crash", [True, False])
def test_an_occurrence_in_doubt_is_not_passed_over(box, nd, sent, resolve, missed, happened, crash):
    """It stays the row's occurrence until a person has decided, and is brought to its end then."""
    slots = []

    @nd.cron("0 * * * *", tz="UTC", missed=missed)
    def hourly(ctx: Context) -> None:
        slots.append(ctx.scheduled_for)

        def send():
            if not crash and len(slots) == 1:
                raise TimeoutError
            sent.append(ctx.scheduled_for.hour)

        ctx.step("mail", send, in_doubt="hold")

    if crash:
        box.crash_at("begun")
    box.advance("1h1m")
    (handle,) = nd.find(name="hourly")
    assert (handle.state, handle.view().reason) == ("held", "in_doubt")
    first = slots[-1]
    box.advance("5h")
    assert (handle.state, set(slots)) == ("held", {first})
    assert resolve(handle, "mail", happened=happened)
    box.drain()
    assert slots[1 + crash] == first
    assert sent[:1] == ([] if happened else [first.hour]) or (happened and first.hour not in sent)
    box.advance("2h")
    assert handle.state == "waiting"
    assert slots[-1] > first + timedelta(hours=5)


# the key by which others know an effect


@pytest.fixture
def keyed(nd):
    keys = []

    @nd.task(retry=Retry(base=1, jitter=0, limit=3))
    def keyed(ctx: Context, fails: int) -> None:
        keys.append((ctx.idempotency_key("mail"), ctx.idempotency_key("ship")))
        if len(keys) <= fails:
            raise OSError

    keyed.keys = keys
    return keyed


def test_an_idempotency_key_is_the_same_in_every_attempt(box, keyed):
    handle = keyed.enqueue(4)
    box.crash_at("settle")
    box.advance("1h")
    assert handle.state == "dead"
    handle.retry()
    box.advance("1h")
    assert handle.state == "done"
    assert len(keyed.keys) >= 5
    ((mail, ship),) = set(keyed.keys)
    assert mail != ship
    assert len(mail) == 32
    assert int(mail, 16)


def test_it_is_another_one_for_another_task_and_another_life(box, keyed):
    keyed.enqueue(0)
    keyed.enqueue(0)
    for _ in range(3):
        keyed.using(key="k", remember=0).enqueue(0)
        box.advance("1s")
    assert len({key for pair in keyed.keys for key in pair}) == 2 * len(keyed.keys) == 10


def test_it_is_the_same_after_a_cancellation_that_was_taken_back(box, keyed):
    handle = keyed.using(key="k").enqueue(1)
    box.drain()
    handle.cancel()
    handle.retry()
    box.advance("1m")
    assert len(set(keyed.keys)) == 1
    assert len(keyed.keys) == 2


@pytest.mark.parametrize("mode", ["replace", "earliest", "extend"])
def test_it_is_another_one_for_other_arguments(box, nd, mode):
    """As the steps of the first are forgotten, and made for the second."""
    keys = {}

    @nd.task(retry=Retry(base=60, jitter=0, limit=3))
    def task(ctx: Context, order: int) -> None:
        keys[order] = ctx.idempotency_key("charge")
        raise OSError

    task.using(key="k").enqueue(1)
    box.drain()
    task.using(key="k", on_conflict=mode).enqueue(2)
    box.advance("2m")
    assert len(set(keys.values())) == len(keys) == 2


# what check() finds


@pytest.fixture
def damaged(box, nd, sent, rows):
    """Answers what check() finds after some damage, and repairs it."""
    failing(nd, sent).enqueue(7)
    box.drain()

    def damaged(sql, *values):
        assert sound(nd.path) == []
        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute(sql, values)
            connection.execute("COMMIT")
        found = sound(nd.path)
        rows("DELETE FROM nextdue_mark WHERE task <> 1 OR json_valid(coalesce(result, '0')) = 0")
        return found

    return damaged


def test_marks_that_outlived_their_task_are_found(damaged):
    (said,) = damaged("INSERT INTO nextdue_mark(task, label, begun) VALUES (99, 'mail', 0)")
    assert "'mail' of task 99: its task isn't there" in said


def test_results_that_are_no_json_are_found(damaged):
    (said,) = damaged("UPDATE nextdue_mark SET result = 'x' WHERE label = 'mail'")
    assert "its result isn't JSON" in said
