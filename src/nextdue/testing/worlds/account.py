"""The account of each row: SQLite's own triggers note every change of it, inside the transaction."""

import sqlite3
import traceback
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A row of the table of tasks."""

    due: int | None
    rest: str | None
    token: int | None
    attempts: int
    crashes: int
    claims: int
    lane: int
    gone_at: int | None
    key: str | None
    args: str
    wished: int | None
    again_due: int | None
    again_args: str | None
    latest: int | None
    expires: int | None
    grp: str | None
    stop: int | None
    again_grp: str | None


FIELDS = Row._fields


class Change(NamedTuple):
    """What became of a row; each field of a side that isn't there is None."""

    seq: int
    id: int
    name: str
    old: Row
    new: Row

    @property
    def begins(self) -> bool:
        """The row is new."""
        return self.old.lane is None

    @property
    def ends(self) -> bool:
        """The row was deleted."""
        return self.new.lane is None

    def __str__(self) -> str:
        if self.begins or self.ends:
            return f"task {self.id} ({self.name}) {'was put' if self.begins else 'was deleted'}"
        fields = [f"{f} {a!r} -> {b!r}" for f, a, b in zip(FIELDS, self.old, self.new, strict=True) if a != b]
        return f"task {self.id} ({self.name}): {', '.join(fields)}"


def watch(path: Path) -> sqlite3.Connection:
    """A connection of the judge's own, after telling the file to keep account of every row."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")  # no power is cut here
    columns = ", ".join(f"old_{f}, new_{f}" for f in FIELDS)
    connection.execute(f"CREATE TABLE audit(seq INTEGER PRIMARY KEY, id, name, {columns})")
    for verb, old, new, row in (("INSERT", 0, 1, "NEW"), ("UPDATE", 1, 1, "NEW"), ("DELETE", 1, 0, "OLD")):
        values = ", ".join(f"{f'OLD.{f}' if old else 'NULL'}, {f'NEW.{f}' if new else 'NULL'}" for f in FIELDS)
        connection.execute(
            f"CREATE TRIGGER audit_{verb} AFTER {verb} ON nextdue_task BEGIN "
            f"INSERT INTO audit(id, name, {columns}) VALUES ({row}.id, {row}.name, {values}); END"
        )
    return connection


def words(broken: AssertionError) -> str:
    """Which law is broken; where it has no words of its own, what was expected."""
    said = str(broken).splitlines() or [f"not as it must be: {traceback.extract_tb(broken.__traceback__)[-1].line}"]
    return said[0]  # under pytest there may be more of them
