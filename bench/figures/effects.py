"""What steps and waits cost: commits of a step, chains, a fan-in, tasks that wait for events."""

from __future__ import annotations

import time
from functools import partial

from bench import procfs
from bench.figures.verbs import commits
from bench.harness import Figure, Line, Run, Target, middle
from bench.processes import Role, working


def step(run: Run) -> list[Line]:
    names = ("step", "repeatable", "plain")
    found = run.interleave({f"nextdue {kind}": partial(commits, run, kind) for kind in names})
    plain = found.get("nextdue plain")

    def line(kind: str, what: str, most: float) -> Line:
        ours = found.get(f"nextdue {kind}")
        more = middle(a - b for a, b in zip(ours or (), plain or (), strict=True))
        return Line(
            "step", what, "commits", middle(ours), Target("<=", most), more, "more than a task without", middle(plain),
            "without a step",
        )  # fmt: skip

    return [
        line("step", "a task with a step, from its put to its end", 2),
        line("repeatable", "the same, repeatable", 1),
    ]


def after(run: Run) -> list[Line]:
    count = run.scale(10_000, 300)

    def took(role: str) -> float:
        with run.room() as room, Role(room, role, "nextdue", count=count) as feed, working(room, "nextdue-threads"):
            feed.go()
            return float(feed.result()["took"])

    found = run.interleave({f"nextdue {role}": partial(took, role) for role in ("chain", "fan-in")})
    return [
        Line("after", "a chain of 10,000 tasks", "s", middle(found.get("nextdue chain")), Target("<", 5)),
        Line("after", "a task after 10,000 others", "s", middle(found.get("nextdue fan-in")), Target("<", 2)),
    ]


def events(run: Run) -> list[Line]:
    count = run.scale(100_000, 2000)
    seconds = run.seconds(10, 1)

    def idle(many: int) -> dict[str, float]:
        with (
            run.room() as room,
            Role(room, "wait-many", "nextdue", count=many) as feed,
            working(room, "nextdue-threads") as worker,
        ):
            feed.go()
            feed.result()
            time.sleep(1)
            before = procfs.usage(worker.pid)
            time.sleep(seconds)
            used = procfs.usage(worker.pid).since(before)
            return {"switches": used.switches / seconds, "cpu": used.cpu_ns / 1e6}

    found = run.interleave({"nextdue many": partial(idle, count), "nextdue none": partial(idle, 0)})
    ours = found.get("nextdue many", [])
    none = found.get("nextdue none", [])
    return [
        Line(
            "events", "beside 100,000 tasks that wait for an event, 10 s", "switches/s",
            middle(answer["switches"] for answer in ours), Target("<", 0.2),
            beside=middle(answer["switches"] for answer in none), beside_name="none waits",
        ),
        Line(
            "events", "CPU in that time", "ms", middle(answer["cpu"] for answer in ours), Target("<", 10),
            beside=middle(answer["cpu"] for answer in none), beside_name="none waits",
        ),
    ]  # fmt: skip


FIGURES = (
    Figure("step", "the commits of a task with a step", step),
    Figure("after", "chains and a fan-in", after),
    Figure("events", "a worker beside 100,000 tasks that wait for an event", events),
)
