"""What Signal publishes, read by Signal: an aggregator that follows it gets what was approved."""

import pytest

from apps.signal.tests.written import Database
from signal_feeds import editing, parsing, publishing

TITLE = "Ёлка & <b> ]]> 'quoted'"
TEXT = "A < B & C ]]> конец"
HTML = "<p>A &lt; B &amp; C ]]&gt; конец</p>"


@pytest.mark.parametrize(
    ("form", "content_type"),
    [(publishing.atom, "application/atom+xml"), (publishing.json_feed, "application/feed+json")],
    ids=["atom", "json"],
)
def test_our_parser_reads_what_we_publish(form, content_type: str) -> None:
    db = Database()
    news = db.source()
    for key, title, link in (("a", TITLE, "https://news.example/?a=1&b=2"), ("b", "", None)):
        published = 1_700_000_000_000
        entry = db.says(news, key, title=title, text=TEXT, html=HTML, link=link, author="Anna", published=published)
        editing.approve(db.tx, entry, editing.look(db.tx, entry).current.fingerprint, db.later())
    feed = publishing.feed_of(db.tx, False, language="en", url="https://mine.example/")
    read = parsing.parse(form(feed), content_type, "https://mine.example/x", now_ms=db.now)
    assert read.title == "Signal"
    untitled, item = read.items
    assert (item.title, item.link, item.author) == (TITLE, "https://news.example/?a=1&b=2", "Anna")
    assert (item.text, item.published_ms) == (TEXT, 1_700_000_000_000)
    assert (untitled.title, untitled.link, untitled.text) == ("", None, TEXT)
    assert item.key == feed.entries[1].id
    fingerprints = [editing.look(db.tx, entry.entry).current.fingerprint for entry in feed.entries]
    assert len(set(fingerprints)) == 2
