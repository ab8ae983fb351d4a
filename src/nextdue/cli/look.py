"""`nextdue ls`, `show` and `cancel`: looking at tasks, and stopping one that still waits."""

import argparse
import os

from nextdue.cli import render, target
from nextdue.cli.target import VARIABLE, Target
from nextdue.cli.times import relative, shown, span, times
from nextdue.errors import BadDefinition, UnknownTask
from nextdue.records import RunView, TaskView
from nextdue.sqlite import inspect
from nextdue.sqlite.store import SqliteStore

STOPPABLE = ("waiting", "held", "dead")


def ls(args: argparse.Namespace) -> int:
    """List tasks."""
    where = target.find(args.target)
    if args.limit < 1:
        raise BadDefinition(f"--limit must be at least 1, not {args.limit}")
    store = where.open()
    try:
        _check_filters(where, store, args.name, args.queue)
        views = _listed(store, args)
        now = store.now_ms()
    finally:
        store.close()
    more, views = len(views) > args.limit, views[: args.limit]
    if args.json:
        render.document([render.task_data(view) for view in views])
    elif not views:
        print(_nothing(where, args))
    else:
        render.table(("ID", "NAME", "STATE", "DUE", "KEY", "FAILED", "ARGS"), [_line(view, now) for view in views])
        if more:
            print(f"... and more; --limit {args.limit * 10} shows them")
    return 0


def _nothing(where: Target, args: argparse.Namespace) -> str:
    if any(given is not None for given in (args.state, args.name, args.queue)):
        return f"no such task in {where.path}"
    return (
        f"no tasks are left in {where.path}; those that are done are in its history: "
        f'sqlite3 {where.path} "SELECT * FROM nextdue_runs"'
    )


def show(args: argparse.Namespace) -> int:
    """All about one task."""
    where, store, view = one(args.words)
    try:
        runs = store.runs(task=view.id)[::-1]
        now = store.now_ms()
    finally:
        store.close()
    if args.json:
        render.document(render.task_data(view) | {"runs": [render.run_data(run) for run in runs]})
        return 0
    render.fields([("file", str(where.path)), *_details(view, now)])
    if runs:
        print()
        headers = ("CLAIM", "OUTCOME", "ENDED", "TOOK", "WORKER", "REASON")
        render.table(headers, [_run_line(run) for run in runs])
    return 0


def cancel(args: argparse.Namespace) -> int:
    """Cancel a waiting, held or dead task; exit code 1 if there is nothing left to cancel."""
    _, store, view = one(args.words)
    try:
        state = store.cancel(view.id) if view.state in STOPPABLE else view.state
    finally:
        store.close()
    cancelled = state == "cancelled" and view.state in STOPPABLE
    said = {
        "cancelled": "was cancelled before" if view.state == "cancelled" else "is cancelled",
        "running": "is running; it is left alone",
        "gone": "is gone",
    }.get(state, f"is {state} already; nothing is changed")
    if args.json:
        render.document({"id": view.id, "name": view.name, "cancelled": cancelled, "state": state})
    else:
        print(f"{render.clean(view.name)} #{view.id} {said}")
    return 0 if cancelled else 1


def one(words: list[str]) -> tuple[Target, SqliteStore, TaskView]:
    """The task that `[TARGET] ID` or `[TARGET] NAME KEY` means, and the open store. Raises UnknownTask."""
    place, rest = _split(words)
    id = _id(rest[0]) if len(rest) == 1 else None
    if len(rest) == 1 and id is None:
        raise BadDefinition(f"{rest[0]!r} is no id; give a number, or a name and a key")
    where = target.find(place)
    store = where.open()
    try:
        view = store.get(id) if id is not None else store.by_key(rest[0], rest[1])
        if view is None and id is not None:
            raise UnknownTask(f"there is no task {id} in {where.path}, nor in its run history")
        if view is None:
            target.known_name(rest[0], inspect.names(store.database), where.path)
            raise UnknownTask(f"no task {rest[0]!r} with the key {rest[1]!r} is in {where.path}")
    except BaseException:
        store.close()
        raise
    return where, store, view


def _split(words: list[str]) -> tuple[str | None, list[str]]:
    """The target, if it is among the words, and the others."""
    if len(words) == 1:
        return None, words
    if len(words) == 2 and os.environ.get(VARIABLE) and not target.looks_like_target(words[0]):
        return None, words
    if len(words) in (2, 3):
        return words[0], words[1:]
    raise BadDefinition("give [TARGET] ID, or [TARGET] NAME KEY")


def _id(word: str) -> int | None:
    number = word.removeprefix("#")
    return min(int(number), 2**63 - 1) if number.isdecimal() and len(number) < 30 else None


def _check_filters(where: Target, store: SqliteStore, name: str | None, queue: str | None) -> None:
    tasks = where.app.tasks if where.app else {}
    if name is not None:
        target.known_name(name, inspect.names(store.database) | set(tasks), where.path)
    if queue is not None:
        declared = {task.options.queue for task in tasks.values()}
        target.known_queue(queue, inspect.queues(store.database) | declared, where.path)


def _listed(store: SqliteStore, args: argparse.Namespace) -> list[TaskView]:
    """One more than asked for, if there are so many. A finished task without a key is only in the run history."""
    limit = args.limit + 1
    views = store.find(name=args.name, queue=args.queue, state=args.state, limit=limit)
    if args.state in ("done", "cancelled") and args.queue is None:
        params = {"name": args.name, "outcome": args.state, "limit": limit}
        found = (store.get(id) for (id,) in inspect.rows(store.database, "finished", params))
        views += [view for view in found if view is not None and view.state == args.state]
    return views[:limit]


def _line(view: TaskView, now: int) -> tuple[str, ...]:
    due = "-" if view.due is None else f"{shown(view.due)}, {relative(view.due, now)}"
    return (
        str(view.id),
        render.clean(view.name),
        view.state,
        f"lease until {shown(view.due)}" if view.state == "running" else due,
        "-" if view.key is None else render.clean(view.key, 40),
        str(view.attempts) + (f" ({render.clean(view.reason, 30)})" if view.reason else ""),
        render.clean(view.args or "-", 60),
    )


def _details(view: TaskView, now: int) -> list[tuple[str, str]]:
    due = "-" if view.due is None else f"{shown(view.due)}, {relative(view.due, now)}"
    pairs: list[tuple[str, object]] = [
        ("id", view.id),
        ("name", view.name),
        ("state", view.state),
        ("lease until" if view.state == "running" else "due", due),
        ("worker", view.worker),
        ("key", view.key),
        ("args", view.args),
        ("queue", view.queue),
        ("priority", view.priority),
        ("created", None if view.created is None else shown(view.created)),
        ("scheduled for", None if view.scheduled_for is None else shown(view.scheduled_for)),
        ("claimed", f"{times(view.claims)}, failed {times(view.attempts)}, its worker died {times(view.crashes)}"),
        ("reason", view.reason),
        ("message", view.message),
    ]
    return [(label, render.clean(value, 10_000)) for label, value in pairs if value is not None]


def _run_line(run: RunView) -> tuple[str, ...]:
    doubled = run.reason and run.message and run.message.startswith(run.reason)
    said = run.message if doubled else " ".join(part for part in (run.reason, run.message) if part)
    return (
        str(run.claim),
        run.outcome,
        shown(run.ended),
        "-" if run.started is None else span(max(0, run.ended - run.started)),
        "-" if run.worker is None else str(run.worker),
        render.clean(said or "-", 120),
    )
