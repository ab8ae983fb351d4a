"""What was acknowledged, and how to see that it is so: one function for each kind of fact.

A kind's function is given the opened file and the words that the program said; it answers what is wrong, or None.
A new kind is one more function under `@fact`.
"""

import functools
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from nextdue import Context, Nextdue
from nextdue.records import TaskView
from nextdue.sqlite import inspect, restore, schedules
from nextdue.sqlite.backup import Reader
from nextdue.sqlite.store import SqliteStore

Words = tuple[Any, ...]


class Opened:
    """The files as a power cut left them, opened by nextdue."""

    def __init__(self, folder: Path, store: SqliteStore) -> None:
        self.folder, self.store = folder, store

    @functools.cache  # noqa: B019
    def task(self, id: int) -> TaskView | None:
        """A task as users see it."""
        return self.store.get(id)

    def rows(self, sql: str, *params: object) -> list[Any]:
        """The rows of any query."""
        return self.store.database.connection.execute(sql, params).fetchall()

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return bool(self.rows("SELECT 1 FROM sqlite_schema WHERE name = ?", table))


Kind = Callable[..., str | None]
KINDS: dict[str, Kind] = {}
NOT_PROMISED = {"began"}
"""Facts that nextdue doesn't promise to keep: that an attempt had begun. They are counted, and no failure."""

FILES_OF_THEIR_OWN = {"replaced", "saved"}
"""Facts that may hold where the database can't even be opened."""


def fact(kind: Kind) -> Kind:
    """A kind of fact, named like its function."""
    KINDS[kind.__name__] = kind
    return kind


@fact
def put(at: Opened, id: int, name: str, args: list[Any]) -> str | None:
    """A task was put: it waits, runs, or has ended."""
    view = at.task(id)
    if view is None:
        return "the task is gone"
    if view.name != name or (args and view.args is not None and json.loads(view.args) != list(args)):
        return f"it is another task: {view}"
    return None


@fact
def keyed(at: Opened, id: int, name: str, key: str) -> str | None:
    """A task holds a key."""
    view = at.store.by_key(name, key)
    return None if view is not None and view.id == id else f"the key is held by {view}"


@fact
def ended(at: Opened, id: int, state: str) -> str | None:
    """A task has ended in this state, for ever."""
    view = at.task(id)
    return None if view is not None and view.state == state else f"it is {view and view.state}, not {state}"


@fact
def expired(at: Opened, id: int) -> str | None:
    """A task was seen to have expired: it is dead, or the next worker finds so again; it is never run."""
    view = at.task(id)
    due = at.rows("SELECT 1 FROM nextdue_task WHERE id = ? AND expires < ?", id, at.store.now_ms())
    return None if view is not None and (view.state == "dead" or due) else f"it is {view}"


@fact
def theirs(at: Opened, number: int) -> str | None:
    """The user's own program has written a row."""
    return None if at.rows("SELECT 1 FROM theirs WHERE number = ?", number) else "the user's row is gone"


@fact
def failed(at: Opened, id: int, attempts: int) -> str | None:
    """So many attempts of a task have failed."""
    view = at.task(id)
    return None if view is not None and view.attempts >= attempts else "its failure is forgotten"


@fact
def began(at: Opened, id: int, claims: int) -> str | None:
    """An attempt of a task had begun."""
    view = at.task(id)
    return None if view is not None and (view.claims >= claims or view.state == "done") else "its claim is forgotten"


@fact
def result(at: Opened, id: int, value: int) -> str | None:
    """A task has left this result."""
    found = [run.result for run in at.store.runs(task=id) if run.outcome == "done"]
    return None if found == [json.dumps(value)] else f"its result is {found}"


@fact
def ordered(at: Opened, id: int) -> str | None:
    """A task has written a row of the user's and is done, in one commit."""
    return ended(at, id, "done") or _row(at, id)


@fact
def together(at: Opened, id: int) -> str | None:
    """A row of the user's and a task were put in one commit."""
    return put(at, id, "bill", []) or _row(at, id)


def _row(at: Opened, id: int) -> str | None:
    return None if at.rows("SELECT 1 FROM orders WHERE task = ?", id) else "the user's row is gone"


@fact
def doubted(at: Opened, id: int, label: str) -> str | None:
    """The effect of a step may be out, so that a step that isn't to be repeated never is."""
    return None if _mark(at, id, label) or not ended(at, id, "done") else "nobody knows of the step"


@fact
def marked(at: Opened, id: int, label: str, value: int) -> str | None:
    """A step of a task is done, with this result."""
    found = _mark(at, id, label)
    return (
        None
        if (found and found[0][0] and found[0][1] == json.dumps(value)) or not ended(at, id, "done")
        else f"{found}"
    )


def _mark(at: Opened, id: int, label: str) -> list[Any]:
    return at.rows("SELECT done, result FROM nextdue_mark WHERE task = ? AND label = ?", id, label)


@fact
def sent(at: Opened, event: str) -> str | None:
    """An event was sent."""
    return None if at.rows("SELECT 1 FROM nextdue_event WHERE name = ?", event) else "the event is forgotten"


@fact
def replaced(at: Opened, name: str, generation: int) -> str | None:
    """A file was replaced by one of this generation."""
    found = generation_of(at.folder / name)
    return None if found is not None and found >= generation else f"the file is of generation {found}"


@fact
def paused(at: Opened, queue: str) -> str | None:
    """A queue is paused."""
    found = at.rows("SELECT 1 FROM nextdue_pause WHERE kind = 'queue' AND word = ?", queue)
    return None if found else "the pause is forgotten"


def _schedules(at: Opened) -> dict[tuple[str, str], schedules.ScheduleView]:
    return {(view.name, view.key): view for view in schedules.listed(at.store)}


@fact
def scheduled(at: Opened, name: str, key: str) -> str | None:
    """There is such a schedule."""
    return None if (name, key) in _schedules(at) else "the schedule is gone"


@fact
def unscheduled(at: Opened, name: str, key: str) -> str | None:
    """There is no such schedule any more."""
    return "the schedule is back" if (name, key) in _schedules(at) else None


@fact
def fired(at: Opened, name: str, key: str, times: int) -> str | None:
    """So many occurrences of a schedule have ended."""
    view = _schedules(at).get((name, key))
    return None if view is not None and view.fired >= times else "an occurrence that has ended is to come"


@fact
def saved(at: Opened, name: str, id: int) -> str | None:
    """A backup is there, sound, and holds this task."""
    return _whole(at.folder / name, id)


@fact
def kept(at: Opened, name: str, id: int) -> str | None:
    """A file, which may be the opened one itself, is sound and holds this task."""
    if name == at.store.database.path.name:
        return None if at.task(id) is not None else "the task is gone"
    return _whole(at.folder / name, id)


@fact
def held(at: Opened) -> str | None:
    """The file is a restored one, and nothing of it is started yet."""
    return None if restore.held_since(at.store.database) is not None else "it is the old file again"


def _whole(path: Path, id: int) -> str | None:
    try:
        reader = Reader(path)
        with closing(reader.connection):
            found = inspect.check(reader)
            known = reader.connection.execute("SELECT 1 FROM nextdue_task WHERE id >= ?", (id,)).fetchone()
            known = known or reader.connection.execute("SELECT 1 FROM nextdue_run WHERE task >= ?", (id,)).fetchone()
    except sqlite3.Error as exc:
        return f"{path.name}: {exc}"
    if found:
        return f"{path.name}: {found[0]}"
    return None if known else f"{path.name} lacks task {id}"


def generation_of(path: Path) -> int | None:
    """The generation of a replaced file; None if there is none, or if it isn't whole."""
    try:
        text = path.read_text("ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    body, digest = text[:-64], text[-64:]
    whole = hashlib.sha256(body.encode()).hexdigest() == digest
    return int(body.split()[1]) if whole else None


def always(at: Opened) -> Iterable[str]:
    """What holds at any instant, whatever was acknowledged."""
    yield from inspect.check(at.store.database)
    if (at.folder / "export.txt").exists() and generation_of(at.folder / "export.txt") is None:
        yield "the replaced file is neither the old nor the new one"
    if at.has("orders"):
        yield from _halves(at)


def _halves(at: Opened) -> Iterable[str]:
    """The user's rows without what was committed with them, and the other way round."""
    rows = {task: how for how, task in at.rows("SELECT how, task FROM orders")}
    known = dict(at.rows("SELECT id, name FROM nextdue_task UNION SELECT task, name FROM nextdue_run"))
    for task, how in rows.items():
        if known.get(task) != how:
            yield f"a row of the user's is there without its {how} {task}"
    for task, name in known.items():
        if name == "bill" and task not in rows:
            yield f"bill {task} is there without its row"
        elif name == "order":
            view = at.task(task)
            if (view is not None and view.state == "done") != (task in rows):
                yield f"order {task} is {view and view.state}, and its row is {'' if task in rows else 'not '}there"


def facts(said: Iterable[str]) -> dict[tuple[str, Words], None]:
    """What holds after all this was said. `not` takes back a fact that is about to be changed."""
    found: dict[tuple[str, Words], None] = {}
    for text in said:
        kind, *words = json.loads(text)
        if kind == "not":
            del found[words[0], _frozen(words[1:])]
        else:
            found[kind, _frozen(words)] = None
    return found


def _frozen(words: list[Any]) -> Words:
    return tuple(tuple(word) if isinstance(word, list) else word for word in words)


def goes_on(at: Opened, known: Iterable[tuple[str, Words]]) -> Iterable[tuple[str, str]]:
    """A worker brings what is due to its end, and touches nothing that has ended."""
    nd, ran, begun = Nextdue(at.store.database.path), set[int](), at.store.now_ms()

    def body(ctx: Context, number: int = 0) -> None:
        ran.add(ctx.id)

    for (name,) in at.rows("SELECT DISTINCT name FROM nextdue_lane"):
        nd.task(name=name)(body)
    nd.run(once=True)
    nd.close()
    yield from (("broken", text) for text in inspect.check(at.store.database))
    for kind, words in known:
        if kind in ("ended", "ordered", "expired") and words[0] in ran:
            yield kind, f"{words}: it ran again"
    for id, name in at.rows("SELECT id, name FROM nextdue_tasks WHERE state = 'waiting' AND due_ms <= ?", begun):
        yield "broken", f"{name} {id} was due and wasn't run"
