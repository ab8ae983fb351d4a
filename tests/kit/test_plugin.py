"""The pytest plugin, as a user has it: a project in a clean folder, and pytest as a process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SHOP = """
from pathlib import Path
from nextdue import Nextdue

nd = Nextdue(Path(__file__).with_name("shop.db"))
sent = []

@nd.task
def mail(to: str) -> None:
    sent.append(to)
"""

PASSING = """
import asyncio
import pytest
import shop

@pytest.fixture(autouse=True)
def app(nextdue):
    nextdue.use(shop.nd)
    shop.sent.clear()

def test_later(nextdue):
    shop.mail.using(delay="6h").enqueue("ada")
    assert nextdue.advance("6h") == {"done": 1}
    assert shop.sent == ["ada"]

def test_isolated(nextdue):
    assert shop.nd.find() == []
    assert nextdue.advance("1 day") == {}

def test_crash(nextdue):
    shop.mail.enqueue("bob")
    nextdue.crash_at("settle")
    nextdue.advance("1s")
    assert shop.sent == ["bob", "bob"]

def test_coroutine(nextdue):
    async def body():
        await shop.mail.aenqueue("eve")
        return await nextdue.adrain()
    assert asyncio.run(body()) == {"done": 1}
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.base = folder / "base"
        (self.folder / "shop.py").write_text(SHOP)

    def run(self, tests: str, *options: str) -> "subprocess.CompletedProcess[str]":
        (self.folder / "test_shop.py").write_text(tests)
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-W", "error", f"--basetemp={self.base}", *options],
            check=False,
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_fixture_is_there_by_being_installed(project):
    done = project.run(PASSING)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
    assert not (project.folder / "shop.db").exists()
    assert list(project.base.rglob("shop.db*")) == []


def test_a_failing_test_keeps_its_file_and_says_where(project):
    tests = "import shop\ndef test_a(nextdue):\n    nextdue.use(shop.nd)\n    shop.mail.enqueue('ada')\n    assert 0\n"
    done = project.run(tests)
    assert done.returncode == 1
    found = re.search(r"the test's database is kept: (\S+)", done.stdout)
    assert found, done.stdout
    shown = subprocess.run(
        [sys.executable, "-m", "nextdue", "ls", found[1]], check=True, capture_output=True, text=True, timeout=30
    )
    assert "mail" in shown.stdout
    assert not (project.folder / "shop.db").exists()


def test_a_crash_that_never_came_is_an_error_of_its_test(project):
    tests = "import shop\ndef test_a(nextdue):\n    nextdue.use(shop.nd)\n    nextdue.crash_at('renew')\n"
    done = project.run(tests)
    assert done.returncode == 1
    assert "crash_at('renew'): the worker never came to this point" in done.stdout


def test_a_task_that_is_not_repeatable_is_shown_at_the_line_of_the_test(project):
    tests = (
        "import shop\nimport nextdue\n"
        "def test_a():\n"
        "    nextdue.assert_repeatable(shop.mail, ('ada',), state=lambda: list(shop.sent), reset=shop.sent.clear)\n"
    )
    done = project.run(tests)
    assert done.returncode == 1
    assert "mail('ada') is not harmless to repeat" in done.stdout
    assert "test_shop.py:4: AssertionError" in done.stdout


def test_who_asks_pytest_for_fixtures_finds_it(project):
    done = project.run("", "--fixtures")
    assert re.search(r"^nextdue -- .*\n +The real engine of nextdue", done.stdout, re.MULTILINE), done.stdout


def test_without_the_plugin_pytest_is_as_before(project):
    done = project.run("def test_a(): pass\n", "-p", "no:nextdue")
    assert done.returncode == 0, done.stdout
