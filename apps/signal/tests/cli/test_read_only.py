"""A folder in which nothing can be written: each command says so in one line, and leaves all as it was."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.signal.tests.cli.conftest import SIGNAL, Folder, clean_env

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="root's powers are dropped as Linux does it")


def obey_permissions() -> None:
    """In a child that is about to run a command: root too is bound by the modes of files then."""
    if os.geteuid() == 0:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if ctypes.CDLL(None, use_errno=True).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a power of root can't be dropped")


@pytest.fixture
def locked(folder: Folder) -> Iterator[Path]:
    """A folder with entries, at rest, that may be read only; beside it lists to import."""
    folder.run("worker", "--once")
    folder.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not (folder.path / "signal.db-wal").exists()
    (folder.path / "in.opml").write_text('<opml><body><outline xmlUrl="https://a.example/feed"/></body></opml>')
    folder.path.chmod(0o555)
    yield folder.path
    folder.path.chmod(0o755)


def state(path: Path) -> list[tuple[str, bytes]]:
    return [(str(file), file.read_bytes()) for file in sorted(path.rglob("*")) if file.is_file()]


@pytest.mark.parametrize(
    "argv",
    [
        "init", "add https://a.example/feed", "list", "refresh fixture-rss --by me", "pause fixture-rss",
        "resume fixture-rss", "worker --once", "why fixture-rss", "queue", "show 1", "reject 1", "search rain",
        "approve 1 --fingerprint d61ad98b2ddf", "publish out", "import in.opml", "export out.opml",
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_told(locked: Path, argv: str) -> None:
    before = state(locked)
    done = subprocess.run(
        [SIGNAL, *argv.split()], cwd=locked, env=clean_env(), stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", timeout=60, check=False, preexec_fn=obey_permissions,
    )  # fmt: skip
    (said,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert "signal.db can't be used: attempt to write a readonly database; SQLite must be able to write" in said or (
        "signal.db can't be written (file, directory or medium is read-only)" in said
    )
    assert state(locked) == before
