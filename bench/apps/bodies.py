"""What the tasks do: one set of bodies for all sides."""

from __future__ import annotations

import contextlib
import sqlite3
import time

from bench import records

ORDERS = "CREATE TABLE IF NOT EXISTS shop_order(id INTEGER PRIMARY KEY, note TEXT)"
ORDER = "INSERT INTO shop_order(note) VALUES ('one more order')"


def stamp(number: int) -> None:
    monotonic_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    records.append(number, monotonic_ns, wall_ns)


def work(number: int, milliseconds: int) -> None:
    time.sleep(milliseconds / 1000)
    records.append(number, time.monotonic_ns(), time.time_ns())


def spin(milliseconds: int) -> None:
    """Plain Python that wants the interpreter lock all the time, for `milliseconds` of its thread's CPU."""
    end = time.thread_time() + milliseconds / 1000
    while time.thread_time() < end:
        for _ in range(1000):
            pass


def order() -> None:
    """A row of the user's own table, by a transaction of its own."""
    with contextlib.closing(sqlite3.connect(records.database(), timeout=5.0, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(ORDER)
