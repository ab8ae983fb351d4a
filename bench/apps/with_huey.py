"""The application with huey on SQLite, `fsync=True` as its documentation says for durability, else defaults.

Its consumer is `python -m huey.bin.huey_consumer bench.apps.with_huey.huey` in default settings.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from huey import SqliteHuey

from bench import records
from bench.apps import bodies

huey = SqliteHuey("bench", filename=str(records.database()), fsync=True)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@huey.task()
def noop(number: int) -> None:
    pass


@huey.task()
def stamp(number: int) -> None:
    bodies.stamp(number)


@huey.task()
def work(number: int, milliseconds: int) -> None:
    bodies.work(number, milliseconds)


@huey.task()
def spin(milliseconds: int) -> None:
    bodies.spin(milliseconds)


def put(number: int) -> None:
    noop(number)


def put_many(count: int) -> Callable[[], object]:
    """huey has no call for many: one by one, each with its own commit."""

    def one_by_one() -> None:
        for number in range(count):
            noop(number)

    return one_by_one


def put_stamp(number: int) -> None:
    stamp(number)


def put_stamp_at(number: int, due_ms: int) -> None:
    stamp.schedule(args=(number,), eta=_EPOCH + timedelta(milliseconds=due_ms))


def put_work(number: int, milliseconds: int) -> None:
    work(number, milliseconds)


def put_spins(count: int, milliseconds: int) -> None:
    for _ in range(count):
        spin(milliseconds)
