"""The database deleted, moved, replaced or opened by others under us: an error, never a silent OK."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.process.harness import Place, until

pytestmark = pytest.mark.beside

SHOP = """
import shutil
@nd.task
def work(n: int) -> None:
    note("work", n)

def delete():
    (HERE / "shop.db").unlink()

def move():
    (HERE / "shop.db").rename(HERE / "elsewhere.db")

def replace():
    shutil.copy(HERE / "old.db", HERE / "restored.db")
    os.replace(HERE / "restored.db", HERE / "shop.db")

def wal():
    (HERE / "shop.db-wal").unlink()

def all_three():
    for end in ("", "-wal", "-shm"):
        (HERE / ("shop.db" + end)).unlink()
"""
WAYS = ["delete", "move", "replace", "wal", "all_three"]


def with_old_copy(place: Place) -> None:
    place.script(SHOP)
    place.does("import shop; shop.work.using(delay=3600).enqueue(-1); shop.nd.close()")
    (place.folder / "old.db").write_bytes(place.db.read_bytes())


@pytest.mark.parametrize("way", WAYS)
def test_an_open_caller_is_told(place: Place, way: str) -> None:
    """F066: whichever way the file goes, neither enqueue, enqueue_many nor cancel answers as if it were there."""
    with_old_copy(place)
    text = place.does(f"""
import shop
handle = shop.work.using(delay=3600).enqueue(0)
def says(what, call):
    try:
        print(what, "OK", call())
    except shop.StoreGone:
        print(what, "gone")
    except shop.StoreError as error:
        print(what, "refused", type(error).__name__)
# Another process does it, as a person in a shell would.
import subprocess, sys
subprocess.run([sys.executable, "-c", "import shop; shop.{way}()"], check=True)
says("enqueue", lambda: shop.work.enqueue(1))
says("again", lambda: shop.work.enqueue(2))
says("many", lambda: shop.work.enqueue_many([(3,), (4,)]))
says("keyed", lambda: shop.work.using(key="k").enqueue(5))
says("cancel", lambda: handle.cancel())
""")
    assert text.splitlines() == [f"{what} gone" for what in ("enqueue", "again", "many", "keyed", "cancel")]


@pytest.mark.parametrize("way", ["delete", "replace"])
def test_a_read_does_not_show_a_file_that_is_gone(place: Place, way: str) -> None:
    """F066: the state of a handle comes from the file at the path, or is an error."""
    with_old_copy(place)
    text = place.does(f"""
import shop
handle = shop.work.using(delay=3600).enqueue(0)
shop.{way}()
try:
    print(handle.state)
except shop.StoreGone:
    print("gone")
""")
    assert text == "gone"


@pytest.mark.parametrize("way", ["delete", "replace", "wal", "all_three"])
def test_a_worker_ends_with_an_error(place: Place, way: str) -> None:
    """F066, law 1: a worker whose file went away says so at its next touch, and its exit code isn't 0."""
    with_old_copy(place)
    worker = place.python("import shop; print('ready', flush=True); shop.nd.run()")
    worker.says("ready")
    place.does("import shop; shop.work.enqueue(1)")
    place.noted("work 1")
    place.python(f"import shop; shop.{way}()").ends()
    # A signal is a touch as well: it ticks once more before it ends.
    place.python("import shop; shop.work.enqueue(2)").ends()
    (place.folder / "shop.db-wake").write_bytes(b"\n")
    assert worker.ends(5) != 0
    worker.says("StoreGone")


def test_the_path_can_be_used_anew_after_a_restart(place: Place) -> None:
    """F066: after the error a fresh process works with the file that is there now, if what it says was done."""
    with_old_copy(place)
    text = place.does("""
import shop
shop.work.enqueue(0)
shop.replace()
try:
    shop.work.enqueue(1)
except shop.StoreGone as gone:
    assert "delete shop.db-wal and shop.db-shm" in str(gone), gone
    shop.nd.close()
for end in ("-wal", "-shm"):
    (shop.HERE / ("shop.db" + end)).unlink(missing_ok=True)
print(shop.work.enqueue(2).state)
""")
    assert text == "waiting"
    assert place.rows("SELECT args FROM nextdue_tasks ORDER BY id") == [("[-1]",), ("[2]",)]
    place.checked()


def test_user_code_that_opens_and_closes_the_file_loses_nothing_silently(place: Place) -> None:
    """F055: any close() drops the process's POSIX locks, and an outside sqlite3 may then delete the WAL under us."""
    place.script(SHOP)
    text = place.does("""
import os, shop, subprocess, sys
shop.work.using(delay=3600).enqueue(0)
open(shop.HERE / "shop.db", "rb").close()
look = ["sqlite3", str(shop.HERE / "shop.db"), "select count(*) from sqlite_master"]
subprocess.run(look, check=True, stdout=subprocess.DEVNULL)
accepted = 0
for n in range(100):
    try:
        shop.work.using(delay=3600).enqueue(n)
    except shop.StoreGone:
        pass
    else:
        accepted += 1
print(accepted)
sys.stdout.flush()
os._exit(0)
""")
    assert place.one("SELECT count(*) FROM nextdue_tasks") == 1 + int(text)
    place.checked()


def test_the_same_inside_a_worker(place: Place) -> None:
    """F055: a task copies the database with shutil while the sqlite3 shell looks in: shown or told, never lost."""
    place.script(
        SHOP
        + """
@nd.task
def copies(n: int) -> None:
    if not (HERE / "notes").exists():  # only once: the worker may be gone before this attempt is settled
        open(HERE / "shop.db", "rb").close()
    note("copied", n)
"""
    )
    place.does("import shop; shop.copies.enqueue(1)")
    worker = place.python("import shop; print('ready', flush=True); shop.nd.run()")
    place.noted("copied")
    subprocess.run(["sqlite3", str(place.db), "select count(*) from sqlite_master"], check=True, capture_output=True)
    place.does("import shop; shop.work.enqueue_many([(n,) for n in range(50)])")
    # Who asks the file here would be one more program that opens and closes it, at any instant.
    until(lambda: not worker.alive() or len(place.notes()) > 50, 10, place.said)
    worker.send(signal.SIGTERM)
    if worker.ends(10):
        worker.says("StoreGone")
    second = place.worker()
    place.empties()
    assert second.terminate() == 0, place.said()
    assert {line for line in place.notes() if line.startswith("work")} == {f"work {n}" for n in range(50)}
    done = "SELECT count(DISTINCT task) FROM nextdue_runs WHERE outcome = 'done'"
    assert place.one(done) == 51
    place.checked()


@pytest.mark.parametrize("end", ["shop.nd.close()", "pass"])
@pytest.mark.parametrize("touch", [True, False])
def test_a_process_whose_wal_went_leaves_that_of_others_alone(place: Place, end: str, touch: bool) -> None:
    """F055, law 1: its end must not delete the WAL that others began meanwhile and that a kill -9 left behind."""
    place.script(SHOP)
    place.does("import shop; shop.work.using(delay=3600).enqueue(0)")
    victim = place.python(f"""
import shop, signal
with shop.nd.caller.use() as store:
    open(shop.HERE / "shop.db", "rb").close()
    print("open", flush=True)
    shop.until(lambda: (shop.HERE / "notes").exists())
if {touch}:
    try:
        shop.work.enqueue(1)
    except shop.StoreGone:
        print("gone", flush=True)
{end}
""")
    victim.says("open")
    subprocess.run(["sqlite3", str(place.db), "select count(*) from sqlite_master"], check=True, capture_output=True)
    killed = place.python("""
import os, shop
shop.work.using(delay=3600).enqueue_many([(n,) for n in range(50)])
shop.note("killed")
os.kill(os.getpid(), 9)
""")
    killed.ends()
    assert victim.ends() == 0
    assert ("gone" in victim.text) == touch
    assert place.one("SELECT count(*) FROM nextdue_tasks") == 51
    place.checked()


def test_a_deleted_wake_file_and_folder_of_workers_are_only_conveniences(place: Place) -> None:
    """Laws 1 and 12: without `-wake` and `-workers` tasks still come to a sleeping worker, and nothing is lost."""
    place.script(SHOP)
    place.does("import shop; shop.work.enqueue(0)")
    worker = place.worker()
    place.empties()
    (place.folder / "shop.db-wake").unlink()
    for file in (place.folder / "shop.db-workers").iterdir():
        file.unlink()
    (place.folder / "shop.db-workers").rmdir()
    for n in range(1, 4):
        place.does(f"import shop; shop.work.enqueue({n})")
        place.noted(f"work {n}", 1, 5)
    assert worker.terminate() == 0
    second = place.worker()
    place.does("import shop; shop.work.enqueue(9)")
    place.noted("work 9", 1, 5)
    assert second.terminate() == 0
    assert Path(place.folder / "shop.db-workers").is_dir()
    place.checked()
