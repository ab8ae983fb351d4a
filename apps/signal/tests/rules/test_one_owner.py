"""Rule one owner: who holds the lock dials, and nobody else."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.signal.tests.behaviours import answer, feed
from apps.signal.tests.rules.conftest import QUIET
from apps.signal.tests.server import Server
from signal_feeds.app import Signal

SIGNAL, NEXTDUE = (str(Path(sys.executable).with_name(name)) for name in ("signal", "nextdue"))
SETTINGS = 'allow_net = ["127.0.0.0/8"]\n' + QUIET
HOLDER = "pid 12345 on somewhere, since 2026-12-01T00:00:00Z: signal worker"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Somebody holds the lock of this folder."""
    with (folder / "signal.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(HOLDER)
        file.flush()
        yield


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SIGNAL_FOLDER": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


def succeeds(folder: Path, *command: str) -> str:
    """What it prints."""
    done = run(folder, *command)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    """With a source of the server that is due."""
    server.put("/feed", answer(feed(1)))
    (tmp_path / "signal.toml").write_text(SETTINGS)
    signal = Signal(tmp_path)
    signal.install()
    signal.add(server.url("/feed"), "ada")
    task = signal.nd.get("collect", "ada")
    assert task is not None
    task.run_now()
    signal.close()
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [(SIGNAL, "worker", "--once"), (NEXTDUE, "worker", "signal_feeds:nd", "--once")],
    ids=["signal", "nextdue"],
)
def test_the_lock_is_taken_before_there_is_a_database(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Rule one owner: before the database is opened, created or migrated; a refusal names the holder."""
    (tmp_path / "signal.toml").write_text(QUIET)
    with held(tmp_path):
        refused = run(tmp_path, *command)
    assert refused.returncode == 3
    assert HOLDER in refused.stderr
    assert "delete" in refused.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"signal.lock", "signal.toml"}
    assert (tmp_path / "signal.lock").read_text() == HOLDER
    assert run(tmp_path, *command).returncode == 0  # a text without a lock means nothing
    assert (tmp_path / "signal.db").exists()


def test_no_command_dials(folder: Path, server: Server) -> None:
    """Rule one owner: only its holder dials, and not for whoever makes a source due. Rule --network off: nor it."""
    (folder / "in.opml").write_text(f'<opml><body><outline xmlUrl="{server.url("/other")}"/></body></opml>')
    commands = [
        (SIGNAL, "add", server.url("/third"), "--name", "eve"),
        (SIGNAL, "import", "in.opml"),
        (SIGNAL, "refresh", "ada", "--by", "me"),
        (SIGNAL, "init"),
        (SIGNAL, "list"),
        (SIGNAL, "why", "ada"),
        (SIGNAL, "queue"),
        (SIGNAL, "search", "entry"),
        (SIGNAL, "publish", "out"),
        (SIGNAL, "export", "out.opml"),
        (SIGNAL, "pause", "ada"),
        (SIGNAL, "resume", "ada"),
        (NEXTDUE, "run-now", "signal.db", "1"),
        (SIGNAL, "worker", "--once"),
        (NEXTDUE, "worker", "signal_feeds:nd", "--once"),
    ]
    for command in commands:
        succeeds(folder, *command)
    (folder / "signal.toml").write_text(SETTINGS.replace("fixture-rss = false", "fixture-rss = true"))
    succeeds(folder, SIGNAL, "worker", "--once")
    fingerprint = succeeds(folder, SIGNAL, "queue").split("--fingerprint ")[1].split()[0]
    succeeds(folder, SIGNAL, "show", "1", "--diff")
    succeeds(folder, SIGNAL, "approve", "1", "--fingerprint", fingerprint)
    succeeds(folder, SIGNAL, "reject", "2")
    with held(folder):
        for command in (
            (SIGNAL, "worker", "--once", "--network"),
            (NEXTDUE, "worker", "signal_feeds:nd", "-q", "http"),
        ):
            assert run(folder, *command).returncode == 3
    assert server.requests == []
    assert run(folder, SIGNAL, "worker", "--once", "--network").returncode == 0
    assert [request.path for request in server.requests] == ["/feed"]
