"""Long lists come in pages, and a walk through them meets each once."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from apps.signal.tests.web.building import MINUTE, NOW, Folder, item
from apps.signal.tests.web.conftest import Pages

SOURCES, ENTRIES = 230, 130


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    path = tmp_path_factory.mktemp("long")
    folder = Folder(path)
    for number in range(SOURCES):
        source = folder.add(f"source {number} & more", f"https://h{number}.example/feed")
        if number % 2:
            folder.fail(source, "timeout", ended=NOW - MINUTE)
    items = [item(str(number), f"Entry number {number}") for number in range(ENTRIES)]
    folder.succeed(folder.source(f"source {SOURCES - 1} & more"), *items, ended=NOW - MINUTE)
    for number in range(1, ENTRIES // 2 + 1):
        folder.decide(number, "approved", at=NOW + number)
    folder.close()
    served = Pages(path)
    yield served
    served.close()


def walk(pages: Pages, path: str, pattern: str) -> list[list[str]]:
    """What the pattern finds on each page, from the first to the last."""
    found = []
    while path:
        html = pages.text(path)
        found.append(re.findall(pattern, html))
        further = re.search(r'href="([^"]*)" rel="next"', html)
        path = unescape(further[1]) if further else ""
    return found


@pytest.mark.parametrize(
    ("path", "pattern", "sizes"),
    [
        ("/sources", r'scope="row"[^>]*><a href="/source/(\d+)', [100, 100, 30]),
        ("/sources?show=failing", r'scope="row"[^>]*><a href="/source/(\d+)', [100, 14]),
        ("/", r'<h2 dir="auto"><a href="/entry/(\d+)', [50, 15]),
        ("/queue", r'<h2 dir="auto"><a href="/entry/(\d+)', [20, 20, 20, 5]),
        (f"/source/{SOURCES}", r'<li><a href="/entry/(\d+)', [50, 50, 30]),
    ],
    ids=["sources", "failing", "approved", "queue", "of a source"],
)
def test_a_walk_meets_each_once(long: Pages, path: str, pattern: str, sizes: list[int]) -> None:
    found = walk(long, path, pattern)
    assert [len(page) for page in found] == sizes
    numbers = [number for page in found for number in page]
    assert len(set(numbers)) == len(numbers)


def test_search_shows_more_of_the_same(long: Pages) -> None:
    found = walk(long, "/search?q=entry", r'<h2 dir="auto"><a href="/entry/(\d+)')
    assert [len(page) for page in found] == [20, 60, 100, 130]
    assert found[-1][:20] == found[0]


def test_an_empty_list_says_what_to_do(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    served = Pages(tmp_path)
    try:
        for path in ("/sources", "/sources?show=failing"):
            assert "There is no source yet. To add one: signal add URL" in served.text(path)
        folder.add("one", "https://one.example/feed")
        assert "None is failing." in served.text("/sources?show=failing")
    finally:
        served.close()
        folder.close()


def test_an_entry_can_be_decided_otherwise(long: Pages) -> None:
    """65 of the entries are approved, the others wait."""
    approved, waiting = (re.findall(r"signal (\w+) \d+ --fingerprint", long.text(f"/entry/{id}")) for id in (1, 100))
    assert approved == ["reject"]
    assert waiting == ["approve", "reject"]
