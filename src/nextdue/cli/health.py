"""`nextdue health`: one question for monitoring. Exit code 0 if all that is due is being run, else 1."""

import argparse
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from nextdue.cli import render, target
from nextdue.cli.times import relative, shown, utc
from nextdue.clock import duration_ms, span
from nextdue.sqlite import health as engine
from nextdue.sqlite.health import MOST, Health, Late

SHOWN = 20
"""At most so many kinds of late tasks are written out."""

WHICH = {"dead": "--state dead", "held": "--held"}
"""How `nextdue ls` lists them."""

Level = Literal["ok", "note", "bad"]


class Finding(NamedTuple):
    """One line. Only `bad` makes the file unhealthy."""

    level: Level
    about: str
    text: str


def health(args: argparse.Namespace) -> int:
    """Look; exit code 1 if anything is bad."""
    max_late = duration_ms(args.max_late, "--max-late")
    where = target.find(args.target)
    store = where.look()
    try:
        found = engine.look(store, where.app.definitions.keys() if where.app else None)
    finally:
        store.close()
    findings = list(examine(found, max_late, target.pasteable(where.path)))
    healthy = all(finding.level != "bad" for finding in findings)
    if args.json:
        render.document(_data(found, findings, healthy, str(where.path)))
    else:
        print(f"{where.path} is {'healthy' if healthy else 'NOT healthy'}")
        for level, about, text in findings:
            print(f"{level:4}  {about:7}  {text}")
    return 0 if healthy else 1


def examine(found: Health, max_late_ms: int, path: str) -> Iterator[Finding]:
    """What is to be said of it; `path` is the file as one writes it in a shell."""
    yield _workers(found)
    yield from _late(found, max_late_ms)
    yield from _paused(found, path)
    for name, since, count in found.blocked:
        text = f"{many(count)} {render.clean(name)} wait for their limit, the longest since {_since(since, found)}"
        yield Finding("note", "blocked", text)
    for name, since, count in found.waits:
        text = f"{many(count)} {render.clean(name)} wait for other tasks or events"
        text += f", the longest since {_since(since, found)}"
        yield Finding("note", "waits", text)
    for state, counts in (("dead", found.dead), ("held", found.held)):
        if counts:
            names = ", ".join(f"{render.clean(name)} ({many(count)})" for name, count in sorted(counts.items()))
            yield Finding("note", state, f"{names}: nextdue ls {path} {WHICH[state]}")


def _workers(found: Health) -> Finding:
    alive = found.alive()
    if alive:
        text = f"{render.counted(len(alive), 'worker')} {'live' if len(alive) > 1 else 'lives'}"
        if found.last_run is not None:
            text += f"; the last run ended {relative(found.last_run, found.now)}"
        return Finding("ok", "worker", text)
    if not found.ever:
        return Finding("bad", "worker", "no worker ever ran on this file; start one: nextdue worker module:attribute")
    text = "no worker lives"
    unknown = [life.where() for life in found.lives if life.state == "unknown"]
    if unknown:
        text = f"no worker is known to live; of {', '.join(unknown)} it can't be told"
    if found.last_run is not None:
        text += f"; the last run ended at {_since(found.last_run, found)}"
    return Finding("bad", "worker", text)


def _late(found: Health, max_late_ms: int) -> Iterator[Finding]:
    """What didn't run and since when, and apart from it what nobody is to blame for."""
    bad = found.too_late(max_late_ms)
    if not bad:
        oldest = next((late for late in found.late if late.why == "claimable"), None)
        lag = "nothing that could run is overdue" if oldest is None else f"the oldest is {_overdue(oldest, found)}"
        yield Finding("ok", "late", lag)
    for late in bad[:SHOWN]:
        text = f"{_what(late)}: {many(late.overdue)} didn't run, since {_since(late.since, found)}"
        text += "; they are tried alone, after crashes" if late.alone else ""
        yield Finding("bad", "late", text + ("; no living worker serves them" if late.served is False else ""))
    if len(bad) > SHOWN:
        yield Finding("bad", "late", f"and {len(bad) - SHOWN} more names and queues")
    for late in found.late:
        if late.why == "unknown":
            text = f"{_what(late)}: {many(late.overdue)} since {_since(late.since, found)}"
            yield Finding("note", "unknown", f"{text}; the application declares no such task")


def _paused(found: Health, path: str) -> Iterator[Finding]:
    if found.restored is not None:
        waits = f"; {many(sum(one.overdue for one in found.late))} overdue" if found.late else ""
        text = f"a restored backup, held since {_since(found.restored, found)}{waits}; nextdue release {path} ends that"
        yield Finding("note", "restore", text)
    for kind, word, since in found.pauses:
        late = [late for late in found.late if word == (late.queue if kind == "queue" else late.name)]
        overdue = f"; {many(sum(one.overdue for one in late))} overdue" if late else ""
        yield Finding("note", "paused", f"{kind} {render.clean(word)} since {_since(since, found)}{overdue}")
    for name, count in sorted(found.paused.items()):
        yield Finding("note", "paused", f"{render.clean(name)}: {many(count)} paused one by one")


def _what(late: Late) -> str:
    return render.clean(late.name) + ("" if late.queue == "default" else f" in {render.clean(late.queue)}")


def _overdue(late: Late, found: Health) -> str:
    return f"{render.clean(late.name)}, overdue for {span(found.now - late.since)}"


def _since(ms: int, found: Health) -> str:
    return f"{shown(ms)}, {relative(ms, found.now)}"


def many(count: int) -> str:
    """A count that ended at MOST."""
    return f"over {MOST - 1:,}" if count >= MOST else f"{count:,}"


def _data(found: Health, findings: list[Finding], healthy: bool, path: str) -> dict[str, Any]:
    """For a program."""
    return {
        "path": path,
        "healthy": healthy,
        "findings": [finding._asdict() for finding in findings],
        "workers": len(found.alive()),
        "worker_ever": found.ever,
        "last_run": utc(found.last_run),
        "last_run_ms": found.last_run,
        "late": [late._asdict() | {"since": utc(late.since), "since_ms": late.since} for late in found.late],
        "blocked": [{"name": name, "count": n, "since": utc(s), "since_ms": s} for name, s, n in found.blocked],
        "waits": [{"name": name, "count": n, "since": utc(s), "since_ms": s} for name, s, n in found.waits],
        "paused": [{"kind": kind, "word": word, "since": utc(s), "since_ms": s} for kind, word, s in found.pauses],
        "restored": utc(found.restored),
        "restored_ms": found.restored,
        "dead": found.dead,
        "held": found.held,
        "paused_tasks": found.paused,
    }
