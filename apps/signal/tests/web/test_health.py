"""/healthz, and pages beside a worker that writes, or where there is nothing yet."""

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.signal.tests.web.building import DAY, HOUR, MINUTE, NOW, Folder, item
from apps.signal.tests.web.conftest import Pages

PEOPLE = ["/", "/sources", "/source/1", "/queue", "/entry/1", "/search?q=x"]


@contextmanager
def served(path: Path) -> Iterator[Pages]:
    pages = Pages(path)
    try:
        yield pages
    finally:
        pages.close()


@contextmanager
def a_worker(path: Path) -> Iterator[None]:
    """Somebody who holds the lock, as a worker does for its life."""
    descriptor = os.open(path / "signal.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        os.close(descriptor)


def health(pages: Pages) -> tuple[int, dict]:
    answer, body = pages.ask("/healthz")
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.status, json.loads(body)


@pytest.mark.parametrize(
    ("due", "working", "status"),
    [
        (NOW + HOUR, False, 200),
        (NOW - 5 * MINUTE, False, 200),
        (NOW - 5 * MINUTE - 1_000, False, 503),
        (NOW - DAY, True, 200),
    ],
    ids=["nothing is due", "five minutes late", "later, and nobody collects", "later, and somebody does"],
)
def test_well_or_not(tmp_path: Path, due: int, working: bool, status: int) -> None:
    folder = Folder(tmp_path)
    folder.add("ada", "https://a.example/feed", due=due)
    folder.close()
    with served(tmp_path) as pages:
        if working:
            with a_worker(tmp_path):
                found, said = health(pages)
        else:
            found, said = health(pages)
    assert found == status
    late = {"source": "ada", "seconds": (NOW - due) // 1000} if due <= NOW else None
    assert said == {"collecting": working, "database": True, "overdue": late, "last_attempt_s": None}


def test_the_oldest_is_named_and_the_paused_are_not(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    dues = {"b": NOW - HOUR, "a": NOW - MINUTE, "paused": NOW - DAY}
    sources = {name: folder.add(name, f"https://{name}.example/", due=due) for name, due in dues.items()}
    folder.succeed(sources["paused"], ended=NOW - 10 * MINUTE)
    handle = folder.nd.get("collect", "paused")
    assert handle is not None
    handle.pause()
    folder.close()
    with served(tmp_path) as pages:
        _, said = health(pages)
    assert said["overdue"] == {"source": "b", "seconds": 3_600}
    assert said["last_attempt_s"] == 600


def test_the_lock_is_neither_made_nor_kept(tmp_path: Path) -> None:
    Folder(tmp_path).close()
    with served(tmp_path) as pages:
        health(pages)
        assert not (tmp_path / "signal.lock").exists()
        (tmp_path / "signal.lock").write_text("left by a worker that is gone")
        assert health(pages)[1]["collecting"] is False
        with a_worker(tmp_path):  # raises if the pages held it
            assert health(pages)[1]["collecting"] is True
        assert (tmp_path / "signal.lock").read_text() == "left by a worker that is gone"


def test_a_lock_that_nobody_should_open(tmp_path: Path) -> None:
    Folder(tmp_path).close()
    os.mkfifo(tmp_path / "signal.lock")
    with served(tmp_path) as pages:
        assert health(pages)[1]["collecting"] is False


@pytest.mark.parametrize("path", PEOPLE)
@pytest.mark.parametrize("lang", ["en", "ru"])
def test_no_database_yet(tmp_path: Path, path: str, lang: str) -> None:
    with served(tmp_path) as pages:
        answer, body = pages.ask(path, Accept_Language=lang)
        assert answer.status == 503
        assert "signal init" in body.decode()
        assert f'<html lang="{lang}">' in body.decode()
        assert pages.ask("/feed.atom")[0].status == 503
        assert health(pages) == (503, {"collecting": False, "database": False})
    assert list(tmp_path.iterdir()) == []


def test_the_database_comes_while_they_are_served(tmp_path: Path) -> None:
    with served(tmp_path) as pages:
        assert pages.ask("/sources")[0].status == 503
        folder = Folder(tmp_path)
        folder.add("ada", "https://a.example/feed")
        folder.close()
        assert "ada" in pages.text("/sources")


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100], ids=["empty", "something else"])
def test_a_file_that_is_no_database_of_ours(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "signal.db").write_bytes(content)
    with served(tmp_path) as pages:
        for path in (*PEOPLE, "/feed.json", "/opml", "/healthz"):
            answer, body = pages.ask(path)
            assert answer.status == 503, path
            assert b"Traceback" not in body
    assert (tmp_path / "signal.db").read_bytes() == content


def test_pages_beside_a_worker_that_writes(tmp_path: Path) -> None:
    """No page waits for the writer's lock, and each shows one state: an entry and its text are there together."""
    folder = Folder(tmp_path)
    source = folder.add("ada", "https://a.example/feed")
    done = threading.Event()
    wrong: list[str] = []

    def write() -> None:
        writer = sqlite3.connect(tmp_path / "signal.db", timeout=30)
        number = 0
        while not done.is_set():
            number += 1
            folder.succeed(source, item(str(number), f"Number {number}"), ended=NOW + number)
        writer.close()

    thread = threading.Thread(target=write)
    with served(tmp_path) as pages:
        thread.start()
        try:
            for _ in range(20):
                for path in ("/", "/sources", "/source/1", "/queue", "/search?q=number", "/feed.atom", "/healthz"):
                    answer, _ = pages.ask(path)
                    if answer.status != 200:
                        wrong.append(f"{path}: {answer.status}")
        finally:
            done.set()
            thread.join()
    folder.close()
    assert wrong == []


def test_nothing_is_written_by_reading(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.add("ada", "https://a.example/feed")
    folder.close()
    before = (tmp_path / "signal.db").read_bytes()
    with served(tmp_path) as pages:
        for path in (*PEOPLE, "/feed.json", "/opml", "/healthz"):
            pages.ask(path)
    assert (tmp_path / "signal.db").read_bytes() == before
