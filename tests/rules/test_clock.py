"""Instants and durations: exact, never early, and what can't be meant is refused with BadTime and nothing else."""

import math
import os
import time
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextdue.clock import MAX_MS, duration_ms, from_ms, to_ms, utc_text
from nextdue.errors import BadTime
from tests.rules.samples import refused

BERLIN = ZoneInfo("Europe/Berlin")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
OFFSETS = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
AWARE = st.datetimes(datetime(1971, 1, 1), datetime(9998, 12, 31), timezones=OFFSETS)  # noqa: DTZ001


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/New_York"])
def machine_zone(request, monkeypatch):
    """The zone that the machine is set to."""
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@given(AWARE)
def test_an_instant_is_cut_to_its_utc_millisecond(instant):
    assert to_ms(instant) == (instant - EPOCH) // MS


@given(st.integers(0, MAX_MS))
def test_every_millisecond_survives_the_way_there_and_back(ms):
    assert to_ms(from_ms(ms)) == ms
    assert from_ms(ms).utcoffset() == timedelta(0)


@given(st.integers(0, MAX_MS))
def test_the_text_of_an_instant_reads_back_as_it(ms):
    assert len(utc_text(ms)) == 24
    assert to_ms(datetime.fromisoformat(utc_text(ms))) == ms


@given(st.integers(0, MAX_MS), st.integers(0, MAX_MS))
def test_texts_sort_like_their_instants(a, b):
    assert (utc_text(a) < utc_text(b)) == (a < b)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), "2038-01-19T03:14:08.000Z"),
        (datetime(2100, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC), "2100-02-28T23:59:59.999Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00.000Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=0), "2026-10-25T00:30:00.000Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), "2026-10-25T01:30:00.000Z"),
    ],
)
def test_far_and_doubled_instants_are_exact(instant, text):
    """F107."""
    assert utc_text(to_ms(instant)) == text


def test_the_last_instant_is_the_last_that_can_be_shown():
    """F105."""
    assert utc_text(MAX_MS) == "9999-12-31T23:59:59.999Z"
    with pytest.raises(OverflowError):
        from_ms(MAX_MS + 1)


@pytest.mark.usefixtures("machine_zone")
def test_the_zone_of_the_machine_changes_nothing():
    """F108: an aware instant means the same on every machine, a naive one is refused on all of them."""
    assert utc_text(to_ms(datetime(2026, 12, 1, 12, tzinfo=BERLIN))) == "2026-12-01T11:00:00.000Z"
    assert utc_text(to_ms(datetime(2026, 7, 1, 12, tzinfo=BERLIN))) == "2026-07-01T10:00:00.000Z"
    with pytest.raises(BadTime, match=r"naive.*add a zone"):
        to_ms(datetime(2026, 12, 1, 12))  # noqa: DTZ001


@pytest.mark.parametrize(
    "instant",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-8))),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=23, minutes=59))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=timezone(timedelta(microseconds=1))),
    ],
)
def test_instants_that_no_store_can_show_are_refused(instant):
    """F107: and never by an OverflowError."""
    with pytest.raises(BadTime, match=r"outside 1970-01-01 \.\. 9999-12-31"):
        to_ms(instant)


@pytest.mark.parametrize("instant", [1_796_126_400, 1.5, None, date(2026, 12, 1), True, b"now"])
def test_what_is_no_datetime_is_refused_with_the_way_out(instant):
    """F108: an epoch is accepted only where it is spelled out."""
    with pytest.raises(BadTime, match=r"not (int|float|NoneType|date|bool|bytes).*fromtimestamp"):
        to_ms(instant)


# durations


@given(st.timedeltas(min_value=timedelta(0)))
def test_a_timedelta_is_rounded_up_and_clamped(duration):
    ms = duration_ms(duration)
    assert ms == MAX_MS or timedelta(0) <= ms * MS - duration < MS
    assert ms <= MAX_MS


@given(st.floats(0, 10 * 366 * 86_400) | st.integers(0, 10 * 366 * 86_400))
def test_seconds_are_rounded_up_and_nothing_is_early(seconds):
    ms = duration_ms(seconds)
    exact = Fraction(seconds) * 1000
    # The product of two floats may lie a hair below the exact one.
    assert exact - Fraction(1, 1000) <= ms <= exact + 1


@given(
    st.lists(
        st.tuples(st.integers(0, 999), st.sampled_from([("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)])),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["", " ", "  "]),
)
def test_a_text_is_the_sum_of_its_parts(parts, space):
    text = space.join(f"{count}{space}{unit}" for count, (unit, _) in parts)
    assert duration_ms(text) == sum(count * ms for count, (_, ms) in parts)
    assert duration_ms(text.upper()) == duration_ms(text)


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2 days", 172_800_000),
        ("12 days", 1_036_800_000),
        ("1 week", 604_800_000),
        ("1.5 hours", 5_400_000),
        ("0s", 0),
        (0, 0),
        (0.25, 250),
        (1e-9, 1),
        (timedelta(microseconds=1), 1),
        (timedelta.max, MAX_MS),
        (timedelta(days=400 * 366), 400 * 366 * 86_400_000),
        ("9" * 400 + "d", MAX_MS),
        (10 * 366 * 86_400, 316_224_000_000),
    ],
)
def test_durations_that_are_meant(duration, ms):
    """F105, F107: far ones are clamped, none overflows."""
    assert duration_ms(duration) == ms


@pytest.mark.parametrize(
    ("duration", "why"),
    [
        (-1, "must not be negative"),
        (-1e-9, "must not be negative"),
        (-(10**400), "must not be negative"),
        (timedelta(microseconds=-1), "must not be negative"),
        (timedelta.min, "must not be negative"),
        (math.nan, "must be finite"),
        (math.inf, "must be finite"),
        (-math.inf, "must be finite"),
        (1_796_126_400_000, "probably in milliseconds"),
        (10 * 366 * 86_400 + 1, "probably in milliseconds"),
        (10**400, "probably in milliseconds"),
        (1e308, "probably in milliseconds"),
        (True, "must be a timedelta"),
        (None, "must be a timedelta"),
        (Decimal(5), "must be a timedelta"),
        ([5], "must be a timedelta"),
        ("", "can't read"),
        (" ", "can't read"),
        ("5", "can't read"),
        ("m", "can't read"),
        ("-5m", "must not be negative"),
        (" -.5 s", "must not be negative"),
        ("2030-01-01", "is an instant and no duration"),
        ("1h30", "can't read"),
        ("5 parsecs", "can't read"),
        ("5m;", "can't read"),
        ("1e3s", "can't read"),
        ("nan s", "can't read"),
    ],
)
def test_durations_that_can_not_be_meant(duration, why):
    with pytest.raises(BadTime, match=f"^the delay.*{why}"):
        duration_ms(duration, "the delay")


@given(
    st.one_of(
        st.text(),
        st.floats(),
        st.integers(),
        st.timedeltas(),
        st.booleans(),
        st.none(),
        st.binary(),
        st.from_regex(r"(\d{1,3}(\.\d{1,3})? ?(ms|s|m|h|d|w|year)s? ?){1,3}", fullmatch=True),
    )
)
def test_any_duration_is_answered_or_refused_as_bad_time(duration):
    ms, why = refused(BadTime, duration_ms, duration)
    assert why or 0 <= ms <= MAX_MS
