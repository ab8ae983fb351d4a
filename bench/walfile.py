"""Counting commits where they are: in the -wal, whose frames say which of them ends a transaction.

https://www.sqlite.org/fileformat2.html#the_write_ahead_log: a header of 32 bytes, then frames of 24 bytes and a page.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">8xI4x8s8x")
_FRAME = struct.Struct(">4xI8s8x")


class Commits(NamedTuple):
    """`salt` is another one as soon as the file was begun anew, with a count from 0."""

    salt: bytes
    count: int


def commits(database: Path) -> Commits:
    """The transactions in the -wal of this database. While nobody writes."""
    data = database.with_name(database.name + "-wal").read_bytes()
    page_size, salt = _HEADER.unpack_from(data)
    count = 0
    for at in range(_HEADER.size, len(data) - _FRAME.size - page_size + 1, _FRAME.size + page_size):
        size_after_commit, own = _FRAME.unpack_from(data, at)
        if own != salt:
            break  # what is left of a longer file before this one
        count += size_after_commit > 0
    return Commits(salt, count)
