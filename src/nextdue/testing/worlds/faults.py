"""Dying at a statement: before it, in the middle of it, or after its commit and before its answer is known."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Literal

from nextdue.errors import StoreError
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.crashes import Killed

Where = Literal["before", "inside", "after"]
WHERES: tuple[Where, ...] = ("before", "inside", "inside", "after")
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
    """At which of the statements that pass some gates somebody dies.

    It is drawn for each statement by itself, so that a rare one kills as often as a common one: none more than twice,
    or a world might never come to rest.
    """

    def __init__(self, random: Random, likelihood: float) -> None:
        self._random, self._likelihood = random, likelihood
        self._planned: dict[str, set[int]] = {}
        self.passed: Counter[str] = Counter()
        """How often each statement was run."""
        self.met: set[tuple[str, Where]] = set()

    def meet(self, sql: str) -> Where | None:
        """Where in this statement, which is to be run next, its program dies, if it does."""
        draw = self._random
        if sql not in self._planned:
            most = draw.choice((1, 1, 4, 30))
            self._planned[sql] = {1 + draw.randrange(most) for _ in range(2) if draw.random() < self._likelihood}
        self.passed[sql] += 1
        if self.passed[sql] not in self._planned[sql]:
            return None
        where = draw.choice(WHERES)
        self.met.add((sql, where))
        return where

    def steps(self) -> int:
        """After how many instructions of SQLite's machine a statement is torn in its middle."""
        return self._random.choice((1, 5, 20, 200))


class Gate:
    """A connection each of whose statements may be the last, those inside of a transaction and its end too."""

    def __init__(self, connection: sqlite3.Connection, deaths: Deaths) -> None:
        self._connection, self._deaths = connection, deaths
        self.sprung = False
        """Whether it has killed: what is dead writes nothing."""

    @classmethod
    def of(cls, store: SqliteStore, deaths: Deaths) -> "Gate":
        """One between a store and its connection."""
        database: Any = store.database
        database.connection.execute("PRAGMA synchronous = OFF")
        database.connection = gate = cls(database.connection, deaths)
        return gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, params: Any = ()) -> sqlite3.Cursor:
        """Run one statement. Raises Killed."""
        if sql.startswith("PRAGMA synchronous="):
            return self._connection.execute("PRAGMA synchronous = OFF")
        return self.run(sql, lambda: self._connection.execute(sql, params))

    def run(self, sql: str, do: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        """Do it, which is to run this statement. Raises Killed."""
        if sql == "ROLLBACK":  # who dies in a transaction has not committed it
            return do()
        if self.sprung:
            raise Killed
        where = self._deaths.meet(sql)
        if where is None:
            return do()
        self.sprung = True
        if where == "before":
            raise Killed
        if where == "inside":
            self._connection.set_progress_handler(lambda: 1, self._deaths.steps())
        try:
            do()
        except sqlite3.Error as torn:
            raise Killed from torn
        finally:
            self._connection.set_progress_handler(None, 0)
        raise Killed


class Foreign(sqlite3.Connection):
    """A connection of a program's own, behind a gate."""

    gate: Gate

    @classmethod
    def to(cls, path: Path, deaths: Deaths) -> "Foreign":
        connection = sqlite3.connect(path, isolation_level=None, factory=cls)
        connection.execute("PRAGMA synchronous = NORMAL")  # OFF is refused
        connection.gate = Gate(connection, deaths)
        return connection

    def cursor(self, *args: Any) -> Any:
        return super().cursor(_Gated)


class _Gated(sqlite3.Cursor):
    connection: Foreign

    def execute(self, sql: str, params: Any = ()) -> "_Gated":
        gate = getattr(self.connection, "gate", None)
        run = super().execute
        return run(sql, params) if gate is None else gate.run(sql, lambda: run(sql, params))
