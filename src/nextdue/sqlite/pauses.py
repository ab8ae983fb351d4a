"""Pausing: queues, names and single tasks that nobody starts until they are resumed. What runs already goes on."""

import random
from typing import Literal, NamedTuple

from nextdue.errors import UnknownTask
from nextdue.schedule import MARK
from nextdue.sqlite import schedules
from nextdue.sqlite.database import Database
from nextdue.sqlite.store import SqliteStore

PAGE = "pauses.sql"
Kind = Literal["queue", "name"]


class Pause(NamedTuple):
    """A queue or a task name at rest."""

    kind: Kind
    word: str
    """Which queue, or which name."""
    since: int
    """UTC ms."""


def pause(store: SqliteStore, kind: Kind, word: str) -> bool:
    """From this commit on no worker starts tasks of this queue or name; False if it was paused before."""
    return _change(store, kind, word, stop=True)


def resume(store: SqliteStore, kind: Kind, word: str) -> bool:
    """End such a pause; False if there was none. Whoever calls rings afterwards."""
    return _change(store, kind, word, stop=False)


def paused(database: Database) -> list[Pause]:
    """What is paused, queues first."""
    return [Pause(*row) for row in _prepared(database).rows("paused", {})]


def paused_tasks(database: Database) -> list[int]:
    """The ids of the tasks that were paused one by one."""
    return [id for (id,) in _prepared(database).rows("paused_tasks", {})]


def is_known(database: Database, kind: Kind, word: str) -> bool:
    """Whether the file has ever had a task of this name or in this queue."""
    return bool(_prepared(database).read("pause_known", {"kind": kind, "word": word})[0])


def pause_task(store: SqliteStore, id: int) -> bool:
    """Set a waiting task aside; False if it isn't waiting (a running one goes on), then nothing changes.

    True also if it was paused before. Of a schedule's row the schedule is paused, though an occurrence runs. Raises
    UnknownTask if it has no row.
    """
    found = _schedule(store, id)
    if found is not None:
        schedules.pause(store, *found)
        return True
    database = _prepared(store.database)
    database.write("follow", {"id": id}, durable=False)  # too much of it is harmless: a tick sets it aside again
    done = database.write("pause_task", {"id": id}).rowcount == 1
    return done or _is_paused(database, id)


def resume_task(store: SqliteStore, id: int) -> bool:
    """Let a paused task wait for its due again, now if that passed; False if it wasn't paused.

    A schedule goes on with its next occurrence. Raises UnknownTask if it has no row. Whoever calls rings afterwards.
    """
    found = _schedule(store, id)
    if found is not None:
        return schedules.resume(store, *found, random.random)
    database = _prepared(store.database)
    done = database.write("resume_task", {"id": id, **store.clock()}).rowcount == 1
    if not done:
        _is_paused(database, id)
    return done


def _schedule(store: SqliteStore, id: int) -> tuple[str, str] | None:
    """The name and key of the schedule whose row this is, if it is one's."""
    view = store.get(id)
    if view is None or view.key is None or not view.key.startswith(MARK):
        return None
    found = schedules.listed(store, view.name, view.key.removeprefix(MARK))
    return (found[0].name, found[0].key) if found else None


def _change(store: SqliteStore, kind: Kind, word: str, *, stop: bool) -> bool:
    database = _prepared(store.database)
    before = database.connection.total_changes
    database.write("pausing", {"kind": kind, "word": word, "stop": stop, **store.clock()})
    return database.connection.total_changes > before


def _is_paused(database: Database, id: int) -> bool:
    row = database.read("pause_state", {"id": id})
    if row is None:
        raise UnknownTask(f"there is no task {id} in {database.path} that could be paused or resumed")
    return bool(row[0])


def _prepared(database: Database) -> Database:
    """The database with the statements of this page and its temporary objects."""
    if database.bring(PAGE):
        database.script("pauses_setup")
    return database
