"""Other programs in the same file: the sqlite3 shell, and an application whose tables it was first."""

import contextlib
import shutil
import sqlite3
import subprocess
import time

import pytest

from tests.process.harness import Place, until

SHOP = """
@nd.task
def work(n: int) -> None:
    note("work", n, time.time())
"""


def test_the_sqlite3_shell_puts_a_task_while_a_worker_sleeps(place: Place) -> None:
    """Law 12: raw SQL wakes a sleeping worker: within a few ms of the shell's commit, never by a poll."""
    shell = shutil.which("sqlite3")
    if shell is None:
        pytest.skip("there is no sqlite3 shell here")
    place.script(SHOP)
    place.does("import shop; shop.work.using(delay=3600).enqueue(0)")
    worker = place.worker()
    late = []
    for n in range(1, 8):
        time.sleep(0.1)  # it must be asleep again
        # The shell's own last word is the time just before its commit.
        put = subprocess.run(
            [shell, str(place.db)],
            input=f"BEGIN IMMEDIATE; INSERT INTO nextdue_tasks(name, args) VALUES ('work', '[{n}]');"
            "SELECT (julianday('now') - 2440587.5) * 86400.0; COMMIT;",
            text=True,
            capture_output=True,
            check=True,
        )
        place.noted(f"work {n}")
        ran = next(float(line.split()[2]) for line in place.notes() if line.startswith(f"work {n} "))
        late.append(ran - float(put.stdout))
    assert sorted(late)[3] < 0.025, late
    assert max(late) < 0.5, late
    assert worker.terminate() == 0
    place.checked()


def test_a_task_put_by_a_long_foreign_transaction(place: Place) -> None:
    """Laws 2 and 12: nobody is woken before the commit, everybody after it, however long it took."""
    place.script(SHOP)
    place.does("import shop; shop.work.using(delay=3600).enqueue(0)")
    worker = place.worker()
    with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE big(x)")
        # Enough pages that they are spilled to the WAL before the commit: the file changes, the data doesn't yet.
        db.execute("PRAGMA cache_size=10")
        db.execute("PRAGMA cache_spill=5")
        db.execute("INSERT INTO nextdue_tasks(name, args) VALUES ('work', '[1]')")
        for _ in range(50):
            db.execute("INSERT INTO big VALUES (randomblob(20000))")
        time.sleep(0.3)
        assert place.notes() == []
        committed = time.time()
        db.execute("COMMIT")
    place.noted("work 1")
    (line,) = place.notes()
    assert -0.001 < float(line.split()[2]) - committed < 0.25
    assert worker.terminate() == 0
    place.checked()


@pytest.mark.beside
def test_bad_inserts_are_refused_by_the_view(place: Place) -> None:
    """Law 1: what a foreign program may put is checked by the file itself."""
    place.script(SHOP)
    place.does("import shop; shop.nd.find()")
    with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
        for values in ("('work', '{')", "('work', '3')", "('', '[]')", "(NULL, '[]')", "(x'00', '[]')"):
            with pytest.raises(sqlite3.Error, match="nextdue_tasks"):
                db.execute(f"INSERT INTO nextdue_tasks(name, args) VALUES {values}")
        with pytest.raises(sqlite3.Error, match="due_utc"):
            db.execute("INSERT INTO nextdue_tasks(name, args, due_utc) VALUES ('work', '[1]', 'tomorrow')")
        assert db.execute("SELECT count(*) FROM nextdue_tasks").fetchone() == (0,)


@pytest.mark.beside
def test_tasks_of_any_program_that_do_not_fit_are_held(place: Place) -> None:
    """F086, F088, law 1: right JSON, wrong arguments: held with its reason, kept, and the worker goes on."""
    place.script(SHOP)
    worker = place.worker()
    with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
        for args in ('["three"]', "[1, 2]", "[]", '{"m": 1}', '{"n": 5}'):
            db.execute("INSERT INTO nextdue_tasks(name, args) VALUES ('work', ?)", (args,))
    place.noted("work 5")
    until(lambda: place.rows("SELECT state, reason FROM nextdue_tasks") == [("held", "arguments")] * 4, what=place.said)
    assert worker.terminate() == 0
    place.checked()


USERS = """
PRAGMA user_version = 77;
PRAGMA application_id = 4242;
CREATE TABLE task(id INTEGER PRIMARY KEY, title TEXT);
CREATE TABLE run(id INTEGER PRIMARY KEY, task INTEGER);
CREATE TABLE mark(task INTEGER, label TEXT);
CREATE VIEW tasks AS SELECT * FROM task;
CREATE TRIGGER task_run AFTER INSERT ON task BEGIN INSERT INTO run(task) VALUES (NEW.id); END;
INSERT INTO task(title) VALUES ('the user''s own');
"""


@pytest.mark.beside
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_the_file_may_be_the_user_s_own(place: Place, journal: str) -> None:
    """Tables task, run and mark, user_version, application_id and the file's mode stay as they were."""
    with contextlib.closing(sqlite3.connect(place.db, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode={journal}")
        db.executescript(USERS)
    place.db.chmod(0o640)
    schema = "SELECT name, sql FROM sqlite_master WHERE tbl_name NOT LIKE 'nextdue%' AND name <> 'sqlite_sequence'"
    before = place.rows(schema)
    place.script(SHOP)
    place.does("import shop; shop.work.enqueue(1)")
    worker = place.worker()
    place.noted("work 1")
    place.empties()
    assert worker.terminate() == 0
    assert place.rows(schema) == before
    assert (place.one("PRAGMA user_version"), place.one("PRAGMA application_id")) == (77, 4242)
    assert place.rows("SELECT * FROM task") == [(1, "the user's own")]
    assert place.rows("SELECT * FROM run") == [(1, 1)]
    assert place.db.stat().st_mode & 0o777 == 0o640
    names = {name for (name,) in place.rows("SELECT name FROM sqlite_master")} - {name for name, _ in before}
    assert all(name.startswith(("nextdue_", "sqlite_")) for name in names), names
    place.checked()


@pytest.mark.beside
def test_files_beside_the_database_are_as_private_as_it(place: Place) -> None:
    """F127: a new database is 0600, and what lies beside it isn't readable by others either."""
    place.script(SHOP)
    place.does("import os; os.umask(0); import shop; shop.work.enqueue(1)")
    worker = place.worker()
    place.empties()
    for path in place.folder.rglob("shop.db*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert worker.terminate() == 0


@pytest.mark.beside
def test_vacuum_by_another_program_while_a_worker_works(place: Place) -> None:
    """F065: VACUUM beside a worker: it waits or succeeds, and no task is run twice."""
    place.script(
        SHOP
        + """
@nd.task
def short(n: int) -> None:
    note("short", n)
    time.sleep(0.002)
"""
    )
    place.does("import shop; shop.short.enqueue_many([(n,) for n in range(1000)])")
    worker = place.worker("4")
    vacuums = 0
    with contextlib.closing(sqlite3.connect(place.db, timeout=10, isolation_level=None)) as db:
        while place.left():
            with contextlib.suppress(sqlite3.OperationalError):
                db.execute("VACUUM")
                vacuums += 1
            time.sleep(0.02)
    assert vacuums > 0
    assert worker.terminate() == 0
    assert sorted(place.notes()) == sorted(f"short {n}" for n in range(1000))
    place.checked()
