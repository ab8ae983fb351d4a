"""`nextdue pause` and `nextdue resume`: queues, names and single tasks that nobody starts for now."""

import argparse
from shlex import quote

from nextdue.cli import chosen, render, target
from nextdue.cli.target import Target
from nextdue.cli.times import relative, shown
from nextdue.errors import BadDefinition
from nextdue.records import TaskView
from nextdue.sqlite import pauses, restore
from nextdue.sqlite.alarm import ring
from nextdue.sqlite.database import Database
from nextdue.sqlite.pauses import Kind
from nextdue.sqlite.store import SqliteStore
from nextdue.task import checked_name

HELD = "a restored backup, held until `nextdue release`"


def pause(args: argparse.Namespace) -> int:
    """Pause; exit code 1 if one of the tasks can't be paused because it runs or has ended."""
    where, ids = _meant(args)
    code = 0
    store = where.open()
    try:
        for kind, word in _groups(args):
            new = pauses.pause(store, kind, word)
            print(f"{kind} {render.clean(word)} {'is' if new else 'was already'} paused{_until(where, kind, word)}")
            if not _is_known(where, store, kind, word):
                print(f"No task of this {kind} has been put so far; the pause holds for those to come.")
        for view in chosen.named(where, store, ids):
            done = pauses.pause_task(store, view.id)
            code = code if done else 1
            print(f"{_named(view)} " + ("is paused" if done else _left_alone(view)))
    finally:
        store.close()
    return code


def resume(args: argparse.Namespace) -> int:
    """Resume; exit code 1 if something that was named wasn't paused."""
    where, ids = _meant(args)
    code = 0
    store = where.open()
    try:
        groups = _groups(args)
        held = restore.held_since(store.database) is not None
        release = f"`nextdue release {target.pasteable(where.path)}`"
        otherwise = f"is held by a restore; {release} ends that" if held else ""
        if args.all:
            groups = [(found.kind, found.word) for found in pauses.paused(store.database)]
            ids = [str(id) for id in pauses.paused_tasks(store.database)]
        for kind, word in groups:
            done = pauses.resume(store, kind, word)
            code = code if done else 1
            left = otherwise or f"wasn't paused; {_paused(store)}"
            print(f"{kind} {render.clean(word)} {'is resumed' if done else left}")
        for view in chosen.named(where, store, ids):
            done = pauses.resume_task(store, view.id)
            code = code if done else 1
            print(f"{_named(view)} " + ("is resumed" if done else f"wasn't paused; it is {view.state}"))
        if args.all and not groups and not ids:
            print(f"nothing is paused in {where.path}")
        if held and not code:
            print(f"All the same nothing starts: it is a restored backup, and {release} ends that.")
    finally:
        store.close()
    ring(where.path)
    return code


def lines(database: Database) -> list[str]:
    """What is paused, a line each, for a worker that starts."""
    said = [f"{kind} {render.clean(word)}, since {shown(since)}" for kind, word, since in pauses.paused(database)]
    return said if restore.held_since(database) is None else [HELD, *said]


def _until(where: Target, kind: Kind, word: str) -> str:
    return f" until `nextdue resume {target.pasteable(where.path)} --{kind} {quote(render.clean(word))}`"


def _meant(args: argparse.Namespace) -> tuple[Target, list[str]]:
    """The target, and the ids among the words."""
    words = list(args.words)
    place = None
    if words and chosen.number(words[0]) is None:
        place = words.pop(0)
    wrong = [word for word in words if chosen.number(word) is None]
    if wrong:
        raise BadDefinition(f"{wrong[0]!r} is no id; ids are numbers, as `nextdue ls` shows them")
    everything = getattr(args, "all", False)
    named = bool(words or args.queue is not None or args.name is not None)
    if named == everything:
        raise BadDefinition(
            "what is to be resumed? Give ids, --queue, --name, or only --all"
            if "all" in args
            else "what is to be paused? Give ids, --queue or --name"
        )
    return target.find(place), words


def _groups(args: argparse.Namespace) -> list[tuple[Kind, str]]:
    found: list[tuple[Kind, str]] = []
    if args.queue is not None:
        found.append(("queue", checked_name(args.queue, "a queue's name")))
    if args.name is not None:
        found.append(("name", checked_name(args.name, "a task's name")))
    return found


def _is_known(where: Target, store: SqliteStore, kind: Kind, word: str) -> bool:
    tasks = where.app.tasks.values() if where.app else ()
    declared = {task.options.queue if kind == "queue" else task.name for task in tasks}
    return word in declared or pauses.is_known(store.database, kind, word)


def _named(view: TaskView) -> str:
    return f"{render.clean(view.name)} #{view.id}"


def _left_alone(view: TaskView) -> str:
    return "is running; it is left alone" if view.state == "running" else f"is {view.state}; nothing is changed"


def _paused(store: SqliteStore) -> str:
    found = pauses.paused(store.database)
    now = store.now_ms()
    said = [f"{kind} {render.clean(word)} ({relative(since, now)})" for kind, word, since in found]
    return f"paused are: {', '.join(said)}" if said else "nothing is paused"
