"""The file's tables: made once, by whoever is first, whole or not at all, beside whatever else is in the file."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nextdue.errors import NotAStore, SchemaTooNew, StoreError, StoreMissing, StoreReadOnly
from nextdue.records import Put
from nextdue.sqlite import migrate
from nextdue.sqlite.inspect import check
from nextdue.sqlite.store import SqliteStore
from tests.contract.places import listed

MAIL = Put("mail", "default", 0, "[1]")


def sql(path, statement, *params):
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(statement, params).fetchall()
    finally:
        connection.close()


def content(path):
    """Everything that is said in a file, schema and rows, whoever put it there."""
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def opened(path, **options):
    """The store is opened, used and closed."""
    store = SqliteStore(path, **options)
    stored, _ = store.put([MAIL])
    assert check(store.database) == []
    store.close()
    return stored[0].id


OPEN = """
import sys
from pathlib import Path
from nextdue.sqlite import migrate
from nextdue.sqlite.store import SqliteStore
made = []
statements = migrate.statements
migrate.statements = lambda number: made.append(number) or statements(number)
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
SqliteStore(Path(sys.argv[1]))
print(len(made))
"""


def test_four_processes_at_once_make_one_migration(tmp_path):
    """F094."""
    path = tmp_path / "shop.db"
    children = [
        subprocess.Popen([sys.executable, "-c", OPEN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in children:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in children:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=30)[0] for process in children]
    assert [process.returncode for process in children] == [0] * 4
    assert sum(int(made) for made in said) == migrate.VERSION
    assert sql(path, "SELECT count(*) FROM nextdue_meta WHERE name = 'store'") == [(1,)]
    opened(path)


DIE = """
import os, signal, sqlite3, sys
from pathlib import Path
from nextdue.sqlite import migrate
from nextdue.sqlite.store import SqliteStore
at = int(sys.argv[2])
statements = migrate.statements
def dying(number):
    for n, statement in enumerate(statements(number)):
        if n == at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield statement
    if n + 1 == at:
        os.kill(os.getpid(), signal.SIGKILL)
migrate.statements = dying
SqliteStore(Path(sys.argv[1]))
"""


def test_a_kill_in_mid_migration_leaves_the_old_file(tmp_path):
    """F094: before the first, between any two and after the last statement; the next one who comes makes it whole."""
    count = len(migrate.statements(1))
    for at in (0, 1, count // 2, count - 1, count):
        path = tmp_path / f"{at}.db"
        sql(path, "CREATE TABLE orders(id)")
        before = content(path)
        died = subprocess.run([sys.executable, "-c", DIE, path, str(at)], timeout=30, check=False)
        assert died.returncode == -signal.SIGKILL
        assert content(path) == before
        opened(path)


NEXT = """
from nextdue.sqlite import migrate
of = migrate.statements
NEW = ["ALTER TABLE nextdue_task ADD COLUMN colour TEXT", "CREATE TABLE nextdue_colour(name)",
       "INSERT INTO nextdue_colour SELECT name FROM nextdue_task",
       "CREATE INDEX nextdue_colours ON nextdue_task(colour)"]
last = migrate.VERSION
migrate.VERSION = last + 1
migrate.statements = lambda number: of(number) if number <= last else NEW
"""
"""The next release, with one migration more."""


def test_four_processes_at_once_bring_an_old_file_along_once(tmp_path):
    """F094: the next release on a file of this one; its tasks and schedules stay, and this release refuses it then."""
    path = tmp_path / "shop.db"
    id = opened(path)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", NEXT + OPEN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in children:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    said = [process.communicate("go\n", timeout=30)[0] for process in children]
    assert [process.returncode for process in children] == [0] * 4
    assert sum(int(made) for made in said) == 1
    assert sql(path, "SELECT name FROM nextdue_colour") == [("mail",)]
    assert sql(path, "SELECT id, colour FROM nextdue_task") == [(id, None)]
    with pytest.raises(SchemaTooNew):
        SqliteStore(path)


def test_a_kill_between_two_releases_leaves_the_old_file(tmp_path):
    """F094: torn at each statement of a later migration, the file is the old one, whole, and the old code's."""
    for at in range(5):
        path = tmp_path / f"{at}.db"
        opened(path)
        before = content(path)
        died = subprocess.run([sys.executable, "-c", NEXT + DIE, path, str(at)], timeout=30, check=False)
        assert died.returncode == -signal.SIGKILL
        assert content(path) == before
        opened(path)


def test_a_newer_schema_is_refused_and_nothing_written(tmp_path):
    path = tmp_path / "shop.db"
    opened(path)
    sql(path, "UPDATE nextdue_meta SET value = ? WHERE name = 'schema'", migrate.VERSION + 1)
    before = content(path)
    for create in (True, False):
        with pytest.raises(SchemaTooNew, match=r"newer nextdue.*upgrade"):
            SqliteStore(path, create=create)
    assert content(path) == before


def test_a_failing_migration_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "shop.db"
    sql(path, "CREATE TABLE orders(id)")
    before = content(path)
    whole = migrate.statements(1)
    monkeypatch.setattr(migrate, "statements", lambda number: [*whole, "INSERT INTO nextdue_nothing VALUES (1)"])
    with pytest.raises(StoreError):
        SqliteStore(path)
    assert content(path) == before


def test_the_users_own_file_stays_the_users(tmp_path):
    """Tables called like our words, a version and an application id of the user's own: none of them is touched."""
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE task(id INTEGER PRIMARY KEY, due TEXT); CREATE TABLE run(task); CREATE TABLE mark(x); "
        "CREATE TABLE lane(x); CREATE TABLE meta(x); CREATE INDEX task_due ON task(due); "
        "CREATE VIEW tasks AS SELECT * FROM task; "
        "INSERT INTO task VALUES (7, 'tomorrow'); INSERT INTO run VALUES (7); "
        "PRAGMA user_version = 42; PRAGMA application_id = 1234567;"
    )
    before = list(connection.iterdump())
    connection.close()
    opened(path)
    assert sql(path, "PRAGMA user_version") == [(42,)]
    assert sql(path, "PRAGMA application_id") == [(1234567,)]
    ours = sql(path, "SELECT name FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'nextdue!_%' ESCAPE '!'")
    assert {name for (name,) in ours} == {"task", "run", "mark", "lane", "meta", "task_due", "tasks", "sqlite_sequence"}
    after = content(path)
    assert all(line in after for line in before)
    assert sql(path, "SELECT * FROM task") == [(7, "tomorrow")]


def test_a_new_files_pragmas_are_not_ours_to_set(tmp_path):
    path = tmp_path / "new.db"
    opened(path)
    assert sql(path, "PRAGMA user_version") == [(0,)]
    assert sql(path, "PRAGMA application_id") == [(0,)]


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_new_file_is_its_owners_alone(tmp_path, umask):
    """F127."""
    path = tmp_path / "shop.db"
    old = os.umask(umask)
    try:
        store = SqliteStore(path)
        worker = store.enlist()
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (path, *tmp_path.glob("shop.db-*"))}
        folder = modes.pop("shop.db-workers")
        store.resign(worker)
        store.close()
    finally:
        os.umask(old)
    assert set(modes.values()) == {0o600}, modes
    assert folder & 0o077 == 0


@pytest.mark.parametrize("mode", [0o640, 0o666])
def test_an_existing_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "shop.db"
    sql(path, "CREATE TABLE orders(id)")
    path.chmod(mode)
    opened(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_the_oldest_schema_opens(tmp_path):
    """Schema 1 with its rows, as the first release wrote it; each later migration has to bring it along."""
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in migrate.statements(1):
        connection.execute(statement)
    connection.execute("INSERT INTO nextdue_meta VALUES ('store', 'abc'), ('schema', 1)")
    connection.execute("INSERT INTO nextdue_tasks(name, args) VALUES ('mail', '[1]')")
    connection.close()
    store = SqliteStore(path, create=False)
    assert [task.name for task in listed(store)] == ["mail"]
    assert check(store.database) == []
    store.close()
    assert sql(path, "SELECT value FROM nextdue_meta WHERE name = 'schema'") == [(migrate.VERSION,)]
    assert sql(path, "SELECT value FROM nextdue_meta WHERE name = 'store'") == [("abc",)]


def test_every_version_has_its_page():
    folder = Path(migrate.__file__).parent / "schema"
    assert sorted(p.name for p in folder.glob("*.sql")) == [f"{n:04}.sql" for n in range(1, migrate.VERSION + 1)]


def test_no_table_is_unreadable_for_an_older_sqlite():
    text = "".join(statement for n in range(1, migrate.VERSION + 1) for statement in migrate.statements(n))
    assert "STRICT" not in text.replace("No STRICT tables", "")


def test_what_is_no_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 200)
    for create in (True, False):
        with pytest.raises(NotAStore, match=r"notes\.txt is not an SQLite database"):
            SqliteStore(path, create=create)
    assert path.read_text() == "buy milk\n" * 200
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory(tmp_path):
    with pytest.raises(StoreError, match=str(tmp_path)):
        SqliteStore(tmp_path)


def test_a_missing_directory(tmp_path):
    with pytest.raises(StoreError, match="make the directory first"):
        SqliteStore(tmp_path / "nowhere" / "shop.db")
    assert not (tmp_path / "nowhere").exists()


def test_only_the_application_makes_a_file(tmp_path):
    path = tmp_path / "shop.db"
    with pytest.raises(StoreMissing, match="there is no file"):
        SqliteStore(path, create=False)
    assert list(tmp_path.iterdir()) == []
    sql(path, "CREATE TABLE orders(id)")
    before = content(path)
    with pytest.raises(NotAStore, match="no tables of nextdue"):
        SqliteStore(path, create=False)
    assert content(path) == before


def test_an_empty_file_is_a_new_one(tmp_path):
    path = tmp_path / "shop.db"
    path.touch()
    with pytest.raises(NotAStore):
        SqliteStore(path, create=False)
    opened(path)


def test_a_directory_that_is_read_only():
    """Root may write everywhere, so it becomes nobody for this; the folders of pytest are closed to nobody."""
    me = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        if me == 0:
            os.seteuid(65534)
        try:
            assert os.access(folder, os.R_OK | os.X_OK, effective_ids=True)
            with pytest.raises(StoreReadOnly, match="can't be created"):
                SqliteStore(Path(folder) / "shop.db")
        finally:
            os.seteuid(me)
            os.chmod(folder, 0o755)


def test_dropped_tables_are_missed_not_made_anew(tmp_path):
    store = SqliteStore(tmp_path / "shop.db")
    names = sql(tmp_path / "shop.db", "SELECT name FROM sqlite_master WHERE name GLOB 'nextdue_*' AND type = 'table'")
    for (name,) in names:
        sql(tmp_path / "shop.db", f"DROP TABLE {name}")
    with pytest.raises(NotAStore, match="no tables of nextdue"):
        store.put([MAIL])
    store.close()
