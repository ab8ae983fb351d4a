"""A caller's way into the file: one connection for all threads of a process, remade after a fork.

Threads that put tasks at the same moment share one commit: whoever finds nobody writing goes at once, the others
wait and are taken along by the next commit, at most 64 in one.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from nextdue.records import Put, Stored
from nextdue.sqlite.alarm import Bell
from nextdue.sqlite.store import SqliteStore

TOGETHER = 64
"""The most puts of other threads that one commit takes along."""


class _Entry:
    __slots__ = ("answer", "leads", "put", "ready", "trouble")

    def __init__(self, put: Put) -> None:
        self.put = put
        self.ready = threading.Lock()
        self.answer: Stored | None = None
        self.trouble: BaseException | None = None
        self.leads = False


class Caller:
    """The verbs that any thread of a program may use. The file is opened at the first use."""

    def __init__(self, make: Callable[[], SqliteStore]) -> None:
        self._make = make
        self._begin()
        _callers.add(self)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._store: SqliteStore | None = None
        self._bell: Bell | None = None
        self._line = threading.Lock()
        self._leading = False
        self._waiting: deque[_Entry] = deque()

    @contextmanager
    def use(self) -> Iterator[SqliteStore]:
        """The store, for one thread at a time."""
        with self._lock:
            if self._store is None:
                self._store = self._make()
                self._bell = Bell(self._store.database.path)
            yield self._store

    def put(self, put: Put) -> Stored:
        """Store one task; on return it is on disk and whoever must hear of it was rung."""
        if put.key is not None:
            return self._commit([put])[0]
        entry = _Entry(put)
        with self._line:
            entry.leads = not self._leading
            if entry.leads:
                self._leading = True
            else:
                entry.ready.acquire()
                self._waiting.append(entry)
        if not entry.leads:
            self._follow(entry)
        if entry.leads:
            self._lead(entry)
        if entry.trouble is not None:
            raise entry.trouble
        assert entry.answer is not None
        return entry.answer

    def put_many(self, like: Put, args: Sequence[str]) -> range:
        """Store many tasks that differ in their arguments only."""
        with self.use() as store:
            ids, ring = store.put_many(like, args)
            if ring:
                self._ring()
        return ids

    def _follow(self, entry: _Entry) -> None:
        try:
            entry.ready.acquire()
        except BaseException:  # KeyboardInterrupt while waiting
            with self._line:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                elif entry.leads:
                    self._hand_over()
            raise

    def _lead(self, entry: _Entry) -> None:
        with self._line:
            entries = [entry]
            while self._waiting and len(entries) < TOGETHER:
                entries.append(self._waiting.popleft())
        try:
            for one, answer in zip(entries, self._commit([e.put for e in entries]), strict=True):
                one.answer = answer
        except BaseException as trouble:
            for one in entries:
                one.trouble = trouble
        finally:
            with self._line:
                self._hand_over()
            for one in entries[1:]:
                one.ready.release()

    def _hand_over(self) -> None:
        """The next in line writes for itself and those behind it; called with the line held."""
        if self._waiting:
            first = self._waiting.popleft()
            first.leads = True
            first.ready.release()
        else:
            self._leading = False

    def _commit(self, puts: Sequence[Put]) -> list[Stored]:
        with self.use() as store:
            stored, ring = store.put(puts)
            if ring:
                self._ring()
        return stored

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def close(self) -> None:
        """Close the connection; the next use opens another."""
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


_callers: "weakref.WeakSet[Caller]" = weakref.WeakSet()
_leaked: list[object] = []


def _after_fork() -> None:
    for caller in list(_callers):
        caller.after_fork()


os.register_at_fork(after_in_child=_after_fork)
