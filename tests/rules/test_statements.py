"""A page of SQL is read as named statements."""

import sys
from pathlib import Path

import pytest

import nextdue.sqlite
from nextdue.sqlite.database import PAGES
from nextdue.statements import load

FOLDER_PAGES = sorted(p.name for p in Path(nextdue.sqlite.__file__).parent.glob("*.sql"))
TOGETHER = {*PAGES, "tx.sql", "words.sql"}
"""Pages that aren't read alone."""


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Write a page into a package of its own and read it."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def read(text: str) -> dict[str, str]:
        name = f"page_{len(made)}_of_{tmp_path.name}"  # load() keeps what it has read
        made.append(name)
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "statements.sql").write_text(text, "utf-8")
        return load(name, "statements.sql")

    yield read
    for name in made:
        sys.modules.pop(name, None)


def test_statements_are_found_by_name_without_comments_and_the_last_semicolon(page):
    found = page("-- of the page\n\n-- :name one\n-- why\nSELECT 1;\n\n-- :name two\nSELECT ';'\n  -- inside\n  , 2\n")
    assert found == {"one": "SELECT 1", "two": "SELECT ';'\n  , 2"}


def test_several_statements_may_have_one_name(page):
    assert page("-- :name setup\nCREATE TABLE a(b);\nCREATE TABLE c(d);\n")["setup"].count(";") == 1


def test_a_word_is_defined_once_and_used_everywhere(page):
    found = page("-- :define max 5 * 2\n-- :name one\nSELECT {max}, {max}\n-- :name two\nSELECT {max}\n")
    assert found == {"one": "SELECT 5 * 2, 5 * 2", "two": "SELECT 5 * 2"}


def test_a_name_used_twice_is_an_error(page):
    with pytest.raises(ValueError, match="two statements are called one"):
        page("-- :name one\nSELECT 1\n-- :name one\nSELECT 2\n")


def test_no_two_pages_have_one_name():
    """A worker's connection may have them all: the later page would change what its ticks ask."""
    assert {*PAGES, "restore.sql", "inspect.sql"} < set(FOLDER_PAGES)
    load("nextdue.sqlite", *FOLDER_PAGES)


def test_words_of_all_pages_are_in_a_page_of_their_own(page, tmp_path):
    page("-- :name one\nSELECT {max}\n")  # there is none
    (tmp_path / "wordy").mkdir()
    (tmp_path / "wordy" / "__init__.py").touch()
    (tmp_path / "wordy" / "words.sql").write_text("-- :define max 5 * 2\n", "utf-8")
    (tmp_path / "wordy" / "b.sql").write_text("-- :define least {max} - 1\n-- :name two\nSELECT {least}\n", "utf-8")
    assert load("wordy", "b.sql") == {"two": "SELECT 5 * 2 - 1"}


@pytest.mark.parametrize("pages", [PAGES, (*PAGES, "tx.sql"), *((p,) for p in FOLDER_PAGES if p not in TOGETHER)])
def test_no_page_leaves_a_word_open(pages):
    for name, text in load("nextdue.sqlite", *pages).items():
        assert text, name
        assert "{" not in text, name
        assert not text.endswith(";"), name
