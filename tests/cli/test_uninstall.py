"""`nextdue uninstall`: it shows what is lost, asks, and leaves what isn't ours."""

import sqlite3

import pytest

from nextdue.errors import StoreError
from nextdue.sqlite import inspect, uninstall


@pytest.fixture
def used(shop):
    """The user's own file, with tables of his own, and tasks in it."""
    with sqlite3.connect(shop.path) as user:
        user.execute("CREATE TABLE task(id INTEGER PRIMARY KEY, what TEXT)")
        user.execute("INSERT INTO task(what) VALUES ('mine')")
        user.execute("PRAGMA user_version = 7")
    user.close()
    shop.nd.tasks["receipt"].using(delay="1h").enqueue(1)
    shop.nd.tasks["letter"].using(key="k").enqueue("Ada")
    shop.sql("UPDATE nextdue_task SET due = NULL, rest = 'dead' WHERE name = 'letter'")
    return shop


def objects(shop):
    connection = sqlite3.connect(shop.path)
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return found


def test_without_yes_nothing_changes(used, cli):
    before = objects(used)
    code, out, _ = cli("uninstall", "shop.db")
    assert code == 2
    assert [line.split() for line in out.splitlines()[1:4]] == [
        ["NAME", "STATE", "COUNT"],
        ["receipt", "waiting", "1"],
        ["letter", "dead", "1"],
    ]
    assert "Nothing is changed." in out
    assert objects(used) == before


def test_with_yes_only_ours_goes(used, cli):
    used.nd.close()
    code, out, err = cli("uninstall", "shop:nd", "--yes")
    assert (code, err) == (0, "")
    assert "Your own tables are as they were." in out
    assert objects(used) - {"sqlite_sequence"} == {"task"}
    assert sorted(p.name for p in used.folder.iterdir() if p.name.startswith("shop.db")) == ["shop.db"]
    connection = sqlite3.connect(used.path)
    assert connection.execute("SELECT what FROM task").fetchall() == [("mine",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (7,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert cli("ls", "shop.db")[0] == 2


def test_an_empty_file_is_left_with_a_word(shop, cli):
    shop.nd.tasks["receipt"].enqueue(1)
    code, out, _ = cli("uninstall", "shop.db", "--yes")
    assert code == 0
    assert "The file holds nothing else; it can be deleted." in out
    assert shop.path.exists()
    assert objects(shop) <= {"sqlite_sequence"}


def test_a_living_worker_refuses_it(used, cli):
    before = objects(used)
    with used.nd.working(1):
        code, _, err = cli("uninstall", "shop.db", "--yes")
    assert code == 1
    assert "worker 1 (pid " in err
    assert "stop it first" in err
    assert objects(used) == before


def test_a_worker_that_begins_meanwhile_refuses_it_too(used):
    before = objects(used)
    with used.nd.working(1), used.nd.caller.use() as store, pytest.raises(StoreError, match="stop it first"):
        uninstall.uninstall(store.database)
    assert objects(used) == before


def test_a_far_worker_refuses_it_as_long_as_it_holds_something(used, cli):
    used.sql("INSERT INTO nextdue_worker(started, host, pid) VALUES (1, 'far', 4)")
    used.sql("UPDATE nextdue_task SET token = (1 << 32) + 1, claims = 1, scheduled_for = 1 WHERE name = 'receipt'")
    assert cli("uninstall", "shop.db", "--yes")[0] == 1
    used.sql("UPDATE nextdue_task SET token = NULL")
    assert cli("uninstall", "shop.db", "--yes")[0] == 0


@pytest.mark.parametrize(
    "mine",
    [
        "CREATE TRIGGER mine AFTER INSERT ON task BEGIN INSERT INTO nextdue_tasks(name) VALUES ('receipt'); END",
        "CREATE VIEW mine AS SELECT * FROM nextdue_tasks",
        "CREATE TRIGGER mine AFTER INSERT ON nextdue_task BEGIN SELECT 1; END",
        "CREATE INDEX mine ON nextdue_task(created)",
    ],
)
def test_what_leans_on_our_tables_refuses_it(used, cli, mine):
    used.sql(mine)
    code, _, err = cli("uninstall", "shop.db", "--yes")
    assert code == 1
    assert "mine of yours" in err
    assert set(inspect.objects()) <= objects(used)


def test_it_is_one_transaction(used, monkeypatch):
    before = objects(used)
    with used.nd.caller.use() as store:
        store.database.bring(uninstall.PAGE)
        store.database.sql = {**store.database.sql, "uninstall_meta": "DROP TABLE nosuch"}
        with pytest.raises(Exception, match="nosuch"):
            uninstall.uninstall(store.database)
    assert objects(used) == before
