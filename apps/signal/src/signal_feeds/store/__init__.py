"""Signal's rows: what was read of them, and how the outcome of an attempt is written."""

import difflib
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import msgspec

from signal_feeds.errors import NotAFolder, UnknownSource
from signal_feeds.records import Hints, Source

VERSION = 1


def _statements(name: str) -> dict[str, str]:
    """A page of statements, by the names that its comments give."""
    page = files(__name__).joinpath(name).read_text("utf-8")
    parts = (part.partition("\n") for part in page.split("-- :name ")[1:])
    return {name.strip(): body.split("\n-- ")[0].strip() for name, _, body in parts}


SQL = _statements("statements.sql") | _statements("pages.sql")


class Tx(Protocol):
    """A transaction, whoever's it is: nextdue's, or a connection in a test."""

    def execute(self, sql: str, params: Mapping[str, Any] = ..., /) -> sqlite3.Cursor:
        """Run one statement."""
        ...

    def executemany(self, sql: str, params: Sequence[Mapping[str, Any]], /) -> sqlite3.Cursor:
        """Run one statement for each of these."""
        ...


def one(tx: Tx, name: str, **params: Any) -> Any:
    """The first row of a named statement, or None."""
    return tx.execute(SQL[name], params).fetchone()


def install(tx: Tx) -> None:
    """Make Signal's tables where there are none. Raises NotAFolder for those of a newer version."""
    if one(tx, "installed") is None:
        text = files(__name__).joinpath("schema.sql").read_text("utf-8")
        for statement in _split(text):
            tx.execute(statement, {})
    (version,) = one(tx, "version")
    if version > VERSION:
        raise NotAFolder("folder.newer", version=version, known=VERSION)


def _split(script: str) -> list[str]:
    """The statements of a script: executescript() would commit the transaction that it is to be part of."""
    statements, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            statements.append(rest)
            rest = ""
    return statements


class Store:
    """What is read outside of transactions: on read-only connections, one for each thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._here = threading.local()

    def rows(self, name: str, **params: Any) -> Sequence[sqlite3.Row]:
        """All rows of a named statement. Raises NotAFolder where there is no database."""
        return self.connection().execute(SQL[name], params).fetchall()

    def connection(self) -> sqlite3.Connection:
        """This thread's read-only connection."""
        connection: sqlite3.Connection | None = getattr(self._here, "connection", None)
        if connection is None:
            try:
                connection = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, isolation_level=None)
            except sqlite3.OperationalError:
                if self.path.exists():
                    raise  # it can't be read
                raise NotAFolder("folder.no_database", path=self.path) from None
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA query_only = ON")
            self._here.connection = connection
        return connection

    def close(self) -> None:
        """Let go of this thread's connection."""
        connection = getattr(self._here, "connection", None)
        if connection is not None:
            connection.close()
            self._here.connection = None

    def source(self, id: str) -> Source:
        """The source of this name. Raises UnknownSource."""
        found = self.sources_by("source", id=id)
        if not found:
            raise self.unknown(id)
        return found[0]

    def unknown(self, id: str) -> UnknownSource:
        """That there is no source of this name, and which is the nearest."""
        names = [row["id"] for row in self.rows("names")]
        close = difflib.get_close_matches(id.casefold(), names, 1)
        if close:
            return UnknownSource("source.near", name=id, near=close[0])
        return UnknownSource("source.unknown", name=id)

    def sources(self) -> list[Source]:
        """All of them, by name."""
        return self.sources_by("sources")

    def sources_by(self, name: str, **params: Any) -> list[Source]:
        """Those that a named statement finds."""
        return sources_in(self.connection().execute(SQL[name], params))


def sources_in(cursor: sqlite3.Cursor) -> list[Source]:
    """Rows of `source` as records."""
    names = [column[0] for column in cursor.description]
    return [source_of(dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def source_of(row: dict[str, Any]) -> Source:
    """A row of `source` as a record; `row` is used up."""
    del row["address"]
    row["hints"] = msgspec.json.decode(row["hints"], type=Hints)
    return Source(**row)
