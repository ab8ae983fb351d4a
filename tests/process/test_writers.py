"""Many writers on one file: nobody is refused, nobody starves, nothing is lost."""

import contextlib
import json
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from tests.process.harness import Place, until

SHOP = """
@nd.task(lease=1)
def work(n: int) -> None: ...

def put(count, first=0):
    longest = 0.0
    for n in range(first, first + count):
        begun = time.monotonic()
        work.enqueue(n)
        longest = max(longest, time.monotonic() - begun)
    print(f"longest {longest:.4f}", flush=True)
"""


class Hog(contextlib.AbstractContextManager["Hog"]):
    """Another program's connection that holds the write lock for 100 ms of each 150 ms."""

    def __init__(self, database: Path) -> None:
        self._database, self._over = database, threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self.turns = 0

    def _hold(self) -> None:
        with contextlib.closing(sqlite3.connect(self._database, timeout=20, isolation_level=None)) as db:
            while not self._over.is_set():
                db.execute("BEGIN IMMEDIATE")
                self._over.wait(0.1)
                db.execute("ROLLBACK")
                self.turns += 1
                self._over.wait(0.05)

    def __enter__(self) -> "Hog":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(10)


def test_eight_writers_beside_a_hog(place: Place) -> None:
    """F052: 8 processes x 500 tasks while the write lock is away two thirds of the time; a worker works beside them."""
    place.script(SHOP)
    place.does("import shop; shop.work.enqueue(0)")
    worker = place.worker()
    with Hog(place.db) as hog:
        writers = [place.python(f"import shop; shop.put(500, {1000 * w})") for w in range(1, 9)]
        codes = [writer.ends(60) for writer in writers]
        assert codes == [0] * 8, place.said()
        assert hog.turns >= 3
    longest = [float(writer.says("longest").split()[1]) for writer in writers]
    # A wait is at least the hog's 100 ms; a starved writer would come near the 5 s after which it is refused.
    assert max(longest) < 2.0, longest
    place.empties(30)
    assert worker.alive()
    assert worker.terminate() == 0
    assert [line for line in worker.lines[1:] if "ERROR" in line or "Traceback" in line] == []
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done'") == 4001
    assert place.one("SELECT count(*) FROM nextdue_runs") == 4001
    place.checked()


def test_eight_threads_share_commits(place: Place) -> None:
    """F052: 8 threads of one process: each gets its own answer, and each task is there once."""
    place.script("""
@nd.task
def work(n: int) -> None: ...

if __name__ == "__main__":
    got, broken = {}, []
    def put(first):
        try:
            for n in range(first, first + 500):
                got[n] = work.enqueue(n).id
        except BaseException as exc:
            broken.append(exc)
    threads = [threading.Thread(target=put, args=(1000 * t,)) for t in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not broken, broken
    import json
    (HERE / "got").write_text(json.dumps(got))
""")
    program = place.start("shop.py")
    assert program.ends(30) == 0, program.text
    got = json.loads((place.folder / "got").read_text())
    rows = {id: json.loads(args)[0] for id, args in place.rows("SELECT id, args FROM nextdue_tasks")}
    assert len(rows) == len(got) == 4000
    assert {rows[id]: id for id in rows} == {int(n): id for n, id in got.items()}
    place.checked()


def test_checkpoints_of_four_processes(place: Place) -> None:
    """F060: each of them moves a tiny WAL again and again while all put and run tasks: none is torn or lost."""
    place.script("""
from nextdue.sqlite import database
database.WAL_BYTES = 40_000

@nd.task
def work(n: int, text: str) -> None: ...

def storm(first):
    n = first
    with nd.working(2):
        while not (HERE / "enough").exists():
            work.enqueue(n, "x" * 500)
            n += 1
    note("put", n - first)
""")
    keeper = place.python(
        "import shop\nwith shop.nd.transaction(): pass\nprint('ready', flush=True)\nshop.time.sleep(60)"
    )
    keeper.says("ready")
    storms = [place.python(f"import shop; shop.storm({1_000_000 * n})") for n in range(4)]
    begun = time.monotonic()

    def moved() -> int:
        """How often the WAL began anew: https://sqlite.org/fileformat2.html. Under four writers that takes luck."""
        with place.db.with_name("shop.db-wal").open("rb") as wal:
            return int.from_bytes(wal.read(16)[12:], "big")

    until(lambda: moved() > 2 and time.monotonic() - begun > 3, 60)
    (place.folder / "enough").touch()
    assert [storm.ends(30) for storm in storms] == [0] * 4, place.said()
    put = sum(int(note.split()[1]) for note in place.notes())
    place.worker()
    place.empties()
    assert put > 100
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done'") == put
    assert place.one("SELECT count(DISTINCT task) FROM nextdue_runs") == put
    place.checked()


@pytest.mark.beside
def test_two_workers_never_share_a_row(place: Place) -> None:
    """F045, F047, law 4: two processes drain 5,000 rows: each is run once and settled once."""
    place.script("""
@nd.task
def work(n: int) -> None:
    with lock:
        ran.append(n)
ran, lock = [], threading.Lock()
import atexit
atexit.register(lambda: ran and note("ran", *ran))
""")
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(5000)])")
    # Both are ready before either may begin.
    workers = [
        place.python(
            "import shop\nservice = shop.nd.working()\nservice.open()\nprint('ready', flush=True)\n"
            "shop.until(lambda: (shop.HERE / 'go').exists())\nservice.run()"
        )
        for _ in range(2)
    ]
    for worker in workers:
        worker.says("ready")
    (place.folder / "go").touch()
    place.empties()
    assert [worker.terminate() for worker in workers] == [0, 0]
    ran = [set(map(int, line.split()[1:])) for line in place.notes()]
    assert len(ran) == 2, "both had something to do"
    assert sum(map(len, ran)) == 5000
    assert set.union(*ran) == set(range(5000))
    assert place.one("SELECT count(*) FROM nextdue_runs") == 5000
    place.checked()


def test_a_lock_held_for_longer_than_the_lease_steals_nothing(place: Place) -> None:
    """F052, law 6: while somebody holds the write lock for 1.3 s all leases of 1 s expire, and none is taken over.

    Five workers with free slots wait for the lock then; who of them gets it first is chance, so it is done twice.
    """
    place.script("""
@nd.task(lease=1)
def work(n: int) -> None:
    note("begin", n, os.getpid())
    until(lambda: (HERE / "free").exists())
    note("end", n, os.getpid())
""")
    workers = [place.worker("8") for _ in range(5)]
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(4)])")
    place.noted("begin", 4)
    fresh = "SELECT min(due_ms) > (julianday('now') - 2440587.5) * 86400000 FROM nextdue_tasks WHERE state = 'running'"
    for _ in range(2):
        with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            time.sleep(1.3)
            db.execute("ROLLBACK")
        until(lambda: place.one(fresh))
    (place.folder / "free").touch()
    place.empties()
    assert [worker.terminate() for worker in workers] == [0] * 5
    assert len(place.notes()) == 8
    assert place.rows("SELECT outcome, count(*) FROM nextdue_runs GROUP BY outcome") == [("done", 4)]
    place.checked()


def test_an_enqueue_refused_for_busyness_says_so_and_stores_nothing(place: Place) -> None:
    """F052, law 1: the lock held for longer than we wait: StoreBusy, and the worker goes on afterwards."""
    place.script(SHOP)
    place.does("import shop; shop.work.enqueue(0)")
    worker = place.worker()
    place.empties()
    with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        # Something falls due for the worker too, put by the very connection that is in its way.
        db.execute("INSERT INTO nextdue_tasks(name, args) VALUES ('work', '[7]')")
        said = place.does("""
import shop, time
from nextdue.sqlite import database
assert database.WAIT_S == 5.0
database.WAIT_S = 1.0      # or this test would be as long as that
begun = time.monotonic()
try:
    shop.work.enqueue(1)
except shop.StoreBusy as busy:
    print("busy", time.monotonic() - begun, busy)
""")
        assert said.startswith("busy")
        assert 0.95 < float(said.split()[1]) < 2
        db.execute("COMMIT")
    place.empties()
    assert worker.terminate() == 0
    assert place.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done'") == 2
    place.checked()
