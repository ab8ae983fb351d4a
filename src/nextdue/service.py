"""A worker with all its parts, in the foreground with signals or in a thread of the user's own service."""

import atexit
import logging
import os
import random
import signal
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from types import FrameType

from nextdue.aio import in_thread
from nextdue.clock import Duration, duration_ms, span
from nextdue.desk import Desk
from nextdue.errors import BadDefinition, NextdueError, StoreError
from nextdue.executors import declared
from nextdue.executors.context import Definition
from nextdue.executors.several import SeveralExecutors
from nextdue.records import Settlement
from nextdue.schedules import Pairs, declare
from nextdue.sqlite import herd, inspect
from nextdue.sqlite.alarm import make_alarm
from nextdue.sqlite.lives import Ownership
from nextdue.sqlite.store import SqliteStore
from nextdue.task import RunIn, checked_name
from nextdue.worker import Hook, Worker, run

log = logging.getLogger("nextdue")
TRACEBACK_EVERY_S = 60.0
"""A failure of one line of a task is logged with its traceback at most so often; in one line each time."""


class Service(AbstractContextManager["Service"], AbstractAsyncContextManager["Service"]):
    """One worker and its store, executor and alarm. Made by Nextdue.working(); entering it starts a thread.

    run() works in the foreground, start() and stop() in a thread. Both open() it first, unless that was done: between
    open() and run() a program may prepare what its tasks need. After its end it may begin anew.

    `exclusive` is the file whose lock it takes before it touches the database. Raises OwnerBusy if another has it.
    """

    def __init__(
        self,
        path: Path,
        make_store: Callable[[], SqliteStore],
        definitions: Mapping[str, Definition],
        *,
        concurrency: int = 8,
        loop: int = 100,
        processes: int | None = None,
        tasks_per_process: int | None = None,
        queues: Sequence[str] | None = None,
        grace: Duration = 20,
        once: bool = False,
        exclusive: Path | None = None,
        hook: Hook | None = None,
        desk: Desk | None = None,
        schedules: Callable[[], Pairs] = tuple,
        spread: Duration = 0,
    ) -> None:
        self.sizes: dict[RunIn, int] = {
            "thread": _size("concurrency", concurrency, 1000),
            "loop": _size("loop", loop, 10_000),
            "process": _size("processes", (os.cpu_count() or 1) if processes is None else processes, 1000),
        }
        """How many tasks run at a time, for each way of running them."""
        most = tasks_per_process
        self._tasks_per_process = None if most is None else _size("tasks_per_process", most, 1_000_000)
        self.path, self._make_store, self._definitions = path, make_store, definitions
        self._once, self._exclusive = once, exclusive
        self.queues, self._grace_ms = checked_queues(queues), duration_ms(grace, "grace")
        """The queues that it serves; None: all."""
        self._hook, self._schedules = hook, schedules
        self._spread_ms = _spread_ms(spread, once)
        self.spread = 0
        """How many overdue tasks were spread at the start."""
        self._desk = desk or Desk(path, make_store)
        self._thread: threading.Thread | None = None
        self._ownership: Ownership | None = None
        self._pid = 0
        self._at_work = self._ready = self._warned = False
        self._traced: dict[tuple[str, type[BaseException], int], float] = {}
        self.error: BaseException | None = None
        self.worker: Worker | None = None
        _services.add(self)

    # its parts

    def lock(self) -> None:
        """Take the lock of an exclusive worker, if it is one; open() does so first. Again: nothing happens."""
        if declared.in_child():
            raise BadDefinition(
                "a child process that runs tasks can't be a worker itself; "
                'if this is a script, put nd.run() under: if __name__ == "__main__"'
            )
        if self._exclusive is not None and (self._ownership is None or not self._ownership.held()):
            self._ownership = Ownership(self.path, self._exclusive)

    def open(self) -> Worker:
        """Open the file and take up the work: rows of dead neighbours are given back here.

        An exclusive worker takes its lock before. Nothing runs until run() or start(); stop() closes it unused.
        Raises OwnerBusy, StoreError, and NextdueError if it is open or at work.
        """
        if self._at_work and self._pid == os.getpid():
            raise NextdueError(f"{self.path}: this worker is open already")
        self.lock()
        try:
            return self._open()
        except BaseException:
            self._unlock()
            raise

    def _open(self) -> Worker:
        store = self._make_store()
        try:
            changes = declare(store, self._schedules())
            # The executor and the alarm need each other's calls, the alarm needs the folder that enlisting makes.
            executor = SeveralExecutors(
                self.sizes,
                self._definitions,
                self._wake,
                self._desk,
                keep_open=store.lives.descriptors,
                tasks_per_process=self._tasks_per_process,
            )
            worker = Worker(
                store,
                executor.simplest(),
                {name: d.options for name, d in self._definitions.items()},
                slots={str(kind): size for kind, size in executor.sizes.items()} or {"thread": 1},
                random=random.random,
                queues=self.queues,
                grace_ms=self._grace_ms,
                once=self._once,
                hook=self._tell,
            )
            if self._spread_ms:
                self.spread = herd.spread(store, "herd_open", self._spread_ms, herd.LATE_MS)
            store.on_step = _log_step
            self._alarm = make_alarm(self.path, store.quiet, store.database.check_file)
            if changes:
                self._alarm.ring()
        except BaseException:
            store.close()
            raise
        self._pid, self._at_work, self._ready = os.getpid(), True, True
        self.store, self.worker = store, worker
        self._tell_unknown_queues()
        return worker

    def _tell_unknown_queues(self) -> None:
        """A queue that nobody uses may be one of tomorrow, or a typing error."""
        known = {d.options.queue for d in self._definitions.values()}
        if self.queues and not known.issuperset(self.queues):
            known |= inspect.queues(self.store.database)
            for queue in set(self.queues) - known:
                log.warning("no task uses a queue %r so far, neither declared nor in %s", queue, self.path)

    def _wake(self) -> None:
        self._alarm.call()

    def loop(self) -> None:
        """Work until stopped, in this thread. Raises StoreError when the store can't come back."""
        assert self.worker is not None
        self._ready = False
        try:
            run(self.worker, self._alarm, on_trouble=_log_trouble)
        finally:
            self._close(self.worker)

    def _close(self, worker: Worker) -> None:
        self._at_work = self._ready = False
        try:
            worker.close()
            self._alarm.close()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        """The lock is the last that it gives up."""
        if self._ownership is not None:
            self._ownership.release()

    def _is_ready(self) -> bool:
        """Whether it is open, in this process, and nobody works yet."""
        return self._ready and self._pid == os.getpid()

    def ask_to_stop(self, grace_ms: int | None = None) -> None:
        """Begin a graceful stop: no new claims, running tasks get their grace. Safe in a signal handler."""
        if self.worker is not None:
            self.worker.stop(grace_ms)
            self._alarm.call()

    def _tell(self, settlements: Sequence[Settlement]) -> None:
        for s in settlements:
            if s.outcome in ("failed", "dead", "held") or (s.outcome == "done" and s.reason == "result"):
                log.warning("%s #%d %s", s.name, s.id, self._sentence(s), exc_info=self._traceback(s.error, s.name))
        if self._hook is not None:
            try:
                self._hook(settlements)
            except Exception:
                log.exception("a hook failed; the tasks' states are written")

    def _traceback(self, error: BaseException | None, name: str) -> BaseException | None:
        """The error, unless the same line has just failed in the same way: a flood of tracebacks would tell no more."""
        if error is None or error.__traceback__ is None:
            return error
        way = name, type(error), error.__traceback__.tb_lineno
        if time.monotonic() < self._traced.get(way, 0.0):
            return None
        if len(self._traced) > 1_000:
            self._traced.clear()
        self._traced[way] = time.monotonic() + TRACEBACK_EVERY_S
        return error

    def warn_of_late(self, definitions: Mapping[str, Definition], name: str) -> None:
        """Say, once, that a task is declared which this worker doesn't serve, being at work already."""
        if definitions is not self._definitions or not self._at_work or self._warned or self._pid != os.getpid():
            return
        self._warned = True
        log.warning(
            "task %s is declared after its worker's start, which serves neither it nor what is declared after it; "
            "declare all tasks, or import their modules, before start(), run() or working()",
            name,
        )

    def _sentence(self, s: Settlement) -> str:
        """What became of an attempt, on one line, and what comes next."""
        message = "\\n".join((s.message or "").splitlines())
        reason = "" if message.startswith(s.reason or "") else f"{s.reason}: "
        declared, then = self._definitions.get(s.name), ""
        if s.outcome == "failed" and s.attempts is not None and s.delay_ms is not None and declared is not None:
            again = f"again in {span(s.delay_ms)}" if s.delay_ms else "again at once"
            then = f" ({s.attempts} of {declared.options.retry.limit or 'any number'}), {again}"
        return f"{s.outcome}{then}: {reason}{message}"

    def stopping(self) -> bool:
        """Whether it was told to stop, by a signal or a call; after its end, whether that was why."""
        return self.worker is not None and self.worker.stopping

    # in the foreground

    def run(self) -> None:
        """Work in this thread until SIGTERM or SIGINT (main thread), or until once is through.

        A second signal ends the grace. Before and after it the program's own signal handlers are there. In another
        thread than the main one, ask_to_stop() ends it. Raises as open() does.
        """
        if not self._is_ready():
            self.open()
        if threading.current_thread() is not threading.main_thread():
            self.loop()
            return

        def on_signal(number: int, frame: FrameType | None) -> None:
            self.ask_to_stop(0 if self.stopping() else None)

        previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.loop()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    # in a thread

    def alive(self) -> bool:
        """Whether its thread works, in this process."""
        return self._thread is not None and self._thread.is_alive() and self._pid == os.getpid()

    def start(self) -> "Service":
        """Start a thread that works; returns when the worker is ready. No signal handlers are touched."""
        if self.alive():
            raise NextdueError(f"{self.path}: this worker is already started")
        if not self._is_ready():
            self.open()
        self.error = None
        self._thread = threading.Thread(target=self._in_thread, name="nextdue-worker", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)
        return self

    def stop(self, grace: Duration | None = None) -> None:
        """Stop what start() began, gracefully, and wait for it; or close what was opened and never worked.

        Raises what ended the worker, if anything did.
        """
        atexit.unregister(self._at_exit)
        if self.alive() and self._thread is not None:
            self.ask_to_stop(None if grace is None else duration_ms(grace, "grace"))
            self._thread.join()
        elif self._is_ready() and self.worker is not None:
            self._close(self.worker)
        elif not self._at_work:
            self._unlock()
        self._thread = None
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _in_thread(self) -> None:
        try:
            self.loop()
        except BaseException as exc:
            self.error = exc
            log.critical("the worker on %s ended: %s", self.path, exc)

    def _at_exit(self) -> None:
        if self.alive():
            self.stop()

    def __enter__(self) -> "Service":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> "Service":
        return await in_thread(self.start)

    async def __aexit__(self, *exc: object) -> None:
        await in_thread(self.stop)


_services: "weakref.WeakSet[Service]" = weakref.WeakSet()


def warn_of_late(definitions: Mapping[str, Definition], name: str) -> None:
    """A task was added to these definitions: say so if a worker of this process has read them already."""
    for service in list(_services):
        service.warn_of_late(definitions, name)


def checked_queues(queues: Sequence[str] | None) -> list[str] | None:
    """The names of the queues to be served; None: all of them. Raises BadDefinition."""
    if queues is None:
        return None
    if not isinstance(queues, str | list | tuple | set | frozenset):
        raise BadDefinition(f"queues are a list of names, not {queues!r}")
    given = [queues] if isinstance(queues, str) else list(queues)
    if not given:
        raise BadDefinition("queues=[] is no queue at all; leave it out to work for all of them")
    return [checked_name(queue, "a queue's name") for queue in given]


def _size(name: str, size: object, most: int) -> int:
    if type(size) is not int or not 1 <= size <= most:
        raise BadDefinition(f"{name} must be a whole number from 1 to {most}, not {size!r}")
    return size


def _spread_ms(spread: Duration, once: bool) -> int:
    ms = duration_ms(spread, "spread")
    if ms > herd.LONGEST_MS:
        raise BadDefinition(f"spread must be at most 30 days, not {spread!r}")
    if ms and once:
        raise BadDefinition("once runs what is due now, spread puts it off; give one of them")
    return ms


def _log_step(step_ms: int) -> None:
    if step_ms < 0:
        log.warning("the clock was set back by %.1f s", -step_ms / 1000)
    else:
        log.warning("the clock went forward by %.1f s: it was set, or this machine was asleep", step_ms / 1000)


def _log_trouble(trouble: StoreError | None) -> None:
    if trouble is None:
        log.warning("the store is back; work goes on")
    else:
        log.error("%s; waiting for it, nothing is lost", trouble)
