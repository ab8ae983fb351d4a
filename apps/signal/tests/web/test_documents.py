"""/feed.atom, /feed.json, /opml: the published feed and the sources, with validators of their own."""

import json
from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from apps.signal.tests.web.building import MINUTE, NOW, Folder, item
from apps.signal.tests.web.conftest import Pages

PATHS = ["/feed.atom", "/feed.json", "/opml"]


class Desk:
    """A folder with three entries, of which two are approved, and its pages."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.source = self.folder.add("ada", "https://a.example/feed")
        items = (item("1", "One"), item("2", "Two <b>"), item("3", "Three"))
        self.folder.succeed(self.source, *items, ended=NOW - 5 * MINUTE, title="Ada")
        self.folder.decide(1, "approved", at=NOW - 4 * MINUTE)
        self.folder.decide(2, "approved", at=NOW - 3 * MINUTE)
        self.pages = Pages(path)

    def close(self) -> None:
        self.pages.close()
        self.folder.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def test_they_hold_what_was_approved(desk: Desk) -> None:
    atom = ElementTree.fromstring(desk.pages.text("/feed.atom"))
    titles = [title.text for title in atom.iter("{http://www.w3.org/2005/Atom}title")]
    assert [title for title in titles if title in ("One", "Two <b>", "Three")] == ["Two <b>", "One"]
    assert [one["title"] for one in json.loads(desk.pages.text("/feed.json"))["items"]] == ["Two <b>", "One"]
    outlines = ElementTree.fromstring(desk.pages.text("/opml")).iter("outline")
    assert [one.attrib["xmlUrl"] for one in outlines] == ["https://a.example/feed"]


@pytest.mark.parametrize("path", PATHS)
def test_304_by_etag(desk: Desk, path: str) -> None:
    first, _ = desk.pages.ask(path)
    etag = first.headers["ETag"]
    for held in (etag, f'"other", W/{etag}', "*"):
        again, body = desk.pages.ask(path, If_None_Match=held)
        assert (again.status, body) == (304, b""), held
        assert again.headers["ETag"] == etag
    other, body = desk.pages.ask(path, If_None_Match='"other"')
    assert other.status == 200
    assert body


@pytest.mark.parametrize("path", PATHS)
def test_304_by_date_once_its_second_is_over(desk: Desk, path: str) -> None:
    first, _ = desk.pages.ask(path)
    assert first.headers["Last-Modified"] is None
    desk.pages.now += 2_000
    second, _ = desk.pages.ask(path)
    modified = second.headers["Last-Modified"]
    assert parsedate_to_datetime(modified).timestamp() * 1000 == NOW + 1_000
    assert desk.pages.ask(path, If_Modified_Since=modified)[0].status == 304
    assert desk.pages.ask(path, "HEAD", If_Modified_Since=modified)[0].status == 304
    for since in (formatdate(NOW / 1000, usegmt=True), "yesterday", "", "Tue, 99 Dec 2026 00:00:00 GMT"):
        assert desk.pages.ask(path, If_Modified_Since=since)[0].status == 200, since


def test_a_tag_goes_before_a_date(desk: Desk) -> None:
    desk.pages.ask("/feed.atom")
    desk.pages.now += 5_000
    modified = desk.pages.ask("/feed.atom")[0].headers["Last-Modified"]
    answer, _ = desk.pages.ask("/feed.atom", If_None_Match='"other"', If_Modified_Since=modified)
    assert answer.status == 200


def test_a_withdrawal_is_a_change_by_tag_and_by_date(desk: Desk) -> None:
    """The latest time of what is left in the feed is older than the change; who asks by date must hear of it."""
    desk.pages.ask("/feed.atom")
    desk.pages.now += 60_000
    first, body = desk.pages.ask("/feed.atom")
    desk.folder.decide(2, "rejected", at=desk.pages.now)
    held = {"If_None_Match": first.headers["ETag"]}, {"If_Modified_Since": first.headers["Last-Modified"]}
    for headers in held:
        second, less = desk.pages.ask("/feed.atom", **headers)
        assert second.status == 200
        assert len(less) < len(body)
    desk.pages.now += 1_000
    again = desk.pages.ask("/feed.atom")[0].headers["Last-Modified"]
    assert parsedate_to_datetime(again) > parsedate_to_datetime(first.headers["Last-Modified"])


def test_a_changed_entry_is_withdrawn_from_pages_and_feeds(desk: Desk) -> None:
    desk.folder.succeed(desk.source, item("1", "One, rewritten"), ended=NOW - MINUTE)
    assert [one["title"] for one in json.loads(desk.pages.text("/feed.json"))["items"]] == ["Two <b>"]
    assert ">One" not in desk.pages.text("/")
    assert "One, rewritten" in desk.pages.text("/queue?show=changed")


def test_it_stays_in_its_approved_form_where_that_is_set(desk: Desk, tmp_path: Path) -> None:
    desk.folder.succeed(desk.source, item("1", "One, rewritten"), ended=NOW - MINUTE)
    keeping = Pages(tmp_path, keep=True)
    try:
        assert {one["title"] for one in json.loads(keeping.text("/feed.json"))["items"]} == {"One", "Two <b>"}
        assert ">One</a>" in keeping.text("/")
    finally:
        keeping.close()
