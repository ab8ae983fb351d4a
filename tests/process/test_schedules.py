"""Schedules between real processes: one row, one firing, no leader."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

APP = """
import os, sys, time
from pathlib import Path
from nextdue import Nextdue

nd = Nextdue(Path(__file__).with_name("shop.db"))

@nd.every(1, anchor=__import__("datetime").datetime(2026, 1, 1, tzinfo=__import__("datetime").timezone.utc))
def beat(ctx):
    with ctx.finish() as tx:
        tx.execute("INSERT INTO beats VALUES (?, ?)", (int(ctx.scheduled_for.timestamp()), os.getpid()))

if __name__ == "__main__":
    if "fork" in sys.argv:
        for _ in range(3):
            if os.fork() == 0:
                break
    nd.run()
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE beats(slot INTEGER, pid INTEGER)")
    return tmp_path


def start(shop, *args):
    return subprocess.Popen(
        [sys.executable, "shop.py", *args], cwd=shop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def stop(process, number=signal.SIGTERM):
    os.killpg(process.pid, number)
    process.wait(30)


def beats(shop):
    with closing(sqlite3.connect(shop / "shop.db", timeout=10)) as connection:
        return connection.execute("SELECT slot, pid FROM beats ORDER BY rowid").fetchall()


def once_each(shop):
    slots = [slot for slot, _ in beats(shop)]
    assert max(Counter(slots).values()) == 1
    assert slots == list(range(slots[0], slots[0] + len(slots)))
    return slots


@pytest.mark.parametrize("forked", [True, False])
def test_f043_f049_several_processes_fire_each_occurrence_once(shop, forked):
    """F043 F049: four processes with the same schedules, forked from one or started one by one."""
    processes = [start(shop, "fork")] if forked else [start(shop) for _ in range(3)]
    time.sleep(6)
    for process in processes:
        stop(process)
    assert 4 <= len(once_each(shop)) <= 7


def test_f044_nobody_needs_a_leader_that_lives(shop):
    """F044: whichever process dies, the others fire on."""
    processes = [start(shop) for _ in range(3)]
    for process in processes[:2]:
        time.sleep(2)
        stop(process, signal.SIGKILL)
    time.sleep(2.5)
    stop(processes[2])
    slots = [slot for slot, _ in beats(shop)]
    assert max(Counter(slots).values()) == 1
    assert 4 <= len(slots) <= 8
    assert beats(shop)[-1][1] == processes[2].pid
