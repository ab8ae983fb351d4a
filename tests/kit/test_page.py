"""The snippets of docs/testing.md, as the files that their first lines name, run by pytest; and its tables."""

import os
import re
import subprocess
import sys

from nextdue.points import POINTS
from nextdue.testing import sandbox
from tests.docs.pages import TOP, blocks

PAGE = TOP / "docs" / "testing.md"
TEXT = PAGE.read_text("utf-8")


def test_the_files_of_the_page_pass(tmp_path):
    named = {block.code.split("\n")[0].removeprefix("# "): block.code for block in blocks(PAGE)}
    files = {name: code for name, code in named.items() if name.endswith(".py")}
    assert len(files) == 7
    for name, code in files.items():
        (tmp_path / name).write_text(code, "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error"],
        check=False,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "shop.db").exists()
    assert list(tmp_path.glob("*.csv")) == []


def test_every_point_is_on_the_page():
    table = TEXT[TEXT.index("| point |") : TEXT.index('`crash_at("enqueue", shop.ship')]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert named == set(POINTS)


def test_the_bounds_are_those_of_the_code():
    assert f"over {sandbox.PATIENCE_S:.0f} s of real time" in TEXT
    assert f"more than {sandbox.RUNS:,} runs" in TEXT


def test_every_call_of_the_page_is_one():
    with sandbox.Sandbox() as box:
        called = re.findall(r"(?:nextdue|sandbox)\.(\w+)\(", TEXT)
        assert len(called) > 10
        assert [name for name in called if not hasattr(box, name)] == []
