"""Dying at a statement: before it, in the middle of it, or after its commit and before its answer is known."""

import sqlite3
from typing import Any, Literal

from nextdue.errors import StoreError
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.crashes import Killed

Where = Literal["before", "inside", "after"]
Spring = tuple[Where, int, int]
"""What arm() takes."""


class Trap:
    """Stands between a store and its connection; once armed it kills at the n-th call from then."""

    def __init__(self, store: SqliteStore) -> None:
        database: Any = store.database
        self._connection = database.connection
        self._patiently, self._read, self._write = database._patiently, database.read, database.write
        self._countdown: int | None = None
        self._where: Where = "before"
        self._steps = 1
        # The clock is simulated, so no power cut is: waiting for the disk would show nothing.
        vars(database).update(
            _patiently=self.patiently,
            read=self.read,
            write=lambda name, params, durable=True: self._write(name, params, durable=False),
        )

    def arm(self, where: Where, nth: int, steps: int) -> None:
        """`steps`: after how many instructions of SQLite's machine a statement is torn in its middle."""
        self._where, self._countdown, self._steps = where, nth, steps

    def disarm(self) -> None:
        self._countdown = None

    def patiently(self, statement: str, params: Any) -> Any:
        if not self._springs():
            return self._patiently(statement, params)
        if self._where == "before":
            raise Killed
        if self._where == "inside":
            self._connection.set_progress_handler(lambda: 1, self._steps)
        try:
            self._patiently(statement, params)
        except StoreError as torn:
            raise Killed from torn
        raise Killed  # a statement too short to be torn is committed and nobody knows

    def read(self, name: str, params: Any) -> Any:
        if self._springs():
            raise Killed
        return self._read(name, params)

    def _springs(self) -> bool:
        if self._countdown is None:
            return False
        self._countdown -= 1
        return self._countdown < 0


class Deaths:
    """Which statements passed some gates, and at which of them somebody died."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.met: set[tuple[str, Where]] = set()


class Gate:
    """A connection each of whose statements may be the last, those inside of a transaction and its end too."""

    def __init__(self, store: SqliteStore, deaths: Deaths) -> None:
        self._deaths = deaths
        database: Any = store.database
        self._connection: sqlite3.Connection = database.connection
        self._connection.execute("PRAGMA synchronous = OFF")
        self._where: Where = "before"
        self._countdown: int | None = None
        self._steps = 1
        database.connection = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def arm(self, where: Where, nth: int, steps: int) -> None:
        """As Trap.arm()."""
        self._where, self._countdown, self._steps = where, nth, steps

    def disarm(self) -> None:
        """No death is near, unless it has happened: what is dead writes nothing."""
        if not self.sprung:
            self._countdown = None

    @property
    def sprung(self) -> bool:
        """Whether it has killed."""
        return self._countdown is not None and self._countdown < 0

    def execute(self, sql: str, params: Any = ()) -> sqlite3.Cursor:
        """Run one statement. Raises Killed."""
        if sql.startswith("PRAGMA synchronous"):
            return self._connection.execute("PRAGMA synchronous = OFF")
        if sql == "ROLLBACK":  # who dies in a transaction has not committed it
            return self._connection.execute(sql, params)
        self._deaths.passed.add(sql)
        if self._countdown is None:
            return self._connection.execute(sql, params)
        if self._countdown < 0:
            raise Killed
        self._countdown -= 1
        if self._countdown >= 0:
            return self._connection.execute(sql, params)
        self._deaths.met.add((sql, self._where))
        if self._where == "before":
            raise Killed
        if self._where == "inside":
            self._connection.set_progress_handler(lambda: 1, self._steps)
        try:
            self._connection.execute(sql, params)
        except sqlite3.Error as torn:
            raise Killed from torn
        finally:
            self._connection.set_progress_handler(None, 0)
        raise Killed
