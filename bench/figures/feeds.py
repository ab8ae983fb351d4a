"""Signal beside `reader`: many answers of "not modified", a first collection, and many sources that wait."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench import procfs
from bench.harness import Figure, Line, Run, Target, middle, ratio
from bench.processes import call, start, stop

_SERVER = ("-m", "apps.signal.tests.server", "--quick")
_SIGNAL = ("-c", "from signal_feeds.cli.main import main; raise SystemExit(main())")


@contextmanager
def _server(run: Run) -> Iterator[int]:
    """The port of a server in a process of its own."""
    with run.room() as room:
        process = start(_SERVER, room, "server", pipes=True)
        assert process.stdout is not None
        try:
            yield int(json.loads(process.stdout.readline())["port"])
        finally:
            stop(process)


def _collected(run: Run, port: int, side: str, count: int, path: str, stored: bool) -> dict[str, float]:
    with run.room() as room:
        answer = call(room, "collect", side, count=count, port=port, path=path, stored=stored)
        return {name: float(value) for name, value in answer.items()}


def _beside_reader(run: Run, name: str, what: str, count: int, of_reader: int, path: str, stored: bool) -> list[Line]:
    with _server(run) as port:
        answers = run.interleave(
            {
                "nextdue": partial(_collected, run, port, "nextdue", count, path, stored),
                "raw": partial(_collected, run, port, "reader", of_reader, path, stored),
            }
        )
    ours, theirs = ([one["rate"] for one in answers.get(side, [])] for side in ("nextdue", "raw"))
    memory = [one["memory_mb"] for one in answers.get("nextdue", [])]
    return [
        Line(
            name, what, "feeds/s", middle(ours), Target(">=", 2.0), ratio(ours, theirs), "of reader",
            middle(theirs), "reader",
        ),
        Line(name, f"{what}: memory, with the largest child", "MB", middle(memory), Target("<", 150.0)),
    ]  # fmt: skip


def not_modified(run: Run) -> list[Line]:
    count, of_reader = run.scale(10_000, 200), run.scale(1_000, 20)
    return _beside_reader(run, "not-modified", "sources that answer 304", count, of_reader, "/304", True)


def first(run: Run) -> list[Line]:
    count = run.scale(200, 10)
    return _beside_reader(run, "first", "first collection of 20 entries a feed", count, count, "/feed/20", False)


def sleeping(run: Run) -> list[Line]:
    if "nextdue" not in run.sides:
        return []
    seconds = run.seconds(10, 0.3)
    with run.room() as room:
        call(room, "sources-ahead", "nextdue", count=run.scale(10_000, 100))
        folder = str(room.folder / "signal")
        process = start((*_SIGNAL, "--folder", folder, "worker", "--network"), room, "worker")
        try:
            time.sleep(run.seconds(3, 1.5))
            before = procfs.usage(process.pid)
            time.sleep(seconds)
            used = procfs.usage(process.pid).since(before)
        finally:
            stop(process)
    what = "10,000 sources that are due tomorrow"
    return [
        Line("sleeping", f"{what}: context switches", "/s", used.switches / seconds, Target("<", 0.2)),
        Line("sleeping", f"{what}: CPU in {seconds:g} s", "ms", used.cpu_ns / 1e6, Target("<=", 1.0)),
    ]


FIGURES = (
    Figure("not-modified", "Signal: 10,000 sources that answer 304, beside reader", not_modified),
    Figure("first", "Signal: the first collection of 200 feeds, beside reader", first),
    Figure("sleeping", "Signal: 10,000 sources and nothing due", sleeping),
)
