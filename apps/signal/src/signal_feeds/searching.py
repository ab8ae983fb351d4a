"""Search among all entries, by what people type into a box."""

import re
from itertools import islice
from typing import NamedTuple

from signal_feeds.errors import NothingAsked
from signal_feeds.records import Verdict
from signal_feeds.store import SQL, Tx

MOST_TERMS = 32
"""The words after that are left out: nobody means them, and each costs time."""
PAGE = 20
YE, YO = "\u0435", "\u0451"
LONGEST_WORD = 40
"""Only shorter ones are looked for in both spellings."""
_TERMS = re.compile(r'"([^"]*)"?|([^\s"]+)')
_MARKS = re.compile("[\x02\x03]")


class Bit(NamedTuple):
    """A stretch of text, and whether it is what was searched for."""

    text: str
    found: bool


class Hit(NamedTuple):
    """An entry that was found, by its current text."""

    id: int
    source: str
    source_number: int
    source_title: str | None
    title: str
    link: str | None
    published: int
    """UTC ms; when it was seen first if its feed doesn't say."""
    verdict: Verdict | None
    marked: tuple[Bit, ...]
    """Its title."""
    snippet: tuple[Bit, ...]
    """Some words of its text around what was found."""


def search(tx: Tx, asked: str, *, limit: int = PAGE) -> list[Hit]:
    """The entries in which all the words are, best first. Raises NothingAsked if there is no word in it.

    "In quotes": these words in this order; a word with a star at its end: all that begin with it. Everything else is
    only words. Case and Latin diacritics don't count, and Russian ye finds yo.
    """
    query = query_of(asked)
    if not query:
        raise NothingAsked("search.empty")
    rows = tx.execute(SQL["search"], {"query": query, "limit": limit}).fetchall()
    return [Hit._make((*row[:-2], _bits(row[-2]), _bits(row[-1]))) for row in rows]


def query_of(asked: str) -> str:
    """A question in FTS5's language, "" if there is no word in it. Whatever is typed, it is a valid one.

    >>> query_of('feeds AND "exact phrase" autom*')
    '("feeds") AND ("AND") AND ("exact phrase") AND ("autom" *)'
    """
    terms = (
        _term(phrase or word.rstrip("*"), prefix=word.endswith("*")) for phrase, word in _TERMS.findall(_clean(asked))
    )
    return " AND ".join(islice(filter(None, terms), MOST_TERMS))


def _clean(asked: str) -> str:
    """Without what SQLite can't take or would stop at: NUL and other controls, halves of surrogate pairs."""
    return "".join(c if c.isprintable() else " " for c in asked)


def _term(text: str, *, prefix: bool) -> str:
    if not any(c.isalnum() for c in text):
        return ""
    star = " *" if prefix else ""
    return "(" + " OR ".join(f'"{spelled}"{star}' for spelled in _spellings(text)) + ")"


def _spellings(text: str) -> list[str]:
    """The text, and itself with ye and yo as others would write it: most write ye for both, and a word has one yo."""
    plain = text.replace(YO, YE).replace(YO.upper(), YE.upper())
    at = [place for place, letter in enumerate(plain) if letter.lower() == YE] if len(plain) <= LONGEST_WORD else []
    return list(dict.fromkeys([text, plain, *(f"{plain[:place]}{YO}{plain[place + 1 :]}" for place in at)]))


def _bits(marked: str) -> tuple[Bit, ...]:
    """What SQLite marked by \\x02 and \\x03, as parts."""
    parts = _MARKS.split(marked)
    # An entry's own such characters only shift what is drawn as found.
    return tuple(Bit(part, at % 2 == 1) for at, part in enumerate(parts) if part)
