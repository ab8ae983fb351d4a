"""Transactions that aren't ours alone: connections for them, and the verbs that run inside of one."""

import contextlib
import logging
import os
import random
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from nextdue.clock import MAX_MS
from nextdue.due import Next, next_of
from nextdue.errors import BadTransaction, LeaseLost, StoreBusy
from nextdue.records import Claim, Put, Stored
from nextdue.sqlite.alarm import Bell
from nextdue.sqlite.database import PAGES
from nextdue.sqlite.store import SqliteStore
from nextdue.statements import load

log = logging.getLogger("nextdue")

PAGE = "tx.sql"
SQL = load("nextdue.sqlite", *PAGES, PAGE)
CHANGES = frozenset(("replace", "earliest", "extend"))
"""How a put may change the task that waits under its key."""
LONG_S = 1.0
"""A block that holds the write lock for longer is warned of: everybody else waits."""
_ENDS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:commit|end|rollback)\b(?!.*\bto\b)", re.IGNORECASE | re.DOTALL)

Params = Mapping[str, Any]
Values = Sequence[Any] | Mapping[str, Any]


class Wire(Protocol):
    """A connection with a transaction open, whoever's it is."""

    def execute(self, sql: str, params: Params) -> list[Any]:
        """Run one statement; its rows as sequences, none if it has none."""
        ...


class Finish(NamedTuple):
    """How a task settles itself: its result, what becomes of the row, and where its history ends."""

    ran_ms: int
    result: str | None = None
    result_ms: int | None = None
    """How long the result is kept whatever the history's bounds; None: as long as its line."""
    again_delay_ms: int | None = None
    again_due_ms: int | None = None
    """When the row is due again instead of ending: so long from now, or at this instant (UTC ms)."""
    keep_rows: int = 0
    keep_ms: int = 0
    now_ms: int | None = None


class Transaction:
    """What `with nd.transaction() as tx` gives: execute() and executemany() of sqlite3, while the block lasts.

    The connection is nextdue's own, in autocommit but for this block: the program's settings, like foreign_keys, and
    its SQL functions aren't there. It belongs to the thread of the block.
    """

    def __init__(self, connection: sqlite3.Connection, store: SqliteStore) -> None:
        self.store, self.path = store, store.database.path
        self._connection: sqlite3.Connection | None = connection
        self._given_up = False
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._calls: list[Callable[[], None]] = []
        self._settled: list[Callable[[], None]] = []
        self._purges = 0

    def __repr__(self) -> str:
        return f"<transaction on {self.path}{'' if self._connection else ', ended'}>"

    def execute(self, sql: str, params: Values = ()) -> sqlite3.Cursor:
        """Run one statement. Raises sqlite3.Error as it is, and BadTransaction outside of the block or its thread."""
        return self._checked(sql).execute(sql, params)

    def executemany(self, sql: str, params: Iterable[Values]) -> sqlite3.Cursor:
        """Run one statement for each set of values. Raises as execute() does."""
        return self._checked(sql).executemany(sql, params)

    def _checked(self, sql: str) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            raise BadTransaction(f"this transaction on {self.path} has ended with its block; begin another one")
        if os.getpid() != self._pid:
            raise BadTransaction("a forked child can't go on with its parent's transaction; let it leave the block")
        if threading.get_ident() != self._thread:
            raise BadTransaction("a transaction belongs to the thread of its block; each thread begins its own")
        if self._given_up:
            raise BadTransaction("what this transaction was for failed, so that it will be rolled back; end its block")
        if _ENDS.match(sql):
            raise BadTransaction("the end of the block commits, an exception rolls back; leave COMMIT and ROLLBACK out")
        if self._settled and "rollback" in sql.lower():  # to a savepoint, which may be older
            self._settled.clear()
        if not connection.in_transaction:  # else this would be committed by itself
            raise BadTransaction("a statement before this one, like INSERT OR ROLLBACK, rolled this transaction back")
        return connection

    def on_commit(self, call: Callable[[], None]) -> None:
        """Have this called after the commit; a rollback forgets it."""
        if call not in self._calls:
            self._calls.append(call)

    def settles(self) -> None:
        """One more task was settled here, so that more is to be purged before the commit."""
        self._purges += 1

    def purge(self) -> None:
        """At the end of the block: once for all that was settled in it."""
        if self._purges:
            store = self.store
            purge(self.execute, store.keep_rows, store.keep_ms, store.clock()["now"], self._purges)

    def on_settled(self, call: Callable[[], None]) -> None:
        """The same for who has settled a task here, unless something of the transaction is rolled back after that."""
        self._settled.append(call)

    def give_up(self) -> None:
        """Nothing of it may be committed, even if nobody raises."""
        self._given_up = True

    def calls(self) -> list[Callable[[], None]]:
        """What is to be called after the commit. Raises BadTransaction if it was given up."""
        if self._given_up:
            raise BadTransaction("what this transaction was for failed, so that it was rolled back")
        return [*self._calls, *self._settled]

    def close(self) -> None:
        """The block is over."""
        self._connection = None


class Connections:
    """The connections for transactions on one file: one for each that is open, the idle ones kept for the next."""

    def __init__(self, path: Path, make: Callable[[], SqliteStore]) -> None:
        self.path, self._make = path, make
        self._idle: deque[SqliteStore] = deque()
        self._here = threading.local()
        self._bell: Bell | None = None

    @contextmanager
    def use(self) -> Iterator[SqliteStore]:
        """A store for a moment, shared with nobody. Raises StoreError."""
        store = self._take()
        try:
            yield store
        finally:
            self._idle.append(store)

    def _take(self) -> SqliteStore:
        while True:
            try:
                store = self._idle.pop()
            except IndexError:
                store = self._make()
                store.database.sql = SQL
                return store
            if store.database.is_of_this_process():
                return store

    def open_here(self) -> bool:
        """Whether this thread is inside of a transaction of ours."""
        return getattr(self._here, "what", None) is not None

    @contextmanager
    def transaction(self, what: str) -> Iterator[tuple[Transaction, SqliteStore]]:
        """Hold the write lock for a block; `what` names it in errors and in the log."""
        if self.open_here():
            raise BadTransaction(
                f"{what} inside of {self._here.what} would wait for itself; work on with the outer one's tx"
            )
        tx: Transaction | None = None
        began = time.monotonic()
        with self.use() as store:
            self._here.what = what
            try:
                with store.database.transaction() as connection:
                    began = time.monotonic()
                    tx = Transaction(connection, store)
                    yield tx, store
                    calls = tx.calls()
                    tx.purge()
            finally:
                self._here.what = None
                if tx is not None:
                    tx.close()
                    warn_of_long(what, began)
        for call in calls:
            call()

    def ring(self) -> None:
        """Wake whoever waits for a task; to be called after the commit."""
        if self._bell is None:
            self._bell = Bell(self.path)
        self._bell.ring()

    def close(self) -> None:
        """Close the idle connections; the next use opens others."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()
        if self._bell is not None:
            self._bell.close()
            self._bell = None


def warn_of_long(what: str, began: float) -> None:
    """Say in the log that a block, begun at this monotonic second, kept everybody else waiting for too long."""
    took_s = time.monotonic() - began
    if took_s > LONG_S:
        log.warning("%s held the write lock for %.1f s; all others waited. Do what takes long before it", what, took_s)


def has_tables(path: Path) -> bool:
    """Whether the file holds our tables, as committed. Waits for nobody."""
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
        return connection.execute(SQL["tx_tables"]).fetchone() is not None


# verbs inside of a transaction


def put(wire: Wire, put: Put, now: int | None) -> Stored:
    """Store one task; it is there when the transaction commits."""
    if put.key is None:
        return Stored(put_many(wire, put, f"[{put.args}]", 1, now)[0], True, "waiting")
    _make_lane(wire, put)
    if put.period_ms is not None:
        put = _numbered(wire, put, now)
    params = {
        **_params(put, now),
        "key": put.key,
        "remember": put.remember_ms or 0,
        "args": put.args,
        "mode": put.mode,
        "latest": put.latest_ms,
    }
    found = wire.execute(SQL["tx_key"], params)
    if not found:
        wire.execute(SQL["tx_put"], params)
        return Stored(wire.execute(SQL["tx_did"], {})[0][1], True, "waiting")
    id, before = found[0]
    if before == "over":
        wire.execute(SQL["tx_unmark"], {"id": id})
        wire.execute(SQL["tx_revive"], {**params, "id": id})
        return Stored(id, True, "waiting")
    if before == "waiting" and put.mode in CHANGES:
        wire.execute(SQL["tx_follow"], {"id": id})
        wire.execute(SQL["tx_change"], {**params, "id": id})
    elif before == "running" and (put.mode in CHANGES or put.mode == "again"):
        wire.execute(SQL["tx_wish"], {**params, "id": id})
    return Stored(id, False, before)


def put_many(wire: Wire, like: Put, calls: str, count: int, now: int | None) -> range:
    """Store many tasks that differ in their arguments only; answers their ids."""
    if not count:
        return range(0)
    _make_lane(wire, like)
    wire.execute(SQL["put_many"], {**_params(like, now), "calls": calls})
    last = wire.execute(SQL["tx_did"], {})[0][1]
    return range(last - count + 1, last + 1)


def _params(put: Put, now: int | None) -> dict[str, Any]:
    return {
        "queue": put.queue,
        "name": put.name,
        "priority": put.priority,
        "due": put.due_ms,
        "delay": put.delay_ms,
        "expires": put.expires_ms,
        "expires_in": put.expires_in_ms,
        "grp": put.group,
        "now": now,
    }


def _numbered(wire: Wire, put: Put, now: int | None) -> Put:
    """A run on demand as a put of its period's key, as by put_on_demand."""
    period = put.period_ms or 1
    (number,) = wire.execute(SQL["tx_number"], {**_params(put, now), "key": put.key, "period": period})[0]
    return put._replace(key=f"{put.key}/{number}", due_ms=min((number + 1) * period, MAX_MS), delay_ms=0, mode="ignore")


def _make_lane(wire: Wire, put: Put) -> None:
    # Before the task, and not when it is found missing: a statement that fails may end the user's transaction.
    wire.execute(SQL["lane_add"], {"queue": put.queue, "name": put.name, "priority": put.priority})


def held(wire: Wire, claim: Claim) -> bool:
    """Whether the claim still stands."""
    return bool(wire.execute(SQL["tx_held"], {"id": claim.id, "token": claim.token}))


def lock(wire: Wire, claim: Claim) -> bool:
    """Take the write lock; whether the claim still stands. Then it does to the end of the transaction."""
    return bool(wire.execute(SQL["tx_lock"], {"id": claim.id, "token": claim.token}))


def lost(claim: Claim) -> LeaseLost:
    """The error for a claim that no longer stands."""
    return LeaseLost(
        f"{claim.name} #{claim.id}: its lease is lost, so nothing of this transaction was written; "
        "another worker runs the task, or did"
    )


def stop_asked(wire: Wire, claim: Claim) -> bool:
    """Whether a cancellation of the claimed task was asked for. Raises LeaseLost."""
    found = wire.execute(SQL["tx_held"], {"id": claim.id, "token": claim.token})
    if not found:
        raise lost(claim)
    return found[0][3] is not None


def rest(wire: Wire, claim: Claim, finish: Finish, until_ms: int | None) -> None:
    """The task's claim ends, in this transaction, and it rests: until then, or (None) until what it waits for is there.

    A next life that was asked for meanwhile begins instead, as when an attempt ends in any other way.
    """
    proof: dict[str, Any] = {"id": claim.id, "token": claim.token, "now": finish.now_ms}
    _, group, others_due, _ = wire.execute(SQL["tx_held"], proof)[0]
    line = {"outcome": "snoozed", "result": None, "keep": None}
    wire.execute(SQL["tx_run"], {**proof, **line, "keep_rows": finish.keep_rows, "ran": finish.ran_ms})
    if others_due is not None:
        wire.execute(SQL["tx_again"], {**proof, "again_delay": None, "again_due": None, "slot": None})
    else:
        wire.execute(SQL["tx_wait"], {**proof, "until": until_ms})
    _let_follow(wire, claim, group, finish)


def _let_follow(wire: Wire, claim: Claim, group: str | None, finish: Finish) -> None:
    """What every end of a claim does: let one of its group go."""
    if group is not None:
        wire.execute(SQL["tx_unblock"], {"name": claim.name, "grp": group, "now": finish.now_ms})


def purge(execute: Callable[[str, Params], object], keep_rows: int, keep_ms: int, now: int | None, count: int) -> None:
    """What every transaction does that settled so many: purge at most twice as much."""
    bounds = {"now": now, "keep_rows": keep_rows, "keep_ms": keep_ms, "count": count}
    for statement in ("tx_purge_kept", "tx_purge_runs", "tx_purge_results", "tx_purge_tasks"):
        execute(SQL[statement], bounds)


def settle(wire: Wire, claim: Claim, finish: Finish) -> bool:
    """The task is done, in this transaction. Whether to ring after the commit. Raises LeaseLost.

    As the tick does it: a line in the history, then the row is deleted, rests while it guards its key, or begins its
    next life. A cancellation that was asked for meanwhile ends a task that would go on for ever.
    """
    proof: dict[str, Any] = {"id": claim.id, "token": claim.token, "now": finish.now_ms}
    found = wire.execute(SQL["tx_held"], proof)
    if not found:
        raise lost(claim)
    key, group, others_due, stop = found[0]
    kept = {"keep_rows": finish.keep_rows, "keep": finish.result_ms}
    wire.execute(SQL["tx_run"], {**proof, **kept, "outcome": "done", "ran": finish.ran_ms, "result": finish.result})
    awaited = bool(wire.execute(SQL["tx_awaited"], {"id": claim.id, "now": finish.now_ms, "result": finish.result}))
    itself = stop is None and (finish.again_delay_ms is not None or finish.again_due_ms is not None)
    if claim.occurrence is not None:
        itself = _fired(wire, claim, finish if itself else None, others_due, proof)
    elif itself or others_due is not None:
        delay, due = (finish.again_delay_ms, finish.again_due_ms) if itself else (None, None)
        wire.execute(SQL["tx_again"], {**proof, "again_delay": delay, "again_due": due, "slot": None})
    else:
        wire.execute(SQL["tx_forget" if key is None else "tx_rest"], proof)
    _let_follow(wire, claim, group, finish)
    return itself or awaited or others_due is not None or group is not None


def _fired(wire: Wire, claim: Claim, again: Finish | None, declared: int | None, proof: dict[str, Any]) -> bool:
    """The same of a schedule's row: the next occurrence follows. Whether one does.

    `again` is what the task itself asked for, `declared` the due of a schedule that became another one meanwhile.
    """
    named = {"name": claim.name, "key": claim.key}
    wire.execute(SQL["tx_fired"], {**named, "scheduled_for": claim.scheduled_for, "counted": declared is None})
    if not wire.execute(SQL["tx_did"], {})[0][0]:
        wire.execute(SQL["tx_forget"], proof)
        return False
    if again is not None:
        following: Next | None = Next(again.again_due_ms, again.again_delay_ms, None)
    else:
        following = Next(None, None, None) if declared is not None else next_of(claim, random.random)
    if following is None:
        wire.execute(SQL["tx_rest"], proof)
        return False
    at, within, slot = following
    wire.execute(SQL["tx_again"], {**proof, "again_delay": within, "again_due": at, "slot": slot})
    if again is not None:
        wire.execute(SQL["tx_asked"], {"id": claim.id})
    wire.execute(SQL["tx_hold"], {**proof, **named})
    return True


@contextmanager
def translated() -> Iterator[None]:
    """A busy file as StoreBusy, whichever library says so; all other errors of the user's connection as they are."""
    try:
        yield
    except Exception as exc:
        code = _code(exc)
        if code == sqlite3.SQLITE_BUSY_SNAPSHOT:
            raise StoreBusy(
                "this transaction began by reading, and another connection has written since: SQLite can't let it "
                "write any more. Roll back and do it again; a transaction that begins with BEGIN IMMEDIATE, or with "
                "what it writes, is spared that"
            ) from exc
        if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreBusy("another connection held the write lock for longer than this one waits for it") from exc
        raise


def _code(exc: BaseException) -> int | None:
    """The SQLite code of an error, or of the one that a library wrapped."""
    for one in (exc, getattr(exc, "orig", None), exc.__cause__):
        code = getattr(one, "sqlite_errorcode", None)
        if isinstance(code, int):
            return code
    return None
