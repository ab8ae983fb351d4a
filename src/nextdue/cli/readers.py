"""Who holds a read transaction open, as the system tells: SQLite locks a byte of the -shm for each of them.

Source: https://sqlite.org/walformat.html#locks (WAL_READ_LOCK(0) to (4) are the bytes 123 to 127).
"""

import os
import time
from pathlib import Path

from nextdue.sqlite.files import beside

READ_BYTES = range(123, 128)
LOOKS = 4
PAUSE_S = 0.05


def long_readers(database: Path) -> list[str] | None:
    """The processes that hold a read transaction open for longer than a moment; None where it can't be known."""
    found = _readers(database)
    for _ in range(LOOKS - 1):
        if not found:
            break
        time.sleep(PAUSE_S)
        found = found & (_readers(database) or set())
    return None if found is None else [f"pid {pid} ({_name(pid)})" for pid in sorted(found)]


def users(database: Path) -> list[str]:
    """The processes that have the database open, as far as the system tells."""
    found = _readers(database, range(128, 129)) or set()  # UNIX_SHM_DMS: every connection holds it
    return [f"pid {pid} ({_name(pid)})" for pid in sorted(found)]


def _readers(database: Path, wanted: range = READ_BYTES) -> set[int] | None:
    try:
        shm = os.stat(beside(database, "-shm"))
        lines = Path("/proc/locks").read_text("ascii").splitlines()
    except OSError:
        return None
    place = f"{os.major(shm.st_dev):02x}:{os.minor(shm.st_dev):02x}:{shm.st_ino}"
    found = set()
    for line in lines:
        # 5: POSIX  ADVISORY  READ 4711 08:01:1234 123 123
        words = line.split()
        if len(words) == 8 and words[3] == "READ" and words[5] == place and words[4].isdecimal():
            begin, end = int(words[6]), int(words[7]) if words[7].isdecimal() else 1 << 62
            if any(begin <= byte <= end for byte in wanted) and int(words[4]) != os.getpid():
                found.add(int(words[4]))
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"
