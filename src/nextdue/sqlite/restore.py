"""Putting a backup in the place of the file. What waits in it is held until a person has seen it and releases it."""

import contextlib
import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from nextdue import effects
from nextdue.errors import BadDefinition, NotAStore, StoreBusy, StoreError, StoreMissing
from nextdue.sqlite import backup, files, forks, herd
from nextdue.sqlite.database import Database, is_busy
from nextdue.sqlite.lives import Lives
from nextdue.sqlite.migrate import migrate, version
from nextdue.sqlite.store import SqliteStore
from nextdue.statements import load

PAGE = "restore.sql"
STEPS = (
    *("runs", "cancelled", "forgotten", "running", "blocked", "workers"),
    *("stores", "store", "held", "count"),
)
"""The statements that make a copy the file, in order."""


def restore(source: Path, target: Path) -> Path | None:
    """Make a verified copy of the backup `source` the file at `target`, with everything in it held.

    Answers where the file that was there before is kept. Raises StoreError, with nothing changed: a worker or any
    other program has `target` open, or the backup isn't sound.
    """
    target = Path(os.path.realpath(target))
    files.refuse_shared(target)
    if not source.is_file():
        raise StoreMissing(f"there is no backup {source}")
    if files.identity(source) == files.identity(target):
        raise BadDefinition(f"{source} and the file to be replaced are the same file")
    with _nobody_else(target) as damaged:
        mode = files.mode_of(target if target.exists() else source)
        # It is entered last and ends first: the name changes hands while nobody else can open the old file.
        with backup.appearing(target, mode) as fresh:
            _copied(source, fresh, target)
            _prepared_copy(fresh, source)
            backup.refuse_unsound(fresh, source, between=lambda: None)
            kept = _kept(target, damaged) if target.exists() else None
        for worker in Lives(target).dead():
            Lives(target).forget(worker)
    return kept


def _copied(source: Path, fresh: Path, target: Path) -> None:
    try:
        # In WAL mode even a reader would leave a -shm; without a -wal nobody uses the file.
        alone = files.is_wal(source) and not files.beside(source, "-wal").exists()
        how = "immutable=1" if alone else "mode=ro"
        connection = sqlite3.connect(f"file:{quote(str(source))}?{how}", uri=True, isolation_level=None)
    except sqlite3.Error as exc:
        raise StoreError(f"{source} can't be opened: {exc}") from exc
    try:
        backup.copy(connection, fresh, target, between=lambda: None)
    except NotAStore:
        raise NotAStore(f"the backup {source} is no SQLite database, or is damaged") from None
    finally:
        connection.close()


def _prepared_copy(fresh: Path, source: Path) -> None:
    """Everything in the copy waits, under a new store id: a restored file hands out the same ids a second time."""
    page = load("nextdue.sqlite", "statements.sql", PAGE)
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        if version(connection) == 0:
            raise NotAStore(f"{source} holds no tables of nextdue")
        migrate(connection, source, create=False)
        (now,) = connection.execute(page["now"], {"now": None}).fetchone()
        connection.execute("BEGIN IMMEDIATE")
        for step in STEPS:
            connection.execute(page[f"restore_{step}"], {"now": now, "store": secrets.token_hex(8)})
        connection.execute("COMMIT")
    except sqlite3.Error as exc:
        raise NotAStore(f"{source} is damaged: {exc}") from exc
    finally:
        connection.close()


@contextlib.contextmanager
def _nobody_else(target: Path) -> Iterator[bool]:
    """Keep everybody out of the file until the block ends. Yields whether it is damaged.

    Leaving WAL mode needs the file for oneself, so SQLite itself says whether anybody has it open. Raises StoreBusy.
    """
    if not target.exists():
        _refuse_workers(target)
        yield False
        return
    _refuse_workers(target)
    connection = sqlite3.connect(target, timeout=0, isolation_level=None)
    try:
        try:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            if mode != "delete":
                raise _in_use(target)
            connection.execute("BEGIN EXCLUSIVE")
            _refuse_others_file(connection, target)
        except sqlite3.Error as exc:
            if is_busy(exc):
                raise _in_use(target) from None
            connection.close()
            with _alone_with_damaged(target):
                yield True
        else:
            yield False
    finally:
        connection.close()


def _refuse_workers(target: Path) -> None:
    living = Lives(target).living()
    if living:
        who = ", ".join(f"worker {number}" for number in living)
        raise StoreBusy(f"{who} works on {target}; stop all its programs before it is restored")


def _refuse_others_file(connection: sqlite3.Connection, target: Path) -> None:
    """A path typed wrongly must not cost somebody another database."""
    if version(connection) == 0 and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise NotAStore(f"{target} is a database without tables of nextdue, so it isn't replaced; give another path")


@contextlib.contextmanager
def _alone_with_damaged(target: Path) -> Iterator[None]:
    """The same by the lock that every connection of SQLite holds, where SQLite itself can't read the file."""
    fd = os.open(target, os.O_RDWR | os.O_CLOEXEC)
    try:
        length, start = forks.SHARED
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        yield
    except BlockingIOError:
        raise _in_use(target) from None
    finally:
        os.close(fd)


def _in_use(target: Path) -> StoreBusy:
    return StoreBusy(f"another program has {target} open; end all programs that use it before it is restored")


def _kept(target: Path, damaged: bool) -> Path:
    """Give the old file a second name. A damaged one goes with its WAL, which would be taken for the new one's."""
    base = f"{target.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    name, number = base, 1
    while target.with_name(name).exists():
        name, number = f"{base}-{number}", number + 1
    kept = target.with_name(name)
    for suffix in ("-wal", "-shm") if damaged else ():
        if files.beside(target, suffix).exists():
            os.rename(files.beside(target, suffix), files.beside(kept, suffix))
    try:
        os.link(target, kept)  # so that at no instant there is no file
    except OSError:
        os.rename(target, kept)
    effects.sync_directory(target.parent)
    return kept


class Overdue(NamedTuple):
    """Tasks of one name and queue whose due has passed."""

    name: str
    queue: str
    tasks: int
    since: int
    """The oldest due, UTC ms."""
    by_an_hour: int
    """How many of them are overdue by more than an hour."""


class Held(NamedTuple):
    """A restored file that isn't released yet."""

    since: int
    """UTC ms."""
    overdue: list[Overdue]
    """What starts at the release, oldest first."""
    later: int
    """How many tasks wait for a due that is still to come."""
    next: int | None
    """The nearest of those, UTC ms."""
    again: list[tuple[int, str]]
    """Ids and names of the tasks that ran when the backup was made."""


def held(database: Database) -> Held | None:
    """What waits for the release; None if the file isn't held."""
    database.bring(PAGE)
    row = database.read("held_file", {})
    if row is None:
        return None
    params = {"now": database.read("now", {"now": None})[0], "since": row[0]}
    later, nearest = database.read("held_later", params)
    return Held(
        row[0],
        [Overdue(*found) for found in database.rows("held_overdue", params)],
        later,
        nearest,
        database.rows("held_again", params),
    )


def held_since(database: Database) -> int | None:
    """Since when (UTC ms) nothing of this restored file is started; None if it isn't held."""
    database.bring(PAGE)
    row = database.read("held_file", {})
    return None if row is None else int(row[0])


def release(store: SqliteStore, over_ms: int = 0) -> None:
    """End the hold: what is overdue starts, spread over so many ms, the most overdue first. Whoever calls rings then.

    Pauses that were in the backup stay.
    """
    database = store.database
    database.bring(PAGE)
    if over_ms:
        herd.spread(store, "herd_restored", over_ms)
    database.script("release_setup")
    database.write("release", {})
