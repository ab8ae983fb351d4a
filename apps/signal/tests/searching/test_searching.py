import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.signal.tests.written import Database
from signal_feeds import editing
from signal_feeds.errors import NothingAsked
from signal_feeds.searching import query_of, search

ENTRIES = {
    "cake": ("Tea and cake", "A café serves cake. It isn't cheap, 100% of it."),
    "not": ("NOT near OR far", "Operators AND such: a-b c++ (x) title:y ^z {q}"),
    "tree": ("Новогодняя ёлка", "Ёлка стоит в лесу; её видно. Счёт: 5:3"),
    "vote": ("Выборы мэра", "Итоги выборов объявят завтра — «скоро»."),
}


@pytest.fixture(scope="module")
def db() -> Database:
    db = Database()
    news = db.source()
    for key, (title, text) in ENTRIES.items():
        db.says(news, key, title=title, text=text)
    return db


def found(db: Database, asked: str) -> list[str]:
    titles = {title: key for key, (title, _) in ENTRIES.items()}
    return sorted(titles[hit.title] for hit in search(db.tx, asked))


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ("cake", ["cake"]),
        ("CAKE tea", ["cake"]),
        ("cake tree", []),
        ("cafe", ["cake"]),
        ("isn't", ["cake"]),
        ("100%", ["cake"]),
        ('"tea and cake"', ["cake"]),
        ('"cake tea"', []),
        ('"tea and', ["cake"]),
        ('"tea"cake', ["cake"]),
        ("oper*", ["not"]),
        ("oper", []),
        ("NOT", ["not"]),
        ("cake NOT tea", []),
        ("cake OR far", []),
        ("near OR far", ["not"]),
        ("NEAR(near far)", []),  # a word with something within is a phrase
        ("NEAR (near far)", ["not"]),
        ("-cake", ["cake"]),
        ("title:y", ["not"]),
        ("c++", ["not"]),
        ("^z", ["not"]),
        ("{q} (x)", ["not"]),
        ("a-b", ["not"]),
        ("* cake", ["cake"]),
        ("cake ! - * ^", ["cake"]),
        ("ёлка", ["tree"]),
        ("елка", ["tree"]),
        ("ЕЛКА", ["tree"]),
        ("лесу ее", ["tree"]),
        ("5:3", ["tree"]),
        ("выборы", ["vote"]),
        ("выбор", []),
        ("выбор*", ["vote"]),
        ("«скоро»", ["vote"]),
        ("МЭРА завтра", ["vote"]),
        ("cake\x00", ["cake"]),
        ("cake\ud800", ["cake"]),
        ("'; DROP TABLE words; --", []),
    ],
)
def test_what_people_type(db: Database, asked: str, keys: list[str]) -> None:
    assert found(db, asked) == keys


@pytest.mark.parametrize("asked", ["", "  ", '"', '""', "*", "!?", "\x00", "-", "«»", '"…" *'])
def test_nothing_asked_is_told(db: Database, asked: str) -> None:
    with pytest.raises(NothingAsked, match="type a word"):
        search(db.tx, asked)


@given(st.text(max_size=80) | st.text(alphabet="\"*() ANDORTе:ё-^+{}\\'", max_size=40))
def test_whatever_is_typed_is_a_valid_question(asked: str) -> None:
    db = Database()
    if query_of(asked):
        assert search(db.tx, asked) == []


def test_a_huge_question_is_answered(db: Database) -> None:
    assert found(db, "cake " * 50_000) == ["cake"]
    assert found(db, "cake " + "е" * 100_000) == []
    assert found(db, '"' + "еж " * 50_000) == []


def test_only_so_many_words_are_asked_for() -> None:
    assert query_of("cake " * 100).count("cake") == 32


def test_a_snippet_shows_where(db: Database) -> None:
    (hit,) = search(db.tx, "лесу")
    assert "".join(bit.text for bit in hit.snippet) == ENTRIES["tree"][1]
    assert [bit.text for bit in hit.snippet if bit.found] == ["лесу"]
    (hit,) = search(db.tx, "елка")
    assert [bit.text for bit in hit.marked if bit.found] == ["ёлка"]


def test_the_current_text_is_searched_and_the_verdict_shown() -> None:
    db = Database()
    news = db.source()
    entry = db.says(news, "a", text="An old word.")
    editing.approve(db.tx, entry, editing.look(db.tx, entry).current.fingerprint, db.later())
    assert [hit.verdict for hit in search(db.tx, "old")] == ["approved"]
    db.says(news, "a", text="A new word.")
    assert search(db.tx, "old") == []
    assert [(hit.id, hit.verdict) for hit in search(db.tx, "new")] == [(entry, None)]


def test_titles_count_more_and_the_best_come_first() -> None:
    db = Database()
    news = db.source()
    db.says(news, "a", title="Other", text="Long text with the word apple in it somewhere. " + "filler " * 100)
    db.says(news, "b", title="Apple", text="Short.")
    assert [hit.title for hit in search(db.tx, "apple")] == ["Apple", "Other"]
    assert [hit.title for hit in search(db.tx, "apple", limit=1)] == ["Apple"]
