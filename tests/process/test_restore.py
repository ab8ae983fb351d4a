"""A restored file starts held, and the way back costs nothing that was there."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from nextdue.sqlite import pauses
from nextdue.sqlite.database import Database
from nextdue.sqlite.restore import held
from tests.process.harness import until

pytestmark = pytest.mark.beside

SHOP = """
@nd.task(keep_result=True)
def receipt(order: int) -> int:
    note("receipt", order)
    return order

@nd.task(queue="mail")
def letter(to: int) -> None:
    note("letter", to)
    if to == 13:
        time.sleep(60)
"""


@pytest.fixture
def shop(place):
    place.script(SHOP)
    return place


def run(place, *words, code=0):
    program = place.cli(*words)
    assert program.ends(30) == code, program.text
    return program.text


def meta(place, name):
    rows = place.rows("SELECT value FROM nextdue_meta WHERE name = ?", name)
    return rows[0][0] if rows else None


def yesterday(place):
    """What was put is a day older than it is."""
    place.rows("UPDATE nextdue_task SET due = due - 86400000, created = created - 86400000")


def test_it_comes_back_held_and_says_what_is_overdue(shop):
    """F103: restore yesterday's file; doctor says how much is overdue by more than an hour."""
    shop.does("import shop; [shop.receipt.enqueue(n) for n in range(3)]; shop.letter.using(delay='3d').enqueue(1)")
    yesterday(shop)
    run(shop, "backup", "shop.db", "b.db")
    shop.does("import shop; shop.receipt.enqueue(99)")
    text = run(shop, "restore", "b.db", "shop.db")
    assert "receipt  default  3" in text
    assert "Due later: 1, the next " in text
    assert "until `nextdue release shop.db`" in text
    assert shop.one("SELECT count(*) FROM nextdue_task") == 4
    assert "3 overdue, 3 of them by > 1 h" in run(shop, "doctor", "shop.db")
    (kept,) = shop.folder.glob("shop.db.before-*")
    with contextlib.closing(sqlite3.connect(kept)) as db:
        assert db.execute("SELECT count(*) FROM nextdue_task").fetchone() == (5,)
    shop.checked()


def test_nothing_is_claimed_before_the_release_and_everything_after_it(shop):
    """F103: 0 claims until released; keyed tasks that are done in the backup aren't repeated."""
    shop.does("import shop; shop.receipt.using(key='done').enqueue(0)")
    run(shop, "worker", "shop:nd", "--once")
    shop.does("import shop; [shop.receipt.enqueue(n) for n in (1, 2)]; shop.letter.enqueue(3)")
    run(shop, "backup", "shop.db", "b.db")
    run(shop, "restore", "b.db", "shop.db")
    said = run(shop, "worker", "shop:nd", "--once")
    assert "paused     a restored backup, held until `nextdue release`" in said
    assert "0 done" in said
    worker = shop.worker()
    shop.does("import shop; shop.receipt.enqueue(4); assert not shop.receipt.using(key='done').enqueue(0).created")
    time.sleep(0.3)
    assert shop.notes() == ["receipt 0"]
    run(shop, "release", "shop.db")
    shop.noted("receipt 4")
    shop.empties()
    assert sorted(shop.notes()) == ["letter 3", "receipt 0", "receipt 1", "receipt 2", "receipt 4"]
    worker.kill()
    shop.checked()


def test_each_schedule_of_a_restored_file_runs_once_after_the_release(place):
    """F103: a file of three days ago: no occurrence before the release; then one for each schedule, the latest one."""
    place.script("""
@nd.cron("0 0 * * *", key="a", args=("a",))
@nd.cron("0 0 * * *", key="b", args=("b",))
def nightly(ctx, word: str) -> None:
    note(word, int(ctx.scheduled_for.timestamp()), ctx.missed)
""")
    service = place.worker()
    until(lambda: place.left() == 2)
    assert service.terminate() == 0
    three_days = 3 * 86_400_000
    place.rows(f"UPDATE nextdue_task SET due = due - {three_days}, scheduled_for = scheduled_for - {three_days}")
    slot = place.one("SELECT min(scheduled_for) FROM nextdue_task")
    run(place, "backup", "shop.db", "b.db")
    run(place, "restore", "b.db", "shop.db")
    worker = place.worker()
    time.sleep(0.3)
    assert place.notes() == []
    run(place, "release", "shop.db")
    place.noted("", 2)
    until(lambda: place.one("SELECT sum(fired) FROM nextdue_schedule") == 2)
    last = slot // 1000 + 2 * 86_400
    assert sorted(place.notes()) == [f"{word} {last} 2" for word in "ab"]
    assert place.rows("SELECT fired, missed_ever FROM nextdue_schedule") == [(1, 2)] * 2
    assert worker.terminate() == 0
    place.checked()


def test_a_queue_that_is_not_in_the_backup_is_held_too(shop):
    """F103: the file is held, not the queues that it knew."""
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    run(shop, "restore", "b.db", "shop.db")
    shop.does("import shop; shop.letter.enqueue(2)")
    assert "0 done" in run(shop, "worker", "shop:nd", "--once")
    run(shop, "release", "shop.db")
    run(shop, "worker", "shop:nd", "--once")
    assert sorted(shop.notes()) == ["letter 2", "receipt 1"]


def test_only_the_release_ends_the_hold(shop):
    """F103: ending pauses starts nothing of a restored file, and every command names the release."""
    shop.does("import shop; shop.receipt.enqueue(1); shop.letter.enqueue(2); shop.nd.pause(queue='mail')")
    run(shop, "backup", "shop.db", "b.db")
    run(shop, "restore", "b.db", "shop.db")
    named = "`nextdue release shop.db` ends that"
    text = run(shop, "resume", "shop.db", "--queue", "default", code=1)
    assert f"queue default is held by a restore; {named}" in text
    text = run(shop, "resume", "shop.db", "--all")
    assert "queue mail is resumed" in text
    assert named in text
    assert "`nextdue release shop.db` shows" in run(shop, "why", "shop.db", "1")
    assert "nextdue resume" not in run(shop, "why", "shop.db", "1")
    assert "a restored backup, held since" in run(shop, "health", "shop.db", code=1)
    assert "0 done" in run(shop, "worker", "shop:nd", "--once")
    shop.does("import shop; assert not shop.nd.resume(queue='default')")
    assert "2 overdue tasks start now, spread over 1s" in run(shop, "release", "shop.db", "--over", "1s")
    shop.worker()
    shop.empties()
    shop.checked()


def test_what_ran_when_the_backup_was_made_waits_again(shop):
    shop.does("import shop; shop.letter.enqueue(13)")
    worker = shop.worker()
    shop.noted("letter 13")
    run(shop, "backup", "shop.db", "b.db")
    worker.kill()
    text = run(shop, "restore", "b.db", "shop.db")
    assert "run again: letter #1." in text
    assert shop.rows("SELECT state, claims, crashes FROM nextdue_tasks") == [("waiting", 1, 0)]
    assert shop.rows("SELECT outcome, reason FROM nextdue_runs") == [("released", "restored")]
    assert shop.rows("SELECT * FROM nextdue_worker") == []
    shop.checked()


def test_what_was_being_cancelled_is_cancelled(shop):
    shop.does("import shop; shop.letter.enqueue(1); shop.letter.using(key='k').enqueue(2)")
    shop.rows("UPDATE nextdue_task SET token = (1 << 32) + 1, stop = 5, claims = 1, scheduled_for = due")
    shop.rows("INSERT INTO nextdue_worker(id, started, host, pid) VALUES (1, 1, 'here', 1)")
    with (
        contextlib.closing(sqlite3.connect(shop.db)) as db,
        db,
        contextlib.closing(sqlite3.connect(shop.folder / "b.db")) as b,
    ):
        db.backup(b)
    run(shop, "restore", "b.db", "shop.db")
    assert shop.rows("SELECT id, state FROM nextdue_tasks") == [(2, "cancelled")]
    assert shop.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'cancelled'") == 2
    shop.checked()


def test_what_a_limit_set_aside_is_looked_at_again(shop):
    shop.does("import shop; shop.letter.enqueue(1)")
    due = shop.one("SELECT due FROM nextdue_task")
    run(shop, "backup", "shop.db", "b.db")
    with contextlib.closing(sqlite3.connect(shop.folder / "b.db")) as db, db:
        db.execute("UPDATE nextdue_task SET due = NULL, rest = 'blocked', wished = ?", (due,))
    run(shop, "restore", "b.db", "shop.db")
    assert shop.rows("SELECT due, rest, wished FROM nextdue_task") == [(due, None, None)]


def test_the_store_is_another_one_and_remembers_which_it_was(shop):
    shop.does("import shop; [shop.receipt.enqueue(n) for n in range(3)]")
    first = meta(shop, "store")
    for _ in range(2):
        run(shop, "backup", "shop.db", "b.db", "--force")
        run(shop, "restore", "b.db", "shop.db")
    assert meta(shop, "store") != first
    stores = eval(meta(shop, "stores"))
    assert [last for _, last in stores] == [3, 3]
    assert stores[0][0] == first


def test_pauses_of_a_person_outlive_restore_and_release(shop):
    shop.does("import shop; shop.receipt.enqueue(1); shop.letter.enqueue(2); shop.nd.pause(queue='mail')")
    run(shop, "backup", "shop.db", "b.db")
    for _ in range(2):  # a held file can be backed up and restored too
        run(shop, "restore", "b.db", "shop.db")
        run(shop, "backup", "shop.db", "b.db", "--force")
    database = Database(shop.db, create=False)
    assert {pause.word for pause in pauses.paused(database)} == {"mail"}
    found = held(database)
    database.close()
    assert found is not None
    assert [overdue.name for overdue in found.overdue] == ["receipt"]
    run(shop, "release", "shop.db")
    assert shop.rows("SELECT kind, word FROM nextdue_pause") == [("queue", "mail")]
    assert "isn't held" in run(shop, "release", "shop.db")


def test_each_change_is_counted(shop):
    """A worker that opened its lanes before the release must open them anew."""
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    run(shop, "restore", "b.db", "shop.db")
    assert meta(shop, "pauses") == 1
    run(shop, "release", "shop.db", "--dry-run")
    assert meta(shop, "pauses") == 1
    assert held_now(shop)
    run(shop, "release", "shop.db")
    assert meta(shop, "pauses") == 2
    assert not held_now(shop)


def held_now(place):
    database = Database(place.db, create=False)
    try:
        return held(database)
    finally:
        database.close()


def test_a_herd_is_spread_stably(shop):
    """What is overdue is spread in the order of its dues; what is due later keeps its due."""
    shop.does(
        "import shop; shop.letter.enqueue_many([(n,) for n in range(12_000)]); "
        "shop.receipt.using(delay='5h').enqueue(1)"
    )
    later = shop.one("SELECT due FROM nextdue_task WHERE name = 'receipt'")
    first = shop.one("SELECT min(due) FROM nextdue_task")
    run(shop, "backup", "shop.db", "b.db")
    offsets = []
    for _ in range(2):
        run(shop, "restore", "b.db", "shop.db")
        assert "spread over 10m" in run(shop, "release", "shop.db", "--over", "10m")
        rows = shop.rows("SELECT due, scheduled_for FROM nextdue_task WHERE name = 'letter' ORDER BY id")
        dues = [due for due, _ in rows]
        assert max(dues) - min(dues) <= 600_000
        tenths = [0] * 10
        for due in dues:
            tenths[min(9, (due - min(dues)) // 60_000)] += 1
        assert min(tenths) > 1_000
        assert {scheduled for _, scheduled in rows} == {first}
        offsets.append([due - dues[0] for due in dues])
        assert shop.one("SELECT due FROM nextdue_task WHERE name = 'receipt'") == later
    assert offsets[0] == offsets[1]
    shop.checked()


@pytest.mark.parametrize("who", ["a worker", "an application", "sqlite3"])
def test_it_is_refused_while_anybody_has_the_file_open(shop, who):
    shop.does("import shop; shop.receipt.using(delay='1h').enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    before = shop.one("SELECT value FROM nextdue_meta WHERE name = 'store'")
    code = {
        "an application": "import shop; shop.nd.find(); print('ready', flush=True); time.sleep(60)",
        "sqlite3": "import sqlite3; c = sqlite3.connect('shop.db'); c.execute('SELECT * FROM nextdue_task'); "
        "print('ready', flush=True); time.sleep(60)",
    }
    other = shop.worker() if who == "a worker" else shop.python("import time\n" + code[who])
    other.says("ready")
    text = run(shop, "restore", "b.db", "shop.db", code=1)
    assert f"pid {other.pid} (" in text
    assert ("worker 1 works on" if who == "a worker" else "another program has") in text
    assert shop.one("SELECT value FROM nextdue_meta WHERE name = 'store'") == before
    assert {path.name for path in shop.folder.glob("*shop.db*before*")} == set()
    other.send(signal.SIGKILL)
    other.ends()
    run(shop, "restore", "b.db", "shop.db")
    shop.checked()


def test_a_lost_file_is_restored(shop):
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    for path in shop.folder.glob("shop.db*"):
        path.unlink()
    text = run(shop, "restore", "b.db", "shop:nd")
    assert "is kept" not in text
    assert shop.one("SELECT count(*) FROM nextdue_task") == 1
    assert shop.db.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(shop):
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    (shop.folder / "current.db").symlink_to("shop.db")
    run(shop, "restore", "b.db", "current.db")
    assert (shop.folder / "current.db").is_symlink()
    assert held_now(shop)


@pytest.mark.parametrize("harm", [b"no database at all, but long enough to be looked at " * 4, b""])
def test_a_damaged_file_is_kept_and_replaced(shop, harm):
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    shop.db.write_bytes(harm)
    shop.db.with_name("shop.db-wal").write_bytes(b"stale")
    run(shop, "restore", "b.db", "shop.db")
    (kept,) = shop.folder.glob("shop.db.before-*Z")
    assert kept.read_bytes() == harm
    assert shop.one("SELECT count(*) FROM nextdue_task") == 1
    shop.checked()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("restore", "nosuch.db", "shop.db"), 2, "there is no backup"),
        (("restore", "shop.db", "shop.db"), 2, "the same file"),
        (("restore", "shop.db", "mine.db"), 2, "without tables of nextdue"),
        (("restore", "mine.db", "shop.db"), 2, "holds no tables of nextdue"),
        (("restore", "notes", "shop.db"), 2, "damaged"),
        (("restore", "torn.db", "shop.db"), 2, "isn't sound"),
        (("restore", "newer.db", "shop.db"), 1, "newer nextdue"),
        (("restore", "a", "b", "c"), 2, "give BACKUP"),
        (("backup", "shop.db", "a", "b"), 2, "give [TARGET] PATH"),
        (("release", "shop.db", "--over", "40d"), 2, "at most 30 days"),
        (("release", "shop.db", "--over", "soon"), 2, "--over"),
    ],
)
def test_wrong_usage_changes_nothing(shop, words, code, says):
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "worker", "shop:nd", "--once")
    with contextlib.closing(sqlite3.connect(shop.folder / "mine.db")) as db:
        db.execute("CREATE TABLE mine(a)")
    for name in ("torn.db", "newer.db"):
        run(shop, "backup", "shop.db", name)
    with contextlib.closing(sqlite3.connect(shop.folder / "torn.db")) as db:
        db.execute("DROP TABLE nextdue_rate")
    with contextlib.closing(sqlite3.connect(shop.folder / "newer.db")) as db, db:
        db.execute("UPDATE nextdue_meta SET value = 99 WHERE name = 'schema'")
    before = {path.name: path.stat().st_ino for path in shop.folder.iterdir()}
    store = meta(shop, "store")
    assert says in run(shop, *words, code=code)
    assert {path.name: path.stat().st_ino for path in shop.folder.iterdir() if "-shm" not in path.name} == {
        name: inode for name, inode in before.items() if "-shm" not in name
    }
    assert meta(shop, "store") == store


def test_a_program_that_had_it_open_for_a_moment_learns_that_it_is_another(shop):
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    code = (
        "import shop, time\n"
        "while True:\n"
        "    nd = shop.Nextdue('shop.db')\n"
        "    try: nd.task(name='late')(lambda: None).enqueue(); nd.close(); shop.note('put')\n"
        "    except shop.NextdueError as exc: shop.note(type(exc).__name__)\n"
    )
    other = shop.python(code)
    shop.noted("put", 3)
    for _ in range(20):
        program = shop.cli("restore", "b.db", "shop.db")
        if program.ends(30) == 0:
            break
    put = sum(note == "put" for note in shop.notes())
    shop.noted("put", put + 3)
    other.kill()
    shop.checked()


def test_one_that_is_killed_leaves_a_whole_file(shop):
    """Whatever the moment: the path leads to the old file or to the restored one."""
    shop.does("import shop; shop.letter.enqueue_many([(n,) for n in range(30_000)])")
    run(shop, "backup", "shop.db", "b.db")
    shop.does("import shop; shop.receipt.enqueue(99)")
    for after in (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
        program = subprocess.Popen(
            [sys.executable, "-m", "nextdue", "restore", "b.db", "shop.db"], cwd=shop.folder, stdout=subprocess.DEVNULL
        )
        until(lambda: program.poll() is not None or list(shop.folder.glob(".shop.db.*.tmp")))  # noqa: B023
        time.sleep(after)
        program.kill()
        program.wait()
        there = shop.one("SELECT count(*) FROM nextdue_task")
        assert there == (30_000 if held_now(shop) else 30_001)
        shop.checked()
        for path in shop.folder.glob(".shop.db.*.tmp*"):
            path.unlink()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_looking_at_a_backup_and_restoring_it_leave_it_as_it_is(shop, mode):
    shop.does("import shop; shop.receipt.enqueue(1)")
    run(shop, "backup", "shop.db", "b.db")
    with contextlib.closing(sqlite3.connect(shop.folder / "b.db")) as db:
        db.execute(f"PRAGMA journal_mode={mode}")
    before = (shop.folder / "b.db").read_bytes()
    looks = [("ls", "b.db"), ("show", "b.db", "1"), ("why", "b.db", "1"), ("doctor", "b.db"), ("check", "b.db")]
    for words in looks if mode == "delete" else ():
        run(shop, *words)
        assert (shop.folder / "b.db").read_bytes() == before, words
        assert {path.name for path in shop.folder.glob("b.db*")} == {"b.db"}, words
    run(shop, "health", "b.db", code=1)
    run(shop, "restore", "b.db", "a.db")
    assert (shop.folder / "b.db").read_bytes() == before
    assert {path.name for path in shop.folder.glob("b.db*")} == {"b.db"}
    assert held_now(shop) is None
