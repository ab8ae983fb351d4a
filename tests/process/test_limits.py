"""Limits, rates and being asked to stop, between real processes and through their deaths."""

import json
import time
from collections.abc import Collection

import pytest

from tests.process.harness import Place, until


def most_at_once(notes: list[str], killed: Collection[int] = ()) -> dict[str, int]:
    """The most that ran at once, by group, from the notes `in GROUP ID PID` and `out GROUP ID PID`.

    What a killed process left without an end isn't counted at all: nobody noted when it ended.
    """
    ended = {line.removeprefix("out ") for line in notes if line.startswith("out ")}
    running: dict[str, set[str]] = {}
    most: dict[str, int] = {}
    for line in notes:
        word, _, run = line.partition(" ")
        group, _, pid = run.split()
        if run not in ended:
            assert int(pid) in killed
        elif word == "in":
            running.setdefault(group, set()).add(run)
        else:
            running[group].discard(run)
        most[group] = max(most.get(group, 0), len(running.get(group, ())))
    return most


@pytest.mark.beside
def test_a_limit_holds_in_all_workers_and_through_their_deaths(place: Place) -> None:
    """Law 3: no slot is lost or doubled by kill -9, and none of those set aside is forgotten."""
    place.script("""
@nd.task(limit=2)
def work(ctx: Context, n: int) -> None:
    note("in", "all", ctx.id, os.getpid())
    time.sleep(0.03)
    note("out", "all", ctx.id, os.getpid())
""")
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(60)])")
    first, second = place.worker("8"), place.worker("8")
    killed: list[int] = []
    for number in (10, 25, 40):
        place.noted("in", number)
        first.kill()
        killed.append(first.pid)
        first = place.worker("8")
    place.empties()
    assert (first.terminate(), second.terminate()) == (0, 0)
    assert most_at_once(place.notes(), killed) == {"all": 2}
    assert place.one("SELECT count(DISTINCT task) FROM nextdue_runs WHERE outcome = 'done'") == 60
    place.checked()


@pytest.mark.beside
def test_groups_are_counted_by_themselves(place: Place) -> None:
    place.script("""
@nd.task(limit=1)
def work(ctx: Context, who: str) -> None:
    note("in", who, ctx.id, os.getpid())
    time.sleep(0.01)
    note("out", who, ctx.id, os.getpid())
""")
    place.does("""
import shop
for n in range(40):
    who = "abcd"[n % 4]
    shop.work.using(group=who).enqueue(who)
""")
    first, second = place.worker("4"), place.worker("4")
    place.empties()
    assert (first.terminate(), second.terminate()) == (0, 0)
    assert most_at_once(place.notes()) == dict.fromkeys("abcd", 1)
    place.checked()


def test_a_thousand_blocked_tasks_stand_in_nobody_s_way(place: Place) -> None:
    """F117: one group is full; those behind it start at once, and the worker sleeps instead of spinning."""
    place.script("""
@nd.task(limit=1, priority=50)
def busy(n: int) -> None:
    note("busy", n)
    until((HERE / "go").exists)

@nd.task
def free(put_at: float) -> None:
    note("free", round((time.time() - put_at) * 1000))
""")
    place.does("""
import shop
shop.busy.using(group="g").enqueue(0)
shop.busy.using(group="g").enqueue_many([(n,) for n in range(1000)])
""")
    worker = place.worker("4")
    place.noted("busy")
    place.does("import shop, time; [shop.free.enqueue(time.time()) for _ in range(20)]")
    place.noted("free", 20)
    delays = sorted(int(line.split()[1]) for line in place.notes() if line.startswith("free"))
    assert delays[10] < 100, delays
    from tests.process.harness import cpu_s

    until(lambda: place.one("SELECT count(*) FROM nextdue_task WHERE rest = 'blocked'") == 1000)
    before = cpu_s(worker.pid)
    time.sleep(1)
    assert cpu_s(worker.pid) - before < 0.1
    (place.folder / "go").touch()
    place.empties(60)
    assert worker.terminate() == 0
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE name = 'busy' AND outcome = 'done'") == 1001
    place.checked()


def test_a_rate_holds_for_two_workers(place: Place) -> None:
    place.script("""
@nd.task(rate="20/s")
def work(n: int) -> None:
    note("at", time.time())
""")
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(40)])")
    first, second = place.worker("4"), place.worker("4")
    place.empties()
    assert (first.terminate(), second.terminate()) == (0, 0)
    at = sorted(float(line.split()[1]) for line in place.notes())
    assert len(at) == 40
    assert at[-1] - at[0] >= 39 * 0.05 - 0.05
    place.checked()


def test_a_running_task_hears_that_it_shall_stop(place: Place) -> None:
    """From another process, with a worker that is full."""
    place.script("""
@nd.task
def long(ctx: Context, n: int) -> None:
    note("begin", n)
    for step in range(10_000):
        ctx.progress(step, 10_000, "steps")
        time.sleep(0.005)
""")
    worker = place.worker("1")
    for n in range(2):
        place.does(f"import shop; shop.long.enqueue({n})")
        place.noted(f"begin {n}")
        id = place.one("SELECT max(id) FROM nextdue_tasks")
        begun = time.monotonic()
        place.does(f"import shop; assert not shop.nd.get({id}).cancel()")
        until(lambda: place.left() == 0, 5)
        assert time.monotonic() - begun < 4
    assert place.rows("SELECT outcome FROM nextdue_runs") == [("cancelled",), ("cancelled",)]
    assert worker.terminate() == 0
    place.checked()


def test_progress_is_written_while_the_task_runs(place: Place) -> None:
    place.script("""
@nd.task
def long(ctx: Context) -> None:
    for step in range(100):
        ctx.progress(step, 100, "files")
        if (HERE / "seen").exists():
            break
        time.sleep(0.05)
    note("end", step < 99)
""")
    place.does("import shop; shop.long.enqueue()")
    worker = place.worker("1")
    asked = "SELECT progress FROM nextdue_task WHERE progress IS NOT NULL"
    first = until(lambda: place.rows(asked), 10)
    done, total, note = json.loads(first[0][0])
    assert (total, note) == (100, "files")
    until(lambda: json.loads(place.one(asked))[0] > done, 10)
    (place.folder / "seen").touch()
    place.noted("end True")
    place.empties()
    assert worker.terminate() == 0


def test_a_task_of_a_dead_worker_that_was_asked_to_stop_is_not_tried_again(place: Place) -> None:
    place.script("""
@nd.task
def stuck() -> None:
    note("begin")
    time.sleep(60)
""")
    place.does("import shop; shop.stuck.enqueue()")
    first = place.worker("1")
    place.noted("begin")
    place.does("import shop; assert not shop.nd.find(name='stuck')[0].cancel()")
    first.kill()
    second = place.worker("1")
    place.empties()
    assert second.terminate() == 0
    assert place.notes() == ["begin"]
    assert place.rows("SELECT outcome FROM nextdue_run ORDER BY id") == [("crashed",), ("cancelled",)]
    place.checked()
