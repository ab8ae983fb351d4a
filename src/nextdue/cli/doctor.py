"""`nextdue doctor`: what around the file may hurt it. Each line: ok, warn or bad, and what to do."""

import argparse
import contextlib
import os
import shutil
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from nextdue import schedule
from nextdue.app import Nextdue
from nextdue.cli import readers, render, schedules, target
from nextdue.cli.health import WHICH, many
from nextdue.cli.times import local_zone, relative, shown
from nextdue.clock import span
from nextdue.errors import BadDefinition, NotAStore, StoreError, StoreMissing
from nextdue.sqlite import health, inspect, pauses, restore
from nextdue.sqlite import schedules as stored
from nextdue.sqlite.database import WAL_BYTES, wal_reset_bug
from nextdue.sqlite.files import FLEETING, filesystem, is_shared
from nextdue.sqlite.store import SqliteStore
from nextdue.sqlite.uninstall import leftovers

LATE_MS = 60_000
"""Overdue for longer than this is worth a warning."""
FREE_BYTES = (10 << 20, 200 << 20)
"""Free space that is bad, and that is worth a warning."""
STEP_SHOWN_MS = 7 * 86_400_000
"""A jump of the clock is worth a warning for so long."""
SANE_S = 1_735_689_600
"""2025-01-01: a clock before it was never set."""

Level = Literal["ok", "warn", "bad"]


class Finding(NamedTuple):
    """One line of the doctor."""

    level: Level
    about: str
    text: str
    todo: str = ""


def doctor(args: argparse.Namespace) -> int:
    """Examine; exit code 1 if anything is bad."""
    where = target.find(args.target)
    if not where.path.exists():
        raise StoreMissing(f"there is no file {where.path}; the application makes it when it first puts a task")
    findings = list(examine(where.path, where.app))
    if args.json:
        render.document({"path": str(where.path), "findings": [finding._asdict() for finding in findings]})
    else:
        print(where.path)
        for level, about, text, todo in findings:
            print(f"{level:4}  {about:12}  {text}" + (f"; {todo}" if todo else ""))
    return 1 if any(finding.level == "bad" for finding in findings) else 0


def examine(path: Path, app: Nextdue | None) -> Iterator[Finding]:
    """All findings, the good ones too."""
    yield _sqlite(sqlite3.sqlite_version_info)
    yield _file_system(filesystem(path))
    yield from _permissions(path)
    yield _space(path)
    try:
        store = SqliteStore(path, create=False, look=True)
    except (StoreMissing, NotAStore):
        raise
    except StoreError as exc:
        yield Finding("bad", "open", str(exc))
        return
    try:
        yield from _inside(store)
        yield from _clock(store)
        yield from _workers(store)
        yield from _tasks(store, app)
        yield from _schedules(store, app)
        yield from _ahead(store)
        yield from _paused(store)
    finally:
        store.close()


def _sqlite(version: tuple[int, ...]) -> Finding:
    shown_version = ".".join(map(str, version))
    if not wal_reset_bug(version):
        return Finding("ok", "sqlite", f"SQLite {shown_version}, without the WAL-reset bug")
    return Finding("warn", "sqlite", f"{shown_version} has the WAL-reset bug", "see docs/troubles.md")


def _file_system(kind: str) -> Finding:
    if is_shared(kind):
        return Finding("bad", "disk", f"the file is on {kind}, where WAL would corrupt it", "move it to a local disk")
    if kind in FLEETING:
        return Finding("warn", "disk", f"the file is on {kind}", "it goes with a restart or the next deploy; move it")
    return Finding("ok", "disk", f"the file is on {kind or 'a file system that the platform does not name'}")


def _permissions(path: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o002:
        yield Finding("bad", "permissions", f"mode {mode:04o}: everybody may change the tasks", f"chmod o-w {path}")
    elif mode & 0o004:
        yield Finding("warn", "permissions", f"mode {mode:04o}: everybody may read the tasks", f"chmod o-r {path}")
    else:
        yield Finding("ok", "permissions", f"mode {mode:04o}")
    for needed in (path, path.parent, *leftovers(path)):
        if not os.access(needed, os.W_OK):
            yield Finding("bad", "permissions", f"{needed} can't be written by this user", "chown or chmod it")


def _space(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    level: Level = "bad" if free < FREE_BYTES[0] else "warn" if free < FREE_BYTES[1] else "ok"
    return Finding(level, "space", f"{free >> 20:,} MB are free", "" if level == "ok" else "make room")


def _inside(store: SqliteStore) -> Iterator[Finding]:
    database = store.database
    yield Finding("ok", "schema", f"version {inspect.value(database, 'schema_found')}")
    mode = inspect.value(database, "journal_mode")
    if mode == "wal":
        yield Finding("ok", "journal", "WAL")
    elif database.at_rest:
        yield Finding("ok", "journal", "not in WAL mode, as a backup is: nobody has worked on this file yet")
    else:
        yield Finding("bad", "journal", f"SQLite answers journal mode {mode!r} instead of wal", "use a local disk")
    size = database.wal.stat().st_size if database.wal.exists() else 0
    level: Level = "warn" if size > 4 * WAL_BYTES else "ok"
    yield Finding(
        level, "wal", f"{size / (1 << 20):.1f} MB", "a long reader may keep it from shrinking" * (size > 4 * WAL_BYTES)
    )
    found = readers.long_readers(database.path)
    if found is None:
        yield Finding("ok", "readers", "this platform doesn't tell who reads")
    elif found:
        yield Finding(
            "warn",
            "readers",
            f"read transactions stay open in {', '.join(found)}",
            "end them; the WAL grows until then",
        )
    else:
        yield Finding("ok", "readers", "no long read transaction")


def _clock(store: SqliteStore) -> Iterator[Finding]:
    now = store.now_ms()
    # The zone is what this line is about, so the local reading of the clock is meant.
    zone = local_zone() or datetime.now().astimezone().tzname() or "unknown"
    text = f"{shown(now)}, zone {zone}"
    ahead = int(inspect.value(store.database, "newest")) - now
    if now < SANE_S * 1000 or abs(now - time.time() * 1000) > 5_000:
        yield Finding("bad", "clock", f"{text}: it can't be right", "set the clock (NTP)")
    elif ahead > 2_000:
        yield Finding(
            "warn", "clock", f"{text}: the file knows of things {span(ahead)} later", "was the clock set back?"
        )
    else:
        yield Finding("ok", "clock", text)
    found = inspect.rows(store.database, "clock_step")
    if found:
        at, step = found[0]
        way = "back" if step < 0 else "forward"
        text = f"a worker saw it go {way} by {span(abs(step))} at {shown(at)}, {relative(at, now)}"
        recent = now - at < STEP_SHOWN_MS
        yield Finding("warn" if recent else "ok", "clock", text, "was it set, or was the machine asleep?" * recent)


def _workers(store: SqliteStore) -> Iterator[Finding]:
    lives = inspect.lives(store.database)
    alive = [life for life in lives if life.state == "alive"]
    for life in alive:
        yield Finding(
            "ok",
            "worker",
            f"{life.where()} lives since {shown(life.started)} and holds {render.counted(life.holds, 'task')}",
        )
    for life in lives:
        if life.state == "dead":
            todo = "the next worker that starts, or one that lives, takes care of it"
            yield Finding(
                "warn", "worker", f"{life.where()} is dead and held {render.counted(life.holds, 'task')}", todo
            )
        if life.state == "unknown":
            yield Finding("warn", "worker", f"{life.where()}: its lock file is missing", "its leases decide")
    strays = [n for n in store.lives.dead() if n not in {life.id for life in lives}]
    if strays:
        text = f"locks of unknown workers: {', '.join(map(str, strays))}"
        yield Finding("warn", "worker", text, "left by a restored file; the next worker removes them")
    if not alive:
        yield Finding("ok", "worker", "none lives")


def _paused(store: SqliteStore) -> Iterator[Finding]:
    found = restore.held(store.database)
    for kind, word, since in pauses.paused(store.database):
        text = f"{kind} {render.clean(word)} is paused since {shown(since)}"
        todo = f"nextdue resume {target.pasteable(store.database.path)} --{kind} {quote(render.clean(word))}"
        yield Finding("warn", "paused", text, todo)
    if found is not None:
        text = (
            f"it is a restored backup and held since {shown(found.since)}: {sum(o.tasks for o in found.overdue)} "
            f"overdue, {sum(o.by_an_hour for o in found.overdue)} of them by > 1 h"
        )
        todo = f"nextdue release {target.pasteable(store.database.path)} shows them and lets them start"
        yield Finding("warn", "restored", text, todo)


def _tasks(store: SqliteStore, app: Nextdue | None) -> Iterator[Finding]:
    log = inspect.backlog(store.database)
    late = log.oldest is not None and log.now - log.oldest > LATE_MS
    text = f"{log.overdue} overdue, {sum(log.waiting.values())} waiting, {sum(log.running.values())} running"
    if late and log.oldest is not None:
        oldest = f"{text}; the oldest is due since {shown(log.oldest)}, {relative(log.oldest, log.now)}"
        yield Finding("warn", "tasks", oldest, "start a worker that knows them, or more of them")
    else:
        yield Finding("ok", "tasks", text)
    found = health.look(store, None)
    for state, counts in (("dead", Counter(found.dead)), ("held", Counter(found.held) + Counter(found.paused))):
        if counts:
            todo = f"nextdue ls {target.pasteable(store.database.path)} {WHICH[state]}"
            yield Finding("warn", "tasks", f"{state}: {_counted(counts)}", todo)
    if app is not None:
        strangers = Counter({name: count for name, count in log.waiting.items() if name not in app.definitions})
        if strangers:
            text = f"names that the application doesn't declare: {_counted(strangers)}"
            yield Finding("warn", "names", text, "declare them, or give the new name an alias")
        else:
            yield Finding("ok", "names", "the application declares all that wait")


def _schedules(store: SqliteStore, app: Nextdue | None) -> Iterator[Finding]:
    now, views = store.now_ms(), stored.listed(store)
    known = None if app is None else {name for t in app.tasks.values() for name in (t.name, *t.options.aliases)}
    orphans = [view.label for view in views if view.orphaned is not None]
    if orphans:
        todo = "declare them again, or forget them: nextdue schedules remove NAME KEY"
        yield Finding("warn", "schedules", f"declared by no code any more, and held: {_named(orphans)}", todo)
    living = [view for view in views if view.state in ("waiting", "running")]
    strange = [view.label for view in living if known is not None and view.name not in known]
    if strange:
        text = f"of tasks that the application doesn't declare: {_named(strange)}"
        yield Finding("warn", "schedules", text, "declare the tasks, or nextdue schedules remove NAME KEY")
    late = [v for v in living if v.state == "waiting" and v.due is not None and now - v.due > LATE_MS]
    if late:
        text = f"overdue, and started by nobody: {_named([view.label for view in late])}"
        yield Finding("warn", "schedules", text, "start a worker that knows their tasks, or end a pause of them")
    broken = [view.label for view in living if schedules.trouble(view.plan) is not None]
    if broken:
        yield Finding("warn", "schedules", f"can't be followed: {_named(broken)}", "nextdue schedules says why")
    if not (orphans or strange or late or broken):
        yield Finding("ok", "schedules", f"{render.counted(len(living), 'schedule')} in force")


def _ahead(store: SqliteStore) -> Iterator[Finding]:
    """Schedules that wait for a later slot than the next of their rule: those before it had come when the clock was
    ahead of time, and none comes twice."""
    now, found = store.now_ms(), []
    for view in stored.listed(store):
        if view.state != "waiting" or view.slot is None or schedule.from_end(view.plan):
            continue
        with contextlib.suppress(BadDefinition):  # its zone isn't known here
            following = schedule.first(view.plan, now)
            if following is not None and view.slot > following:
                found.append(view)
    if found:
        latest = max(view.slot or 0 for view in found)
        text = f"the clock was ahead when they ran last, and was set back; they wait until up to {shown(latest)}: "
        text += _named(sorted({view.name for view in found}))
        todo = "to begin anew from now: nextdue schedules pause, then resume, NAME KEY"
        yield Finding("warn", "schedules", text, todo)


def _named(words: list[str], most: int = 10) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(render.clean(word, 60) for word in words[:most]) + more


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{render.clean(name)} ({many(count)})" for name, count in sorted(counts.items()))
