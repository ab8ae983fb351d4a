"""A caller's way into the file: one connection for all threads of a process, remade after a fork.

Threads that put tasks at the same moment share commits: each stands in a line, and whoever gets the lock writes for
all that stand there, at most 64 in one. Nothing that interrupts a thread, not even a signal handler that puts a task
itself, can leave another one waiting.
"""

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from nextdue.codec import MAX_BYTES
from nextdue.errors import NextdueError, StoreError
from nextdue.records import Put, Stored
from nextdue.sqlite.alarm import Bell
from nextdue.sqlite.store import SqliteStore
from nextdue.sqlite.waiting import Declared, Waits

TOGETHER = 64
"""The most puts in one commit."""
RESCUE_S = 0.05
"""A thread that nobody called, because the caller was interrupted, looks by itself after this."""


class _Entry:
    __slots__ = ("answer", "put", "ready", "taken", "trouble")

    def __init__(self, put: Put) -> None:
        self.put = put
        self.ready: threading.Lock | None = None
        self.taken = False
        self.answer: Stored | None = None
        self.trouble: NextdueError | None = None


class Caller:
    """The verbs that any thread of a program may use. The file is opened at the first use."""

    def __init__(self, path: Path, make: Callable[[], SqliteStore]) -> None:
        self.path, self._make = path, make
        self.declared: Mapping[str, Declared] = {}
        """The tasks that this program knows, by their names and former names."""
        self.stored = 0
        """How many tasks this object has stored."""
        self.refuse_inside: Callable[[], None] = lambda: None
        """Raises BadTransaction where this thread has a transaction open, on another connection of the program."""
        self._begin()
        _callers.add(self)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._store: SqliteStore | None = None
        self._bell: Bell | None = None
        self._line: deque[_Entry] = deque()
        self.waits = Waits(self.path, self._make)

    @contextmanager
    def use(self) -> Iterator[SqliteStore]:
        """The store, for one thread at a time."""
        with self._lock:
            yield self._opened()
        self._call_next()

    @contextmanager
    def change(self) -> Iterator[SqliteStore]:
        """use() by who writes. Raises BadTransaction where it would wait for a transaction of this thread."""
        self.refuse_inside()
        with self.use() as store:
            yield store

    def _opened(self) -> SqliteStore:
        if self._store is None:
            self._store = self._make()
            self._bell = Bell(self._store.database.path)
        return self._store

    def put(self, put: Put) -> Stored:
        """Store one task; on return it is on disk and whoever must hear of it was rung."""
        if put.key is not None:
            with self.use():
                return self._commit([put])[0]
        entry = _Entry(put)
        self._line.append(entry)
        try:
            self._until_answered(entry)
        except BaseException:
            with contextlib.suppress(ValueError):  # interrupted: nobody shall store it later on
                self._line.remove(entry)
            raise
        if entry.trouble is not None:
            raise entry.trouble
        assert entry.answer is not None
        return entry.answer

    def _until_answered(self, entry: _Entry) -> None:
        try:
            writes = self._line[0] is entry
        except IndexError:  # another thread took it
            writes = False
        while entry.answer is None and entry.trouble is None:
            if writes:
                # Only `with` lets go of the lock whatever interrupts it.
                with self._lock:
                    self._write_for(entry)
                if self._line:
                    self._call_next()
            else:
                self._wait_for_call(entry)
                writes = True

    def put_many(self, like: Put, calls: str, count: int) -> range:
        """Store many tasks that differ in their arguments only."""
        with self.use() as store:
            ids, ring = store.put_many(like, calls, count)
            self.stored += count
            if ring:
                self._ring()
        return ids

    def cancel(self, id: int) -> str:
        """Cancel a task, or ask it to stop if it runs; answers its state."""
        with self.change() as store:
            state = store.cancel(id)
            if state in ("running", "cancelled"):  # it is to stop; or one that its limit had set aside may follow
                self._ring()
        return state

    def _wait_for_call(self, entry: _Entry) -> None:
        if entry.ready is None:
            # Made only here, for a lone thread never waits. Whoever answers looks for it after the answer, and we
            # look for the answer after making it.
            entry.ready = threading.Lock()
            entry.ready.acquire()
            if entry.answer is not None or entry.trouble is not None:
                return
        entry.ready.acquire(timeout=RESCUE_S)

    def _write_for(self, entry: _Entry) -> None:
        """With the lock held: write the line up to this entry, if nobody did."""
        while not entry.taken and self._line:
            self._commit_line()
        if entry.answer is None and entry.trouble is None:
            # Nobody writes any more, so whoever took it was interrupted, as by Ctrl-C.
            entry.trouble = StoreError(
                "the thread that wrote for this one was interrupted; the task may be stored or not"
            )

    def _commit_line(self) -> None:
        entries: list[_Entry] = []
        room = MAX_BYTES
        while self._line and len(entries) < TOGETHER and (not entries or len(self._line[0].put.args) <= room):
            entries.append(self._line.popleft())
            entries[-1].taken = True
            room -= len(entries[-1].put.args)
        try:
            for one, answer in zip(entries, self._commit([e.put for e in entries]), strict=True):
                one.answer = answer
        except NextdueError as trouble:
            for one in entries:
                one.trouble = trouble
        for one in entries:
            if one.ready is not None:
                _call(one.ready)

    def _call_next(self) -> None:
        """Whoever stands first in the line writes for it, unless somebody else is quicker."""
        with contextlib.suppress(IndexError):  # another thread took it
            ready = self._line[0].ready
            if ready is not None:
                _call(ready)

    def _commit(self, puts: Sequence[Put]) -> list[Stored]:
        store = self._store or self._opened()
        stored, ring = store.put(puts)
        self.stored += sum(one.created for one in stored)
        if ring:
            self._ring()
        return stored

    def ring(self) -> None:
        """Make every idle worker look again, after a verb that let something become due."""
        with self._lock:
            self._opened()
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        self.waits.close()
        with self._lock:
            if self._store is not None:
                self._store.close()
            if self._bell is not None:
                self._bell.close()
            self._store = self._bell = None

    def after_fork(self) -> None:
        """In a forked child: leave the inherited connection alone, with its locks, and begin anew."""
        _leaked.append((self._store, self._bell))
        self._begin()


def _call(ready: threading.Lock) -> None:
    with contextlib.suppress(RuntimeError):  # it was called before
        ready.release()


_callers: "weakref.WeakSet[Caller]" = weakref.WeakSet()
_leaked: list[object] = []


def _after_fork() -> None:
    for caller in list(_callers):
        caller.after_fork()


os.register_at_fork(after_in_child=_after_fork)
