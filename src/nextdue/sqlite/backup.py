"""Copies of the file that can be trusted: of one instant, checked, and under their name only when they are whole."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nextdue import effects
from nextdue.errors import BadDefinition, NotAStore, StoreError, StoreFull, StoreReadOnly
from nextdue.sqlite import files, forks, inspect
from nextdue.sqlite.database import Database
from nextdue.statements import load

PAGES = 1000
"""Pages of one step, some 5 ms: between two steps signals are seen and forks may happen."""
OPCODES = 100_000
"""The same for the check. SQLite before 3.41 checks each table in one step."""
SHOWN = 5
"""The most findings that an error tells of."""


def backup(source: Path, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Copy the whole file of `source` to `path` while others go on writing; answers the absolute path.

    All is copied within one read transaction: without it SQLite begins anew after each commit of another process,
    and never ends beside a busy one. Writers wait for nothing; only the WAL isn't emptied meanwhile.
    Raises BadDefinition, or StoreError; then nothing was written.
    """
    target = _checked(source, path, overwrite)
    database = Database(source, create=False)
    try:
        with appearing(target, files.mode_of(source)) as fresh, database.using:
            copy(database.connection, fresh, target, between=_let_fork(database))
            database.check_file()
            refuse_unsound(fresh, source, between=_let_fork(database))
    finally:
        database.close()
    return target


def _let_fork(database: Database) -> Callable[[], None]:
    """A fork in the middle of any statement of SQLite would leave its child a locked library: it waits for this."""

    def between() -> None:
        database.using.release()
        try:
            with forks.gate:  # whoever forks holds it until that is done
                pass
        finally:
            database.using.acquire()

    return between


def _checked(source: Path, path: str | os.PathLike[str], overwrite: bool) -> Path:
    text: Any = os.fspath(path)
    if not isinstance(text, str) or not text or "\x00" in text:
        raise BadDefinition(f"{path!r} is no path for a backup; give one like 'shop-backup.db'")
    target = Path(os.path.realpath(text))
    if target.is_dir():
        raise BadDefinition(f"{target} is a directory; give the path of a file in it, like {target / source.name}")
    real = Path(os.path.realpath(source))
    ours = [real, *(files.beside(real, suffix) for suffix in ("-wal", "-shm", *files.OURS))]
    if target in ours or (files.identity(target) or 0) == files.identity(source):
        raise BadDefinition(f"{target} belongs to the file that is backed up; give the backup another path")
    if target.exists():
        if not overwrite:
            raise BadDefinition(
                f"{target} is there already; give another path, or replace it: --force, in Python overwrite=True"
            )
        _refuse_open(target)
    return target


def _refuse_open(path: Path) -> None:
    """Raise StoreError if SQLite's files lie beside what is to be replaced: they'd be taken for the new file's."""
    for suffix in ("-wal", "-journal"):
        if files.beside(path, suffix).exists():
            raise StoreError(
                f"{files.beside(path, suffix)} shows that {path.name} is in use, or was when its program died; "
                "open and close it once (sqlite3 does), or give another path"
            )


@contextlib.contextmanager
def appearing(target: Path, mode: int) -> Iterator[Path]:
    """A new file that takes the name `target` when the block ends well, on disk; else it is removed."""
    fresh = effects.temporary_beside(target)
    try:
        files.create(fresh)
        yield fresh
        _sync(fresh, mode)
        os.rename(fresh, target)
    except BaseException:
        for suffix in ("", "-wal", "-shm", "-journal"):
            files.beside(fresh, suffix).unlink(missing_ok=True)
        raise
    effects.sync_directory(target.parent)


def _sync(path: Path, mode: int) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def copy(source: sqlite3.Connection, fresh: Path, target: Path, *, between: Callable[[], None]) -> None:
    """Copy what `source` sees at this instant into an empty file, which needs no WAL afterwards.

    `target` is what an error calls it. `between` is called between two steps.
    """
    made = sqlite3.connect(fresh, isolation_level=None)
    try:
        # It is nobody else's and is synced as a whole; a network disk may have no shared memory.
        for pragma in ("locking_mode=EXCLUSIVE", "synchronous=OFF", "journal_mode=OFF"):
            made.execute(f"PRAGMA {pragma}")
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        source.backup(made, pages=PAGES, progress=lambda *_: between())
        made.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as exc:
        raise _translated(exc, target) from exc
    finally:
        if source.in_transaction:
            source.execute("ROLLBACK")
        made.close()


def _translated(exc: sqlite3.Error, target: Path) -> StoreError:
    match (getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"{target}: the disk is full; nothing was written there")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return StoreReadOnly(f"{target} can't be written ({exc})")
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return NotAStore(f"what was to be copied to {target} is no SQLite database, or is damaged ({exc})")
    return StoreError(f"{target}: {exc}; nothing was written there")


class Reader:
    """A file at rest, read without locks or a WAL: what inspect.check() needs of a database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sql: dict[str, str] = {}
        self.connection = sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True, isolation_level=None)
        self.connection.text_factory = lambda raw: raw.decode("utf-8", "replace")

    def bring(self, page: str) -> bool:
        """Have the statements of this page at hand."""
        self._sql = load("nextdue.sqlite", page)
        return True

    def rows(self, name: str, params: Any) -> list[Any]:
        """All rows of a statement."""
        return self.connection.execute(self._sql[name], params).fetchall()


def refuse_unsound(fresh: Path, source: Path, *, between: Callable[[], None]) -> None:
    """Raise NotAStore if SQLite's check of the copy, or ours, finds anything."""
    reader = Reader(fresh)
    interrupted: list[BaseException] = []

    def must_end() -> bool:
        try:
            between()
        except BaseException as exc:  # SQLite swallows it
            interrupted.append(exc)
        return bool(interrupted)

    reader.connection.set_progress_handler(must_end, OPCODES)
    try:
        found = [text for (text,) in reader.connection.execute(f"PRAGMA integrity_check({SHOWN})") if text != "ok"]
        found = found or inspect.check(reader, integrity=False)
    except sqlite3.Error as exc:
        found = [str(exc)]
    finally:
        reader.connection.close()
    if interrupted:
        raise interrupted[0]
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise NotAStore(
            f"a copy of {source} isn't sound, so it wasn't kept: {'; '.join(found[:SHOWN])}{more}. "
            f"`nextdue check {source}` shows all"
        )
