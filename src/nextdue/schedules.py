"""Schedules as a program sees them: put, paused and removed at run time, or declared by its code (see scheduling)."""

import hashlib
import logging
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nextdue import schedule
from nextdue.clock import Duration, duration_ms, to_ms
from nextdue.codec import Signature
from nextdue.errors import BadDefinition
from nextdue.executors.context import Definition
from nextdue.records import Declared, Put
from nextdue.schedule import Missed, Plan
from nextdue.sqlite import schedules as stored
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.schedules import ScheduleView
from nextdue.sqlite.store import SqliteStore
from nextdue.task import Options, checked_name

if TYPE_CHECKING:
    from nextdue.cron import Cron
    from nextdue.every import Every

log = logging.getLogger("nextdue")
Pairs = Sequence[tuple[Declared, Plan]]


class Scheduled(Protocol):
    """A declared task."""

    @property
    def definition(self) -> Definition: ...


class Schedules:
    """The schedules of an application: `nd.schedules`."""

    def __init__(self, caller: Callable[[], Caller]) -> None:
        self._caller = caller
        self._declared: dict[tuple[str, str], tuple[Declared, Plan]] = {}

    def put(
        self,
        task: Scheduled,
        rule: "Cron | Every",
        *,
        key: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        jitter: Duration = 0,
        starting: datetime | None = None,
        ending: datetime | None = None,
        count: int | None = None,
        missed: Missed = "run_once",
        missed_limit: int = schedule.CATCH_UP,
        missed_window: Duration | None = None,
    ) -> None:
        """Run a task by a Cron or an Every from now on: a schedule that no code declares, until it is removed.

        key: its name among the schedules of this task; the task's name by default. One of the same key becomes this
        one, and nothing happens if it is this one already. args, kwargs: what the task is called with.
        jitter (s): how much later than its slot an occurrence may be due, at random. starting, ending: aware datetimes
        between which occurrences lie; count: after so many it ends. missed: what becomes of occurrences that couldn't
        be started in time: "run_once" runs the latest of them, "skip" none, "all" each, at most the latest
        `missed_limit`. missed_window (s): those that are later than this are passed over in any case.

        Raises BadDefinition, BadArguments or StoreError.
        """
        plan = planned(
            rule, jitter, starting=starting, ending=ending, count=count, missed=missed, limit=missed_limit,
            window=missed_window,
        )  # fmt: skip
        one = _declared(_definition(task), plan, key, args, kwargs, None)
        with self._caller().change() as store:
            stored.put_now(store, one, plan, random.random)
        self._caller().ring()

    def pause(self, task: Scheduled | str, key: str | None = None) -> bool:
        """Start no occurrence from now on; False if it was paused before or isn't there. What runs goes on."""
        with self._caller().change() as store:
            return stored.pause(store, *_named(task, key))

    def resume(self, task: Scheduled | str, key: str | None = None) -> bool:
        """Go on with the next occurrence; False if it wasn't paused. What lay in the pause isn't missed."""
        with self._caller().change() as store:
            resumed = stored.resume(store, *_named(task, key), random.random)
        self._caller().ring()
        return resumed

    def remove(self, task: Scheduled | str, key: str | None = None) -> bool:
        """Forget a schedule; False if it isn't there. One that code declares comes back with the next worker."""
        with self._caller().change() as store:
            return stored.remove(store, *_named(task, key))

    def list(self) -> list[ScheduleView]:
        """The schedules in the file, by task and key. Those of the code are there once a worker has been started."""
        with self._caller().use() as store:
            return stored.listed(store)

    def declare(self, definition: Definition, plan: Plan, key: str | None, args: Any, kwargs: Any) -> None:
        """Add one of the code's schedules. Raises BadDefinition."""
        one = _declared(definition, plan, key, args, kwargs, home(definition.fn))
        if (one.name, one.key) in self._declared:
            raise BadDefinition(
                f"task {one.name}: two of its schedules have the key {one.key.removeprefix(schedule.MARK)!r}; "
                "give one of them another key=..."
            )
        self._declared[one.name, one.key] = one, plan

    def declared(self) -> Pairs:
        """All of the code's schedules."""
        return list(self._declared.values())


def planned(
    rule: Any,
    jitter: Duration,
    *,
    starting: datetime | None,
    ending: datetime | None,
    count: int | None,
    missed: Any,
    limit: int,
    window: Duration | None,
) -> Plan:
    """The plan of a schedule, checked. Raises BadDefinition."""
    from nextdue.cron import Cron
    from nextdue.every import Every

    if not isinstance(rule, Cron | Every):
        raise BadDefinition(f'a schedule goes by a Cron or an Every, as in Every("30m"), not {rule!r}')
    for value, what in ((count, "count"), (limit, "missed_limit")):
        if value is not None and (type(value) is not int or not 1 <= value <= 1_000_000):
            raise BadDefinition(f"a schedule's {what} must be a whole number from 1 to 1,000,000, not {value!r}")
    if missed not in ("run_once", "skip", "all"):
        raise BadDefinition(f'missed must be "run_once", "skip" or "all", not {missed!r}')
    plan = schedule.plan_of(
        rule,
        jitter_ms=duration_ms(jitter, "jitter"),
        starting_ms=None if starting is None else to_ms(starting),
        ending_ms=None if ending is None else to_ms(ending),
        count=count,
        missed=missed,
        limit=limit,
        window_ms=None if window is None else duration_ms(window, "missed_window"),
    )
    if starting is not None and ending is not None and ending < starting:
        raise BadDefinition(f"a schedule can't end ({ending.isoformat()}) before it starts ({starting.isoformat()})")
    if schedule.from_end(plan) and (missed != "run_once" or window is not None):
        raise BadDefinition("a period that counts from the end of each attempt misses nothing; give Every an anchor=")
    return plan


def _declared(
    definition: Definition, plan: Plan, key: str | None, args: Any, kwargs: Any, source: str | None
) -> Declared:
    options: Options = definition.options
    signature: Signature = definition.signature
    key = checked_name(options.name if key is None else key, "a schedule's key")
    if len(key) + len(schedule.MARK) > 200:
        raise BadDefinition(f"a schedule's key must have at most {200 - len(schedule.MARK)} characters")
    if not isinstance(args, list | tuple):
        raise BadDefinition(f"task {options.name}: args is a tuple of arguments, not {args!r}")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise BadDefinition(f"task {options.name}: kwargs is a dict of arguments, not {kwargs!r}")
    return Declared(
        name=options.name,
        key=schedule.MARK + key,
        queue=options.queue,
        priority=options.priority,
        args=signature.encode(tuple(args), dict(kwargs or {})),
        plan=schedule.written(plan),
        source=source,
        due_ms=None,
        slot_ms=None,
    )


def _definition(task: Any) -> Definition:
    definition = getattr(task, "definition", None)
    if not isinstance(definition, Definition):
        raise BadDefinition(f"only a task can have schedules, not {task!r}; declare it with @nd.task")
    return definition


def _named(task: Scheduled | str, key: str | None) -> tuple[str, str]:
    name = task if isinstance(task, str) else _definition(task).options.name
    return checked_name(name, "a task's name"), checked_name(name if key is None else key, "a schedule's key")


def on_demand(put: Put) -> Put:
    """A put of a run on demand with the key of all of them: the period and, if there are any, the arguments."""
    assert put.period_ms is not None
    args = "" if put.args == "[]" else "/" + hashlib.blake2b(put.args.encode(), digest_size=9).hexdigest()
    remember = max(2 * put.period_ms, 86_400_000)
    return put._replace(key=f"{put.period_ms / 1000:g}s{args}", remember_ms=remember)


def home(fn: Callable[..., Any]) -> str:
    """The module of a function; of a script its file's name, under which it may be imported too."""
    module = str(getattr(fn, "__module__", "?"))
    if module != "__main__":
        return module
    return script() or module


def script() -> str | None:
    """The name under which the script that runs could be imported."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return None if file is None else Path(file).stem


def loaded(module: str) -> bool:
    """Whether this program has this module."""
    return module in sys.modules or module == script()


def declare(store: SqliteStore, schedules: Pairs, spread: Callable[[], float] = random.random) -> bool:
    """Bring the file's schedules in line with these; whether others must be woken."""
    changes = stored.declare(store, schedules, spread, loaded)
    for label in changes.orphaned:
        log.warning("schedule %s is declared no more and is held; `nextdue schedules` shows it", label)
    return bool(changes.changed)
