import importlib
import os
import subprocess
import sys
import textwrap
import time

import pytest

from nextdue.cli.main import main

SHOP = """
    import os
    from pathlib import Path
    from nextdue import Nextdue

    nd = Nextdue(Path(__file__).with_name("shop.db"))
    second = nd
    number = 5

    @nd.task(aliases=("bill",))
    def receipt(order: int, note: str = "") -> None:
        if order == 13:
            raise ValueError("unlucky")
        print("receipt", order, flush=True)

    @nd.task(queue="mail")
    def letter(to: str) -> None:
        print("letter", to, flush=True)
"""


class Shop:
    """A folder with an application `shop:nd`, imported here under that name only by this test."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "shop.db"

    def write(self, text, name="shop.py"):
        (self.folder / name).write_text(textwrap.dedent(text), "utf-8")

    @property
    def nd(self):
        return importlib.import_module("shop").nd

    def sql(self, statement, params=()):
        """Raw SQL on the tables, past every check."""
        with self.nd.caller.use() as store:
            connection = store.database.connection
            connection.execute("PRAGMA ignore_check_constraints=ON")
            return connection.execute(statement, params).fetchall()

    def popen(self, *args, env=None, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        command = [sys.executable, "-m", "nextdue", *map(str, args)]
        return subprocess.Popen(command, cwd=self.folder, env=os.environ | (env or {}), **options)

    def run(self, *args, **options):
        """A real process; answers its exit code, stdout and stderr."""
        with self.popen(*args, **options) as process:
            try:
                out, err = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, out, err


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("NEXTDUE", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    importlib.invalidate_caches()
    made = Shop(tmp_path)
    made.write(SHOP)
    yield made
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
            if name == "shop":
                module.nd.close()
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def cli(capsys):
    """Run main() here; answers the exit code, stdout and stderr."""

    def run(*args):
        code = main([str(arg) for arg in args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
