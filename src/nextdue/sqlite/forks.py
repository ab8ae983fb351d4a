"""What a fork must not break.

SQLite books, per process and file, which locks it holds. A forked child inherits that book but none of the locks, for
POSIX locks belong to the process that took them. So the child's next connection takes no lock at all; the parent's
close finds nobody else and deletes the WAL, the child goes on writing the old one, others a new one, and the file is
malformed. And a fork in the middle of another thread's statement leaves SQLite's mutexes locked in the child for ever.

So a fork waits until no statement of ours runs. The child takes at once, in its own name, the locks that its book says
it holds, and keeps the inherited connections, unused, for as long as it lives. The parent goes on when that is done.
"""

import atexit
import contextlib
import fcntl
import os
import select
import threading
import weakref
from pathlib import Path
from typing import Protocol

from nextdue.sqlite.files import Identity, beside, identity

SHARED = (510, 0x4000_0002)
"""Length and start of the bytes of the database that every open connection has locked (SQLite's os.h)."""
ALIVE = (1, 128)
"""The byte of the -shm that says that somebody uses it (UNIX_SHM_DMS in SQLite's os_unix.c)."""
PATIENCE_MS = 1_000
"""How long a parent waits for its child to have the locks."""
LONGEST_S = 5.0
"""How long a fork waits for a transaction of the user's to end. A child forked in its midst can't use the file."""


class Connected(Protocol):
    """A connection that is guarded here."""

    path: Path
    using: threading.RLock
    """Held while a statement or a transaction of it runs."""

    def in_transaction(self) -> bool:
        """Whether it holds locks that no child can take over."""
        ...


_files: "weakref.WeakKeyDictionary[Connected, tuple[Identity | None, ...]]" = weakref.WeakKeyDictionary()
_guarded: "weakref.WeakSet[Connected]" = weakref.WeakSet()
_kept: list[object] = []
"""Inherited connections and the descriptors of the locks: closing one of them would drop all locks of this process."""
_severed: set[Path] = set()
gate = threading.RLock()
"""Held while a connection is made, and by the one thread that forks."""
_held: list[threading.RLock] = []
_torn: set[Path] = set()
_pipe: list[int] = []


def guard(connection: Connected) -> None:
    """From now on no fork happens while its `using` is held."""
    _guarded.add(connection)


def opened(connection: Connected) -> None:
    """It is connected: a child will need its locks."""
    _files[connection] = _identities(connection.path)


def closed(connection: Connected) -> None:
    """It holds no locks any more."""
    _files.pop(connection, None)


def severed(path: Path) -> bool:
    """Whether this process was forked from one that had the file open, but could not take over its locks."""
    return path in _severed


def keep(connection: object) -> None:
    """Never close it, not even when the interpreter ends: SQLite would delete a WAL that is no longer its own."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _identities(path: Path) -> tuple[Identity | None, ...]:
    return tuple(identity(file) for file in (path, beside(path, "-shm"), beside(path, "-wal")))


def _before() -> None:
    gate.acquire()
    _torn.clear()
    for connection in list(_guarded):
        if connection.using.acquire(timeout=LONGEST_S):
            _held.append(connection.using)
        if connection.in_transaction():  # this thread forks in the midst of its own, or another's doesn't end
            _torn.add(connection.path)
    if _files:
        _pipe.extend(os.pipe())


def _let_go() -> None:
    while _held:
        _held.pop().release()
    gate.release()


def _in_parent() -> None:
    if _pipe:
        reader, writer = _pipe
        _pipe.clear()
        os.close(writer)
        waiter = select.poll()
        waiter.register(reader, select.POLLIN)
        waiter.poll(PATIENCE_MS)
        os.close(reader)
    _let_go()


def _in_child() -> None:
    for connection, then in list(_files.items()):
        _kept.append(connection)
        if not _take_over(connection.path, then) or connection.path in _torn:
            _severed.add(connection.path)
            keep(connection)
    for end in _pipe:
        os.close(end)
    _pipe.clear()
    _let_go()


def _take_over(path: Path, then: tuple[Identity | None, ...]) -> bool:
    """Lock what the book says is locked; whether these are still the files of the parent."""
    with contextlib.suppress(OSError):
        for file, (length, start) in ((path, SHARED), (beside(path, "-shm"), ALIVE)):
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            _kept.append(fd)
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)
        return _identities(path) == then
    return False


def _at_exit() -> None:
    """The interpreter closes what is still open, and never asks whether the files are still there."""
    for connection, then in list(_files.items()):
        if _identities(connection.path) != then:
            keep(connection)


atexit.register(_at_exit)
os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
