"""What is marked of a task, in words: the steps that it made, what it waits for, and what comes after it."""

from collections.abc import Sequence
from shlex import quote
from typing import Any

from nextdue.cli import render
from nextdue.cli.times import relative, shown, utc
from nextdue.records import TaskView
from nextdue.sqlite import marks
from nextdue.sqlite.care import Sight
from nextdue.sqlite.marks import MarkView
from nextdue.sqlite.store import SqliteStore

SHOWN = 10
"""So many tasks that are waited for, or that come after it, are written out."""
FOLLOWERS = 1_001
"""Those that come after a task aren't counted further."""


def doubts(store: SqliteStore, view: TaskView) -> list[str]:
    """The labels of the steps in doubt."""
    return [doubt.label for doubt in marks.doubts(store, view.id)]


def in_short(store: SqliteStore, view: TaskView, sight: Sight) -> list[str]:
    """What keeps it, for a line of a list."""
    if view.state == "held" and view.reason == "in_doubt":
        return [f"in doubt: {render.clean(', '.join(doubts(store, view)), 40)}"]
    if view.state == "held" and view.reason == "parent":
        return [f"comes after {_tasks([found for found in _open(store, view) if found.problem], 1)}"]
    if view.state == "waiting" and (sight.rest == "waits" or view.claims):
        return _kept(_open(store, view))
    return []


def _kept(waits: Sequence[MarkView]) -> list[str]:
    parents = [found for found in waits if isinstance(found.waits, int)]
    said = [f"waits for {_tasks(parents, 2)}"] if parents else []
    events = [found for found in waits if isinstance(found.waits, str)]
    said += [f"waits for {render.clean(found.waits, 40)}" for found in events]
    return said + ["sleeps" for found in waits if found.waits is None]


def _open(store: SqliteStore, view: TaskView) -> list[MarkView]:
    return [found for found in marks.known(store, view.id) if found.is_open]


def _tasks(parents: Sequence[MarkView], most: int) -> str:
    """#12, #13 and 5 more."""
    more = f" and {len(parents) - most:,} more" if len(parents) > most else ""
    return ", ".join(f"#{found.waits}" for found in parents[:most]) + more


def held_for(store: SqliteStore, view: TaskView) -> tuple[str, int | None]:
    """What a person has to decide of a held task, and since when it waits for that, if anything tells."""
    if view.reason == "in_doubt":
        found = marks.doubts(store, view.id)
        said = ", ".join(doubt.label for doubt in found)
        return f"in doubt: {said}", marks.last_end(store, view.id) or min((d.begun_ms for d in found), default=None)
    if view.reason == "parent":
        bad = [found for found in _open(store, view) if found.problem is not None]
        ends = [marks.last_end(store, found.waits) for found in bad if isinstance(found.waits, int)]
        return view.message or "parent", min((end for end in ends if end is not None), default=None)
    return view.message or view.reason or "-", None if view.reason == "paused" else marks.last_end(store, view.id)


# of one task


def fields(store: SqliteStore, view: TaskView, now: int) -> list[tuple[str, str]]:
    """Labelled lines for `nextdue show`."""
    known = marks.known(store, view.id)
    pairs = [("step", f"{found.label}: {_step(found, view, now)}") for found in known if found.is_step]
    pairs += [("cursor", found.result) for found in known if found.label == "@cursor" and found.result is not None]
    waits = [found for found in known if found.is_open]
    pairs += [("waits for", text) for text in _waited(waits, now)]
    after = marks.followers(store, view.id, FOLLOWERS)
    pairs += [("after it", f"{found.name} #{found.id}, {found.state}") for found in after[:SHOWN]]
    if len(after) > SHOWN:
        pairs.append(("after it", f"and {_many(len(after) - SHOWN)} more"))
    return [(label, render.clean(text, 10_000)) for label, text in pairs]


def _many(count: int) -> str:
    return f"over {count - 1:,}" if count >= FOLLOWERS - SHOWN else f"{count:,}"


def _step(found: MarkView, view: TaskView, now: int) -> str:
    if found.problem is not None:
        return f"done, but what it returned is lost: {found.problem}"
    if found.done is not None:
        result = "" if found.result is None else f"; it returned {found.result}"
        return f"done at {shown(found.done)}, {relative(found.done, now)}{result}"
    begun = f"begun at {shown(found.begun)}, {relative(found.begun, now)}"
    if view.state == "running":
        return begun
    return f"in doubt, {begun}; the next run will {_next(found)}"


def _next(found: MarkView) -> str:
    return {"hold": "not come before it is resolved", "skip": "skip it"}.get(found.how or "", "repeat it")


def _waited(waits: Sequence[MarkView], now: int) -> list[str]:
    said = [_wait(found, now) for found in waits[:SHOWN]]
    return said + ([f"and {len(waits) - SHOWN:,} more tasks"] if len(waits) > SHOWN else [])


def _wait(found: MarkView, now: int) -> str:
    if isinstance(found.waits, int):
        return f"{_parent(found)}, {found.state or found.problem or 'gone'}"
    until = "" if found.until is None else f"{shown(found.until)}, {relative(found.until, now)}"
    if found.waits is None:
        return f"{until} ({found.label.removeprefix('@sleep ')})"
    return f"event {found.waits}" + (f", at most until {until}" if until else "")


def _parent(found: MarkView) -> str:
    return f"{found.name} #{found.waits}" if found.name else f"task #{found.waits}"


def data(store: SqliteStore, view: TaskView) -> dict[str, Any]:
    """For a program."""
    known = marks.known(store, view.id)
    return {
        "steps": [_step_data(found, view) for found in known if found.is_step],
        "cursor": next((render.parsed(f.result) for f in known if f.label == "@cursor" and f.result is not None), None),
        "waits_for": [_wait_data(found) for found in known if found.is_open],
        "after_it": [found._asdict() for found in marks.followers(store, view.id, FOLLOWERS)],
    }


def _step_data(found: MarkView, view: TaskView) -> dict[str, Any]:
    return {
        "label": found.label,
        **{"begun": utc(found.begun), "begun_ms": found.begun, "done": utc(found.done), "done_ms": found.done},
        "in_doubt": found.is_in_doubt and view.state != "running",
        "if_in_doubt": found.how,
        "result": None if found.result is None else render.parsed(found.result),
        "problem": found.problem,
    }


def _wait_data(found: MarkView) -> dict[str, Any]:
    parent = found.waits if isinstance(found.waits, int) else None
    return {
        **{"task": parent, "name": found.name, "state": found.state, "problem": found.problem},
        "event": found.waits if isinstance(found.waits, str) else None,
        **{"since": utc(found.begun), "since_ms": found.begun, "until": utc(found.until), "until_ms": found.until},
    }


# why


def waits(store: SqliteStore, view: TaskView, now: int) -> list[str]:
    """Sentences about what a waiting task waits for."""
    known = marks.known(store, view.id)
    said = []
    for found in [found for found in known if found.is_open][:SHOWN]:
        since = f"since {shown(found.begun)}, {relative(found.begun, now)}"
        if isinstance(found.waits, int):
            said.append(f"It comes after {render.clean(_parent(found))}, which is {found.state or 'gone'}.")
        elif found.waits is None:
            said.append(f"It sleeps, {since}, until {shown(found.until)}: {render.clean(found.label[7:])!r}.")
        else:
            most = "" if found.until is None else f", at most until {shown(found.until)}"
            said.append(
                f"It waits for the event {render.clean(found.waits)!r}, {since}{most}; `nextdue send` sends it."
            )
    more = sum(found.is_open for found in known) - len(said)
    said += [f"And {more:,} more tasks."] if more > 0 else []
    return said + [
        f"Step {render.clean(found.label)!r} is in doubt: the next run will {_next(found)}."
        for found in known
        if found.is_in_doubt and found.problem is None
    ]


def why_held(store: SqliteStore, view: TaskView, path: str) -> list[str]:
    """Sentences about a task that is held for a step in doubt, or for a task that it comes after; with what to do."""
    message = render.clean(view.message or view.reason, 500).rstrip(".")
    it = f"{path} {view.id}"
    said = [f"It is held until a person decides: {message}."]
    if view.reason == "in_doubt":
        for label in doubts(store, view):
            form = f"nextdue resolve {it} {quote(render.clean(label))}"
            said.append(f"If {render.clean(label)!r} has happened: `{form} --happened`, with --result if it returns")
            said[-1] += f" something; if not: `{form} --not-happened`. Then it goes on."
    else:
        for found in [found for found in _open(store, view) if found.problem is not None][:SHOWN]:
            said.append(
                f"`nextdue retry {path} {found.waits}` starts that one anew, and this one follows when it is done."
            )
        said.append(f"`nextdue retry {it}` runs this one all the same.")
    return [*said, f"`nextdue cancel {it}` takes it away."]
