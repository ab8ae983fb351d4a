"""One connection to the file: how we write, wait, notice that the file is gone, and bound the WAL."""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nextdue.errors import (
    NextdueError,
    NotAStore,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreGone,
    StoreMissing,
    StoreReadOnly,
    Unsupported,
)
from nextdue.sqlite import files, forks
from nextdue.sqlite.migrate import migrate
from nextdue.statements import load

OLDEST = (3, 38, 0)
"""The `->` operators of JSON came with 3.38."""
WAIT_S = 5.0
"""How long to wait for the write lock."""
RETRY_S = 0.000_1
"""SQLite's own ladder of pauses starves some of several busy writers; short equal ones don't."""
WAL_BYTES = 4 << 20
"""The size at which the WAL is moved into the database."""
LOOK_EVERY = 8
PAGES = ("statements.sql", "caller.sql", "worker.sql", "limits.sql")
"""The SQL of the store; other pages are brought when they are needed."""

Params = Mapping[str, Any]


def wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Whether this SQLite can corrupt a file when two checkpoints race a WAL reset (3.7.0 to 3.51.2).

    Fixed in 3.51.3, and in 3.50.7 and 3.44.6 of the older series.

    >>> wal_reset_bug((3, 40, 1)), wal_reset_bug((3, 44, 6)), wal_reset_bug((3, 51, 3))
    (True, False, False)
    """
    if version[:2] in ((3, 44), (3, 50)):
        return version < ((3, 44, 6) if version[1] == 44 else (3, 50, 7))
    return (3, 7, 0) <= version < (3, 51, 3)


class LaneMissing(StoreError):
    """A task was put into a lane that isn't there yet; nothing was written."""


class Database:
    """A connection of our own. Used by one thread at a time, and only in the process that opened it.

    `look`: nothing will be written. A file that nobody works on, such as a backup, isn't changed then, nor anything
    put beside it.
    """

    def __init__(self, path: Path, *, create: bool, look: bool = False) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise Unsupported(f"SQLite {sqlite3.sqlite_version} is too old; nextdue needs 3.38 or newer")
        files.refuse_shared(path)
        if create:
            files.create(path)
        elif not path.exists():
            raise StoreMissing(f"there is no file {path}; the application makes it when it first puts a task")
        self.path = path
        self.at_rest = look and not files.is_wal(path)
        """Opened read-only, for nobody works on it."""
        self.wal = files.beside(path, "-wal")
        self.sql = load("nextdue.sqlite", *PAGES)
        self._pages: set[str] = set()
        self.waited: Callable[[float], None] = lambda ms: None
        self._pid = os.getpid()
        self._full: bool | None = None
        self._commits = self._wal_size = 0
        self._lent = False
        self._status, self._wal_status = files.status_of(path), files.status_of(self.wal)
        self._wal_limit = WAL_BYTES
        self._careful = wal_reset_bug(sqlite3.sqlite_version_info)
        self._second: sqlite3.Connection | None = None
        self._file = files.identity(path)
        self._wal_file: files.Identity | None = None
        if forks.severed(path):
            raise self._gone()
        self.using = threading.RLock()
        with forks.gate, self.using:
            forks.guard(self)
            self._open(create)

    def _open(self, create: bool) -> None:
        self.connection = self._connect()
        try:
            migrate(self.connection, self.path, create=create)
            self.connection.executescript(self.sql["caller_setup"])
            self._wal_file = files.identity(self.wal)
        except sqlite3.Error as exc:
            self.connection.close()
            raise self._translated(exc) from exc
        except NextdueError:
            self.connection.close()
            raise
        forks.opened(self)

    # using it

    def write(self, name: str, params: Params | Callable[[], Params], *, durable: bool = True) -> sqlite3.Cursor:
        """Run one statement that writes, in autocommit. On return it is on disk if `durable`.

        Waits for the write lock at most 5 s. `params` may be a function: it is asked anew for each try.
        Raises StoreError; then nothing was written, or (StoreGone) it was written to a file that is no more.
        """
        # As few calls as can be: just after a wait for the disk each costs a microsecond and a half.
        if self._pid != os.getpid():
            raise self._forked()
        if self.connection.in_transaction:
            self._end_transaction()
        if durable is not self._full:
            with self.using:
                self.connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._full = durable
        cursor = self._patiently(self.sql[name], params)
        if self._moved():
            raise self._gone()
        self._commits += 1
        if self._careful and self._commits % LOOK_EVERY == 0:
            with self.using:
                self._checkpoint()
        return cursor

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock for a block: COMMIT at its end, ROLLBACK if it raises. After that it is on disk.

        Waits for the lock at most 5 s. Raises StoreError; then nothing was written, or as write() says.
        """
        self._refuse_fork()
        with self.using:  # to the end, for a child forked in between would book the write lock as taken for ever
            self._roll_back()
            if self._full is not True:
                self.connection.execute("PRAGMA synchronous=FULL")
                self._full = True
            self._patiently("BEGIN IMMEDIATE", {})
            self._lent = True
            try:
                yield self.connection
                self._refuse_fork()
                if not self.connection.in_transaction:
                    raise StoreError(f"{self.path}: a statement of the block rolled its transaction back")
                try:
                    self.connection.execute("COMMIT")
                except sqlite3.Error as exc:
                    raise self._translated(exc) from exc
            finally:
                self._lent = False
                self._roll_back()
            if self._moved():
                raise self._gone()
            self._commits += 1
            if self._careful:
                self._checkpoint()

    def in_transaction(self) -> bool:
        """Whether a block of transaction() is open on it. A backup's snapshot is none: no child misses its lock."""
        return self._lent

    def is_of_this_process(self) -> bool:
        """Whether it was opened here, and not before a fork."""
        return self._pid == os.getpid()

    def bring(self, page: str) -> bool:
        """Have the statements of one more page at hand; whether it is new here, so that its setup is yet to be run."""
        if page in self._pages:
            return False
        self._pages.add(page)
        self.sql = {**self.sql, **load("nextdue.sqlite", page)}
        return True

    def script(self, name: str) -> None:
        """Run statements that touch only this connection's temporary objects."""
        with self.using:
            self.connection.executescript(self.sql[name])

    def run(self, name: str, params: Params) -> None:
        """Run one statement that needs no lock of its own: on temporary tables, or within transaction()."""
        self._refuse_fork()
        self._patiently(self.sql[name], params)

    def read(self, name: str, params: Params) -> Any:
        """The first row of a statement that only reads, or None."""
        self._refuse_fork()
        try:
            with self.using:
                return self.connection.execute(self.sql[name], params).fetchone()
        except sqlite3.Error as exc:
            raise self._translated(exc) from exc

    def rows(self, name: str, params: Params) -> list[Any]:
        """All rows of a statement that only reads."""
        self._refuse_fork()
        try:
            with self.using:
                return self.connection.execute(self.sql[name], params).fetchall()
        except sqlite3.Error as exc:
            raise self._translated(exc) from exc

    def quiet(self) -> bool:
        """Whether nobody's commit is in flight: the write lock can be had at once."""
        self._refuse_fork()
        with self.using:  # to the end, for a child forked in between would book the write lock as taken for ever
            try:
                self.connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as exc:
                if is_busy(exc):
                    return False
                raise self._translated(exc) from exc
            finally:
                self._roll_back()
        return True

    def close(self) -> None:
        """Close; an inherited connection is left alone, for closing it would drop the locks of this process."""
        if self._pid != os.getpid():
            return
        with self.using:
            if self._moved():
                forks.keep(self)
                return
            try:
                if self._careful:
                    self._checkpoint()
            finally:
                if self._second is not None:
                    self._second.close()
                self.connection.close()
                forks.closed(self)

    def __del__(self) -> None:
        # For those who never call close(): Python 3.13 and later warn of a connection that is merely forgotten.
        with contextlib.suppress(Exception):
            self.close()

    # what it rests on

    def _connect(self) -> sqlite3.Connection:
        name = f"file:{quote(os.fsencode(self.path))}?mode=ro" if self.at_rest else self.path
        try:
            connection = sqlite3.connect(
                name, timeout=0, isolation_level=None, check_same_thread=False, uri=self.at_rest
            )
        except sqlite3.Error as exc:
            raise self._translated(exc) from exc
        if not self.at_rest:
            self._begin_wal(connection)
        # Any program may have written text that isn't UTF-8; it must not end the worker that reads it.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        if self._careful:
            connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
        connection.execute("PRAGMA temp_store=MEMORY")
        return connection

    def _begin_wal(self, connection: sqlite3.Connection) -> None:
        begun = time.monotonic()
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
                break
            except sqlite3.Error as exc:
                if is_busy(exc) and time.monotonic() - begun < WAIT_S:
                    time.sleep(RETRY_S * 10)
                    continue
                connection.close()
                raise self._translated(exc) from exc
        if mode != "wal":
            connection.close()
            raise Unsupported(f"{self.path}: SQLite answered journal mode {mode!r} instead of WAL; use a local disk")

    def _patiently(self, statement: str, params: Params | Callable[[], Params]) -> sqlite3.Cursor:
        begun = 0.0
        while True:
            given = params() if callable(params) else params
            try:
                with self.using:
                    return self.connection.execute(statement, given)
            except sqlite3.Error as exc:
                begun = begun or time.monotonic()
                if not is_busy(exc) or time.monotonic() - begun > WAIT_S:
                    raise self._translated(exc) from exc
                time.sleep(RETRY_S)
                self.waited((time.monotonic() - begun) * 1000)

    def _end_transaction(self) -> None:
        """End a transaction that an interrupted checkpoint left open; one that is going on is not ours to end."""
        if self.using._is_owned():  # type: ignore[attr-defined]
            # A signal handler, or a finalizer, in the middle of a checkpoint: what it wrote would be rolled back.
            raise StoreError(f"{self.path}: this thread is in the middle of writing to it; put it a little later")
        self._roll_back()

    def _forked(self) -> StoreError:
        return StoreError("this connection was opened before a fork; a forked child needs one of its own")

    def _refuse_fork(self) -> None:
        if self._pid != os.getpid():
            raise self._forked()

    def check_file(self) -> None:
        """Raise StoreGone if the path no longer leads to the file that is open.

        An unlinked or replaced file takes commits silently; whoever is told OK must find them by the path.
        """
        if self._moved():
            raise self._gone()

    def _moved(self) -> bool:
        file, wal = self._status(), self._wal_status()
        self._wal_size = wal[2] if wal else 0
        return (file and file[:2]) != self._file or (self._wal_file is not None and (wal and wal[:2]) != self._wal_file)

    def _gone(self) -> StoreGone:
        return StoreGone(
            f"{self.path} (or its -wal) was deleted, moved or replaced while it was open; what was just written, if "
            "anything, went to the old file. Put the file back; or, to begin with another one, end all programs that "
            f"use it and delete {self.wal.name} and {self.path.name}-shm: SQLite would write the old commits into it"
        )

    def _checkpoint(self) -> None:
        """Move the WAL into the database while nobody can write, on SQLite versions with the WAL-reset bug."""
        size = self._wal_size
        if size <= self._wal_limit:  # journal_size_limit leaves the file at just this size when the WAL begins anew
            return
        self._wal_limit = size + WAL_BYTES  # what fails now is tried again when the WAL has grown by as much
        try:
            self._second = self._second or self._connect()
            self.connection.execute("BEGIN IMMEDIATE")
            _, frames, moved = self._second.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if frames == moved:
                self._wal_limit = WAL_BYTES
        except sqlite3.Error as exc:
            if is_busy(exc):
                self._wal_limit = size - 1  # somebody writes; the next commit looks again
        except StoreError:
            return
        finally:
            self._roll_back()

    def _roll_back(self) -> None:
        """End our own transaction, if one is open, whatever interrupted us; an inherited one is the parent's."""
        if self._pid == os.getpid() and self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _translated(self, exc: sqlite3.Error) -> StoreError:
        """The sqlite3 error as one of ours."""
        code = getattr(exc, "sqlite_errorcode", 0) or 0
        if self._moved():
            return self._gone()
        if code == sqlite3.SQLITE_CONSTRAINT_NOTNULL and str(exc).endswith("nextdue_task.lane"):
            return LaneMissing(f"{self.path}: {exc}")
        match code & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StoreBusy(f"{self.path}: another connection held the write lock for over {WAIT_S:.0f} s")
            case sqlite3.SQLITE_FULL:
                return StoreFull(f"{self.path}: the disk or the file's page limit is full; nothing was stored")
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                return StoreReadOnly(f"{self.path} can't be written (file, directory or medium is read-only)")
            case sqlite3.SQLITE_CANTOPEN:
                return StoreReadOnly(f"{self.path} can't be opened: no permission, or no such directory")
            case sqlite3.SQLITE_IOERR:
                return StoreError(
                    f"{self.path}: {exc}. If the file was deleted or replaced while it was in use, end all programs "
                    f"that use it, and put it back or remove what is left of it: {self.wal.name}, {self.path.name}-shm"
                )
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return NotAStore(f"{self.path} is not an SQLite database, or is damaged ({exc})")
        if "no such table: nextdue_" in str(exc):
            return NotAStore(f"{self.path} holds no tables of nextdue (any more); the application makes them")
        return StoreError(f"{self.path}: {exc}")


def is_busy(exc: sqlite3.Error) -> bool:
    """Whether it only says that somebody else holds a lock."""
    return (getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
