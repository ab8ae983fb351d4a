"""The command `signal` as a person runs it: real processes in a folder of their own."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.harness import Program

SIGNAL = str(Path(sys.executable).with_name("signal"))


class Folder:
    """A folder with a Signal in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.programs: list[Program] = []

    def run(self, *argv: str, code: int = 0, **env: str) -> str:
        """What a command prints on both streams; its exit code must be `code`."""
        done = subprocess.run(
            [SIGNAL, *argv], cwd=self.path, env=clean_env(**env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        assert "Traceback" not in done.stdout
        return done.stdout

    def start(self, *argv: str) -> Program:
        """A command that goes on."""
        program = Program([SIGNAL, *argv], self.path, **clean_env())
        self.programs.append(program)
        return program

    def settings(self, text: str) -> None:
        (self.path / "signal.toml").write_text(text, "utf-8")

    def listed(self, *argv: str) -> dict[str, dict[str, Any]]:
        """`signal list --json`, by the sources' names."""
        return {one["id"]: one for one in json.loads(self.run("list", "--json", *argv))}

    def sql(self, statement: str, *values: Any) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.path / "signal.db")) as connection, connection:
            return connection.execute(statement, values).fetchall()


def clean_env(**env: str) -> dict[str, str]:
    """One in which nothing of the caller's leads elsewhere."""
    kept = {name: text for name, text in os.environ.items() if name not in ("SIGNAL_FOLDER", "NEXTDUE")}
    return {**kept, "TZ": "UTC", "COLUMNS": "80", "NO_COLOR": "1", **env}


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Folder]:
    """A folder with nothing in it."""
    folder = Folder(tmp_path)
    yield folder
    for program in folder.programs:
        program.clean_up()


@pytest.fixture
def folder(empty: Folder) -> Folder:
    """One after `signal init`."""
    empty.run("init")
    return empty
