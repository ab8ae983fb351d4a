"""`signal add`, `list`, `refresh`, `pause`, `resume`: the sources."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from nextdue import Handle
from signal_feeds.app import Signal
from signal_feeds.cli.output import complain, say, table
from signal_feeds.cli.parsers import command
from signal_feeds.politeness import MOST_FAILURES
from signal_feeds.store.listing import Listed, listed, listed_one
from signal_feeds.texts import Language, local, reason, relative
from signal_feeds.texts import say as words

OK, FAULT = 0, 1
Run = Callable[[Signal, argparse.Namespace], int]
ADD = """A worker with --network asks it within half an hour; sooner after signal refresh. If it is a page and no feed,
signal why NAME lists the feeds that it offers."""
LIST = "Failures in a row are counted up to 12; no source is given up for them."
REFRESH = """A worker makes it: not before the server allows it, not within five minutes of the last attempt, six times
a day a source, thirty times an hour in all. Exit code 1 if it is too early; the message says when it isn't."""
PAUSE = "An attempt that runs is waited for. What the source has brought stays."
LONGEST_ATTEMPT_S = 100
"""Its deadline, and that of reading what it brought."""


def add(signal: Signal, args: argparse.Namespace) -> int:
    """A new source."""
    source = signal.add(args.url, args.name)
    found = listed_one(signal.store, source.id)
    lang, now = signal.settings.language, signal.now_ms()
    say(words(lang, "cli.added", name=source.id, url=source.url, when=relative(lang, found.due_ms or now, now)))
    return OK


def list_(signal: Signal, args: argparse.Namespace) -> int:
    """The sources, the next one first."""
    now, lang = signal.now_ms(), signal.settings.language
    found = [one for one in listed(signal.store) if _wanted(one, args, now)]
    if args.json:
        print(json.dumps([as_json(one) for one in found], indent=2))
        return OK
    known = {one.source.id for one in listed(signal.store)}
    if found:
        head = [words(lang, f"list.{word}") for word in ("name", "due", "ok", "failures", "state")]
        for line in table(head, [_row(one, lang, now) for one in found]):
            say(line)
    else:
        say(words(lang, "list.none" if known else "list.empty"))
    new = [declared.id for declared in signal.settings.declared() if declared.id not in known]
    if new:
        say(words(lang, "list.new", names=", ".join(new)))
    for name, named in signal.settings.named.items():
        if named.url is None and name not in known:
            say(words(lang, "list.nobody", name=name))
    return OK


def _wanted(one: Listed, args: argparse.Namespace, now: int) -> bool:
    if args.due:
        return one.state == "waiting" and (one.due_ms is None or one.due_ms <= now)
    return not args.failing or one.source.last_error is not None


def _row(one: Listed, lang: Language, now: int) -> Sequence[str]:
    source = one.source
    due = when_due(one, lang, now) or "-"
    ok = "-" if source.last_ok is None else relative(lang, source.last_ok, now)
    failures = f"{source.failures}/{MOST_FAILURES}" if source.failures else "-"
    return source.id, due, ok, failures, state_in_words(one, lang)


def when_due(one: Listed, lang: Language, now: int) -> str:
    """When it is asked next; "" for one that isn't."""
    if one.state != "waiting":
        return ""
    if one.due_ms is None:
        return words(lang, "list.blocked")
    return f"{local(one.due_ms)}, {relative(lang, one.due_ms, now)}"


def state_in_words(one: Listed, lang: Language) -> str:
    """What keeps it, what its last attempt failed by, and whose feed it is as well."""
    parts = []
    if one.source.orphaned:
        parts.append(words(lang, "state.orphaned"))
    elif one.state != "waiting":
        parts.append(words(lang, f"state.{one.state}"))
    if one.source.last_error is not None:
        parts.append(f"{one.source.last_error}: {reason(lang, one.source.last_error)}")
    if one.source.same_as is not None:
        parts.append(words(lang, "state.same", name=one.source.same_as))
    return "; ".join(parts)


def as_json(one: Listed) -> dict[str, object]:
    """A source for programs: instants as UTC text."""
    source = one.source
    return {
        "id": source.id,
        "url": source.url,
        "kind": source.kind,
        "origin": source.origin,
        "title": source.title,
        "state": "orphaned" if source.orphaned else one.state,
        "next_due": _utc(one.due_ms) if one.state == "waiting" else None,
        "last_ok": _utc(source.last_ok),
        "last_attempt": _utc(source.last_attempt),
        "failures": source.failures,
        "faults": source.faults,
        "last_error": source.last_error,
        "not_before": _utc(source.not_before or None),
    }


def _utc(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")[:19] + "Z"


def refresh(signal: Signal, args: argparse.Namespace) -> int:
    """A request out of turn: a wish, which the worker grants."""
    lang, found = signal.settings.language, listed_one(signal.store, args.name)
    if found.state == "paused" or found.source.orphaned:
        complain(words(lang, "refresh.rests", name=args.name, state=state_in_words(found, lang)))
        return FAULT
    signal.refresh(args.name, args.by)
    key = "refresh.local" if found.source.kind == "fixture" else "refresh.http"
    say(words(lang, key, name=args.name))
    return OK


def pause(signal: Signal, args: argparse.Namespace) -> int:
    """Ask a source no more until it is resumed; an attempt that runs is waited for."""
    lang, end, told = signal.settings.language, time.monotonic() + LONGEST_ATTEMPT_S, False
    found = listed_one(signal.store, args.name)
    if found.source.orphaned:
        say(words(lang, "pause.needless", name=args.name, state=state_in_words(found, lang)))
        return OK
    if found.state == "paused":
        say(words(lang, "pause.already", name=args.name))
        return OK
    while not _task(signal, args.name).pause():
        if time.monotonic() > end:
            complain(words(lang, "pause.busy", name=args.name))
            return FAULT
        if not told:
            say(words(lang, "pause.waits", name=args.name))
            told = True
        time.sleep(0.1)
    say(words(lang, "pause.done", name=args.name))
    return OK


def resume(signal: Signal, args: argparse.Namespace) -> int:
    """Ask it again, when it is due or now if that has passed."""
    lang, found = signal.settings.language, listed_one(signal.store, args.name)
    if found.source.orphaned:
        complain(words(lang, "resume.orphaned", name=args.name))
        return FAULT
    if not _task(signal, args.name).resume():
        say(words(lang, "resume.needless", name=args.name))
        return OK
    now, due = signal.now_ms(), listed_one(signal.store, args.name).due_ms
    say(words(lang, "resume.done", name=args.name, when=relative(lang, max(now, due or now), now)))
    return OK


def _task(signal: Signal, name: str) -> Handle[Any]:
    task = signal.nd.get("collect", name)
    if task is None:  # removed by `nextdue purge`, say
        signal.install()
        task = signal.nd.get("collect", name)
    assert task is not None
    return task


def add_commands(commands: Any) -> None:
    """See cli.main.MODULES."""
    parser = command(commands, "add", "add a source by its URL", ADD)
    parser.add_argument("url", metavar="URL", help="of a feed: RSS, Atom or JSON")
    parser.add_argument("--name", metavar="N", help="what to call it; default: its host")
    parser.set_defaults(run=add)
    parser = command(commands, "list", "the sources, the next one first", LIST)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--due", action="store_true", help="only those that are due")
    which.add_argument("--failing", action="store_true", help="only those whose last attempt failed")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=list_)
    parser = _named(commands, "refresh", "ask for a request out of turn", refresh, REFRESH)
    parser.add_argument("--by", type=_who, metavar="WHO", required=True, help="who asks for it; kept in the history")
    _named(commands, "pause", "ask a source no more", pause, PAUSE)
    _named(commands, "resume", "ask a paused source again", resume)


def _who(text: str) -> str:
    text = text.strip()
    if not 1 <= len(text) <= 100 or not text.isprintable():
        raise argparse.ArgumentTypeError("WHO is a name: 1 to 100 characters in one line")
    return text


def _named(commands: Any, name: str, says: str, run: Run, more: str = "") -> argparse.ArgumentParser:
    """A command on one source."""
    parser = command(commands, name, says, more)
    parser.add_argument("name", metavar="NAME", help="of a source, as signal list shows it")
    parser.set_defaults(run=run)
    return parser
