"""Sources beside their tasks: what is asked when."""

from typing import Any, Literal, NamedTuple

from signal_feeds.records import Source
from signal_feeds.store import Store, source_of

State = Literal["waiting", "running", "paused", "held", "dead", "gone"]
"""held: set aside by nextdue, not by a pause; dead: given up; gone: its task is over, a worker's start mends that."""


class Listed(NamedTuple):
    """A source and where its task stands. `due_ms` while it waits: when it is asked next; UTC ms."""

    source: Source
    state: State
    due_ms: int | None


def listed(store: Store) -> list[Listed]:
    """All sources, the next one first, those that aren't asked last."""
    return [_listed(dict(row)) for row in store.rows("listed", id=None)]


def listed_one(store: Store, id: str) -> Listed:
    """One source. Raises UnknownSource."""
    for row in store.rows("listed", id=id):
        return _listed(dict(row))
    raise store.unknown(id)


def _listed(row: dict[str, Any]) -> Listed:
    state, reason, due = row.pop("state"), row.pop("reason"), row.pop("due_ms")
    if state == "held" and reason == "paused":
        state = "paused"
    elif state in (None, "done", "cancelled"):
        state = "gone"
    return Listed(source_of(row), state, due)
