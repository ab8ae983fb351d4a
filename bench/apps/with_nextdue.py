"""The application with nextdue; its worker is `python -m nextdue worker bench.apps.with_nextdue:nd`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bench import records
from bench.apps import bodies
from nextdue import Nextdue

nd = Nextdue(records.database())

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@nd.task(name="noop")
def noop(number: int) -> None:
    pass


@nd.task(name="stamp")
def stamp(number: int) -> None:
    bodies.stamp(number)


@nd.task(name="work")
def work(number: int, milliseconds: int) -> None:
    bodies.work(number, milliseconds)


@nd.task(name="spin")
def spin(milliseconds: int) -> None:
    bodies.spin(milliseconds)


def put(number: int) -> None:
    noop.enqueue(number)


def put_many(count: int) -> Callable[[], object]:
    rows = [(number,) for number in range(count)]
    return lambda: noop.enqueue_many(rows)


def put_stamp(number: int) -> None:
    stamp.enqueue(number)


def put_stamp_at(number: int, due_ms: int) -> None:
    stamp.using(due=_EPOCH + timedelta(milliseconds=due_ms)).enqueue(number)


def put_work(number: int, milliseconds: int) -> None:
    work.enqueue(number, milliseconds)


def put_spins(count: int, milliseconds: int) -> None:
    spin.enqueue_many([(milliseconds,)] * count)
