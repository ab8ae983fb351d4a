"""What a real worker does while it runs, and between its lives: rules --network off and one owner, acceptance 4."""

import os
import signal as signals
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.signal.tests.behaviours import conditional, feed
from apps.signal.tests.cli.conftest import Folder
from apps.signal.tests.rules.conftest import QUIET
from apps.signal.tests.server import Server
from signal_feeds.app import Signal
from tests.process.harness import Program, children, over, switches, until

HERE = ("--network", "--allow-net", "127.0.0.0/8")


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Iterator[Folder]:
    """With one source of the server, `ada`, that is due."""
    server.put("/ada", conditional(feed(2), etag='"1"'))
    folder = Folder(tmp_path)
    folder.settings(QUIET)
    add(folder, server, "ada")
    yield folder
    for program in folder.programs:
        program.clean_up()


def add(folder: Folder, server: Server, *names: str, net: str = "127.0.3") -> None:
    """Sources that are due, each on a host of its own."""
    signal = Signal(folder.path)
    signal.install()
    for number, name in enumerate(names, 1):
        signal.add(server.url("/ada", f"{net}.{number}"), name)
        task = signal.nd.get("collect", name)
        assert task is not None
        task.run_now()
    signal.close()


def quiet_for(pid: int, seconds: float) -> int:
    """Its context switches in so long, once it has been quiet for as long."""
    end = time.monotonic() + 30
    while True:
        before = switches(pid)
        time.sleep(seconds)
        found = switches(pid) - before
        if found < 5 or time.monotonic() > end:
            return found


def asked(folder: Folder) -> int:
    return int(folder.sql("SELECT count(*) FROM attempt")[0][0])


def collected(folder: Folder, worker: Program) -> None:
    """Wait until it has said that `ada` is collected."""
    worker.says("ada  ")


def test_without_network_nothing_spins(folder: Folder, server: Server) -> None:
    """Rule --network off: no connection, no attempt row, due untouched, no spinning, though 60 sources are due."""
    add(folder, server, *(f"s{number}" for number in range(60)), net="127.0.4")
    dues = folder.sql("SELECT id, next_due FROM sources ORDER BY id")
    folder.settings(QUIET.replace("fixture-rss = false", "fixture-rss = true"))
    worker = folder.start("worker")
    worker.says("fixture-rss  file")
    assert quiet_for(worker.pid, 1.0) < 5
    assert folder.sql("SELECT id, next_due FROM sources WHERE id <> 'fixture-rss' ORDER BY id") == dues
    assert (sum(server.connections.values()), asked(folder)) == (0, 1)
    assert worker.terminate() == 0


@pytest.mark.parametrize("number", [signals.SIGTERM, signals.SIGKILL], ids=lambda number: number.name)
def test_a_restart_never_asks_again(folder: Folder, server: Server, number: signals.Signals) -> None:
    """Acceptance 4: a restart never re-polls, however the worker before it ended."""
    worker = folder.start("worker", *HERE)
    collected(folder, worker)
    due = folder.sql("SELECT next_due FROM sources")
    for _ in range(2):
        worker.send(number)
        worker.ends()
        worker = folder.start("worker", *HERE)
        assert quiet_for(worker.pid, 0.5) < 5
        folder.run("worker", "--once", *HERE, code=3)
    assert worker.terminate() == 0
    assert "0 asked" in folder.run("worker", "--once", *HERE)
    assert (len(server.seen("/ada")), asked(folder), folder.sql("SELECT next_due FROM sources")) == (1, 1, due)


def test_the_lock_says_who_holds_it_and_no_child_inherits_it(folder: Folder) -> None:
    """Rule one owner: pid, host, start time and argv; never unlinked; the descriptor isn't inherited by children."""
    lock = folder.path / "signal.lock"
    worker = folder.start("worker", *HERE)
    collected(folder, worker)
    text, inode = lock.read_text(), lock.stat().st_ino
    assert text.startswith(f"pid {worker.pid} on {socket.gethostname()}, since 20")
    assert "worker --network --allow-net 127.0.0.0/8" in text
    parsers = children(worker.pid)
    assert parsers
    for child in parsers:
        assert lock not in [Path(os.readlink(file)) for file in Path(f"/proc/{child}/fd").iterdir()]
    worker.send(signals.SIGKILL)
    worker.ends()
    assert (lock.read_text(), lock.stat().st_ino) == (text, inode)
    assert "0 asked" in folder.run("worker", "--once", *HERE)  # a stale text without a held lock means nothing
    assert lock.stat().st_ino == inode


def test_children_end_with_a_worker_that_is_killed(folder: Folder) -> None:
    """Rule one owner: nothing of a killed worker goes on."""
    worker = folder.start("worker", *HERE)
    collected(folder, worker)
    parsers = children(worker.pid)
    assert parsers
    worker.send(signals.SIGKILL)
    worker.ends()
    until(lambda: all(over(child) for child in parsers))
