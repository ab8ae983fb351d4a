"""`nextdue schedules`: what runs again and again, and pausing, resuming and removing it."""

import argparse
import os
import random
import time
from collections.abc import Sequence
from shlex import quote
from typing import Any, NamedTuple

from nextdue import schedule
from nextdue.cli import render, target
from nextdue.cli.rules import besides, in_short, near
from nextdue.cli.target import VARIABLE, Target
from nextdue.cli.times import relative, shown, utc
from nextdue.clock import span
from nextdue.errors import BadDefinition, StoreMissing, UnknownTask
from nextdue.records import Declared, TaskView
from nextdue.schedule import Plan
from nextdue.sqlite import pauses
from nextdue.sqlite import schedules as stored
from nextdue.sqlite.alarm import ring
from nextdue.sqlite.schedules import ScheduleView
from nextdue.sqlite.store import SqliteStore

VERBS = ("pause", "resume", "remove")
NEW = "new"
"""The state of a schedule that the code declares and no worker has put into the file."""


class Line(NamedTuple):
    """One schedule as it is shown."""

    view: ScheduleView
    state: str
    """running, waiting, held, paused, orphaned, ended or new."""
    next: int | None
    """When the next occurrence that isn't begun is due."""
    kept: str | None
    """The pause of its queue or its name, if there is one."""


def schedules(args: argparse.Namespace) -> int:
    """Show them, or change one of them."""
    if args.words and args.words[0] in VERBS:
        return _change(args.words[0], args.words[1:])
    if len(args.words) > 1:
        raise BadDefinition(f"give [TARGET], or one of {', '.join(VERBS)} and then [TARGET] NAME [KEY]")
    where = target.find(args.words[0] if args.words else None)
    now, lines = look(where)
    if args.json:
        render.document([_data(line, now) for line in lines])
    elif not lines:
        print(f"there are no schedules in {where.path}")
    else:
        _show(lines, now)
    return 0


def look(where: Target) -> tuple[int, list[Line]]:
    """The time, and the schedules of the file with those that only the application declares so far."""
    declared = where.app.schedules.declared() if where.app else []
    try:
        store = where.open()
    except StoreMissing:
        if not declared:
            raise
        now = time.time_ns() // 1_000_000
        return now, [_new(one, plan, now) for one, plan in declared]
    try:
        now, views, paused = store.now_ms(), stored.listed(store), pauses.paused(store.database)
    finally:
        store.close()
    resting = {(found.kind, found.word) for found in paused}
    lines = [Line(view, view.state, upcoming(view, now), _kept(view, resting)) for view in views]
    known = {(view.name, schedule.MARK + view.key) for view in views}
    lines += [_new(one, plan, now) for one, plan in declared if (one.name, one.key) not in known]
    return now, sorted(lines, key=lambda line: (line.view.name, line.view.key))


def upcoming(view: ScheduleView, now: int) -> int | None:
    """When its next occurrence is due; of a running one without a fixed next time: None."""
    if view.state == "waiting":
        return None if view.rest == "waits" else view.due
    if view.state != "running" or schedule.from_end(view.plan):
        return None
    found = schedule.rule_of(view.plan).next_ms(max(now, view.slot or now))
    return None if found is None or found > (view.plan.ending_ms or found) else found


def _new(one: Declared, plan: Plan, now: int) -> Line:
    first = schedule.first(plan, now)
    view = ScheduleView(
        *(one.name, one.key.removeprefix(schedule.MARK), plan, one.source, 0, None, 0, 0, None, None, None, one.args),
        *(first, first, False, None, None, None, None, one.queue, one.priority),
    )
    return Line(view, NEW, first, None)


def _kept(view: ScheduleView, resting: set[tuple[Any, str]]) -> str | None:
    found = [f"{kind} {word}" for kind, word in (("queue", view.queue), ("name", view.name)) if (kind, word) in resting]
    return " and ".join(found) or None


# showing them


def _show(lines: Sequence[Line], now: int) -> None:
    """Two lines each, within 80 columns: what is to come, and below it the rule and what has been."""
    rows = [("TASK", "KEY", "STATE", "NEXT")]
    rows += [
        (render.clean(line.view.name, 18), render.clean(line.view.key, 16), line.state, _next(line, now))
        for line in lines
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row, line in zip(rows, [None, *lines], strict=True):
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip())
        if line is not None:
            print(f"  {render.clean(_past(line, now), 400)}")
    if any(line.state == NEW for line in lines):
        print("new: declared by the code; the next start of a worker puts it into the file.")
    if any(line.state == "orphaned" for line in lines):
        print("orphaned: its code declares it no more, and it doesn't run; `nextdue schedules remove` forgets it.")


def _next(line: Line, now: int) -> str:
    view = line.view
    if line.next is None:
        if line.state == "running" and schedule.from_end(view.plan):
            return f"{span(view.plan.period_ms or 0)} after its end"
        return "-"
    if line.state == NEW and line.next <= now:
        return "at once"
    return f"{near(line.next, now)}, {relative(line.next, now)}"


def _past(line: Line, now: int) -> str:
    view = line.view
    said = [in_short(view.plan), *besides(view.plan)]
    if line.state == "running":
        said.append("runs now")
    if line.state == "held":
        said.append(f"held: {view.message or view.reason}; `nextdue why {view.id}` tells more")
    if view.rest == "waits":
        said.append("waits for an event")
    if view.attempts and line.state != "held":
        said.append(f"failed {view.attempts}x: {view.message or view.reason}"[:60])
    if view.last is not None:
        said.append(f"last {near(view.last, now)}")
    elif not view.attempts and line.state != "running":
        said.append("never ran")
    if view.missed_ever:
        said.append(f"missed {view.missed_ever}")
    if view.paused is not None and line.state != "orphaned":
        said.append(f"paused since {near(view.paused, now)}")
    if view.orphaned is not None:
        said.append(f"since {near(view.orphaned, now)}")
    if line.kept is not None:
        said.append(f"{line.kept} paused")
    return "; ".join(said)


def _data(line: Line, now: int) -> dict[str, Any]:
    """A schedule for a program."""
    view = line.view
    times = {"next": line.next, "slot": view.slot, "last": view.last, "paused": view.paused, "orphaned": view.orphaned}
    data: dict[str, Any] = {"task": view.name, "key": view.key, "state": line.state, "rule": in_short(view.plan)}
    for word, ms in times.items():
        data |= {word: utc(ms), f"{word}_ms": ms}
    return data | {
        "in_ms": None if line.next is None else line.next - now,
        "fired": view.fired,
        "missed": view.missed,
        "missed_ever": view.missed_ever,
        "kept_by": line.kept,
        "source": view.source,
        "id": view.id,
        "args": render.parsed(view.args or "[]"),
        "queue": view.queue,
        "priority": view.priority,
        "attempts": view.attempts,
        "reason": view.reason,
        "message": view.message,
    }


# the row of one


def of_row(store: SqliteStore, view: TaskView) -> ScheduleView | None:
    """The schedule whose row this task is, if it is one's."""
    if view.key is None or not view.key.startswith(schedule.MARK):
        return None
    return next(iter(stored.listed(store, view.name, view.key.removeprefix(schedule.MARK))), None)


# changing one


def _change(verb: str, words: list[str]) -> int:
    place, name, key = _meant(verb, words)
    where = target.find(place)
    store = where.open()
    try:
        view = _one(where, store, name, key)
        done = _done(verb, store, view)
    finally:
        store.close()
    if done:
        ring(where.path)
    named = f"schedule {render.clean(label(view))}"
    print(f"{named} {_said(verb, view) if done else _instead(verb, view)}")
    return 0 if done else 1


def _done(verb: str, store: SqliteStore, view: ScheduleView) -> bool:
    if verb == "resume":
        return stored.resume(store, view.name, view.key, random.random)
    return (stored.pause if verb == "pause" else stored.remove)(store, view.name, view.key)


def _meant(verb: str, words: list[str]) -> tuple[str | None, str, str | None]:
    """[TARGET] NAME [KEY]. Raises BadDefinition."""
    if not 1 <= len(words) <= 3:
        raise BadDefinition(f"give: nextdue schedules {verb} [TARGET] NAME [KEY]")
    if len(words) == 3:
        return words[0], words[1], words[2]
    if len(words) == 1:
        return None, words[0], None
    if os.environ.get(VARIABLE) and not target.looks_like_target(words[0]):
        return None, words[0], words[1]
    return words[0], words[1], None


def _one(where: Target, store: SqliteStore, name: str, key: str | None) -> ScheduleView:
    """The schedule of this name and key; without a key that of the task's name, or the only one. Raises UnknownTask."""
    views = stored.listed(store)
    known = {view.name for view in views}
    if name not in known:
        raise UnknownTask(f"no task {name!r} has a schedule in {where.path}; {target.near(name, known)}")
    keys = {view.key: view for view in views if view.name == name}
    wanted = key if key is not None else name if name in keys or len(keys) > 1 else next(iter(keys))
    if wanted not in keys:
        raise UnknownTask(f"task {name} has no schedule with the key {wanted!r}; {target.near(wanted, keys)}")
    return keys[wanted]


def label(view: ScheduleView) -> str:
    """Its task, and its key if that is another word."""
    return view.name if view.key == view.name else f"{view.name} {view.key}"


def command(verb: str, name: str, key: str) -> str:
    """The command that does this to a schedule."""
    return f"nextdue schedules {verb} {' '.join(map(quote, (name,) if key == name else (name, key)))}"


def _said(verb: str, view: ScheduleView) -> str:
    if verb == "pause":
        also = "; what runs goes on" if view.running else ""
        return f"is paused until `{command('resume', view.name, view.key)}`{also}"
    if verb == "resume":
        return "is resumed; what lay in the pause isn't missed"
    if view.source is not None and view.orphaned is None:
        return f"is removed; but {view.source} declares it, and the next start of a worker brings it back: pause it"
    return "is removed"


def _instead(verb: str, view: ScheduleView) -> str:
    if verb == "pause":
        return f"was paused before, since {shown(view.paused)}"
    return "wasn't paused" if verb == "resume" else "isn't there any more"
