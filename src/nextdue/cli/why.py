"""`nextdue why`: in plain sentences, why a task hasn't run yet, isn't running, or won't run."""

import argparse
from functools import partial
from shlex import quote

from nextdue.cli import marks, render, schedules, target
from nextdue.cli.look import one
from nextdue.cli.rules import besides, in_short
from nextdue.cli.target import Target
from nextdue.cli.times import relative, shown, times
from nextdue.records import TaskView
from nextdue.sqlite import care, inspect, restore
from nextdue.sqlite.care import Sight
from nextdue.sqlite.health import served
from nextdue.sqlite.inspect import Life
from nextdue.sqlite.schedules import ScheduleView
from nextdue.sqlite.store import SqliteStore


def why(args: argparse.Namespace) -> int:
    """Say why."""
    where, store, view = one(args.words)
    try:
        sentences = explain(where, store, view)
    finally:
        store.close()
    if args.json:
        render.document({"id": view.id, "name": view.name, "state": view.state, "why": sentences})
    else:
        print(f"{render.clean(view.name)} #{view.id} is {view.state}.")
        for sentence in sentences:
            print(sentence)
    return 0


def explain(where: Target, store: SqliteStore, view: TaskView) -> list[str]:
    """The sentences. What the file doesn't tell isn't guessed."""
    now, sight = store.now_ms(), care.sight(store, view.id)
    found = schedules.of_row(store, view)
    if found is not None and found.state in ("paused", "orphaned", "ended"):
        return _schedule_at_rest(found, now)
    said = _state(where, store, view, sight, now)
    return said if found is None else _schedule(found, view, now) + said


def _state(where: Target, store: SqliteStore, view: TaskView, sight: Sight, now: int) -> list[str]:
    match view.state:
        case "waiting" if sight.rest == "blocked":
            paused = _pauses(where, sight, view, now)
            return [*_failures(view), *_blocked(sight, view, now), *_held(where, store, now), *paused]
        case "waiting":
            said = [*_failures(view), *_held(where, store, now), *_pauses(where, sight, view, now)]
            said += marks.waits(store, view, now)
            return [*said, *_waiting(where, store, view, now), *_rated(where, sight, view), *_expiry(sight, view, now)]
        case "running":
            return [*_failures(view), *_stopping(where, sight, view, now), *_running(where, store, view, now)]
        case "held" if view.reason == "paused":
            return _paused(where, sight, view, now)
        case "held" if view.reason in ("in_doubt", "parent"):
            return marks.why_held(store, view, target.pasteable(where.path))
        case "held":
            return [
                f"It is held until a person decides: {_last(view)}.",
                f"Its arguments and its history are kept. `nextdue retry {_it(where, view)}` starts it anew, "
                f"`nextdue cancel {_it(where, view)}` takes it away.",
            ]
        case "dead":
            return _dead(where, view)
        case _:
            return _finished(store, view)


def _it(where: Target, view: TaskView) -> str:
    """The task as the words of a command."""
    return f"{target.pasteable(where.path)} {view.id}"


def _schedule(found: ScheduleView, view: TaskView, now: int) -> list[str]:
    """What occurrence of its schedule it is."""
    rule = render.clean("; ".join([in_short(found.plan), *besides(found.plan)]))
    slot = found.slot if found.slot is not None else view.due if view.state == "waiting" else None
    which = "" if slot is None else f", which now stands for {shown(slot)}"
    said = [f"It is the row of a schedule ({rule}){which}."]
    if found.last is not None:
        said.append(f"Its last occurrence was that of {shown(found.last)}, {relative(found.last, now)}.")
    if found.missed:
        said.append(f"Since then {render.counted(found.missed, 'occurrence')} were missed.")
    broken = schedules.trouble(found.plan)
    if broken is not None:
        said.append(f"Nobody can follow it, so it doesn't run: {render.clean(broken)}.")
    return said


def _schedule_at_rest(found: ScheduleView, now: int) -> list[str]:
    do = partial(schedules.command, name=found.name, key=found.key)
    if found.orphaned is not None:
        return [
            f"It is a schedule that {render.clean(found.source or '?')} declares no more, "
            f"since {shown(found.orphaned)}, {relative(found.orphaned, now)}.",
            f"Declared again it goes on; `{do('remove')}` forgets it.",
        ]
    if found.paused is not None:
        since = f"{shown(found.paused)}, {relative(found.paused, now)}"
        return [f"Its schedule is paused since {since}; `{do('resume')}` lets it go on with the next occurrence."]
    return [f"It is a schedule that has ended after {render.counted(found.fired, 'run')}; `{do('remove')}` forgets it."]


def _waiting(where: Target, store: SqliteStore, view: TaskView, now: int) -> list[str]:
    if view.due is None:
        return []
    if view.due > now:
        slots = [] if view.attempts or view.crashes else inspect.rows(store.database, "slot_of", {"id": view.id})
        for (group,) in slots:
            rate = f"Its rate{_of_group(group)}"
            return [f"{rate} gave it the next free slot: it starts at {shown(view.due)}, {relative(view.due, now)}."]
        what = "It is tried again" if view.attempts or view.crashes else "It waits until its time comes"
        return [f"{what}: at {shown(view.due)}, {relative(view.due, now)}."]
    said = [f"It is due since {shown(view.due)}, {relative(view.due, now)}."]
    return said + _alone(store, view) + _who_could(where, store, view)


def _of_group(group: str | None) -> str:
    return f" for the group {render.clean(group, 100)!r}" if group else ""


def _blocked(sight: Sight, view: TaskView, now: int) -> list[str]:
    whose = f"the limit of {view.name!r}{_of_group(sight.grp)}"
    since = f" It was due at {shown(sight.wished)}, {relative(sight.wished, now)}." if sight.wished is not None else ""
    return [f"It is blocked: as many run as {whose} allows, and it goes on when one of them ends.{since}"]


def _held(where: Target, store: SqliteStore, now: int) -> list[str]:
    """Nothing of a restored file starts yet."""
    since = restore.held_since(store.database)
    if since is None:
        return []
    return [
        f"The file is a restored backup and held since {shown(since)}, {relative(since, now)}: nothing of it starts; "
        f"`nextdue release {target.pasteable(where.path)}` shows what would start, and lets it."
    ]


def _pauses(where: Target, sight: Sight, view: TaskView, now: int) -> list[str]:
    """Its queue or its name is paused."""
    pauses = (("queue", view.queue, sight.queue_paused), ("name", view.name, sight.name_paused))
    return [
        f"Its {kind} {render.clean(word)!r} is paused since {shown(since)}, {relative(since, now)}; "
        f"`nextdue resume {target.pasteable(where.path)} --{kind} {quote(render.clean(word))}` ends that."
        for kind, word, since in pauses
        if since is not None
    ]


def _paused(where: Target, sight: Sight, view: TaskView, now: int) -> list[str]:
    said = [f"It is paused; `nextdue resume {_it(where, view)}` lets it go on."]
    if sight.wished is not None:
        said.append(f"It was to be due at {shown(sight.wished)}, {relative(sight.wished, now)}.")
    return said


def _expiry(sight: Sight, view: TaskView, now: int) -> list[str]:
    if sight.expires is None:
        return []
    if sight.expires <= now:
        return [f"It expired at {shown(sight.expires)}: whoever claims it records that instead of running it."]
    at = f"{shown(sight.expires)}, {relative(sight.expires, now)}"
    if view.due is not None and view.due > sight.expires:
        return [f"But it expires before that, at {at}: it won't be started."]
    return [f"It expires at {at}: after that it isn't started."]


def _rated(where: Target, sight: Sight, view: TaskView) -> list[str]:
    if not sight.rated:
        return []
    command = f"nextdue run-now {target.pasteable(where.path)} {view.id}"
    return [f"Its rate allows no earlier start, so `{command}` would leave it as it is."]


def _stopping(where: Target, sight: Sight, view: TaskView, now: int) -> list[str]:
    if sight.stop is None:
        return []
    task = where.app.tasks.get(view.name) if where.app else None
    how = {
        "thread": "its next ctx.progress() ends it; a thread that never calls that runs to its end",
        "loop": "it is cancelled at its next await",
        "process": "its next ctx.progress() ends it, or its process is killed after 5 s",
    }
    ends = how[task.options.run_in] if task else "its next ctx.progress() or await ends it; a process is killed soon"
    return [f"It was asked to stop at {shown(sight.stop)}, {relative(sight.stop, now)}, and still runs: {ends}."]


def _alone(store: SqliteStore, view: TaskView) -> list[str]:
    lane = inspect.rows(store.database, "lane_of", {"id": view.id})
    if not lane or not lane[0][3]:
        return []
    return [f"It crashed {times(view.crashes)}, so it is tried alone: it waits for a worker that runs nothing else."]


def _who_could(where: Target, store: SqliteStore, view: TaskView) -> list[str]:
    """Which workers could take a due task."""
    said = _declared(where, view)
    lives = inspect.lives(store.database)
    alive = [life for life in lives if life.state == "alive"]
    unknown = [life for life in lives if life.state == "unknown"]
    if not alive and not unknown:
        return [*said, "No worker lives on this file. Start one: nextdue worker module:attribute"]
    if unknown and not alive:
        who = ", ".join(life.where() for life in unknown)
        return [*said, f"Whether {who} still lives can't be known: its lock file is missing."]
    for life in alive:
        but = ", but doesn't serve its name and queue" if life.serves(view.name, view.queue or "") is False else ""
        said.append(f"{life.where().capitalize()} lives and holds {render.counted(life.holds, 'task')}{but}.")
    if served(alive, view.name, view.queue or "") is False:
        said.append(f"No living worker serves the name {view.name!r} in the queue {view.queue!r}.")
    before = inspect.value(store.database, "before_it", {"id": view.id})
    if before:
        said.append(f"Due before it, of its name and queue: {render.counted(before, 'task')}.")
    return said


def _declared(where: Target, view: TaskView) -> list[str]:
    if where.app is None or view.name in where.app.definitions:
        return []
    return [f"The application given here declares no task {view.name!r}, so its workers leave it alone."]


def _running(where: Target, store: SqliteStore, view: TaskView, now: int) -> list[str]:
    life = next((life for life in inspect.lives(store.database) if life.id == view.worker), None)
    if life is None:
        who = f"Worker {view.worker} has it, which isn't registered any more"
    else:
        who = f"{life.where().capitalize()} has it"
    said = [f"{who}; its lease runs until {shown(view.due)} and is renewed while that worker lives."]
    task = where.app.tasks.get(view.name) if where.app else None
    if task is not None and view.due is not None:
        since = view.due - task.options.lease_ms
        said.append(f"It was claimed, or its lease last renewed, at {shown(since)}, {relative(since, now)}.")
    return said + _if_dead(life, view, now)


def _if_dead(life: Life | None, view: TaskView, now: int) -> list[str]:
    if life is not None and life.state == "dead":
        return ["That worker is dead. The next worker that starts, or one that lives, gives the task back at once."]
    if view.due is not None and view.due <= now:
        return ["The lease is over: the next worker that is free takes the task."]
    return []


def _failures(view: TaskView) -> list[str]:
    said = []
    if view.attempts:
        said.append(f"It failed {times(view.attempts)}, the last time with: {_last(view)}.")
    if view.crashes:
        whose = "Its process" if view.reason == "child_died" else "Its worker"
        said.append(f"{whose} died {times(view.crashes)} while it had this task.")
    return said


def _dead(where: Target, view: TaskView) -> list[str]:
    again = f"It stays until somebody decides: `nextdue retry {_it(where, view)}` starts it anew" + (
        ", and so does putting a task with its key again" if view.key is not None else ""
    )
    again += f"; `nextdue cancel {_it(where, view)}` takes it away."
    if view.reason == "expired":
        return ["It expired before it could be started.", again]
    if view.reason in ("worker_died", "child_died"):
        return [f"It is given up because {_last(view)}.", again]
    return [f"It is given up after it failed {times(view.attempts)}, the last time with: {_last(view)}.", again]


def _finished(store: SqliteStore, view: TaskView) -> list[str]:
    last = next(iter(store.runs(task=view.id, limit=1)), None)
    if last is None:
        return [f"It is {view.state}; when that was is no longer in the run history."]
    by = f" by worker {last.worker}" if last.worker is not None else ""
    words = {"done": "finished", "cancelled": "was cancelled", "expired": "expired, without being started,"}
    verb = words.get(last.outcome, f"ended as {last.outcome}")
    return [f"It {verb} at {shown(last.ended)}{by}."]


def _last(view: TaskView) -> str:
    return render.clean(view.message or view.reason or "no message", 500).rstrip(".")
