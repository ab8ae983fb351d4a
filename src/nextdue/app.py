"""The application's side: tasks are declared, put and looked at here."""

import inspect
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, overload

from nextdue.aio import in_thread
from nextdue.calls import Declaring, P, R, Task
from nextdue.clock import Duration, duration_ms
from nextdue.codec import Signature, plain_text
from nextdue.desk import Desk
from nextdue.errors import BadDefinition
from nextdue.executors import declared, functions
from nextdue.executors.context import Context, Definition
from nextdue.executors.functions import place
from nextdue.handle import Handle
from nextdue.records import State
from nextdue.schedules import Schedules
from nextdue.scheduling import Scheduling
from nextdue.service import Service, checked_queues, warn_of_late
from nextdue.sqlite import care
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.care import Chosen
from nextdue.sqlite.files import absolute, beside
from nextdue.sqlite.store import KEEP_ROWS, SqliteStore
from nextdue.sqlite.tx import Transaction
from nextdue.task import (
    Options,
    Retry,
    RunIn,
    checked_name,
    keep_ms,
    rate_ms,
    rates_ms,
    refuse_unknown,
)
from nextdue.tx import awaited
from nextdue.upkeep import Upkeep
from nextdue.worker import Hook

STATES = ("waiting", "running", "done", "dead", "cancelled", "held")
TAKEN = ("-wal", "-shm", "-journal", "-wake", "-workers")
"""What the files beside a database are called that can't be a lock."""
EVENT_KEPT = timedelta(days=7)
ALL = (1 << 63) - 1
"""The limit of find() that is none."""


class Nextdue(Upkeep, Scheduling):
    """An application: its tasks and the file in which they are kept.

    `path` is made absolute here; the file is created at the first use. `keep_runs` and `keep_runs_for` bound the
    run history by lines and by age (0 lines: none is kept). `exclusive`: at most one worker of this application at a
    time; it takes the lock of this file (True: one beside the database) before it touches the database. `queues`: those
    that its workers serve unless they are told otherwise.

    >>> import pathlib, tempfile
    >>> nd = Nextdue(pathlib.Path(tempfile.mkdtemp()) / "shop.db")
    >>> @nd.task
    ... def greet(name: str) -> None:
    ...     print("hello", name)
    >>> greet.using(delay="5m").enqueue("Ada").state
    'waiting'
    >>> nd.close()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep_runs: int = KEEP_ROWS,
        keep_runs_for: Duration = timedelta(days=30),
        exclusive: bool | str | os.PathLike[str] = False,
        queues: Sequence[str] | None = None,
    ) -> None:
        text: Any = os.fspath(path)
        if not isinstance(text, str) or text == "" or text.startswith((":memory:", "file:")) or "\x00" in text:
            raise BadDefinition(
                f"{path!r} is no path to a file; what must survive a restart needs one, like "
                'Path(__file__).with_name("shop.db")'
            )
        if "://" in text:
            raise BadDefinition(f"{text.split('://')[0]}:// is not supported by this version; give the path of a file")
        if type(keep_runs) is not int or keep_runs < 0:
            raise BadDefinition(f"keep_runs must be a whole number from 0, not {keep_runs!r}")
        self.path = absolute(text)
        self.tasks: dict[str, Task[..., Any, Any]] = {}
        self._definitions: dict[str, Definition] = {}
        self._keep_rows, self._keep_ms = keep_runs, duration_ms(keep_runs_for, "keep_runs_for")
        self._lock = self._lock_file(exclusive)
        self.queues = checked_queues(queues)
        self.caller = Caller(self.path, self.open_store)
        self.caller.declared = self._definitions
        self.desk = Desk(self.path, self.open_store)
        self.caller.refuse_inside = self.desk.refuse_inside
        self.schedules = Schedules(lambda: self.caller)
        self._service: Service | None = None
        declared.remember(self)

    def _lock_file(self, exclusive: Any) -> Path | None:
        if isinstance(exclusive, bool):
            return beside(self.path, "-owner") if exclusive else None
        text: Any = os.fspath(exclusive) if isinstance(exclusive, str | os.PathLike) else None
        if not isinstance(text, str) or text == "" or "\x00" in text:
            raise BadDefinition(f"exclusive is the path of a lock file, or True, not {exclusive!r}")
        path = absolute(text)
        if path in (self.path, *(beside(self.path, suffix) for suffix in TAKEN)):
            raise BadDefinition(f"exclusive: {path} is one of the database's own files; name another one")
        return path

    def __repr__(self) -> str:
        return f"<Nextdue {self.path}>"

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """Every task, by each name under which it may be stored."""
        return self._definitions

    def open_store(self) -> SqliteStore:
        """A new connection to the file, which is created if it isn't there."""
        return SqliteStore(self.path, keep_rows=self._keep_rows, keep_ms=self._keep_ms)

    # declaring tasks

    @overload
    def task(
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> "Task[P, Coroutine[Any, Any, R], R]": ...
    @overload
    def task(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> "Task[P, Coroutine[Any, Any, R], R]": ...
    @overload
    def task(self, fn: Callable[Concatenate[Context, P], R], /) -> "Task[P, R, R]": ...
    @overload
    def task(self, fn: Callable[P, R], /) -> "Task[P, R, R]": ...
    @overload
    def task(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        lease: Duration = 300,
        time_limit: Duration | None = None,
        keep_result: bool | Duration = False,
        limit: int | None = None,
        rate: str | None = None,
        rates: Mapping[str, str | None] | None = None,
        aliases: Sequence[str] = (),
        run_in: RunIn | None = None,
    ) -> "Declaring": ...
    def task(self, fn: Any = None, /, **options: Any) -> Any:
        """Declare a function as a task: `@nd.task` or `@nd.task(queue="mail", ...)`.

        name: under which it is stored; its own name by default, without the module. queue, priority (-100..100,
        higher first): defaults for using(). retry: a Retry. lease (s): how long a claim stands without a renewal;
        a living worker renews it. time_limit (s): after so long the attempt is given up and counts as failed.
        keep_result: keep the returned value, for a day (True) or so long. limit: how many of it, or of each group
        given to using(), run at once in all workers. rate: how often it, or each group, is started at most: "10/m" is
        one start every 6 s. rates: that of single groups in its place, None for none. aliases: former names. run_in:
        "thread" (default), "process", or "loop", where coroutines run, and only they.

        Raises BadDefinition, at once, for anything that can't work.
        """
        if fn is None:
            refuse_unknown(options, list(inspect.signature(self._declare).parameters)[1:])
            return lambda fn: self._declare(fn, **options)
        return self._declare(fn)

    def _declare(
        self,
        fn: Any,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        lease: Duration = 300,
        time_limit: Duration | None = None,
        keep_result: Any = False,
        limit: Any = None,
        rate: Any = None,
        rates: Any = None,
        aliases: Any = (),
        run_in: Any = None,
        on_demand: Duration | None = None,
    ) -> "Task[..., Any, Any]":
        functions.refuse_what_is_none(fn)
        if not isinstance(aliases, str | list | tuple):
            raise BadDefinition(f"{place(fn)}: aliases are a list of former names, not {aliases!r}")
        options = Options(
            name=fn.__name__ if name is None else name,
            queue=queue,
            priority=priority,
            retry=Retry() if retry is None else retry,
            lease_ms=duration_ms(lease, "lease"),
            time_limit_ms=None if time_limit is None else duration_ms(time_limit, "time_limit"),
            keep_result_ms=keep_ms(keep_result),
            limit=limit,
            rate_ms=None if rate is None else rate_ms(rate),
            rates_ms={} if rates is None else rates_ms(rates),
            aliases=(aliases,) if isinstance(aliases, str) else tuple(aliases),
            run_in=functions.run_in_of(fn, run_in),
            period_ms=None if on_demand is None else duration_ms(on_demand, "the period of a run on demand"),
        )
        if options.name == "<lambda>":
            raise BadDefinition("a lambda has no name to be stored under; write @nd.task(name=...)")
        if next(iter(inspect.signature(fn).parameters), None) in ("self", "cls"):
            raise BadDefinition(f"{place(fn)} is a method; a task must be a function, since nobody keeps the object")
        wants_context = functions.wants_context(fn)
        definition = Definition(fn, Signature(fn, skip=int(wants_context)), options, wants_context)
        if options.keep_result:
            definition.signature.refuse_unkeepable()
        return self._register(definition)

    def _register(self, definition: Definition) -> "Task[..., Any, Any]":
        fn, options = definition.fn, definition.options
        for word in (options.name, *options.aliases):
            other = self._definitions.get(word)
            if other is not None:
                raise BadDefinition(
                    f"two tasks are called {word!r}: {place(other.fn)} and {place(fn)}; give one of them a name=..."
                )
        for word in (options.name, *options.aliases):
            self._definitions[word] = definition
        warn_of_late(self._definitions, options.name)
        task: Task[..., Any, Any] = Task(self, definition)
        self.tasks[options.name] = task
        return task

    # looking at tasks

    @overload
    def get(self, id: int, /) -> Handle[Any] | None: ...
    @overload
    def get(self, name: str, key: str, /) -> Handle[Any] | None: ...
    def get(self, first: int | str, key: str | None = None, /) -> Handle[Any] | None:
        """The task with this id, or the one that holds this key of this name; None if there is none."""
        by_id = type(first) is int and key is None
        if type(first) is str and key is None:
            raise BadDefinition(f"get(id) takes a number, get(name, key) two texts; get({first!r}) is neither")
        if by_id and not -(1 << 63) <= int(first) < 1 << 63:
            return None
        if not by_id:
            first, key = checked_name(first, "a task's name"), checked_name(key, "a key")
        with self.caller.use() as store:
            view = store.get(first) if isinstance(first, int) else store.by_key(first, str(key))
        return Handle(self.caller, view.id, view.name, view.key, created=False) if view else None

    def find(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        state: State | None = None,
        key: str | None = None,
        reason: str | None = None,
        limit: int | None = None,
    ) -> list[Handle[Any]]:
        """All tasks of this name, queue, state, key and reason of their last failure; with `limit` so many at most.

        Nearest due first, then those at rest. `for task in nd.find(state="dead", reason="timeout"): task.retry()`
        A million of them take some 10 s and 250 MB; give a limit where there may be so many.
        """
        if state is not None and state not in STATES:
            raise BadDefinition(f"there is no state {state!r}; the states are {', '.join(STATES)}")
        if limit is not None and (type(limit) is not int or not 1 <= limit <= ALL):
            raise BadDefinition(f"limit must be a whole number from 1, or None, not {limit!r}")
        for word, what in ((name, "a task's name"), (queue, "a queue's name"), (key, "a key"), (reason, "a reason")):
            if word is not None:
                checked_name(word, what)
        with self.caller.use() as store:
            found = care.listed(store, Chosen(state, name, queue, key, reason), limit=limit or ALL)
        return [Handle(self.caller, task.id, task.name, task.key, created=False) for task in found]

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A transaction on the file: `with nd.transaction() as tx: tx.execute(...)`, tasks by `using(tx=tx)`.

        It begins by taking the write lock (at most 5 s, then StoreBusy), commits at the end of the block and is on
        disk then; an exception rolls it back. Keep it short: all others wait.
        """
        return self.desk.transaction()

    # events

    def send(self, event: str, data: Any = None, *, keep: Duration = EVENT_KEPT, tx: Any = None) -> bool:
        """An event has happened: tasks that wait for it, by ctx.wait_for(), go on with `data`; later ones needn't wait.

        It is kept for `keep` (7 days). Sent again meanwhile it changes nothing: False. data: what JSON can hold. tx: a
        transaction, as for using(). When this returns it is on disk. Raises BadDefinition, BadArguments, StoreError.
        """
        name, text = checked_name(event, "an event"), plain_text(data, f"event {event!r}")
        ms = duration_ms(keep, "keep")
        if tx is not None:
            return self.desk.send(tx, name, text, ms)
        self.desk.refuse_inside()
        with self.desk.transaction() as own:
            return self.desk.send(own, name, text, ms)

    async def asend(self, event: str, data: Any = None, *, keep: Duration = EVENT_KEPT, tx: Any = None) -> bool:
        """send() from a coroutine, without blocking its event loop."""
        if tx is not None:  # a transaction belongs to its thread
            return await awaited(tx, lambda one: self.send(event, data, keep=keep, tx=one))
        self.desk.refuse_inside()
        return await in_thread(partial(self.send, event, data, keep=keep))

    # working

    def working(
        self,
        concurrency: int = 8,
        *,
        loop: int = 100,
        processes: int | None = None,
        tasks_per_process: int | None = None,
        queues: Sequence[str] | None = None,
        grace: Duration = 20,
        once: bool = False,
        exclusive: bool = False,
        spread: Duration = 0,
        hook: Hook | None = None,
    ) -> Service:
        """A worker of this application: `with nd.working():` runs it in threads of this process.

        How many tasks at a time: concurrency in threads, loop as coroutines, processes (None: one for each CPU) in
        processes of their own, each replaced after tasks_per_process. queues: only these (one as a text will do).
        grace (s): what running tasks get at a stop. spread (s): what is overdue by over a minute at the start, after a
        downtime, starts spread over so long, the most overdue first. exclusive: refuse to work beside another such
        worker, as Nextdue(exclusive=True) does for all of them.
        """
        if type(exclusive) is not bool:
            raise BadDefinition(f"exclusive is True or False here, not {exclusive!r}; Nextdue(exclusive=) takes a file")
        lock = self._lock or (beside(self.path, "-owner") if exclusive else None)
        return Service(
            self.path, self.open_store, self._definitions, concurrency=concurrency, loop=loop, processes=processes,
            tasks_per_process=tasks_per_process, grace=grace, once=once, exclusive=lock,
            queues=self.queues if queues is None else queues, spread=spread, hook=hook, desk=self.desk,
            schedules=self.schedules.declared,
        )  # fmt: skip

    def run(self, concurrency: int = 8, **options: Any) -> None:
        """Work in this thread until SIGTERM or Ctrl-C. Takes the options of working()."""
        self.working(concurrency, **options).run()

    def start(self, concurrency: int = 8, **options: Any) -> None:
        """Start a worker in a thread of this process, as in the workers of a web server. Again: nothing happens.

        In a child process that runs tasks nothing happens either: a module may call this while it is imported.
        """
        if not declared.in_child() and (self._service is None or not self._service.alive()):
            self._service = self.working(concurrency, **options).start()

    def stop(self) -> None:
        """Stop the worker begun by start(), gracefully. Without one nothing happens."""
        service, self._service = self._service, None
        if service is not None:
            service.stop()

    def close(self) -> None:
        """Stop the worker and let go of the file. Optional: nothing is lost without it."""
        self.stop()
        self.caller.close()
        self.desk.close()
