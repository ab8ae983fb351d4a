"""How long it takes to find the next occurrence of a cron expression, and what was missed in three years."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.harness import Figure, Line, Run, Target, middle
from nextdue import Cron
from nextdue.schedule import forward, plan_of

_USUAL = ("0 3 * * *", "*/5 * * * *", "30 2 * * MON-FRI", "0 0 1 * *", "15,45 9-17 * * *")
_RAREST = "0 0 29 2 5#5"  # it comes once in 28 years, and not always then
_START_MS = 1_796_083_200_000  # 2026-12-01
_THREE_YEARS_MS = 3 * 365 * 86_400_000
_APART_MS = 61 * 60_000


def _each(count: int, step: Callable[[int], object]) -> float:
    """Microseconds of a step."""
    began = time.perf_counter()
    for n in range(count):
        step(_START_MS + n * _APART_MS)
    return (time.perf_counter() - began) / count * 1e6


def _usual(run: Run) -> float:
    crons = [Cron(expr, tz="Europe/Berlin") for expr in _USUAL]
    return max(_each(run.scale(4000, 400), cron.next_ms) for cron in crons)


def _rarest(run: Run) -> float:
    return _each(run.scale(400, 40), Cron(_RAREST, tz="Europe/Berlin", day_and=True).next_ms)


def _missed(run: Run) -> float:
    plan = plan_of(Cron("* * * * *", tz="Europe/Berlin"), missed="all")
    return _each(run.scale(20, 3), lambda at: forward(plan, at, at + _THREE_YEARS_MS)) / 1000


def calendar(run: Run) -> list[Line]:
    took = run.interleave(
        {
            "nextdue usual": lambda: _usual(run),
            "nextdue rarest": lambda: _rarest(run),
            "nextdue missed": lambda: _missed(run),
        }
    )
    usual, rarest, missed = (middle(took.get(f"nextdue {kind}")) for kind in ("usual", "rarest", "missed"))
    return [
        Line("calendar", "next of a usual expression, the slowest of five", "us", usual, Target("<=", 50.0)),
        Line("calendar", f"next of the rarest, `{_RAREST}` with day_and", "us", rarest, Target("<=", 5000.0)),
        Line("calendar", "what is to run after three years of `* * * * *`", "ms", missed, Target("<=", 50.0)),
    ]


FIGURES = (Figure("calendar", "cron: the next occurrence, and what was missed", calendar),)
