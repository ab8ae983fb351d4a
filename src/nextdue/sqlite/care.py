"""What people do to stored tasks, one or many at a time: retry, run now, cancel, purge; and finding them for it.

A bulk first reads which tasks match, without a lock, and then writes in batches. The write asks again what each row
is, so a task that changed in between is left alone.
"""

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from nextdue.sqlite.alarm import ring
from nextdue.sqlite.database import Database
from nextdue.sqlite.store import SqliteStore

PAGE = "care.sql"
BATCH = 1_000
"""The most rows that one transaction changes."""
READ = 10_000
"""The most ids that one look takes."""

Verb = Literal["retry", "run_now", "cancel", "purge"]


class Chosen(NamedTuple):
    """Which tasks: all that is given must hold. Instants in UTC ms."""

    state: str | None = None
    name: str | None = None
    queue: str | None = None
    key: str | None = None
    reason: str | None = None
    before: int | None = None
    """Put, and their last run ended, at this instant or earlier."""
    since: int | None = None
    """Put, or their last run ended, at this instant or later."""

    def params(self) -> dict[str, Any]:
        """As the parameters of a statement."""
        return self._asdict()


EVERYTHING = Chosen()


class Found(NamedTuple):
    """A task that matches."""

    id: int
    name: str
    state: str
    key: str | None


class Matched:
    """What a bulk found before it changes anything: ids in 8 bytes each, and how many of which name and state."""

    def __init__(self) -> None:
        self.ids = array("q")
        self.counts: Counter[tuple[str, str]] = Counter()
        self.lines = array("q")
        """Of the run history, for a purge."""


class Sight(NamedTuple):
    """What only people want to know of a row. Instants in UTC ms."""

    there: int = 0
    """0: it has no row any more, so that all else is unknown."""
    rest: str | None = None
    wished: int | None = None
    progress: str | None = None
    stop: int | None = None
    expires: int | None = None
    grp: str | None = None
    queue_paused: int | None = None
    """Since when its queue is paused."""
    name_paused: int | None = None
    rated: int = 0
    """1: its rate allows no earlier start than its due."""


def match(store: SqliteStore, verb: Verb, chosen: Chosen) -> Matched:
    """The tasks that this verb would change. Holds no lock, and little memory."""
    found = Matched()
    for task in _pages(store, chosen, verb):
        found.ids.append(task.id)
        found.counts[task.name, task.state] += 1
    if verb == "purge" and chosen.before is not None and chosen.queue is None:
        after = 0
        while page := _rows(store.database, "care_lines", chosen, after=after, limit=READ, **store.clock()):
            found.lines.extend(id for (id,) in page)
            after = page[-1][0]
    return found


def _pages(store: SqliteStore, chosen: Chosen, verb: Verb) -> Iterator[Found]:
    name = "care_page"
    if chosen.key is not None:
        name = "care_page_key"
    elif chosen.state in ("dead", "held"):
        name = "care_page_rest"
    after, after_name = 0, ""
    more = {"verb": verb, "limit": READ, **store.clock()}
    while page := _rows(store.database, name, chosen, after=after, after_name=after_name, **more):
        yield from map(Found._make, page)
        after, after_name = page[-1][:2]


def apply(store: SqliteStore, verb: Verb, ids: Sequence[int], chosen: Chosen = EVERYTHING) -> int:
    """Do it to those of these ids that may be changed and still match; answers how many. Rings the workers.

    The work is cut into transactions of at most 1,000 rows.
    """
    done = 0
    for start in range(0, len(ids), BATCH):
        done += _batch(store, verb, ids[start : start + BATCH], chosen)
    if verb != "purge" and ids:
        ring(store.database.path)  # a row at rest is due, whatever else is due before it
    return done


def purge_lines(store: SqliteStore, lines: Sequence[int], chosen: Chosen) -> int:
    """Delete these lines of the run history, if they still match; answers how many went."""
    gone = 0
    for start in range(0, len(lines), BATCH):
        gone += _write(store, "care_purge_lines", lines[start : start + BATCH], chosen)
    return gone


def guarding(store: SqliteStore, ids: Sequence[int]) -> int:
    """How many of these are done and still guard their keys against being run again."""
    params = {"ids": json.dumps(list(ids)), **store.clock()}
    return int(_rows(store.database, "care_guarding", EVERYTHING, **params)[0][0])


def _batch(store: SqliteStore, verb: Verb, ids: Sequence[int], chosen: Chosen) -> int:
    if verb != "cancel":
        return _write(store, f"care_{verb}", ids, chosen)
    _prepare(store.database)
    store.database.run("care_cared_clear", {})
    _write(store, "care_cancel", ids, chosen, keep_rows=store.keep_rows)
    cancelled, asked = store.database.read("care_cared", {})
    return int(cancelled + asked)


def _write(store: SqliteStore, name: str, ids: Sequence[int], chosen: Chosen, **more: Any) -> int:
    _prepare(store.database)
    params = {**chosen.params(), "ids": json.dumps(list(ids)), **more, **store.clock()}
    return store.database.write(name, params).rowcount


def listed(
    store: SqliteStore,
    chosen: Chosen,
    *,
    limit: int,
    sort: Literal["due", "age"] = "due",
    history: bool = False,
) -> list[Found]:
    """The tasks that match, at most `limit`; with `history` finished ones too whose row is gone.

    By due: the nearest first, then those at rest, the dead and the held before the finished. By age: the longest
    untouched first; that looks at every task.
    """
    found: dict[int, Found] = {}
    statements = list(_lists(chosen, sort))
    if history and chosen.state in ("done", "cancelled") and chosen.queue is None:
        statements.append(("care_finished", chosen))  # which doesn't know of queues
    for name, only in statements:
        if len(found) < limit:
            every = {"limit": limit, "verb": None, "after": 0, "after_name": "", **store.clock()}
            rows = _rows(store.database, name, only, **every)
            found.update((row[0], Found(*row)) for row in rows if row[0] not in found)
    return list(found.values())[:limit]


def _lists(chosen: Chosen, sort: str) -> Iterator[tuple[str, Chosen]]:
    """The statements to be asked one after the other, each while there is room for more."""
    state = chosen.state
    if sort == "age":
        yield ("care_aged_rest" if state in ("dead", "held") else "care_aged"), chosen
    elif chosen.key is not None:
        yield "care_page_key", chosen
    else:
        if state in (None, "waiting"):
            yield "care_due", chosen
            yield "care_blocked", chosen
            yield "care_waits", chosen
        if state == "running":
            yield "care_running", chosen
        for rest in ("dead", "held"):
            if state in (None, rest):
                yield "care_page_rest", chosen._replace(state=rest)
        if state in (None, "done", "cancelled"):
            yield "care_tombstones", chosen


def sight(store: SqliteStore, id: int) -> Sight:
    """What only people want to know of this row; nothing of one that is gone."""
    rows = _rows(store.database, "care_sight", EVERYTHING, id=id, **store.clock())
    return Sight(*rows[0]) if rows else Sight()


def _rows(database: Database, name: str, chosen: Chosen, **more: Any) -> list[Any]:
    _prepare(database)
    return database.rows(name, {**chosen.params(), **more})


def _prepare(database: Database) -> None:
    """Bring the page, and what a cancellation is counted by, to this connection."""
    if database.bring(PAGE):
        database.script("care_cancel_setup")
