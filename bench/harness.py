"""The words of the bench: a figure measures, interleaved in one run, and answers with lines of the table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from bench.rooms import Room, fresh_room

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    sense: Literal[">=", "<=", "<"]
    value: float

    def holds(self, number: float) -> bool:
        if self.sense == ">=":
            return number >= self.value
        return number < self.value if self.sense == "<" else number <= self.value


@dataclass(frozen=True)
class Line:
    """One line of the table. `judged` is the number the target speaks of; it defaults to nextdue's own."""

    figure: str
    what: str
    unit: str
    nextdue: float | None
    target: Target | None = None
    judged: float | None = None
    judged_unit: str = ""
    beside: float | None = None
    beside_name: str = ""
    huey: float | None = None

    @property
    def number(self) -> float | None:
        return self.judged if self.judged_unit else self.nextdue

    @property
    def verdict(self) -> str:
        if self.target is None or self.number is None:
            return "-"
        return "pass" if self.target.holds(self.number) else "short"


@dataclass(frozen=True)
class Run:
    """What all figures of one run share."""

    quick: bool
    sides: frozenset[str]
    base: Path
    seed: int

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 3

    def scale(self, full: int, quick: int) -> int:
        """How much of something that is counted."""
        return quick if self.quick else full

    def seconds(self, full: float, quick: float) -> float:
        """How much of something that takes its time."""
        return quick if self.quick else full

    def room(self) -> AbstractContextManager[Room]:
        return fresh_room(self.base)

    def interleave(self, sides: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
        """A B C A B C A B C: what drifts on the machine drifts for all. A key's first word names its side."""
        wanted = {name: measure for name, measure in sides.items() if name.split()[0] in self.sides}
        results: dict[str, list[T]] = {name: [] for name in wanted}
        for _ in range(self.rounds):
            for name, measure in wanted.items():
                results[name].append(measure())
        return results


@dataclass(frozen=True)
class Figure:
    name: str
    about: str
    measure: Callable[[Run], list[Line]]


def middle(values: Iterable[float] | None) -> float | None:
    """The median; None of nothing (a side that was left out)."""
    there = list(values or ())
    return statistics.median(there) if there else None


def ratio(above: Iterable[float] | None, below: Iterable[float] | None) -> float | None:
    """Median of the ratios of neighbours: the two sides of one round saw the same machine, rounds may not."""
    pairs = list(zip(above or (), below or (), strict=False))
    return statistics.median([a / b for a, b in pairs]) if pairs else None


def percentile(values: Iterable[float], percent: float) -> float:
    """Nearest rank: a value that was measured, never one between two."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
