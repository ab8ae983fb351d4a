"""What tasks leave behind: fixed-size records appended to one file, so that their count is the file's size.

A task takes its clocks first and writes afterwards; the write is no part of what is measured. One write() of
24 bytes with O_APPEND is never torn or interleaved, whichever thread, process or killed worker makes it.
"""

from __future__ import annotations

import os
import struct
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

DATABASE_VARIABLE = "NEXTDUE_BENCH_DATABASE"
RECORDS_VARIABLE = "NEXTDUE_BENCH_RECORDS"

# The record by which a worker shows that it is up; figures ignore negative numbers.
READY = -1

_LAYOUT = struct.Struct("<qqq")


class Record(NamedTuple):
    """`monotonic_ns` is CLOCK_MONOTONIC, which all processes of one Linux machine share."""

    number: int
    monotonic_ns: int
    wall_ns: int


class WaitedTooLong(RuntimeError):
    """Records that were expected did not come."""


def database() -> Path:
    """The database of this process, named by whoever started it."""
    return Path(os.environ[DATABASE_VARIABLE])


def append(number: int, monotonic_ns: int, wall_ns: int) -> None:
    """Append one record to the file of this process."""
    os.write(_descriptor(), _LAYOUT.pack(number, monotonic_ns, wall_ns))


@cache
def _descriptor() -> int:
    return os.open(os.environ[RECORDS_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def count(path: Path) -> int:
    """How many records there are."""
    try:
        return path.stat().st_size // _LAYOUT.size
    except FileNotFoundError:
        return 0


def first(path: Path) -> Record:
    """The oldest record, of readiness or not."""
    return Record._make(_LAYOUT.unpack(path.read_bytes()[: _LAYOUT.size]))


def read(path: Path) -> list[Record]:
    """The records of tasks in the order they were written, without those of readiness."""
    data = path.read_bytes() if path.exists() else b""
    whole = len(data) - len(data) % _LAYOUT.size
    return [record for record in map(Record._make, _LAYOUT.iter_unpack(data[:whole])) if record.number >= 0]


def wait_for(path: Path, wanted: int, timeout_s: float) -> None:
    """Look at the file's size every millisecond until it holds `wanted` records."""
    end = time.monotonic() + timeout_s
    while (there := count(path)) < wanted:
        if time.monotonic() > end:
            raise WaitedTooLong(f"{there} of {wanted} records after {timeout_s:g} s in {path}")
        time.sleep(0.001)
