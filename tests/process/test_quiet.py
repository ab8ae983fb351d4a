"""When nothing can be done, nothing happens: idle workers, names that nobody here knows, tasks that hang."""

import contextlib
import sqlite3
import time

from tests.process.harness import Place, cpu_s, switches, until

NOW = "(julianday('now') - 2440587.5) * 86400000"
SHOP = """
@nd.task
def known(n: int) -> None:
    note("known", n)
"""


def settled_down(pid: int) -> None:
    """Wait until a process has done nothing for a while."""
    seen, since = switches(pid), time.monotonic()

    def still() -> bool:
        nonlocal seen, since
        now = switches(pid)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > 0.3

    until(still, 10, lambda: f"rest: {switches(pid)} switches")


def test_an_idle_worker_does_nothing(place: Place) -> None:
    """Law 12: a task an hour ahead: under 0.5 context switches a second over 5 s, and no CPU; before and after work."""
    place.script(SHOP)
    place.does("import shop; shop.known.using(delay=3600).enqueue(0)")
    fresh = place.worker()
    place.does("import shop; shop.known.enqueue_many([(n,) for n in range(100)])")
    place.noted("known", 100)
    used = place.worker()  # two of them also show that an idle worker wakes no other
    for worker in (fresh, used):
        settled_down(worker.pid)
    before = [(switches(w.pid), cpu_s(w.pid)) for w in (fresh, used)]
    time.sleep(5)
    for worker, (counted, cpu) in zip((fresh, used), before, strict=True):
        assert switches(worker.pid) - counted <= 2
        assert cpu_s(worker.pid) - cpu <= 0.01
    place.does("import shop; shop.known.enqueue(1000)")
    place.noted("known 1000", 1, 2)
    assert (fresh.terminate(), used.terminate()) == (0, 0)


def test_ringing_and_signals_leave_no_spin_behind(place: Place) -> None:
    """Law 12: after thousands of rings, ends of tasks and deaths of neighbours a worker is as still as before."""
    place.script(SHOP)
    worker = place.worker()
    place.does("import shop; [shop.known.enqueue(n) for n in range(300)]")
    place.worker().kill()
    place.worker().terminate()
    (place.folder / "shop.db-wake").write_bytes(b"\n" * 1000)
    place.noted("known", 300)
    settled_down(worker.pid)
    counted, cpu = switches(worker.pid), cpu_s(worker.pid)
    time.sleep(1)
    assert switches(worker.pid) - counted <= 2
    assert cpu_s(worker.pid) - cpu <= 0.01
    assert worker.terminate() == 0


def test_a_full_worker_does_not_spin(place: Place) -> None:
    """Law 10: all slots taken and much due: it waits for an end, not in a circle."""
    place.script("@nd.task\ndef long(n: int) -> None:\n    note('long', n)\n    time.sleep(60)\n")
    place.does("import shop; shop.long.enqueue_many([(n,) for n in range(50)])")
    worker = place.worker("2, grace=0.1")
    place.noted("long", 2)
    time.sleep(0.3)  # the rows claimed ahead, if any, are given back
    cpu = cpu_s(worker.pid)
    time.sleep(0.6)
    assert cpu_s(worker.pid) - cpu <= 0.02
    assert len(place.notes()) == 2
    assert worker.terminate() == 0
    assert place.rows("SELECT state, count(*), sum(attempts), sum(crashes) FROM nextdue_tasks GROUP BY 1") == [
        ("waiting", 50, 0, 0)
    ]


def test_a_full_worker_renews_though_something_falls_due(place: Place) -> None:
    """Laws 7 and 10: a worker that looked, then took all it can, is neither woken by the next due nor blinded by it."""
    place.script("@nd.task(lease=1)\ndef long(n: int) -> None:\n    note('long', n)\n    time.sleep(60)\n")
    place.does("import shop; shop.long.using(delay=1).enqueue(2)")
    worker = place.worker("1, grace=0.1")
    place.does("import shop; shop.long.enqueue(1)")
    place.noted("long 1")
    until(lambda: place.one(f"SELECT due_ms < {NOW} - 50 FROM nextdue_tasks WHERE state = 'waiting'"))
    cpu, end = cpu_s(worker.pid), time.monotonic() + 1.0
    lease = f"SELECT due_ms - {NOW} FROM nextdue_tasks WHERE state = 'running'"
    while time.monotonic() < end:
        assert place.one(lease) > 200, "a third of the lease is its time for a renewal"
        time.sleep(0.05)
    assert cpu_s(worker.pid) - cpu <= 0.03
    assert worker.terminate() == 0
    place.checked()


def test_beside_a_busy_application(place: Place) -> None:
    """Law 12: 300 foreign commits a second to the same file cost an idle worker next to nothing."""
    place.script(SHOP)
    place.does("import shop; shop.known.using(delay=3600).enqueue(0)")
    worker = place.worker()
    with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("CREATE TABLE theirs(x)")
        cpu, begun, commits = cpu_s(worker.pid), time.monotonic(), 0
        while time.monotonic() - begun < 1.5:
            db.execute("INSERT INTO theirs VALUES (1)")
            commits += 1
            time.sleep(0.003)
    assert commits > 150
    assert cpu_s(worker.pid) - cpu <= 0.05 * 1.5
    assert worker.terminate() == 0


OLD = """
@nd.task
def both(n: int) -> None:
    note("both", n)
"""
NEW = OLD + "\n@nd.task\ndef b_only(n: int) -> None:\n    note('b_only', n, os.getpid())\n"


def test_an_old_and_a_new_worker_side_by_side(place: Place) -> None:
    """F092, law 10: the old one never claims a name it doesn't know, nor spins over it; the new one runs it once."""
    place.script(OLD, "old.py")
    place.script(NEW, "new.py")
    old = place.worker(module="old")
    place.does("import new; new.b_only.enqueue_many([(n,) for n in range(20)])")
    settled_down(old.pid)
    cpu, counted = cpu_s(old.pid), switches(old.pid)
    time.sleep(1)
    assert cpu_s(old.pid) - cpu <= 0.02
    assert switches(old.pid) - counted <= 2
    place.does("import new; new.both.enqueue(1)")
    place.noted("both", 1, 5)
    assert (
        place.one("SELECT count(*) FROM nextdue_tasks WHERE name = 'b_only' AND state = 'waiting' AND claims = 0") == 20
    )
    new = place.worker(module="new")
    place.empties()
    ran = [line for line in place.notes() if line.startswith("b_only")]
    assert len(ran) == 20
    assert {line.split()[2] for line in ran} == {str(new.pid)}
    assert (old.terminate(), new.terminate()) == (0, 0)
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome <> 'done'") == 0
    place.checked()


def test_half_of_the_tasks_not_importable(place: Place) -> None:
    """F091, F129: nothing deleted, failed or parked; shown as unknown; after the right deploy they run."""
    place.script(NEW, "whole.py")
    place.script(OLD, "half.py")
    place.does("""
import whole
whole.b_only.enqueue_many([(n,) for n in range(100)])
whole.both.enqueue_many([(n,) for n in range(100)])
""")
    before = place.rows("SELECT * FROM nextdue_tasks WHERE name = 'b_only'")
    half = place.cli("worker", "half:nd")
    half.says("unknown")
    assert "b_only (100)" in half.text
    until(lambda: place.left() == 100)
    cpu = cpu_s(half.pid)
    time.sleep(0.6)
    assert cpu_s(half.pid) - cpu <= 0.02
    assert half.terminate() == 0
    assert place.rows("SELECT * FROM nextdue_tasks WHERE name = 'b_only'") == before
    once = place.cli("worker", "half:nd", "--once")
    assert once.ends(10) == 0
    assert place.rows("SELECT * FROM nextdue_tasks WHERE name = 'b_only'") == before
    whole = place.cli("worker", "whole:nd")
    place.empties()
    assert whole.terminate() == 0
    assert len({line for line in place.notes() if line.startswith("b_only")}) == 100
    place.checked()


LIMITED = """
@nd.task(time_limit=0.3, retry=Retry(base=60, jitter=0, limit=3))
def hangs(n: int) -> None:
    note("hangs", n)
    time.sleep(60)

@nd.task(time_limit=0.3, retry=Retry(limit=1))
def late(ctx: Context, n: int) -> None:
    note("late", n)
    until(ctx.lost)
    try:
        with ctx.replace(HERE / "out") as file:
            file.write("late")
    except LeaseLost:
        note("refused", n)

@nd.task
def good(n: int) -> None:
    note("good", n)
"""


def test_a_hung_task_is_given_up_at_its_limit(place: Place) -> None:
    """F028: the slot is replaced, the failure is recorded and logged, the others go on; the end doesn't hang on it."""
    place.script(LIMITED)
    place.does("import shop; shop.hangs.enqueue_many([(1,), (2,)]); shop.good.enqueue_many([(n,) for n in range(20)])")
    worker = place.worker("2")
    place.noted("good", 20, 5)
    until(lambda: place.one("SELECT count(*) FROM nextdue_tasks WHERE attempts = 1") == 2, 5)
    assert place.rows("SELECT state, reason FROM nextdue_tasks WHERE name = 'hangs'") == [("waiting", "time_limit")] * 2
    assert place.rows("SELECT ended_ms - started_ms BETWEEN 290 AND 800 FROM nextdue_runs WHERE name = 'hangs'") == [
        (1,),
        (1,),
    ]
    worker.says("time limit of 0.3 s")
    begun = time.monotonic()
    assert worker.terminate(5) == 0
    assert time.monotonic() - begun < 1, "hung threads have no grace"
    place.checked()


def test_a_task_learns_that_its_time_is_over(place: Place) -> None:
    """F028: ctx.lost() is true, ctx.replace refuses, its late end changes nothing, and its new attempt isn't harmed."""
    place.script(LIMITED)
    place.does("import shop; shop.late.enqueue(1)")
    worker = place.worker("1")
    place.noted("refused", 1, 5)
    assert not (place.folder / "out").exists()
    until(lambda: place.one("SELECT count(*) FROM nextdue_runs") == 1)
    place.does("import shop; shop.good.enqueue(1)")
    place.noted("good 1", 1, 5)
    assert worker.terminate() == 0
    assert place.rows("SELECT outcome, reason FROM nextdue_runs WHERE name = 'late'") == [("dead", "time_limit")]
    place.checked()


def test_a_limit_that_is_not_reached_changes_nothing(place: Place) -> None:
    """F028: hundreds of short tasks with a limit, none of which reaches it."""
    place.script("@nd.task(time_limit=1)\ndef short(n: int) -> None:\n    pass\n")
    place.does("import shop; shop.short.enqueue_many([(n,) for n in range(500)])")
    worker = place.worker()
    place.empties()
    assert worker.terminate() == 0
    assert place.rows("SELECT outcome, count(*) FROM nextdue_runs GROUP BY 1") == [("done", 500)]
