"""A test that forgets use() reaches no file of the program."""

import contextlib
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nextdue import BadDefinition, Context, Nextdue, assert_repeatable
from nextdue.testing import Sandbox
from tests.kit.test_plugin import Project

REFUSED = r"isn't in this sandbox, so that this would reach .*shop.db itself; say nextdue.use\("


@pytest.fixture
def shop(tmp_path: Path) -> Nextdue:
    """An application of a program, whose file could be made."""
    return Nextdue(tmp_path / "shop.db")


VERBS: dict[str, Callable[[Nextdue, Any], object]] = {
    "enqueue": lambda nd, task: task.enqueue(),
    "enqueue_many": lambda nd, task: task.enqueue_many([()]),
    "a key": lambda nd, task: task.using(key="a").enqueue(),
    "find": lambda nd, task: nd.find(),
    "get": lambda nd, task: nd.get(1),
    "pause": lambda nd, task: nd.pause(queue="default"),
    "transaction": lambda nd, task: nd.transaction().__enter__(),
    "start": lambda nd, task: nd.start(),
    "working": lambda nd, task: nd.working().__enter__(),
    "run": lambda nd, task: nd.run(once=True),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_application_that_was_not_given_to_use_is_refused(nextdue, shop, tmp_path, verb):
    task = shop.task(name="mail")(lambda: None)
    with pytest.raises(BadDefinition, match=REFUSED):
        VERBS[verb](shop, task)
    assert list(tmp_path.iterdir()) == []
    nextdue.use(shop)
    handle = task.enqueue()
    assert nextdue.drain() == {"done": 1}
    assert handle.state == "done"


@pytest.mark.parametrize("verb", VERBS)
def test_what_it_has_open_from_before_does_not_help_it(shop, verb):
    task = shop.task(name="mail")(lambda: None)
    handle = task.using(delay="1h").enqueue()
    with shop.transaction() as tx:
        task.using(tx=tx, delay="1h").enqueue()
    with Sandbox(), pytest.raises(BadDefinition, match=REFUSED):
        VERBS[verb](shop, task)
    with Sandbox(), pytest.raises(BadDefinition, match=REFUSED):
        handle.cancel()
    assert [h.state for h in shop.find()] == ["waiting", "waiting"]
    shop.close()


def test_it_is_refused_until_the_last_sandbox_is_closed(shop):
    with Sandbox() as outer:
        with Sandbox() as inner:
            inner.use(shop)
            shop.find()
        with pytest.raises(BadDefinition, match=REFUSED):
            shop.find()
        outer.use(shop)
        shop.find()
    with contextlib.suppress(ZeroDivisionError), Sandbox():
        raise ZeroDivisionError
    assert shop.find() == []
    shop.close()


def test_calling_the_function_itself_needs_no_file(nextdue, shop):
    @shop.task
    def double(ctx: Context, n: int) -> int:
        return 2 * n

    assert double(4) == 8


def test_a_task_that_reaches_another_application_is_told(nd, shop):
    mail = shop.task(name="mail")(lambda: None)

    @nd.task
    def order() -> None:
        mail.enqueue()

    with pytest.raises(AssertionError, match=REFUSED):
        assert_repeatable(order)
    with Sandbox() as box:
        box.use(shop)
        with pytest.raises(AssertionError, match="not harmless"):
            box.assert_repeatable(
                order, state=lambda: len(shop.find()), reset=lambda: [h.cancel() for h in shop.find()]
            )


def test_it_is_named_as_the_test_knows_it(tmp_path):
    project = Project(tmp_path)
    before = Path(project.folder, "shop.db")
    tests = (
        "from shop import nd, mail\n"
        "def test_a(nextdue):\n    mail.enqueue('ada')\n"
        "def test_b(nextdue):\n    nextdue.use(nd)\n    mail.enqueue('ada')\n    assert nextdue.drain()\n"
    )
    done = project.run(tests)
    assert "1 failed, 1 passed" in done.stdout
    assert "say nextdue.use(shop.nd) before" in done.stdout
    assert not before.exists()


def test_a_test_without_the_fixture_is_as_before(tmp_path):
    project = Project(tmp_path)
    tests = "import shop\ndef test_a(nextdue):\n    pass\ndef test_b():\n    shop.mail.enqueue('own')\n"
    done = project.run(tests)
    assert "2 passed" in done.stdout
    with contextlib.closing(sqlite3.connect(project.folder / "shop.db")) as connection:
        assert connection.execute("SELECT count(*) FROM nextdue_tasks").fetchone() == (1,)


def test_a_lock_file_is_not_reached_either(tmp_path):
    shop = Nextdue(tmp_path / "shop.db", exclusive=tmp_path / "shop.lock")
    with Sandbox(), pytest.raises(BadDefinition, match=REFUSED):
        shop.start()
    assert list(tmp_path.iterdir()) == []


def test_an_exclusive_application_takes_no_lock_in_a_sandbox(nextdue, tmp_path):
    shop = Nextdue(tmp_path / "shop.db", exclusive=tmp_path / "shop.lock", queues=["mail"])
    task = shop.task(nothing)
    nextdue.use(shop)
    with shop.working():
        handle = task.enqueue()
    shop.start()
    assert nextdue.drain() == {"done": 1}
    assert handle.state == "done"
    assert list(tmp_path.iterdir()) == []


def nothing() -> None: ...


def test_what_lies_among_the_modules_and_only_says_that_it_is_one(nextdue, shop, monkeypatch):
    """As `_cffi_backend.Lib` does, which cryptography puts there."""

    class Pretender:
        __class__ = property(lambda self: ModuleType)

    monkeypatch.setitem(sys.modules, "pretender", Pretender())
    with pytest.raises(BadDefinition, match=REFUSED):
        shop.find()
