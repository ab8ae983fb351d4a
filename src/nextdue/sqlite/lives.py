"""Each worker holds a lock while it lives, so that its death is noticed at once.

`<db>-workers/<n>` is locked by worker n for as long as its process lives; the system lets go of it whatever the
end. Others try the lock, reading only: free = dead, held = alive, no file = unknown (its leases decide).
"""

import contextlib
import errno
import fcntl
import os
import shlex
import socket
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

from nextdue.errors import OwnerBusy, StoreError, StoreMissing, StoreReadOnly
from nextdue.sqlite.files import beside, identity, mode_of

_held: set[int] = set()


def _forget_in_child() -> None:
    """A forked child would keep its parent alive in the eyes of the neighbours."""
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def _release(fd: int) -> None:
    if fd in _held:
        _held.discard(fd)
        os.close(fd)


class Lives:
    """The folder of locks beside one database."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.folder = beside(database, "-workers")
        self._mine: dict[int, int] = {}

    def prepare(self) -> None:
        """Make the folder. Raises StoreReadOnly if that isn't allowed."""
        mode = mode_of(self.database)
        try:
            self.folder.mkdir(mode=mode | (mode & 0o444) >> 2, exist_ok=True)
        except OSError as exc:
            raise StoreReadOnly(f"{self.folder} can't be made: {exc.strerror}") from None

    def begin(self, worker: int) -> None:
        """Lock this worker's file. It appears under its name only once it is locked."""
        fresh = self.folder / f".{worker}"
        fd = os.open(fresh, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, mode_of(self.database))
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(fresh, self.folder / str(worker))
        _held.add(fd)
        self._mine[worker] = fd

    def end(self, worker: int) -> None:
        """An orderly end: nobody has to look after this worker."""
        fd = self._mine.pop(worker, None)
        if fd is not None:
            self.forget(worker)
            _release(fd)

    def let_go(self) -> None:
        """Close the locks and leave the files: to the neighbours these workers are dead."""
        for fd in self._mine.values():
            _release(fd)
        self._mine.clear()

    def descriptors(self) -> list[int]:
        """The held locks. A child process that runs a task keeps them: the worker isn't dead before its tasks are."""
        return list(self._mine.values())

    def dead(self) -> list[int]:
        """The workers whose lock is free though their file is there."""
        return [worker for worker in self._numbers() if worker not in self._mine and not self.alive(worker)]

    def living(self) -> list[int]:
        """The workers whose lock is held."""
        return [worker for worker in self._numbers() if worker in self._mine or self.alive(worker)]

    def alive(self, worker: int) -> bool:
        """Whether somebody holds this worker's lock, or nobody can tell."""
        try:
            fd = os.open(self.folder / str(worker), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def forget(self, worker: int) -> None:
        """Remove a worker's file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / str(worker))

    def _numbers(self) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(self.folder) if name.isdigit())
        except OSError:
            return []


class Ownership:
    """The lock of an exclusive worker, for its life: at most one worker holds the same file.

    What is written in the file is for people and proves nothing; only a held lock does. The file is never removed:
    whoever had it open could lock it all the same, beside one who makes it anew. No child inherits it.

    Raises OwnerBusy, saying who holds it, and StoreError where the file can't be had.
    """

    def __init__(self, database: Path, path: Path) -> None:
        self.path, self._pid = path, os.getpid()
        if identity(path) == identity(database) is not None:  # to open and close it would drop the locks of SQLite
            raise StoreError(f"{path} is the database {database} itself; an exclusive worker's lock needs its own file")
        self._fd = _open_lock(path, mode_of(database) if database.exists() else 0o600)
        _held.add(self._fd)
        try:
            self._lock(database)
        except BaseException:
            _release(self._fd)
            raise
        self._write(_who())

    def _lock(self, database: Path) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OwnerBusy(
                f"{database} already has an exclusive worker: {self._read() or 'it does not say who'}. It holds "
                f"{self.path}: stop it, and don't delete that file, or two of them would work"
            ) from None
        except OSError as exc:
            raise StoreError(f"{self.path} can't be locked: {exc.strerror}") from None
        if self._read() is None:
            raise StoreError(f"{self.path} is no lock file but holds something else; an exclusive worker needs its own")

    def held(self) -> bool:
        """Whether it is still held, by this process: a fork has let go of it."""
        return self._pid == os.getpid() and self._fd in _held

    def release(self) -> None:
        """Give it up; the file stays, empty."""
        if self.held():
            self._write(b"")
            _release(self._fd)

    def _read(self) -> str | None:
        """Who holds it, or did; None if the file is somebody else's."""
        text = os.pread(self._fd, MOST_WHO, 0).decode("utf-8", "replace").strip()
        return text if text.startswith("pid ") or not text else None

    def _write(self, who: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk: the lock is what counts
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, who, 0)


MOST_WHO = 1_000
"""So many bytes say at most who holds a lock."""


def _open_lock(path: Path, mode: int) -> int:
    try:
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    except FileNotFoundError:
        raise StoreMissing(f"{path.parent} doesn't exist; make the directory first") from None
    except IsADirectoryError:
        raise StoreError(f"{path} is a directory; give the path of a file in it") from None
    except OSError as exc:
        kind = StoreReadOnly if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else StoreError
        raise kind(f"the lock file {path} can't be opened: {exc.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoreError(f"{path} is no file that could be locked")
    return fd


def _who() -> bytes:
    """This process, on one line."""
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = f"pid {os.getpid()} on {socket.gethostname()}, since {since}: {shlex.join(sys.orig_argv)}"
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown.encode("utf-8", "backslashreplace")[:MOST_WHO]
