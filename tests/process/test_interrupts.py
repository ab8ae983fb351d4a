"""Exceptions out of signal handlers, bodies that end at their time limit, tables that come and go under a caller."""

import sqlite3
import threading
import time

import pytest

from nextdue import Nextdue
from nextdue.executors.context import Definition
from nextdue.executors.threads import ThreadExecutor
from nextdue.records import Claim
from tests.process.harness import Place, until

INTERRUPTED = """
import random, signal, threading, time
import shop

class Boom(Exception): pass
def boom(number, frame):
    raise Boom
signal.signal(signal.SIGALRM, boom)
told, unsure = [0], [0]
def other():
    for n in range(2000):
        try:
            shop.known.enqueue(n)
            told[0] += 1
        except shop.nextdue.StoreError as error:
            assert "stored or not" in str(error), error
            unsure[0] += 1
thread = threading.Thread(target=other, daemon=True)
thread.start()
rng, end = random.Random(7), time.monotonic() + 60
while thread.is_alive() and time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0001, 0.003))
        for _ in range(20):  # not for ever: one raised in a finalizer is swallowed by Python
            shop.known.enqueue(-1)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Boom:
        pass
    except shop.nextdue.StoreError:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
thread.join(10)
print(told[0], unsure[0])
"""


@pytest.mark.beside
def test_an_interrupted_put_leaves_nobody_waiting(place: Place) -> None:
    """A signal handler that raises, at thousands of moments of an enqueue, harms no other thread."""
    place.script("import nextdue\n@nd.task\ndef known(n: int) -> None: ...\n")
    told, unsure = map(int, place.does(INTERRUPTED, 90).split())
    assert told + unsure == 2000
    stored = place.one("SELECT count(*) FROM nextdue_tasks WHERE args <> '[-1]'")
    assert told <= stored <= 2000


def test_bodies_that_end_at_their_limit_leave_no_thread_behind(tmp_path) -> None:
    """A claim has one owner at its end: its thread, or the one who gives it up."""
    nd = Nextdue(tmp_path / "shop.db")

    @nd.task(time_limit=0.02)
    def nap(n: int) -> None:
        time.sleep(0.02)

    definitions: dict[str, Definition] = {"nap": nap.definition}
    executor = ThreadExecutor(4, definitions, lambda: None)
    claims = [Claim(n, 1, "nap", "[1]", None, 0, 0, 1, 0, 0) for n in range(200)]
    for claim in claims:
        executor.start(claim)
    ended: list[int] = []

    def all_ended() -> bool:
        ended.extend(ending.claim.id for ending in executor.finished())
        return len(ended) >= len(claims)

    until(all_ended)
    assert sorted(ended) == list(range(200))
    executor.close()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("nextdue-")])


def test_no_caller_remembers_lanes(tmp_path) -> None:
    """After the file was restored in place a put goes into a lane of its own name, not of what had that number."""
    nd = Nextdue(tmp_path / "shop.db")
    first, second = (nd.task(name=name)(lambda n: None) for name in ("first", "second"))
    first.enqueue(1)
    with sqlite3.connect(tmp_path / "shop.db") as raw:
        raw.execute("DELETE FROM nextdue_task")
        raw.execute("UPDATE nextdue_lane SET name = 'third'")
    raw.close()
    assert [first.enqueue(2).view().queue, second.enqueue(3).view().queue] == ["default", "default"]
    lanes = "SELECT count(*) FROM nextdue_task t JOIN nextdue_lane l ON l.id = t.lane AND l.name = t.name"
    with sqlite3.connect(tmp_path / "shop.db") as raw:
        assert raw.execute(lanes).fetchone() == (2,)
    raw.close()


def test_an_idle_worker_ends_when_its_file_is_deleted(place: Place) -> None:
    """F066: nobody commits to a deleted file, so nothing else would ever wake it."""
    place.script("@nd.task\ndef known(n: int) -> None: ...\n")
    place.does("import shop; shop.known.using(delay=3600).enqueue(1)")
    worker = place.worker()
    (place.folder / "shop.db").unlink()
    assert worker.ends(10) != 0
    assert "deleted, moved or replaced" in worker.text
    for left in place.folder.glob("shop.db*"):
        if left.is_file():
            left.unlink()
