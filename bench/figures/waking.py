"""From the return of enqueue to the first line of the task, and how late due tasks start."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from bench.harness import Figure, Line, Run, Target, middle, percentile
from bench.processes import Role, call, working
from bench.rooms import Room


class Spread(NamedTuple):
    median: float
    p99: float
    least: float


def spread(values: list[float]) -> Spread:
    return Spread(percentile(values, 50), percentile(values, 99), min(values))


def delays_ms(room: Room, returned: list[int]) -> list[float]:
    """A body that ran before its enqueue had returned counts as below zero: told as measured."""
    bodies = {record.number: record.monotonic_ns for record in room.records()}
    return [(bodies[number] - at) / 1e6 for number, at in enumerate(returned)]


def notification(run: Run, samples: int) -> Spread:
    """The raw probe: a byte written to a file, a process that sleeps in inotify."""
    with (
        run.room() as room,
        Role(room, "notify", "raw", count=samples, seed=run.seed) as writer,
        Role(room, "listen", "raw", count=samples) as listener,
    ):
        listener.go()
        writer.go()
        pairs = zip(listener.result()["woken"], writer.result()["returned"], strict=True)
        return spread([(woken - returned) / 1e6 for woken, returned in pairs])


def _pickup(run: Run, side: str) -> Spread:
    if side == "raw":
        return notification(run, run.scale(200, 10))
    with run.room() as room:
        options = {"count": run.scale(200, 10), "seed": run.seed}
        if side == "huey":
            # fewer, it is slow; and pauses over twice its polling period, so that all moments of it are met
            options |= {"count": run.scale(50, 3), "longest_pause_ms": run.scale(250, 30)}
        with Role(room, "pickup", side, **options) as puts, working(room, side):
            puts.go()
            returned = puts.result()["returned"]
        return spread(delays_ms(room, returned))


def pickup(run: Run) -> list[Line]:
    spreads = run.interleave({side: partial(_pickup, run, side) for side in ("nextdue", "raw", "huey")})
    what = "return of enqueue to the task's first line, other process, "
    return [
        _line("pickup", what + "p50", "median", Target("<", 0.6), spreads, "raw inotify"),
        _line("pickup", what + "p99", "p99", Target("<", 1.5), spreads, "raw inotify"),
    ]


def _late(run: Run, side: str) -> Spread:
    options = {
        "count": run.scale(200, 10),
        "lead_ms": run.scale(1000, 200),
        "window_ms": run.scale(4000, 200),
        "seed": run.seed,
    }
    with run.room() as room:
        if side == "raw":
            return spread(call(room, "sleeper", "raw", **options)["late_ms"])
        with Role(room, "dues", side, **options) as puts, working(room, side):
            puts.go()
            due_ms = puts.result()["dues"]
        bodies = {record.number: record.wall_ns for record in room.records()}
    return spread([bodies[number] / 1e6 - due for number, due in enumerate(due_ms)])


def late(run: Run) -> list[Line]:
    spreads = run.interleave({side: partial(_late, run, side) for side in ("nextdue", "raw", "huey")})
    lines = [
        _line("late", "start after due, p50", "median", Target("<", 1.0), spreads, "raw sleep"),
        _line("late", "start after due, p99", "p99", Target("<", 2.0), spreads, "raw sleep"),
    ]
    # not a median: one early start in any round is one too many
    earliest = {side: min(s.least for s in of) for side, of in spreads.items()}
    never = Line(
        "late", "the earliest start after due of all", "ms", earliest.get("nextdue"), Target(">=", 0.0),
        beside=earliest.get("raw"), beside_name="raw sleep", huey=earliest.get("huey"),
    )  # fmt: skip
    return [*lines, never]


def _line(figure: str, what: str, key: str, target: Target, spreads: dict[str, list[Spread]], beside_name: str) -> Line:
    def of(side: str) -> float | None:
        return middle(getattr(spread, key) for spread in spreads.get(side, []))

    return Line(
        figure, what, "ms", of("nextdue"), target,
        beside=of("raw"), beside_name=beside_name, huey=of("huey"),
    )  # fmt: skip


FIGURES = (
    Figure("pickup", "pickup by an idle worker of another process beside raw inotify", pickup),
    Figure("late", "lateness of due tasks beside a raw sleep; never early", late),
)
