"""Marks: which effects of a task are out, what it waits for, and the events that are sent to it."""

import json
from typing import Any, NamedTuple

from nextdue.errors import BadArguments, NextdueError, NotInDoubt, UnknownTask
from nextdue.records import Claim, InDoubt, Mark, Put
from nextdue.sqlite import tx
from nextdue.sqlite.database import PAGES
from nextdue.sqlite.store import SqliteStore
from nextdue.sqlite.tx import Wire, lost
from nextdue.statements import load

PAGE = "marks.sql"
SQL = load("nextdue.sqlite", *PAGES, tx.PAGE, PAGE)


# steps: each a statement in autocommit


def read(store: SqliteStore, claim: Claim, label: str) -> Mark | None:
    """What is marked under this label, as committed. Raises LeaseLost: a later life has marks of its own."""
    store.database.bring(PAGE)
    found = store.database.read("mark", {"id": claim.id, "token": claim.token, "label": label})
    if found is None:
        raise lost(claim)
    return None if found[0] is None else Mark(*found[1:])


def begin(store: SqliteStore, claim: Claim, label: str, how: str) -> None:
    """The effect is about to go out. Raises LeaseLost or StoreError."""
    _fenced(store, "mark_begin", claim, {"label": label, "how": how})


def end(store: SqliteStore, claim: Claim, label: str, result: str | None, problem: str | None) -> None:
    """It is out. Raises LeaseLost or StoreError."""
    _fenced(store, "mark_end", claim, {"label": label, "result": result, "problem": problem})


def withdraw(store: SqliteStore, claim: Claim, label: str) -> None:
    """It did not go out. If the claim no longer stands, the doubt stays."""
    store.database.bring(PAGE)
    store.database.write("mark_withdraw", {"id": claim.id, "token": claim.token, "label": label})


def _fenced(store: SqliteStore, statement: str, claim: Claim, params: dict[str, Any]) -> None:
    store.database.bring(PAGE)
    proof = {**store.clock(), "id": claim.id, "token": claim.token}
    if store.database.write(statement, {**proof, **params}).rowcount == 0:
        raise lost(claim)


def identity(store: SqliteStore, task: int) -> tuple[int, str] | None:
    """When a task was put (UTC ms), and the id that its store had then; None if it is gone."""
    store.database.bring(PAGE)
    found = store.database.read("mark_identity", {"id": task})
    return None if found is None else (found[0], found[1])


def results(store: SqliteStore, task: int) -> list[str | None]:
    """What the tasks returned that this one comes after, as JSON."""
    store.database.bring(PAGE)
    return [text for (text,) in store.database.rows("mark_results", {"id": task})]


# waiting and sending, in a transaction


def wait(
    wire: Wire, claim: Claim, label: str, event: str | None, ms: int | None, now: int | None
) -> tuple[Mark, int | None]:
    """Wait for an event, at most so long, or for a time alone: the mark, and until when (UTC ms) if it isn't done."""
    params = {"id": claim.id, "label": label, "event": event, "within": ms, "now": now}
    wire.execute(SQL["mark_wait"], params)
    wire.execute(SQL["mark_over"], params)
    done, result, problem, until = wire.execute(SQL["mark_waited"], params)[0]
    return Mark(done, result, problem), until


def send(wire: Wire, event: str, data: str | None, keep_ms: int, now: int | None) -> bool:
    """An event has happened: whoever waits for it is due. False if it was sent before, and is kept."""
    params = {"event": event, "data": data, "keep": keep_ms, "now": now}
    wire.execute(SQL["event_purge"], params)
    wire.execute(SQL["event_send"], params)
    if not wire.execute(SQL["tx_did"], {})[0][0]:
        return False
    wire.execute(SQL["event_arrive"], params)
    return True


# coming after other tasks, in a transaction


def refuse_after(wire: Wire, put: Put) -> None:
    """Raise UnknownTask for a parent of which nothing is known, BadArguments for a task that would wait for itself."""
    params = {"after": json.dumps(put.after), "name": put.name, "key": put.key}
    for (id,) in wire.execute(SQL["after_unknown"], params):
        raise UnknownTask(
            f"task {put.name} can't come after task #{id}: neither its row nor its history is in this file, so that "
            "nobody knows how it ended; leave it out of after=, or keep the history for longer (keep_runs)"
        )
    if put.key is not None and (found := wire.execute(SQL["after_itself"], params)):
        raise BadArguments(
            f"task {put.name} #{found[0][0]}, key {put.key!r}, would wait for itself: what it is to come after comes "
            "after it; leave that out of after=, or give this one another key"
        )


def come_after(wire: Wire, ids: range, put: Put, now: int | None) -> None:
    """These tasks, just stored, rest until their parents are done."""
    params = {"first": ids[0], "last": ids[-1], "after": json.dumps(put.after), "how": put.if_dead, "now": now}
    for statement in ("after_mark", "after_rest"):
        wire.execute(SQL[statement], params)


# what a person decides


def doubts(store: SqliteStore, task: int) -> list[InDoubt]:
    """The steps of a task of which nobody knows whether they happened, or what they returned; the oldest first.

    None of one that runs: that it was begun is no doubt.
    """
    store.database.bring(PAGE)
    return [InDoubt(*found) for found in store.database.rows("doubts", {"id": task})]


def resolve(store: SqliteStore, task: int, label: str, *, happened: bool, result: str | None = None) -> bool:
    """Decide about a step in doubt. Whether its task, held for it, goes on now: the caller rings.

    It happened, and returned `result` (JSON); or it did not, so that it is made when the task runs. Raises UnknownTask,
    NotInDoubt or StoreError.
    """
    store.database.bring(PAGE)
    params = {**store.clock(), "id": task, "label": label, "result": result}
    with store.database.transaction() as connection:
        statement = "resolve_happened" if happened else "resolve_not_happened"
        if connection.execute(SQL[statement], params).rowcount == 0:
            raise _refused(store, task, label)
        return connection.execute(SQL["resolve_release"], params).rowcount == 1


def _refused(store: SqliteStore, task: int, label: str) -> NextdueError:
    found = store.database.read("resolve_refused", {"id": task})
    if found is None:
        return UnknownTask(f"there is no task {task} in {store.database.path}, or it is done: it has no steps any more")
    if found[0]:
        return NotInDoubt(f"task #{task} runs, so that nothing can be decided about its steps; wait until it rests")
    labels = ", ".join(repr(doubt.label) for doubt in doubts(store, task))
    return NotInDoubt(
        f"task #{task} is in no doubt about a step {label!r}; "
        + (f"in doubt are: {labels}" if labels else "it is in doubt about none")
    )


# looking at them


class MarkView(NamedTuple):
    """A mark as people see it. Instants in UTC ms."""

    label: str
    begun: int
    done: int | None
    result: str | None
    """JSON."""
    problem: str | None
    waits: int | str | None
    """The id of a task, or the name of an event."""
    until: int | None
    how: str | None
    name: str | None
    """Of the task waited for, and its state; None if its row is gone."""
    state: str | None

    @property
    def is_step(self) -> bool:
        """Whether it is of a step, and not of a wait."""
        return not self.label.startswith("@")

    @property
    def is_in_doubt(self) -> bool:
        """Whether nobody knows if this step happened, or what it returned."""
        return self.is_step and (self.done is None or self.problem is not None)

    @property
    def is_open(self) -> bool:
        """Whether it is still waited for."""
        return self.done is None and (self.waits is not None or self.until is not None)


class Follower(NamedTuple):
    """A task that comes after another one."""

    id: int
    name: str
    state: str


def known(store: SqliteStore, task: int) -> list[MarkView]:
    """All marks of a task, the oldest first."""
    store.database.bring(PAGE)
    return [MarkView(*found) for found in store.database.rows("marks", {"id": task})]


def followers(store: SqliteStore, task: int, limit: int) -> list[Follower]:
    """The tasks that wait for this one, at most `limit`."""
    store.database.bring(PAGE)
    return [Follower(*found) for found in store.database.rows("mark_followers", {"id": task, "limit": limit})]


def last_end(store: SqliteStore, task: int) -> int | None:
    """When the last run of a task ended, as far as the history goes back (UTC ms)."""
    store.database.bring(PAGE)
    found: int | None = store.database.rows("mark_ended", {"id": task})[0][0]
    return found
