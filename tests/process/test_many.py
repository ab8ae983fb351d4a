"""Large numbers of what isn't due: it is neither held in memory nor looked at again and again."""

import sqlite3
import time
from pathlib import Path

import pytest

from nextdue import Unsupported
from nextdue.sqlite import database
from tests.process.harness import Place, cpu_s, switches
from tests.process.test_quiet import settled_down

SHOP = """
@nd.task
def known(n: int) -> None:
    note("known", n)
"""


def resident_kb(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])


def test_future_tasks_stay_in_the_file(place: Place) -> None:
    """F118, F023: 100,000 tasks due tomorrow: none is claimed, the worker stays as small and as still as it was."""
    place.script(SHOP)
    place.does("import shop; shop.known.enqueue(0)")
    worker = place.worker()
    place.noted("known 0")
    settled_down(worker.pid)
    small = resident_kb(worker.pid)
    place.does("import shop; shop.known.using(delay='1d').enqueue_many([(n,) for n in range(1, 100_001)])")
    settled_down(worker.pid)
    cpu = cpu_s(worker.pid)
    time.sleep(1)
    assert cpu_s(worker.pid) - cpu <= 0.01
    assert resident_kb(worker.pid) - small < 5_000
    assert place.one("SELECT sum(claims) FROM nextdue_tasks") == 0
    place.does("import shop; shop.known.enqueue(200_000)")
    place.noted("known 200000")
    assert worker.terminate() == 0


def test_fifty_queues_are_one_sleep(place: Place) -> None:
    """F128: with a task an hour ahead in each of 50 queues an idle worker still does nothing."""
    place.script(SHOP)
    place.does("import shop; [shop.known.using(delay=3600, queue=f'q{n}').enqueue(n) for n in range(50)]")
    worker = place.worker()
    settled_down(worker.pid)
    counted, cpu, small = switches(worker.pid), cpu_s(worker.pid), resident_kb(worker.pid)
    time.sleep(3)
    assert switches(worker.pid) - counted <= 2
    assert cpu_s(worker.pid) - cpu <= 0.01
    assert resident_kb(worker.pid) - small < 1_000
    assert worker.terminate() == 0


class Refusing(sqlite3.Connection):
    """Answers as SQLite does where shared memory can't be had: with another journal mode than asked for."""

    def execute(self, sql, *rest):
        return super().execute("SELECT 'delete'" if "journal_mode" in sql else sql, *rest)


def test_a_journal_mode_that_was_refused_is_not_gone_on_with(tmp_path, monkeypatch):
    """F062: the answer to `PRAGMA journal_mode=WAL` is read."""
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Refusing, **k))
    with pytest.raises(Unsupported, match="journal mode 'delete' instead of WAL"):
        database.Database(tmp_path / "shop.db", create=True)


def test_too_old_an_sqlite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.37.2")
    with pytest.raises(Unsupported, match=r"SQLite 3\.37\.2 is too old; nextdue needs 3\.38"):
        database.Database(tmp_path / "shop.db", create=True)
    assert not (tmp_path / "shop.db").exists()
