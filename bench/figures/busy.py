"""What computing Python threads do to the write lock, and so to everybody else."""

from __future__ import annotations

from functools import partial

from bench import procfs
from bench.harness import Figure, Line, Run, Target, middle, ratio
from bench.processes import Role, call, working

_SPIN_MS = 50  # short, so that the worker settles and claims all the time while it computes
_THREADS = 8  # nextdue's default concurrency
_PAUSE_MS = (2.0, 8.0)
_LEAST_BUSY = 0.5  # of one core, else nothing was measured


def _longest(run: Run, side: str) -> float:
    """Longest wait of another process's enqueue beside 8 computing tasks in a worker."""
    seconds = run.seconds(5, 0.5)
    # twice what one core can do in that time: the worker must not fall idle
    spins = (int(seconds * 1000 / _SPIN_MS * 2), _SPIN_MS)
    options = {"count": 10_000, "seconds": seconds, "pause_ms": _PAUSE_MS, "seed": run.seed}
    with run.room() as room:
        if side == "raw":
            with (
                Role(room, "enqueue", "raw", **options) as puts,
                Role(room, "spinner", "raw", seconds=seconds, threads=_THREADS) as spinner,
            ):
                spinner.go()
                puts.go()
                return float(puts.result()["longest_ms"])
        with Role(room, "enqueue", side, spins=spins, **options) as puts, working(room, side) as worker:
            before = procfs.usage(worker.pid)
            puts.go()
            longest_ms = float(puts.result()["longest_ms"])
            busy = procfs.usage(worker.pid).since(before).cpu_ns / 1e9 / seconds
    if busy < _LEAST_BUSY:
        raise RuntimeError(f"the worker computed for only {busy:.0%} of the time")
    return longest_ms


def beside_computing_tasks(run: Run) -> list[Line]:
    longest = run.interleave({side: partial(_longest, run, side) for side in ("nextdue", "raw")})
    return [
        Line(
            "busy", "another process's longest enqueue beside 8 computing tasks", "ms",
            middle(longest.get("nextdue")), Target("<=", 25.0),
            beside=middle(longest.get("raw")), beside_name="raw, beside 8 threads without a database",
        )
    ]  # fmt: skip


def _many(run: Run, busy: bool) -> float:
    options = {"count": run.scale(10_000, 1000), "repeats": run.scale(5, 2), "busy": busy}
    with run.room() as room:
        return float(call(room, "enqueue-many", "nextdue", **options)["rate"])


def many_beside_a_thread(run: Run) -> list[Line]:
    rates = run.interleave({"nextdue busy": partial(_many, run, True), "nextdue quiet": partial(_many, run, False)})
    busy, quiet = rates.get("nextdue busy"), rates.get("nextdue quiet")
    return [
        Line(
            "busy-many", "enqueue_many beside a computing thread", "tasks/s", middle(busy),
            Target(">=", 0.3), ratio(busy, quiet), "of quiet", middle(quiet), "quiet process",
        )
    ]  # fmt: skip


FIGURES = (
    Figure("busy", "enqueue of another process beside 8 computing tasks in the worker", beside_computing_tasks),
    Figure(
        "busy-many",
        "enqueue_many in a process with a computing thread beside a quiet one",
        many_beside_a_thread,
    ),
)
