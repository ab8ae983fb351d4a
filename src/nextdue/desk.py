"""The desk: what is asked of the store inside of transactions and by running tasks, from any thread.

An application has one, and so may a child process that has nothing but the path and a way to open the store.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from nextdue.errors import BadTransaction, NotAStore
from nextdue.executors.steps import Resting
from nextdue.records import Claim, Mark, Put, Stored
from nextdue.sqlite import files, marks
from nextdue.sqlite import tx as verbs
from nextdue.sqlite.store import SqliteStore
from nextdue.sqlite.tx import Connections, Finish, Transaction
from nextdue.task import Cancelled
from nextdue.tx import Guest, awaited, guest, is_async

log = logging.getLogger("nextdue")

OFF, NORMAL = 0, 1
"""PRAGMA synchronous."""
Again = tuple[int | None, int | None]
"""When a task that settles itself is due again: a delay in ms, or an instant in UTC ms."""
Tell = Callable[[str | None], None]


class Desk:
    """executors.context.Desk, and the transactions of an application."""

    def __init__(self, path: Path, make_store: Callable[[], SqliteStore]) -> None:
        self.path = path
        self.connections = Connections(path, make_store)
        self._warned = self._ready = False

    def close(self) -> None:
        """Close the idle connections."""
        self.connections.close()

    # putting tasks in a transaction

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction on a connection of ours."""
        with self.connections.transaction("nd.transaction()") as (tx, _):
            yield tx

    def refuse_inside(self) -> None:
        """Raise BadTransaction where this would wait for a transaction of this thread, as a put without tx= does."""
        if self.connections.open_here():
            raise BadTransaction(
                "this thread is inside of a transaction, for whose end this would wait; do it before the block or "
                "after it, or put there by .using(tx=tx)"
            )

    def put(self, tx: object, put: Put) -> Stored:
        """Store one task in the user's transaction. Raises BadTransaction, StoreError and what refuse_after() does."""
        with self._guest(tx) as (one, store):
            if put.after:
                marks.refuse_after(one, put)
            stored = verbs.put(one, put, _now(store))
            if put.after and stored.created:
                marks.come_after(one, range(stored.id, stored.id + 1), put, _now(store))
            one.on_commit(self.connections.ring)
        return stored

    def put_many(self, tx: object, like: Put, calls: str, count: int) -> range:
        """Store many tasks in the user's transaction. Raises as put() does."""
        with self._guest(tx) as (one, store):
            if like.after:
                marks.refuse_after(one, like)
            ids = verbs.put_many(one, like, calls, count, _now(store))
            if like.after and ids:
                marks.come_after(one, ids, like, _now(store))
            one.on_commit(self.connections.ring)
        return ids

    def send(self, tx: object, event: str, data: str | None, keep_ms: int) -> bool:
        """Send an event in the user's transaction; False if it was sent before."""
        with self._guest(tx) as (one, store):
            sent = marks.send(one, event, data, keep_ms, _now(store))
            one.on_commit(self.connections.ring)
        return sent

    @contextmanager
    def _guest(self, tx: object) -> Iterator[tuple[Guest, SqliteStore]]:
        with verbs.translated():
            one = guest(tx)
            if isinstance(tx, Transaction):
                if not _same_file(tx.path, self.path):
                    raise self._another(tx.path)
                yield one, tx.store
                return
            self._check(one)
            with self.connections.use() as store:
                store.database.check_file()
                yield one, store

    def _check(self, one: Guest) -> None:
        """Whether tasks put there are as safe as any: the same file, a transaction, commits that are on disk.

        Nothing is read from the file: a transaction that began by reading may be unable to write.
        """
        try:
            if not one.is_open():
                raise BadTransaction(
                    "tx has no transaction open, so that the task would be stored at once, whatever becomes of your "
                    "rows; begin one (BEGIN IMMEDIATE, atomic()), or leave tx out"
                )
            file = next(row[2] for row in one.execute(verbs.SQL["tx_file"], {}) if row[1] == "main")
            synchronous = one.execute(verbs.SQL["tx_synchronous"], {})[0][0]
        except sqlite3.ProgrammingError as exc:  # closed, or another thread's
            raise BadTransaction(f"tx can't be used: {exc}") from exc
        if not file or not _same_file(Path(file), self.path):
            raise self._another(file or "a database in memory")
        if synchronous == OFF:
            raise BadTransaction(
                "tx writes with PRAGMA synchronous=OFF, so that a power cut may lose or damage what was committed; "
                "set it to FULL"
            )
        self._ready = self._ready or verbs.has_tables(self.path)
        if not self._ready:
            raise NotAStore(
                f"{self.path} holds no tables of nextdue yet, and they aren't made inside of your transaction: "
                "let the program put or look at something before, like nd.find() at its start"
            )
        if synchronous == NORMAL and not self._warned:
            self._warned = True
            log.warning("tx writes with PRAGMA synchronous=NORMAL: after a power cut its last commits may be missing")

    def _another(self, file: object) -> BadTransaction:
        return BadTransaction(
            f"tx is a transaction on {file}, the tasks are kept in {self.path}; only one file commits at once"
        )

    # what running tasks ask

    def extend(self, claim: Claim, ms: int) -> None:
        """Move the end of the claim's lease to at least `ms` from now. Raises as mark() does, and LeaseLost."""
        if not claim.id:
            return  # called by hand, without a worker
        self._refuse_inside(claim, "extend()")
        with self.connections.use() as store:
            params = {"id": claim.id, "token": claim.token, "ms": ms, "now": _now(store)}
            if store.database.write("tx_extend", params, durable=False).rowcount == 0:
                raise verbs.lost(claim)

    def holds(self, claim: Claim) -> bool:
        """Whether the claim still stands, as committed. Raises StoreError."""
        with self.connections.use() as store:
            return store.database.read("tx_held", {"id": claim.id, "token": claim.token}) is not None

    def mark(self, claim: Claim, label: str) -> Mark | None:
        """What is marked under this label. Raises StoreError; BadTransaction where a mark would wait for itself."""
        if not label.startswith("@"):
            self._refuse_inside(claim, f"step {label!r}")
        with self.connections.use() as store:
            return marks.read(store, claim, label)

    def _refuse_inside(self, claim: Claim, what: str) -> None:
        if self.connections.open_here():
            raise BadTransaction(
                f"{claim.name} #{claim.id}: {what} inside of a transaction of this thread would wait for its end; make "
                "it before the block or after it"
            )

    def begin(self, claim: Claim, label: str, how: str) -> None:
        """An effect is about to go out. Raises LeaseLost or StoreError."""
        with self.connections.use() as store:
            marks.begin(store, claim, label, how)

    def end(self, claim: Claim, label: str, result: str | None, problem: str | None) -> None:
        """It is out. Raises LeaseLost or StoreError, and BadTransaction as mark() does."""
        self._refuse_inside(claim, "a wait" if label.startswith("@") else f"step {label!r}")
        with self.connections.use() as store:
            marks.end(store, claim, label, result, problem)

    def withdraw(self, claim: Claim, label: str) -> None:
        """It did not go out. Raises StoreError."""
        with self.connections.use() as store:
            marks.withdraw(store, claim, label)

    def identity(self, claim: Claim) -> tuple[int, str] | None:
        """When the task was put (UTC ms), and the id that its store had then; None if it is gone."""
        with self.connections.use() as store:
            return marks.identity(store, claim.id)

    def results(self, claim: Claim) -> list[str | None]:
        """What the tasks returned that this one comes after, as JSON."""
        with self.connections.use() as store:
            return marks.results(store, claim.id)

    def wait(self, claim: Claim, label: str, event: str | None, ms: int | None, *, tell: Tell, begun_ns: int) -> Mark:
        """Wait for an event, at most `ms`, or for so long: the mark if that is over.

        Else the claim ends, the task rests, and Resting is raised; `tell` hears "open" and then "settled", or None.
        Raises LeaseLost, Cancelled or StoreError.
        """
        tell("open")
        rests = False
        try:
            with self.connections.transaction(f"a wait of {claim.name} #{claim.id}") as (tx, store):
                one, now = guest(tx), _now(store)
                stopped = verbs.stop_asked(one, claim)
                mark, until = marks.wait(one, claim, label, event, ms, now)
                rests = mark.done_ms is None and not stopped
                if rests:
                    ran_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
                    line = Finish(ran_ms, keep_rows=store.keep_rows, keep_ms=store.keep_ms, now_ms=now)
                    verbs.rest(one, claim, line, until)
                    tx.settles()
                    one.on_commit(self.connections.ring)
        except BaseException:
            tell(None)
            raise
        if stopped:
            tell(None)
            raise Cancelled(f"{claim.name} #{claim.id}: its cancellation was asked for")
        if not rests:
            tell(None)
            return mark
        tell("settled")
        raise Resting(f"{claim.name} #{claim.id} rests; this is no failure, let it pass")

    def finish(
        self,
        claim: Claim,
        tx: object,
        *,
        tell: Tell,
        begun_ns: int,
        result: str | None = None,
        result_ms: int | None = None,
        again: Again = (None, None),
    ) -> "Finishing":
        """The user's rows and the completion of the claim in one commit: a context manager, also for `async with`.

        `tell` hears what becomes of it: "open"; then "settled" (committed), "pending" (it is now the user's to
        commit; "settled" follows if it is a transaction of ours), or None (rolled back).
        """

        def end(store: SqliteStore) -> Finish:
            ran_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
            return Finish(ran_ms, result, result_ms, *again, store.keep_rows, store.keep_ms, _now(store))

        return Finishing(self, claim, tx, end, tell)

    @contextmanager
    def own_finish(self, claim: Claim, end: Callable[[SqliteStore], Finish]) -> Iterator[Transaction]:
        """finish() in a transaction of ours."""
        with self.connections.transaction(f"finish() of {claim.name} #{claim.id}") as (tx, store):
            one = guest(tx)
            # The write lock is ours: who holds the claim now holds it to the end.
            if claim.id and not verbs.held(one, claim):
                raise verbs.lost(claim)
            yield tx
            self._settle(one, claim, tx, end(store))

    def _settle(self, one: Guest, claim: Claim, tx: object, finish: Finish) -> None:
        if not claim.id:
            return  # called by hand
        if verbs.settle(one, claim, finish):
            one.on_commit(self.connections.ring)
        if isinstance(tx, Transaction):
            tx.settles()
        else:
            verbs.purge(one.execute, finish.keep_rows, finish.keep_ms, finish.now_ms, 1)

    def guest_check(self, claim: Claim, tx: object) -> None:
        """Before the block of a finish() in the user's transaction."""
        with self._guest(tx) as (one, _):
            holds = verbs.held if isinstance(tx, Transaction) else verbs.lock  # ours began with the write lock
            if claim.id and not holds(one, claim):
                one.roll_back()
                if self.holds(claim):
                    raise BadTransaction(
                        f"{claim.name} #{claim.id}: a task finishes once, and did so in this transaction"
                    )
                raise verbs.lost(claim)

    def guest_settle(self, claim: Claim, tx: object, end: Callable[[SqliteStore], Finish], tell: Tell) -> None:
        """After that block. Whatever goes wrong rolls the user's transaction back."""
        try:
            with self._guest(tx) as (one, store):
                self._settle(one, claim, tx, end(store))
                if isinstance(tx, Transaction):  # of others nobody says for sure what was committed
                    tx.on_settled(lambda: tell("settled"))
        except BaseException:
            guest(tx).roll_back()
            raise


class Finishing:
    """`with ctx.finish() as tx:`, and the same with `async with` for SQLAlchemy's AsyncSession and AsyncConnection."""

    def __init__(self, desk: Desk, claim: Claim, tx: object, end: Callable[[SqliteStore], Finish], tell: Tell) -> None:
        self._desk, self._claim, self._tx, self._end, self._tell = desk, claim, tx, end, tell
        self._own = desk.own_finish(claim, end) if tx is None else None
        self._began = 0.0

    def __enter__(self) -> Any:
        self._tell("open")
        try:
            self._began = time.monotonic()
            if self._own is not None:
                return self._own.__enter__()
            self._desk.guest_check(self._claim, self._tx)
        except BaseException:
            self._tell(None)
            raise
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = None
        try:
            if self._own is not None:
                self._own.__exit__(kind, exc, trace)
            elif exc is not None:
                guest(self._tx).roll_back()
            else:
                self._desk.guest_settle(self._claim, self._tx, self._end, self._tell)
            ending = None if exc is not None else "pending" if self._own is None else "settled"
        finally:
            self._tell(ending)
        self._warn()

    async def __aenter__(self) -> Any:
        if not is_async(self._tx):
            return self.__enter__()
        self._tell("open")
        try:
            self._began = time.monotonic()
            await awaited(self._tx, lambda tx: self._desk.guest_check(self._claim, tx))
        except BaseException:
            self._tell(None)
            raise
        return self._tx

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not is_async(self._tx):
            self.__exit__(kind, exc, trace)
            return
        ending = None
        try:
            if exc is not None:
                await awaited(self._tx, lambda tx: guest(tx).roll_back())
            else:
                await awaited(self._tx, lambda tx: self._desk.guest_settle(self._claim, tx, self._end, self._tell))
                ending = "pending"
        finally:
            self._tell(ending)
        self._warn()

    def _warn(self) -> None:
        if self._own is None:  # else the connection's own block did
            verbs.warn_of_long(f"finish() of {self._claim.name} #{self._claim.id}", self._began)


def _same_file(one: Path, other: Path) -> bool:
    if one == other:
        return True
    first, second = files.identity(one), files.identity(other)
    return first is not None and first == second


def _now(store: SqliteStore) -> int | None:
    return store.clock()["now"]
