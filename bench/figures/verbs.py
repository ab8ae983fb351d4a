"""What each thing beyond a plain task in a thread costs: other executors, keys, groups, failures, finish()."""

from __future__ import annotations

import time
from functools import partial

from bench.harness import Figure, Line, Run, Target, middle, ratio
from bench.processes import Role, call, working

_AT_MOST_TIMES = Target("<=", 3.0)


def _drain(run: Run, kind: str, count: int, worker: str = "nextdue-threads") -> float:
    """From the commit of so many tasks before an idle worker until all of them are in the history."""
    with run.room() as room, Role(room, "drain-kind", "nextdue", kind=kind, count=count) as feed, working(room, worker):
        time.sleep(0.1)  # for the worker to fall asleep after its first task
        feed.go()
        return float(feed.result()["rate"])


def coroutines(run: Run) -> list[Line]:
    count = run.scale(20_000, 1000)
    rates = run.interleave(
        {
            "nextdue loop": partial(_drain, run, "coroutine", count, "nextdue-loop"),
            "nextdue threads": partial(_drain, run, "plain", count),
        }
    )
    ours, threads = rates.get("nextdue loop"), rates.get("nextdue threads")
    return [
        Line(
            "coroutines", "drain of 20,000 no-op coroutines", "tasks/s", middle(ours), Target(">=", 0.8),
            ratio(ours, threads), "of threads", middle(threads), "in threads",
        )
    ]  # fmt: skip


def children(run: Run) -> list[Line]:
    count = run.scale(8000, 500)
    rates = run.interleave({"nextdue": partial(_drain, run, "process", count, "nextdue-processes")})
    what = "drain of 8,000 no-op tasks in child processes"
    return [Line("children", what, "tasks/s", middle(rates.get("nextdue")), Target(">=", 3000))]


def kinds(run: Run) -> list[Line]:
    count = run.scale(6000, 500)
    wanted = {
        "keyed": ("a task with a key", _AT_MOST_TIMES),
        "failing": ("a task that fails for good", _AT_MOST_TIMES),
        "groups": ("a task of one of 1,000 groups, limit 8", _AT_MOST_TIMES),
        # No more than 8 can be claimed by one commit, whoever does it.
        "group": ("a task of one group, limit 8", None),
    }
    rates = run.interleave({f"nextdue {kind}": partial(_drain, run, kind, count) for kind in ("plain", *wanted)})
    plain = rates.get("nextdue plain")

    def line(kind: str, what: str, target: Target | None) -> Line:
        ours = rates.get(f"nextdue {kind}")
        return Line(
            "kinds", f"drain: {what}", "tasks/s", middle(ours), target, ratio(plain, ours),
            "times a plain one", middle(plain), "plain",
        )  # fmt: skip

    return [line(kind, what, target) for kind, (what, target) in wanted.items()]


def keys(run: Run) -> list[Line]:
    count = run.scale(3000, 200)

    def rate(kind: str) -> float:
        with run.room() as room:
            return float(call(room, "enqueue-kind", "nextdue", kind=kind, count=count)["rate"])

    rates = run.interleave({"nextdue keyed": partial(rate, "keyed"), "nextdue plain": partial(rate, "plain")})
    keyed, plain = rates.get("nextdue keyed"), rates.get("nextdue plain")
    return [
        Line(
            "keys", "enqueue with a key, one at a time", "tasks/s", middle(keyed), Target(">=", 0.6),
            ratio(keyed, plain), "of one without", middle(plain), "without",
        )
    ]  # fmt: skip


def commits(run: Run, kind: str) -> float:
    """Commits to the file for each task that is put, claimed and settled before the next one comes."""
    with (
        run.room() as room,
        Role(room, "commits", "nextdue", kind=kind, count=run.scale(25, 5)) as puts,
        working(room, "nextdue-threads"),
    ):
        puts.go()
        return float(puts.result()["commits"])


def finish(run: Run) -> list[Line]:
    names = ("finishing", "plain", "ordering")
    found = run.interleave({f"nextdue {kind}": partial(commits, run, kind) for kind in names})
    ours, plain, other = (found.get(f"nextdue {kind}") for kind in names)
    more = middle(a - b for a, b in zip(ours or (), plain or (), strict=True))
    return [
        Line(
            "finish", "a task that writes a row and finish()es, from its put to its end", "commits", middle(ours),
            Target("<=", 0), more, "more than a task without a row", middle(other), "row in a transaction of its own",
        )
    ]  # fmt: skip


FIGURES = (
    Figure("coroutines", "no-op coroutines worked off beside no-op tasks in threads", coroutines),
    Figure("children", "no-op tasks worked off in child processes", children),
    Figure("kinds", "keyed, failing and grouped tasks worked off beside plain ones", kinds),
    Figure("finish", "the commits of a task that settles itself with its row", finish),
    Figure("keys", "enqueue with a key beside enqueue without", keys),
)
