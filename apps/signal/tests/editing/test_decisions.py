import pytest

from apps.signal.tests.written import Database, fingerprint_of
from signal_feeds import editing
from signal_feeds.errors import BadFingerprint, Changed, UnknownEntry


@pytest.fixture
def db() -> Database:
    return Database()


def current(db: Database, entry: int) -> str:
    return editing.look(db.tx, entry).current.fingerprint


def decide(db: Database, entry: int, verdict: str = "approved", fingerprint: str | None = None) -> editing.Entry:
    verb = editing.approve if verdict == "approved" else editing.reject
    return verb(db.tx, entry, fingerprint or current(db, entry)[:12], db.later())


def ids(db: Database, **how: bool) -> list[int]:
    return [waiting.id for waiting in editing.queue(db.tx, **how)]


def test_an_entry_waits_until_it_is_decided(db: Database) -> None:
    news = db.source()
    first, second, third = (db.says(news, key, title=key) for key in "abc")
    assert ids(db) == [first, second, third]
    assert decide(db, first).current.verdict == "approved"
    assert decide(db, second, "rejected").current.verdict == "rejected"
    assert ids(db) == [third]
    assert editing.waiting(db.tx) == 1


def test_the_queue_tells_what_to_read(db: Database) -> None:
    entry = db.says(db.source(), "a", title="New", link="https://news.example/x", published=None)
    (waiting,) = editing.queue(db.tx)
    assert waiting[:5] == (entry, "news", 1, "The News", current(db, entry))
    assert (waiting.title, waiting.link, waiting.changed) == ("New", "https://news.example/x", False)
    assert waiting.published == waiting.seen == db.now  # its feed gives no date


def test_the_queue_comes_in_pages(db: Database) -> None:
    news = db.source()
    entries = [db.says(news, str(number)) for number in range(7)]
    first = editing.queue(db.tx, limit=3)
    rest = editing.queue(db.tx, after=first[-1].id, limit=9)
    assert [waiting.id for waiting in first + rest] == entries
    assert editing.waiting(db.tx) == 7


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
@pytest.mark.parametrize(
    "change",
    [{"title": "Another title"}, {"link": "https://news.example/2"}, {"link": None}, {"text": "Another text."}],
    ids=["title", "link", "link-gone", "text"],
)
def test_a_change_of_title_link_or_text_inherits_no_decision(db: Database, verdict: str, change: dict) -> None:
    news = db.source()
    entry = db.says(news, "a")
    decide(db, entry, verdict)
    assert (ids(db), ids(db, changed=True)) == ([], [])
    db.says(news, "a", **change)
    assert (ids(db), ids(db, changed=True)) == ([entry], [entry])
    assert editing.look(db.tx, entry).current.verdict is None


def test_changed_lists_only_what_was_decided_before(db: Database) -> None:
    news = db.source()
    new, rewritten, decided = (db.says(news, key, title=key) for key in "abc")
    db.says(news, "b", title="b, rewritten before anybody read it")
    decide(db, decided)
    db.says(news, "c", title="c, rewritten")
    assert ids(db) == [new, rewritten, decided]
    assert [(waiting.id, waiting.changed) for waiting in editing.queue(db.tx, changed=True)] == [(decided, True)]
    assert editing.waiting(db.tx, changed=True) == 1


def test_a_text_that_comes_back_comes_back_with_its_decision(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry)
    db.says(news, "a", text="Two.")
    decide(db, entry, "rejected")
    db.says(news, "a", text="One.")
    assert editing.look(db.tx, entry).current.verdict == "approved"
    db.says(news, "a", text="Two.")
    assert editing.look(db.tx, entry).current.verdict == "rejected"
    assert ids(db) == []


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
def test_a_decision_on_what_has_changed_changes_nothing_and_shows_the_diff(db: Database, verdict: str) -> None:
    news = db.source()
    entry = db.says(news, "a", title="Peace talks begin", text="One.")
    read = current(db, entry)[:12]
    db.says(news, "a", title="Peace talks fail", text="One.")
    before = db.dump()
    with pytest.raises(Changed, match=f"entry {entry} has changed since you read it; nothing was decided") as caught:
        decide(db, entry, verdict, read)
    assert db.dump() == before
    diff = editing.diff(editing.look(db.tx, entry), caught.value.seen)
    assert diff is not None
    assert diff.title == (("same", "Peace talks "), ("removed", "begin"), ("added", "fail"))
    assert diff.text == (("same", "One."),)


def test_a_fingerprint_that_the_entry_never_had_changes_nothing(db: Database) -> None:
    news = db.source()
    entry, other = db.says(news, "a"), db.says(news, "b", title="Another")
    before = db.dump()
    with pytest.raises(Changed, match="never had a text with this fingerprint") as caught:
        decide(db, entry, fingerprint=current(db, other))
    assert caught.value.seen is None
    assert db.dump() == before


def test_digits_that_two_texts_share_are_not_enough(db: Database) -> None:
    """48 bits can be forged: a publisher could have the harmless text read and another one approved."""
    news = db.source()
    entry = db.says(news, "a", text="Harmless.")
    read = current(db, entry)
    db.says(news, "a", text="Not harmless.")
    forged = read[:12] + "0" * 52
    db.tx.execute("UPDATE revision SET fingerprint = ? WHERE text = 'Not harmless.'", (forged,))
    with pytest.raises(Changed, match="all 64 are needed"):
        decide(db, entry, fingerprint=read[:12])
    with pytest.raises(Changed, match="has changed"):
        decide(db, entry, fingerprint=read)
    assert decide(db, entry, fingerprint=forged).current.verdict == "approved"


@pytest.mark.parametrize(
    "typed", ["", "abc", "0123456789a", "0123456789ag", "0" * 65, "0123 456789ab", "%", "٠" * 12], ids=range(8)
)
def test_what_is_no_fingerprint_is_refused(db: Database, typed: str) -> None:
    entry = db.says(db.source(), "a")
    with pytest.raises(BadFingerprint, match=f"12 to 64 digits 0-9 a-f; signal show {entry} prints it"):
        editing.approve(db.tx, entry, typed, db.later())
    assert ids(db) == [entry]


@pytest.mark.parametrize("typed", [12, 13, 64, "UPPER"], ids=str)
def test_twelve_digits_or_more_are_taken_in_either_case(db: Database, typed: int | str) -> None:
    entry = db.says(db.source(), "a")
    whole = current(db, entry)
    decide(db, entry, fingerprint=whole.upper() if isinstance(typed, str) else f" {whole[:typed]} ")
    assert ids(db) == []


@pytest.mark.parametrize("number", [0, -1, 99, 2**70])
def test_an_entry_that_is_not_there(db: Database, number: int) -> None:
    with pytest.raises(UnknownEntry, match=f"no entry has the number {number}"):
        editing.approve(db.tx, number, "0" * 12, db.later())


def test_the_same_verdict_again_leaves_its_time_and_another_one_replaces_it(db: Database) -> None:
    entry = db.says(db.source(), "a")
    first = decide(db, entry).current.decided
    assert decide(db, entry).current.decided == first
    turned = decide(db, entry, "rejected").current
    assert (turned.verdict, turned.decided) == ("rejected", db.now)
    assert first is not None
    assert db.now > first


def test_an_entry_shows_all_its_revisions_and_decisions(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    decide(db, entry, "rejected")
    db.says(news, "a", text="Two.")
    db.says(news, "a", text="Three.")
    seen = editing.look(db.tx, entry)
    assert [(r.text, r.verdict) for r in seen.revisions] == [("One.", "rejected"), ("Two.", None), ("Three.", None)]
    assert (seen.source, seen.key, seen.current.text) == ("news", "a", "Three.")
    assert seen.current.fingerprint == fingerprint_of("A title", "https://news.example/1", "Three.")


def test_the_diff_is_from_the_last_decided_text(db: Database) -> None:
    news = db.source()
    entry = db.says(news, "a", text="One.")
    assert editing.diff(editing.look(db.tx, entry)) is None
    db.says(news, "a", text="Two.")
    diff = editing.diff(editing.look(db.tx, entry))
    assert diff is not None
    assert diff.text == (("removed", "One"), ("added", "Two"), ("same", "."))
    decide(db, entry)
    db.says(news, "a", text="Three.")
    db.says(news, "a", text="Four.")
    diff = editing.diff(editing.look(db.tx, entry))
    assert diff is not None
    assert diff.text[0] == ("removed", "Two")
