"""`nextdue backup`, `restore` and `release`: a verified copy, its way back, and what it lets start."""

import argparse
import os
from pathlib import Path

from nextdue.cli import readers, render, target
from nextdue.cli.times import relative, shown
from nextdue.clock import duration_ms
from nextdue.errors import BadDefinition, BadTime, StoreBusy
from nextdue.sqlite import files
from nextdue.sqlite import restore as restoring
from nextdue.sqlite.alarm import ring
from nextdue.sqlite.backup import backup as back_up
from nextdue.sqlite.herd import LONGEST_MS
from nextdue.sqlite.restore import Held

SHOWN = 20
"""The most lines of what runs again."""


def backup(args: argparse.Namespace) -> int:
    """Write a verified copy."""
    *words, path = args.words
    if not words and not os.environ.get(target.VARIABLE):
        raise BadDefinition(f"PATH, where the copy is to be made, is missing: nextdue backup {path} PATH")
    where = target.find(_place(words, "[TARGET] PATH"))
    made = back_up(where.path, path, overwrite=args.force)
    print(f"{made}: {_size(made)}, complete and checked")
    return 0


def restore(args: argparse.Namespace) -> int:
    """Put a backup in the place of the file, held."""
    first, *words = args.words
    source = files.absolute(first)
    if not words and not os.environ.get(target.VARIABLE):
        raise BadDefinition(f"the file to be replaced is missing: nextdue restore {first} TARGET")
    where = target.find(_place(words, "BACKUP [TARGET]"))
    if where.app is not None:
        where.app.close()  # importing it may have put tasks
    try:
        kept = restoring.restore(source, where.path)
    except StoreBusy as exc:
        users = readers.users(where.path)
        raise StoreBusy(f"{exc}" + (f" ({', '.join(users)})" if users else "")) from None
    print(f"{where.path} is restored from {source}.")
    if kept is not None:
        print(f"What was there before is kept: {kept}")
    store = where.open()
    try:
        found = restoring.held(store.database)
        if found is not None:
            _show(found, store.now_ms())
    finally:
        store.close()
    word = words[0] if words else os.path.relpath(where.path)
    print(f"Nothing of it starts until `nextdue release {word}`; with --over 10m the overdue ones start spread out.")
    return 0


def release(args: argparse.Namespace) -> int:
    """Let a restored file work again; with --dry-run only say what that would start."""
    where = target.find(args.target)
    over_ms = 0 if args.over is None else duration_ms(args.over, "--over")
    if over_ms > LONGEST_MS:
        raise BadTime(f"--over {args.over}: at most 30 days")
    store = where.open()
    try:
        found = restoring.held(store.database)
        if found is None:
            print(f"{where.path} isn't held: nothing is to be released")
            return 0
        _show(found, store.now_ms())
        if args.dry_run:
            print("Nothing is changed.")
            return 0
        restoring.release(store, over_ms)
    finally:
        store.close()
    ring(where.path)
    spread = f", spread over {args.over}" if over_ms else ""
    print(f"{where.path} is released: {_starting(found, spread)}")
    return 0


def _starting(found: Held, spread: str) -> str:
    count = sum(o.tasks for o in found.overdue)
    if not count:
        return "nothing is overdue."
    return f"{count} overdue {'task starts' if count == 1 else 'tasks start'} now{spread}."


def _show(found: Held, now: int) -> None:
    if found.overdue:
        print("Overdue, and started by the release:")
        rows = [
            (render.clean(o.name), render.clean(o.queue), str(o.tasks), f"{shown(o.since)}, {relative(o.since, now)}")
            for o in found.overdue
        ]
        render.table(("NAME", "QUEUE", "COUNT", "SINCE"), rows)
    else:
        print("Nothing is overdue.")
    if found.next is not None:
        print(f"Due later: {found.later}, the next {shown(found.next)}, {relative(found.next, now)}.")
    if found.again:
        named = [f"{render.clean(name)} #{id}" for id, name in found.again[:SHOWN]]
        more = f" and {len(found.again) - SHOWN} more" if len(found.again) > SHOWN else ""
        print(f"They ran when the backup was made, and run again: {', '.join(named)}{more}.")
    print("What was done since the backup was made is done again; `nextdue cancel` or `pause` what must not be.")


def _place(words: list[str], wanted: str) -> str | None:
    if len(words) > 1:
        raise BadDefinition(f"give {wanted}, not {len(words) + 1} words")
    return words[0] if words else None


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / (1 << 20):,.1f} MB" if size >= 100_000 else f"{size:,} bytes"
