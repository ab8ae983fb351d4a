"""The alarm by itself, on real files: what a stream of events must not hide."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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


@pytest.mark.skipif(sys.platform != "linux", reason="only there a call is written to a descriptor")
def test_a_call_that_comes_after_the_end_writes_into_nothing_else(tmp_path: Path) -> None:
    """The thread of a last task may still be about to call when its worker, which saw the task end, is closed."""
    path = tmp_path / "shop.db"
    store = SqliteStore(path)
    store.enlist()
    alarm: Any = make_alarm(path, store.quiet, store.database.check_file)
    alarm.close()
    others = [os.open(tmp_path / str(n), os.O_CREAT | os.O_RDWR) for n in range(20)]  # the descriptors that were free
    alarm._called, alarm._asleep = False, True  # where that thread has just looked
    alarm.call()
    number = alarm._event
    del alarm
    assert [os.fstat(fd).st_size for fd in others] == [0] * 20
    assert number not in others
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(number)
    for fd in others:
        os.close(fd)
    store.close()
