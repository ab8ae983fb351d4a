"""A worker that dies where it is told to: nothing after the point happens, and the task is retaken."""

from pathlib import Path

import pytest

from nextdue import Context, Retry
from nextdue.points import POINTS, point
from nextdue.sqlite.inspect import check

BOX_POINTS = ["claim", "settle", "commit"]


@pytest.fixture
def mark(nd, seen):
    @nd.task
    def mark(word: str) -> None:
        seen.append(word)

    return mark


def outcomes(handle) -> list[str]:
    return [run.outcome for run in reversed(handle.runs())]


@pytest.mark.parametrize(
    ("where", "runs", "history"),
    [("claim", 1, ["crashed", "done"]), ("settle", 2, ["crashed", "done"]), ("commit", 1, ["done"])],
)
def test_a_crash_repeats_what_was_not_noted(box, mark, seen, where, runs, history):
    """F133. The row is there during the run, whatever becomes of its worker."""
    handle = mark.enqueue("a")
    box.crash_at(where)
    box.drain()
    assert box.crashes == [where]
    box.advance("1s")
    assert seen == ["a"] * runs
    assert outcomes(handle) == history
    assert handle.state == "done"


@pytest.mark.parametrize("where", BOX_POINTS)
def test_the_row_is_one_row_at_every_moment(box, nd, rows, where):
    """F050. A retry is a new due of the same row."""

    @nd.task(retry=Retry(base="1m", limit=3))
    def fails() -> None:
        raise ValueError

    handle = fails.enqueue()
    box.crash_at(where)
    for _ in range(8):
        box.advance("30s")
        assert [row[0] for row in rows()] == [handle.id]
    assert handle.state == "dead"
    assert handle.view().attempts == 3


@pytest.mark.parametrize("where", BOX_POINTS)
def test_a_key_outlives_the_worker_that_held_its_task(box, mark, seen, rows, where):
    """F111. Crash anywhere: the same row runs, and its key stays in use."""
    handle = mark.using(key="k").enqueue("a")
    box.crash_at(where)
    box.drain()
    again = mark.using(key="k").enqueue("b")
    assert (again.id, again.created) == (handle.id, False)
    box.advance("1m")
    assert set(seen) == {"a"}
    assert rows() == [(handle.id, "mark", "k", "done")]


def test_a_crash_in_the_middle_of_a_long_run(box, mark, seen):
    box.takes(mark, "1h")
    handle = mark.enqueue("a")
    box.crash_at("renew", nth=3)
    assert box.advance("10m") == {"crashed": 1}
    assert box.crashes == ["renew"]
    assert handle.state == "running"
    box.advance("1h")
    assert outcomes(handle) == ["crashed", "done"]
    assert seen == ["a", "a"]


def test_only_the_task_in_question_is_hit(box, nd, mark, seen):
    @nd.task
    def other() -> None:
        seen.append("other")

    handles = [other.enqueue(), mark.enqueue("a"), other.enqueue()]
    box.crash_at("settle", mark)
    assert box.advance("1s") == {"crashed": 1, "done": 3}
    assert [outcomes(h) for h in handles] == [["done"], ["crashed", "done"], ["done"]]


@pytest.mark.parametrize("where", BOX_POINTS)
def test_what_waits_behind_it_is_not_hit(box, mark, where):
    """A worker that finished much claims ahead, and one that settles claims the next: not so here."""
    handles = [mark.enqueue(str(n)) for n in range(8)]
    box.crash_at(where, nth=5)
    box.advance("1s")
    hit = [len(outcomes(h)) > 1 for h in handles]
    assert hit == [n == 4 and where != "commit" for n in range(8)]


def test_a_death_in_the_middle_of_a_long_run_is_at_once(box, nd, mark):
    @nd.task
    def stubborn() -> None:
        try:
            mark.enqueue("a")
        except BaseException:
            return

    box.takes(stubborn, "1h")
    stubborn.enqueue()
    box.crash_at("enqueue")
    assert box.drain() == {"crashed": 1}


def test_the_nth_time_counts_from_now(box, mark, seen):
    handles = [mark.enqueue(word) for word in "abc"]
    box.crash_at("claim", nth=2)
    box.advance("1s")
    assert [len(outcomes(h)) for h in handles] == [1, 2, 1]


def test_a_task_that_always_kills_its_worker_is_tried_alone_and_dead(box, mark):
    handle = mark.enqueue("a")
    for _ in range(3):
        box.crash_at("settle")
    box.advance("1h")
    assert (handle.state, handle.view().reason) == ("dead", "worker_died")
    assert box.crashes == ["settle"] * 3


@pytest.fixture
def export(nd, tmp_path, mark):
    @nd.task
    def export(ctx: Context, text: str) -> None:
        with ctx.replace(tmp_path / "a.csv") as file:
            file.write(text)
        mark.enqueue(text)

    return export


@pytest.mark.parametrize(
    ("where", "content", "put"),
    [("replace", "old", 0), ("replaced", "new", 0), ("enqueue", "new", 0), ("enqueued", "new", 1)],
)
def test_nothing_after_the_point_happens(box, export, rows, tmp_path, where, content, put):
    file: Path = tmp_path / "a.csv"
    file.write_text("old")
    handle = export.enqueue("new")
    box.crash_at(where)
    box.takes("mark", "1h")  # so that it is still there to be counted
    box.drain()
    assert file.read_text() == content
    assert sum(row[1] == "mark" for row in rows()) == put
    assert handle.state == "waiting"
    box.advance("3h")
    assert handle.state == "done"
    assert file.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.csv"]


def test_a_task_that_catches_its_death_writes_nothing_more(box, nd, mark, seen, rows):
    @nd.task
    def stubborn() -> None:
        try:
            mark.enqueue("first")
        except BaseException:
            seen.append("caught")
            mark.enqueue("second")

    handle = stubborn.enqueue()
    box.crash_at("enqueue")
    box.drain()
    assert seen == ["caught"]
    assert [row[1] for row in rows()] == ["stubborn"]
    box.advance("1s")
    assert outcomes(handle) == ["crashed", "done"]
    assert seen == ["caught", "first"]


def test_enqueue_many_and_aenqueue_are_points_too(box, nd, mark, seen, rows):
    import asyncio

    @nd.task
    def fan_out() -> None:
        mark.enqueue_many([("a",), ("b",)])

    @nd.task
    def later() -> None:
        asyncio.run(mark.aenqueue("c"))

    for task, nth in ((fan_out, 1), (later, 1)):
        task.enqueue()
        box.crash_at("enqueue", task, nth=nth)
        box.drain()
        assert "mark" not in [row[1] for row in rows()]
        box.advance("1s")
    assert seen == ["a", "b", "c"]
    assert box.crashes == ["enqueue", "enqueue"]


def test_enqueue_many_is_done_when_it_is_said_to_be(box, nd, mark, rows):
    @nd.task
    def fan_out() -> None:
        mark.enqueue_many([("a",), ("b",)])

    fan_out.enqueue()
    box.takes(mark, "1h")
    box.crash_at("enqueued")
    box.drain()
    assert [row[1] for row in rows()] == ["fan_out", "mark", "mark"]


def test_a_crash_that_never_came_fails_the_test(nextdue, nd):
    nextdue.use(nd)
    nextdue.crash_at("renew")
    with pytest.raises(AssertionError, match=r"crash_at\('renew'\): the worker never came to this point"):
        nextdue.check()
    nextdue._crashes._armed.clear()


def test_the_file_is_sound_after_all_of_it(box, nd, mark):
    for where in (*BOX_POINTS, *BOX_POINTS):
        mark.enqueue(where)
        box.crash_at(where)
        box.advance("5s")
    with nd.caller.use() as store:
        assert check(store.database) == []


def test_points_are_silent_outside_a_task(mark, box):
    box.crash_at("enqueue", nth=1)
    mark.enqueue("from the test itself, which is no task")
    assert box.crashes == []
    box._crashes._armed.clear()
    point("enqueue")


def test_every_point_is_reached_by_some_task(box, nd, export):
    @nd.task
    def finishing(ctx: Context) -> None:
        ctx.step("a", int)
        with ctx.finish():
            pass

    box.takes(export, "1h")
    export.enqueue("a")
    finishing.enqueue()
    box.advance("2h")
    assert {passage.point for passage in box._crashes.passed} == set(POINTS)
