"""The end of nextdue in a file: its tables are dropped and its files beside it removed. All else stays."""

import shutil
from pathlib import Path

from nextdue.errors import StoreError
from nextdue.sqlite import inspect
from nextdue.sqlite.database import Database
from nextdue.sqlite.files import OURS, beside

PAGE = "uninstall.sql"
DROPS = (
    *(
        "tasks_view",
        "runs_view",
        "task",
        "mark",
        "event",
        "run",
        "result",
        "schedule",
        "pause",
        "rate",
        "lane",
        "worker",
    ),
    "meta",
)
"""The statements that drop something, in order."""


def uninstall(database: Database) -> None:
    """Drop our tables and views in one transaction, and remove our files beside the database.

    Raises StoreError, with nothing dropped, while a worker lives or something of the user's leans on our tables.
    """
    with database.transaction():
        refuse(database)
        for name in DROPS:
            database.run(f"uninstall_{name}", {})
    for path in leftovers(database.path):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def refuse(database: Database) -> None:
    """Raise StoreError if somebody still needs the tables."""
    for life in inspect.lives(database):
        if life.state == "alive" or (life.state == "unknown" and life.holds):
            raise StoreError(f"{life.where()} works on {database.path}; stop it first")
    database.bring(PAGE)
    leaning = [f"{kind} {name}" for kind, name in database.rows("user_triggers", {})]
    if leaning:
        raise StoreError(f"{', '.join(leaning)} of yours would break without nextdue's tables; drop it first")


def has_others(database: Database) -> bool:
    """Whether the file holds anything that isn't ours."""
    database.bring(PAGE)
    return bool(database.read("others", {})[0])


def leftovers(path: Path) -> list[Path]:
    """The files of ours beside the database, those that exist. -wal and -shm are SQLite's."""
    return [found for suffix in OURS if (found := beside(path, suffix)).exists()]
