"""Which tasks a command line means: by ids, by name and key, or by filters."""

import argparse
import os

from nextdue.cli import target
from nextdue.cli.target import VARIABLE, Target
from nextdue.clock import duration_ms
from nextdue.errors import BadDefinition, UnknownTask
from nextdue.records import TaskView
from nextdue.sqlite import inspect
from nextdue.sqlite.care import Chosen
from nextdue.sqlite.store import SqliteStore

FILTERS = ("state", "name", "queue", "key", "reason", "older_than", "newer_than")


def given(args: argparse.Namespace) -> bool:
    """Whether the command line has any filter."""
    return any(getattr(args, name) is not None for name in FILTERS)


def filters(where: Target, store: SqliteStore, args: argparse.Namespace) -> Chosen:
    """The filters of the command line. Raises UnknownTask for a name or a queue that nobody knows, BadTime."""
    tasks = where.app.tasks if where.app else {}
    if args.name is not None:
        target.known_name(args.name, inspect.names(store.database) | set(tasks), where.path)
    if args.queue is not None:
        declared = {task.options.queue for task in tasks.values()}
        target.known_queue(args.queue, inspect.queues(store.database) | declared, where.path)
    older = None if args.older_than is None else duration_ms(args.older_than, "--older-than")
    newer = None if args.newer_than is None else duration_ms(args.newer_than, "--newer-than")
    if older is not None and newer is not None and older > newer:
        raise BadDefinition(
            f"nothing is older than {args.older_than} and newer than {args.newer_than}; "
            "--newer-than takes the larger of the two"
        )
    now = store.now_ms()
    return Chosen(
        state=args.state,
        name=args.name,
        queue=args.queue,
        key=args.key,
        reason=args.reason,
        before=None if older is None else now - older,
        since=None if newer is None else now - newer,
    )


def split(words: list[str]) -> tuple[str | None, list[str]]:
    """The target, if it is among the words, and the others: ids, or a name and a key, or nothing.

    Raises BadDefinition if that can't be told.
    """
    if not words or number(words[0]) is not None:
        return None, words
    if len(words) == 2 and os.environ.get(VARIABLE) and not target.looks_like_target(words[0]):
        return None, words
    rest = words[1:]
    if len(rest) == 2 or all(number(word) is not None for word in rest):
        return words[0], rest
    if len(rest) == 1:
        raise BadDefinition(f"{rest[0]!r} is no id; give a number, or a name and a key")
    raise BadDefinition("give [TARGET] ID ..., or [TARGET] NAME KEY")


def number(word: str) -> int | None:
    """The id that this word is, or None. Too large a one is none that any task has."""
    digits = word.removeprefix("#")
    return min(int(digits), 2**63 - 1) if digits.isdecimal() and len(digits) < 30 else None


def named(where: Target, store: SqliteStore, words: list[str]) -> list[TaskView]:
    """The tasks that these ids, or this name and key, mean. Raises UnknownTask if one of them isn't there."""
    ids = list(dict.fromkeys(number(word) for word in words))
    if None not in ids:
        return [_by_id(where, store, id) for id in ids if id is not None]
    name, key = words
    view = store.by_key(name, key)
    if view is None:
        target.known_name(name, inspect.names(store.database), where.path)
        raise UnknownTask(f"no task {name!r} with the key {key!r} is in {where.path}")
    return [view]


def _by_id(where: Target, store: SqliteStore, id: int) -> TaskView:
    view = store.get(id)
    if view is None:
        raise UnknownTask(f"there is no task {id} in {where.path}, nor in its run history")
    return view
