"""Waiting for tasks to end, without polling.

All who wait in one process share one thread, which ends a second after the last of them. It sleeps by the alarm, asks
after every commit which of their tasks have ended, and tells those who wait for them. So a thousand waiters cost one
look, and whoever stops waiting, by a timeout, Ctrl-C or a cancelled coroutine, just strikes itself off the list.
"""

import atexit
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from nextdue.codec import Signature
from nextdue.errors import StoreError
from nextdue.ports import Woken
from nextdue.records import State
from nextdue.sqlite.alarm import LinuxAlarm, PlainAlarm, make_alarm
from nextdue.sqlite.store import SqliteStore
from nextdue.task import Options

if TYPE_CHECKING:
    from asyncio import Future

PAGE = "waiting.sql"
PAUSE_S = (0.000_5, 0.003)
"""Shortest and longest pause between two looks while others keep committing."""
CLOSE_S = 1.0
"""How long closing waits for the thread to end."""
LINGER_MS = 1_000
"""How long the thread stays when nobody waits any more: whoever waits again and again finds it ready."""


class Declared(Protocol):
    """What a task's declaration says of its results."""

    @property
    def signature(self) -> Signature:
        """What it takes and returns."""
        ...

    @property
    def options(self) -> Options:
        """Among them, whether its results are kept."""
        ...


class Ended(NamedTuple):
    """How a task ended, or stopped until a person acts."""

    id: int
    state: State
    """done, dead (as one that expired is), cancelled, held, or gone: neither a row nor the end in the history."""
    reason: str | None
    message: str | None
    result: str | None
    """JSON."""


Tell = Callable[[Ended | BaseException], None]


def ended(store: SqliteStore, ids: Sequence[int]) -> list[Ended]:
    """Those of these tasks that have ended."""
    store.database.bring(PAGE)
    return [Ended(*row) for row in store.database.rows("ended", {"ids": msgspec.json.encode(ids).decode()})]


class Waits:
    """Those who wait in this process for tasks of one file."""

    def __init__(self, path: Path, make_store: Callable[[], SqliteStore]) -> None:
        self._path, self._make_store = path, make_store
        self._lock = threading.RLock()
        self._waiters: dict[object, tuple[int, Tell]] = {}
        self._thread: threading.Thread | None = None
        self._alarm: LinuxAlarm | PlainAlarm | None = None
        self._hurry = False
        _all.add(self)

    def ended(self, id: int, seconds: float | None) -> Ended | None:
        """Block until this task has ended; None if it hasn't after so long. Raises StoreError."""
        box: SimpleQueue[Ended | BaseException] = SimpleQueue()
        with self._waiting(id, box.put):
            try:
                return _told(box.get(timeout=None if seconds is None else min(seconds, threading.TIMEOUT_MAX)))
            except Empty:
                return None

    async def aended(self, id: int, seconds: float | None) -> Ended | None:
        """The same from a coroutine; it needs no thread of its own."""
        import asyncio  # a program without coroutines needn't load it

        loop = asyncio.get_running_loop()
        future: Future[Ended | BaseException] = loop.create_future()

        def tell(found: Ended | BaseException) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there any more
                loop.call_soon_threadsafe(_answer, future, found)

        with self._waiting(id, tell):
            done, _ = await asyncio.wait((future,), timeout=seconds)
        return _told(future.result()) if done else None

    @contextlib.contextmanager
    def _waiting(self, id: int, tell: Tell) -> Iterator[None]:
        """Be told, once, when this task has ended; within the block."""
        me = object()
        try:
            with self._lock:
                self._waiters[me] = (id, tell)
                if self._thread is None:
                    self._start()
                elif self._alarm is not None:
                    self._alarm.call()  # else it hasn't looked yet
            yield
        finally:
            with self._lock:
                self._waiters.pop(me, None)
                if not self._waiters and self._alarm is not None:
                    self._alarm.call()

    def _start(self) -> None:
        self._hurry = False
        self._thread = threading.Thread(target=self._work, name="nextdue-waits", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as exc:
            self._thread = None
            raise StoreError(f"{self._path}: no thread could be started to wait for the end of a task: {exc}") from exc

    def close(self) -> None:
        """End the thread if nobody waits."""
        with self._lock:
            thread, self._hurry = self._thread, True
            if self._alarm is not None:
                self._alarm.call()
            if self._waiters:
                return
        if thread is not None:
            thread.join(CLOSE_S)

    # in the thread

    def _work(self) -> None:
        try:
            # A connection of its own: it keeps the WAL in place that is watched, whatever the program closes.
            with contextlib.closing(self._make_store()) as store:
                store.lives.prepare()
                self._watch(store)
        except OSError as exc:
            self._fail(
                StoreError(
                    f"{self._path} can't be watched for the end of a task: {exc.strerror}. If too many files or "
                    "inotify instances are in use, raise `ulimit -n` or fs.inotify.max_user_instances"
                )
            )
        except BaseException as exc:  # those who wait must hear of it, whatever it is
            self._fail(exc)

    def _watch(self, store: SqliteStore) -> None:
        alarm = make_alarm(self._path, store.quiet, store.database.check_file, PAUSE_S)
        with contextlib.closing(alarm):
            try:
                self._alarm = alarm
                woken = Woken.CALLED
                while self._goes_on(woken):
                    woken = alarm.sleep(partial(self._look, store), None if self._waiters else LINGER_MS)
            finally:
                with self._lock:  # nobody may call it once it is closed
                    self._alarm = None

    def _goes_on(self, woken: Woken) -> bool:
        """Whether somebody waits or may come soon; if not, the next one to come starts a new thread."""
        with self._lock:
            if self._waiters or not (self._hurry or Woken.LIMIT in woken):
                return True
            self._thread = self._alarm = None
            return False

    def _look(self, store: SqliteStore) -> None:
        """Tell those whose tasks have ended; the last to leave calls the alarm."""
        with self._lock:
            ids = {id for id, _ in self._waiters.values()}
        found = {end.id: end for end in ended(store, list(ids))} if ids else {}
        with self._lock:
            for me, (id, tell) in list(self._waiters.items()):
                if id in found:
                    del self._waiters[me]
                    tell(found[id])

    def _fail(self, exc: BaseException) -> None:
        with self._lock:
            waiters, self._waiters, self._thread = self._waiters, {}, None
        for _, tell in waiters.values():
            tell(exc)


def _answer(future: "Future[Ended | BaseException]", found: Ended | BaseException) -> None:
    if not future.done():
        future.set_result(found)


def _told(found: Ended | BaseException) -> Ended:
    if isinstance(found, BaseException):
        raise found
    return found


_all: "weakref.WeakSet[Waits]" = weakref.WeakSet()


def _at_exit() -> None:
    """A thread that the interpreter leaves behind would never close its connection."""
    for waits in list(_all):
        waits.close()


atexit.register(_at_exit)
