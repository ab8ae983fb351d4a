"""The outcome of an attempt in the tables, on a real file."""

import sqlite3
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.signal.tests.samples import DAY, HOUR, MINUTE, NOW, add, answer, item, parsed, unchanged
from signal_feeds.politeness import Next
from signal_feeds.records import Hints, Offer, Source
from signal_feeds.store import SQL, sources_in
from signal_feeds.store.attempts import KEEP_ATTEMPTS, Counts, Times, digest_of, save_failure, save_success

THEN = Next(NOW + 30 * MINUTE, 0)


def ada(tx: sqlite3.Connection, name: str = "ada") -> Source:
    (found,) = sources_in(tx.execute(SQL["source"], {"id": name}))
    return found


def succeed(tx: sqlite3.Connection, got: Any, feed: Any = None, at: int = NOW, by: str | None = None) -> Counts:
    return save_success(tx, ada(tx), got, feed, Times(at - 100, at, by), THEN)


def fail(tx: sqlite3.Connection, reason: Any, at: int = NOW, **values: Any) -> Source:
    save_failure(tx, ada(tx), reason, values.pop("status", None), Times(at - 100, at), THEN, **values)
    return ada(tx)


def texts(tx: sqlite3.Connection) -> list[tuple[str, str]]:
    return tx.execute("SELECT key, text FROM entry e JOIN revision r ON r.id = e.revision ORDER BY e.id").fetchall()


def test_a_feed_is_stored_with_its_validators(tx: sqlite3.Connection) -> None:
    got = answer(b"one", etag='W/"\xe9"', last_modified="whenever", fresh_s=7)
    assert succeed(tx, got, parsed(item("a"), item("b"), hints=Hints(period_s=60))) == Counts(2, 0)
    row = ada(tx)
    assert (row.etag, row.last_modified, row.digest) == ('W/"\xe9"', "whenever", digest_of(b"one"))
    assert (row.title, row.site, row.fresh_s, row.hints) == ("Ada's feed", "http://ada.example/", 7, Hints(60))
    assert (row.last_ok, row.last_attempt, row.last_error) == (NOW, NOW, None)
    assert texts(tx) == [("a", "text"), ("b", "text")]
    assert tx.execute("SELECT rowid FROM words WHERE words MATCH 'text'").fetchall() == [(1,), (2,)]


def test_validators_are_replaced_on_every_200_even_if_the_body_is_equal(tx: sqlite3.Connection) -> None:
    """Acceptance 2: replaced on every 200, both if both came, and by nothing where nothing came."""
    succeed(tx, answer(b"one", etag="1", last_modified="monday"), parsed(item("a")))
    assert succeed(tx, answer(b"one", etag="2")) == Counts(0, 0)
    assert (ada(tx).etag, ada(tx).last_modified, ada(tx).digest) == ("2", None, digest_of(b"one"))
    succeed(tx, answer(b"one"))
    assert (ada(tx).etag, ada(tx).digest) == (None, digest_of(b"one"))


def test_a_304_leaves_validators_and_entries_and_brings_its_hints(tx: sqlite3.Connection) -> None:
    """Acceptance 3: hints of a 304 count too; those of the document are kept."""
    succeed(tx, answer(b"one", etag="1", last_modified="m"), parsed(item("a"), hints=Hints(skip_hours=(3,))))
    assert succeed(tx, unchanged(etag="9", fresh_s=50), at=NOW + HOUR) == Counts(0, 0)
    row = ada(tx)
    assert (row.etag, row.last_modified, row.fresh_s, row.hints) == ("1", "m", 50, Hints(skip_hours=(3,)))
    assert (row.last_ok, row.title, texts(tx)) == (NOW + HOUR, "Ada's feed", [("a", "text")])


def test_bad_304_drops_the_validators_and_what_they_stood_for(tx: sqlite3.Connection) -> None:
    """Rule success: else bad_304, drop the validators, so that the next request is an unconditional one."""
    succeed(tx, answer(b"one", etag="1", last_modified="m"), parsed(item("a")))
    row = fail(tx, "bad_304", status=304)
    assert (row.etag, row.last_modified, row.digest, row.failures) == (None, None, None, 1)
    assert texts(tx) == [("a", "text")]


def test_failures_are_counted_to_12_and_a_success_clears_them(tx: sqlite3.Connection) -> None:
    """Rules failure and success: min(failures + 1, 12); 0, no last_error and last_ok after a success."""
    for time in range(1, 16):
        assert fail(tx, "timeout", NOW + time).failures == min(time, 12)
    row = ada(tx)
    assert (row.last_error, row.last_ok, row.last_attempt) == ("timeout", None, NOW + 15)
    succeed(tx, answer(), parsed(), NOW + HOUR)
    row = ada(tx)
    assert (row.failures, row.faults, row.last_error, row.last_ok) == (0, 0, None, NOW + HOUR)


def test_faults_of_our_own_are_counted_apart(tx: sqlite3.Connection) -> None:
    """Rule our own fault: store and internal leave `failures` untouched."""
    fail(tx, "timeout")
    for time in range(1, 15):
        row = fail(tx, "internal" if time % 2 else "store")
        assert (row.failures, row.faults) == (1, min(time, 12))
    assert fail(tx, "timeout").failures == 2
    succeed(tx, answer(), parsed())
    assert ada(tx).faults == 0


def test_a_failure_leaves_validators_and_the_last_success(tx: sqlite3.Connection) -> None:
    succeed(tx, answer(b"one", etag="1", last_modified="m"), parsed(item("a")))
    row = fail(tx, "http_server", NOW + HOUR, status=503)
    assert (row.etag, row.last_modified, row.digest, row.last_ok) == ("1", "m", digest_of(b"one"), NOW)


def test_gone_counts_from_its_first_time_until_a_success(tx: sqlite3.Connection) -> None:
    """Acceptance 10: 410 three times over 24 h; another failure in between changes nothing of it."""
    fail(tx, "http_gone", NOW)
    fail(tx, "timeout", NOW + HOUR)
    row = fail(tx, "http_gone", NOW + DAY)
    assert (row.gone_first, row.gone_times, row.failures) == (NOW, 2, 3)
    succeed(tx, answer(), parsed())
    assert (ada(tx).gone_first, ada(tx).gone_times) == (None, 0)


def moving(tx: sqlite3.Connection, hours: list[int], feed: Any = None, to: str = "http://eve.example/feed") -> bool:
    got = answer(b"one", url=to, moved_to=to)
    return [succeed(tx, got, feed, NOW + at * HOUR).moved for at in hours][-1]


def test_a_redirect_is_believed_after_5_times_over_48_hours(tx: sqlite3.Connection) -> None:
    """Acceptance 11: 301/308 stored after 5 same answers over 48 h, if the target has a known entry."""
    succeed(tx, answer(), parsed(item("a")))
    assert not moving(tx, [0, 10, 20, 30], parsed(item("a")))
    assert ada(tx).url == "http://ada.example/feed"
    assert moving(tx, [48], parsed(item("a"), item("b")))
    row = ada(tx)
    assert (row.url, row.given) == ("http://eve.example/feed", "http://ada.example/feed")
    assert tx.execute("SELECT address FROM source").fetchall() == [("eve.example/feed",)]
    assert (ada(tx).moved_times, ada(tx).moved_to, ada(tx).moved_first) == (0, None, None)


@pytest.mark.parametrize("hours", [[0, 1, 2, 3, 47], [0, 60, 61, 62]], ids=["5-in-47-hours", "4-in-62-hours"])
def test_a_redirect_is_not_believed_sooner(tx: sqlite3.Connection, hours: list[int]) -> None:
    """Acceptance 11."""
    succeed(tx, answer(), parsed(item("a")))
    assert not moving(tx, hours)
    assert ada(tx).url == ada(tx).given


def test_a_redirect_to_something_else_is_not_believed(tx: sqlite3.Connection) -> None:
    """Acceptance 11: a parking page that parses, but has no entry that is known."""
    succeed(tx, answer(), parsed(item("a")))
    assert not moving(tx, [0, 12, 24, 36, 48, 60], parsed(item("casino")))
    assert ada(tx).url == ada(tx).given


def test_a_strange_target_is_believed_once_a_known_entry_is_there(tx: sqlite3.Connection) -> None:
    """Acceptance 11: a feed whose new host began with an empty place."""
    succeed(tx, answer(), parsed(item("a")))
    assert not moving(tx, [1, 2], parsed(item("welcome")))
    assert not moving(tx, [12], None)
    assert not moving(tx, [24, 36, 48, 60], parsed(item("a")))
    assert moving(tx, [61], parsed(item("a")))


def test_a_source_that_was_a_redirect_from_the_beginning(tx: sqlite3.Connection) -> None:
    """Acceptance 11: what its target says is all that it ever was."""
    assert not moving(tx, [0], parsed(item("a")))
    assert moving(tx, [12, 24, 36, 48], parsed(item("a")))


def test_another_target_counts_from_one(tx: sqlite3.Connection) -> None:
    """Acceptance 11: 5 same answers; an answer without a redirect begins anew too."""
    succeed(tx, answer(), parsed(item("a")))
    moving(tx, [0, 12, 24, 36])
    moving(tx, [48], to="http://bob.example/feed")
    assert (ada(tx).moved_times, ada(tx).moved_first, ada(tx).url) == (1, NOW + 48 * HOUR, ada(tx).given)
    succeed(tx, answer(b"one"), None)
    assert ada(tx).moved_times == 0


def test_a_source_that_leads_to_another_is_shown_as_the_same(tx: sqlite3.Connection) -> None:
    """A duplicate by a redirect: it isn't moved onto the other one."""
    add(tx, "eve")
    succeed(tx, answer(), parsed(item("a")))
    assert not moving(tx, [0, 12, 24, 36, 48])
    assert (ada(tx).same_as, ada(tx).url) == ("eve", ada(tx).given)
    succeed(tx, answer(b"one"), None)
    assert ada(tx).same_as is None


def test_a_changed_entry_is_a_new_revision_and_the_old_one_is_kept(tx: sqlite3.Connection) -> None:
    succeed(tx, answer(b"1"), parsed(item("a", "first"), item("b")))
    assert succeed(tx, answer(b"2"), parsed(item("a", "second"), item("b")), NOW + HOUR) == Counts(0, 1)
    assert texts(tx) == [("a", "second"), ("b", "text")]
    assert tx.execute("SELECT text FROM revision WHERE entry = 1 ORDER BY id").fetchall() == [("first",), ("second",)]
    assert tx.execute("SELECT rowid FROM words WHERE words MATCH 'first'").fetchall() == []
    assert tx.execute("SELECT rowid FROM words WHERE words MATCH 'second'").fetchall() == [(1,)]


def test_a_text_that_comes_back_is_the_revision_it_was(tx: sqlite3.Connection) -> None:
    for number, text in enumerate(["first", "second", "first"]):
        succeed(tx, answer(str(number).encode()), parsed(item("a", text)), NOW + number)
    assert texts(tx) == [("a", "first")]
    assert tx.execute("SELECT text, seen FROM revision ORDER BY id").fetchall() == [
        ("first", NOW + 2),
        ("second", NOW + 1),
    ]


def test_an_entry_that_is_no_longer_in_the_feed_stays(tx: sqlite3.Connection) -> None:
    succeed(tx, answer(b"1"), parsed(item("a")))
    succeed(tx, answer(b"2"), parsed(item("b")))
    assert texts(tx) == [("a", "text"), ("b", "text")]


def test_the_same_key_in_two_sources_is_two_entries(tx: sqlite3.Connection) -> None:
    add(tx, "eve")
    succeed(tx, answer(b"1"), parsed(item("a")))
    save_success(tx, ada(tx, "eve"), answer(b"1"), parsed(item("a", "other")), Times(NOW, NOW), THEN)
    assert texts(tx) == [("a", "text"), ("a", "other")]


def test_offers_of_a_page_stay_until_it_is_a_feed(tx: sqlite3.Connection) -> None:
    """Bad input: a URL of a page without a feed offers the links that it advertises."""
    offers = (Offer("http://a.example/1", "One", "rss"), Offer("http://a.example/2", "Two", "atom"))
    fail(tx, "not_a_feed", status=200, offers=(*offers, offers[0]))
    assert tx.execute(SQL["offers"], {"number": 1}).fetchall() == [
        ("http://a.example/1", "One", "rss"),
        ("http://a.example/2", "Two", "atom"),
    ]
    fail(tx, "not_a_feed", status=200, offers=offers[:1])
    assert len(tx.execute(SQL["offers"], {"number": 1}).fetchall()) == 1
    succeed(tx, answer(), parsed())
    assert tx.execute(SQL["offers"], {"number": 1}).fetchall() == []


def test_offers_outlive_a_failure_of_another_kind(tx: sqlite3.Connection) -> None:
    fail(tx, "not_a_feed", offers=(Offer("http://a.example/1", "One", "rss"),))
    fail(tx, "timeout")
    assert len(tx.execute(SQL["offers"], {"number": 1}).fetchall()) == 1


def test_attempts_are_kept_but_not_all(tx: sqlite3.Connection) -> None:
    for number in range(KEEP_ATTEMPTS + 7):
        fail(tx, "timeout", NOW + number)
    rows = tx.execute("SELECT ended, reason, asked_by FROM attempt ORDER BY id").fetchall()
    assert rows == [(NOW + number, "timeout", None) for number in range(7, KEEP_ATTEMPTS + 7)]


def test_attempts_that_a_quota_counts_are_kept_for_their_day(tx: sqlite3.Connection) -> None:
    """Rule forced refresh: <= 6 a day, also where a source is asked often."""
    succeed(tx, answer(), parsed(), NOW, by="eve")
    for number in range(1, KEEP_ATTEMPTS + 5):
        fail(tx, "timeout", NOW + number * 5 * MINUTE)
    assert tx.execute("SELECT count(*) FROM attempt WHERE asked_by = 'eve'").fetchone() == (1,)
    fail(tx, "timeout", NOW + 2 * DAY)
    assert tx.execute("SELECT count(*), count(asked_by) FROM attempt").fetchone() == (KEEP_ATTEMPTS, 0)


def test_the_line_of_an_attempt(tx: sqlite3.Connection) -> None:
    succeed(tx, answer(), parsed(item("a"), cut=3), by="eve")
    row = tx.execute("SELECT begun, ended, status, reason, fresh, changed, cut, asked_by FROM attempt").fetchone()
    assert row == (NOW - 100, NOW, 200, None, 1, 0, 3, "eve")


def test_the_plain_question(tx: sqlite3.Connection) -> None:
    """One schedule: SELECT id, failures FROM sources WHERE next_due <= ? ORDER BY next_due, id, in seconds."""
    add(tx, "eve")
    tx.execute("INSERT INTO nextdue_tasks(name, key, due_ms) VALUES ('collect', 'ada', 5001), ('collect', 'eve', 5000)")
    fail(tx, "timeout")
    question = "SELECT id, failures FROM sources WHERE next_due <= ? ORDER BY next_due, id"
    assert tx.execute(question, (5,)).fetchall() == [("eve", 0)]
    assert tx.execute(question, (6,)).fetchall() == [("eve", 0), ("ada", 1)]


keys = st.sampled_from(["a", "b", "c", "d"])
feeds = st.lists(st.dictionaries(keys, st.sampled_from(["x", "y", "z"]), max_size=4), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(feeds)
def test_the_newest_text_of_each_key_is_current_and_none_is_lost_or_doubled(
    tx: sqlite3.Connection, feeds: list[dict[str, str]]
) -> None:
    for table in ("words", "attempt", "revision", "entry"):
        tx.execute(f"DELETE FROM {table}")
    model: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for feed in feeds:
        counts = succeed(tx, answer(), parsed(*(item(key, text) for key, text in feed.items())))
        assert counts.fresh == len(set(feed) - set(model))
        assert counts.changed == sum(key in model and model[key] != text for key, text in feed.items())
        model.update(feed)
        seen.update(feed.items())
    assert dict(texts(tx)) == model
    revisions = tx.execute("SELECT key, text FROM revision r JOIN entry e ON e.id = r.entry").fetchall()
    assert sorted(revisions) == sorted(seen)
    words = tx.execute("SELECT key, words.text FROM words JOIN entry e ON e.id = words.rowid").fetchall()
    assert dict(words) == model
    assert len(words) == len(model)
