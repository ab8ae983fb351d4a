"""A full disk and a read-only one: a clear error for the caller, patience and recovery in the worker.

A small tmpfs is mounted where the system allows it; where it doesn't, those tests are skipped and the one with a
page limit still shows the rule. Permissions don't bind root, so "read-only" is a read-only mount.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import Place, cpu_s, place_in, until

SHOP = """
@nd.task
def work(n: int) -> None:
    (Path(os.environ["NOTES"]) / str(n)).touch()

def fill():
    with open(HERE / "ballast", "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
"""


def mount(*words: str) -> bool:
    return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Place]:
    """A place on a file system of its own of 2 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if sys.platform != "linux" or os.getuid() or not mount("-t", "tmpfs", "-o", "size=2m", "none", str(folder)):
        pytest.skip("no file system can be mounted here")
    try:
        with place_in(folder) as place:
            place.script(SHOP)
            yield place
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def notes(place: Place) -> list[str]:
    return sorted(os.listdir(place.folder.parent / "ran"))


@pytest.mark.beside
def test_a_caller_on_a_full_disk_is_told(small: Place) -> None:
    """F063, law 1: StoreFull, nothing stored, all that was acknowledged is there, and with space it works again."""
    said = small.does("""
import shop
accepted, refused = [], 0
for n in range(20000):
    try:
        accepted.append(shop.work.using(delay=3600).enqueue(n).id)
    except shop.StoreFull as full:
        refused += 1
        if refused == 1:
            print(full, flush=True)
        if refused == 20:
            break
try:
    shop.work.enqueue_many([(n,) for n in range(100_000)])
except shop.StoreFull:
    print("many refused")
import sqlite3
ids = [id for (id,) in sqlite3.connect(shop.HERE / "shop.db").execute("SELECT id FROM nextdue_task")]
print("same" if ids == accepted else (len(ids), len(accepted)), len(ids))
""")
    lines = said.splitlines()
    assert "full" in lines[0]
    assert str(small.db) in lines[0]
    assert lines[1] == "many refused"
    assert lines[2].startswith("same")
    assert int(lines[2].split()[1]) > 100
    assert mount("-o", "remount,size=8m", str(small.folder))
    small.does("import shop; assert shop.work.using(delay=3600).enqueue(-1).state == 'waiting'")
    small.checked()


def test_a_worker_waits_for_space(small: Place) -> None:
    """F063, F072: no spin, one log line when it begins and one when it is over; all tasks done, none lost."""
    ran = small.folder.parent / "ran"
    ran.mkdir()
    small.does("import shop; shop.work.enqueue_many([(n,) for n in range(50)])")
    small.does("import shop; shop.work.using(delay=3600).enqueue(1); shop.fill()")
    worker = small.python("import shop, logging; logging.basicConfig(); shop.nd.run()", NOTES=str(ran))
    worker.says("waiting for it", 10)
    before = cpu_s(worker.pid)
    with contextlib.suppress(AssertionError):
        until(lambda: not worker.alive(), 1)
    assert worker.alive(), worker.text
    assert cpu_s(worker.pid) - before < 0.1
    (small.folder / "ballast").unlink()
    worker.says("work goes on", 10)
    until(lambda: len(notes(small)) == 50)
    until(lambda: small.left() == 1)
    troubles = [line for line in worker.lines if "waiting for it" in line or "goes on" in line]
    assert len(troubles) == 2, worker.text
    assert worker.terminate() == 0
    assert small.one("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done'") == 50
    small.checked()


@pytest.mark.beside
def test_a_disk_that_fills_while_tasks_run_loses_no_ending(small: Place) -> None:
    """F063, law 1: endings that could not be written are kept and written later; the effect isn't repeated."""
    ran = small.folder.parent / "ran"
    ran.mkdir()
    small.script(
        SHOP
        + """
@nd.task(keep_result=True)
def large(n: int) -> str:
    until(lambda: (Path(os.environ["NOTES"]) / "full").exists())
    fd = os.open(Path(os.environ["NOTES"]) / "begun", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(fd, b"x")
    return "x" * 200_000
"""
    )
    small.does("import shop; shop.large.enqueue_many([(n,) for n in range(3)])")
    worker = small.python("import shop, logging; logging.basicConfig(); shop.nd.run()", NOTES=str(ran))
    until(lambda: small.one("SELECT count(*) FROM nextdue_tasks WHERE state = 'running'") == 3)
    small.does("import shop; shop.fill()")
    (ran / "full").touch()
    worker.says("waiting for it", 10)
    (small.folder / "ballast").unlink()
    worker.says("work goes on", 10)
    small.empties()
    assert (ran / "begun").read_text() == "xxx"
    assert small.rows("SELECT outcome, length(result) FROM nextdue_runs") == [("done", 200_002)] * 3
    assert worker.terminate() == 0
    small.checked()


@pytest.mark.beside
def test_a_page_limit_is_a_full_disk(place: Place) -> None:
    """F063: PRAGMA max_page_count on our connection: StoreFull, nothing stored, and again possible without it."""
    place.script("""
@nd.task
def work(n: str) -> None: ...
""")
    said = place.does("""
import shop
shop.work.enqueue("first")
with shop.nd.caller.use() as store:
    connection = store.database.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
stored = 1
for n in range(1000):
    try:
        shop.work.enqueue("x" * 1000)
        stored += 1
    except shop.StoreFull as full:
        break
with shop.nd.caller.use() as store:
    connection.execute("PRAGMA max_page_count=1000000")
shop.work.enqueue("last")
print(stored + 1)
""")
    assert place.one("SELECT count(*) FROM nextdue_tasks") == int(said)
    place.checked()


@pytest.mark.beside
def test_a_read_only_medium(small: Place) -> None:
    """F063: on a read-only mount the caller gets StoreReadOnly and a new worker does too, in one sentence each."""
    small.does("import shop; shop.work.using(delay=3600).enqueue(1)")
    assert mount("-o", "remount,ro", str(small.folder))
    said = small.does("""
import shop
for what in (lambda: shop.work.enqueue(2), lambda: shop.work.enqueue_many([(2,)]), lambda: shop.nd.run()):
    try:
        what()
    except shop.StoreReadOnly as error:
        print(error)
""")
    assert len(said.splitlines()) == 3
    assert all(str(small.db) in line and "Traceback" not in line for line in said.splitlines())
    assert mount("-o", "remount,rw", str(small.folder))
    assert small.one("SELECT count(*) FROM nextdue_tasks") == 1
    small.checked()
