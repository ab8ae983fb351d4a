"""What the pages show of sources and their entries, beside what the editor asks for."""

from typing import NamedTuple

from signal_feeds.reasons import Reason
from signal_feeds.records import Kind, Origin, Orphaned
from signal_feeds.store import SQL, Tx, one

LAST = 2**63 - 1
"""After every number that SQLite can give."""


class Shown(NamedTuple):
    """A source with its place in the schedule. Instants are UTC ms."""

    number: int
    id: str
    url: str
    kind: Kind
    origin: Origin
    orphaned: Orphaned
    title: str | None
    site: str | None
    failures: int
    faults: int
    last_error: Reason | None
    last_ok: int | None
    last_attempt: int | None
    same_as: str | None
    state: str | None
    """Of its task: running, waiting, held (it is paused), dead; None: it has none."""
    due: int | None
    """None: it isn't due by a clock; paused, or waiting for others of its host."""
    fresh: int | None
    """New entries of its last success."""


class Headline(NamedTuple):
    """An entry of a source, as it is now."""

    id: int
    title: str
    published: int
    """UTC ms; when it was seen first if its feed doesn't say."""
    verdict: str | None


class Attempt(NamedTuple):
    """A line of a source's history."""

    begun: int
    ended: int
    status: int | None
    reason: Reason | None
    fresh: int
    changed: int
    cut: int
    asked_by: str | None


class Overdue(NamedTuple):
    """A source that is due and isn't being asked, since `due`, UTC ms."""

    source: str
    due: int


def sources(tx: Tx, *, after: str = "", failing: bool = False, limit: int) -> list[Shown]:
    """Sources in the order of their names, those after `after`."""
    values = {"after": after, "failing": failing, "limit": limit}
    return [Shown(*row) for row in tx.execute(SQL["page_of_sources"], values).fetchall()]


def source(tx: Tx, number: int) -> Shown | None:
    """One source, None if there is none of this number."""
    row = one(tx, "page_of_source", number=number)
    return None if row is None else Shown(*row)


def tally(tx: Tx) -> tuple[int, int]:
    """How many sources there are, and how many of them failed the last time."""
    every, failing = one(tx, "tally")
    return every, failing


def entries_of(tx: Tx, number: int, *, before: int = LAST, limit: int) -> list[Headline]:
    """Entries of a source, those that came last first, with numbers under `before`."""
    values = {"number": number, "before": before, "limit": limit}
    return [Headline(*row) for row in tx.execute(SQL["entries_of_source"], values).fetchall()]


def attempts(tx: Tx, number: int, *, limit: int) -> list[Attempt]:
    """The history of a source, the last attempt first."""
    rows = tx.execute(SQL["attempts"], {"number": number, "limit": limit}).fetchall()
    return [Attempt(*row[2:]) for row in rows]


def offers(tx: Tx, number: int) -> list[tuple[str, str, str]]:
    """URL, title and type of each feed that a page offered, where a source turned out to be a page."""
    return [tuple(row) for row in tx.execute(SQL["offers"], {"number": number}).fetchall()]


def most_overdue(tx: Tx, now_ms: int) -> Overdue | None:
    """The source that waits longest for its turn to be taken."""
    row = one(tx, "most_overdue", now=now_ms)
    return None if row is None else Overdue(*row)


def last_attempt(tx: Tx) -> int | None:
    """When anything was asked last, UTC ms."""
    (ended,) = one(tx, "last_attempt")
    return None if ended is None else int(ended)
