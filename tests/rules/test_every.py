"""Periods: from the end of an attempt, from an anchor, and in months."""

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextdue import BadDefinition, BadTime, Every
from nextdue.clock import MAX_MS, to_ms

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def stepped(every: Every, after: datetime, count: int) -> list[datetime]:
    found, now = [], after
    for _ in range(count):
        following = every.next(now)
        assert following is not None
        assert following > now
        found.append(following)
        now = following
    if not every.from_end:
        assert every.count_ms(to_ms(after), to_ms(now)) == count
        assert every.count_ms(to_ms(after), to_ms(now) - 1) == count - 1
    return found


def test_without_an_anchor_it_counts_from_the_end_of_an_attempt():
    half = Every("30m")
    assert half.from_end
    ended = datetime(2026, 12, 1, 9, 1, 2, tzinfo=UTC)
    assert half.next(ended) == ended + timedelta(minutes=30)


def test_with_an_anchor_it_keeps_its_phase():
    every = Every("30m", anchor=datetime(2026, 12, 1, 0, 7, tzinfo=UTC))
    assert not every.from_end
    assert every.next(datetime(2026, 12, 1, 9, 8, tzinfo=UTC)) == datetime(2026, 12, 1, 9, 37, tzinfo=UTC)
    assert every.next(datetime(2026, 12, 1, 9, 37, tzinfo=UTC)) == datetime(2026, 12, 1, 10, 7, tzinfo=UTC)


def test_the_anchor_is_the_first_one():
    anchor = datetime(2026, 12, 1, 0, 7, tzinfo=UTC)
    for every in (Every("30m", anchor=anchor), Every(months=1, anchor=anchor)):
        assert every.next(NEW_YEAR) == anchor
        assert every.next(anchor - timedelta(milliseconds=1)) == anchor
        stepped(every, anchor, 1)
        assert every.count_ms(0, to_ms(anchor) - 1) == 0
        assert every.count_ms(0, to_ms(anchor)) == 1


@given(st.integers(1_000, 10**10), st.integers(0, 10**13), st.integers(0, 10**13), st.integers(0, 10**12))
def test_anchored_periods_are_whole_ones_from_the_anchor(period, anchor, after, length):
    every = Every(
        timedelta(milliseconds=period), anchor=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=anchor)
    )
    following = every.next_ms(after)
    assert following is not None
    assert following > after
    assert (following - anchor) % period == 0
    assert following == anchor or following - period <= after
    until = after + length
    first, last = max(0, -(-(after + 1 - anchor) // period)), (until - anchor) // period
    assert every.count_ms(after, until) == max(0, last - first + 1)


def test_months_end_without_drifting():
    every = Every(months=1, anchor=datetime(2027, 1, 31, 12, tzinfo=UTC))
    assert [one.day for one in stepped(every, NEW_YEAR, 14)] == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 29]


def test_29_february_every_year():
    every = Every(months=12, anchor=datetime(2028, 2, 29, tzinfo=UTC))
    assert [(one.year, one.day) for one in stepped(every, NEW_YEAR, 5)] == [
        (2028, 29), (2029, 28), (2030, 28), (2031, 28), (2032, 29),
    ]  # fmt: skip


def test_months_keep_their_time_of_the_day():
    """Noon in Berlin in winter and in summer."""
    every = Every(months=3, anchor=datetime(2026, 1, 15, 12, 0, 0, 500_000, tzinfo=BERLIN), tz="Europe/Berlin")
    found = stepped(every, datetime(2025, 12, 1, tzinfo=UTC), 8)
    assert [one.hour for one in found] == [11, 10, 10, 10, 11, 10, 10, 10]
    assert {one.astimezone(BERLIN).strftime("%d %H:%M:%S.%f") for one in found} == {"15 12:00:00.500000"}


def test_months_in_both_nights():
    """F005: a skipped time at the end of the gap, a repeated one the first time."""
    every = Every(months=1, anchor=datetime(2026, 1, 29, 2, 30, tzinfo=BERLIN), tz="Europe/Berlin")
    spring = every.next(datetime(2026, 3, 1, tzinfo=UTC))
    assert spring == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert every.next(spring) == datetime(2026, 4, 29, 0, 30, tzinfo=UTC)
    every = Every(months=1, anchor=datetime(2026, 1, 25, 2, 30, tzinfo=BERLIN), tz="Europe/Berlin")
    autumn = every.next(datetime(2026, 10, 1, tzinfo=UTC))
    assert autumn == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert every.next(autumn) == datetime(2026, 11, 25, 1, 30, tzinfo=UTC)


def test_an_anchor_in_the_second_pass_is_one_of_its_occurrences():
    anchor = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)
    every = Every(months=1, anchor=anchor, tz="Europe/Berlin")
    assert stepped(every, NEW_YEAR, 2) == [
        datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
        datetime(2026, 11, 25, 1, 30, tzinfo=UTC),
    ]


def test_a_date_that_a_zone_left_out():
    """F005: Apia had no 30 December 2011."""
    apia = ZoneInfo("Pacific/Apia")
    every = Every(months=1, anchor=datetime(2011, 10, 30, 12, tzinfo=apia), tz="Pacific/Apia")
    dates = [one.astimezone(apia).strftime("%m-%d") for one in stepped(every, datetime(2011, 10, 1, tzinfo=UTC), 4)]
    assert dates == ["10-30", "11-30", "01-30", "02-29"]


@given(
    st.integers(1, 30),
    st.datetimes(datetime(1975, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001
    st.datetimes(datetime(1975, 1, 1), datetime(2060, 1, 1)),  # noqa: DTZ001
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Havana"]),
)
def test_months_against_counting_them(months, anchor, after, zone):
    tz = ZoneInfo(zone)
    start = anchor.replace(hour=12, tzinfo=tz)
    every = Every(months=months, anchor=start, tz=zone)
    step, at = 0, start
    while at <= after.replace(tzinfo=UTC):
        step += 1
        year, month = divmod(start.year * 12 + start.month - 1 + step * months, 12)
        day = min(start.day, monthrange(year, month + 1)[1])
        at = start.replace(year=year, month=month + 1, day=day)
    expected = to_ms(at)
    assert every.next_ms(to_ms(after.replace(tzinfo=UTC))) == expected


def test_the_end_of_the_calendar():
    """F107: None, and no OverflowError."""
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    for every in (
        Every("30m", anchor=NEW_YEAR),
        Every("30m"),
        Every(timedelta(days=36_500)),
        Every(months=1, anchor=NEW_YEAR),
        Every(months=1200, anchor=NEW_YEAR, tz="Pacific/Kiritimati"),
    ):
        assert every.next(last) is None
        assert every.next_ms(MAX_MS) is None
    assert Every(months=1, anchor=last, tz="UTC").next(NEW_YEAR) in (None, last)


@pytest.mark.parametrize(
    "make",
    [
        Every,
        lambda: Every(0),
        lambda: Every(-1),
        lambda: Every(timedelta(0)),
        lambda: Every(timedelta(seconds=-5)),
        lambda: Every(0.5),
        lambda: Every("999ms"),
        lambda: Every(timedelta(days=40_000)),
        lambda: Every(1_800_000_000_000),
        lambda: Every(float("nan")),
        lambda: Every(float("inf")),
        lambda: Every("soon"),
        lambda: Every(""),
        lambda: Every(True),
        lambda: Every([30]),  # type: ignore[arg-type]
        lambda: Every("30m", months=1),
        lambda: Every(months=1),
        lambda: Every(months=0, anchor=NEW_YEAR),
        lambda: Every(months=-1, anchor=NEW_YEAR),
        lambda: Every(months=1.5, anchor=NEW_YEAR),  # type: ignore[arg-type]
        lambda: Every(months=True, anchor=NEW_YEAR),
        lambda: Every(months=10_000, anchor=NEW_YEAR),
        lambda: Every("30m", tz="Europe/Berlin"),
        lambda: Every(months=1, anchor=NEW_YEAR, tz="Berlin"),
        lambda: Every(months=1, anchor=datetime(2026, 1, 1)),  # noqa: DTZ001
        lambda: Every("30m", anchor="2026-01-01"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_period(make):
    with pytest.raises(BadDefinition) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_naive_instants_are_refused():
    """F108"""
    with pytest.raises(BadTime, match="naive"):
        Every("30m").next(datetime(2026, 12, 1))  # noqa: DTZ001


def test_equal_values_and_a_repr_that_makes_it_again():
    import datetime as module

    assert Every("30m") == Every(1800) == Every(timedelta(minutes=30))
    assert hash(Every("30m")) == hash(Every(1800))
    assert Every("30m") != Every("30m", anchor=NEW_YEAR)
    for every in (
        Every("30m"),
        Every(1.5),
        Every(1_234_567.891),
        Every("1h", anchor=NEW_YEAR),
        Every(months=2, anchor=NEW_YEAR, tz="Asia/Tokyo"),
    ):
        assert eval(repr(every), {"Every": Every, "datetime": module}) == every
