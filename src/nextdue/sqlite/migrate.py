"""The tables' versions. Migrations run once, under the write lock; a newer schema is refused."""

import secrets
import sqlite3
import time
from importlib import resources
from pathlib import Path

from nextdue.errors import NotAStore, SchemaTooNew, StoreBusy

VERSION = 1


def version(connection: sqlite3.Connection) -> int:
    """The schema version found in the file; 0 if it holds no tables of ours."""
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'nextdue_meta'").fetchone()
    if row is None:
        return 0
    row = connection.execute("SELECT value FROM nextdue_meta WHERE name = 'schema'").fetchone()
    return int(row[0]) if row else 0


def migrate(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    """Bring the tables to VERSION. Raises SchemaTooNew, or NotAStore if there are none and `create` is false."""
    found = version(connection)
    if found > VERSION:
        raise SchemaTooNew(
            f"{path} was written by a newer nextdue (its schema is {found}, this one knows {VERSION}); upgrade nextdue"
        )
    if found == VERSION:
        return
    if found == 0 and not create:
        raise NotAStore(f"{path} holds no tables of nextdue; the application makes them when it first puts a task")
    _lock(connection, path)
    try:
        for number in range(version(connection) + 1, VERSION + 1):
            for statement in statements(number):
                connection.execute(statement)
            if number == 1:
                store = secrets.token_hex(8)
                connection.execute("INSERT INTO nextdue_meta VALUES ('store', ?)", (store,))
            connection.execute("INSERT OR REPLACE INTO nextdue_meta VALUES ('schema', ?)", (number,))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def statements(number: int) -> list[str]:
    """The statements of one migration."""
    found, part = [], ""
    for line in resources.files("nextdue.sqlite").joinpath(f"schema/{number:04}.sql").read_text("utf-8").splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found


def _lock(connection: sqlite3.Connection, path: Path) -> None:
    until = time.monotonic() + 5
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > until:
                raise StoreBusy(f"{path}: somebody held the write lock for over 5 s; the tables weren't made") from None
            time.sleep(0.001)
