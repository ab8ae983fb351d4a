"""What a big file costs: a million tasks to come, ten million finished rows; a long reader; a million tasks."""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import bigfiles, procfs, records
from bench.harness import Figure, Line, Run, Target, middle, ratio
from bench.processes import WORKERS, Role, call, start, stop, working
from bench.rooms import Room

Fill = Callable[[Path], None]


def _empty(path: Path) -> None:
    """No file: the application makes it."""


def _drain(run: Run, fill: Fill) -> float:
    count = run.scale(20_000, 1000)
    with run.room() as room:
        fill(room.database)
        with (
            Role(room, "drain-beside", "nextdue", count=count, repeats=run.scale(3, 1)) as feed,
            working(room, "nextdue"),
        ):
            time.sleep(run.seconds(0.3, 0.1))
            feed.go()
            return float(feed.result(180.0)["rate"])


def _start(run: Run, fill: Fill) -> tuple[float, float]:
    """From the start of a worker's process to the first line of its first task, in s; and its memory then, in MB."""
    with run.room() as room:
        fill(room.database)
        call(room, "prime", "nextdue")
        begun = time.monotonic_ns()
        worker = start(WORKERS["nextdue"], room, "worker-nextdue")
        try:
            records.wait_for(room.records_path, 1, 20.0)
            first_ns = records.first(room.records_path).monotonic_ns
            time.sleep(0.5)
            return (first_ns - begun) / 1e9, procfs.rss_mb(worker.pid)
        finally:
            stop(worker)


def future(run: Run) -> list[Line]:
    full = partial(bigfiles.future, run.scale(1_000_000, 20_000))
    rates = run.interleave({"nextdue full": partial(_drain, run, full), "nextdue empty": partial(_drain, run, _empty)})
    starts = run.interleave({"nextdue full": partial(_start, run, full), "nextdue empty": partial(_start, run, _empty)})
    a, b = rates["nextdue full"], rates["nextdue empty"]
    s, e = starts["nextdue full"], starts["nextdue empty"]
    grown = statistics.median(one[1] for one in s) - statistics.median(one[1] for one in e)
    what = "beside 1,000,000 tasks to come"
    return [
        Line(
            "future",
            f"drain {what}",
            "tasks/s",
            middle(a),
            Target(">=", 0.95),
            ratio(a, b),
            "of empty",
            middle(b),
            "empty file",
        ),
        Line(
            "future",
            f"worker start {what}",
            "s",
            middle(o[0] for o in s),
            Target("<", 1.0),
            beside=middle(o[0] for o in e),
            beside_name="empty file",
        ),
        Line("future", f"memory of a worker {what}: more than beside none", "MB", grown, Target("<", 5.0)),
    ]


def _command(room: Room, *words: str) -> float:
    """Milliseconds of a whole command."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "nextdue", words[0], str(room.database), *words[1:]],
        capture_output=True,
        check=False,
        env=room.environment(),
    )
    took = (time.perf_counter() - begun) * 1000
    if b"Traceback" in done.stderr:
        raise RuntimeError(done.stderr.decode("utf-8", "replace"))
    return took


def _commands(id: str = "1") -> dict[str, tuple[str, ...]]:
    from nextdue.cli.parser import COMMANDS

    wanted = {"ls": ("ls",), "why": ("why", id), "health": ("health",)}
    return {name: words for name, words in wanted.items() if name in COMMANDS}


def _looks(run: Run, fill: Fill) -> dict[str, float]:
    """Each command, in ms, and the enqueues a second, on a file with one waiting task more."""
    with run.room() as room:
        fill(room.database)
        call(room, "prime", "nextdue", hour_ahead=True)
        with contextlib.closing(sqlite3.connect(room.database)) as database:
            (newest,) = database.execute("SELECT max(id) FROM nextdue_task").fetchone()
        commands = _commands(str(newest))
        for words in commands.values():
            _command(room, *words)
        found = {name: min(_command(room, *words) for _ in range(3)) for name, words in commands.items()}
        found["enqueue"] = float(
            call(room, "enqueue", "nextdue", count=run.scale(3000, 200), seconds=30.0, pause_ms=None, seed=run.seed)[
                "rate"
            ]
        )
    return found


def finished(run: Run) -> list[Line]:
    full = partial(bigfiles.finished, run.scale(10_000_000, 50_000))
    looks = run.interleave({"nextdue full": partial(_looks, run, full), "nextdue empty": partial(_looks, run, _empty)})
    rates = run.interleave({"nextdue full": partial(_drain, run, full), "nextdue empty": partial(_drain, run, _empty)})
    a, b = rates["nextdue full"], rates["nextdue empty"]
    what = "beside 10,000,000 finished rows"
    lines = [
        Line(
            "finished",
            f"claim and settle {what}",
            "tasks/s",
            middle(a),
            Target(">=", 0.67),
            ratio(a, b),
            "of empty",
            middle(b),
            "empty file",
        )
    ]
    for name in ("enqueue", *_commands()):
        here = [one[name] for one in looks["nextdue full"]]
        there = [one[name] for one in looks["nextdue empty"]]
        unit, target = ("tasks/s", Target(">=", 0.67)) if name == "enqueue" else ("ms", Target("<=", 1.5))
        lines.append(
            Line(
                "finished",
                f"{name} {what}",
                unit,
                middle(here),
                target,
                ratio(here, there),
                "of empty",
                middle(there),
                "empty file",
            )
        )
    return lines


def wal(run: Run) -> list[Line]:
    """A reader holds one snapshot while 500 commits a second go on."""
    held_s = run.seconds(30.0, 1.0)
    options = {"count": 1_000_000, "seconds": held_s + run.seconds(12.0, 2.0), "pause_ms": (1.5, 1.9), "seed": run.seed}
    with run.room() as room:
        call(room, "prime", "nextdue", hour_ahead=True)
        file = room.database.with_name(room.database.name + "-wal")
        with (
            Role(room, "enqueue", "nextdue", **options) as puts,
            Role(room, "long-reader", "raw", seconds=held_s) as reader,
        ):
            puts.go()
            reader.go()
            reader.result(held_s + 30)
            grown = file.stat().st_size / 1e6
            begun, small = time.monotonic(), None
            while time.monotonic() - begun < run.seconds(10.0, 1.5):
                if file.stat().st_size <= (4 << 20) + 32:
                    small = time.monotonic() - begun
                    break
                time.sleep(0.01)
            answer = puts.result(90.0)
    return [
        Line(
            "wal",
            "after a reader of 30 s: until the WAL is 4 MB again",
            "s",
            small if small is not None else 99.0,
            Target("<=", 10.0),
            beside=grown,
            beside_name="MB at the end of the reader",
        ),
        Line(
            "wal",
            "longest enqueue meanwhile",
            "ms",
            float(answer["longest_ms"]),
            beside=float(answer["rate"]),
            beside_name="commits/s",
        ),
    ]


def memory(run: Run) -> list[Line]:
    """A worker's memory over a million no-op tasks."""
    count, parts = run.scale(50_000, 1000), run.scale(20, 4)
    with run.room() as room:
        call(room, "prime", "nextdue")
        with working(room, "nextdue") as worker:
            found = []
            for _ in range(parts):
                call(room, "drain-beside", "nextdue", timeout_s=120.0, count=count)
                found.append(procfs.rss_mb(worker.pid))
    warm = found[parts // 5 - 1]
    return [
        Line(
            "memory",
            "growth of a worker from 200,000 to 1,000,000 tasks",
            "MB",
            found[-1] - warm,
            Target("<", 2.0),
            beside=warm,
            beside_name="MB at 200,000",
        )
    ]


def purge(run: Run) -> list[Line]:
    """Every settled task takes up to two ended tombstones and two old lines of history with it."""
    full = partial(bigfiles.over, run.scale(2_000_000, 50_000))
    rates = run.interleave({"nextdue full": partial(_drain, run, full), "nextdue empty": partial(_drain, run, _empty)})
    a, b = rates["nextdue full"], rates["nextdue empty"]
    return [
        Line(
            "purge",
            "drain that purges four rows for each task",
            "tasks/s",
            middle(a),
            None,
            ratio(a, b),
            "of one that purges none",
            middle(b),
            "empty file",
        )
    ]


FIGURES = (
    Figure("future", "drain, start and memory beside 1,000,000 tasks to come", future),
    Figure("finished", "everything beside 10,000,000 finished rows", finished),
    Figure("purge", "purging under full load", purge),
    Figure("wal", "the WAL under a long reader", wal),
    Figure("memory", "a worker's memory over 1,000,000 tasks", memory),
)
