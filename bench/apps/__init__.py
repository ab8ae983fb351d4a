"""The same small application three times: with nextdue, with huey, with nothing but sqlite3.

Each module is a `Side`: imported afresh in every process, the database named by the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast


class Side(Protocol):
    """What a role needs of a queue; put_* return when the task is on disk."""

    def put(self, number: int) -> None:
        """One no-op task, due now."""

    def put_many(self, count: int) -> Callable[[], object]:
        """A call that puts `count` no-op tasks at once, its arguments built beforehand."""

    def put_stamp(self, number: int) -> None:
        """A task whose first line takes the clocks."""

    def put_stamp_at(self, number: int, due_ms: int) -> None:
        """The same, due at a UTC instant."""

    def put_work(self, number: int, milliseconds: int) -> None:
        """A task that sleeps, then has an effect: its record."""

    def put_spins(self, count: int, milliseconds: int) -> None:
        """Tasks that compute in Python for so much CPU time each."""


def load(name: str) -> Side:
    """Import the side `name` into this process."""
    import importlib

    return cast(Side, importlib.import_module(f"bench.apps.with_{name}"))
