"""The application's side: tasks are declared, put and looked at here."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from nextdue.aio import in_thread
from nextdue.clock import Duration, duration_ms, to_ms
from nextdue.codec import Signature
from nextdue.errors import BadDefinition, KeyTaken
from nextdue.executors.call import Context, Definition
from nextdue.handle import Handle
from nextdue.records import Claim, Put, State
from nextdue.service import Hook, Service
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.files import absolute
from nextdue.sqlite.store import KEEP_ROWS, SqliteStore
from nextdue.task import Options, Retry, checked_name, checked_priority
from nextdue.upkeep import Upkeep

P = ParamSpec("P")
R = TypeVar("R")

REMEMBER = timedelta(days=1)
"""How long a finished task occupies its key, unless using(remember=...) says otherwise."""
STATES = ("waiting", "running", "done", "dead", "cancelled", "held")


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
        self.tasks: dict[str, Task[..., Any]] = {}
        self._definitions: dict[str, Definition] = {}
        self._keep_rows, self._keep_ms = keep_runs, duration_ms(keep_runs_for, "keep_runs_for")
        self.caller = Caller(self.path, self.open_store)
        self._service: Service | None = None

    def open_store(self) -> SqliteStore:
        """A new connection to the file, which is created if it isn't there."""
        return SqliteStore(self.path, keep_rows=self._keep_rows, keep_ms=self._keep_ms)

    # declaring tasks

    @overload
    def task(self, fn: Callable[Concatenate[Context, P], R], /) -> "Task[P, R]": ...
    @overload
    def task(self, fn: Callable[P, R], /) -> "Task[P, R]": ...
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
        keep_result: bool = False,
        aliases: Sequence[str] = (),
    ) -> Callable[[Callable[..., R]], "Task[..., R]"]: ...
    def task(self, fn: Any = None, /, **options: Any) -> Any:
        """Declare a function as a task: `@nd.task` or `@nd.task(queue="mail", ...)`.

        name: under which it is stored; its own name by default, without the module. queue, priority (-100..100,
        higher first): defaults for using(). retry: a Retry. lease (s): how long a claim stands without a renewal;
        a living worker renews it. time_limit (s): after so long the attempt is given up and counts as failed.
        keep_result: keep the returned value in the run history, as JSON. aliases: former names.

        Raises BadDefinition, at once, for anything that can't work.
        """
        if fn is None:
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
        aliases: Any = (),
    ) -> "Task[..., Any]":
        if not callable(fn) or isinstance(fn, type) or not hasattr(fn, "__name__"):
            raise BadDefinition(f"a task must be a function, not {fn!r}; wrap it in one written with def")
        if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise BadDefinition(f"{_place(fn)}: coroutines and generators can't be tasks yet; write a plain function")
        if not isinstance(aliases, str | list | tuple):
            raise BadDefinition(f"{_place(fn)}: aliases are a list of former names, not {aliases!r}")
        if not isinstance(keep_result, bool):
            raise BadDefinition(f"{_place(fn)}: keep_result must be True or False, not {keep_result!r}")
        options = Options(
            name=fn.__name__ if name is None else name,
            queue=queue,
            priority=priority,
            retry=Retry() if retry is None else retry,
            lease_ms=duration_ms(lease, "lease"),
            time_limit_ms=None if time_limit is None else duration_ms(time_limit, "time_limit"),
            keep_result=keep_result,
            aliases=(aliases,) if isinstance(aliases, str) else tuple(aliases),
        )
        if options.name == "<lambda>":
            raise BadDefinition("a lambda has no name to be stored under; write @nd.task(name=...)")
        if next(iter(inspect.signature(fn).parameters), None) in ("self", "cls"):
            raise BadDefinition(f"{_place(fn)} is a method; a task must be a function, since nobody keeps the object")
        wants_context = _wants_context(fn)
        definition = Definition(fn, Signature(fn, skip=int(wants_context)), options, wants_context)
        for word in (options.name, *options.aliases):
            other = self._definitions.get(word)
            if other is not None:
                raise BadDefinition(
                    f"two tasks are called {word!r}: {_place(other.fn)} and {_place(fn)}; give one of them a name=..."
                )
        for word in (options.name, *options.aliases):
            self._definitions[word] = definition
        task: Task[..., Any] = Task(self, definition)
        self.tasks[options.name] = task
        return task

    # looking at tasks

    @overload
    def get(self, id: int, /) -> Handle | None: ...
    @overload
    def get(self, name: str, key: str, /) -> Handle | None: ...
    def get(self, first: int | str, key: str | None = None, /) -> Handle | None:
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
        self, *, name: str | None = None, queue: str | None = None, state: State | None = None, limit: int = 100
    ) -> list[Handle]:
        """Tasks by name, queue and state, nearest due first, at most `limit`."""
        if state is not None and state not in STATES:
            raise BadDefinition(f"there is no state {state!r}; the states are {', '.join(STATES)}")
        if type(limit) is not int or not 1 <= limit < 1 << 31:
            raise BadDefinition(f"limit must be a whole number from 1, not {limit!r}")
        for word, what in ((name, "a task's name"), (queue, "a queue's name")):
            if word is not None:
                checked_name(word, what)
        with self.caller.use() as store:
            views = store.find(name=name, queue=queue, state=state, limit=limit)
        return [Handle(self.caller, v.id, v.name, v.key, created=False) for v in views]

    # working

    def working(
        self,
        concurrency: int = 8,
        *,
        queues: Sequence[str] | None = None,
        grace: Duration = 20,
        once: bool = False,
        exclusive: bool = False,
        hook: Hook | None = None,
    ) -> Service:
        """A worker of this application: `with nd.working():` runs it in threads of this process.

        concurrency: how many tasks at a time. queues: only these. grace (s): what running tasks get at a stop.
        """
        return Service(
            self.path,
            self.open_store,
            self._definitions,
            concurrency=concurrency,
            queues=queues,
            grace=grace,
            once=once,
            exclusive=exclusive,
            hook=hook,
        )

    def run(self, concurrency: int = 8, **options: Any) -> None:
        """Work in this thread until SIGTERM or Ctrl-C. Takes the options of working()."""
        self.working(concurrency, **options).run()

    def start(self, concurrency: int = 8, **options: Any) -> None:
        """Start a worker in a thread of this process, as in the workers of a web server. Again: nothing happens."""
        if self._service is None or not self._service.alive():
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


class Task(Generic[P, R]):
    """A declared task. Calling it just runs the function; enqueue() stores a call for a worker."""

    def __init__(self, app: Nextdue, definition: Definition) -> None:
        functools.update_wrapper(self, definition.fn)
        self.app, self.definition, self.options = app, definition, definition.options
        self._now: Call[P] = self.using()

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return self.options.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now, without the store."""
        if self.definition.wants_context and not (args and isinstance(args[0], Context)):
            claim = Claim(0, 0, self.name, "[]", None, 0, 0, 1, 0, 0)
            return self.definition.fn(Context(claim), *args, **kwargs)  # type: ignore[no-any-return]
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
        on_conflict: Literal["ignore", "reject"] = "ignore",
    ) -> "Call[P]":
        """How a call is stored: `task.using(delay="5m", key="42").enqueue(42)`.

        delay (timedelta, seconds, or "5m") or due (an aware datetime): when it is to run; default now.
        key: unique within the task's name; while a task with it is unfinished, or finished less than `remember`
        (default a day) ago, another one isn't stored: on_conflict="ignore" answers the one that exists,
        "reject" raises KeyTaken. Dead and cancelled ones are started anew.
        """
        if delay is not None and due is not None:
            raise BadDefinition(f"task {self.name}: give delay or due, not both")
        if on_conflict not in ("ignore", "reject"):
            raise BadDefinition(f'task {self.name}: on_conflict must be "ignore" or "reject", not {on_conflict!r}')
        if key is None and (remember is not None or on_conflict == "reject"):
            raise BadDefinition(f"task {self.name}: remember and on_conflict speak of a key; give key=...")
        put = Put(
            name=self.name,
            queue=self.options.queue if queue is None else checked_name(queue, "a queue's name"),
            priority=self.options.priority if priority is None else checked_priority(priority),
            args="",
            due_ms=None if due is None else to_ms(due),
            delay_ms=0 if delay is None else duration_ms(delay, "delay"),
            key=None if key is None else checked_name(key, "a key"),
            remember_ms=None if key is None else duration_ms(REMEMBER if remember is None else remember, "remember"),
        )
        return Call(self.app, self.definition, put, reject=on_conflict == "reject")

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Store a call, due now. When this returns it is on disk. Raises BadArguments or StoreError."""
        return self._now.enqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle]:
        """Store many calls, all of them or none, by one commit: `task.enqueue_many([(1,), (2,)])`."""
        return self._now.enqueue_many(calls)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """enqueue() from a coroutine, without blocking its event loop."""
        return await self._now.aenqueue(*args, **kwargs)


class Call(Generic[P]):
    """A task with the options of using(); enqueue() stores it."""

    def __init__(self, app: Nextdue, definition: Definition, put: Put, *, reject: bool) -> None:
        self._app, self._definition, self._put, self._reject = app, definition, put, reject

    def __repr__(self) -> str:
        return f"<{self._put.name}, not stored yet: .enqueue(...) does that>"

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Raises BadDefinition: using() says how a call is stored, enqueue() stores it."""
        raise BadDefinition(f"task {self._put.name}: write .using(...).enqueue(...) to store a call")

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Store the call. When this returns it is on disk. Raises BadArguments, KeyTaken or StoreError."""
        return self._store(self._definition.signature.encode(args, kwargs))

    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle]:
        """Store many calls, all of them or none, by one commit. Raises BadArguments or StoreError."""
        put = self._put
        if put.key is not None:
            raise BadDefinition(f"task {put.name}: one key can't be held by many tasks; enqueue them one by one")
        tuples = [args if type(args) is tuple else _tuple(put.name, args) for args in calls]
        ids = self._app.caller.put_many(put, self._definition.signature.encode_many(tuples), len(tuples))
        return [Handle(self._app.caller, id, put.name, None, created=True) for id in ids]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """enqueue() from a coroutine, without blocking its event loop."""
        return await in_thread(self._store, self._definition.signature.encode(args, kwargs))

    def _store(self, text: str) -> Handle:
        put = self._put
        stored = self._app.caller.put(put._replace(args=text))
        if self._reject and not stored.created:
            raise KeyTaken(f"task {put.name}: the key {put.key!r} is in use by #{stored.id}, which is {stored.state}")
        return Handle(self._app.caller, stored.id, put.name, put.key, created=stored.created)


def _tuple(name: str, args: Any) -> tuple[Any, ...]:
    if not isinstance(args, list):
        raise BadDefinition(f"task {name}: enqueue_many takes tuples of arguments, like [(1,), (2,)], not {args!r}")
    return tuple(args)


def _wants_context(fn: Callable[..., Any]) -> bool:
    """Whether the first parameter is for the Context: it is called ctx or annotated with it."""
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    return first is not None and (first.name == "ctx" or first.annotation in (Context, "Context", "nextdue.Context"))


def _place(fn: Callable[..., Any]) -> str:
    code = getattr(fn, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code else "?"
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', fn)} ({where})"
