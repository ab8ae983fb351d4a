"""kill -9 three times over 200 tasks of 50 ms, default settings: what is lost, what happens twice."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial

from bench import records
from bench.harness import Figure, Line, Run, Target, middle
from bench.processes import WORKERS, call, start, stop
from bench.rooms import Room

_TASK_MS = 50
_KILLS = 3
# An effect this shortly before a kill may have had no commit yet: the gap that at-least-once speaks of.
_GAP_MS = 20
# A task without an effect so long after the last restart is lost. huey never looks at a popped task again, so
# that for it a shorter silence tells the same.
_LONGEST_S = 60.0
_HUEY_SILENCE_S = 5.0

_UNSETTLED = "SELECT count(*) FROM nextdue_tasks"
_SETTLED_TWICE = (
    "SELECT count(*) FROM (SELECT 1 FROM nextdue_runs WHERE outcome = 'done' GROUP BY task HAVING count(*) > 1)"
)


@dataclass(frozen=True)
class Toll:
    lost: int
    twice: int
    twice_outside_gap: int
    settled_twice: int
    done_after_s: float


@dataclass(frozen=True)
class Course:
    """Instants in monotonic ns."""

    killed: list[int]
    restarted: int
    ended: int


def _course(run: Run, room: Room, side: str, tasks: int, silence_s: float) -> Course:
    """Kill at a quarter, a half, three quarters of the effects, restart at once; wait for the rest."""
    generator = random.Random(run.seed)
    killed = []
    worker = start(WORKERS[side], room, f"worker-{side}")
    try:
        for kill in range(1, _KILLS + 1):
            records.wait_for(room.records_path, tasks * kill // (_KILLS + 1), _LONGEST_S)
            time.sleep(generator.uniform(0, _TASK_MS / 1000))
            killed.append(time.monotonic_ns())
            worker.kill()
            worker.wait()
            restarted = time.monotonic_ns()
            worker = start(WORKERS[side], room, f"worker-{side}")
        return Course(killed, restarted, _end(room, side, tasks, silence_s))
    finally:
        stop(worker)


def _end(room: Room, side: str, tasks: int, silence_s: float) -> int:
    """When every task had its effect (and with nextdue is settled); else when the last effect was seen."""
    begun = moved = time.monotonic()
    seen = 0
    while time.monotonic() - begun < _LONGEST_S and time.monotonic() - moved < silence_s:
        there = records.count(room.records_path)
        if there != seen:
            seen, moved = there, time.monotonic()
        if there >= tasks and len({r.number for r in room.records()}) == tasks and _settled(room, side):
            return time.monotonic_ns()
        time.sleep(0.005)
    return int(moved * 1e9)


def _settled(room: Room, side: str) -> bool:
    return side != "nextdue" or _ask(room, _UNSETTLED) == 0


def _ask(room: Room, query: str) -> int:
    connection = sqlite3.connect(f"{room.database.as_uri()}?mode=ro", uri=True, timeout=5.0)
    try:
        return int(connection.execute(query).fetchone()[0])
    finally:
        connection.close()


def _toll(run: Run, side: str) -> Toll:
    # huey's default is one thread, 8 times as long for the same tasks: a quick run gives it fewer
    tasks = run.scale(200, 32 if side == "nextdue" else 8)
    silence_s = run.seconds(_HUEY_SILENCE_S, 0.5) if side == "huey" else _LONGEST_S
    with run.room() as room:
        call(room, "kill-feed", side, count=tasks, milliseconds=_TASK_MS)
        course = _course(run, room, side, tasks, silence_s)
        effects = room.records()
        counts = Counter(record.number for record in effects)
        first: dict[int, int] = {}
        for record in effects:
            first.setdefault(record.number, record.monotonic_ns)
        twice = [number for number, times in counts.items() if times > 1]
        outside = [n for n in twice if not any(0 <= at - first[n] <= _GAP_MS * 1e6 for at in course.killed)]
        lost = tasks - len(counts)
        return Toll(
            lost=lost,
            twice=len(twice),
            twice_outside_gap=len(outside),
            settled_twice=_ask(room, _SETTLED_TWICE) if side == "nextdue" else 0,
            done_after_s=(course.ended - course.restarted) / 1e9 if lost == 0 else _LONGEST_S,
        )


def kill(run: Run) -> list[Line]:
    tolls = run.interleave({side: partial(_toll, run, side) for side in ("nextdue", "huey")})

    def of(side: str, key: str) -> list[float]:
        return [getattr(toll, key) for toll in tolls.get(side, [])]

    def in_all(what: str, key: str, target: Target | None, huey: bool = True) -> Line:
        """Summed over the rounds, not their median: one loss in any round is one too many."""
        ours, theirs = of("nextdue", key), of("huey", key)
        return Line(
            "kill", what, "tasks", sum(ours) if ours else None, target,
            huey=sum(theirs) if theirs and huey else None,
        )  # fmt: skip

    done, huey_done = middle(of("nextdue", "done_after_s")), middle(of("huey", "done_after_s"))
    if sum(of("huey", "lost")):
        huey_done = None  # what is lost is never done
    none = Target("<=", 0)
    return [
        in_all("killed 3 times over 200 tasks: lost, all rounds", "lost", none),
        in_all("killed 3 times: settled twice, all rounds", "settled_twice", none, huey=False),
        in_all("killed 3 times: effect twice, all rounds", "twice", None),
        in_all("killed 3 times: effect twice outside the gap before the commit", "twice_outside_gap", none),
        Line("kill", "all done after the last restart", "s", done, Target("<=", 2.0), huey=huey_done),
    ]


FIGURES = (Figure("kill", "kill -9 three times over 200 tasks: lost, twice, done again after", kill),)
