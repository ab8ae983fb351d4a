"""Cron against what every single minute says, in many zones and years, and against other programs."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest
from croniter import croniter
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from nextdue import BadDefinition, Cron
from nextdue.clock import from_ms
from nextdue.testing.worlds.fields import Fields
from tests.rules.enumerated import changes, occurrences, utc

DAY = 86_400
ZONES = sorted(available_timezones() - {"Factory", "localtime", "posixrules"})
WHOLE_YEARS = [  # a zone of each kind, over all of a year
    ("Europe/Berlin", 2026),
    ("Australia/Lord_Howe", 2026),
    ("America/Santiago", 2026),
    ("Africa/Casablanca", 2026),
    ("Pacific/Apia", 2011),
    ("Asia/Gaza", 2026),
    ("America/St_Johns", 2006),
]
EXPRESSIONS = [
    "30 2 * * *",
    "15,45 0-3 * * *",
    "59 23 L * *",
    "1 0 13 * 5",
    "0 */2 * * *",
    "*/20 0-3 * * SUN",
    "5 * */5 * *",
]


def found(cron: Cron, start: int, end: int) -> list[int]:
    """Its occurrences in [start, end), in seconds."""
    seconds, now = [], start * 1000 - 1
    while (following := cron.next_ms(now)) is not None and following < end * 1000:
        assert following > now
        assert following % 1000 == 0
        seconds.append(following // 1000)
        assert len(seconds) <= end - start
        now = following
    return seconds


@pytest.mark.parametrize(("zone", "year"), WHOLE_YEARS)
def test_a_year_of_every_minute(zone, year):
    start, end = utc(f"{year}-01-01T00:00"), utc(f"{year + 1}-01-01T00:00")
    for expr in EXPRESSIONS:
        cron, expected = Cron(expr, tz=zone), occurrences(expr, zone, start, end)
        assert found(cron, start, end) == expected, expr
        assert cron.count_ms(start * 1000 - 1, end * 1000 - 1) == len(expected), expr


# Any expression, around any change of clocks


def lists(values, most: int) -> st.SearchStrategy[str]:
    """A field: a list of numbers, ranges and steps."""
    low, high = values
    one = st.integers(low, high)
    spans = st.tuples(one, one).map(sorted)
    item = st.one_of(
        one.map(str),
        spans.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(spans, st.integers(1, most)).map(lambda pair: f"{pair[0][0]}-{pair[0][1]}/{pair[1]}"),
        st.tuples(one, st.integers(1, most)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )
    return st.one_of(
        st.just("*"),
        st.integers(1, most).map(lambda step: f"*/{step}"),
        st.lists(item, min_size=1, max_size=3).map(",".join),
    )


DAYS_OF_MONTH = st.one_of(st.just("*"), lists((1, 31), 10), st.sampled_from(["L", "LW", "L,15", "1,LW"]))
WEEKDAYS = st.one_of(
    st.just("*"),
    lists((0, 7), 3),
    st.sampled_from(["SUN", "sat,sun", "MON-FRI", "5#2", "7L", "0L,1#1", "FRI#5", "7#1", "SUN/2"]),
)
MONTHS = st.one_of(st.just("*"), st.just("*"), lists((1, 12), 4), st.sampled_from(["JAN-dec", "mar,OCT"]))
AT_NIGHT = st.one_of(lists((0, 23), 6), lists((0, 4), 3))
EXPRS = st.tuples(lists((0, 59), 30), AT_NIGHT, DAYS_OF_MONTH, MONTHS, WEEKDAYS).map(" ".join)
CHOICES = st.sampled_from([None, None, None, True, False])
CHANGES = st.tuples(st.sampled_from(ZONES), st.integers(1975, 2045)).map(lambda pair: (pair[0], changes(*pair)))


def either_none_or_equal(expr, zone, start, end, day_and, step=60):
    """What is refused may have no occurrence, and what isn't has exactly those of the enumeration."""
    try:
        cron = Cron(expr, tz=zone, day_and=day_and)
    except BadDefinition:
        fields = Fields(expr, day_and)
        leap = (datetime.fromtimestamp(n * DAY, UTC).date() for n in range(366 * 29))
        assert not any(map(fields.day, leap)), f"{expr} with day_and={day_and} has dates and is refused"
        return
    expected = occurrences(expr, zone, start, end, day_and=day_and, step=step)
    assert found(cron, start, end) == expected
    assert cron.count_ms(start * 1000 - 1, end * 1000 - 1) == len(expected)
    assert cron.day_and is Fields(expr, day_and).both
    assert cron.fixed is Fields(expr, day_and).fixed


@given(EXPRS, CHANGES, st.data(), CHOICES)
@settings(max_examples=200)
@example("30 2 * * *", ("Africa/El_Aaiun", [utc("2026-02-15T00:00")]), None, None)
@example("0 0 * * *", ("Pacific/Kwajalein", [utc("1993-08-21T00:00")]), None, None)
@example("0 0 21 8 *", ("Pacific/Kwajalein", [utc("1993-08-21T00:00")]), None, None)
@example("15 3 * * *", ("Pacific/Kiritimati", [utc("1995-01-01T00:00")]), None, None)
@example("0,1 0,23 * * *", ("America/St_Johns", [utc("2006-04-02T12:00")]), None, None)
@example("30 0-2 * * *", ("Antarctica/Troll", [utc("2026-03-29T00:00")]), None, None)
@example("* * * * *", ("Antarctica/Casey", [utc("2010-03-05T00:00")]), None, None)
def test_around_a_change_of_clocks(expr, change, data, day_and):
    zone, near = change
    if data is None:
        moment = near[0]
    else:
        assume(near)
        moment = data.draw(st.sampled_from(near))
    either_none_or_equal(expr, zone, moment - 2 * DAY, moment + DAY, day_and)


@given(EXPRS, CHOICES, st.sampled_from(["UTC", "Asia/Kathmandu", "America/Caracas"]), st.integers(0, 60 * 365))
@settings(max_examples=25)
def test_away_from_a_change_of_clocks(expr, day_and, zone, day):
    start = utc("1980-01-01T00:00") + day * DAY
    assume(not changes(zone, datetime.fromtimestamp(start, UTC).year))
    either_none_or_equal(expr, zone, start, start + 10 * DAY, day_and)


@given(
    st.tuples(lists((0, 59), 20), lists((0, 59), 20), lists((0, 3), 2)).map(" ".join),
    st.sampled_from(
        [
            ("Europe/Berlin", "2026-10-25T01:00"),
            ("Europe/Berlin", "2026-03-29T01:00"),
            ("Australia/Lord_Howe", "2026-10-03T15:30"),
            ("Africa/Monrovia", "1972-01-07T00:44"),  # its clocks were 44 minutes and 30 seconds behind
        ]
    ),
)
@settings(max_examples=12)
def test_every_second_around_a_change_of_clocks(times, change):
    zone, moment = change
    start = utc(moment) - 5400
    either_none_or_equal(f"{times} * * *", zone, start, start + 10_800, None, step=1)


@given(EXPRS, CHANGES, st.data(), st.integers(0, 6 * 86_400_000), st.integers(0, 3 * 86_400_000))
@settings(max_examples=80)
def test_counting_and_stepping_agree_from_any_millisecond(expr, change, data, shift, length):
    zone, near = change
    assume(near)
    try:
        cron = Cron(expr, tz=zone)
    except BadDefinition:
        return
    after = (data.draw(st.sampled_from(near)) - 3 * DAY) * 1000 + shift
    count, now = 0, after
    while (following := cron.next_ms(now)) is not None and following <= after + length:
        assert following > now
        count, now = count + 1, following
    assert cron.count_ms(after, after + length) == count


@given(EXPRS, CHOICES)
def test_whatever_is_valid_has_words_and_rules(expr, day_and):
    """F013: with both day fields given, they say which rule is in force."""
    try:
        cron = Cron(expr, day_and=day_and)
    except BadDefinition:
        return
    assert cron.words
    day, weekday = expr.split()[2::2]
    assert " if it's " not in cron.words or cron.day_and
    assert " or on " not in cron.words or not cron.day_and
    if "*" not in (day, weekday):
        assert ("is enough" in cron.rules[0]) is not cron.day_and


def test_no_zone_changes_its_clocks_twice_within_the_distance_that_is_probed():
    """What zones.next_change rests on: compared every half hour with every change of 25 years."""
    from nextdue.zones import next_change

    for zone in ("Africa/Casablanca", "Asia/Gaza", "Antarctica/Casey"):
        tz = ZoneInfo(zone)
        start, end = utc("2005-01-01T00:00"), utc("2030-01-01T00:00")
        expected, before = [], None
        for at in range(start, end, 1800):
            now = datetime.fromtimestamp(at, tz).utcoffset()
            if before is not None and now != before:
                expected.append(at)
            before = now
        got, at = [], start
        while (change := next_change(tz, at, end)) is not None:
            got.append(change)
            at = change
        assert [-(-one // 1800) * 1800 for one in got] == expected


# Other programs, where they agree on the rule


PLAIN = st.tuples(
    lists((0, 59), 30),
    lists((0, 23), 6),
    lists((1, 31), 10),
    lists((1, 12), 4),
    st.one_of(st.just("*"), lists((0, 6), 3)),
).map(" ".join)


@given(PLAIN, st.integers(0, 30 * 365 * DAY))
@settings(max_examples=30)
@example("0 0 29 2 *", 0)
@example("0 0 13 * 5", 0)
def test_croniter_says_the_same_in_utc(expr, second):
    """It takes `*/2` for restricted: beside another day field one of them is enough. So our rule is named."""
    texts = expr.split()
    _, _, _, days, _, weekdays = Fields(expr).values
    both = "*" in (texts[2], texts[4])
    # Fields that are whole without saying `*` are now this to it, now that.
    assume((len(days) < 31 or texts[2] == "*") and (len(weekdays) < 7 or texts[4] == "*"))
    start = utc("2000-01-01T00:00") + second
    assume(not re.search(r"\b(\d+)-\1\b", expr))  # to it that is the whole range
    assume(not re.search(r"(^|,)\d/", texts[4]))  # to us `1/2` goes on to 7, which is Sunday again
    try:
        cron = Cron(expr, day_and=both)
    except BadDefinition:
        return
    other = croniter(expr, datetime.fromtimestamp(start, UTC), day_or=True, max_years_between_matches=10)
    now = start * 1000
    for _ in range(5):
        now = cron.next_ms(now) or 0
        assert from_ms(now) == other.get_next(datetime)


def _systemd(calendar: str, base: str, count: int) -> list[int]:
    # systemd-analyze takes the base time in the zone of the machine.
    done = subprocess.run(
        ["systemd-analyze", "calendar", f"--iterations={count}", f"--base-time={base}", calendar],
        env={"TZ": "UTC", "LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    seen = re.findall(r"\(in UTC\): \w+ (\S+) (\S+) UTC|(?:Next elapse|Iter\S* #\d+): \w+ (\S+) (\S+) UTC", done.stdout)
    return [utc("T".join(part for part in one if part)) for one in seen]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize(
    ("expr", "calendar", "zone", "base"),
    [
        ("0 3 * * *", "*-*-* 03:00:00", "UTC", "2026-11-30 12:00:00"),
        ("*/20 4-6 * * MON-FRI", "Mon..Fri *-*-* 04..06:00/20:00", "UTC", "2026-11-30 12:00:00"),
        ("0 0 L * *", "*-*~01 00:00:00", "UTC", "2027-01-01 00:00:00"),
        ("0 0 29 2 *", "*-02-29 00:00:00", "UTC", "2026-11-30 12:00:00"),
        ("15 10 5 1,7 *", "*-01,07-05 10:15:00", "UTC", "2026-11-30 12:00:00"),
        ("0 3 * * *", "*-*-* 03:00:00 Europe/Berlin", "Europe/Berlin", "2026-10-23 12:00:00"),
        ("0 3 * * *", "*-*-* 03:00:00 Europe/Berlin", "Europe/Berlin", "2026-03-27 12:00:00"),
        ("30 12 * * *", "*-*-* 12:30:00 America/New_York", "America/New_York", "2026-10-30 12:00:00"),
    ],
)
def test_systemd_says_the_same(expr, calendar, zone, base):
    theirs = _systemd(calendar, base, 6)
    assert len(theirs) == 6, json.dumps(theirs)
    cron, now = Cron(expr, tz=zone), utc(base) * 1000
    for one in theirs:
        now = cron.next_ms(now) or 0
        assert now == one * 1000
