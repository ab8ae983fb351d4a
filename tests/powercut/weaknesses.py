"""Ways to break what makes acknowledged things durable, one at a time; shop.py is made to do so.

The test that finds nothing in nextdue must find a loss in each of them.
"""

import os
import sqlite3
from collections.abc import Callable
from typing import Any

from nextdue import effects
from nextdue.sqlite.database import Database


def _synchronous(level: str) -> None:
    """All connections of the program write at this level, also where FULL is asked for."""
    connect = sqlite3.connect

    class Weak(sqlite3.Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("synchronous=FULL", f"synchronous={level}"), *args)

    def weakly(*args: Any, **options: Any) -> sqlite3.Connection:
        made = connect(*args, **options, factory=Weak)
        made.execute(f"PRAGMA synchronous={level}")
        return made

    sqlite3.connect = weakly  # type: ignore[assignment]


def _careless(statement: str) -> None:
    """This statement is written like a claim, for which nobody waits."""
    write = Database.write

    def careless(self: Database, name: str, params: Any, *, durable: bool = True) -> sqlite3.Cursor:
        return write(self, name, params, durable=durable and name != statement)

    Database.write = careless  # type: ignore[method-assign]


def unsynced_files() -> None:
    """Files that are replaced, and backups, are renamed before they are on disk."""
    os.fsync = lambda fd: None


def unsynced_names() -> None:
    """They are on disk, their new names perhaps not."""
    effects.sync_directory = lambda folder: None


KNOWN: dict[str, Callable[[], None]] = {
    "NORMAL": lambda: _synchronous("NORMAL"),
    "OFF": lambda: _synchronous("OFF"),
    "careless puts": lambda: _careless("put_many"),
    "careless begins": lambda: _careless("mark_begin"),
    "careless marks": lambda: _careless("mark_end"),
    "careless ticks": lambda: _careless("tick"),
    "unsynced files": unsynced_files,
    "unsynced names": unsynced_names,
}
