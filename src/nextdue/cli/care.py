"""`nextdue check` and `nextdue uninstall`: the fsck of the tables, and their end."""

import argparse

from nextdue.cli import render, target
from nextdue.cli.times import shown
from nextdue.sqlite import inspect
from nextdue.sqlite.store import SqliteStore


def check(args: argparse.Namespace) -> int:
    """Look for broken rows; exit code 1 if there are any."""
    where = target.find(args.target)
    store = where.look()
    try:
        findings = inspect.check(store.database)
    finally:
        store.close()
    if args.json:
        render.document({"path": str(where.path), "findings": findings})
    else:
        for finding in findings:
            print(render.clean(finding))
        print(f"{where.path}: {render.counted(len(findings), 'finding') if findings else 'sound'}")
    return 1 if findings else 0


def uninstall(args: argparse.Namespace) -> int:
    """Show what still waits; with --yes drop our tables and remove our files."""
    where = target.find(args.target)
    store = where.open()
    try:
        _show_loss(store)
        inspect.refuse_uninstall(store.database)
        if not args.yes:
            print("Nothing is changed. With --yes the tables, the tasks in them and the files above are removed.")
            return 2
        inspect.uninstall(store.database)
        others = inspect.value(store.database, "others")
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
    files = [str(found) for found in inspect.leftovers(path)]
    if files:
        print(f"Files beside it: {', '.join(files)}")
