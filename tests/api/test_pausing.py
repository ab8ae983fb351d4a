"""Pausing: a person sets a queue, a name or one task aside; nothing is lost and what runs goes on."""

from datetime import timedelta

import pytest

from nextdue import BadDefinition, Context, Cron, UnknownTask
from nextdue.sqlite import pauses


@pytest.fixture
def seen(nd):
    found = []

    @nd.task
    def receipt(order: int) -> None:
        found.append(order)

    @nd.task(queue="mail")
    def letter(to: int) -> None:
        found.append(to)

    return found


def count(world):
    found = world.sql("SELECT value FROM nextdue_meta WHERE name = 'pauses'")
    return found[0][0] if found else 0


def test_a_pause_is_said_once_and_ended_once(nd, world, seen):
    now = world.clock.now()
    assert nd.pause(queue="mail") is True
    assert nd.pause(queue="mail") is False
    assert nd.pause(name="receipt") is True
    assert nd.paused() == [("queue", "mail", now), ("name", "receipt", now)]
    assert nd.resume(queue="mail") is True
    assert nd.resume(queue="mail") is False
    assert nd.resume(queue="receipt") is False
    assert nd.paused() == [("name", "receipt", now)]


def test_only_a_change_counts(nd, world, seen):
    nd.resume(queue="mail")
    assert count(world) == 0
    nd.pause(queue="mail")
    nd.pause(queue="mail")
    assert count(world) == 1
    nd.resume(queue="mail")
    assert count(world) == 2


def test_what_nobody_knows_yet_can_be_paused(nd):
    nd.pause(name="of_the_next_deploy")
    assert [pause.word for pause in nd.paused()] == ["of_the_next_deploy"]


@pytest.mark.parametrize("given", [{}, {"queue": "a", "name": "b"}, {"queue": ""}, {"name": "a\x00b"}, {"queue": 5}])
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_pause_of_nothing_in_particular_is_refused(nd, refuses, given, verb):
    with refuses(BadDefinition, "queue|name"):
        getattr(nd, verb)(**given)


@pytest.mark.parametrize("which", [{"queue": "mail"}, {"name": "letter"}])
def test_what_is_paused_is_not_started_and_the_rest_is(nd, world, seen, which):
    nd.tasks["letter"].enqueue(1)
    nd.tasks["receipt"].enqueue(2)
    nd.pause(**which)
    world.work()
    nd.tasks["letter"].enqueue(3)
    world.advance("1h")
    assert seen == [2]
    nd.resume(**which)
    world.work()
    assert seen == [2, 1, 3]


def test_a_pause_reaches_a_worker_that_is_at_work(nd, world, seen):
    """The number of changes: lanes opened before the pause claim nothing after it."""
    nd.tasks["letter"].enqueue(1)
    with world._worker(nd) as worker:
        worker.tick()
        nd.pause(queue="mail")
        nd.tasks["letter"].enqueue(2)
        for _ in range(5):
            worker.tick()
        nd.resume(queue="mail")
        for _ in range(5):
            worker.tick()
    assert seen == [1, 2]


def test_one_task_is_set_aside_with_its_due(nd, world, seen):
    handle = nd.tasks["receipt"].using(delay="1h").enqueue(1)
    due = handle.due
    assert handle.pause() is True
    assert (handle.state, handle.due) == ("held", None)
    assert handle.pause() is True  # as asked for
    world.advance("30m")
    assert handle.resume() is True
    assert (handle.state, handle.due) == ("waiting", due)
    assert handle.resume() is False
    world.advance("31m")
    assert seen == [1]


def test_a_due_that_passed_meanwhile_is_now(nd, world, seen):
    handle = nd.tasks["receipt"].using(delay="1h").enqueue(1)
    handle.pause()
    assert world.advance("5h") == {}
    handle.resume()
    assert handle.view().due == world.clock.now()
    world.work()
    assert seen == [1]


def test_a_task_that_a_limit_set_aside_can_be_paused_too(nd, world):
    handle = nd.task(name="grouped")(lambda: None).enqueue()
    due = handle.view().due
    world.sql("UPDATE nextdue_task SET due = NULL, rest = 'blocked', wished = ?", due)
    assert handle.pause() is True
    assert handle.state == "held"
    handle.resume()
    assert (handle.state, handle.view().due) == ("waiting", due)


def test_an_occurrence_that_its_limit_set_aside_is_not_started_in_a_pause(nd, world, seen):
    rests = []

    @nd.task(limit=1)
    def work(ctx: Context, key: str) -> None:
        if not seen:
            rests.extend(world.sql("SELECT rest FROM nextdue_task WHERE token IS NULL"))
            nd.schedules.pause(work, "second")
        seen.append((key, ctx.scheduled_for.hour))

    for key in ("first", "second"):
        nd.schedules.put(work, Cron("0 * * * *"), key=key, args=(key,))
    world.advance("61m")
    assert rests == [("blocked",)]
    ((key, hour),) = seen
    assert key == "first"
    nd.schedules.resume(work, "second")
    world.advance("1h")
    assert sorted(seen[1:]) == [("first", hour + 1), ("second", hour + 1)]


def test_a_retry_keeps_its_count(nd, world):
    @nd.task
    def flaky() -> None:
        raise ValueError("no")

    handle = flaky.enqueue()
    world.work()
    handle.pause()
    handle.resume()
    view = handle.view()
    assert view.attempts == 1
    assert view.message.startswith("ValueError: no (test_pausing.py:")


def test_what_runs_goes_on(nd, world, seen):
    said = []

    @nd.task
    def long() -> None:
        said.append(handle.pause())
        nd.pause(name="long")

    handle = long.enqueue()
    world.work()
    assert said == [False]
    assert handle.state == "done"


@pytest.mark.parametrize("rest", ["dead", "held"])
def test_what_is_at_rest_for_another_reason_stays_as_it_is(nd, world, seen, rest):
    handle = nd.tasks["receipt"].enqueue(1)
    world.sql("UPDATE nextdue_task SET due = NULL, rest = ?, reason = 'arguments'", rest)
    assert handle.pause() is False
    assert handle.resume() is False
    assert (handle.state, handle.view().reason) == (rest, "arguments")


def test_a_paused_task_can_be_cancelled(nd, seen):
    handle = nd.tasks["receipt"].enqueue(1)
    handle.pause()
    assert handle.cancel() is True
    with pytest.raises(UnknownTask, match="that could be paused"):
        handle.resume()


def test_a_task_without_a_row_is_an_error(nd, world, seen):
    handle = nd.tasks["receipt"].enqueue(1)
    world.work()
    with pytest.raises(UnknownTask, match="there is no task 1"):
        handle.pause()


def test_the_tasks_paused_one_by_one_are_listed(nd, seen):
    handles = [nd.tasks["receipt"].enqueue(n) for n in range(3)]
    handles[2].pause()
    handles[0].pause()
    with nd.caller.use() as store:
        assert pauses.paused_tasks(store.database) == [handles[0].id, handles[2].id]


def test_resuming_rings(nd, seen):
    """A worker that sleeps hears of it at once, whatever else is due in that lane."""
    handle = nd.tasks["receipt"].using(delay=timedelta(days=1)).enqueue(1)
    wake = nd.path.with_name(nd.path.name + "-wake")
    handle.pause()
    for verb in (lambda: nd.resume(queue="default"), handle.resume):
        wake.unlink(missing_ok=True)  # whoever rings makes it anew
        verb()
        assert wake.exists()
