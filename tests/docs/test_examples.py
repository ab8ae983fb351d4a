"""Each example is short and does what it says, as real processes."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.docs.pages import TOP, blocks

pytestmark = pytest.mark.beside

EXAMPLES = sorted((TOP / "examples").glob("*.py"))
IGNORED = (TOP / ".gitignore").read_text("utf-8").splitlines()
WORKER = ["-m", "nextdue", "worker"]


class Programs:
    """Python programs in one directory; whatever still runs at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> "subprocess.Popen[str]":
        program = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._started.append(program)
        return program

    def run(self, *words: str) -> str:
        """Its output, once it has ended well."""
        program = self.start(*words)
        said = program.communicate(timeout=20)[0]
        assert program.returncode == 0, said
        return said

    def stop(self, program: "subprocess.Popen[str]", number: int) -> str:
        """Its output, after it ended well by a signal."""
        program.send_signal(number)
        said = program.communicate(timeout=20)[0]
        assert program.returncode == 0, said
        return said

    def made(self) -> list[str]:
        """The files that the examples have left beside themselves."""
        return [path.name for path in self.folder.iterdir() if path.is_file() and path.suffix != ".py"]

    def end(self) -> None:
        for program in self._started:
            program.kill()
            program.wait(10)
            if program.stdout is not None:
                program.stdout.close()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    for example in EXAMPLES:
        shutil.copy(example, tmp_path)
    started = Programs(tmp_path)
    yield started
    started.end()
    assert [name for name in started.made() if not any(fnmatch(f"/examples/{name}", line) for line in IGNORED)] == []


def read_until(program: "subprocess.Popen[str]", words: str) -> list[str]:
    """The lines up to the one that holds these words; the test's own time limit bounds the wait."""
    assert program.stdout is not None
    lines = []
    for line in program.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} was never said, but {lines}")


def test_examples_are_short():
    assert {path.stem for path in EXAMPLES} == {
        "adopt_table",
        "chain",
        "defer",
        "hot_counter",
        "import_in_steps",
        "inside_a_service",
        "long_task",
        "mail_once",
        "safe_export",
        "test_shop",
        "transaction",
        "transaction_django",
        "transaction_sqlalchemy",
        "two_processes",
        "untouched_entries",
        "wait_for_payment",
        "webhook",
    }
    for path in EXAMPLES:
        assert len(path.read_text("utf-8").splitlines()) <= 40, path


@pytest.mark.timeout(30)
def test_defer(programs):
    script = programs.folder / "defer.py"
    script.write_text(script.read_text("utf-8").replace('delay="5s"', 'delay="300ms"'), "utf-8")
    first = programs.start("defer.py")
    read_until(first, "is waiting")
    first.kill()
    second = programs.start("defer.py")
    lines = read_until(second, "receipt for order 42")
    assert "key='42'" in lines[0]
    assert "receipt" not in programs.stop(second, signal.SIGINT)


def test_safe_export(programs):
    assert "done 1000 orders" in programs.run("safe_export.py")
    assert len((programs.folder / "orders-2026-12-01.csv").read_text("utf-8").splitlines()) == 1001


@pytest.mark.parametrize("library", ["sqlalchemy", "django"])
def test_transaction_of_a_library(library, programs):
    assert programs.run(f"transaction_{library}.py").splitlines() == [
        "receipt for order 1",
        "orders and their receipts: [(1, 1)]",
    ]


def test_transaction(programs):
    assert programs.run("transaction.py").splitlines() == [
        "order 2: no such article",
        "receipt for order 1",
        "orders and their receipts: [(1, 1)]",
    ]


def test_long_task(programs):
    script = programs.folder / "long_task.py"
    script.write_text(script.read_text("utf-8").replace("enqueue(3)", "enqueue(1.5)"), "utf-8")
    assert programs.run("long_task.py").splitlines() == ["done in one go", "done after 1 attempt"]


@pytest.mark.timeout(30)
def test_untouched_entries(programs):
    script = programs.folder / "untouched_entries.py"
    code = script.read_text("utf-8").replace("KEPT_S = 86_400", "KEPT_S = 1").replace('"1m"', '"1s"')
    script.write_text(code, "utf-8")
    program = programs.start("untouched_entries.py")
    assert read_until(program, "forgot")[-1] == "forgot ['ada', 'bob']\n"
    assert "forgot" not in programs.stop(program, signal.SIGINT)  # one run for three touches


@pytest.mark.timeout(30)
def test_hot_counter(programs):
    script = programs.folder / "hot_counter.py"
    script.write_text(script.read_text("utf-8").replace('"10s"', '"1s"').replace("200_000", "20_000"), "utf-8")
    programs.run("hot_counter.py")
    with closing(sqlite3.connect(programs.folder / "counter.db")) as db:
        assert db.execute("SELECT name, n FROM hit ORDER BY name").fetchall() == [("about", 5_000), ("home", 15_000)]
        assert db.execute("SELECT count(*) FROM nextdue_runs WHERE outcome = 'done'").fetchone()[0] <= 8


@pytest.mark.timeout(30)
def test_adopt_table(programs):
    """Killed in the middle nothing is adopted; then all that isn't done, once, however often it is run."""
    path = programs.folder / "adopted.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE zadachi(id TEXT PRIMARY KEY, kogda INTEGER, telo TEXT, vzyato, gotovo)")
        rows = [(f"z{n}", int(time.time()) + 3600 * (n > 0), f"body {n}", None, n % 2) for n in range(2_000)]
        db.executemany("INSERT INTO zadachi VALUES (?, ?, ?, ?, ?)", rows)
    adopt = "import adopt_table as a; print(a.adopt()); a.nd.close()"
    killed = adopt.replace(
        "print(", "a.zadacha.using = lambda **k: __import__('os').kill(__import__('os').getpid(), 9); print("
    )
    died = programs.start("-c", killed)
    assert died.wait(20) == -signal.SIGKILL
    assert programs.run("-c", adopt) == "1000\n"
    assert programs.run("-c", adopt) == "0\n"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE zadachi SET vzyato = NULL")  # as if that had never been written: the keys hold
    assert programs.run("-c", adopt) == "1000\n"
    program = programs.start("adopt_table.py")
    assert "adopted 0" in read_until(program, "done body 0")[0]
    programs.stop(program, signal.SIGINT)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*), sum(due_ms > 0) FROM nextdue_tasks").fetchone() == (1000, 999)


def test_test_shop(programs):
    assert "3 passed" in programs.run("-m", "pytest", "test_shop.py")
    assert not (programs.folder / "safe_export.db").exists()


@pytest.mark.timeout(30)
def test_two_processes(programs):
    worker = programs.start(*WORKER, "two_processes:nd")
    said = programs.run("two_processes.py").splitlines()
    assert said[0].startswith("202 Accepted")
    assert said[-1] == "all sent"
    worked = programs.stop(worker, signal.SIGTERM)
    # Threads print at the same time, so a line may stand in another one; what print() writes at once stays whole.
    assert [worked.count(f"{name}@example.org") for name in ("ada", "bob", "eve")] == [1, 1, 1]


@pytest.mark.timeout(30)
def test_inside_a_service(programs):
    service = programs.start("inside_a_service.py")
    address = read_until(service, "http://")[-1].strip()
    with urllib.request.urlopen(f"{address}hello", timeout=10) as answer:
        assert answer.read() == b"hello\n"
    read_until(service, "visit to /hello")
    programs.stop(service, signal.SIGINT)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("page", ["README.md", "README.ru.md"])
def test_the_minute_of_the_readme(page, programs):
    """Put a task, start a worker, kill it without mercy, start it again: the receipt is printed, once."""
    first = blocks(TOP / page)[0].code
    assert first.startswith("# shop.py\n")
    code = first.replace('"20s"', '"1s"')
    assert code != first
    (programs.folder / "shop.py").write_text(code, "utf-8")
    begun = time.monotonic()
    assert programs.run("shop.py") == ""
    killed = programs.start(*WORKER, "shop:nd")
    read_until(killed, "nextdue worker 1")
    killed.kill()
    assert "receipt for" not in killed.communicate()[0]
    second = programs.start(*WORKER, "shop:nd")
    read_until(second, "receipt for order 42")
    assert time.monotonic() - begun > 1
    assert "receipt for" not in programs.stop(second, signal.SIGTERM)
