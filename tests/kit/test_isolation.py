"""A test's applications are on files of its own, and nothing else is touched or left behind."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from nextdue import BadDefinition, Nextdue
from nextdue.testing import Sandbox


@pytest.fixture(autouse=True)
def _temporary_files_of_this_test(tmp_path, monkeypatch):
    """What a failing sandbox keeps goes with the other files of the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def shop(tmp_path: Path) -> Nextdue:
    """An application of a program, whose file could be made."""
    nd = Nextdue(tmp_path / "program" / "shop.db")
    nd.path.parent.mkdir()
    return nd


def test_the_program_s_own_file_is_never_made(shop):
    own = shop.path

    @shop.task
    def mail() -> None: ...

    with Sandbox() as box:
        box.use(shop)
        assert shop.path != own
        mail.enqueue()
        assert box.drain() == {"done": 1}
    assert shop.path == own
    assert list(own.parent.iterdir()) == []


def test_a_file_with_tasks_is_as_before(shop):
    @shop.task
    def mail(to: str) -> None: ...

    handle = mail.enqueue("ada")
    before = handle.view()
    with Sandbox() as box:
        box.use(shop)
        assert shop.find() == []
        mail.enqueue_many([("bob",), ("eve",)])
        box.drain()
    assert handle.view() == before
    assert [h.id for h in shop.find()] == [handle.id]
    shop.close()


def test_an_error_in_the_test_leads_the_application_back_too(shop):
    own = shop.path

    def test() -> None:
        with Sandbox() as box:
            box.use(shop)
            shop.task(name="a")(lambda: None).enqueue()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        test()
    assert shop.path == own
    assert list(own.parent.iterdir()) == []
    kept = Path(caught.value.__notes__[0].splitlines()[0].split(" is kept: ")[1])
    assert kept.stat().st_size > 0


def test_a_sandbox_that_ends_well_leaves_nothing(shop):
    before = threading.active_count()
    with Sandbox() as box:
        box.use(shop)
        shop.task(name="a")(lambda: None).enqueue()
        box.drain()
        assert box.folder.is_dir()
    assert not box.folder.exists()
    assert threading.active_count() == before


def test_applications_are_led_back_though_the_test_removed_their_files(shop, tmp_path):
    other = Nextdue(tmp_path / "program" / "other.db")
    own = [shop.path, other.path]
    box = Sandbox(tmp_path)
    for nd in (shop, other):
        box.use(nd)
        nd.task(name="a")(lambda: None).enqueue()
    assert box.drain() == {"done": 2}
    for path in box.files:
        path.unlink()
    box.close()
    assert [shop.path, other.path] == own
    assert "working" not in vars(shop)


def test_each_sandbox_begins_empty(shop):
    mail = shop.task(name="mail")(lambda: None)
    for _ in range(2):
        with Sandbox() as box:
            box.use(shop)
            assert shop.find() == []
            mail.enqueue()


def test_the_worker_of_the_program_is_not_started(shop):
    """An application that starts its worker by itself, as a web server does, can be tested whole."""
    seen = []
    mail = shop.task(name="mail")(lambda: seen.append(1))

    async def lifespan() -> None:
        async with shop.working():
            mail.enqueue()

    with Sandbox() as box:
        box.use(shop)
        shop.start()
        shop.start(4, queues=["default"])
        with shop.working(concurrency=2):
            mail.enqueue()
        asyncio.run(lifespan())
        shop.stop()
        assert seen == []
        assert box.drain() == {"done": 2}
        with pytest.raises(BadDefinition, match="drain"):
            shop.run()
        shop.close()


def test_a_worker_that_already_works_is_refused(shop):
    shop.start()
    try:
        with pytest.raises(BadDefinition, match=r"stop\(\) it before the test"), Sandbox() as box:
            box.use(shop)
    finally:
        shop.close()


def test_using_it_again_changes_nothing(shop):
    with Sandbox() as box:
        assert box.use(shop) is shop
        path = shop.path
        box.use(shop)
        assert (shop.path, box.files) == (path, [path])


def test_the_settings_of_the_application_hold(tmp_path):
    nd = Nextdue(tmp_path / "shop.db", keep_runs=0)
    mail = nd.task(name="mail")(lambda: None)
    with Sandbox() as box:
        box.use(nd)
        handle = mail.enqueue()
        box.drain()
        assert handle.runs() == []


def test_importing_nextdue_loads_no_test_kit():
    done = subprocess.run(
        [sys.executable, "-c", "import nextdue, sys; print([m for m in sys.modules if 'testing' in m])"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]"


def test_closing_twice_is_closing_once(shop):
    with contextlib.closing(Sandbox()) as box:
        box.use(shop)
        box.close()
        with pytest.raises(BadDefinition, match="closed"):
            box.use(shop)
