"""The program whose power is cut: it puts tasks of every kind, works them off and says what was acknowledged to it.

    SHOP_FOLDER=... python shop.py working|again|restoring|adopting

It is run under strace. What it says is a fact (facts.py) from then on. SHOP_WEAKNESS names one of weaknesses.py, by
which the test shows that it can fail.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nextdue import Context, Every, GiveUp, Handle, Nextdue, Retry
from nextdue.sqlite import database, restore
from tests.powercut import weaknesses

FOLDER = Path(os.environ["SHOP_FOLDER"])
FILE = FOLDER / "shop.db"
LINES = 500
# A checkpoint each few commits, where a real program has one each thousand.
database.WAL_BYTES = 1 << 17

WEAKNESS = os.environ.get("SHOP_WEAKNESS", "")
if WEAKNESS:
    weaknesses.KNOWN[WEAKNESS]()
nd = Nextdue(FILE)


def say(kind: str, *words: object) -> None:
    """Acknowledged: a fact of facts.py. One write, so that strace shows it as one."""
    os.write(1, f"@ack {json.dumps([kind, *words])}\n".encode())


@nd.task
def plain(ctx: Context, number: int) -> None:
    say("began", ctx.id, 1)


@nd.task
def slow(ctx: Context) -> None:
    say("began", ctx.id, 1)
    time.sleep(0.05)  # meanwhile nobody commits anything


@nd.task(keep_result=True)
def double(number: int) -> int:
    return 2 * number


@nd.task
def order(ctx: Context, number: int) -> None:
    with ctx.finish() as tx:
        tx.execute("INSERT INTO orders VALUES (?, 'order', ?)", (number, ctx.id))
    say("ordered", ctx.id)


@nd.task
def receipt(number: int) -> None: ...


@nd.task
def bill(number: int) -> None: ...


@nd.task
def export(ctx: Context, generation: int) -> None:
    with ctx.replace(FOLDER / "export.txt") as file:
        file.write(exported(generation))
    say("replaced", "export.txt", generation)


@nd.task(retry=Retry(base="1h", jitter=0))
def fails() -> None:
    raise ValueError("not today")


@nd.task
def gives_up() -> None:
    raise GiveUp("never")


@nd.on_demand("1h")
def cleanup() -> None: ...


@nd.task
def parcel(ctx: Context, number: int) -> None:
    say("marked", ctx.id, "post", ctx.step("post", post, ctx.id, "post", number, in_doubt="hold"))
    say("marked", ctx.id, "note", ctx.step("note", int, number, repeatable=True))


def post(id: int, label: str, number: int) -> int:
    """An effect; that it may be out is known before."""
    say("doubted", id, label)
    return number


@nd.task
def poll() -> None: ...


def exported(generation: int) -> str:
    """A file that shows whether it is whole."""
    text = f"generation {generation}\n" * LINES
    return text + hashlib.sha256(text.encode()).hexdigest()


def put() -> list[Handle[Any]]:
    """Tasks in all ways in which they may be put. Answers those that a worker brings to an end."""
    handles: list[Handle[Any]] = []
    for number in range(8):
        handles.append(plain.enqueue(number))
        say("put", handles[-1].id, "plain", [number])
    many = double.enqueue_many([(n,) for n in range(20)])
    say("put", many[0].id, "double", [0])
    say("put", many[-1].id, "double", [19])
    large = receipt.using(delay="1h").enqueue_many([(n,) for n in range(500)])
    say("put", large[0].id, "receipt", [0])
    say("put", large[-1].id, "receipt", [499])
    keyed = receipt.using(key="k", delay="1h").enqueue(7)
    say("keyed", keyed.id, "receipt", "k")
    say("put", cleanup.enqueue().id, "cleanup", [])
    make_orders()
    for number in range(100, 104):
        with nd.transaction() as tx:
            handle = bill.using(tx=tx).enqueue(number)
            tx.execute("INSERT INTO orders VALUES (?, 'bill', ?)", (number, handle.id))
        say("together", handle.id)
        handles.append(handle)
    return [*handles, *many, *(order.enqueue(n) for n in range(200, 206)), fails.enqueue(), gives_up.enqueue()]


def make_orders() -> None:
    """The user's own table."""
    with nd.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS orders(number INTEGER PRIMARY KEY, how TEXT, task INTEGER UNIQUE)")


def crowd() -> None:
    """Threads that put at the same time, whose tasks share commits."""

    def several(first: int) -> None:
        for number in range(first, first + 8):
            say("put", plain.using(delay="1h").enqueue(number).id, "plain", [number])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(several, range(300, 360, 10)))


def guest(number: int) -> None:
    """A task in the user's own transaction."""
    with contextlib.closing(sqlite3.connect(FILE, timeout=10, isolation_level=None)) as own:
        if WEAKNESS == "OFF":
            own.execute("PRAGMA synchronous=NORMAL")  # else it is refused
        own.execute("BEGIN IMMEDIATE")
        handle = bill.using(tx=own).enqueue(number)
        own.execute("INSERT INTO orders VALUES (?, 'bill', ?)", (number, handle.id))
        own.execute("COMMIT")
    say("together", handle.id)


def watch(handle: Handle[Any]) -> None:
    """Say how it ended, or that it failed once."""
    if handle.name == "fails":
        while not handle.view().attempts:
            time.sleep(0.01)
        say("failed", handle.id, 1)
        return
    say("ended", handle.id, handle.wait("20s"))
    if handle.name == "double":
        say("result", handle.id, handle.result("1s"))


def care() -> Handle[Any]:
    """What people do to tasks, queues and schedules. Answers a task that will have expired."""
    handle = plain.using(delay="1h").enqueue(99)
    handle.cancel()
    say("ended", handle.id, "cancelled")
    nd.pause(queue="reports")
    say("paused", "reports")
    late = plain.using(expires=0.001).enqueue(98)
    nd.schedules.put(poll, Every("1h"), key="hourly")
    say("scheduled", "poll", "hourly")
    nd.schedules.put(poll, Every("2h"), key="gone")
    say("scheduled", "poll", "gone")
    say("not", "scheduled", "poll", "gone")
    nd.schedules.remove(poll, "gone")
    say("unscheduled", "poll", "gone")
    return late


def fire() -> None:
    """An occurrence of a schedule, to its end."""
    nd.schedules.put(poll, Every("1s"), key="often")
    while not any(view.key == "often" and view.fired for view in nd.schedules.list()):
        time.sleep(0.02)
    say("fired", "poll", "often", 1)
    nd.schedules.pause(poll, "often")


def beside() -> None:
    """Another worker, of the command line; it is killed when it is the last that has the file open."""
    late = [order.enqueue(n) for n in range(210, 216)] + [double.enqueue(n) for n in range(40, 48)]
    worker = subprocess.Popen([sys.executable, "-m", "nextdue", "worker", "shop:nd"], cwd=Path(__file__).parent)
    for handle in late:
        say("put", handle.id, handle.name, [])
    for handle in late:
        watch(handle)
    nd.close()
    time.sleep(0.1)  # until it sleeps: of a call that was cut short nobody could tell whether it was done
    worker.kill()
    worker.wait(20)


def working() -> None:
    """Two workers, one in this process and another one, and what is put before and beside them."""
    handles = put()
    crowd()
    nd.close()  # the last one: the WAL is moved into the file and removed
    late = care()
    with nd.working(concurrency=2):
        for generation in range(3):
            export.enqueue(generation).wait("20s")
        for handle in handles:
            watch(handle)
        watch(slow.enqueue())
        for handle in [parcel.enqueue(number) for number in range(500, 504)]:
            watch(handle)
        nd.send("paid")
        say("sent", "paid")
        assert late.wait("20s") == "dead"
        say("expired", late.id)
        fire()
    for number in range(110, 114):
        guest(number)
    beside()
    last = plain.using(delay="1h").enqueue(9)  # into the WAL that the killed one left
    say("put", last.id, "plain", [9])
    say("saved", nd.backup(FOLDER / "backup.db").name, last.id)
    nd.close()


def again() -> None:
    """What goes on after a power cut: more tasks, and a worker for all that is due."""
    say("put", double.using(delay="1h").enqueue(7).id, "double", [7])
    with nd.working(concurrency=2):
        for number in range(400, 404):
            watch(plain.enqueue(number))
        export.enqueue(9).wait("20s")
    make_orders()
    guest(405)
    nd.close()


def restoring() -> None:
    """A backup, made twice, and put in the place of the file."""
    first = [receipt.using(delay="1h").enqueue(number) for number in range(20)]
    say("put", first[-1].id, "receipt", [19])
    backup = nd.backup(FOLDER / "backup.db")
    say("saved", backup.name, first[-1].id)
    second = receipt.using(delay="1h").enqueue(20)
    say("put", second.id, "receipt", [20])
    nd.backup(backup, overwrite=True)
    say("saved", backup.name, second.id)
    later = [receipt.using(delay="1h").enqueue(number) for number in range(20)]
    say("kept", FILE.name, later[-1].id)
    nd.close()
    say("not", "kept", FILE.name, later[-1].id)
    # Another process put one more and died: it is in the WAL only.
    done = subprocess.run([sys.executable, __file__, "dying"], stdout=subprocess.PIPE, check=True)
    old = restore.restore(backup, FILE)
    say("held")
    say("kept", old.name if old else "?", int(done.stdout))
    say("put", plain.using(delay="1h").enqueue(5).id, "plain", [5])
    nd.close()


def dying() -> None:
    """Put a task and end without closing the file."""
    os.write(1, f"{plain.using(delay='1h').enqueue(6).id}".encode())
    os._exit(0)


def adopting() -> None:
    """A database of the user's own, not in WAL mode, in which nextdue begins to keep tasks."""
    with contextlib.closing(sqlite3.connect(FILE, isolation_level=None)) as own:
        own.execute("PRAGMA synchronous=EXTRA")
        own.execute("CREATE TABLE theirs(number)")
        for number in range(3):
            own.execute("INSERT INTO theirs VALUES (?)", (number,))
            say("theirs", number)
    for number in range(3):
        say("put", plain.using(delay="1h").enqueue(number).id, "plain", [number])
    nd.close()


if __name__ == "__main__":
    {"working": working, "again": again, "restoring": restoring, "dying": dying, "adopting": adopting}[sys.argv[1]]()
