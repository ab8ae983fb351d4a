"""Ten thousand schedules due at one instant, and a day of a few changes: on demand beside a cron of every minute."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from bench import procfs
from bench.harness import Figure, Line, Run, Target, middle
from bench.processes import WORKERS, Role, call, start, stop, working

_Answer = dict[str, float]


def _count(run: Run) -> int:
    return run.scale(10_000, 500)


def _nextdue(run: Run, workers: int) -> _Answer:
    count = _count(run)
    with (
        run.room() as room,
        Role(room, "schedules-at-once", "nextdue", count=count, in_s=run.seconds(2, 0), workers=workers) as role,
        working(room, "nextdue") as first,
        ExitStack() as stack,
    ):
        others = [start(WORKERS["nextdue"], room, f"worker-{number}") for number in range(1, workers)]
        for other in others:
            stack.callback(stop, other)
        time.sleep(run.seconds(0.3, 0.1))
        before = procfs.usage(first.pid)
        role.go()
        answer = role.result()
        answer["cpu_us"] = procfs.usage(first.pid).since(before).cpu_ns / 1000 / count
    return answer


def _raw(run: Run) -> _Answer:
    with run.room() as room:
        return call(room, "due-again-raw", "raw", count=_count(run))


def minute(run: Run) -> list[Line]:
    one, two = partial(_nextdue, run, 1), partial(_nextdue, run, 2)
    took = run.interleave({"nextdue one": one, "raw": partial(_raw, run), "nextdue two": two})
    ours, both = took.get("nextdue one", []), took.get("nextdue two", [])
    wrong = sum(answer["lost"] + answer["doubled"] for answer in (*ours, *both)) if ours else None
    return [
        Line(
            "minute", "10,000 schedules due at once: the last one started", "s",
            middle(answer["last_s"] for answer in ours), Target("<=", 2.0),
            beside=middle(answer["last_s"] for answer in took.get("raw", [])),
            beside_name="raw claim 50 + due again 50",
        ),
        Line(
            "minute", "the same before two workers", "s", middle(answer["last_s"] for answer in both), Target("<=", 2.0)
        ),
        Line("minute", "10,000 schedules due at once: lost or run twice", "", wrong, Target("<=", 0)),
        Line("minute", "10,000 schedules due at once: CPU of each", "us", middle(answer["cpu_us"] for answer in ours)),
    ]  # fmt: skip


def _day(run: Run, rule: str) -> _Answer:
    with run.room() as room:
        minutes = run.scale(24 * 60, 60)
        return call(room, "day", "nextdue", rule=rule, changes=20, minutes=minutes, seed=run.seed)


def day(run: Run) -> list[Line]:
    took = run.interleave({f"nextdue {rule}": partial(_day, run, rule) for rule in ("on-demand", "cron")})

    def line(what: str, unit: str, key: str) -> Line:
        wished, always = (middle(a[key] for a in took.get(f"nextdue {rule}", [])) for rule in ("on-demand", "cron"))
        ratio = wished / always if wished is not None and always else None
        return Line(
            "on-demand", f"a day with 20 changes, on demand: {what}", unit, wished, Target("<=", 0.1), ratio,
            "of a cron", always, "`* * * * *`",
        )  # fmt: skip

    return [line("runs", "", "runs"), line("CPU", "ms", "cpu_ms")]


FIGURES = (
    Figure("minute", "10,000 schedules due at one instant", minute),
    Figure("on-demand", "a day with 20 changes: on demand beside a cron of every minute", day),
)
