"""Declared tasks, and calls of them that are to be stored."""

import functools
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, get_args, overload

from nextdue.aio import in_thread
from nextdue.clock import Duration, duration_ms, to_ms
from nextdue.desk import Desk
from nextdue.errors import BadDefinition, KeyTaken
from nextdue.executors.context import Context, Definition
from nextdue.handle import Handle, Handles
from nextdue.records import Claim, Mode, Put
from nextdue.schedules import on_demand
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.tx import Transaction
from nextdue.task import checked_key, checked_name, checked_priority
from nextdue.tx import awaited

P = ParamSpec("P")
C = TypeVar("C")
"""What a call of the function answers: of a coroutine an awaitable, else the result."""
R = TypeVar("R")
"""The result of the task."""

REMEMBER = timedelta(days=1)
"""How long a finished task occupies its key, unless using(remember=...) says otherwise."""
MODES = get_args(Mode)


class App(Protocol):
    """What an application is to its tasks."""

    path: Path
    caller: Caller
    desk: Desk


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

    def __init__(self, app: App, definition: Definition) -> None:
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
        after: "Handle[Any] | Sequence[Handle[Any]] | None" = None,
        if_dead: Literal["hold", "cancel"] = "hold",
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
        after: tasks that must be done before (None or an empty list: no task); until then it waits, at rest.
        ctx.results are what they returned. If one of them ends in any other way, if_dead says whether this one is
        held, or cancelled; a held one goes on by itself if that one is done after all. Raises UnknownTask, when
        stored, if nobody knows how one of them ended.
        tx: store it in this transaction, with which it is committed or rolled back: of nd.transaction(), a
        sqlite3.Connection, SQLAlchemy's Session or Connection (asynchronous ones with aenqueue), or
        django.db.connection inside of atomic().
        """
        if delay is not None and due is not None:
            raise BadDefinition(f"task {self.name}: give delay or due, not both")
        if on_conflict not in MODES:
            raise BadDefinition(f"task {self.name}: on_conflict must be {', '.join(MODES)}, not {on_conflict!r}")
        period_ms = self.options.period_ms
        if period_ms is not None and (key, remember, on_conflict) != (None, None, "ignore"):
            raise BadDefinition(f"task {self.name} runs on demand: its keys are made of its arguments and the time")
        if key is None and (remember is not None or on_conflict != "ignore"):
            raise BadDefinition(f"task {self.name}: remember and on_conflict are about a key; give key=...")
        if latest is not None and on_conflict != "extend":
            raise BadDefinition(f'task {self.name}: latest bounds on_conflict="extend"; give both')
        if group is not None and not self.options.grouped:
            raise BadDefinition(f"task {self.name}: a group is counted by a limit or a rate; give @nd.task(limit=...)")
        put = Put(
            name=self.name,
            queue=self.options.queue if queue is None else checked_name(queue, "a queue's name"),
            priority=self.options.priority if priority is None else checked_priority(priority),
            args="",
            due_ms=None if due is None else to_ms(due),
            delay_ms=0 if delay is None else duration_ms(delay, "delay"),
            key=None if key is None else checked_key(key),
            remember_ms=None if key is None else duration_ms(REMEMBER if remember is None else remember, "remember"),
            mode=on_conflict,
            latest_ms=None if latest is None else duration_ms(latest, "latest"),
            expires_ms=to_ms(expires) if isinstance(expires, datetime) else None,
            expires_in_ms=None if expires is None or isinstance(expires, datetime) else duration_ms(expires, "expires"),
            group=self._group(group),
            after=self._parents(after, if_dead, on_conflict),
            if_dead=if_dead,
            period_ms=period_ms,
        )
        return Call(self.app, self.definition, put, tx)

    def _parents(self, after: Any, if_dead: str, on_conflict: str) -> tuple[int, ...]:
        handles = [] if after is None else [after] if isinstance(after, Handle) else after
        if not isinstance(handles, list | tuple | Handles) or not all(isinstance(handle, Handle) for handle in handles):
            raise BadDefinition(f"task {self.name}: after= takes the handles that enqueue() answers, not {after!r}")
        if if_dead not in ("hold", "cancel"):
            raise BadDefinition(f"task {self.name}: if_dead must be hold or cancel, not {if_dead!r}")
        if handles and self.options.period_ms is not None:
            raise BadDefinition(f"task {self.name} runs on demand: when is a matter of the time, never of after=")
        if handles and on_conflict not in ("ignore", "reject"):
            raise BadDefinition(
                f"task {self.name}: what comes after= others is stored once, so that on_conflict can only be ignore or "
                f"reject, not {on_conflict}"
            )
        for handle in handles:
            if handle.path != self.app.path:
                raise BadDefinition(f"task {self.name} can't come after {handle!r}, which is in {handle.path}")
        return tuple(dict.fromkeys(handle.id for handle in handles))

    def _group(self, group: str | None) -> str | None:
        if group is not None:
            return checked_name(group, "a group")
        return "" if self.options.grouped else None

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Store a call, due now. When this returns it is on disk. Raises BadArguments or StoreError."""
        return self._now.enqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> Sequence[Handle[R]]:
        """Store many calls, all of them or none, by one commit: `task.enqueue_many([(1,), (2,)])`."""
        return self._now.enqueue_many(calls)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """enqueue() from a coroutine, without blocking its event loop."""
        return await self._now.aenqueue(*args, **kwargs)


class Call(Generic[P, R]):
    """A task with the options of using(); enqueue() stores it."""

    def __init__(self, app: App, definition: Definition, put: Put, tx: Any = None) -> None:
        self._app, self._definition, self._put, self._tx = app, definition, put, tx

    def __repr__(self) -> str:
        return f"<{self._put.name}, not stored yet: .enqueue(...) does that>"

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Raises BadDefinition: using() says how a call is stored, enqueue() stores it."""
        raise BadDefinition(f"task {self._put.name}: write .using(...).enqueue(...) to store a call")

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Store the call. When this returns it is on disk. Raises BadArguments, KeyTaken or StoreError."""
        return self._store(self._definition.signature.encode(args, kwargs), self._tx)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> Sequence[Handle[R]]:
        """Store many calls, all of them or none, by one commit. Raises BadArguments or StoreError."""
        put = self._put
        if put.period_ms is not None:
            raise BadDefinition(f"task {put.name} runs on demand: enqueue its calls one by one")
        if put.key is not None:
            raise BadDefinition(f"task {put.name}: one key can't be held by many tasks; enqueue them one by one")
        tuples = [args if type(args) is tuple else _tuple(put.name, args) for args in calls]
        texts = self._definition.signature.encode_many(tuples)
        if self._tx is not None:
            ids = self._app.desk.put_many(self._tx, put, texts, len(tuples))
        elif put.after:
            with self._transaction() as tx:
                ids = self._app.desk.put_many(tx, put, texts, len(tuples))
        else:
            self._app.desk.refuse_inside()
            ids = self._app.caller.put_many(put, texts, len(tuples))
        return Handles(self._app.caller, ids, put.name)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """enqueue() from a coroutine, without blocking its event loop."""
        text = self._definition.signature.encode(args, kwargs)
        if self._tx is not None:  # a transaction belongs to its thread
            return await awaited(self._tx, lambda tx: self._store(text, tx))
        self._app.desk.refuse_inside()
        return await in_thread(self._store, text)

    def _transaction(self) -> AbstractContextManager[Transaction]:
        """What comes after others takes several statements, which a single put is spared."""
        self._app.desk.refuse_inside()
        return self._app.desk.transaction()

    def _store(self, text: str, tx: Any = None) -> Handle[R]:
        put = self._put._replace(args=text)
        if put.period_ms is not None:
            put = on_demand(put)
        if tx is not None:
            stored = self._app.desk.put(tx, put)
        elif put.after:
            with self._transaction() as own:
                stored = self._app.desk.put(own, put)
        else:
            self._app.desk.refuse_inside()
            stored = self._app.caller.put(put)
        if put.mode == "reject" and not stored.created:
            raise KeyTaken(f"task {put.name}: the key {put.key!r} is in use by #{stored.id}, which is {stored.state}")
        key = put.key if put.period_ms is None else None  # of a run on demand, the store has made it
        return Handle(self._app.caller, stored.id, put.name, key, created=stored.created)


def _tuple(name: str, args: Any) -> tuple[Any, ...]:
    if not isinstance(args, list):
        raise BadDefinition(f"task {name}: enqueue_many takes tuples of arguments, like [(1,), (2,)], not {args!r}")
    return tuple(args)
