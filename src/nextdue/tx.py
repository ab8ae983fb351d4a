"""Transactions of the user's own: sqlite3, SQLAlchemy 2 and Django, each behind the same few words.

None of these libraries is imported here unless the object that the user gives is of it.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from nextdue.errors import BadTransaction
from nextdue.sqlite.tx import Transaction

T = TypeVar("T")
Params = Mapping[str, Any]

KINDS = (
    "nd.transaction()'s, a sqlite3.Connection, a Session or Connection of SQLAlchemy, or django.db.connection inside "
    "of atomic()"
)


class Guest(Protocol):
    """A transaction of the user's, as we need it."""

    def is_open(self) -> bool:
        """Whether what is written now waits for the user's commit."""
        ...

    def execute(self, sql: str, params: Params) -> list[Any]:
        """Run one statement; its rows, none if it has none."""
        ...

    def on_commit(self, call: Callable[[], None]) -> None:
        """Have this called after the commit, where the library can do that."""
        ...

    def roll_back(self) -> None:
        """See to it that nothing of the transaction is committed."""
        ...


def guest(tx: Any) -> Guest:
    """The user's transaction behind our words. Raises BadTransaction for what is none."""
    if isinstance(tx, Transaction):
        return _Own(tx)
    if isinstance(tx, sqlite3.Connection):
        return _Plain(tx)
    if is_async(tx):
        raise BadTransaction(
            f"tx is an {type(tx).__name__}, which can't be used without await: write await ....aenqueue(...), or "
            "async with ctx.finish(tx=...), or do it inside of tx.run_sync(...)"
        )
    libraries = _libraries(tx)
    if "sqlalchemy" in libraries:
        return _alchemy(tx)
    if "django" in libraries and hasattr(tx, "vendor"):
        return _Django(tx)
    raise BadTransaction(f"tx must be a transaction: {KINDS}; not {type(tx).__name__}")


def is_async(tx: Any) -> bool:
    """Whether it is one of SQLAlchemy's, to be awaited."""
    return hasattr(tx, "run_sync") and any(c.__module__.startswith("sqlalchemy.ext.asyncio") for c in type(tx).__mro__)


async def awaited(tx: Any, call: Callable[[Any], T]) -> T:
    """`call(tx)`, where tx may be one to be awaited: then the call gets what is inside of it."""
    if is_async(tx):
        answer: T = await tx.run_sync(call)
        return answer
    return call(tx)


def _libraries(tx: Any) -> set[str]:
    return {kind.__module__.partition(".")[0] for kind in type(tx).__mro__}


class _Own:
    """A transaction of `nd.transaction()` or `ctx.finish()`."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def is_open(self) -> bool:
        return True  # or execute() says why it isn't

    def execute(self, sql: str, params: Params) -> list[Any]:
        return self.tx.execute(sql, params).fetchall()

    def on_commit(self, call: Callable[[], None]) -> None:
        self.tx.on_commit(call)

    def roll_back(self) -> None:
        self.tx.give_up()


class _Plain:
    """A connection of the standard library. It has no word for "after the commit": the watch on the WAL wakes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def is_open(self) -> bool:
        return is_open(self.connection)

    def execute(self, sql: str, params: Params) -> list[Any]:
        cursor = self.connection.cursor()
        cursor.row_factory = None  # the user's may make anything of a row
        return [tuple(map(_text, row)) for row in cursor.execute(sql, params).fetchall()]

    def on_commit(self, call: Callable[[], None]) -> None:
        pass

    def roll_back(self) -> None:
        self.connection.rollback()


class _Alchemy:
    """A connection of SQLAlchemy, and the session that it is of, if any."""

    def __init__(self, tx: Any, connection: Any, session: Any) -> None:
        self._tx, self._connection, self._session = tx, connection, session

    def is_open(self) -> bool:
        return is_open(self._connection.connection.driver_connection)

    def execute(self, sql: str, params: Params) -> list[Any]:
        result = self._connection.exec_driver_sql(sql, dict(params) or None)
        return [tuple(map(_text, row)) for row in result.fetchall()] if result.returns_rows else []

    def on_commit(self, call: Callable[[], None]) -> None:
        if self._session is None:
            return  # the event of a Connection comes before its commit
        from sqlalchemy import event

        calls = self._session.info.setdefault("nextdue", [])
        if call not in calls:  # after many roll-backs there is still but one
            calls.append(call)
        if not event.contains(self._session, "after_commit", _committed):
            event.listen(self._session, "after_commit", _committed)

    def roll_back(self) -> None:
        self._tx.rollback()


def _alchemy(tx: Any) -> _Alchemy:
    from sqlalchemy.engine import Connection
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(tx, scoped_session):
        tx = tx()
    if isinstance(tx, Session):
        connection, session = tx.connection(), tx
    elif isinstance(tx, Connection):
        if tx.closed:
            raise BadTransaction("tx is a connection that was closed")
        connection, session = tx, None
    else:
        raise BadTransaction(f"tx must be a Session or a Connection of SQLAlchemy, not {type(tx).__name__}")
    if connection.dialect.name != "sqlite":
        raise BadTransaction(f"tx is a connection to {connection.dialect.name}; tasks lie in an SQLite file")
    return _Alchemy(tx, connection, session)


def _committed(session: Any) -> None:
    if session.in_nested_transaction():
        return  # a savepoint; the transaction goes on
    calls = session.info.pop("nextdue", [])
    for call in calls:
        call()


class _Django:
    """A connection of Django, inside of atomic()."""

    def __init__(self, connection: Any) -> None:
        if connection.vendor != "sqlite":
            raise BadTransaction(f"tx is a connection to {connection.vendor}; tasks lie in an SQLite file")
        self._connection = connection

    def is_open(self) -> bool:
        # Even if it is, one in which a query failed can only be rolled back: Django says so by its own error.
        self._connection.validate_thread_sharing()
        self._connection.validate_no_broken_transaction()
        return bool(self._connection.in_atomic_block)

    def execute(self, sql: str, params: Params) -> list[Any]:
        # Below Django's cursor, which reads every % as a place for a value.
        return _Plain(self._connection.connection).execute(sql, params)

    def on_commit(self, call: Callable[[], None]) -> None:
        self._connection.on_commit(call)

    def roll_back(self) -> None:
        if self._connection.in_atomic_block:
            self._connection.set_rollback(True)


def is_open(connection: Any) -> bool:
    """Whether a sqlite3 connection has a transaction open, or opens one before it writes.

    By default (`isolation_level=""`) it begins one before an INSERT, ours too. Without that, or with the autocommit of
    Python 3.12, only the user can.
    """
    legacy = getattr(connection, "autocommit", -1) not in (True, False)
    return bool(connection.in_transaction) or (legacy and connection.isolation_level is not None)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
