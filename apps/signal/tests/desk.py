"""A folder of Signal, what its sources say, and the command line in it."""

import sqlite3
from pathlib import Path
from typing import NamedTuple

import pytest

from apps.signal.tests.written import Database
from signal_feeds.app import Signal
from signal_feeds.cli.main import main


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Desk:
    """`db` writes what sources say; calling it runs a command."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capfd = folder, capfd
        signal = Signal(folder)
        signal.install()
        signal.close()
        self.db = Database(folder / "signal.db")
        self.news = self.db.source()

    def __call__(self, *words: str, folder: bool = True) -> Said:
        self.capfd.readouterr()
        code = main(["--folder", str(self.folder), *words] if folder else words)
        return Said(code, *self.capfd.readouterr())

    def decisions(self) -> list[tuple[int, str]]:
        """The entries and the verdicts on them."""
        return self.db.tx.execute("SELECT entry, verdict FROM decision ORDER BY at, entry").fetchall()

    def ask(self, sql: str) -> list[tuple]:
        """A question to the database."""
        with sqlite3.connect(self.folder / "signal.db") as connection:
            return connection.execute(sql).fetchall()
