"""Coroutines in real workers: leases, stops, deaths, time limits, beside threads."""

import functools
import os
import time
from pathlib import Path

import pytest

from tests.process.harness import Place, until

PRELUDE = """
import asyncio
"""
DEAD = "SELECT 1 FROM nextdue_tasks WHERE state = 'dead' AND name = ?"


def test_blocking_the_loop_past_the_lease_is_one_run(place: Place) -> None:
    """F027, F024, law 7: a coroutine calls time.sleep(3 x lease) while another worker looks on.

    Its lease and its neighbour's are renewed from outside the loop; who blocks is said once.
    """
    place.script(
        PRELUDE
        + """
@nd.task(lease=1)
async def rude(n: int) -> None:
    note("rude", n, os.getpid())
    await asyncio.sleep(0.05)
    time.sleep(3)

@nd.task(lease=1)
async def polite(n: int) -> None:
    note("polite", n)
    await asyncio.sleep(0.2)
"""
    )
    first, second = place.worker(), place.worker()
    place.does("import shop; shop.polite.enqueue(1); shop.rude.enqueue(1)")
    place.empties()
    assert sorted(" ".join(note.split()[:2]) for note in place.notes()) == ["polite 1", "rude 1"]
    assert place.rows("SELECT DISTINCT outcome FROM nextdue_runs") == [("done",)]
    assert (first.terminate(), second.terminate()) == (0, 0)
    said = [line for line in first.lines + second.lines if "blocks the event loop" in line]
    assert len(said) == 1
    assert said[0].startswith("WARNING rude #")
    place.checked()


def test_a_thousand_coroutines_keep_their_leases(place: Place) -> None:
    """F025, F117: 1,000 at a time for over twice their lease, while another worker looks on: 1,000 runs."""
    place.script(
        PRELUDE
        + """
@nd.task(lease=1)
async def work(n: int) -> None:
    await asyncio.sleep(2.5)
"""
    )
    worker = place.worker("loop=1000")
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(1000)])")
    until(lambda: place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'running'") == 1000)
    other = place.worker("loop=1000")
    place.empties()
    assert place.rows("SELECT outcome, count(*) FROM nextdue_runs GROUP BY outcome") == [("done", 1000)]
    assert place.one("SELECT count(DISTINCT worker) FROM nextdue_runs") == 1
    assert (worker.terminate(), other.terminate()) == (0, 0)
    place.checked()


def test_a_stop_gives_coroutines_the_grace_and_lets_them_clean_up(place: Place) -> None:
    """F077, law 9: what ends within the grace is done; the rest is cancelled and given back, and nothing is charged.

    A blocking call that is abandoned in a thread doesn't hold up the end of the process.
    """
    place.script(
        PRELUDE
        + """
@nd.task
async def short(n: int) -> None:
    note("short", n)
    await asyncio.sleep(0.5)

@nd.task
async def long(n: int) -> None:
    note("long", n)
    try:
        await asyncio.sleep(60)
    finally:
        note("cleaned", n)

@nd.task
async def blocking(n: int) -> None:
    note("blocking", n)
    await asyncio.to_thread(time.sleep, 60)
"""
    )
    place.does("import shop; shop.short.enqueue(1); shop.long.enqueue(1); shop.blocking.enqueue(1)")
    worker = place.worker("loop=3, grace=1")
    for name in ("short", "long", "blocking"):
        place.noted(name)
    begun = time.monotonic()
    assert worker.terminate(10) == 0
    assert 0.95 < time.monotonic() - begun < 4
    assert place.rows("SELECT name, state, attempts, crashes FROM nextdue_tasks ORDER BY name") == [
        ("blocking", "waiting", 0, 0),
        ("long", "waiting", 0, 0),
    ]
    assert sorted(place.rows("SELECT name, outcome FROM nextdue_runs")) == [
        ("blocking", "released"),
        ("long", "released"),
        ("short", "done"),
    ]
    assert "cleaned 1" in place.notes()
    assert worker.lines[1:] == []
    place.checked()


def test_time_limits_are_kept_by_an_otherwise_idle_worker(place: Place) -> None:
    """F028: cancelled at the limit, or given up a second later if it goes on; nothing else wakes the worker."""
    place.script(
        PRELUDE
        + """
@nd.task(time_limit=0.3, retry=Retry(limit=1))
async def long(n: int) -> None:
    await asyncio.sleep(60)

@nd.task(time_limit=0.3, retry=Retry(limit=1))
async def hangs(ctx, n: int) -> None:
    while not ctx.lost():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note("no")
    note("lost")
"""
    )
    worker = place.worker()
    for name, most in (("long", 1.0), ("hangs", 2.5)):
        begun = time.monotonic()
        place.does(f"import shop; shop.{name}.enqueue(1)")
        until(functools.partial(place.rows, DEAD, name))
        assert time.monotonic() - begun < most + 0.7
    assert place.rows("SELECT name, attempts, reason FROM nextdue_tasks ORDER BY id") == [
        ("long", 1, "time_limit"),
        ("hangs", 1, "time_limit"),
    ]
    assert worker.terminate() == 0
    assert place.notes() == ["no", "no", "lost"]  # at its limit, and at the end of the worker
    place.checked()


def test_a_blocked_loop_does_not_hold_up_a_stop(place: Place) -> None:
    """Law 9: time.sleep(60) in a coroutine, SIGTERM, grace 0.3 s: given back, exit 0."""
    place.script(
        PRELUDE
        + """
@nd.task
async def rude(n: int) -> None:
    note("rude", n)
    time.sleep(60)
"""
    )
    place.does("import shop; shop.rude.enqueue(1)")
    worker = place.worker("grace=0.3")
    place.noted("rude")
    begun = time.monotonic()
    assert worker.terminate(10) == 0
    assert time.monotonic() - begun < 4
    assert place.rows("SELECT state, attempts, crashes FROM nextdue_tasks") == [("waiting", 0, 0)]
    place.checked()


def test_a_killed_loop_s_tasks_are_taken_up_at_once(place: Place) -> None:
    """F029, F037: kill -9 with 50 coroutines and 2 threads at work: a neighbour runs them all within a second or so."""
    place.script(
        PRELUDE
        + """
@nd.task
async def work(n: int) -> None:
    note("work", n, os.getpid())
    while not (HERE / "free").exists():
        await asyncio.sleep(0.01)

@nd.task
def plain(n: int) -> None:
    note("plain", n, os.getpid())
    until(lambda: (HERE / "free").exists())
"""
    )
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(50)]); shop.plain.enqueue_many([(1,), (2,)])")
    first = place.worker("2, loop=50")
    place.noted("work", 50)
    place.noted("plain", 2)
    first.kill()
    (place.folder / "free").touch()
    begun = time.monotonic()
    second = place.worker("2, loop=50")
    place.empties()
    assert time.monotonic() - begun < 10
    assert place.rows("SELECT outcome, count(*) FROM nextdue_runs GROUP BY outcome ORDER BY 1") == [
        ("crashed", 52),
        ("done", 52),
    ]
    assert second.terminate() == 0
    place.checked()


@pytest.mark.beside
def test_a_coroutine_that_kills_its_worker_is_tried_alone(place: Place) -> None:
    """F082, law 8: os._exit in a coroutine; its neighbours in the same loop are done, it is dead, alone to blame."""
    place.script(
        PRELUDE
        + """
@nd.task
async def poison(n: int) -> None:
    await asyncio.sleep(0.02)
    os._exit(9)

@nd.task
async def good(n: int) -> None:
    await asyncio.sleep(0.1)
"""
    )
    place.does("import shop; shop.poison.enqueue(1); shop.good.enqueue_many([(n,) for n in range(5)])")
    for _ in range(3):
        assert place.worker().ends(20) == 9
    worker = place.worker()
    until(lambda: place.rows("SELECT name, state, reason FROM nextdue_tasks") == [("poison", "dead", "worker_died")])
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE name = 'good' AND outcome = 'done'") == 5
    assert worker.terminate() == 0
    place.checked()


@pytest.mark.beside
def test_base_exceptions_of_coroutines_are_failures_of_their_task(place: Place) -> None:
    """F076: each one is a counted, recorded failure; worker, loop and other tasks go on."""
    place.script(
        PRELUDE
        + """
class Own(BaseException): ...
KINDS = [SystemExit(0), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Own("mine")]

@nd.task(retry=Retry(base=60, jitter=0, limit=3))
async def raises(kind: int) -> None:
    await asyncio.sleep(0)
    raise KINDS[kind]

@nd.task
async def good(n: int) -> None:
    note("good", n)
"""
    )
    place.does("""
import shop
shop.raises.enqueue_many([(n,) for n in range(6)])
shop.good.enqueue_many([(n,) for n in range(6)])
""")
    worker = place.worker("loop=2")
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs") == 12)
    place.does("import shop; shop.good.enqueue(7)")
    place.noted("good 7")
    assert worker.terminate() == 0
    reasons = ["SystemExit", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "Own"]
    assert place.rows("SELECT state, attempts, crashes, reason FROM nextdue_tasks ORDER BY id") == [
        ("waiting", 1, 0, reason) for reason in reasons
    ]
    place.checked()


@pytest.mark.beside
def test_threads_and_coroutines_side_by_side(place: Place) -> None:
    """A blocked loop doesn't stop the threads, and threads at work don't stop the loop; one name each, one worker."""
    place.script(
        PRELUDE
        + """
@nd.task
def plain(n: int) -> None:
    note("plain", n, threading.current_thread().name)

@nd.task
async def work(n: int) -> None:
    note("work", n, threading.current_thread().name)

@nd.task
async def rude(n: int) -> None:
    note("rude", n)
    until(lambda: (HERE / "free").exists())
"""
    )
    worker = place.worker("2")
    place.does("import shop; shop.rude.enqueue(1)")
    place.noted("rude")
    place.does("import shop; shop.plain.enqueue_many([(n,) for n in range(20)])")
    place.noted("plain", 20)
    (place.folder / "free").touch()
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(20)])")
    place.empties()
    threads = {tuple(note.split()[::2]) for note in place.notes() if not note.startswith("rude")}
    assert {name for kind, name in threads if kind == "work"} == {"nextdue-loop"}
    assert {name for kind, name in threads if kind == "plain"} <= {"nextdue-1", "nextdue-2"}
    assert worker.terminate() == 0
    place.checked()


@pytest.mark.beside
def test_a_worker_without_coroutines_loads_no_event_loop(place: Place) -> None:
    """No asyncio where no coroutine is declared; no thread for it until the first one is claimed."""
    body = """
def loops():
    return [t.name for t in threading.enumerate() if t.name in ("nextdue-loop", "nextdue-watch")]

@nd.task
def plain(n: int) -> None:
    note("plain", "asyncio" in sys.modules, *loops())
"""
    place.script(body)
    place.script(body + "\n@nd.task\nasync def work(n: int) -> None:\n    note('work', *loops())\n", "both.py")
    place.does("import shop; shop.plain.enqueue(1)")
    assert place.cli("worker", "shop:nd", "--once").ends() == 0
    place.does("import shop; shop.plain.enqueue(2)")
    assert place.cli("worker", "both:nd", "--once").ends() == 0
    place.does("import both; both.work.enqueue(1)")
    assert place.cli("worker", "both:nd", "--once").ends() == 0
    assert place.notes() == ["plain False", "plain True", "work nextdue-loop nextdue-watch"]
    place.checked()


def test_a_loop_that_can_not_be_made_is_made_later(place: Place) -> None:
    """F063, its kin: out of descriptors, the coroutines wait and threads go on; when there are some again, they run."""
    place.script(
        PRELUDE
        + """
import resource
@nd.task
async def work(n: int) -> None:
    note("work", n)

@nd.task
def scarce(n: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        pass
    until(lambda: nd_due.is_set())
    time.sleep(0.3)
    assert "nextdue-loop" not in [t.name for t in threading.enumerate()]
    for fd in taken:
        os.close(fd)
    note("enough")

nd_due = threading.Event()
@nd.task
def mark(n: int) -> None:
    nd_due.set()
"""
    )
    place.does("import shop; shop.scarce.enqueue(1)")
    worker = place.worker()
    until(lambda: place.one("SELECT state FROM nextdue_tasks") == "running")
    place.does("import shop; shop.work.enqueue(1); shop.mark.using(delay=0.3).enqueue(1)")
    place.noted("work 1")
    assert place.notes() == ["enough", "work 1"]
    assert worker.terminate() == 0
    assert worker.lines[1:] == []
    assert place.rows("SELECT name, outcome FROM nextdue_runs ORDER BY name") == [
        ("mark", "done"),
        ("scarce", "done"),
        ("work", "done"),
    ]
    place.checked()


def test_a_worker_whose_coroutines_only_wait_sleeps(place: Place) -> None:
    """F128: 100 coroutines asleep for 3 s: the process uses next to no processor time meanwhile."""
    place.script(
        PRELUDE
        + """
@nd.task
async def waits(n: int) -> None:
    note("begin", n)
    await asyncio.sleep(5)
"""
    )
    place.does("import shop; shop.waits.enqueue_many([(n,) for n in range(100)])")
    worker = place.worker()
    place.noted("begin", 100)
    time.sleep(1.5)

    def used() -> int:
        fields = Path(f"/proc/{worker.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    time.sleep(2)
    assert (used() - before) / os.sysconf("SC_CLK_TCK") <= 0.02
    worker.kill()
