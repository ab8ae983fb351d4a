"""How fast tasks get in: one at a time, by 8 threads, by 4 processes, 10,000 at once."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from bench.harness import Figure, Line, Run, Target, middle, ratio
from bench.processes import Role, call

# The slowest of 4 processes gets at least this part of an equal share, else it is called starved.
_FAIR_SHARE = 0.25


def _rate(run: Run, role: str, side: str, **options: Any) -> float:
    with run.room() as room:
        return float(call(room, role, side, **options)["rate"])


def enqueue(run: Run) -> list[Line]:
    count = run.scale(3000, 300)
    rates = run.interleave(
        {side: partial(_rate, run, "enqueue", side, count=count) for side in ("nextdue", "raw", "huey")}
    )
    ours, raw = rates.get("nextdue"), rates.get("raw")
    return [
        Line(
            "enqueue", "one at a time", "tasks/s", middle(ours), Target(">=", 0.75), ratio(ours, raw),
            "of raw", middle(raw), "raw insert", middle(rates.get("huey")),
        )
    ]  # fmt: skip


def threads(run: Run) -> list[Line]:
    count = run.scale(4000, 400)
    rates = run.interleave(
        {
            "nextdue 8": partial(_rate, run, "enqueue", "nextdue", count=count, threads=8),
            "nextdue 1": partial(_rate, run, "enqueue", "nextdue", count=count, threads=1),
        }
    )
    eight, one = rates.get("nextdue 8"), rates.get("nextdue 1")
    return [
        Line(
            "threads", "enqueue by 8 threads", "tasks/s", middle(eight), Target(">=", 2.0), ratio(eight, one),
            "of one thread", middle(one), "one thread",
        )
    ]  # fmt: skip


def _together(run: Run, side: str) -> dict[str, float]:
    """4 processes enqueue into one file for the same seconds."""
    seconds = run.seconds(3, 0.4)
    with run.room() as room, ExitStack() as stack:
        roles = [stack.enter_context(Role(room, "enqueue", side, count=50_000, seconds=seconds)) for _ in range(4)]
        for role in roles:
            role.go()
        answers = [role.result() for role in roles]
    done = [answer["done"] for answer in answers]
    return {
        "longest_ms": max(answer["longest_ms"] for answer in answers),
        "least_share": min(done) / (sum(done) / len(done)),
        "errors": sum(answer["errors"] for answer in answers),
        "rate": sum(answer["rate"] for answer in answers),
    }


def processes(run: Run) -> list[Line]:
    answers = run.interleave({side: partial(_together, run, side) for side in ("nextdue", "raw")})

    def of(side: str, key: str) -> list[float]:
        return [answer[key] for answer in answers.get(side, [])]

    def line(what: str, unit: str, key: str, target: Target | None) -> Line:
        ours, raw = middle(of("nextdue", key)), middle(of("raw", key))
        return Line("processes", what, unit, ours, target, beside=raw, beside_name="raw, SQLite's own wait")

    return [
        line("4 at once: longest wait of one enqueue", "ms", "longest_ms", Target("<", 50.0)),
        line(
            "4 at once: the slowest one's part of an equal share",
            "x",
            "least_share",
            Target(">=", _FAIR_SHARE),
        ),
        line("4 at once: enqueues that failed", "", "errors", Target("<=", 0)),
        line("4 at once: all together", "tasks/s", "rate", None),
    ]


def enqueue_many(run: Run) -> list[Line]:
    options = {"count": run.scale(10_000, 1000), "repeats": run.scale(5, 2)}
    rates = run.interleave(
        {
            "nextdue": partial(_rate, run, "enqueue-many", "nextdue", **options),
            "raw": partial(_rate, run, "enqueue-many", "raw", **options),
            "raw bare": partial(_rate, run, "enqueue-many", "raw", index=False, **options),
        }
    )
    ours, raw, bare = rates.get("nextdue"), rates.get("raw"), rates.get("raw bare")
    what = "10,000 by one enqueue_many"
    return [
        Line(
            "many", what, "tasks/s", middle(ours), Target(">=", 0.8), ratio(ours, raw), "of raw",
            middle(raw), "raw executemany",
        ),
        Line(
            "many", what, "tasks/s", middle(ours), None, ratio(ours, bare), "of raw",
            middle(bare), "raw, no index at all",
        ),
    ]  # fmt: skip


FIGURES = (
    Figure("enqueue", "one enqueue at a time beside raw insert-one-per-transaction", enqueue),
    Figure("threads", "enqueue by 8 threads beside one thread", threads),
    Figure("processes", "enqueue by 4 processes at once: longest wait, nobody starved", processes),
    Figure("many", "enqueue_many of 10,000 beside raw executemany", enqueue_many),
)
