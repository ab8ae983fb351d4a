"""`nextdue demo`: the main job on real input, with a worker that is killed three times in mid-run."""

import argparse
import importlib.util
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol

from nextdue.cli import demo_app

COMMAND = [sys.executable, "-m", "nextdue", "worker", "zones:nd"]
KILLS = 3
FIRST_S = 0.5
SPREAD_S = 8.0
"""The exports fall due evenly over so long."""
STUCK_S = 30.0
"""The demo gives up when nothing moved for so long."""
LOOK_S = 0.02
RUNNING_S = 1.0
"""How long to wait for the best moment of a kill: when something runs."""
DONE = "nextdue_runs WHERE outcome = 'done'"
REPEATED = (
    "SELECT task, claim, outcome, ended_utc, result FROM nextdue_runs "
    "WHERE task IN (SELECT task FROM nextdue_runs WHERE outcome = 'crashed')"
)


def demo(args: argparse.Namespace) -> int:
    """Run it; 0 if every promise held, 1 if not, 2 if it can't begin.

    Options, all of them optional: directory (a new or empty one), zones and spread (seconds) for a smaller demo.
    """
    asked = vars(args)
    folder = _folder(asked.get("directory"))
    if folder is None:
        return 2
    app = _copy_app(folder)
    zones: list[str] = app.zones()[: asked.get("zones")]
    spread: float = asked.get("spread") or SPREAD_S
    begin = app.now()
    with Worker(folder) as worker:
        print(f"{len(zones)} time zones, one deferred export each, due over the next {spread:g} s, in {folder}")
        print(f"the worker is a process of its own; it gets SIGKILL {KILLS} times", flush=True)
        for number, zone in enumerate(zones):
            app.export.using(delay=FIRST_S + number * spread / len(zones)).enqueue(zone, begin)
        kills = _watch(folder, worker, len(zones))
        worker.stop()
    app.nd.close()
    return _report(folder, app, zones, begin, kills)


# its stage


def _folder(asked: str | None) -> Path | None:
    """The directory for its files, absolute; None (and a word why) if it can't be that one."""
    if asked is None:
        return Path(tempfile.mkdtemp(prefix="nextdue-demo-")).resolve()
    folder = Path(asked).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            print(f"nextdue demo: {folder} isn't empty; name a new directory", file=sys.stderr)
            return None
    except OSError as exc:
        print(f"nextdue demo: {folder} can't be used: {exc.strerror}", file=sys.stderr)
        return None
    return folder


def _copy_app(folder: Path) -> ModuleType:
    """Put the application beside its database, where a reader finds it, and import it from there."""
    path = folder / "zones.py"
    shutil.copyfile(demo_app.__file__, path)
    spec = importlib.util.spec_from_file_location("zones", path)
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    return app


class Worker:
    """A real worker process, `nextdue worker zones:nd`, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "worker.log").open("ab")
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            COMMAND,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def kill(self) -> None:
        """SIGKILL, and a new one in its place."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def ended(self) -> bool:
        """Whether it ended by itself, which it should not."""
        return self._process.poll() is not None

    def said(self) -> str:
        """The end of what the workers wrote."""
        return Path(self._log.name).read_text("utf-8", "replace")[-2000:]

    def stop(self) -> None:
        """Stop it as a deploy would, and without patience after 10 s."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "Worker":
        # Killed by a plain SIGTERM, the demo would leave its worker behind.
        self._previous = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self._log.close()
        signal.signal(signal.SIGTERM, self._previous)


# the run


def _watch(folder: Path, worker: Worker, total: int) -> int:
    """Show how it goes and kill the worker at each quarter of the way; answers the number of kills."""
    kills = done = done_at_kill = 0
    moved = time.monotonic()
    with _reading(folder) as file, _progress(total) as progress:
        while done < total and time.monotonic() - moved < STUCK_S and not worker.ended():
            time.sleep(LOOK_S)
            before, done = done, _count(file, DONE)
            if done > before:
                moved = time.monotonic()
            # Only once the present worker has done something: the rows of a dead one still look as if they ran.
            if kills < KILLS and done >= total * (kills + 1) // (KILLS + 1) and done > done_at_kill:
                _await_running(file)
                worker.kill()
                kills, done_at_kill = kills + 1, _count(file, DONE)
            progress.show(done, kills)
        ended = worker.ended()
    if done < total:
        why = f"the worker ended by itself; it said:\n{worker.said()}" if ended else f"nothing moved for {STUCK_S:g} s"
        print(f"nextdue demo: {why}", file=sys.stderr)
    return kills


def _await_running(file: sqlite3.Connection) -> None:
    until = time.monotonic() + RUNNING_S
    while not _count(file, "nextdue_tasks WHERE state = 'running'") and time.monotonic() < until:
        time.sleep(0.000_5)


@contextmanager
def _reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """The file as any program may read it: plain SQL on the public views."""
    connection = sqlite3.connect(folder / "demo.db", timeout=5, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def _count(file: sqlite3.Connection, what: str) -> int:
    return int(file.execute(f"SELECT count(*) FROM {what}").fetchone()[0])


class Progress(Protocol):
    """Shows how far it is."""

    def show(self, done: int, kills: int) -> None:
        """Called often."""


def _progress(total: int) -> AbstractContextManager[Progress]:
    return Bar(total) if sys.stdout.isatty() else nullcontext(Lines(total))


class Lines:
    """Where nobody watches: one line a second at most."""

    def __init__(self, total: int) -> None:
        self._total, self._next, self._shown = total, 0.0, (-1, -1)

    def show(self, done: int, kills: int) -> None:
        """Print a line if a second has passed and something is new."""
        now = time.monotonic()
        if (done, kills) != self._shown and (now >= self._next or done == self._total):
            print(f"  {done:>4} of {self._total} exported, worker killed {kills} of {KILLS} times", flush=True)
            self._next, self._shown = now + 1, (done, kills)


class Bar(AbstractContextManager["Bar"]):
    """On a terminal: a bar that moves."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._rich = RichProgress(*columns)
        self._task = self._rich.add_task("exporting", total=total)

    def show(self, done: int, kills: int) -> None:
        """Move the bar."""
        text = f"exporting, worker killed {kills} of {KILLS} times"
        self._rich.update(self._task, completed=done, description=text)

    def __enter__(self) -> "Bar":
        self._rich.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._rich.stop()


# the report


class Lateness(NamedTuple):
    """How long after their due the first attempts started, in ms."""

    counted: int
    least: int
    p50: int
    p99: int
    most: int


def _report(folder: Path, app: ModuleType, zones: list[str], begin: object, kills: int) -> int:
    broken = [zone for zone in zones if not _whole(app, zone, begin)]
    with _reading(folder) as file:
        done = _count(file, DONE)
        distinct = _count(file, f"(SELECT DISTINCT task FROM {DONE})")
        repeated = _count(file, "nextdue_runs WHERE outcome = 'crashed'")
        other = _count(file, "nextdue_runs WHERE outcome NOT IN ('done', 'crashed')")
        left = _count(file, "nextdue_tasks")
        late = _lateness(file)
    leftovers = sum(1 for _ in (folder / "zones").rglob(".*.tmp"))
    verdicts = [
        (not broken, f"{len(zones) - len(broken)} of {len(zones)} files are there and whole", broken[:3]),
        (
            distinct == len(zones) and not left and not other,
            f"{distinct} of {len(zones)} tasks are done, {left} are left, {other} ended otherwise",
            "",
        ),
        (done == distinct, f"{done - distinct} tasks were recorded as done twice", ""),
        (kills == KILLS, f"the worker was killed {kills} times in mid-run", ""),
        (late.least >= 0, f"{'none' if late.least >= 0 else 'one'} started early", ""),
    ]
    print()
    for holds, text, which in verdicts:
        print(f"{'ok  ' if holds else 'FAIL'} {text}{f': {which}' if which else ''}")
    print(
        f"     {repeated} attempts were cut off by a kill and repeated; {leftovers} half-written temporary files remain"
    )
    print(
        f"     started after their due: p50 {late.p50} ms, p99 {late.p99} ms, at most {late.most} ms, being down "
        f"after a kill\n     included ({late.counted} first attempts that weren't cut off)"
    )
    held = all(holds for holds, _, _ in verdicts)
    _where(folder, held)
    return 0 if held else 1


def _whole(app: ModuleType, zone: str, begin: object) -> bool:
    """Whether a zone's file is what the zone's data say, to the last byte."""
    try:
        return bool(app.csv_path(zone).read_text("utf-8") == app.table(zone, begin))
    except (OSError, UnicodeDecodeError):
        return False


def _lateness(file: sqlite3.Connection) -> Lateness:
    rows = file.execute(
        "SELECT started_ms - scheduled_for_ms FROM nextdue_runs r WHERE outcome = 'done' AND started_ms IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM nextdue_runs c WHERE c.task = r.task AND c.outcome = 'crashed') ORDER BY 1"
    ).fetchall()
    late = [int(row[0]) for row in rows] or [0]
    return Lateness(len(rows), late[0], late[len(late) // 2], late[(len(late) * 99) // 100], late[-1])


def _where(folder: Path, held: bool) -> None:
    database = shlex.quote(str(folder / "demo.db"))
    print(f'\nsee what was repeated:  sqlite3 {database} "{REPEATED}"')
    if shutil.which("sqlite3") is None:
        print("                        (the sqlite3 shell isn't installed here: apt install sqlite3, or the like)")
    print(f"the files:              {folder}/zones/")
    print(f"what the worker said:   {folder}/worker.log")
    print(f"remove it all:          rm -r {shlex.quote(str(folder))}")
    if not held:
        print("\nA promise did not hold. Please report it, with this directory.")
