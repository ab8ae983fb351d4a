"""What a crash in the sandbox leaves is what kill -9 leaves of a real worker."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from nextdue import Nextdue
from nextdue.testing import Sandbox

SHOP = """
import os, signal, sys
from pathlib import Path
from nextdue import Nextdue, Context

HERE = Path(__file__).parent
nd = Nextdue(HERE / "shop.db")

@nd.task
def mail(ctx: Context, to: str) -> None:
    with open(HERE / "sent", "a") as file:
        file.write(to + "\\n")
    if "die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1] == "put":
    mail.using(key="k").enqueue("ada")
else:
    nd.run(1, once=True)
"""
HISTORY = "SELECT task, name, key, claim, outcome, reason, message FROM nextdue_runs ORDER BY ended_ms, claim"
ROW = "SELECT id, name, state, key, args, attempts, crashes, claims, reason, message FROM nextdue_tasks"


def seen_in(path: Path) -> list[list[tuple[object, ...]]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [connection.execute(query).fetchall() for query in (HISTORY, ROW)]


@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_the_file_tells_the_same(tmp_path, deaths):
    """F082. Three deaths, the last one alone, and the task is dead; fewer, and it is done."""
    (tmp_path / "shop.py").write_text(SHOP)

    def run(*words: str) -> int:
        return subprocess.run([sys.executable, "shop.py", *words], check=False, cwd=tmp_path, timeout=30).returncode

    assert run("put") == 0
    for _ in range(deaths):
        while run("work", "die") != -signal.SIGKILL:
            pass  # its back-off isn't over
    while seen_in(tmp_path / "shop.db")[1][0][2] not in ("done", "dead"):
        assert run("work") == 0
    real = seen_in(tmp_path / "shop.db")

    nd, sent = Nextdue("/nowhere/shop.db"), []

    @nd.task
    def mail(to: str) -> None:
        sent.append(to)

    with Sandbox() as box:
        box.use(nd)
        for _ in range(deaths):
            box.crash_at("settle")
        mail.using(key="k").enqueue("ada")
        box.advance("1m")
        simulated = seen_in(nd.path)
    assert simulated == real
    assert sent == (tmp_path / "sent").read_text().split()
