"""What a big file costs, in small: the bench does it with a million tasks and ten million rows."""

import contextlib
import os
import sqlite3
import time
from pathlib import Path

import pytest

from nextdue.sqlite import care
from nextdue.sqlite.database import WAL_BYTES
from nextdue.sqlite.store import SqliteStore
from tests.process.harness import cpu_s, switches, until

SHOP = """
@nd.task
def noop(n: int) -> None:
    pass

@nd.task
def once(n: int) -> None:
    note("once", n)
"""
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
FAR_MS = 4_000_000_000_000


@pytest.fixture
def shop(place):
    place.script(SHOP)
    return place


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill(place, statement: str, count: int) -> None:
    """Many rows at once, in the lane of the first task."""
    place.does("import shop; shop.noop.using(delay='9d').enqueue(0)")
    with contextlib.closing(sqlite3.connect(place.db)) as db, db:
        db.execute(MANY + statement, (count,))


def future(place, count: int) -> None:
    fill(
        place,
        "INSERT INTO nextdue_task(lane, name, due, args, remember, created) "
        f"SELECT 1, 'noop', {FAR_MS} + i, '[1]', 0, 1 FROM n",
        count,
    )


def drained(place, count: int) -> None:
    """Put so many no-op tasks and wait until none of them is left."""
    place.does(f"import shop; shop.noop.enqueue_many([(n,) for n in range({count})])")
    tomorrow = int(time.time() * 1000) + 86_400_000
    until(lambda: not place.one("SELECT count(*) FROM nextdue_task WHERE due < ?", tomorrow), 60)


@pytest.mark.beside
def test_a_long_reader_lets_the_wal_grow_and_its_end_shrinks_it(shop):
    """F059: 500 commits a second beside a snapshot that stays; afterwards 4 MB again."""
    wal = shop.db.with_name("shop.db-wal")
    shop.does("import shop; shop.noop.using(delay='9d').enqueue(0)")
    with contextlib.closing(sqlite3.connect(shop.db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nextdue_task").fetchone()
        writer = shop.python(
            "import shop, time\nwhile True:\n    shop.noop.using(delay='9d').enqueue(1)\n    time.sleep(0.001)\n"
        )
        until(lambda: wal.exists() and wal.stat().st_size > 3 * WAL_BYTES, 60)
        assert "stay open in pid" in until(lambda: shop.cli("doctor", "shop.db").says("readers"), 30)
        reader.execute("ROLLBACK")
    until(lambda: wal.stat().st_size <= WAL_BYTES + 32, 10)
    # And there it stays: what is written afterwards goes over it.
    written = shop.one("SELECT count(*) FROM nextdue_task")
    until(lambda: shop.one("SELECT count(*) FROM nextdue_task") > written + 500, 30)
    assert wal.stat().st_size <= 2 * WAL_BYTES
    writer.kill()
    shop.checked()


def test_tasks_to_come_cost_a_worker_nothing(shop):
    """F118: no memory, no claims, no work, however many."""
    shop.does("import shop; shop.noop.using(delay='9d').enqueue(0)")
    worker = shop.worker()
    time.sleep(0.3)
    alone = rss(worker.pid)
    worker.kill()
    future(shop, 150_000)
    begun = time.monotonic()
    worker = shop.worker()
    assert time.monotonic() - begun < 5
    time.sleep(0.3)
    before, used = switches(worker.pid), cpu_s(worker.pid)
    time.sleep(1)
    assert switches(worker.pid) - before < 20
    assert cpu_s(worker.pid) - used < 0.05
    assert rss(worker.pid) - alone < 5 << 20
    assert shop.one("SELECT max(claims) FROM nextdue_task") == 0
    worker.kill()


@pytest.mark.beside
def test_a_worker_does_not_grow(shop):
    """F128: memory is flat over many tasks."""
    worker = shop.worker()
    drained(shop, 20_000)
    before = rss(worker.pid)
    for _ in range(4):
        drained(shop, 20_000)
    assert rss(worker.pid) - before < 2 << 20
    worker.kill()


@pytest.mark.beside
def test_what_is_over_is_purged_under_load_and_nothing_else(shop):
    """F121: each settled task takes at most two with it, and the claim doesn't see them."""
    fill(
        shop,
        "INSERT INTO nextdue_task(lane, name, rest, key, args, remember, claims, created, gone_at) "
        f"SELECT 1, 'noop', 'done', 'k' || i, '[1]', 1, 1, 1, CASE WHEN i % 2 THEN 2 ELSE {FAR_MS} END FROM n",
        40_000,
    )
    worker = shop.worker()
    drained(shop, 5_000)
    assert shop.one("SELECT count(*) FROM nextdue_task WHERE gone_at = 2") == 20_000 - 2 * 5_000
    drained(shop, 7_000)
    assert shop.one("SELECT count(*) FROM nextdue_task WHERE gone_at = 2") == 0
    assert shop.one(f"SELECT count(*) FROM nextdue_task WHERE gone_at = {FAR_MS}") == 20_000
    worker.kill()
    shop.checked()


@pytest.mark.beside
def test_the_history_is_purged_under_load(shop):
    """F121: by the bounds that the application states, two lines for each that comes."""
    shop.script(SHOP.replace("@nd.task", "nd = Nextdue(HERE / 'shop.db', keep_runs=1_000)\n\n@nd.task", 1))
    fill(
        shop,
        "INSERT INTO nextdue_run(task, name, key, claim, ended, outcome) "
        "SELECT 1, 'noop', 'k', i, 1764500000000, 'failed' FROM n",
        20_000,
    )
    worker = shop.worker()
    drained(shop, 10_000)
    assert shop.one("SELECT count(*) FROM nextdue_run") <= 20_000 + 10_000 - 2 * 10_000 + 500
    drained(shop, 12_000)
    assert shop.one("SELECT count(*) FROM nextdue_run") <= 1_000 + 500
    worker.kill()


@pytest.mark.beside
def test_the_file_is_used_again_and_vacuum_is_only_waited_for(shop):
    """F065: what was run and purged leaves room for the next; VACUUM beside a worker repeats no task."""
    shop.script(SHOP.replace("@nd.task", "nd = Nextdue(HERE / 'shop.db', keep_runs=1_000)\n\n@nd.task", 1))
    worker = shop.worker()
    sizes = []
    for _ in range(4):
        drained(shop, 10_000)
        shop.rows("PRAGMA wal_checkpoint(PASSIVE)")
        sizes.append(shop.db.stat().st_size)
    assert sizes[3] <= 1.2 * sizes[1] + (1 << 20)
    shop.does("import shop; shop.once.enqueue_many([(n,) for n in range(300)])")
    for _ in range(3):
        shop.rows("VACUUM")
    shop.empties()
    assert sorted(shop.notes()) == sorted(f"once {n}" for n in range(300))
    worker.kill()
    assert "Traceback" not in worker.text
    shop.checked()


def steps(store: SqliteStore, call) -> int:
    """How many thousands of opcodes SQLite runs for it."""
    counted = []
    store.database.connection.set_progress_handler(lambda: counted.append(1), 1_000)
    try:
        call()
    finally:
        store.database.connection.set_progress_handler(None, 0)
    return len(counted)


@pytest.mark.parametrize("kind", ["to come", "done"])
def test_listings_read_as_much_as_they_show(shop, kind):
    """F121: also for whoever only looks."""
    if kind == "to come":
        future(shop, 50_000)
    else:
        fill(
            shop,
            "INSERT INTO nextdue_task(lane, name, rest, key, args, remember, claims, created, gone_at) "
            f"SELECT 1, 'noop', 'done', 'k' || i, '[1]', 1, 1, 1, {FAR_MS} FROM n",
            50_000,
        )
    store = SqliteStore(shop.db, create=False)
    made = care.Chosen
    for chosen in (made(), made(name="noop"), made(state="waiting"), made(state="running"), made(queue="default")):
        assert steps(store, lambda: care.listed(store, chosen, limit=51)) < 20, chosen  # noqa: B023
    assert steps(store, lambda: store.get(1)) < 20
    store.close()
