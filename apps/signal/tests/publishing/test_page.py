from html.parser import HTMLParser

import pytest

from apps.signal.tests.written import Database
from signal_feeds import editing, publishing
from signal_feeds.publishing.page import SHORT
from signal_feeds.texts import Language


class Page(HTMLParser):
    """What a browser would see of it."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(lang: Language = "en", **said: object) -> Page:
    db = Database()
    if said:
        entry = db.says(db.source(), "a", **said)  # type: ignore[arg-type]
        editing.approve(db.tx, entry, editing.look(db.tx, entry).current.fingerprint, db.later())
    return Page(publishing.index(publishing.feed_of(db.tx, False, language=lang)))


def test_the_page_shows_what_is_approved() -> None:
    page = page_of(title="Tea & <cake>", text="One.\nTwo.", link="https://news.example/?a=1&b=2", author="Anna")
    assert "Tea & <cake>" in page.text
    assert "One.\nTwo." in page.text
    assert "The News · Anna" in page.text
    assert ("a", {"href": "https://news.example/?a=1&b=2", "rel": "noopener"}) in page.tags


def test_an_author_who_is_the_source_is_named_once() -> None:
    assert "The News · The News" not in page_of(author="The News").text


def test_the_page_has_no_script_and_needs_nothing_else() -> None:
    page = page_of(title="<script>alert(1)</script>", text="<img src=x onerror=alert(1)>", html="<p>safe</p>")
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "form", "base"}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert {attrs["href"] for tag, attrs in page.tags if tag == "link"} == {"atom.xml", "feed.json"}


def test_the_page_is_readable_in_light_and_dark_and_on_a_phone() -> None:
    page = page_of()
    assert "color-scheme: light dark" in page.text
    assert "prefers-color-scheme: dark" in page.text
    assert any(attrs.get("name") == "viewport" for _, attrs in page.tags)


def test_a_long_text_is_cut_where_its_link_leads_on() -> None:
    long = "слово " * 500
    cut, whole = page_of(text=long), page_of(text=long, link=None)
    assert "слово…" in cut.text
    assert cut.text.count("слово") <= SHORT / 6 + 1
    assert whole.text.count("слово") == 500


@pytest.mark.parametrize(("lang", "words"), [("en", "Nothing is approved yet."), ("ru", "Пока ничего не одобрено.")])
def test_a_page_without_entries_says_so(lang: Language, words: str) -> None:
    page = page_of(lang)
    assert words in page.text
    assert ("html", {"lang": lang}) in page.tags


def test_an_entry_without_a_title_has_something_to_click_on() -> None:
    assert "untitled" in page_of(title=" \x00 ").text
