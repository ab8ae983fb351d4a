"""The alarm by itself, on real files: what a stream of events must not hide."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from nextdue.ports import Woken
from nextdue.sqlite.alarm import make_alarm
from nextdue.sqlite.store import SqliteStore

NOISE = {
    "rings": "fd = os.open(path + '-wake', os.O_WRONLY)\nwhile True: os.pwrite(fd, b'x', 0)",
    "owner": "while True: os.chmod(path + '-wal', 0o600)",
    "commits": "fd = os.open(path + '-wal', os.O_RDWR)\nbyte = os.pread(fd, 1, 0)\nwhile True: os.pwrite(fd, byte, 0)",
}


def slow_look() -> None:
    """As beside a busy thread: there is always one more event when it is over."""
    time.sleep(0.005)


@pytest.mark.parametrize("noise", NOISE)
def test_events_without_a_pause_do_not_hide_the_limit(tmp_path: Path, noise: str) -> None:
    """F025, law 7: whoever rings, opens the file as root or commits all the time can't keep leases from renewal."""
    path = tmp_path / "shop.db"
    store = SqliteStore(path)
    store.enlist()
    alarm = make_alarm(path, store.quiet, store.database.check_file)
    script = f"import os\npath = {str(path)!r}\nprint(flush=True)\n{NOISE[noise]}"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            begun = time.monotonic()
            assert alarm.sleep(slow_look, 100) == Woken.LIMIT
            assert time.monotonic() - begun < 2
        finally:
            other.kill()
    alarm.close()
    store.close()
