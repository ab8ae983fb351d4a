"""`nextdue retry`, `run-now`, `cancel` and `purge`: what a person does to tasks, by their ids or by filters."""

import argparse
from functools import partial
from shlex import quote
from typing import Any

from nextdue.cli import chosen, marks, render, schedules, target
from nextdue.cli.look import paused_by, row_data, table
from nextdue.cli.target import Target
from nextdue.cli.times import shown
from nextdue.errors import BadDefinition
from nextdue.records import TaskView
from nextdue.sqlite import care
from nextdue.sqlite.care import Chosen, Matched, Verb
from nextdue.sqlite.schedules import ScheduleView
from nextdue.sqlite.store import SqliteStore

FIRST = 10
"""So many of the tasks that a bulk would change are shown."""
NOT_DONE = 2
"""The exit code of a preview, so that a script that forgets --yes hears of it."""

DID = {"retry": "due now", "run_now": "due now", "cancel": "cancelled", "purge": "removed"}
DONE = "is done; to run it again, put a new one"
INSTEAD = {
    ("retry", "waiting"): "is waiting and hasn't failed; `nextdue run-now {it}` starts it",
    ("retry", "running"): "is running; it is left alone",
    ("retry", "done"): DONE,
    ("retry", "cancelled"): "is cancelled and its row is gone; put a new one",
    ("run_now", "running"): "is running already",
    ("run_now", "done"): DONE,
    ("run_now", "dead"): "is dead; `nextdue retry {it}` starts it anew",
    ("run_now", "held"): "is held; `nextdue retry {it}` starts it anew",
    ("run_now", "cancelled"): "is cancelled; `nextdue retry {it}` starts it anew",
    ("cancel", "running"): "is running; it is left alone",
    ("cancel", "cancelled"): "was cancelled before",
    ("cancel", "done"): "is done already; nothing is changed",
    ("purge", "waiting"): "is waiting; cancel it first",
    ("purge", "running"): "is running; it is left alone",
    ("purge", "held"): "is held for a person to decide; cancel it first",
}


def retry(args: argparse.Namespace) -> int:
    """Start dead, held, cancelled and failed tasks anew."""
    return _do("retry", args)


def run_now(args: argparse.Namespace) -> int:
    """Make waiting tasks due now."""
    return _do("run_now", args)


def cancel(args: argparse.Namespace) -> int:
    """Cancel tasks."""
    return _do("cancel", args)


def purge(args: argparse.Namespace) -> int:
    """Remove finished tasks, and old lines of the run history."""
    return _do("purge", args)


def _do(verb: Verb, args: argparse.Namespace) -> int:
    place, words = chosen.split(args.words)
    if not words and not chosen.given(args):
        raise BadDefinition("which tasks? Give ids, a name and a key, or a filter like --state dead or --name NAME")
    if words and chosen.given(args):
        raise BadDefinition("give ids or filters, not both")
    where = target.find(place)
    store = where.open()
    try:
        if words:
            return _some(verb, store, chosen.named(where, store, words), args)
        return _many(verb, where, store, chosen.filters(where, store, args), args)
    finally:
        store.close()


def _some(verb: Verb, store: SqliteStore, views: list[TaskView], args: argparse.Namespace) -> int:
    """Named ones, at once; exit code 1 if one of them was left as it is."""
    tasks: list[dict[str, Any]] = []
    for view in views:
        changed = care.apply(store, verb, [view.id]) == 1
        after = store.get(view.id)
        state = after.state if after else "gone"
        said = _changed(verb, store, view, state) if changed else _instead(verb, store, view, state)
        tasks.append({"id": view.id, "name": view.name, "changed": changed, "state": state, "says": said})
    count = sum(task["changed"] for task in tasks)
    if args.json:
        render.document(_report(verb, True, [], count, len(tasks) - count, tasks))
    else:
        for task in tasks:
            print(f"{render.clean(task['name'])} #{task['id']} {task['says']}")
    return 0 if count == len(tasks) else 1


def _changed(verb: Verb, store: SqliteStore, view: TaskView, state: str) -> str:
    if verb == "cancel" and state == "running":
        return "is running; it was asked to stop"
    after = store.get(view.id)
    if verb == "retry" and after is not None and after.due is not None and after.due > store.now_ms():
        return f"begins anew at {shown(after.due)}: its rate allows no earlier start"
    if verb == "retry" and view.reason == "in_doubt" and (doubts := marks.doubts(store, view)):
        command = f"nextdue resolve {target.pasteable(store.database.path)} {view.id} {quote(render.clean(doubts[0]))}"
        return f"is {DID[verb]}, and is held again unless `{command}` decides before"
    if verb in ("retry", "run_now"):
        paused = [what for what in paused_by(view, care.sight(store, view.id), state) if what != "task"]
        return f"is {DID[verb]}" + (
            f", but its {' and its '.join(paused)} {'is' if len(paused) == 1 else 'are'} paused" if paused else ""
        )
    return f"is {DID[verb]}"


def _instead(verb: Verb, store: SqliteStore, view: TaskView, state: str) -> str:
    """Why it was left as it is."""
    found = schedules.of_row(store, view)
    if found is not None and (verb, state) != ("run_now", "running"):
        return _of_schedule(verb, found, state)
    sight = care.sight(store, view.id)
    it = f"{target.pasteable(store.database.path)} {view.id}"
    if sight.rest == "blocked" and verb in ("retry", "run_now"):
        return f"is due already and waits for its limit; `nextdue why {it}` tells more"
    if sight.rest == "waits" and verb in ("retry", "run_now"):
        return f"{' and '.join(marks.in_short(store, view, sight))}; `nextdue why {it}` tells more"
    if sight.rated and verb == "run_now":
        return f"keeps its due at {shown(view.due)}: its rate allows no earlier start"
    if view.reason == "paused" and state == "held" and verb in ("retry", "run_now"):
        return f"is paused; `nextdue resume {it}` lets it go on"
    if sight.stop is not None and verb == "cancel":
        return "is running; it was asked to stop before"
    if verb == "purge" and not sight.there:
        return "has no row any more, only lines of the run history"
    said = INSTEAD.get((verb, state), f"is {state}; nothing is changed")
    if said == DONE and view.key is not None and sight.there:
        said += f", by on_conflict='replace', or free its key before: `nextdue purge {it}`"
    return said.format(it=it)


def _of_schedule(verb: Verb, found: ScheduleView, state: str) -> str:
    """The row of a schedule is changed by what is done to the schedule."""
    do = partial(schedules.command, name=found.name, key=found.key)
    if found.state == "orphaned":
        return f"is a schedule that no code declares any more; declare it again, or `{do('remove')}`"
    if found.state == "paused" and verb in ("retry", "run_now"):
        return f"is a paused schedule; `{do('resume')}` lets it go on"
    if found.state == "ended" and verb != "cancel":
        return f"is a schedule that has ended; `{do('remove')}` forgets it"
    if verb == "retry":
        return "is a schedule that waits for its next occurrence; `nextdue run-now` starts one"
    return f"is a schedule; `{do('pause')}` keeps it from running, `{do('remove')}` forgets it"


def _many(verb: Verb, where: Target, store: SqliteStore, only: Chosen, args: argparse.Namespace) -> int:
    """Those that match: shown, and with --yes changed."""
    if only.state is not None and only.state not in ALLOWED[verb]:
        raise BadDefinition(f"--state {only.state}: {verb.replace('_', '-')} takes only {', '.join(ALLOWED[verb])}")
    found = care.match(store, verb, only)
    first = [view for id in found.ids[:FIRST] if (view := store.get(id)) is not None]
    changed = lines = 0
    if not args.json:
        _preview(verb, where, store, found, first, args)
    if args.yes:
        changed = care.apply(store, verb, found.ids, only)
        lines = care.purge_lines(store, found.lines, only)
    left = len(found.ids) - changed if args.yes else 0
    empty = not found.ids and not found.lines
    if args.json:
        counts = [{"name": n, "state": s, "count": c} for (n, s), c in sorted(found.counts.items())]
        report = _report(verb, args.yes, counts, changed, left, [row_data(store, view) for view in first])
        if verb == "purge":
            report |= {"lines": len(found.lines), "lines_removed": lines}
        render.document(report)
    elif args.yes and not empty:
        text = f"{render.counted(changed, 'task')} {'is' if changed == 1 else 'are'} {DID[verb]}"
        if verb == "cancel" and any(state == "running" for _, state in found.counts):
            text += ", or asked to stop where they run"
        text += f", and {render.counted(lines, 'line')} of the run history" if lines else ""
        print(text + (f"; {left} changed meanwhile, or could not be changed, and were left alone" if left else ""))
    elif not empty:
        print("Nothing is changed. --yes does it.")
    return 0 if args.yes or empty else NOT_DONE


ALLOWED: dict[str, tuple[str, ...]] = {
    "retry": ("waiting", "dead", "cancelled", "held"),
    "run_now": ("waiting",),
    "cancel": ("waiting", "running", "dead", "held"),
    "purge": ("done", "dead", "cancelled"),
}
"""The states from which a verb can lead."""


def _preview(
    verb: Verb, where: Target, store: SqliteStore, found: Matched, first: list[TaskView], args: argparse.Namespace
) -> None:
    if not found.ids and not found.lines:
        print(f"no such task in {where.path}")
        return
    if found.ids:
        print(f"In {where.path} {_matches(len(found.ids))}:")
        rows = [(render.clean(name), state, str(count)) for (name, state), count in sorted(found.counts.items())]
        render.table(("NAME", "STATE", "COUNT"), rows)
        if not args.yes:
            print(f"The first {len(first)}:" if len(first) < len(found.ids) else "They are:")
            table(store, first, store.now_ms())
    if verb == "purge":
        guarding = sum(care.guarding(store, found.ids[i : i + care.READ]) for i in range(0, len(found.ids), care.READ))
        if guarding:
            print(f"Of these, {guarding} still guard their keys: a task with such a key can then run again.")
        if found.lines:
            print(f"Of the run history {_matches(len(found.lines), 'line')}.")


def _matches(count: int, noun: str = "task") -> str:
    return f"{count} {noun} matches" if count == 1 else f"{count:,} {noun}s match"


def _report(
    verb: Verb, done: bool, counts: list[dict[str, Any]], changed: int, left: int, tasks: list[dict[str, Any]]
) -> dict[str, Any]:
    """The same form for named ones and for a bulk."""
    return {"verb": verb, "done": done, "matched": counts, "changed": changed, "left": left, "tasks": tasks}
