"""What a worker costs that has nothing to do: one beside huey and bare Python, and ten at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench import procfs
from bench.harness import Figure, Line, Run, Target, middle
from bench.processes import call, start, stop, working

_NOTHING = ("-c", "import threading; threading.Event().wait()")


@dataclass(frozen=True)
class Quiet:
    switches_a_second: float
    cpu_ms: float
    pss_mb: float


@contextmanager
def _service(run: Run, side: str, schedules: int = 0) -> Iterator[int]:
    """The pid of an idle process; a worker has a file of its own, with a task or schedules due in an hour and later."""
    with run.room() as room:
        if side == "raw":
            process = start(_NOTHING, room, "nothing")
            try:
                yield process.pid
            finally:
                stop(process)
            return
        if schedules:
            call(room, "schedules-ahead", side, count=schedules)
        else:
            call(room, "prime", side, hour_ahead=True)
        with working(room, side) as worker:
            yield worker.pid


def _watch(pids: list[int], seconds: float) -> list[Quiet]:
    """One window over all pids at once. Memory is read after it: that reading takes locks of the process."""
    before = [procfs.usage(pid) for pid in pids]
    time.sleep(seconds)
    used = [procfs.usage(pid).since(start_) for pid, start_ in zip(pids, before, strict=True)]
    return [
        Quiet(usage.switches / seconds, usage.cpu_ns / 1e6, procfs.pss_mb(pid))
        for pid, usage in zip(pids, used, strict=True)
    ]


def idle(run: Run) -> list[Line]:
    """All sides in the same windows, by the same processes: a longer life only favours who backs off."""
    sides = [side for side in ("nextdue", "raw", "huey") if side in run.sides]
    with ExitStack() as stack:
        pids = [stack.enter_context(_service(run, side)) for side in sides]
        time.sleep(run.seconds(5, 0.2))
        windows = [_watch(pids, run.seconds(20, 0.3)) for _ in range(run.rounds)]

    def line(what: str, unit: str, key: str, target: Target) -> Line:
        of = {side: middle(getattr(window[index], key) for window in windows) for index, side in enumerate(sides)}
        return Line(
            "idle", what, unit, of.get("nextdue"), target,
            beside=of.get("raw"), beside_name="bare Python asleep", huey=of.get("huey"),
        )  # fmt: skip

    return [
        line("a task an hour ahead: context switches", "/s", "switches_a_second", Target("<", 0.2)),
        line("a task an hour ahead: CPU in 20 s", "ms", "cpu_ms", Target("<=", 1.0)),
        line("a task an hour ahead: memory (PSS)", "MB", "pss_mb", Target("<", 30.0)),
    ]


def ten(run: Run) -> list[Line]:
    if "nextdue" not in run.sides:
        return []
    services = run.scale(10, 2)
    with ExitStack() as stack:
        pids = [stack.enter_context(_service(run, "nextdue")) for _ in range(services)]
        time.sleep(run.seconds(5, 0.2))
        windows = [_watch(pids, run.seconds(20, 0.3)) for _ in range(run.rounds)]

    def total(key: str) -> float | None:
        return middle(sum(getattr(quiet, key) for quiet in window) for window in windows)

    return [
        Line(
            "ten-idle",
            "ten services, ten files: switches",
            "/s",
            total("switches_a_second"),
            Target("<", 2.0),
        ),
        Line("ten-idle", "ten services, ten files: CPU in 20 s", "ms", total("cpu_ms")),
        Line("ten-idle", "ten services, ten files: memory (PSS)", "MB", total("pss_mb")),
    ]


def scheduled(run: Run) -> list[Line]:
    """A worker whose file holds 10,000 schedules, beside one with a single task."""
    if "nextdue" not in run.sides:
        return []
    with ExitStack() as stack:
        pids = [stack.enter_context(_service(run, "nextdue", many)) for many in (run.scale(10_000, 500), 0)]
        time.sleep(run.seconds(5, 0.2))
        windows = [_watch(pids, run.seconds(20, 0.3)) for _ in range(run.rounds)]

    def line(what: str, unit: str, key: str, target: Target) -> Line:
        ours, one = (middle(getattr(window[index], key) for window in windows) for index in (0, 1))
        return Line(
            "idle-schedules", f"10,000 schedules, the nearest in an hour: {what}", unit, ours, target,
            beside=one, beside_name="a task an hour ahead",
        )  # fmt: skip

    return [
        line("context switches", "/s", "switches_a_second", Target("<", 0.2)),
        line("CPU in 20 s", "ms", "cpu_ms", Target("<=", 1.0)),
        line("memory (PSS)", "MB", "pss_mb", Target("<", 30.0)),
    ]


FIGURES = (
    Figure("idle", "20 s with a task an hour ahead: switches, CPU, memory", idle),
    Figure("ten-idle", "ten idle services, each its own process and file", ten),
    Figure("idle-schedules", "20 s with 10,000 schedules: switches, CPU, memory", scheduled),
)
