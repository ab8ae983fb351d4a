"""`nextdue uninstall`: what would be lost, and the end of nextdue in a file."""

import argparse

from nextdue.cli import render, target
from nextdue.cli.times import shown
from nextdue.sqlite import inspect
from nextdue.sqlite import uninstall as ending
from nextdue.sqlite.store import SqliteStore


def uninstall(args: argparse.Namespace) -> int:
    """Show what still waits; with --yes drop our tables and remove our files."""
    where = target.find(args.target)
    store = where.open()
    try:
        _show_loss(store)
        ending.refuse(store.database)
        if not args.yes:
            print("Nothing is changed. With --yes the tables, the tasks in them and the files above are removed.")
            return 2
        ending.uninstall(store.database)
        others = ending.has_others(store.database)
    finally:
        store.close()
    print(f"nextdue is removed from {where.path}.")
    if others:
        print("Your own tables are as they were. The file stays in WAL mode; PRAGMA journal_mode=DELETE ends that.")
    else:
        print("The file holds nothing else; it can be deleted.")
    return 0


def _show_loss(store: SqliteStore) -> None:
    log = inspect.backlog(store.database)
    rows = [(name, "waiting", count) for name, count in sorted(log.waiting.items())]
    rows += [(name, "running", count) for name, count in sorted(log.running.items())]
    rows += inspect.rows(store.database, "at_rest")
    path = store.database.path
    print(f"{path} holds " + ("these tasks:" if rows else "no tasks."))
    if rows:
        render.table(("NAME", "STATE", "COUNT"), [(render.clean(n), s, str(count)) for n, s, count in rows])
    if log.next is not None:
        print(f"The next one is due {shown(log.next)}.")
    files = [str(found) for found in ending.leftovers(path)]
    if files:
        print(f"Files beside it: {', '.join(files)}")
