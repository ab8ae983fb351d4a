"""Requests out of turn, on a real file."""

import sqlite3
from typing import Any

import pytest

from apps.signal.tests.samples import DAY, HOUR, MINUTE, NOW, add, source
from signal_feeds.errors import NotYet
from signal_feeds.records import Hints
from signal_feeds.refreshing import A_DAY, AN_HOUR, Permit, allowed_at, permit, wish
from signal_feeds.store import SQL

INTERVAL_S = 1800


def asked(begun: int, tx: sqlite3.Connection, number: int = 1, by: str | None = "eve") -> None:
    """A line of history."""
    empty = dict.fromkeys(("status", "reason"))
    counts = dict.fromkeys(("fresh", "changed", "cut"), 0)
    tx.execute(
        SQL["add_attempt"], {"number": number, "begun": begun, "ended": begun, "asked_by": by, **empty, **counts}
    )


def ok(at: int, **values: Any) -> Any:
    """A source whose last attempt, at `at`, went well."""
    return source(last_attempt=at, last_ok=at, digest="d", **values)


def refused(tx: sqlite3.Connection, row: Any, now: int) -> int:
    with pytest.raises(NotYet) as caught:
        wish(tx, row, "eve", now)
    assert f"{row.id} may be asked again at 20" in str(caught.value)
    return caught.value.at


def test_in_its_turn_a_source_needs_no_wish(tx: sqlite3.Connection) -> None:
    row = ok(NOW)
    assert permit(tx, row, NOW + 30 * MINUTE, INTERVAL_S) == Permit()
    assert permit(tx, source(), NOW, INTERVAL_S) == Permit()


def test_an_early_source_without_a_wish_goes_back_to_its_turn(tx: sqlite3.Connection) -> None:
    """Rule one owner: whoever made the row due."""
    assert permit(tx, ok(NOW), NOW + 29 * MINUTE, INTERVAL_S) == Permit(until=NOW + 30 * MINUTE)


def test_a_wish_is_granted_once_five_minutes_are_over(tx: sqlite3.Connection) -> None:
    """Rule forced refresh: only if the last attempt is >= 5 min old; a refusal says when."""
    row = ok(NOW)
    assert refused(tx, row, NOW + 4 * MINUTE) == NOW + 5 * MINUTE
    wish(tx, row, "eve", NOW + 5 * MINUTE)
    assert permit(tx, row, NOW + 5 * MINUTE, INTERVAL_S) == Permit(asked_by="eve")


def test_a_wish_waits_for_what_the_server_asked_for(tx: sqlite3.Connection) -> None:
    """Rule forced refresh: only if now >= the server's not_before; and its skipped hours are its wish too."""
    assert refused(tx, ok(NOW - HOUR, not_before=NOW + HOUR), NOW) == NOW + HOUR
    assert refused(tx, ok(NOW - HOUR, hints=Hints(skip_hours=(0, 1))), NOW) == NOW + 2 * HOUR


def test_a_wish_of_a_failing_source(tx: sqlite3.Connection) -> None:
    row = source(last_attempt=NOW, last_error="timeout", failures=9)
    wish(tx, row, "eve", NOW + 5 * MINUTE)
    assert permit(tx, row, NOW + 5 * MINUTE, INTERVAL_S) == Permit(asked_by="eve")


def test_six_a_day_of_one_source(tx: sqlite3.Connection) -> None:
    """Rule forced refresh: <= 6 a day a source. Regular requests don't count."""
    for number in range(A_DAY):
        asked(NOW + number * HOUR, tx)
        asked(NOW + number * HOUR, tx, by=None)
    row = ok(NOW + 6 * HOUR)
    assert refused(tx, row, NOW + 7 * HOUR) == NOW + DAY + 1
    assert allowed_at(tx, row, NOW + DAY + 1) == NOW + DAY + 1
    other = ok(NOW, number=2)
    assert allowed_at(tx, other, NOW + 7 * HOUR) == NOW + 7 * HOUR


def test_thirty_an_hour_in_all(tx: sqlite3.Connection) -> None:
    """Rule forced refresh: <= 30 an hour in all, those counted that were wished for and aren't made yet."""
    for number in range(2, 32):
        add(tx, f"s{number}")
    for number in range(20):
        asked(NOW + number * MINUTE, tx, number + 2)
    now = NOW + 20 * MINUTE
    for number in range(22, 32):
        wish(tx, ok(NOW - HOUR, number=number, id=f"s{number}"), "eve", now)
    assert refused(tx, ok(NOW - HOUR), now) == NOW + HOUR + 1
    wish(tx, ok(NOW - HOUR, number=22, id="s22"), "bob", now)  # it has a wish already
    assert allowed_at(tx, ok(NOW - HOUR), NOW + HOUR + 1) == NOW + HOUR + 1


def test_the_collector_counts_what_is_under_way(tx: sqlite3.Connection) -> None:
    """Rule one owner: the collector checks the quotas, also where a wish was written past `signal refresh`."""
    for number in range(AN_HOUR - 2):
        asked(NOW + number, tx)
    add(tx, "eve")
    row = ok(NOW - 10 * MINUTE, number=2, id="eve")
    tx.execute(SQL["wish"], {"number": 2, "now": NOW, "who": "eve"})
    now = NOW + MINUTE
    assert permit(tx, row, now, INTERVAL_S, under_way=1) == Permit(asked_by="eve")
    assert permit(tx, row, now, INTERVAL_S, under_way=2) == Permit(until=NOW + 20 * MINUTE)
    late = ok(NOW, number=2, id="eve", fresh_s=86_400)
    assert permit(tx, late, now, INTERVAL_S) == Permit(until=NOW + 5 * MINUTE)


def test_a_refusal_writes_nothing(tx: sqlite3.Connection) -> None:
    refused(tx, ok(NOW), NOW)
    assert tx.execute("SELECT count(*) FROM wish").fetchone() == (0,)


def test_the_last_wish_names_who_wants_it(tx: sqlite3.Connection) -> None:
    for who in ("eve", "bob"):
        wish(tx, ok(NOW - HOUR), who, NOW)
    assert tx.execute("SELECT * FROM wish").fetchall() == [(1, NOW, "bob")]
