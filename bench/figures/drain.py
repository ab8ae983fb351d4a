"""How fast no-op tasks are worked off at default settings, run history on."""

from __future__ import annotations

import time
from functools import partial

from bench import records
from bench.harness import Figure, Line, Run, Target, middle, ratio
from bench.processes import WORKERS, Role, call, start, stop, working


def _nextdue(run: Run) -> float:
    """From the return of enqueue_many before an idle worker until its tables hold no task any more."""
    count = run.scale(20_000, 2000)
    with (
        run.room() as room,
        Role(room, "drain-feed", "nextdue", count=count) as feed,
        working(room, "nextdue"),
    ):
        time.sleep(run.seconds(0.3, 0.1))  # for the worker to fall asleep after its READY task
        feed.go()
        answer = feed.result()
    if answer["history"] != count:
        raise RuntimeError(f"the run history holds {answer['history']} of {count} tasks")
    return float(answer["rate"])


def _raw(run: Run) -> float:
    with run.room() as room:
        return float(call(room, "drain-raw", "raw", count=run.scale(20_000, 2000))["rate"])


def _huey(run: Run) -> float:
    """Between the stamps before and after a backlog: its default is one thread, which keeps the order."""
    count = run.scale(4000, 300)
    with run.room() as room:
        call(room, "stamped-drain-feed", "huey", count=count)
        consumer = start(WORKERS["huey"], room, "worker-huey")
        try:
            records.wait_for(room.records_path, 2, 60.0)
        finally:
            stop(consumer)
        first, last = room.records()
        return (count + 1) / ((last.monotonic_ns - first.monotonic_ns) / 1e9)


def drain(run: Run) -> list[Line]:
    rates = run.interleave({"nextdue": partial(_nextdue, run), "raw": partial(_raw, run), "huey": partial(_huey, run)})
    ours, raw = rates.get("nextdue"), rates.get("raw")
    return [
        Line(
            "drain", "20,000 no-op tasks, defaults, history on", "tasks/s", middle(ours), Target(">=", 0.8),
            ratio(ours, raw), "of raw", middle(raw), "raw claim 50 + ack 50", middle(rates.get("huey")),
        )
    ]  # fmt: skip


FIGURES = (Figure("drain", "no-op tasks worked off beside raw claim-50 + ack-50", drain),)
