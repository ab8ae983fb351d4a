"""The recorder and the rules of the disk, by small programs whose fate is known."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from tests.powercut import trace
from tests.powercut.disk import Disk, Kept
from tests.powercut.judge import cuts, quick, write
from tests.powercut.trace import Step, Unknown

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="strace is Linux's")


def steps_of(code, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    begin = f"import os\nA, B, HERE = {str(disk / 'a')!r}, {str(disk / 'b')!r}, {str(disk)!r}\n"
    trace.record([sys.executable, "-c", begin + code], disk, tmp_path / "recording")
    return trace.steps(tmp_path / "recording", disk)


def images(steps, numbers=60):
    """Every image that a power cut at the end may leave, of the first so many."""
    *_, (_, disk, _) = cuts(steps)
    return [disk.image(disk.choice(number, "1")) for number in range(numbers)]


NEW = "fd = os.open(A, os.O_CREAT | os.O_RDWR)\n"
FOLDER = "os.fsync(os.open(HERE, os.O_RDONLY))\n"


def test_what_is_synced_is_there(tmp_path):
    code = NEW + "os.write(fd, b'x' * 1000)\nos.fsync(fd)\n" + FOLDER
    assert images(steps_of(code, tmp_path), 5) == [{"a": b"x" * 1000}] * 5


def test_what_is_not_synced_may_be_lost_torn_or_late(tmp_path):
    code = NEW + FOLDER + "os.write(fd, b'x' * 1024)\nos.write(fd, b'y' * 10)\n"
    found = [image["a"] for image in images(steps_of(code, tmp_path))]
    assert {b"", b"x" * 1024 + b"y" * 10, b"\0" * 1024 + b"y" * 10} <= set(found)
    assert b"x" * 512 + b"\0" * 512 + b"y" * 10 in found
    assert any(b"\xa5" in content for content in found)


def test_a_name_needs_an_fsync_of_its_folder(tmp_path):
    code = NEW + FOLDER + "new = os.open(B, os.O_CREAT | os.O_RDWR)\nos.write(new, b'n')\nos.fsync(new)\n"
    found = images(steps_of(code + "os.rename(B, A)\n", tmp_path))
    assert {"a": b""} in found
    assert {"a": b"n"} in found
    assert all(image["a"] in (b"", b"n") for image in found)


def test_an_fsync_keeps_only_what_had_ended_before_it_began():
    disk = Disk()
    disk.begin(Step("open", 1, 1, "a"))
    disk.begin(Step("write", 2, 5, "a", data=b"in flight"))
    sync = Step("sync", 4, 6, "a")
    disk.sync(sync)
    assert disk.names == {}
    assert [change.step.kind for change in disk.pending] == ["open", "write"]
    disk.sync(sync._replace(begun=7, ended=8))
    disk.sync(Step("sync", 9, 9, "."))
    assert disk.image(Kept("", {})) == {"a": b"in flight"}


def test_an_unlinked_file_may_come_back(tmp_path):
    code = NEW + "os.write(fd, b'old')\nos.fsync(fd)\n" + FOLDER + "os.unlink(A)\nos.close(fd)\n"
    again = "fd = os.open(A, os.O_CREAT | os.O_RDWR)\nos.pwrite(fd, b'new', 2)\nos.ftruncate(fd, 4)\n"
    found = [image.get("a") for image in images(steps_of(code + again, tmp_path))]
    assert {b"old", None, b"\0\0ne", b""} <= set(found)


def test_threads_write_into_each_other(tmp_path):
    """Calls of which the beginning and the end stand on two lines of the recording."""
    code = (
        "import threading\n"
        "def write(n):\n"
        "    fd = os.open(f'{HERE}/f{n}', os.O_CREAT | os.O_RDWR)\n"
        "    for i in range(200): os.pwrite(fd, bytes([n]) * 3000, i * 3000); os.fsync(fd)\n"
        "threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    steps = steps_of(code, tmp_path)
    assert any(step.begun != step.ended for step in steps)
    *_, (_, disk, _) = cuts(steps)
    assert disk.image(disk.all()) == {f"f{n}": bytes([n]) * 600_000 for n in range(4)}


@pytest.mark.parametrize(
    "code",
    [
        "import mmap\nos.ftruncate(fd, 9)\nmmap.mmap(fd, 9)[0:1] = b'x'\n",
        "os.symlink(A, B)\n",
        "os.posix_fallocate(fd, 0, 100)\n",
        "os.rename(A, HERE + '.out')\n",
        "os.open(A, os.O_WRONLY | os.O_APPEND)\n",
        "os.chdir(HERE)\nos.unlink('a')\n",
        "other = os.open(B, os.O_CREAT | os.O_RDWR)\nos.sendfile(other, fd, 0, 10)\n",
    ],
)
def test_what_the_recorder_does_not_know_is_refused(code, tmp_path):
    with pytest.raises(Unknown):
        steps_of(NEW + code, tmp_path)


@pytest.mark.parametrize(("level", "lost"), [("FULL", True), ("EXTRA", False)])
def test_the_disk_is_as_weak_as_sqlite_says(level, lost, tmp_path):
    """https://sqlite.org/pragma.html#pragma_synchronous: without a WAL the last commit needs EXTRA.

    For the journal that was deleted may come back, and with it what was before the commit.
    """
    steps = steps_of(
        "import sqlite3\ndb = sqlite3.connect(A, isolation_level=None)\n"
        f"db.execute('PRAGMA synchronous={level}')\ndb.execute('CREATE TABLE t(x)')\n"
        "for n in range(3):\n    db.execute('INSERT INTO t VALUES (?)', (n,))\n"
        "    os.write(1, b'@ack %d\\n' % n)\n",
        tmp_path,
    )
    place, gone = quick(tmp_path), 0
    for _, disk, said in cuts(steps):
        for number in range(8):
            write(disk.image(disk.choice(number, "1")), place)
            with contextlib.closing(sqlite3.connect(place / "a")) as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                gone += bool(said) and db.execute("SELECT count(*) FROM t").fetchone()[0] < len(said)
    shutil.rmtree(place)
    assert bool(gone) == lost


def test_without_strace_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match=r"^the power-cut test needs strace.*apt-get install strace") as caught:
        trace.record(["true"], tmp_path / "disk", tmp_path / "recording")
    assert "\n" not in str(caught.value)


def test_where_strace_may_not_attach_one_sentence_says_so(tmp_path):
    """A program that is being traced already can't be traced once more."""
    (tmp_path / "disk").mkdir()
    code = (
        "from pathlib import Path\nfrom tests.powercut import trace\n"
        "try:\n    trace.record(['/bin/true'], Path('disk').resolve(), Path('recording'))\n"
        "except AssertionError as exc:\n    print(exc)\n"
    )
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", "/dev/null", sys.executable, "-c", code],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("the power-cut test needs strace, and a machine on which it may attach")
    assert "Operation not permitted" in done.stdout
    assert done.stdout.count("\n") == 1
