"""`nextdue why`: in plain sentences, why a task hasn't run yet, isn't running, or won't run."""

import argparse

from nextdue.cli import render
from nextdue.cli.look import one
from nextdue.cli.pause import releasing
from nextdue.cli.target import Target
from nextdue.cli.times import relative, shown, times
from nextdue.records import TaskView
from nextdue.sqlite import care, inspect, restore
from nextdue.sqlite.care import Sight
from nextdue.sqlite.inspect import Life
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
    match view.state:
        case "waiting" if sight.rest == "blocked":
            return [*_failures(view), *_blocked(sight, view, now), *_held(store, now), *_pauses(sight, view, now)]
        case "waiting":
            said = [*_failures(view), *_held(store, now), *_pauses(sight, view, now), *_expiry(sight, now)]
            return said + _waiting(where, store, view, now)
        case "running":
            return [*_failures(view), *_stopping(sight, now), *_running(where, store, view, now)]
        case "held" if view.reason == "paused":
            return _paused(sight, view, now)
        case "held":
            return [
                f"It is held until a person decides: {_last(view)}.",
                f"Its arguments and its history are kept. `nextdue retry {view.id}` starts it anew, "
                f"`nextdue cancel {view.id}` takes it away.",
            ]
        case "dead":
            return _dead(view)
        case _:
            return _finished(store, view)


def _waiting(where: Target, store: SqliteStore, view: TaskView, now: int) -> list[str]:
    if view.due is None:
        return []
    if view.due > now:
        what = "It is tried again" if view.attempts or view.crashes else "It waits until its time comes"
        return [f"{what}: at {shown(view.due)}, {relative(view.due, now)}."]
    said = [f"It is due since {shown(view.due)}, {relative(view.due, now)}."]
    return said + _alone(store, view) + _who_could(where, store, view)


def _blocked(sight: Sight, view: TaskView, now: int) -> list[str]:
    whose = f"the limit of {view.name!r}" + (f" for the group {render.clean(sight.grp, 100)!r}" if sight.grp else "")
    since = f" It was due at {shown(sight.wished)}, {relative(sight.wished, now)}." if sight.wished is not None else ""
    return [f"It is blocked: as many run as {whose} allows, and it goes on when one of them ends.{since}"]


def _held(store: SqliteStore, now: int) -> list[str]:
    """Nothing of a restored file starts yet."""
    since, path = restore.held_since(store.database), store.database.path
    if since is None:
        return []
    return [
        f"The file is a restored backup and held since {shown(since)}, {relative(since, now)}: nothing of it starts; "
        f"`{releasing(path)}` ends that."
    ]


def _pauses(sight: Sight, view: TaskView, now: int) -> list[str]:
    """Its queue or its name is paused."""
    pauses = (("queue", view.queue, sight.queue_paused), ("name", view.name, sight.name_paused))
    return [
        f"Its {kind} {render.clean(word)!r} is paused since {shown(since)}, {relative(since, now)}; "
        f"`nextdue resume --{kind} {render.clean(word)}` ends that."
        for kind, word, since in pauses
        if since is not None
    ]


def _paused(sight: Sight, view: TaskView, now: int) -> list[str]:
    said = [f"It is paused; `nextdue resume {view.id}` lets it go on."]
    if sight.wished is not None:
        said.append(f"It was to be due at {shown(sight.wished)}, {relative(sight.wished, now)}.")
    return said


def _expiry(sight: Sight, now: int) -> list[str]:
    if sight.expires is None:
        return []
    if sight.expires <= now:
        return [f"It expired at {shown(sight.expires)}: whoever claims it records that instead of running it."]
    return [f"It expires at {shown(sight.expires)}, {relative(sight.expires, now)}: after that it isn't started."]


def _stopping(sight: Sight, now: int) -> list[str]:
    if sight.stop is None:
        return []
    return [
        f"It was asked to stop at {shown(sight.stop)}, {relative(sight.stop, now)}, and still runs: it ends when it "
        "says its progress next, or when it asks ctx.cancelled()."
    ]


def _alone(store: SqliteStore, view: TaskView) -> list[str]:
    lane = inspect.rows(store.database, "lane_of", {"id": view.id})
    if not lane or not lane[0][3]:
        return []
    return [
        f"Its worker died {times(view.crashes)} while it ran, so it is tried alone: it waits for a worker that runs "
        "nothing else."
    ]


def _who_could(where: Target, store: SqliteStore, view: TaskView) -> list[str]:
    """Which workers could take a due task; which names a worker serves isn't in the file."""
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
        said.append(f"{life.where().capitalize()} lives and holds {render.counted(life.holds, 'task')}.")
    before = inspect.value(store.database, "before_it", {"id": view.id})
    if before:
        said.append(f"Due before it, of its name and queue: {render.counted(before, 'task')}.")
    said.append(
        f"Whether a living worker knows the name {view.name!r} and serves the queue {view.queue!r} isn't in the file; "
        "its first lines say it."
    )
    return said


def _declared(where: Target, view: TaskView) -> list[str]:
    if where.app is None:
        return []
    names = {name for task in where.app.tasks.values() for name in (task.name, *task.options.aliases)}
    if view.name in names:
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
        said.append(f"Its worker died {times(view.crashes)} while it had this task.")
    return said


def _dead(view: TaskView) -> list[str]:
    again = f"It stays until somebody decides: `nextdue retry {view.id}` starts it anew" + (
        ", and so does putting a task with its key again" if view.key is not None else ""
    )
    again += f"; `nextdue cancel {view.id}` takes it away."
    if view.reason == "expired":
        return ["It expired before it could be started.", again]
    if view.reason == "worker_died":
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
