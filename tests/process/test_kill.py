"""kill -9 and other sudden ends: nothing is lost, nothing is settled twice."""

import random
import sys
import time
from collections import Counter

import pytest

from tests.process.harness import Place, Program, until


def supervised(place: Place, options: str, done: object, seconds: float = 30) -> int:
    """Start a worker anew whenever it dies, until `done()`; answers how often it died."""
    assert callable(done)
    deaths = 0
    worker = place.worker(options)
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"not done in {seconds} s:\n{place.said()}"
        if not worker.alive():
            deaths += 1
            worker = place.worker(options)
        time.sleep(0.005)
    assert worker.terminate() == 0
    return deaths


def test_three_kills_lose_nothing_and_settle_nothing_twice(place: Place) -> None:
    """F034, F037, F050, F133: effects may be repeated only in the gap between a function's end and its commit."""
    seed = random.randrange(10**6)
    sys.stdout.write(f"seed {seed}\n")
    dice = random.Random(seed)
    place.script("""
@nd.task
def work(n: int) -> None:
    note("begin", n, os.getpid())
    time.sleep(0.05)
    note("end", n, os.getpid())
""")
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(200)])")
    killed: list[Program] = []
    for _ in range(3):
        worker = place.worker()
        time.sleep(dice.uniform(0.05, 0.35))
        worker.kill()
        killed.append(worker)
    assert place.left() > 0, "the kills came too late to mean anything"
    restarted = time.monotonic()
    worker = place.worker()
    place.empties(10)
    took = time.monotonic() - restarted
    assert worker.terminate() == 0

    ends = Counter(line.split()[1] for line in place.notes() if line.startswith("end"))
    assert len(ends) == 200
    runs = place.rows("SELECT task, count(*) FROM nextdue_runs WHERE outcome = 'done' GROUP BY task")
    assert len(runs) == 200
    assert [task for task, count in runs if count != 1] == []
    # An effect that came twice had its first run in a worker that was killed, and that run is recorded as crashed.
    for n in (n for n, count in ends.items() if count > 1):
        pids = [int(line.split()[2]) for line in place.notes() if line.startswith(f"end {n} ")]
        assert set(pids[:-1]) <= {p.pid for p in killed}, (n, pids)
    crashed = place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'crashed'")
    assert 1 <= crashed <= 48, "no more than 8 in the slots and 8 claimed ahead of each killed worker"
    assert sum(ends.values()) - 200 <= 24, "an effect is repeated only if it was in a slot"
    assert took < 5, f"done {took:.2f} s after the last restart"
    place.checked()


@pytest.mark.beside
def test_exit_inside_a_task_is_a_crash_and_not_an_end(place: Place) -> None:
    """F037: os._exit(1) in a task."""
    place.script("""
@nd.task
def leaves_once(n: int) -> None:
    note("begin", n)
    if not (HERE / "left").exists():
        (HERE / "left").touch()
        os._exit(1)
    note("end", n)
""")
    place.does("import shop; shop.leaves_once.enqueue(1)")
    assert supervised(place, "", lambda: place.left() == 0) == 1
    assert place.notes() == ["begin 1", "begin 1", "end 1"]
    assert place.rows("SELECT outcome, reason FROM nextdue_runs ORDER BY ended_ms") == [
        ("crashed", "worker_died"),
        ("done", None),
    ]
    place.checked()


@pytest.mark.beside
def test_a_task_that_kills_its_worker_is_started_three_times_and_harms_nobody(place: Place) -> None:
    """F082, F037: the third start is alone; then it is dead, and its neighbours, crashed beside it, are all done."""
    place.script("""
@nd.task(retry=Retry(limit=None))
def poison(n: int) -> None:
    note("poison", n, os.getpid())
    time.sleep(0.1)
    os.kill(os.getpid(), 9)

@nd.task
def good(n: int) -> None:
    note("good", n, os.getpid())
    time.sleep(0.1)
    note("end", n, os.getpid())
""")
    place.does("import shop; shop.poison.enqueue(1); shop.good.enqueue_many([(n,) for n in range(40)])")
    deaths = supervised(place, "", lambda: place.left() == 0)
    assert deaths == 3
    lines = [line.split() for line in place.notes()]
    starts = [(at, pid) for at, (word, _, pid) in enumerate(lines) if word == "poison"]
    assert len(starts) == 3
    assert {n for word, n, _ in lines if word == "end"} == {str(n) for n in range(40)}
    # In the worker of the third start all that had begun was over, and nothing else began.
    third, pid = starts[2]
    words = [word for word, _, worker in lines[:third] if worker == pid]
    assert words.count("good") == words.count("end")
    assert [line for line in lines[third + 1 :] if line[2] == pid] == []
    assert place.rows("SELECT name, state, reason, attempts FROM nextdue_tasks") == [
        ("poison", "dead", "worker_died", 0)
    ]
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done' AND name = 'good'") == 40
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'dead' AND name = 'poison'") == 1
    place.checked()


def test_a_killed_neighbour_s_rows_are_taken_at_once(place: Place) -> None:
    """F029, law 6: the default lease is 300 s, the death of a worker on this machine is noticed in milliseconds."""
    place.script("""
@nd.task
def long(n: int) -> None:
    note("begin", n, os.getpid())
    if not (HERE / "free").exists():
        time.sleep(60)
    note("end", n, os.getpid())
""")
    place.does("import shop; shop.long.enqueue_many([(1,), (2,)])")
    first = place.worker("2")
    place.noted("begin", 2)
    second = place.worker("2")
    assert place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'running'") == 2
    (place.folder / "free").touch()
    first.kill()
    killed = time.monotonic()
    place.noted("end", 2, 5)
    assert time.monotonic() - killed < 1.0, "the back-off of 250 ms included"
    ends = [line.split() for line in place.notes() if line.startswith("end")]
    assert {int(pid) for _, _, pid in ends} == {second.pid}
    place.empties()
    assert second.terminate() == 0
    place.checked()


def test_rows_of_a_worker_that_nobody_knows_come_back_by_their_lease(place: Place) -> None:
    """F032, F033: no table or file about workers is needed; an expired lease is just a due row."""
    place.script("""
@nd.task(lease=1)
def work(n: int) -> None:
    note("begin", n)
    if len((HERE / "notes").read_text().splitlines()) == 1:
        time.sleep(60)
""")
    place.does("import shop; shop.work.enqueue(1)")
    first = place.worker()
    place.noted("begin", 1)
    first.kill()
    for file in (place.folder / "shop.db-workers").iterdir():
        file.unlink()
    place.rows("DELETE FROM nextdue_worker")
    second = place.worker()
    place.empties(10)
    assert place.notes() == ["begin 1", "begin 1"]
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs WHERE reason = 'lease_expired'") == 1)
    assert second.terminate() == 0
    place.checked()
