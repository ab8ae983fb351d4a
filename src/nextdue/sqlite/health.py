"""Is all that is due being run? What monitoring asks, answered from the indexes in milliseconds."""

from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

from nextdue.sqlite import inspect, pauses
from nextdue.sqlite.inspect import Life
from nextdue.sqlite.pauses import Pause
from nextdue.sqlite.restore import held_since
from nextdue.sqlite.store import SqliteStore

PAGE = "health.sql"
MOST = 10_001
"""Nothing is counted further: over 10,000 says enough."""


class Late(NamedTuple):
    """The overdue tasks of one name and queue. Instants in UTC ms."""

    name: str
    queue: str
    overdue: int
    since: int
    """The due of the oldest."""
    why: Literal["claimable", "paused", "unknown"]
    """claimable: a worker should have taken them; else their queue, name or file is paused, or nobody declares them."""
    alone: bool
    """They killed workers and are tried alone."""
    served: bool | None
    """Whether a worker that lives serves them; None: none lives, or one hasn't said."""


class Health(NamedTuple):
    """What was found. Counts of at most 10,001. Instants in UTC ms."""

    now: int
    lives: list[Life]
    ever: bool
    """Whether a worker ever lived on this file."""
    last_run: int | None
    """When a worker last ended a run, if the history still tells."""
    late: list[Late]
    """The oldest first."""
    blocked: list[tuple[str, int, int]]
    """By name: since when, and how many, wait for their limit."""
    waits: list[tuple[str, int, int]]
    """By name: since when, and how many, wait for other tasks or for an event."""
    pauses: list[Pause]
    dead: dict[str, int]
    held: dict[str, int]
    paused: dict[str, int]
    """Single tasks that are paused."""
    restored: int | None
    """Since when it is a restored backup that isn't released yet."""

    def alive(self) -> list[Life]:
        """The workers that live for certain."""
        return [life for life in self.lives if life.state == "alive"]

    def too_late(self, max_late_ms: int) -> list[Late]:
        """What a worker should have taken longer ago than this."""
        return [late for late in self.late if late.why == "claimable" and self.now - late.since > max_late_ms]


def look(store: SqliteStore, known: Collection[str] | None) -> Health:
    """Look. `known` are the names that the application declares; None if it isn't given, then all may be known."""
    now, last_run, ever = _rows(store, "health_facts", **store.clock())[0]
    paused = pauses.paused(store.database)
    stopped = {(kind, word) for kind, word, _ in paused}
    held, restored = _rows(store, "health_held", most=MOST), held_since(store.database)
    lives = inspect.lives(store.database)
    return Health(
        now=now,
        lives=lives,
        ever=bool(ever),
        last_run=last_run,
        late=[
            Late(
                name,
                queue,
                count,
                first,
                "paused" if restored is not None else _why(name, queue, stopped, known),
                bool(alone),
                served(lives, name, queue),
            )
            for name, queue, alone, first, count in _rows(store, "health_late", now=now, most=MOST)
        ],
        blocked=[(name, since, count) for name, since, count in _rows(store, "health_blocked", most=MOST)],
        waits=[(name, since, count) for name, since, count in _rows(store, "health_waits", most=MOST)],
        pauses=paused,
        dead={name: count for name, count in _rows(store, "health_dead", most=MOST) if count},
        held={name: count for name, single, count in held if not single},
        paused={name: count for name, single, count in held if single},
        restored=restored,
    )


def served(lives: Sequence[Life], name: str, queue: str) -> bool | None:
    """Whether a worker that lives serves this name and queue; None: none lives, or one hasn't said."""
    said = {life.serves(name, queue) for life in lives if life.state == "alive"}
    return True if True in said else None if None in said or not said else False


def _why(
    name: str, queue: str, stopped: Collection[tuple[str, str]], known: Collection[str] | None
) -> Literal["claimable", "paused", "unknown"]:
    if ("queue", queue) in stopped or ("name", name) in stopped:
        return "paused"
    return "claimable" if known is None or name in known else "unknown"


def _rows(store: SqliteStore, name: str, **params: Any) -> list[Any]:
    store.database.bring(PAGE)
    return store.database.rows(name, params)
