"""`nextdue doctor`: each trouble has its line, and a file without any has none that is bad."""

import json
import subprocess
import sys
import time

import pytest

from nextdue import Cron, Every
from nextdue.cli import doctor, readers


def examined(cli, *words):
    code, out, err = cli("doctor", *words, "--json")
    assert err == ""
    return code, [(f["level"], f["about"], f["text"]) for f in json.loads(out)["findings"]]


def lines(found, about):
    return [(level, text) for level, word, text in found if word == about]


def test_a_healthy_file(shop, cli):
    shop.nd.tasks["receipt"].using(delay="1h").enqueue(1)
    code, found = examined(cli, "shop:nd")
    assert code == 0
    abouts = [
        "sqlite",
        "disk",
        "permissions",
        "space",
        "schema",
        "journal",
        "wal",
        "readers",
        "clock",
        "worker",
        "tasks",
    ]
    assert [about for _, about, _ in found] == [*abouts, "names", "schedules"]
    for about in (
        "permissions",
        "schema",
        "journal",
        "wal",
        "readers",
        "clock",
        "worker",
        "tasks",
        "names",
        "schedules",
    ):
        assert lines(found, about)[0][0] == "ok", found
    assert lines(found, "permissions") == [("ok", "mode 0600")]
    code, out, _ = cli("doctor", "shop.db")
    assert code == 0
    assert out.startswith(f"{shop.path}\n")
    assert all(line.split()[0] in ("ok", "warn", "bad") for line in out.splitlines()[1:])


@pytest.mark.parametrize(
    ("version", "level"), [((3, 40, 1), "warn"), ((3, 44, 6), "ok"), ((3, 51, 3), "ok"), ((3, 51, 2), "warn")]
)
def test_the_wal_reset_bug_is_told_with_what_it_takes(version, level):  # F060
    finding = doctor._sqlite(version)
    assert finding.level == level
    if level == "warn":
        assert (finding.text, finding.todo) == (
            f"{'.'.join(map(str, version))} has the WAL-reset bug",
            "see docs/troubles.md",
        )


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("ext4", "ok"),
        ("", "ok"),
        ("nfs4", "bad"),
        ("virtiofs", "bad"),
        ("9p", "bad"),
        ("cifs", "bad"),
        ("fuse.sshfs", "bad"),
        ("overlay", "warn"),
        ("tmpfs", "warn"),
    ],
)
def test_file_systems(kind, level):  # F061
    assert doctor._file_system(kind).level == level


@pytest.mark.parametrize(("mode", "level", "code"), [(0o644, "warn", 0), (0o666, "bad", 1), (0o660, "ok", 0)])
def test_permission_bits(shop, cli, mode, level, code):
    shop.nd.tasks["receipt"].enqueue(1)
    shop.path.chmod(mode)
    ended, found = examined(cli, "shop.db")
    assert ended == code
    assert lines(found, "permissions")[0][0] == level


def test_a_refused_file_system_is_bad_and_nothing_is_opened(shop, cli, monkeypatch):
    shop.nd.tasks["receipt"].enqueue(1)
    monkeypatch.setattr("nextdue.cli.doctor.filesystem", lambda path: "nfs")
    monkeypatch.setattr("nextdue.sqlite.files.filesystem", lambda path: "nfs")
    code, found = examined(cli, "shop.db")
    assert code == 1
    assert lines(found, "disk")[0][0] == "bad"
    assert lines(found, "open")[0][0] == "bad"


def test_what_waits_and_what_is_stuck(shop, cli):
    add = "INSERT INTO nextdue_tasks(name, due_utc) VALUES (?, ?)"
    for name, due in (
        ("receipt", "2020-01-01"),
        ("stranger", "2020-01-01"),
        ("stranger", "2999-01-01"),
        ("letter", "2020-01-01"),
    ):
        shop.sql(add, (name, due))
    shop.sql("UPDATE nextdue_task SET due = NULL, rest = 'held' WHERE name = 'letter'")
    shop.sql(add, ("letter", "2020-01-01"))
    shop.sql("UPDATE nextdue_task SET due = NULL, rest = 'dead' WHERE name = 'letter' AND due IS NOT NULL")
    code, found = examined(cli, "shop:nd")
    assert code == 0
    (late, *rest) = lines(found, "tasks")
    assert late[0] == "warn"
    assert late[1].startswith("2 overdue, 3 waiting, 0 running; the oldest is due since 2020-01-01 00:00:00 UTC")
    assert rest == [("warn", "dead: letter (1)"), ("warn", "held: letter (1)")]
    assert lines(found, "names") == [("warn", "names that the application doesn't declare: stranger (2)")]
    assert lines(examined(cli, "shop.db")[1], "names") == []


def test_what_is_at_rest_is_not_counted_to_the_end(shop, cli, monkeypatch):
    """Beside millions of rows at rest it answers at once."""
    for place in ("nextdue.sqlite.health.MOST", "nextdue.cli.health.MOST"):
        monkeypatch.setattr(place, 3)
    shop.sql("INSERT INTO nextdue_tasks(name) VALUES ('receipt'), ('receipt'), ('receipt'), ('receipt')")
    shop.sql("UPDATE nextdue_task SET due = NULL, rest = 'dead'")
    assert ("warn", "dead: receipt (over 2)") in lines(examined(cli, "shop.db")[1], "tasks")


def test_workers_alive_dead_unknown_and_strays(shop, cli):
    with shop.nd.working(1):
        found = lines(examined(cli, "shop.db")[1], "worker")
        assert [level for level, _ in found] == ["ok"]
        assert "lives since" in found[0][1]
    with shop.nd.caller.use() as store:
        store.enlist()
        store.lives.let_go()
    shop.sql("INSERT INTO nextdue_worker(started, host, pid) VALUES (1, 'far', 4)")
    (shop.folder / "shop.db-workers" / "99").touch()
    found = lines(examined(cli, "shop.db")[1], "worker")
    assert [level for level, _ in found] == ["warn", "warn", "warn", "ok"]
    assert "worker 2 (pid" in found[0][1]
    assert "is dead and held 0 tasks" in found[0][1]
    assert found[1][1] == "worker 3 (pid 4 on far): its lock file is missing"
    assert found[2][1] == "locks of unknown workers: 99"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who holds a lock")
def test_a_reader_that_stays_is_named(shop, cli):  # F059
    shop.nd.tasks["receipt"].enqueue(1)
    script = (
        f"import sqlite3; c = sqlite3.connect({str(shop.path)!r}, isolation_level=None); c.execute('BEGIN');"
        "c.execute('SELECT * FROM nextdue_task').fetchall(); print('open', flush=True); input()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        found = lines(examined(cli, "shop.db")[1], "readers")
        assert found[0][0] == "warn"
        assert f"pid {reader.pid} (" in found[0][1]
        reader.communicate("\n", timeout=10)
    assert readers.long_readers(shop.path) == []


def test_a_clock_behind_the_file_is_told(shop, cli):
    shop.nd.tasks["receipt"].enqueue(1)
    shop.sql("UPDATE nextdue_task SET created = created + 3600000")
    ((level, text),) = lines(examined(cli, "shop.db")[1], "clock")
    assert level == "warn"
    assert "1 h later" in text


def test_a_large_wal_is_told(shop, cli, monkeypatch):
    shop.nd.tasks["receipt"].enqueue(1)
    monkeypatch.setattr("nextdue.cli.doctor.WAL_BYTES", 1)
    assert lines(examined(cli, "shop.db")[1], "wal")[0][0] == "warn"


def test_no_file_is_wrong_usage(shop, cli):
    assert cli("doctor", "shop.db")[0] == 2


def test_schedules_that_ran_while_the_clock_was_ahead(shop, cli):
    """F007: their next slot is far away, for none comes twice; said with the way out, which works."""
    receipt = shop.nd.tasks["receipt"]
    shop.nd.schedules.put(receipt, Cron("0 * * * *"), args=(1,))
    shop.nd.schedules.put(receipt, Every("1h"), key="end", args=(1,))
    assert "the clock was ahead" not in cli("doctor", "shop.db")[1]
    years = 10 * 365 * 86_400_000
    shop.sql("UPDATE nextdue_task SET due = due + ?1, scheduled_for = scheduled_for + ?1", (years,))
    code, found = examined(cli, "shop.db")
    assert code == 0
    ((level, text),) = [line for line in lines(found, "schedules") if "the clock was ahead" in line[1]]
    assert level == "warn"
    assert "they wait until up to 2036-" in text
    assert text.endswith(": receipt")
    assert cli("schedules", "pause", "shop.db", "receipt")[0] == 0
    assert cli("schedules", "resume", "shop.db", "receipt")[0] == 0
    assert "the clock was ahead" not in cli("doctor", "shop.db")[1]
    (view,) = [view for view in shop.nd.schedules.list() if view.key == "receipt"]
    assert 0 < view.due - time.time() * 1000 <= 3_600_000
