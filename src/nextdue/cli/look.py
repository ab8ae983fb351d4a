"""`nextdue ls` and `show`: looking at tasks."""

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec

from nextdue.cli import chosen, marks, render, schedules, target
from nextdue.cli.rules import besides, in_short
from nextdue.cli.target import Target
from nextdue.cli.times import brief, local, relative, shown, times, utc, zone
from nextdue.clock import span
from nextdue.errors import BadDefinition
from nextdue.records import RunView, TaskView
from nextdue.sqlite import care
from nextdue.sqlite.care import Sight
from nextdue.sqlite.schedules import ScheduleView
from nextdue.sqlite.store import SqliteStore

CUT = ("NAME", "KEY", "FAILED", "ARGS")
"""The columns of a list of tasks that give way on a narrow terminal."""


def ls(args: argparse.Namespace) -> int:
    """List tasks."""
    where = target.find(args.target)
    if args.limit < 1:
        raise BadDefinition(f"--limit must be at least 1, not {args.limit}")
    if args.held and args.state not in (None, "held"):
        raise BadDefinition(f"--held and --state {args.state}: give one of them")
    args.state = "held" if args.held else args.state
    store = where.look()
    try:
        only = chosen.filters(where, store, args)
        found = care.listed(store, only, limit=args.limit + 1, sort=args.sort, history=True)
        more = len(found) > args.limit
        views = [view for task in found[: args.limit] if (view := store.get(task.id)) is not None]
        now = store.now_ms()
        if args.json:
            render.document([row_data(store, view) | (_held_data(store, view) if args.held else {}) for view in views])
        elif not views:
            print(_nothing(where, args))
        else:
            (_held_table if args.held else table)(store, views, now)
            if more:
                print(f"... and more; --limit {args.limit * 10} shows them")
    finally:
        store.close()
    return 0


def _nothing(where: Target, args: argparse.Namespace) -> str:
    if args.held and args.name is args.queue is args.key is args.reason is None:
        return f"no such task is held in {where.path}"
    if chosen.given(args):
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
        result = next((run.result for run in runs[::-1] if run.outcome == "done"), None)
        now = store.now_ms()
        if args.json:
            render.document(
                row_data(store, view) | marks.data(store, view) | {"runs": [render.run_data(run) for run in runs]}
            )
            return 0
        details = _details(view, care.sight(store, view.id), result, now) + marks.fields(store, view, now)
        render.fields([("file", str(where.path)), *details, *_schedule(schedules.of_row(store, view), now)])
    finally:
        store.close()
    if runs:
        print()
        headers = ("CLAIM", "OUTCOME", f"ENDED ({zone()})", "TOOK", "WORKER", "REASON")
        render.table(headers, [_run_line(run) for run in runs])
        claims = [run.claim for run in runs]
        if claims[-1] - claims[0] >= len(set(claims)):
            print("Claims that are missing here were given back before they started.")
    return 0


def one(words: list[str]) -> tuple[Target, SqliteStore, TaskView]:
    """The task that `[TARGET] ID` or `[TARGET] NAME KEY` means, and the open store. Raises UnknownTask."""
    place, rest = chosen.split(words)
    if not rest:
        raise BadDefinition(f"which task of {words[0]}? Give its id, or its name and key")
    if len(rest) > 1 and all(chosen.number(word) is not None for word in rest):
        raise BadDefinition(f"this command takes one id, not {len(rest)}")
    where = target.find(place)
    store = where.look()
    try:
        (view,) = chosen.named(where, store, rest)
    except BaseException:
        store.close()
        raise
    return where, store, view


def row_data(store: SqliteStore, view: TaskView) -> dict[str, Any]:
    """A task for a program, with what only its row tells."""
    sight = care.sight(store, view.id)
    data = render.task_data(view)
    progress = _progress(sight)
    data["progress"] = progress and dict(zip(("done", "total", "note"), progress, strict=True))
    data["blocked"] = sight.rest == "blocked"
    data["in_doubt"] = marks.doubts(store, view)
    data["paused"] = paused_by(view, sight, view.state)
    data["stop_asked"], data["stop_asked_ms"] = utc(sight.stop), sight.stop
    data["expires"], data["expires_ms"] = utc(sight.expires), sight.expires
    return data


def table(store: SqliteStore, views: Sequence[TaskView], now: int) -> None:
    """Print tasks, one line each."""
    headers = ("ID", "NAME", "STATE", f"DUE ({zone()})", "KEY", "FAILED", "ARGS")
    render.table(headers, [_line(store, view, now) for view in views], CUT)


def _held_data(store: SqliteStore, view: TaskView) -> dict[str, Any]:
    what, since = marks.held_for(store, view)
    return {"held_for": what, "since": utc(since), "since_ms": since}


def _held_table(store: SqliteStore, views: Sequence[TaskView], now: int) -> None:
    """Print held tasks, with what a person has to decide."""
    rows = []
    for view in views:
        what, since = marks.held_for(store, view)
        key = "-" if view.key is None else render.clean(view.key, 40)
        when = "-" if since is None else relative(since, now)
        rows.append((str(view.id), render.clean(view.name), key, when, render.clean(what, 200)))
    render.table(("ID", "NAME", "KEY", "SINCE", "HELD FOR"), rows, ("NAME", "KEY", "HELD FOR"))


def _line(store: SqliteStore, view: TaskView, now: int) -> tuple[str, ...]:
    sight = care.sight(store, view.id)
    said = _said(sight) if view.state == "running" else []
    kept = marks.in_short(store, view, sight)
    return (
        str(view.id),
        render.clean(view.name),
        " ".join([view.state, *said]) + _plainly(view, sight, kept),
        "-" if view.due is None or view.state == "running" else brief(view.due, now),
        "-" if view.key is None else render.clean(view.key, 40),
        str(view.attempts) + (f" ({render.clean(view.reason, 30)})" if view.reason and view.reason != "paused" else ""),
        render.clean(view.args or "-", 60),
    )


def _plainly(view: TaskView, sight: Sight, also: Sequence[str] = ()) -> str:
    """What keeps it, beside its state."""
    kept = [*also]
    kept += [f"{what} paused" if what != "task" else "paused" for what in paused_by(view, sight, view.state)]
    if sight.rest == "blocked":
        kept.append("blocked by its limit")
    if view.state == "running" and sight.stop is not None:
        kept.append("asked to stop")
    return f" ({', '.join(kept)})" if kept else ""


def paused_by(view: TaskView, sight: Sight, state: str) -> list[str]:
    """What is paused so that it can't run: the task, its queue, its name."""
    found = ["task"] if state == "held" and view.reason == "paused" else []
    if state == "waiting":
        found += ["queue"] if sight.queue_paused is not None else []
        found += ["name"] if sight.name_paused is not None else []
    return found


def _said(sight: Sight) -> list[str]:
    """What a running task said of itself: 412/900 files.

    >>> _said(Sight(progress='[412, 900, "files"]'))
    ['412/900 files']
    """
    progress = _progress(sight)
    if progress is None:
        return []
    done, total, note = progress
    counted = f"{done}" if total is None else f"{done}/{total}"
    return [render.clean(f"{counted} {note}".strip(), 60)]


def _progress(sight: Sight) -> list[Any] | None:
    """[done, total, note], or None. Any program may have written to the file."""
    try:
        found = msgspec.json.decode(sight.progress or "null")
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, list) and len(found) == 3 else None


def _details(view: TaskView, sight: Sight, result: str | None, now: int) -> list[tuple[str, str]]:
    due = "-" if view.due is None else f"{shown(view.due)}, {relative(view.due, now)}"
    pairs: list[tuple[str, object]] = [
        ("id", view.id),
        ("name", view.name),
        ("state", view.state + _plainly(view, sight)),
        ("progress", next(iter(_said(sight)), None)),
        ("lease until" if view.state == "running" else "due", due),
        ("goes on with", None if sight.wished is None or sight.rest == "waits" else f"due {shown(sight.wished)}"),
        ("expires", None if sight.expires is None else f"{shown(sight.expires)}, {relative(sight.expires, now)}"),
        ("worker", view.worker),
        ("key", view.key),
        ("args", view.args or ("no longer kept" if view.state in ("done", "cancelled") else None)),
        ("result", result),
        ("queue", view.queue),
        ("priority", view.priority),
        ("created", None if view.created is None else shown(view.created)),
        ("scheduled for", None if view.scheduled_for is None else shown(view.scheduled_for)),
        ("claimed", f"{times(view.claims)}, failed {times(view.attempts)}, crashed {times(view.crashes)}"),
        ("reason", view.reason),
        ("message", view.message),
    ]
    return [(label, render.clean(value, 10_000)) for label, value in pairs if value is not None]


def _schedule(found: ScheduleView | None, now: int) -> list[tuple[str, str]]:
    """What is to be said of the schedule whose row it is."""
    if found is None:
        return []
    last = "never" if found.last is None else f"{shown(found.last)}, {relative(found.last, now)}"
    return [
        ("schedule", render.clean("; ".join([in_short(found.plan), *besides(found.plan)]))),
        ("is", found.state),
        ("declared by", render.clean(found.source or "no code: it was put at run time")),
        ("last", last),
        ("fired", f"{times(found.fired)}, missed {times(found.missed_ever)}"),
    ]


def _run_line(run: RunView) -> tuple[str, ...]:
    doubled = run.reason and run.message and run.message.startswith(run.reason)
    said = run.message if doubled else " ".join(part for part in (run.reason, run.message) if part)
    return (
        str(run.claim),
        run.outcome,
        local(run.ended),
        "-" if run.started is None else span(max(0, run.ended - run.started)),
        "-" if run.worker is None else str(run.worker),
        render.clean(said or "-", 120),
    )
