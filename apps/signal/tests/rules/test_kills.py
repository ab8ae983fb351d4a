"""kill -9 at random points of a collection: either all of an attempt is there or nothing of it."""

import random
import signal as signals
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from apps.signal.tests.behaviours import conditional, feed
from apps.signal.tests.rules.conftest import QUIET
from apps.signal.tests.server import Server
from signal_feeds.app import Signal

SOURCES, ENTRIES, KILLS = 300, 3, 6
COMMAND = "from signal_feeds.cli.main import main; raise SystemExit(main())"


@contextmanager
def worker(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A real one, over the network, for what is due."""
    arguments = [sys.executable, "-c", COMMAND, "--folder", str(folder), "worker", "--once", "--network"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    """With 300 sources that are due, each on a host of its own."""
    server.put("/feed", conditional(feed(ENTRIES), etag='"1"'))
    (tmp_path / "signal.toml").write_text('allow_net = ["127.0.0.0/8"]\n' + QUIET)
    signal = Signal(tmp_path)
    signal.install()
    for number in range(SOURCES):
        source = signal.add(server.url("/feed", f"127.1.{number // 200}.{number % 200 + 1}"), f"s{number:03}")
        task = signal.nd.get("collect", source.id)
        assert task is not None
        task.run_now()
    signal.close()
    return tmp_path


def test_kills_at_random_points_of_a_collection(folder: Path, server: Server) -> None:
    """No validator without its entries, no source asked again once it was collected, no entry twice."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}; the database is {folder / 'signal.db'}")
    dice = random.Random(seed)
    for _ in range(KILLS):
        with worker(folder) as process:
            assert process.stdout is not None
            for _ in range(dice.randint(0, 2 * SOURCES // KILLS // 3)):
                if not process.stdout.readline():
                    break
            time.sleep(dice.uniform(0, 0.03))
            process.send_signal(signals.SIGKILL)
        sound(folder, server)
    end = time.monotonic() + 30  # those that a death hit come again after a back-off and the spacing of their host
    while (collected := sound(folder, server)) + twice_killed(folder) < SOURCES:
        assert time.monotonic() < end, f"{collected} of {SOURCES} are collected"
        with worker(folder) as process:
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
    assert collected >= SOURCES * 3 // 4
    checked = [sys.executable, "-m", "nextdue", "check", str(folder / "signal.db")]
    assert subprocess.run(checked, capture_output=True, check=False).returncode == 0


def sound(folder: Path, server: Server) -> int:
    """What must hold after any death; how many sources are collected."""
    with closing(sqlite3.connect(folder / "signal.db")) as database:

        def one(sql: str) -> int:
            return int(database.execute(sql).fetchone()[0])

        collected = one("SELECT count(*) FROM source WHERE digest IS NOT NULL")
        assert one("SELECT count(*) FROM source WHERE (digest IS NULL) <> (etag IS NULL)") == 0
        assert one("SELECT count(*) FROM source WHERE (digest IS NULL) <> (last_ok IS NULL)") == 0
        assert one("SELECT count(*) FROM attempt WHERE reason IS NULL") == collected
        whole = (
            "SELECT count(*) FROM source s WHERE digest IS NOT NULL"
            " AND (SELECT count(*) FROM entry WHERE source = s.number) = "
        )
        assert one(f"{whole}{ENTRIES}") == collected
        for table in ("entry", "revision", "words"):
            assert one(f"SELECT count(*) FROM {table}") == ENTRIES * collected
        crashed = dict(
            database.execute("SELECT key, count(*) FROM nextdue_runs WHERE outcome = 'crashed' GROUP BY key")
        )
        rows = database.execute("SELECT id, url, digest IS NOT NULL FROM source").fetchall()
        early = (
            "SELECT count(*) FROM sources v JOIN source s USING (id) WHERE digest IS NOT NULL AND next_due < {} + 1799"
        )
        assert one(early.format("s.last_ok / 1000")) == 0
    asked: dict[str, int] = {}
    for request in server.seen("/feed"):
        asked[request.address] = asked.get(request.address, 0) + 1
        assert request.header("if-none-match") is None  # once it is collected it isn't asked again in this test
    for id, url, is_collected in rows:
        times = asked.get(url.split("//")[1].split(":")[0], 0)
        assert times >= is_collected
        assert times <= crashed.get(id, 0) + 1 + (not is_collected), (id, times, crashed.get(id))
    return collected


def twice_killed(folder: Path) -> int:
    """Those whose worker died twice over them: they wait as after a fault of our own."""
    with closing(sqlite3.connect(folder / "signal.db")) as database:
        sql = "SELECT count(*) FROM source WHERE digest IS NULL AND faults > 0 AND last_error = 'internal'"
        return int(database.execute(sql).fetchone()[0])
