"""One simulated worker: the real Worker on a real store, and what its loop and its alarm would do with it."""

import sqlite3
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from nextdue.clock import MAX_MS
from nextdue.errors import LeaseLost, StoreBusy
from nextdue.records import Claim, Ending
from nextdue.sqlite import tx
from nextdue.sqlite.store import SqliteStore
from nextdue.sqlite.tx import Finish
from nextdue.task import Options, Retry
from nextdue.testing.worlds.executor import Job, SimExecutor
from nextdue.testing.worlds.faults import Spring, Trap
from nextdue.testing.worlds.groups import KINDS, LIMITS, NAMES, RATES, SPECIAL
from nextdue.testing.worlds.judge import Actor, Judge
from nextdue.worker import PASSING, TROUBLE_MS, Worker

FRUITLESS = 3
"""So many ticks in a row that a look asked for may find nothing to do; more is spinning."""
GRACE_MS = 2_000
AT_ONCE = 60
"""So many ticks at one instant are too many."""


class Guest(NamedTuple):
    """A connection with a transaction open, as tx.Wire."""

    connection: sqlite3.Connection

    def execute(self, sql: str, params: Mapping[str, Any]) -> list[Any]:
        """Run one statement; its rows."""
        return self.connection.execute(sql, params).fetchall()


def options(names: tuple[str, ...]) -> dict[str, Options]:
    """The options of the tasks of these names."""
    retry = Retry(base=1, cap=20, jitter=1, limit=6)
    return {
        name: Options(
            name=name,
            lease_ms=NAMES[name],
            retry=retry,
            run_in=KINDS[name],
            limit=LIMITS.get(name),
            rate_ms=RATES.get(name),
            rates_ms=SPECIAL.get(name, {}),
        )
        for name in names
    }


class Role(NamedTuple):
    """What a worker is started with, again and again."""

    names: tuple[str, ...]
    queues: tuple[str, ...] | None
    slots: int

    def sizes(self) -> dict[str, int]:
        """How many run at once of each kind."""
        return dict.fromkeys(sorted({KINDS[name] for name in self.names}), self.slots)


class Crew:
    """A place for a worker process: it lives, is stopped, dies and is started anew."""

    def __init__(self, place: int, role: Role, judge: Judge, random: Random) -> None:
        self.place, self.role, self.judge, self.random = place, role, judge, random
        self.clock = judge.clock
        self.alive = False
        self.generation = 0
        self.wake_at = self.limit_at = MAX_MS
        self.paused_at = self.paused_until = 0
        self.trouble_ms = 0
        self.refused: tuple[int, bool] | None = None
        """How long the next write has to wait for the lock, and whether in vain."""
        self.rung = self.death = self.freed = False
        self.ticks = 0
        self._fruitless = 0

    # birth and death

    def start(self, store: SqliteStore, jobs: dict[int, Job], where: Spring | None) -> None:
        """Raises Killed if it doesn't survive its start."""
        self.store = store
        self.trap = Trap(store)
        if where:
            self.trap.arm(*where)
        self.executor = self._executor(jobs)
        self._report = self.executor.finished
        vars(self.executor).update(finished=self._finished)
        self.alive, self.generation = True, self.generation + 1
        self.trouble_ms = self._fruitless = self.paused_until = 0
        self.refused, self.rung, self.death = None, False, False
        self.actor = Actor(-1, self.role.names, self.role.queues, active=self.executor.active)
        enlist, bury = store.enlist, store.bury
        vars(store).update(enlist=lambda: self._known(enlist()), bury=lambda: self._buried(bury))
        self.worker = Worker(
            store,
            self.executor,
            options(self.role.names),
            slots=self.role.sizes(),
            random=self.random.random,
            queues=self.role.queues,
            grace_ms=GRACE_MS,
        )
        self.judge.observe("serve", self.worker.id)
        self.trap.disarm()

    def _executor(self, jobs: dict[int, Job]) -> SimExecutor:
        return SimExecutor(jobs, self.role.sizes(), self.clock.monotonic_ms, self.judge.broken, self._finish)

    def _known(self, number: int) -> int:
        self.actor.number = number
        self.judge.actors[number] = self.actor
        return number

    def _buried(self, bury: Callable[[], list[int]]) -> list[int]:
        try:
            return bury()
        finally:
            self.judge.observe("bury", self.actor.number)

    def _finished(self) -> list[Ending]:
        endings = self._report()
        self.actor.endings.update({(e.claim.id, e.claim.token): e for e in endings})
        return endings

    def _finish(self, claim: Claim, ran_ms: int) -> bool:
        """A task's own rows and its completion are one commit, on a connection of the task's own."""
        connection = self.judge.connection
        self.judge.finishing = claim.id, claim.token
        connection.execute("BEGIN IMMEDIATE")
        try:
            store, now = self.store, self.clock.now()
            finish = Finish(ran_ms, keep_rows=store.keep_rows, keep_ms=store.keep_ms, now_ms=now)
            self.freed = tx.settle(Guest(connection), claim, finish) or self.freed
            tx.purge(Guest(connection).execute, store.keep_rows, store.keep_ms, now, 1)
            connection.execute("COMMIT")
        except LeaseLost:
            connection.execute("ROLLBACK")
            return False
        finally:
            self.judge.observe("finish", self.actor.number)
        return True

    def die(self, *, unknown: bool) -> None:
        """The end of its process; `unknown`: without a trace by which neighbours could tell."""
        self.alive, self.generation = False, self.generation + 1
        self.actor.gone_at, self.actor.dead = self.clock.monotonic_ms(), not unknown
        if unknown:
            self.store.lives.forget(self.actor.number)
        self.store.lives.let_go()
        self.store.database.connection.close()

    # what its loop does

    def tick(self) -> int | None:
        """One turn of the loop: the tick and the trouble it may meet; answers when another one is needed."""
        try:
            if self.refused:
                (waited, in_vain), self.refused = self.refused, None
                self.store.steady.waited(waited)
                if in_vain:
                    raise StoreBusy("somebody holds the write lock")
            if self.death:
                self.worker.bury()
                self.death = False
            limit = self.worker.tick()
        except PASSING:
            self.trouble_ms = min(max(TROUBLE_MS[0], self.trouble_ms * 2), TROUBLE_MS[1])
            return self.trouble_ms
        finally:
            self.ticks += 1
            self.changed = self.judge.observe("tick", self.actor.number)
        self.trouble_ms = 0
        return limit

    def turn(self, step: Callable[[], None], ring: Callable[[], None]) -> None:
        """Tick and look until it sleeps. `step` may set the clock between a look and a tick."""
        self.freed = False
        self.executor.advance(self.clock.monotonic_ms())
        if self.freed:
            ring()
        now = self.clock.monotonic_ms()
        ready = self.executor.next_end() <= now or now >= self.limit_at or self.death
        if self.trouble_ms and not ready:
            return
        for _ in range(AT_ONCE):
            if not ready:
                wait = self.look()
                if wait is None or wait > 0:
                    self.wake_at = MAX_MS if wait is None else now + wait
                    return
                step()
            asked = not ready
            limit = self.tick()
            self._count(asked)
            if not self.trouble_ms and self.worker.ring:
                ring()
            self.limit_at = MAX_MS if limit is None else now + limit
            self.wake_at = MAX_MS
            if self.trouble_ms or self.worker.ended():
                return
            ready = limit == 0
        self.judge.broken(f"worker {self.actor.number} ticks without end at {self.clock.now()}")

    def look(self) -> int | None:
        try:
            return self.worker.look_ms()
        finally:
            self.judge.observe("look", self.actor.number)

    def _count(self, asked: bool) -> None:
        self._fruitless = self._fruitless + 1 if asked and not self.changed and not self.trouble_ms else 0
        if self._fruitless > FRUITLESS:
            self.judge.broken(f"worker {self.actor.number} spins: its looks find work that its ticks don't")

    def sleeps_until(self) -> int:
        """When it moves by itself, on the clock that nobody sets."""
        if self.trouble_ms:
            return min(self.limit_at, self.executor.next_end())
        return min(self.wake_at, self.limit_at, self.executor.next_end())

    def promises(self, due: int, queue: str, name: str, alone: int) -> bool:
        """Whether a row like this must find this worker awake when it falls due."""
        if not self.alive or self.paused_until or self.trouble_ms or self.refused:
            return False
        if self.worker.stopping or not self.judge.open(self.actor, name, queue):
            return False
        running = self.worker.running
        if running and (alone or self.worker._hold_ends() is not None):
            return False
        return self.worker._free(KINDS[name]) > 0 and not any(c.alone for c in running.values())
