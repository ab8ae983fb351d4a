"""Real processes for the tests: a place with a script and a database, and programs started there.

Everything that is started is killed when the place is left, by its own process group.
"""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

PRELUDE = """
import os, sys, time, threading
from pathlib import Path
from nextdue import *

HERE = Path(__file__).parent

def note(*words):
    fd = os.open(HERE / "notes", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.write(fd, (" ".join(map(str, words)) + "\\n").encode())
    os.close(fd)

def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the awaited did not happen")
        time.sleep(0.002)

nd = Nextdue(HERE / "shop.db")
"""
"""The beginning of every shop.py: `note` appends one whole line to a file that outlives any kill."""


def until(condition: Callable[[], T], seconds: float = 20, what: object = "the awaited") -> T:
    """What `condition` answers as soon as that is true; AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            shown = what() if callable(what) else what
            raise AssertionError(f"{shown} did not happen within {seconds} s")
        time.sleep(0.002)


class Program:
    """One process of ours, in a group of its own. `lines` is what it has printed so far, both streams."""

    def __init__(self, argv: Sequence[str], folder: Path, **env: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def says(self, words: str, seconds: float = 20) -> str:
        """The first line that holds `words`, as soon as it is printed."""

        def found() -> str | None:
            return next((line for line in list(self.lines) if words in line), None)

        def missing() -> str:
            return f"{words!r} in the output of process {self.pid} (ended: {self._process.poll()}):\n{self.text}\n"

        line = until(found, seconds, missing)
        assert line is not None
        return line

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait(10)

    def terminate(self, seconds: float = 20) -> int:
        self.send(signal.SIGTERM)
        return self.ends(seconds)

    def alive(self) -> bool:
        return self._process.poll() is None

    def ends(self, seconds: float = 20) -> int:
        """Its exit code."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {self.pid} did not end within {seconds} s:\n{self.text}") from None
        self._reader.join(0.3)  # a child of it may hold the pipe open
        return code

    def clean_up(self) -> None:
        """End it and whatever it left behind in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(10)
        self._reader.join(5)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Place:
    """A directory with shop.py, shop.db and what runs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "shop.db"
        self._programs: list[Program] = []

    def script(self, body: str, name: str = "shop.py") -> None:
        """Write a module that begins with the prelude."""
        (self.folder / name).write_text(PRELUDE + body, "utf-8")

    def start(self, *argv: str, **env: str) -> Program:
        """Start python with these arguments here."""
        program = Program([sys.executable, *argv], self.folder, **env)
        self._programs.append(program)
        return program

    def python(self, code: str, **env: str) -> Program:
        """Start a program of a few lines beside shop.py."""
        return self.start("-c", code, **env)

    def does(self, code: str, seconds: float = 30) -> str:
        """Run such a program to its end, which must be a good one; answers what it printed."""
        program = self.python(code)
        assert program.ends(seconds) == 0, program.text
        return program.text

    def worker(self, options: str = "", module: str = "shop") -> Program:
        """A worker by nd.run(), ready: its line `ready <number>` is printed when it is enlisted."""
        program = self.python(
            f"import {module} as shop, logging\n"
            "logging.basicConfig(format='%(levelname)s %(message)s')\n"
            f"service = shop.nd.working({options})\n"
            "print('ready', service.open().id, flush=True)\n"
            "service.run()\n"
        )
        program.says("ready")
        return program

    def cli(self, *words: str, **env: str) -> Program:
        """`nextdue ...` as a user starts it."""
        return self.start("-m", "nextdue", *words, **env)

    def notes(self) -> list[str]:
        """The whole lines that tasks have noted."""
        try:
            text = (self.folder / "notes").read_text("utf-8")
        except FileNotFoundError:
            return []
        return text[: text.rfind("\n") + 1].splitlines()

    def noted(self, words: str, times: int = 1, seconds: float = 20) -> None:
        """Wait until a line that begins so was noted so often."""
        until(
            lambda: sum(n.startswith(words) for n in self.notes()) >= times,
            seconds,
            lambda: f"{times} x note {words!r} among {self.notes()[-20:]}; the programs said:\n{self.said()}\n",
        )

    def said(self) -> str:
        return "\n".join(f"[{p.pid}] {p.text[-3000:]}" for p in self._programs)

    def rows(self, sql: str, *params: object) -> list[Any]:
        """The answer of a foreign connection of this process, opened and closed for it."""
        with contextlib.closing(sqlite3.connect(self.db, timeout=10, isolation_level=None)) as db:
            return db.execute(sql, params).fetchall()

    def one(self, sql: str, *params: object) -> Any:
        return self.rows(sql, *params)[0][0]

    def stop_outside_a_commit(self, program: Program) -> None:
        """SIGSTOP, but not while it holds the write lock, for then SQLite lets nobody else write."""
        for _ in range(200):
            program.send(signal.SIGSTOP)
            try:
                with contextlib.closing(sqlite3.connect(self.db, timeout=0.02, isolation_level=None)) as db:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("ROLLBACK")
                return
            except sqlite3.OperationalError:
                program.send(signal.SIGCONT)
                time.sleep(0.003)
        raise AssertionError("it always holds the write lock")

    def left(self) -> int:
        """How many tasks are waiting or running."""
        return int(self.one("SELECT count(*) FROM nextdue_tasks WHERE state IN ('waiting', 'running')"))

    def empties(self, seconds: float = 30) -> None:
        """Wait until nothing is waiting or running."""
        until(
            lambda: self.left() == 0,
            seconds,
            lambda: f"the end of {self.rows('SELECT * FROM nextdue_tasks')[:5]}...\n{self.said()}\n",
        )

    def checked(self) -> None:
        """The tables are in order, by SQLite's own check and by ours."""
        from nextdue.sqlite.database import Database
        from nextdue.sqlite.inspect import check

        assert self.rows("PRAGMA integrity_check") == [("ok",)]
        database = Database(self.db, create=False)
        try:
            assert check(database) == []
        finally:
            database.close()

    def clean_up(self) -> None:
        for program in self._programs:
            program.clean_up()


@contextlib.contextmanager
def place_in(folder: Path) -> Iterator[Place]:
    """A place that leaves no process behind."""
    place = Place(folder)
    try:
        yield place
    finally:
        place.clean_up()


def switches(pid: int) -> int:
    """Context switches of all threads of a process, from /proc."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def over(pid: int) -> bool:
    """Whether a process runs no more; one that nobody has waited for is over too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith(("Z", "X"))
    except (FileNotFoundError, ProcessLookupError):
        return True


def children(pid: int) -> list[int]:
    """The children of a process, zombies included."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += map(int, (task / "children").read_text().split())
    return found
