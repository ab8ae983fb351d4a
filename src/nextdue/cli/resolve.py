"""`nextdue resolve` and `send`: what only somebody outside knows, of a step in doubt and of an event."""

import argparse
import os
from contextlib import closing
from shlex import quote

import msgspec

from nextdue.cli import chosen, render, target
from nextdue.cli.marks import doubts
from nextdue.cli.target import VARIABLE
from nextdue.cli.times import relative, shown
from nextdue.clock import duration_ms
from nextdue.codec import plain_text
from nextdue.desk import Desk
from nextdue.errors import BadArguments, BadDefinition
from nextdue.records import TaskView
from nextdue.sqlite import care, marks
from nextdue.sqlite.alarm import ring
from nextdue.sqlite.store import SqliteStore
from nextdue.task import checked_name


def resolve(args: argparse.Namespace) -> int:
    """Decide about a step in doubt; nothing is changed if anything about that is wrong."""
    if args.happened == args.not_happened:
        raise BadDefinition("has it happened? Give --happened or --not-happened")
    if args.result is not None and args.not_happened:
        raise BadDefinition("--result goes with --happened: a step that didn't happen returned nothing")
    result = None if args.result is None else _json(args.result, "--result")
    if len(args.words) < 2:
        raise BadDefinition("give [TARGET] ID LABEL; `nextdue ls --held` lists what is in doubt")
    *words, label = args.words
    place, rest = chosen.split(words)
    if len(rest) != 1 and not (len(rest) == 2 and chosen.number(rest[0]) is None):
        raise BadDefinition("give [TARGET] ID LABEL, or [TARGET] NAME KEY LABEL: one task and one of its steps")
    where = target.find(place)
    store = where.open()
    try:
        (view,) = chosen.named(where, store, rest)
        released = marks.resolve(store, view.id, label, happened=args.happened, result=result)
        if released:
            ring(where.path)
        after, now = store.get(view.id) or view, store.now_ms()
        left = doubts(store, after)
        says = _goes_on(store, after, left, released, now)
    finally:
        store.close()
    if args.json:
        ids = {"id": view.id, "name": view.name, "label": label, "happened": args.happened}
        render.document(ids | {"released": released, "state": after.state, "in_doubt": left})
    else:
        step = f"step {render.clean(label)!r} of {render.clean(view.name)} #{view.id}"
        print(f"{step} {'has happened' if args.happened else 'has not happened, and will be made'}; {says}")
    return 0


def _goes_on(store: SqliteStore, view: TaskView, left: list[str], released: bool, now: int) -> str:
    """What becomes of the task now."""
    it = f"{target.pasteable(store.database.path)} {view.id}"
    if released:
        kept = _paused(store, view)
        return "the task is due now" + (f", but its {' and its '.join(kept)} is paused" if kept else "")
    if view.state == "held" and view.reason == "in_doubt" and left:
        return f"the task is still in doubt about {', '.join(quote(render.clean(word)) for word in left)}"
    if view.state in ("dead", "cancelled") or (view.state == "held" and view.reason != "paused"):
        return f"the task is {view.state}: `nextdue retry {it}` lets it go on after its steps"
    if view.state == "held":
        return f"the task is paused: `nextdue resume {it}` lets it go on"
    return "the task goes on by itself" + (
        "" if view.due is None else f" at {shown(view.due)}, {relative(view.due, now)}"
    )


def _paused(store: SqliteStore, view: TaskView) -> list[str]:
    sight = care.sight(store, view.id)
    return [what for what, since in (("queue", sight.queue_paused), ("name", sight.name_paused)) if since is not None]


def send(args: argparse.Namespace) -> int:
    """Send an event; exit code 1 if it was sent before."""
    place, event, data = _split(args.words)
    checked_name(event, "an event")
    text = None if data is None else _json(data, "DATA")
    keep_ms = duration_ms(args.keep, "--keep")
    where = target.find(place)
    where.open().close()  # only the application makes the file
    with closing(Desk(where.path, where.open)) as desk, desk.transaction() as tx:
        sent = desk.send(tx, event, text, keep_ms)
    if args.json:
        render.document({"event": event, "sent": sent})
    elif sent:
        print(f"event {render.clean(event)} is sent, and kept for {args.keep}")
    else:
        print(f"event {render.clean(event)} was sent before and is still kept; nothing is changed")
    return 0 if sent else 1


def _split(words: list[str]) -> tuple[str | None, str, str | None]:
    """`[TARGET] EVENT [DATA]`. Of two words the first may be either: an event may be called paid:42."""
    usage = "give [TARGET] EVENT [DATA]; DATA is JSON, in quotes: '{\"amount\": 1990}'"
    named = bool(os.environ.get(VARIABLE))
    if len(words) > 3 or (len(words) == 1 and not named):
        raise BadDefinition(f"{usage}; or set {VARIABLE}" if len(words) == 1 else usage)
    if len(words) == 3 or (
        len(words) == 2 and not (named and (_is_json(words[1]) or not target.looks_like_target(words[0])))
    ):
        return words[0], words[1], words[2] if len(words) == 3 else None
    return None, words[0], words[1] if len(words) == 2 else None


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _json(text: str, what: str) -> str | None:
    try:
        return plain_text(msgspec.json.decode(text), what)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        raise BadArguments(f"{what} isn't JSON ({exc}); in a shell write it in single quotes: '\"a text\"'") from None
