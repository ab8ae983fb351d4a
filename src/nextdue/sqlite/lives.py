"""Each worker holds a lock while it lives, so that its death is noticed at once.

`<db>-workers/<n>` is locked by worker n for as long as its process lives; the system lets go of it whatever the
end. Others try the lock, reading only: free = dead, held = alive, no file = unknown (its leases decide).
"""

import contextlib
import fcntl
import os
from pathlib import Path

from nextdue.errors import OwnerBusy, StoreReadOnly
from nextdue.sqlite.files import beside, mode_of

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
    """`--exclusive`: at most one such worker per file, by a lock on `<db>-owner`.

    Raises OwnerBusy, saying who holds it.
    """

    def __init__(self, database: Path, who: str) -> None:
        self.path = beside(database, "-owner")
        self._fd = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, mode_of(database))
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._fd, 500, 0).decode("utf-8", "replace").strip()
            os.close(self._fd)
            raise OwnerBusy(f"{database} already has an exclusive worker: {holder or 'it does not say who'}") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, who.encode(), 0)
        _held.add(self._fd)

    def release(self) -> None:
        """Give it up; the file stays, empty."""
        if self._fd in _held:
            os.ftruncate(self._fd, 0)
        _release(self._fd)
