"""`nextdue add`: putting a task from a shell."""

import argparse
import contextlib
import os
from datetime import datetime

import msgspec

from nextdue.calls import REMEMBER
from nextdue.cli import render, target
from nextdue.cli.target import VARIABLE, Target
from nextdue.cli.times import instant, relative, shown
from nextdue.clock import duration_ms, to_ms
from nextdue.codec import MAX_BYTES
from nextdue.errors import BadArguments, BadDefinition, BadTime
from nextdue.records import Put, Stored
from nextdue.sqlite import inspect
from nextdue.sqlite.caller import Caller
from nextdue.sqlite.store import SqliteStore
from nextdue.task import checked_name, checked_priority


def add(args: argparse.Namespace) -> int:
    """Put one task; nothing is stored if anything about it is wrong."""
    place, name, text = split(args.words)
    if args.delay is not None and args.at is not None:
        raise BadTime("give --in or --at, not both")
    if args.tz is not None and args.at is None:
        raise BadTime("--tz is the zone of --at; give --at too")
    due = None if args.at is None else instant(args.at, args.tz)
    delay_ms = None if args.delay is None else duration_ms(args.delay, "--in")
    text = checked_json(text)
    where = target.find(place)
    put = _put_by_app if where.app else _put_by_path
    stored = put(where, name, text, args, due, delay_ms)
    _report(where, name, stored, args)
    return 0


def split(words: list[str]) -> tuple[str | None, str, str]:
    """`[TARGET] NAME [ARGS]` as target, name and JSON text."""
    words = list(words)
    text = words.pop() if len(words) > 1 and words[-1].lstrip().startswith(("[", "{")) else None
    if text is None and len(words) == 3:
        text = words.pop()
    if text is None and len(words) == 2 and os.environ.get(VARIABLE) and not target.looks_like_target(words[0]):
        text = words.pop()
    if len(words) not in (1, 2):
        raise BadDefinition("give [TARGET] NAME [ARGS]; ARGS is one JSON array or object, in quotes: '[42]'")
    if len(words) == 1 and (target.looks_like_target(words[0]) or not os.environ.get(VARIABLE)):
        word = words[0]
        missing = "NAME [ARGS]" if target.looks_like_target(word) else "TARGET"
        shown = f"{word} NAME" if target.looks_like_target(word) else f"TARGET {word}"
        raise BadDefinition(f"{missing} is missing: nextdue add {shown}")
    return (words[0] if len(words) == 2 else None), words[-1], "[]" if text is None else text


def checked_json(text: str) -> str:
    """The arguments as compact JSON. Raises BadArguments."""
    try:
        value = msgspec.json.decode(text)
        compact = msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        raise BadArguments(
            f"ARGS isn't JSON ({exc}); in a shell write it in single quotes: '[\"a text\", 42]'"
        ) from None
    if not isinstance(value, list | dict):
        raise BadArguments(f"ARGS must be a JSON array or object, like '[{text.strip()}]', not {text.strip()}")
    if len(compact.encode()) > MAX_BYTES:
        raise BadArguments(f"ARGS has over {MAX_BYTES} bytes; store the data elsewhere and pass where it lies")
    return compact


def _put_by_app(
    where: Target, name: str, text: str, args: argparse.Namespace, due: datetime | None, delay_ms: int | None
) -> Stored:
    """The application knows the function: its signature checks the arguments."""
    app = where.app
    assert app is not None
    word = target.known_name(name, app.definitions, f"the application of {app.path}")
    task = app.tasks[app.definitions[word].options.name]
    if args.queue is not None:
        _check_queue(where, args.queue, {t.options.queue for t in app.tasks.values()})
    call = task.using(
        delay=None if delay_ms is None else delay_ms / 1000,
        due=due,
        key=args.key,
        queue=args.queue,
        priority=args.priority,
    )
    positional, named = task.definition.signature.decode(text)
    handle = call.enqueue(*positional, **named)
    return Stored(handle.id, handle.created, handle.state)


def _put_by_path(
    where: Target, name: str, text: str, args: argparse.Namespace, due: datetime | None, delay_ms: int | None
) -> Stored:
    """Without the application only a name that the file knows can be right."""
    store = where.open()
    try:
        lanes = inspect.rows(store.database, "lanes_known")
        target.known_name(name, {known for known, _ in lanes}, where.path)
        if args.queue is not None:
            target.known_queue(args.queue, {queue for _, queue in lanes}, where.path)
    finally:
        store.close()
    usual = [queue for known, queue in lanes if known == name]
    put = Put(
        name=name,
        queue=args.queue or (usual[0] if len(usual) == 1 else "default"),
        priority=checked_priority(args.priority or 0),
        args=text,
        due_ms=None if due is None else to_ms(due),
        delay_ms=delay_ms or 0,
        key=None if args.key is None else checked_name(args.key, "a key"),
        remember_ms=None if args.key is None else duration_ms(REMEMBER),
    )
    with contextlib.closing(Caller(where.path, where.open)) as caller:
        return caller.put(put)


def _check_queue(where: Target, queue: str, known: set[str]) -> None:
    if queue not in known and where.path.exists():
        store = SqliteStore(where.path)
        try:
            known = known | inspect.queues(store.database)
        finally:
            store.close()
    target.known_queue(queue, known, where.path)


def _report(where: Target, name: str, stored: Stored, args: argparse.Namespace) -> None:
    store = where.open()
    try:
        view, now = store.get(stored.id), store.now_ms()
    finally:
        store.close()
    if args.json:
        task = None if view is None else render.task_data(view)
        render.document({"id": stored.id, "created": stored.created, "state": stored.state, "task": task})
    elif not stored.created:
        print(f"{name} #{stored.id} holds this key already and is {stored.state}; nothing is stored")
    else:
        due = "" if view is None or view.due is None else f", due {shown(view.due)}, {relative(view.due, now)}"
        print(f"{name} #{stored.id} is stored in {where.path}{due}")
