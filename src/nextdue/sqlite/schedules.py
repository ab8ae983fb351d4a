"""Schedules in the file: declared, listed, paused and removed. What comes of their rows is the tick's."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from nextdue import schedule
from nextdue.records import Declared
from nextdue.schedule import Plan
from nextdue.sqlite.database import Database
from nextdue.sqlite.store import SqliteStore

PAGE = "schedules.sql"
_json = msgspec.json.Encoder()


class ScheduleView(NamedTuple):
    """A schedule as it is in the file. Instants in UTC ms."""

    name: str
    """Of its task."""
    key: str
    """Its own, as it was declared."""
    plan: Plan
    source: str | None
    """The module that declares it; None: made at run time."""
    fired: int
    """How many occurrences have ended."""
    last: int | None
    """The slot of the last of them."""
    missed: int
    """How many were missed since then."""
    missed_ever: int
    paused: int | None
    """Since when it is paused."""
    orphaned: int | None
    """Since when the code that declared it doesn't do so any more."""
    id: int | None
    """Of its row."""
    args: str | None
    due: int | None
    """When it is looked at next; while it runs, the end of its lease."""
    slot: int | None
    """Which occurrence that is; None: that of its due."""
    running: bool
    rest: str | None
    attempts: int | None
    """How often the present occurrence has failed."""
    reason: str | None
    message: str | None
    queue: str | None
    priority: int | None

    @property
    def state(self) -> str:
        """running, waiting, held, paused, orphaned or ended."""
        if self.running:
            return "running"
        if self.orphaned is not None:
            return "orphaned"
        if self.paused is not None:
            return "paused"
        if self.rest == "held":
            return "held"
        return "waiting" if self.rest in (None, "blocked", "waits") else "ended"


class Changes(NamedTuple):
    """What declaring did to a file: the keys of what is new or another one now, and of what is orphaned."""

    changed: list[str]
    orphaned: list[str]


def declare(
    store: SqliteStore,
    schedules: Iterable[tuple[Declared, Plan]],
    random: Callable[[], float],
    loaded: Callable[[str], bool],
) -> Changes:
    """Bring the file's schedules in line with those of a program. Whoever calls rings afterwards.

    `loaded` says of a module whether this program has it: what such a one declared before and doesn't declare now is
    orphaned, and its row held.
    """
    known = {(view.name, view.key): view for view in listed(store)}
    wanted = {(one.name, one.key.removeprefix(schedule.MARK)): (one, plan) for one, plan in schedules}
    now = store.now_ms()
    changed = [_placed(*pair, now, random) for key, pair in wanted.items() if not _same(pair[0], known.get(key))]
    put(store, changed)
    orphans = [
        view
        for at, view in known.items()
        if view.source is not None and view.orphaned is None and at not in wanted and loaded(view.source)
    ]
    for view in orphans:
        _change(store, "orphan", view.name, view.key)
    return Changes([one.key.removeprefix(schedule.MARK) for one in changed], [view.key for view in orphans])


def put_now(store: SqliteStore, one: Declared, plan: Plan, random: Callable[[], float]) -> None:
    """Make this schedule, or change the one of the same name and key. Whoever calls rings afterwards."""
    put(store, [_placed(one, plan, store.now_ms(), random)])


def put(store: SqliteStore, schedules: Iterable[Declared]) -> None:
    """Make these schedules, or change those of the same name and key."""
    rows = [tuple(one) for one in schedules]
    if rows:
        _prepared(store.database).write("declare", {"rows": _json.encode(rows).decode(), **store.clock()})


def listed(store: SqliteStore, name: str | None = None, key: str | None = None) -> list[ScheduleView]:
    """All schedules, or those of this name and key."""
    params = {"name": name, "key": None if key is None else schedule.MARK + key}
    return [_view(row) for row in _prepared(store.database).rows("schedules", params)]


def pause(store: SqliteStore, name: str, key: str) -> bool:
    """No occurrence is started from now on; False if it was paused before or isn't there."""
    found = listed(store, name, key)
    return bool(found) and found[0].paused is None and _change(store, "pause", name, key)


def resume(store: SqliteStore, name: str, key: str, random: Callable[[], float]) -> bool:
    """Go on with the next occurrence from now on; False if it wasn't paused. Whoever calls rings afterwards."""
    found = listed(store, name, key)
    if not found or found[0].paused is None:
        return False
    slot = schedule.first(found[0].plan, store.now_ms())
    due = None if slot is None else schedule.jittered(found[0].plan, slot, random)
    return _change(store, "resume", name, key, due, slot)


def remove(store: SqliteStore, name: str, key: str) -> bool:
    """Forget a schedule; an occurrence that runs is the last. False if it isn't there."""
    return bool(listed(store, name, key)) and _change(store, "remove", name, key)


def _change(
    store: SqliteStore, verb: str, name: str, key: str, due: int | None = None, slot: int | None = None
) -> bool:
    params = {"verb": verb, "name": name, "key": schedule.MARK + key, "due": due, "slot": slot}
    _prepared(store.database).write("scheduling", params | store.clock())
    return True


def _placed(one: Declared, plan: Plan, now: int, random: Callable[[], float]) -> Declared:
    slot = schedule.first(plan, now)
    return one._replace(due_ms=None if slot is None else schedule.jittered(plan, slot, random), slot_ms=slot)


def _same(one: Declared, view: ScheduleView | None) -> bool:
    return (
        view is not None
        and view.orphaned is None
        and (schedule.written(view.plan), view.source) == (one.plan, one.source)
        and (view.args, view.queue, view.priority) == (one.args, one.queue, one.priority)
    )


def _view(row: Any) -> ScheduleView:
    name, key, plan, *rest = row
    view = ScheduleView(name, key.removeprefix(schedule.MARK), schedule.read(plan), *rest)
    return view._replace(running=bool(view.running))


def _prepared(database: Database) -> Database:
    """The database with the statements of this page and its temporary objects."""
    if database.bring(PAGE):
        database.script("schedules_setup")
    return database
