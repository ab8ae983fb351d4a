"""Schedules in the file: declared, listed, paused and removed. What comes of their rows is the tick's."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from nextdue import schedule
from nextdue.errors import BadDefinition
from nextdue.records import Declared
from nextdue.schedule import Plan
from nextdue.sqlite.database import Database
from nextdue.sqlite.store import SqliteStore

PAGE = "schedules.sql"
_json = msgspec.json.Encoder()

Standing = Literal["same", "new", "changed", "gone"]
"""How the file stands to the code. gone: the code that declared it has no such schedule any more."""


class ScheduleView(NamedTuple):
    """A schedule as it is in the file. Instants in UTC ms."""

    name: str
    """Of its task."""
    key: str
    """Its own, as it was declared."""
    plan: Plan
    """schedule.UNREADABLE if it can't be read."""
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

    @property
    def label(self) -> str:
        """Its task, and its key if that is another word."""
        return self.name if self.key == self.name else f"{self.name} {self.key}"


class Changes(NamedTuple):
    """What declaring did to a file: the keys of what is new or another one now, and the labels of what is orphaned."""

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
    known = {(view.name, view.key): view for view in listed(store, declared=True)}
    wanted = {(one.name, one.key.removeprefix(schedule.MARK)): (one, plan) for one, plan in schedules}
    now = store.now_ms()
    changed = [
        _placed(*pair, now, random) for at, pair in wanted.items() if standing(pair[0], known.get(at), loaded) != "same"
    ]
    put(store, changed)
    orphans = [
        view
        for at, view in known.items()
        if view.orphaned is None and at not in wanted and standing(None, view, loaded) == "gone"
    ]
    for view in orphans:
        _change(store, "orphan", view.name, view.key)
    return Changes([one.key.removeprefix(schedule.MARK) for one in changed], [view.label for view in orphans])


def standing(one: Declared | None, view: ScheduleView | None, loaded: Callable[[str], bool]) -> Standing | None:
    """How a schedule of a program stands to that of the same name and key in the file; None: not this program's."""
    if one is None:
        return "gone" if view is not None and view.source is not None and loaded(view.source) else None
    if view is None:
        return "new"
    same = (
        view.orphaned is None
        and (schedule.written(view.plan), view.source) == (one.plan, one.source)
        and (view.args, view.queue, view.priority) == (one.args, one.queue, one.priority)
    )
    return "same" if same else "changed"


def put_now(store: SqliteStore, one: Declared, plan: Plan, random: Callable[[], float]) -> None:
    """Make this schedule, or change the one of the same name and key. Whoever calls rings afterwards."""
    put(store, [_placed(one, plan, store.now_ms(), random)])


def put(store: SqliteStore, schedules: Iterable[Declared]) -> None:
    """Make these schedules, or change those of the same name and key."""
    rows = [tuple(one) for one in schedules]
    if rows:
        _prepared(store.database).write("declare", {"rows": _json.encode(rows).decode(), **store.clock()})


def listed(
    store: SqliteStore, name: str | None = None, key: str | None = None, *, declared: bool = False
) -> list[ScheduleView]:
    """All schedules, or those of this name and key, or those that code declares."""
    params = {"name": name, "key": None if key is None else schedule.MARK + key, "declared": declared}
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


def _view(row: Any) -> ScheduleView:
    name, key, plan, *rest = row
    try:
        read = schedule.read(plan)
    except BadDefinition:  # one that can't be read must not hide the others, nor keep a worker from starting
        read = schedule.UNREADABLE
    view = ScheduleView(name, key.removeprefix(schedule.MARK), read, *rest)
    return view._replace(running=bool(view.running))


def _prepared(database: Database) -> Database:
    """The database with the statements of this page and its temporary objects."""
    if database.bring(PAGE):
        database.script("schedules_setup")
    return database
