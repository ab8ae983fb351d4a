"""The application's side: tasks are declared, put and looked at here."""

import functools
import inspect
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_args, overload

from nextdue.aio import in_thread
from nextdue.clock import Duration, duration_ms, to_ms
from nextdue.codec import Signature
from nextdue.desk import Desk
from nextdue.errors import BadDefinition, KeyTaken
from nextdue.executors import declared, functions
from nextdue.executors.call import Context, Definition
from nextdue.executors.functions import place
from nextdue.handle import Handle
from nextdue.records import Claim, Mode, Put, State
from nextdue.service import Service, warn_of_late
from nextdue.sqlite import care
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.care import Chosen
from nextdue.sqlite.files import absolute
from nextdue.sqlite.store import KEEP_ROWS, SqliteStore
from nextdue.sqlite.tx import Transaction
from nextdue.task import Options, Retry, RunIn, checked_name, checked_priority, rate_ms, refuse_unknown
from nextdue.tx import awaited
from nextdue.upkeep import Upkeep
from nextdue.worker import Hook

P = ParamSpec("P")
C = TypeVar("C")
"""What a call of the function answers: of a coroutine an awaitable, else the result."""
R = TypeVar("R")
"""The result of the task."""

REMEMBER = timedelta(days=1)
"""How long a finished task occupies its key, unless using(remember=...) says otherwise."""
MODES = get_args(Mode)
KEEP_RESULT = timedelta(days=1)
"""How long keep_result=True keeps a result, at the least."""
STATES = ("waiting", "running", "done", "dead", "cancelled", "held")
ALL = (1 << 63) - 1
"""The limit of find() that is none."""


class Nextdue(Upkeep):
    """An application: its tasks and the file in which they are kept.

    `path` is made absolute here; the file is created at the first use. `keep_runs` and `keep_runs_for` bound the
    run history by lines and by age (0 lines: none is kept).

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
        self.caller = Caller(self.path, self.open_store)
        self.caller.declared = self._definitions
        self.desk = Desk(self.path, self.open_store)
        self._service: Service | None = None
        declared.remember(self)

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
        one start every 6 s. aliases: former names. run_in: "thread" (default), "process", or "loop", where coroutines
        run, and only they.

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
        aliases: Any = (),
        run_in: Any = None,
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
            keep_result_ms=_keep_ms(keep_result),
            limit=limit,
            rate_ms=None if rate is None else rate_ms(rate),
            aliases=(aliases,) if isinstance(aliases, str) else tuple(aliases),
            run_in=functions.run_in_of(fn, run_in),
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
        hook: Hook | None = None,
    ) -> Service:
        """A worker of this application: `with nd.working():` runs it in threads of this process.

        How many tasks at a time: concurrency in threads, loop as coroutines, processes (None: one for each CPU) in
        processes of their own, each replaced after tasks_per_process. queues: only these (one as a text will do).
        grace (s): what running tasks get at a stop.
        """
        return Service(
            self.path,
            self.open_store,
            self._definitions,
            concurrency=concurrency,
            loop=loop,
            processes=processes,
            tasks_per_process=tasks_per_process,
            queues=queues,
            grace=grace,
            once=once,
            exclusive=exclusive,
            hook=hook,
            desk=self.desk,
        )

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


class Declaring(Protocol):
    """What `@nd.task(...)` with options answers: it makes a function the task."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> "Task[P, Coroutine[Any, Any, R], R]": ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> "Task[P, Coroutine[Any, Any, R], R]": ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> "Task[P, R, R]": ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> "Task[P, R, R]": ...
    def __call__(self, fn: Any, /) -> Any:
        """Declare it. Raises BadDefinition for anything that can't work."""


class Task(Generic[P, C, R]):
    """A declared task. Calling it just runs the function; enqueue() stores a call for a worker."""

    def __init__(self, app: Nextdue, definition: Definition) -> None:
        functools.update_wrapper(self, definition.fn)
        self.app, self.definition, self.options = app, definition, definition.options
        self._now: Call[P, R] = self.using()

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return self.options.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Run the function here and now, without the store."""
        if self.definition.wants_context and not (args and isinstance(args[0], Context)):
            claim = Claim(0, 0, self.name, "[]", None, 0, 0, 1, 0, 0)
            return self.definition.fn(Context(claim, self.app.desk), *args, **kwargs)  # type: ignore[no-any-return]
        return self.definition.fn(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<task {self.name} of {self.app.path}>"

    def using(
        self,
        *,
        delay: Duration | None = None,
        due: datetime | None = None,
        key: str | None = None,
        remember: Duration | None = None,
        queue: str | None = None,
        priority: int | None = None,
        on_conflict: Mode = "ignore",
        latest: Duration | None = None,
        expires: Duration | datetime | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> "Call[P, R]":
        """How a call is stored: `task.using(delay="5m", key="42").enqueue(42)`.

        delay (timedelta, seconds, or "5m") or due (an aware datetime): when it is to run; default now.
        key: unique within the task's name; while a task with it is unfinished, or finished less than `remember`
        (default a day) ago, another one isn't stored. What then happens says on_conflict: "ignore" answers the one that
        exists, "reject" raises KeyTaken. "replace", "earliest" and "extend" give a waiting one the new arguments and
        the new due, the earlier or the later of both; extending never goes beyond `latest` after it was stored. These
        and "again" let a running one run again afterwards, with the new arguments. Dead and cancelled ones are started
        anew.
        expires: not to be started after this (an aware datetime, or how long from now); recorded as expired.
        group: the group by which the task's limit and rate count it.
        tx: store it in this transaction, with which it is committed or rolled back: of nd.transaction(), a
        sqlite3.Connection, SQLAlchemy's Session or Connection (asynchronous ones with aenqueue), or
        django.db.connection inside of atomic().
        """
        if delay is not None and due is not None:
            raise BadDefinition(f"task {self.name}: give delay or due, not both")
        if on_conflict not in MODES:
            raise BadDefinition(f"task {self.name}: on_conflict must be {', '.join(MODES)}, not {on_conflict!r}")
        if key is None and (remember is not None or on_conflict != "ignore"):
            raise BadDefinition(f"task {self.name}: remember and on_conflict are about a key; give key=...")
        if latest is not None and on_conflict != "extend":
            raise BadDefinition(f'task {self.name}: latest bounds on_conflict="extend"; give both')
        if group is not None and self.options.limit is None and self.options.rate_ms is None:
            raise BadDefinition(f"task {self.name}: a group is counted by a limit or a rate; give @nd.task(limit=...)")
        put = Put(
            name=self.name,
            queue=self.options.queue if queue is None else checked_name(queue, "a queue's name"),
            priority=self.options.priority if priority is None else checked_priority(priority),
            args="",
            due_ms=None if due is None else to_ms(due),
            delay_ms=0 if delay is None else duration_ms(delay, "delay"),
            key=None if key is None else checked_name(key, "a key"),
            remember_ms=None if key is None else duration_ms(REMEMBER if remember is None else remember, "remember"),
            mode=on_conflict,
            latest_ms=None if latest is None else duration_ms(latest, "latest"),
            expires_ms=to_ms(expires) if isinstance(expires, datetime) else None,
            expires_in_ms=None if expires is None or isinstance(expires, datetime) else duration_ms(expires, "expires"),
            group=self._group(group),
        )
        return Call(self.app, self.definition, put, tx)

    def _group(self, group: str | None) -> str | None:
        if group is not None:
            return checked_name(group, "a group")
        return "" if self.options.limit is not None or self.options.rate_ms is not None else None

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Store a call, due now. When this returns it is on disk. Raises BadArguments or StoreError."""
        return self._now.enqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]:
        """Store many calls, all of them or none, by one commit: `task.enqueue_many([(1,), (2,)])`."""
        return self._now.enqueue_many(calls)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """enqueue() from a coroutine, without blocking its event loop."""
        return await self._now.aenqueue(*args, **kwargs)


class Call(Generic[P, R]):
    """A task with the options of using(); enqueue() stores it."""

    def __init__(self, app: Nextdue, definition: Definition, put: Put, tx: Any = None) -> None:
        self._app, self._definition, self._put, self._tx = app, definition, put, tx

    def __repr__(self) -> str:
        return f"<{self._put.name}, not stored yet: .enqueue(...) does that>"

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Raises BadDefinition: using() says how a call is stored, enqueue() stores it."""
        raise BadDefinition(f"task {self._put.name}: write .using(...).enqueue(...) to store a call")

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Store the call. When this returns it is on disk. Raises BadArguments, KeyTaken or StoreError."""
        return self._store(self._definition.signature.encode(args, kwargs), self._tx)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]:
        """Store many calls, all of them or none, by one commit. Raises BadArguments or StoreError."""
        put = self._put
        if put.key is not None:
            raise BadDefinition(f"task {put.name}: one key can't be held by many tasks; enqueue them one by one")
        tuples = [args if type(args) is tuple else _tuple(put.name, args) for args in calls]
        texts = self._definition.signature.encode_many(tuples)
        if self._tx is not None:
            ids = self._app.desk.put_many(self._tx, put, texts, len(tuples))
        else:
            self._app.desk.refuse_inside()
            ids = self._app.caller.put_many(put, texts, len(tuples))
        return [Handle(self._app.caller, id, put.name, None, created=True) for id in ids]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """enqueue() from a coroutine, without blocking its event loop."""
        text = self._definition.signature.encode(args, kwargs)
        if self._tx is not None:  # a transaction belongs to its thread
            return await awaited(self._tx, lambda tx: self._store(text, tx))
        self._app.desk.refuse_inside()
        return await in_thread(self._store, text)

    def _store(self, text: str, tx: Any = None) -> Handle[R]:
        put = self._put._replace(args=text)
        if tx is not None:
            stored = self._app.desk.put(tx, put)
        else:
            self._app.desk.refuse_inside()
            stored = self._app.caller.put(put)
        if put.mode == "reject" and not stored.created:
            raise KeyTaken(f"task {put.name}: the key {put.key!r} is in use by #{stored.id}, which is {stored.state}")
        return Handle(self._app.caller, stored.id, put.name, put.key, created=stored.created)


def _keep_ms(keep_result: Any) -> int | None:
    if isinstance(keep_result, bool):
        return duration_ms(KEEP_RESULT) if keep_result else None
    return duration_ms(keep_result, "keep_result")


def _tuple(name: str, args: Any) -> tuple[Any, ...]:
    if not isinstance(args, list):
        raise BadDefinition(f"task {name}: enqueue_many takes tuples of arguments, like [(1,), (2,)], not {args!r}")
    return tuple(args)
