"""A worker on a file that also belongs to somebody else: an application that commits by raw sqlite3."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from bench import procfs
from bench.figures.waking import Spread, delays_ms, notification, spread
from bench.harness import Figure, Line, Run, Target, middle, ratio
from bench.processes import Role, call, working
from bench.rooms import Room

_COMMITS_A_SECOND = 500
_FULL_TILT = 0
_KEPT = Target(">=", 0.95)


def _application(room: Room, seconds: float, rate: int) -> float:
    return float(call(room, "application", "raw", seconds=seconds, rate=rate)["rate"])


def _round(run: Run) -> dict[str, float]:
    """One file, one application: alone, beside a sleeping worker, alone again (a drift of 5 % is usual)."""
    seconds = run.seconds(5, 0.2)
    with run.room() as room:
        call(room, "prime", "nextdue", hour_ahead=True)
        paced_alone = _application(room, seconds, _COMMITS_A_SECOND)
        tilt_before = _application(room, seconds, _FULL_TILT)
        with working(room, "nextdue") as worker:
            time.sleep(run.seconds(0.5, 0.1))
            with Role(room, "application", "raw", seconds=seconds, rate=_COMMITS_A_SECOND) as application:
                before = procfs.usage(worker.pid)
                application.go()
                paced = float(application.result()["rate"])
                used = procfs.usage(worker.pid).since(before)
            tilt = _application(room, seconds, _FULL_TILT)
        tilt_after = _application(room, seconds, _FULL_TILT)
    return {
        "cpu": used.cpu_ns / 1e9 / seconds * 100,
        "paced": paced,
        "paced alone": paced_alone,
        "tilt": tilt,
        "tilt alone": (tilt_before + tilt_after) / 2,
    }


def beside(run: Run) -> list[Line]:
    rounds = run.interleave({"nextdue": partial(_round, run)}).get("nextdue", [])

    def of(key: str) -> list[float]:
        return [answer[key] for answer in rounds]

    def kept(what: str, key: str) -> Line:
        alone = of(f"{key} alone")
        return Line(
            "beside", what, "commits/s", middle(of(key)), _KEPT, ratio(of(key), alone), "of alone",
            middle(alone), "application alone",
        )  # fmt: skip

    return [
        Line(
            "beside",
            "worker's CPU beside 500 commits/s to its file",
            "%",
            middle(of("cpu")),
            Target("<", 2.0),
        ),
        kept("what the application keeps at 500/s", "paced"),
        kept("what the application keeps at full tilt", "tilt"),
    ]


def _raw_sql(run: Run, side: str) -> Spread:
    samples = run.scale(200, 10)
    if side == "raw":
        return notification(run, samples)
    with run.room() as room:
        call(room, "prime", "nextdue")
        with ExitStack() as stack:
            if side == "nextdue beside":
                # longer than the samples take; whatever of it is left then is ended by its pid
                role = Role(room, "application", "raw", seconds=120, rate=_COMMITS_A_SECOND)
                stack.enter_context(role).go()
            stack.enter_context(working(room, "nextdue"))
            puts = stack.enter_context(Role(room, "raw-sql", "raw", count=samples, seed=run.seed))
            puts.go()
            returned = puts.result()["returned"]
        return spread(delays_ms(room, returned))


def raw_sql(run: Run) -> list[Line]:
    sides = ("nextdue quiet", "raw", "nextdue beside")
    spreads = run.interleave({side: partial(_raw_sql, run, side) for side in sides})

    def line(what: str, side: str, key: str, target: Target | None) -> Line:
        ours, raw = (middle(getattr(s, key) for s in spreads.get(name, [])) for name in (side, "raw"))
        return Line("raw-sql", what, "ms", ours, target, beside=raw, beside_name="raw inotify")

    quiet, busy = "a task put by INSERT, quiet file, ", "a task put by INSERT, beside 500 commits/s, "
    return [
        line(quiet + "p50", "nextdue quiet", "median", None),
        line(quiet + "p99", "nextdue quiet", "p99", Target("<=", 2.0)),
        line(busy + "p50", "nextdue beside", "median", None),
        line(busy + "p99", "nextdue beside", "p99", Target("<=", 25.0)),
    ]


FIGURES = (
    Figure("beside", "beside an application committing 500/s and at full tilt: CPU, what it keeps", beside),
    Figure("raw-sql", "a task put by raw SQL starts: on a quiet file, beside that application", raw_sql),
)
