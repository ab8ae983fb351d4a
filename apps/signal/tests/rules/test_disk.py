"""A disk that fills beside a real worker and a real `publish`: a small tmpfs, where one can be mounted."""

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.signal.tests.behaviours import feed, message
from apps.signal.tests.cli.conftest import Folder
from apps.signal.tests.rules.conftest import QUIET
from apps.signal.tests.server import Exchange, Script, Server
from signal_feeds.app import Signal
from tests.process.test_full import mount

ENTRIES = 20
EARLY, LATE = ["a1", "a2", "a3"], ["b1", "b2", "b3"]


class Small(Folder):
    """A folder on a disk of 3 MB. The sources of LATE answer once `gate` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()

    def held(self, name: str) -> Script:
        whole = message(200, feed(ENTRIES, name, f"{name}-"), {"ETag": f'"{name}"'})

        async def script(exchange: Exchange) -> None:
            while name in LATE and not self.gate.is_set():
                await asyncio.sleep(0.005)
            await exchange.send(whole)

        return script

    def due_now(self, *names: str) -> None:
        signal = Signal(self.path)
        for name in names:
            task = signal.nd.get("collect", name)
            assert task is not None
            task.run_now()
        signal.close()

    def fill(self) -> None:
        with open(self.path / "ballast", "wb", buffering=0) as file:
            for size in (4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def empty(self) -> None:
        (self.path / "ballast").unlink()

    def published(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (self.path / "out").iterdir()}

    def collected(self) -> set[str]:
        """The sources that are collected; none has validators without its entries, or these without those."""
        rows = self.sql("SELECT id, etag, digest, (SELECT count(*) FROM entry WHERE source = s.number) FROM source s")
        for id, etag, digest, entries in rows:
            assert (etag is None, digest is None, entries) in [(True, True, 0), (False, False, ENTRIES)], id
        return {id for id, etag, *_ in rows if etag}


@pytest.fixture
def small(tmp_path: Path, server: Server) -> Iterator[Small]:
    """With all of EARLY and LATE due."""
    path = tmp_path / "small"
    path.mkdir()
    if not hasattr(os, "getuid") or os.getuid() or not mount("-t", "tmpfs", "-o", "size=3m", "none", str(path)):
        pytest.skip("no file system can be mounted here")
    folder = Small(path)
    try:
        folder.settings(QUIET)
        signal = Signal(path)
        signal.install()
        for number, name in enumerate([*EARLY, *LATE], 1):
            server.put(f"/{name}", folder.held(name))
            signal.add(server.url(f"/{name}", f"127.0.8.{number}"), name)
        signal.close()
        folder.due_now(*EARLY, *LATE)
        yield folder
    finally:
        for program in folder.programs:
            program.clean_up()
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_disk_that_fills_in_mid_collection(small: Small, server: Server) -> None:
    """F063, acceptance 2: no validator without its entries, nobody blamed; with space the worker goes on by itself."""
    worker = small.start("worker", "--network", "--allow-net", "127.0.0.0/8")
    for name in EARLY:
        worker.says(f"{name}  200")
    small.fill()
    small.gate.set()
    worker.says("is full; nothing was stored; waiting for it, nothing is lost")
    assert small.collected() == set(EARLY)
    assert "nothing was stored" in small.run("add", "https://example.org/feed.xml", code=1)
    small.run("list")
    small.empty()
    worker.says("the store is back; work goes on")
    for name in LATE:
        worker.says(f"{name}  failed  store: our own file couldn't be written")
    assert small.sql("SELECT sum(failures), sum(last_error IS NOT NULL) FROM source") == [(0, 0)]
    assert small.collected() == set(EARLY)
    small.due_now(*LATE)
    for name in LATE:
        worker.says(f"{name}  200")
    assert small.collected() == {*EARLY, *LATE}
    assert [len(server.seen(f"/{name}")) for name in (*EARLY, *LATE)] == [1] * 3 + [2] * 3
    assert worker.terminate() == 0
    assert "Traceback" not in worker.text


def test_publishing_on_a_full_disk_leaves_what_is_published(small: Small) -> None:
    """The old files stay whole, nothing lies beside them, and it works once there is space."""
    small.gate.set()
    worker = small.start("worker", "--network", "--allow-net", "127.0.0.0/8")
    for name in (*EARLY, *LATE):
        worker.says(f"{name}  200")
    shown = small.run("queue", "--limit", "3")
    approvals = [line.split()[2:] for line in shown.splitlines() if line.strip().startswith("signal approve")]
    small.run("approve", *approvals[0])
    small.run("publish", "out")
    before = small.published()
    for words in approvals[1:]:
        small.run("approve", *words)
    small.fill()
    assert "can't be written (No space left on device); nothing was written" in small.run("publish", "out", code=1)
    assert small.published() == before
    assert worker.terminate() == 0
    small.fill()
    for words in (["publish", "out"], ["worker", "--once"]):  # now not even the file's log can be made
        said = small.run(*words, code=1)
        assert "full" in said, said
    assert small.published() == before
    small.empty()
    small.run("publish", "out")
    assert all(before[name] != content for name, content in small.published().items())
