import json
from xml.etree import ElementTree

import feedparser
import pytest

from apps.signal.tests.written import Database
from signal_feeds import editing, publishing
from signal_feeds.publishing import Feed, Published

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def db() -> Database:
    return Database()


def decide(db: Database, entry: int, verdict: str = "approved") -> None:
    verb = editing.approve if verdict == "approved" else editing.reject
    verb(db.tx, entry, editing.look(db.tx, entry).current.fingerprint, db.later())


def shown(db: Database, keep: bool = False) -> list[str]:
    return [entry.text for entry in publishing.approved(db.tx, keep)]


def feed_of(db: Database, keep: bool = False, url: str | None = None) -> Feed:
    return publishing.feed_of(db.tx, keep, language="en", url=url)


def test_only_what_was_approved_is_published(db: Database) -> None:
    news = db.source()
    for key, verdict in (("a", "approved"), ("b", "rejected"), ("c", None), ("d", "approved")):
        entry = db.says(news, key, text=key)
        if verdict:
            decide(db, entry, verdict)
    assert shown(db) == shown(db, keep=True) == ["d", "a"]  # what was decided last comes first


def test_a_changed_entry_is_withdrawn_until_it_is_approved(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    db.says(news, "a", text="Two.")
    assert shown(db) == []
    decide(db, entry)
    assert shown(db) == ["Two."]
    db.says(news, "a", text="One.")  # as it was approved once
    assert shown(db) == ["One."]


def test_a_changed_entry_is_kept_in_its_approved_form_by_a_setting(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    db.says(news, "a", text="Two.")
    db.says(news, "a", text="Three.")
    assert shown(db, keep=True) == ["One."]
    decide(db, entry)
    db.says(news, "a", text="Four.")
    assert shown(db, keep=True) == ["Three."]


def test_rejecting_a_change_takes_the_entry_out_even_if_it_was_kept(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    db.says(news, "a", text="Two.")
    decide(db, entry, "rejected")
    assert shown(db, keep=True) == []
    db.says(news, "a", text="Three.")
    assert shown(db, keep=True) == []  # the last word still is no


def test_what_came_back_approved_is_what_is_kept(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    db.says(news, "a", text="Two.")
    decide(db, entry, "rejected")
    db.says(news, "a", text="One.")
    db.says(news, "a", text="Three.")
    assert shown(db, keep=True) == ["One."]


def test_a_clock_that_was_set_back_publishes_nothing_twice(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    db.now -= 60_000
    db.says(news, "a", text="Two.")
    decide(db, entry)
    assert shown(db, keep=True) == ["Two."]


def test_what_came_back_is_newer_than_what_it_replaces(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    db.says(news, "a", text="Two.")
    decide(db, entry)
    (two,) = publishing.approved(db.tx, False)
    db.says(news, "a", text="One.")
    (one,) = publishing.approved(db.tx, False)
    assert one.id == two.id
    assert one.updated > two.updated


def test_the_newest_decisions_are_published_if_there_are_too_many(db: Database) -> None:
    news = db.source()
    for number in range(5):
        decide(db, db.says(news, str(number), text=str(number)))
    assert [entry.text for entry in publishing.approved(db.tx, False, limit=2)] == ["4", "3"]
    assert [entry.text for entry in publishing.approved(db.tx, False, limit=2, offset=2)] == ["2", "1"]


def test_the_same_content_has_the_same_bytes_and_ids_survive_changes(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    before = feed_of(db)
    db.later()
    decide(db, entry)  # again
    after = feed_of(db)
    for form in (publishing.atom, publishing.json_feed, publishing.index):
        assert form(before) == form(after)
    db.says(news, "a", text="Two.")
    decide(db, entry)
    changed = feed_of(db)
    assert changed.entries[0].id == before.entries[0].id
    assert changed.updated > before.updated
    assert changed.id == before.id
    assert publishing.atom(changed) != publishing.atom(before)


def test_two_folders_publish_different_feeds(db: Database) -> None:
    db.source()
    other = Database()
    other.later()
    other.source()
    assert feed_of(db).id != feed_of(other).id


HOSTILE = {
    "title": "Ёлка & <b>bold</b> ]]> \x00\x0b\x1b\ufffe\U0001f600 'quoted' \"twice\"",
    "text": "A < B & C \x08\n]]> конец",
    "html": "<p>A &lt; B &amp; C ]]&gt; <img src=\"https://news.example/i.png\" alt='x'> конец \x01</p>",
    "author": "Anna <anna@news.example>\x02",
    "link": "https://news.example/?a=1&b=2",
}


def test_atom_is_read_back_by_feedparser(db: Database) -> None:
    news = db.source(title="News & <Views>")
    decide(db, db.says(news, "guid:1", **HOSTILE, published=1_700_000_000_999))
    decide(db, db.says(news, "guid:2", title="", link=None, published=None))
    feed = feed_of(db, url="https://mine.example/feeds/")
    read = feedparser.parse(publishing.atom(feed), sanitize_html=False, resolve_relative_uris=False)
    assert not read.bozo, read.get("bozo_exception")
    assert (read.version, read.feed.id, read.feed.title) == ("atom10", feed.id, "Signal")
    assert [(link.rel, link.href) for link in read.feed.links] == [
        ("self", "https://mine.example/feeds/atom.xml"),
        ("alternate", "https://mine.example/feeds/"),
    ]
    untitled, hostile = read.entries
    assert hostile.title == "Ёлка & <b>bold</b> ]]> \U0001f600 'quoted' \"twice\""
    assert hostile.content[0].value == HOSTILE["html"].replace("\x01", "")
    assert (hostile.content[0].type, hostile.link) == ("text/html", HOSTILE["link"])
    assert (hostile.author, hostile.published) == ("Anna <anna@news.example>", "2023-11-14T22:13:20Z")
    assert (hostile.source.title, hostile.source.id) == ("News & <Views>", "https://news.example/feed")
    assert (untitled.title, untitled.get("links", []), untitled.author) == ("", [], "News & <Views>")
    assert hostile.id != untitled.id
    assert hostile.id.startswith("tag:localhost,2026:signal/entry/")


STEERING = "one \x9b31m\x1b[2J\x7f\x80\u202e\u202d two"


@pytest.mark.parametrize("form", [publishing.atom, publishing.json_feed, publishing.index], ids=lambda f: f.__name__)
def test_nothing_published_steers_its_reader(db: Database, form) -> None:
    """Neither a terminal nor the direction of what follows; letters of right-to-left scripts and their marks stay."""
    kept = "\u05e9\u05dc\u05d5\u05dd\u200f \u2067e\u0301\u2069"
    news = db.source(title=STEERING)
    said = {"title": STEERING, "author": STEERING, "text": STEERING + kept, "html": f"<p>{STEERING}</p>"}
    decide(db, db.says(news, "1", **said))  # type: ignore[arg-type]
    found = form(feed_of(db)).decode()
    assert "one 31m[2J two" in found
    assert not set(found) & set("\x1b\x7f\x80\x9b\u202d\u202e")
    if form is not publishing.atom:
        assert kept in found


def test_atom_has_all_that_rfc_4287_demands(db: Database) -> None:
    for forms in range(2):
        root = ElementTree.fromstring(publishing.atom(feed_of(db)))
        for element in (root, *root.findall(f"{ATOM}entry"), *root.findall(f"{ATOM}entry/{ATOM}source")):
            for name in ("id", "title", "updated"):
                assert len(element.findall(f"{ATOM}{name}")) == 1
            assert element.findtext(f"{ATOM}id")
        # 4.1.1: an author in each entry, as the feed has none; 4.1.2: a link or a content; ids that are unique.
        entries = root.findall(f"{ATOM}entry")
        assert len(entries) == forms * 2
        assert all(entry.findtext(f"{ATOM}author/{ATOM}name") for entry in entries)
        assert all(entry.find(f"{ATOM}content") is not None for entry in entries)
        assert len({entry.findtext(f"{ATOM}id") for entry in entries}) == len(entries)
        news, more = db.source(f"news-{forms}", title=None), db.source(f"more-{forms}")
        decide(db, db.says(news, "same key", link=None))
        decide(db, db.says(more, "same key", title="\x00"))


def test_json_feed_has_all_that_version_1_1_demands(db: Database) -> None:
    news = db.source()
    decide(db, db.says(news, "1", **HOSTILE, published=1_700_000_000_999))
    decide(db, db.says(news, "2", title="", link=None))
    whole = json.loads(publishing.json_feed(feed_of(db, url="https://mine.example/")))
    assert whole["version"] == "https://jsonfeed.org/version/1.1"
    assert (whole["title"], whole["feed_url"]) == ("Signal", "https://mine.example/feed.json")
    assert whole["home_page_url"] == "https://mine.example/"
    untitled, hostile = whole["items"]
    assert hostile["url"] == HOSTILE["link"]
    assert hostile["content_html"] == HOSTILE["html"].replace("\x01", "")
    assert hostile["content_text"] == HOSTILE["text"].replace("\x08", "")
    assert hostile["authors"] == [{"name": "Anna <anna@news.example>"}]
    assert (hostile["date_published"], hostile["_source"]["title"]) == ("2023-11-14T22:13:20Z", "The News")
    assert isinstance(hostile["id"], str)
    assert "url" not in untitled
    assert "title" not in untitled
    assert untitled["content_html"]


@pytest.mark.parametrize("form", [publishing.atom, publishing.json_feed, publishing.index], ids=lambda f: f.__name__)
def test_an_empty_feed_is_a_feed(db: Database, form) -> None:
    assert form(feed_of(db))


def test_the_entry_s_id_is_its_own_and_not_the_database_s() -> None:
    one, other = Database(), Database()
    other.says(other.source("elsewhere"), "guid:1")
    for db in (one, other):
        decide(db, db.says(db.source(), "guid:1"))
    assert feed_of(one).entries[0].id == feed_of(other).entries[0].id
    assert one.tx is not other.tx


def test_fixtures_have_no_address_that_a_reader_could_follow(db: Database) -> None:
    decide(db, db.says(db.source("fixture-rss", "fixture:rss.xml"), "1"))
    feed = feed_of(db)
    source = ElementTree.fromstring(publishing.atom(feed)).find(f"{ATOM}entry/{ATOM}source")
    assert source is not None
    assert [link.get("rel") for link in source.findall(f"{ATOM}link")] == ["alternate"]
    assert "url" not in json.loads(publishing.json_feed(feed))["items"][0]["_source"]


def test_published_is_what_the_pages_take() -> None:
    assert Published._fields[-2:] == ("published", "updated")
