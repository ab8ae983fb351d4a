"""What is overdue after a long downtime or a restore starts spread over a window, the most overdue first."""

from typing import Literal

from nextdue.sqlite.store import SqliteStore

PAGE = "herd.sql"
PIECE = 5_000
"""Rows that are moved by one statement: others wait for the write lock meanwhile."""
LATE_MS = 60_000
"""A worker that starts spreads what is overdue by more than this; the rest is no herd but its daily work."""
LONGEST_MS = 30 * 86_400_000
"""The longest window over which a herd is spread."""


def spread(
    store: SqliteStore,
    lanes: Literal["herd_open", "herd_restored"],
    window_ms: int,
    late_ms: int = 0,
    piece: int = PIECE,
) -> int:
    """Spread what is overdue by so many ms in these lanes over a window from now on; answers how many tasks that is.

    A slot of a schedule stays what it is; only the due moves.
    """
    database = store.database
    database.bring(PAGE)
    now = store.now_ms()
    params = {"lanes": database.read(lanes, {})[0], "now": now, "until": now - late_ms, "window": window_ms, "done": 0}
    size = int(database.read("herd_size", params)[0])
    done = 0
    while moved := database.write("herd_piece", params | {"done": done, "size": max(size, 1), "piece": piece}).rowcount:
        done += moved
    return done
