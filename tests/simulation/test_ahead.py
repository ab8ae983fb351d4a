"""A worker that always has more to claim ahead still sees what can't be claimed so, and what happens to others."""

import pytest

from nextdue import due, worker
from nextdue.records import Put, Serving, TickRequest
from nextdue.sqlite import care
from nextdue.sqlite.store import SqliteStore
from nextdue.testing import FakeClock
from nextdue.testing.worlds.crew import options
from nextdue.testing.worlds.executor import Job, SimExecutor
from nextdue.testing.worlds.faults import Trap
from nextdue.worker import Worker

BACKLOG = 300
LONG_MS = 3_000
ONE = 1_000_000
"""The number of the one task among the flood."""


class Busy:
    """A worker of four slots in a flood of tasks of a few ms: it never sleeps."""

    def __init__(self, folder):
        self.clock = FakeClock()
        self.store, store = self._open(folder), self._open(folder)
        self.jobs: dict[int, Job] = {}
        self.executor = SimExecutor(self.jobs, {"thread": 4}, self.clock.monotonic_ms, self._broken)
        self.worker = Worker(store, self.executor, options(("mail", "shard")), slots={"thread": 4}, random=lambda: 0.0)

    def _open(self, folder):
        store = SqliteStore(folder / "shop.db", now=self.clock.now, monotonic_ms=self.clock.monotonic_ms)
        Trap(store)  # never armed: it only spares the waits for the disk
        return store

    def _broken(self, what):
        raise AssertionError(what)

    def more(self):
        """Fill up what waits. Of different lengths, or all slots would be free at one moment by chance."""
        waiting = care.listed(self.store, care.Chosen(name="mail", state="waiting"), limit=BACKLOG)
        first, missing = len(self.jobs), BACKLOG - len(waiting)
        for number in range(first, first + missing):
            self.jobs[number] = Job(number, "mail", "default", ["done"], 2 + number % 3)
        calls = str([[number] for number in range(first, first + missing)])
        self.store.put_many(Put("mail", "default", 5, "[]"), calls, missing)

    def one(self, name="mail", priority=5):
        self.jobs[ONE] = Job(ONE, name, "default", ["done"], 2)
        self.store.put([Put(name, "default", priority, f"[{ONE}]", group="a" if name == "shard" else None)])

    def begins_ms(self):
        """After how many ms the one task was begun."""
        began = self.clock.now()
        while self.clock.now() < began + LONG_MS and not self.jobs[ONE].effects:
            self.more()
            self.executor.advance(self.clock.monotonic_ms())
            self.worker.tick()
            self.clock.advance(1)
        return self.clock.now() - began


@pytest.fixture
def busy(tmp_path):
    busy = Busy(tmp_path)
    for _ in range(50):
        busy.more()
        busy.executor.advance(busy.clock.monotonic_ms())
        busy.worker.tick()
        busy.clock.advance(1)
    assert busy.executor.waiting() > 4
    yield busy
    busy.worker.store.close()
    busy.store.close()


def test_a_task_with_a_limit_gets_a_slot_in_a_flood(busy):
    """F117: it is never claimed ahead, so a slot must be let free for it."""
    busy.one("shard")
    assert busy.begins_ms() < 500


def test_a_task_that_crashed_once_gets_a_slot_in_a_flood(busy):
    """F117."""
    busy.one()
    busy.store.database.connection.execute("UPDATE nextdue_task SET crashes = 1 WHERE args = ?", (f"[{ONE}]",))
    assert busy.begins_ms() < 500


def test_what_is_older_gets_its_turn_among_what_is_claimed_ahead(busy, monkeypatch):
    """F120."""
    busy.one(priority=0)
    assert busy.begins_ms() < 1_000
    busy.jobs[ONE].effects = 0
    monkeypatch.setattr(due, "FAIR_EVERY", 1 << 60)
    busy.one(priority=0)
    assert busy.begins_ms() == LONG_MS


def test_the_death_of_a_neighbour_is_noticed_without_a_sleep(busy, tmp_path, monkeypatch):
    """F029, law 6."""
    neighbour = busy._open(tmp_path)
    number = neighbour.enlist()
    busy.one("shard")
    neighbour.serve({"shard": Serving(60_000)}, None)
    assert neighbour.tick(TickRequest(number, [], number << 32 | 1, 1)).claims
    neighbour.lives.let_go()
    neighbour.database.connection.close()
    monkeypatch.setattr(worker, "DEATHS_EVERY", 1 << 60)
    assert busy.begins_ms() == LONG_MS
    monkeypatch.setattr(worker, "DEATHS_EVERY", 100)
    assert busy.begins_ms() < 1_000
