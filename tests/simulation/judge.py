"""Every change of every row, as SQLite's own triggers see it inside the transaction, held against the laws."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nextdue.clock import MAX_MS
from nextdue.due import MAX_CRASHES
from nextdue.records import Claim, Ending
from nextdue.testing import FakeClock

NAMES = {"mail": 60_000, "export": 120_000, "feed": 300_000}
"""The names that workers know, with their leases."""
FIELDS = ("due", "rest", "token", "attempts", "crashes", "claims", "lane", "gone_at", "key")


class Broken(AssertionError):
    """A law is broken."""


class Row(NamedTuple):
    due: int | None
    rest: str | None
    token: int | None
    attempts: int
    crashes: int
    claims: int
    lane: int
    gone_at: int | None
    key: str | None


class Change(NamedTuple):
    seq: int
    id: int
    name: str
    args: str
    old: Row
    new: Row


@dataclass
class Actor:
    """A worker as the judge knows it; by its number, so that a restarted one is another."""

    number: int
    names: tuple[str, ...]
    queues: tuple[str, ...] | None
    dead: bool = False
    """Its end can be seen by its neighbours."""
    gone_at: int = MAX_MS
    excused_until: int = -1
    """Up to when (monotonic) it may have been unable to renew its leases."""
    endings: dict[tuple[int, int], Ending] = field(default_factory=dict)
    stopping: bool = False
    active: Mapping[Claim, int] = field(default_factory=dict)
    """What its executor is running."""

    def serves(self, name: str, queue: str) -> bool:
        return name in self.names and (self.queues is None or queue in self.queues)


def watch(path: Path) -> sqlite3.Connection:
    """A connection of the judge's own, after telling the file to keep account of every row."""
    connection = sqlite3.connect(path, isolation_level=None)
    columns = ", ".join(f"old_{f}, new_{f}" for f in FIELDS)
    connection.execute(f"CREATE TABLE audit(seq INTEGER PRIMARY KEY, id, name, args, {columns})")
    for verb, old, new, row in (("INSERT", 0, 1, "NEW"), ("UPDATE", 1, 1, "NEW"), ("DELETE", 1, 0, "OLD")):
        values = ", ".join(f"{f'OLD.{f}' if old else 'NULL'}, {f'NEW.{f}' if new else 'NULL'}" for f in FIELDS)
        connection.execute(
            f"CREATE TRIGGER audit_{verb} AFTER {verb} ON nextdue_task BEGIN "
            f"INSERT INTO audit(id, name, args, {columns}) VALUES ({row}.id, {row}.name, {row}.args, {values}); END"
        )
    return connection


class Judge:
    """Reads what was changed since it last looked and raises Broken."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.connection, self.clock = watch(path), clock
        self.actors: dict[int, Actor] = {}
        self.changes = 0
        self.done = 0
        self._seen = 0
        self._tokens: set[int] = set()
        self._lanes: dict[int, tuple[str, int]] = {}
        self._select = (
            "SELECT seq, id, name, args, "
            + ", ".join([*(f"old_{f}" for f in FIELDS), *(f"new_{f}" for f in FIELDS)])
            + " FROM audit WHERE seq > ? ORDER BY seq"
        )

    def broken(self, what: str) -> None:
        raise Broken(what)

    def observe(self, verb: str, number: int | None = None) -> int:
        """Judge what this verb, called by this worker (None: a caller), changed; answers how many rows."""
        rows = self.connection.execute(self._select, (self._seen,)).fetchall()
        actor = None if number is None else self.actors.get(number)
        fresh: set[int] = set()
        for row in rows:
            seq, id, name, args, *cells = row
            change = Change(seq, id, name, args, Row(*cells[: len(FIELDS)]), Row(*cells[len(FIELDS) :]))
            self._seen = change.seq
            self._judge(change, verb, actor, fresh)
        self._tokens |= fresh
        self.changes += len(rows)
        return len(rows)

    def _judge(self, c: Change, verb: str, actor: Actor | None, fresh: set[int]) -> None:
        try:
            if c.old.lane is None:
                assert verb in ("put", "raw"), "put by a strange verb"
                assert c.new.token is None
            elif c.new.lane is None:
                self._deleted(c, verb, actor)
            elif c.new.token is not None and c.new.token != c.old.token:
                self._claimed(c, verb, actor, fresh)
            elif c.old.token is not None and c.new.token is None:
                self._ended(c, verb, actor)
            elif c.old.token is not None:
                self._renewed(c, verb, actor)
            else:
                self._changed_at_rest(c, verb)
        except AssertionError as exc:
            who = f"worker {actor.number}" if actor else "a caller"
            raise Broken(f"{verb} by {who} at {self.clock.now()}: {exc}\n  {c}") from None

    def _claimed(self, c: Change, verb: str, actor: Actor | None, fresh: set[int]) -> None:
        old, new, now = c.old, c.new, self.clock.now()
        assert verb == "tick", "claimed by another verb than tick"
        assert actor is not None
        assert new.token is not None
        assert new.token >> 32 == actor.number, "the token is not the worker's own"
        assert new.token not in self._tokens, "a token was used twice"
        fresh.add(new.token)
        assert old.due is not None, "a row at rest was claimed"
        assert old.due <= now, f"claimed {old.due - now} ms early"
        assert actor.serves(c.name, self.lane(new.lane)[0]), "claimed from a lane that isn't open"
        assert not actor.stopping, "claimed while stopping"
        assert new.due == now + NAMES[c.name], "due isn't the end of the lease"
        assert new.claims == old.claims + 1
        assert new.attempts == old.attempts, "a claim is no attempt"
        assert new.crashes == old.crashes + (old.token is not None), "only taking over is a crash"
        if old.token is not None:
            assert old.token >> 32 != actor.number, "took over its own row"
            owner = self.actors[old.token >> 32]
            assert owner.gone_at < MAX_MS or owner.excused_until >= self.clock.monotonic_ms() - NAMES[c.name], (
                f"the lease of worker {owner.number} was stolen, which lives and could renew it"
            )

    def _ended(self, c: Change, verb: str, actor: Actor | None) -> None:
        old, new, now = c.old, c.new, self.clock.now()
        assert old.token is not None
        owner = self.actors[old.token >> 32]
        if verb == "bury":
            assert owner.dead, "buried alive"
            assert (new.crashes, new.attempts) == (old.crashes + 1, old.attempts)
            assert new.due == now + (250 << min(old.crashes, 12))
            return
        assert verb == "tick", "ended by a strange verb"
        assert actor is owner, f"settled by another than its owner {owner.number}"
        ending = owner.endings.pop((c.id, old.token), None)
        failed = ending is not None and ending.kind in ("failed", "gave_up")
        assert new.attempts == old.attempts + failed, "attempts are tries that failed"
        if ending is None:
            self._unstarted(c, owner)
        elif ending.kind == "done":
            assert (new.rest, new.crashes) == ("done", 0)
            assert old.key is not None
        elif ending.kind == "snoozed":
            assert (new.due, new.crashes) == (now + (ending.delay_ms or 0) + 1, 0)
        elif ending.kind == "gave_up":
            assert new.rest == "dead"
        else:
            assert new.rest == "dead" or (new.due is not None and new.due > now)

    def _unstarted(self, c: Change, owner: Actor) -> None:
        """Given back, or refused by the rule of crashes."""
        assert c.new.crashes == c.old.crashes, "giving back is no crash"
        running = {(claim.id, claim.token) for claim in owner.active}
        assert (c.id, c.old.token) not in running, "given back while it runs"
        if c.new.rest is None:
            assert c.new.due == self.clock.now(), "given back for later"
        else:
            assert c.new.rest == "dead"
            assert c.old.crashes >= MAX_CRASHES, "an innocent died"
            assert self.lane(c.old.lane)[1] == 1, "declared dead without having been tried alone"

    def _renewed(self, c: Change, verb: str, actor: Actor | None) -> None:
        assert c.old._replace(due=0) == c.new._replace(due=0), "a running row was changed by another than its owner"
        assert c.new.due == self.clock.now() + NAMES[c.name]
        assert c.old.due is not None
        assert c.old.token is not None
        cut = c.new.due < c.old.due
        owned = verb == "tick" and actor is not None and actor.number == c.old.token >> 32
        assert cut or owned, "renewed by another than its owner"

    def _changed_at_rest(self, c: Change, verb: str) -> None:
        old, new = c.old, c.new
        if verb == "cancel":
            assert old.due is not None or old.rest in ("held", "dead")
            assert new.rest == "cancelled"
        else:
            ended = old.rest == "done" and old.gone_at is not None and old.gone_at <= self.clock.now()
            assert verb in ("put", "raw"), "a row at rest was changed by a strange verb"
            assert old.rest in ("dead", "cancelled") or ended, "a key in use was overwritten"
            assert (new.attempts, new.crashes, new.claims) == (0, 0, 0)

    def _deleted(self, c: Change, verb: str, actor: Actor | None) -> None:
        old = c.old
        if old.token is not None:
            assert verb == "tick", "deleted by a strange verb"
            assert actor is not None
            assert old.token >> 32 == actor.number, "settled by another than its owner"
            ending = actor.endings.pop((c.id, old.token), None)
            assert ending is not None, "deleted without an end"
            assert ending.kind == "done", f"deleted although it {ending.kind}"
            assert old.key is None, "a key was forgotten"
            self.done += 1
        elif old.due is not None:
            raise AssertionError("a waiting task was deleted")
        elif old.gone_at is not None and old.gone_at <= self.clock.now():
            assert old.rest in ("done", "cancelled")
        else:
            assert (verb, old.rest, old.key) == ("cancel", "cancelled", None), "a task was deleted"

    def lane(self, id: int) -> tuple[str, int]:
        """Queue of a lane, and whether its tasks are tried alone."""
        if id not in self._lanes:
            self._lanes = {
                lane: (queue, alone)
                for lane, queue, alone in self.connection.execute("SELECT id, queue, alone FROM nextdue_lane")
            }
        return self._lanes[id]
