"""Instants on the command line: never guessed, always shown in local time and UTC."""

import time
from datetime import UTC, datetime

import pytest

from nextdue.cli import times
from nextdue.clock import MAX_MS, span, to_ms
from nextdue.errors import BadTime


@pytest.fixture
def zone(monkeypatch):
    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def ms(*parts):
    return to_ms(datetime(*parts).replace(tzinfo=UTC))  # noqa: DTZ001


def test_an_instant_is_shown_in_local_time_and_utc(zone):
    zone("Europe/Moscow")
    assert times.shown(ms(2026, 12, 1, 6)) == "2026-12-01 09:00:00 MSK (06:00:00 UTC)"
    assert times.shown(ms(2026, 12, 1, 22)) == "2026-12-02 01:00:00 MSK (2026-12-01 22:00:00 UTC)"
    assert times.shown(MAX_MS) == "9999-12-31 23:59:59 UTC"
    zone("UTC")
    assert times.shown(ms(2026, 12, 1, 6)) == "2026-12-01 06:00:00 UTC"


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (60_000, "1 min"), (3_605_000, "1 h"), (90_000_000, "1 d 1 h")],
)
def test_a_length_of_time_has_its_two_largest_units(length, text):
    assert span(length) == text


@pytest.mark.parametrize(
    ("text", "tz", "expected"),
    [
        ("2026-12-01 09:00", "Europe/Moscow", "2026-12-01T06:00:00+00:00"),
        ("2026-12-01T09:00:30+03:00", None, "2026-12-01T06:00:30+00:00"),
        ("2026-12-01 09:00Z", None, "2026-12-01T09:00:00+00:00"),
        ("2026-07-01 09:00", "Europe/Berlin", "2026-07-01T07:00:00+00:00"),
    ],
)
def test_a_clear_time_is_taken(text, tz, expected):
    assert times.instant(text, tz).astimezone(UTC).isoformat() == expected


def test_a_naive_time_is_refused_with_both_spellings_of_it(zone):
    zone("Europe/Moscow")
    with pytest.raises(BadTime) as refused:
        times.instant("2026-12-01T09:00", None)
    assert '--at "2026-12-01 09:00+03:00" or --at "2026-12-01 09:00" --tz Europe/Moscow' in str(refused.value)


@pytest.mark.parametrize(
    ("wall", "tz", "offsets"),
    [
        ("2026-03-29 02:30", "Europe/Berlin", ("+01:00", "+02:00")),  # skipped
        ("2026-10-25 02:30", "Europe/Berlin", ("+02:00", "+01:00")),  # twice
        ("2026-04-05 01:45", "Australia/Lord_Howe", ("+11:00", "+10:30")),  # twice, half an hour
    ],
)
def test_wall_times_that_a_zone_skips_or_repeats_are_refused_with_both_offsets(wall, tz, offsets):
    with pytest.raises(BadTime) as refused:
        times.instant(wall, tz)
    spellings = [f"{wall}{offset}" for offset in offsets]
    assert all(f'--at "{spelling}"' in str(refused.value) for spelling in spellings)
    first, second = (times.instant(spelling, None) for spelling in spellings)
    assert first != second


@pytest.mark.parametrize("wall", ["2026-03-29 01:59", "2026-03-29 03:00", "2026-10-25 01:59", "2026-10-25 03:00"])
def test_wall_times_beside_the_change_are_taken(wall):
    assert times.instant(wall, "Europe/Berlin").tzinfo is not None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("berlin", "Europe/Berlin"), ("Europe/Moskow", "Europe/Moscow"), ("new york", "America/New_York")],
)
def test_an_unknown_zone_is_refused_with_near_names(typed, meant):
    with pytest.raises(BadTime, match=f"no time zone '{typed}'; did you mean .*{meant}"):
        times.instant("2026-12-01 09:00", typed)


@pytest.mark.parametrize("zone_name", ["", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 5000, "Nowhere"])
def test_a_hostile_zone_is_just_unknown(zone_name):
    with pytest.raises(BadTime, match="no time zone"):
        times.instant("2026-12-01 09:00", zone_name)


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01 09:00", "1796126400", "09:00", "2026-12-01 25:00"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(BadTime, match="can't read"):
        times.instant(text, "UTC")


def test_an_offset_and_a_zone_are_one_too_many():
    with pytest.raises(BadTime, match="leave out --tz"):
        times.instant("2026-12-01 09:00+03:00", "Europe/Moscow")
