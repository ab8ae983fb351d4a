"""Leases and real time: a living task keeps its lease, a late one changes nothing."""

import signal
import time

import pytest

from tests.process.harness import Place, until

DONE = "SELECT worker, result FROM nextdue_runs WHERE outcome = 'done'"


@pytest.mark.beside
@pytest.mark.parametrize("keep_result", [True, False])
def test_a_stopped_worker_s_late_settle_is_refused(place: Place, keep_result: bool) -> None:
    """F027, law 5: SIGSTOP right before the commit of an ending, past the lease, then SIGCONT while another runs it.

    The second worker's result stands, the first one's is refused, and it is done once.
    """
    place.script(f"""
@nd.task(lease=1, keep_result={keep_result})
def work(n: int) -> int:
    note("begin", n, os.getpid())
    until(lambda: (HERE / f"free{{os.getpid()}}").exists())
    note("end", n, os.getpid())
    return os.getpid()
""")
    place.does("import shop; shop.work.enqueue(1)")
    first = place.python("""
import os, shop, signal
service = shop.nd.working()
store = service.open().store
tick = store.tick
def stops_first(request):
    if request.settlements:
        store.tick = tick
        shop.note("stops")
        os.kill(os.getpid(), signal.SIGSTOP)
    return tick(request)
store.tick = stops_first
service.run()
""")
    place.noted("begin", 1)
    (place.folder / f"free{first.pid}").touch()
    place.noted("stops")
    second = place.worker()
    place.noted(f"begin 1 {second.pid}", 1, 10)
    first.send(signal.SIGCONT)
    assert first.terminate() == 0
    assert place.rows("SELECT state, claims FROM nextdue_tasks") == [("running", 2)]
    (place.folder / f"free{second.pid}").touch()
    place.empties()
    assert second.terminate() == 0
    assert place.rows("SELECT outcome, reason FROM nextdue_runs ORDER BY ended_ms") == [
        ("crashed", "lease_expired"),
        ("done", None),
    ]
    assert place.rows(DONE) == [(2, str(second.pid) if keep_result else None)]
    place.checked()


def test_a_stopped_worker_does_not_start_what_it_had_claimed_ahead(place: Place) -> None:
    """F025, law 5: rows claimed ahead and lost meanwhile are not started, for others do them."""
    place.script("""
@nd.task(lease=1)
def work(n: int) -> None:
    if n >= 1000:
        note("begin", n, os.getpid())
        time.sleep(0.05)
""")
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(1100)])")
    first = place.worker("2")
    place.noted("begin", 1)
    place.stop_outside_a_commit(first)
    held = place.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'running'")
    assert held >= 10, f"{held} rows are claimed ahead; too few to show anything"
    second = place.worker("8")
    place.empties()
    before = len(place.notes())
    first.send(signal.SIGCONT)
    place.does("import shop; shop.work.enqueue(2000)")
    place.noted("begin 2000")
    place.empties()
    assert (first.terminate(), second.terminate()) == (0, 0)
    again = [line for line in place.notes()[before:] if line.endswith(f" {first.pid}") and "2000" not in line]
    # The two slots may each take one more before the loop has seen that all is lost.
    assert len(again) <= 4, f"{len(again)} of {held} lost claims were started all the same"
    assert place.rows("SELECT task FROM nextdue_runs WHERE outcome = 'done' GROUP BY task HAVING count(*) > 1") == []
    place.checked()


def test_sleeping_past_the_lease_is_one_run(place: Place) -> None:
    """F027, F025, law 7: time.sleep(3 x lease), and pure Python that never waits, while another worker looks on."""
    place.script("""
@nd.task(lease=1)
def sleeps(n: int) -> None:
    note("sleeps", n)
    time.sleep(3)

@nd.task(lease=1)
def counts(n: int) -> None:
    note("counts", n)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        sum(range(1000))
""")
    first, second = place.worker("2"), place.worker("2")
    place.does("import shop; shop.sleeps.enqueue(1); shop.counts.enqueue(1)")
    place.empties()
    assert sorted(place.notes()) == ["counts 1", "sleeps 1"]
    assert place.rows("SELECT DISTINCT outcome FROM nextdue_runs") == [("done",)]
    assert (first.terminate(), second.terminate()) == (0, 0)
    place.checked()


def test_a_call_that_holds_the_interpreter_lock_may_start_twice_but_ends_once(place: Place) -> None:
    """F024, law 7: the stated exception. sum() over a range is one C call that lets no other thread run."""
    place.script("""
@nd.task(lease=1, keep_result=True)
def holds(n: int) -> int:
    note("begin", n, os.getpid())
    if not (HERE / "held").exists():
        (HERE / "held").touch()
        begun, size = time.monotonic(), 20_000_000
        sum(range(size))
        per_s = size / (time.monotonic() - begun)
        sum(range(int(2.5 * per_s)))
    note("end", n, os.getpid())
    return os.getpid()
""")
    first = place.worker("1")
    place.does("import shop; shop.holds.enqueue(1)")
    place.noted("begin", 1)
    second = place.worker("1")
    place.noted("end", 1)
    place.empties()
    until(lambda: place.notes().count(f"begin 1 {first.pid}") == place.notes().count(f"end 1 {first.pid}"))
    assert (first.terminate(), second.terminate()) == (0, 0)
    results = place.rows(DONE)
    assert len(results) == 1, results
    if f"begin 1 {second.pid}" in place.notes():
        assert results[0][1] == str(second.pid)
    place.checked()


def test_a_future_task_is_not_held_by_anybody(place: Place) -> None:
    """F023, law 12: three workers with a lease shorter than the delay: no claim before its due, and one run."""
    place.script("""
@nd.task(lease=1)
def later(n: int) -> None:
    note("later", n, time.time())
""")
    workers = [place.worker("1") for _ in range(3)]
    due_ms = int(place.does("import shop; print(int(shop.later.using(delay=1.3).enqueue(1).due.timestamp() * 1000))"))
    while time.time() * 1000 < due_ms - 20:
        state, claims = place.rows("SELECT state, claims FROM nextdue_tasks")[0]
        assert (state, claims) == ("waiting", 0)
        time.sleep(0.05)
    place.empties()
    (line,) = place.notes()
    assert 0 <= float(line.split()[2]) * 1000 - due_ms < 100
    assert [w.terminate() for w in workers] == [0, 0, 0]
