"""The calendar contract of Cron, sentence by sentence."""

import os
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nextdue import BadDefinition, BadTime, Cron
from nextdue.clock import to_ms


def at(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def between(cron: Cron, after: str, until: str, limit: int = 10_000) -> list[datetime]:
    """Its occurrences in (after, until]; each one later than the last, or this ends at once."""
    found: list[datetime] = []
    now, end = at(after), at(until)
    while (following := cron.next(now)) is not None and following <= end:
        assert following > now, f"{following} doesn't come after {now}"
        assert following.tzinfo is UTC
        found.append(following)
        assert len(found) <= limit
        now = following
    assert cron.count_ms(to_ms(at(after)), to_ms(end)) == len(found)
    return found


def texts(found: list[datetime]) -> list[str]:
    return [f"{one:%Y-%m-%dT%H:%M:%S}".removesuffix(":00") for one in found]


def coming(cron: Cron, after: str) -> str:
    """The next one."""
    found = cron.next(at(after))
    assert found is not None
    return texts([found])[0]


# Two nights


def test_half_hours_of_a_day_with_25_hours():
    """F001: `*/30` in the repeated hour at Helsinki."""
    cron = Cron("*/30 * * * *", tz="Europe/Helsinki")
    day = between(cron, "2026-10-24T20:59", "2026-10-25T21:59")
    assert len(day) == len(set(day)) == 50
    assert {later - one for one, later in pairwise(day)} == {timedelta(minutes=30)}


def test_every_minute_of_an_autumn_night():
    """F003: a run for each real minute."""
    cron = Cron("* * * * *", tz="Europe/Berlin")
    assert len(between(cron, "2026-10-25T00:00", "2026-10-25T02:00")) == 120


def test_a_daily_time_in_both_nights():
    """F005: (a) once on each of both dates."""
    cron = Cron("30 2 * * *", tz="Europe/Berlin")
    autumn = between(cron, "2026-10-24T12:00", "2026-10-26T12:00")
    assert texts(autumn) == ["2026-10-25T00:30", "2026-10-26T01:30"]
    spring = between(cron, "2026-03-28T12:00", "2026-03-30T12:00")
    assert texts(spring) == ["2026-03-29T01:00", "2026-03-30T00:30"]


def test_a_midnight_that_does_not_exist():
    """F005: (b) Santiago's clocks go from 00:00 to 01:00."""
    cron = Cron("0 0 * * *", tz="America/Santiago")
    assert texts(between(cron, "2026-09-05T12:00", "2026-09-07T12:00")) == ["2026-09-06T04:00", "2026-09-07T03:00"]


@pytest.mark.parametrize("expr", ["0 0 * * *", "0 12 * * *", "30 */6 * * *", "* * * * *", "0 12 30 12 *"])
def test_a_date_that_does_not_exist(expr):
    """F005: (c) Apia went from the 29th to the 31st; nothing happens on the 30th, and nothing loops."""
    cron, zone = Cron(expr, tz="Pacific/Apia"), ZoneInfo("Pacific/Apia")
    found = between(cron, "2011-12-28T00:00", "2012-01-01T09:59")
    dates = {one.astimezone(zone).date().isoformat() for one in found}
    assert dates <= {"2011-12-27", "2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"}
    if expr == "0 12 30 12 *":
        assert found == []
        assert coming(cron, "2010-12-31T00:00") == "2012-12-29T22:00"
    if expr == "0 0 * * *":
        assert texts(found) == ["2011-12-28T10:00", "2011-12-29T10:00", "2011-12-30T10:00", "2011-12-31T10:00"]


def test_clocks_that_move_by_half_an_hour():
    """F005: (d) Lord Howe repeats 01:30 to 02:00 in April and skips 02:00 to 02:30 in October."""
    daily = Cron("45 1 * * *", tz="Australia/Lord_Howe")
    assert texts(between(daily, "2026-04-03T20:00", "2026-04-05T20:00")) == ["2026-04-04T14:45", "2026-04-05T15:15"]
    skipped = Cron("15 2 * * *", tz="Australia/Lord_Howe")
    assert texts(between(skipped, "2026-10-02T20:00", "2026-10-04T20:00")) == ["2026-10-03T15:30", "2026-10-04T15:15"]
    quarters = Cron("*/15 * * * *", tz="Australia/Lord_Howe")
    assert len(between(quarters, "2026-04-04T00:00", "2026-04-05T00:00")) == 96
    assert len(between(quarters, "2026-10-03T00:00", "2026-10-04T00:00")) == 96


@pytest.mark.parametrize(
    ("expr", "spring", "autumn"),
    [
        ("0 * * * *", ["00:00", "01:00", "02:00"], ["00:00", "01:00", "02:00"]),
        ("*/30 2 * * *", [], ["00:00", "00:30", "01:00", "01:30"]),
        ("0,30 2 * * *", ["01:00"], ["00:00", "00:30"]),
        ("0 2,3 * * *", ["01:00"], ["00:00", "02:00"]),
        ("30 2-3 * * *", ["01:00", "01:30"], ["00:30", "02:30"]),
        ("30 1,2 * * *", ["00:30", "01:00"], ["00:30"]),
        ("0 1-23/2 * * *", ["00:00", "01:00"], ["02:00"]),
        ("0 */2 * * *", ["02:00"], ["00:00", "01:00"]),
        ("* 2 * * *", [], None),
    ],
)
def test_wildcards_follow_real_time_and_fixed_times_happen_once(expr, spring, autumn):
    """Berlin's two nights, from 00:00 to 02:30 UTC."""
    cron = Cron(expr, tz="Europe/Berlin")
    found = between(cron, "2026-03-28T23:59", "2026-03-29T02:30")
    assert [f"{one:%H:%M}" for one in found] == spring
    found = between(cron, "2026-10-24T23:59", "2026-10-25T02:30")
    if autumn is None:
        assert len(found) == 120
    else:
        assert [f"{one:%H:%M}" for one in found] == autumn


def test_a_fixed_time_asked_from_within_the_repeated_hour():
    """From its second pass the next one is tomorrow's."""
    cron = Cron("30 2 * * *", tz="Europe/Berlin")
    for after, following in [
        ("2026-10-25T00:29", "2026-10-25T00:30"),
        ("2026-10-25T00:30", "2026-10-26T01:30"),
        ("2026-10-25T01:00", "2026-10-26T01:30"),
        ("2026-10-25T01:29", "2026-10-26T01:30"),
        ("2026-10-25T01:30", "2026-10-26T01:30"),
    ]:
        assert coming(cron, after) == following


def test_seconds_have_a_field_before_the_others():
    ten = Cron("*/10 * * * * *", tz="Europe/Berlin")
    assert len(between(ten, "2026-10-25T00:00", "2026-10-25T02:00")) == 720
    fixed = Cron("15,45 30 2 * * *", tz="Europe/Berlin")
    night = between(fixed, "2026-10-24T22:00", "2026-10-25T22:00")
    assert texts(night) == ["2026-10-25T00:30:15", "2026-10-25T00:30:45"]
    assert texts(between(fixed, "2026-03-28T22:00", "2026-03-29T22:00")) == ["2026-03-29T01:00"]


# Days and dates


def test_friday_the_13th():
    """F013: both day fields restricted: one is enough; with day_and both are needed."""
    either = between(Cron("0 0 13 * 5"), "2026-12-31T00:00", "2027-12-31T23:59")
    assert len(either) == 64
    assert {one.day == 13 or one.isoweekday() == 5 for one in either} == {True}
    both = between(Cron("0 0 13 * 5", day_and=True), "2026-12-31T00:00", "2027-12-31T23:59")
    assert texts(both) == ["2027-08-13T00:00"]
    assert Cron("0 0 13 * 5").day_and is False
    assert Cron("0 0 13 * 5", day_and=True).day_and is True


def test_a_star_before_a_step_asks_for_both_days():
    both = between(Cron("0 0 */2 * MON"), "2026-12-31T00:00", "2027-03-31T23:59")
    assert {(one.day % 2, one.isoweekday()) for one in both} == {(1, 1)}
    either = between(Cron("0 0 */2 * MON", day_and=False), "2026-12-31T00:00", "2027-03-31T23:59")
    assert len(either) > 3 * len(both)


NEVER = ["0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 *", "0 0 30,31 FEB *", "* * 31 2 *", "0 0 30 2 */2"]


@pytest.mark.parametrize(
    ("expr", "day_and"),
    [*[(expr, day_and) for expr in NEVER for day_and in (None, True)], ("0 0 30 2 5#5", True)],
)
def test_a_date_that_never_comes(expr, day_and):
    """F015: refused when defined. (Where either day field is enough, the last of them comes.)"""
    with pytest.raises(ValueError, match=r"day-of-month|never") as refused:
        Cron(expr, tz="Europe/Berlin", day_and=day_and)
    assert isinstance(refused.value, BadDefinition)


@pytest.mark.parametrize(
    "expr", ["0 0 30 2 1", "0 0 31 4,6 FRI", "0 0 31 2,3 *", "0 0 29 2 *", "0 0 L 2 *", "0 0 LW 2 *"]
)
def test_dates_that_come_are_valid(expr):
    """F015: `0 0 30 2 1` means every Monday in February."""
    following = Cron(expr).next(at("2026-11-30T00:00"))
    assert following is not None
    if expr == "0 0 30 2 1":
        assert (following.month, following.isoweekday()) == (2, 1)


def test_29_february():
    """F017: found over eight years, and with a weekday over decades."""
    leap = Cron("0 0 29 2 *")
    assert coming(leap, "2026-11-30T00:00") == "2028-02-29T00:00"
    assert coming(leap, "2096-03-01T00:00") == "2104-02-29T00:00"
    monday = Cron("0 0 29 2 1", day_and=True)
    assert coming(monday, "2026-11-30T00:00") == "2044-02-29T00:00"
    assert coming(monday, "2072-03-01T00:00") == "2112-02-29T00:00"
    fifth = Cron("0 0 29 2 5#5", day_and=True)
    assert coming(fifth, "2026-11-30T00:00") == "2036-02-29T00:00"


def test_every_fifth_day_begins_anew_each_month():
    """F017: 1 March follows 26 February."""
    found = between(Cron("0 0 */5 * *"), "2027-02-20T00:00", "2027-03-07T00:00")
    assert texts(found) == ["2027-02-21T00:00", "2027-02-26T00:00", "2027-03-01T00:00", "2027-03-06T00:00"]


def test_last_days():
    year = ("2026-12-31T12:00", "2027-12-31T12:00")
    assert [one.day for one in between(Cron("0 0 L * *"), *year)] == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    assert [one.day for one in between(Cron("0 0 LW * *"), *year)] == [29, 26, 31, 30, 31, 30, 30, 31, 30, 29, 30, 31]
    assert [one.day for one in between(Cron("0 0 * * 5L"), *year)] == [29, 26, 26, 30, 28, 25, 30, 27, 24, 29, 26, 31]
    assert [one.day for one in between(Cron("0 0 * * 5#2"), *year)] == [8, 12, 12, 9, 14, 11, 9, 13, 10, 8, 12, 10]


# Nicknames and expressions that are none


@pytest.mark.parametrize(
    ("name", "expr"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" @Daily ", "0 0 * * *"),
    ],
)
def test_nicknames(name, expr):
    after, until = "2026-12-01T00:00", "2027-01-05T00:00"
    assert between(Cron(name, tz="Asia/Kolkata"), after, until) == between(Cron(expr, tz="Asia/Kolkata"), after, until)


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("", "empty|five"),
        ("   ", "empty|five"),
        ("* * * *", "five"),
        ("* * * * * * *", "five"),
        ("60 * * * *", "minute.*60.*0-59"),
        ("* 24 * * *", "hour.*24.*0-23"),
        ("* * 0 * *", "day of the month|day-of-month"),
        ("* * 32 * *", "day of the month|day-of-month"),
        ("* * * 13 *", "month.*13"),
        ("* * * 0 *", "month.*0"),
        ("* * * FOO *", "month.*FOO"),
        ("* * * * 8", "day-of-week.*8"),
        ("* * * * FRYDAY", "day-of-week.*FRYDAY"),
        ("* * * * 5#6", "day-of-week.*5#6"),
        ("* * * * L", "day-of-week.*L"),
        ("* * * * #", "day-of-week.*#"),
        ("* * * * 1#2-3", "day-of-week"),
        ("* * * * 5#2/2", "day-of-week"),
        ("* * * * 5L/2", "day-of-week"),
        ("*/0 * * * *", "minute.*\\*/0"),
        ("*/-1 * * * *", "minute"),
        ("*/60 * * * *", None),
        ("5-1 * * * *", "minute.*5-1"),
        ("* * * * FRI-MON", "day-of-week.*FRI-MON"),
        ("1, * * * *", "minute"),
        (",1 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("1.5 * * * *", "minute.*1.5"),
        ("-1 * * * *", "minute.*-1"),
        ("60 * * * * *", "second.*60"),
        ("*/1/2 * * * *", None),
        ("1-2-3 * * * *", "minute"),
        ("+1 * * * *", "minute"),
        ("٣ * * * *", "minute"),
        ("１ * * * *", "minute"),
        ("* * L/2 * *", None),
        ("* * L-3 * *", "day-of-month"),
        ("* * 15W * *", "day-of-month"),
        ("? * * * *", "minute"),
        ("* * ? * *", "day-of-month"),
        ("H * * * *", "minute"),
        ("* * * * *\x00", "day-of-week"),
        ("x" * 100_000, "five"),
        ("9" * 100_000 + " * * * *", "minute"),
        ("*/" + "9" * 5_000 + " * * * *", "minute"),
        ("@reboot", "@reboot"),
        ("@never", "@never"),
        ("@dayly", "@daily"),
        ("@", "@"),
        ("@every 5m", "@every"),
        (None, "None"),
        (5, "5"),
        (b"* * * * *", "b'"),
    ],
)
def test_bad_expressions(expr, says):
    """The sentence names the field and what is wrong, and is short; other errors than BadDefinition are ours."""
    if says is None:  # no sense in it, but no harm: crontab takes it
        with suppress(BadDefinition):
            Cron(expr)
        return
    with pytest.raises(BadDefinition, match=f"(?s){says}") as refused:
        Cron(expr)
    text = str(refused.value)
    assert len(text) < 400
    assert "\n" not in text
    assert "\x00" not in text


@pytest.mark.parametrize(
    "tz",
    [
        "Europe/Berln",
        "berlin",
        "",
        " ",
        "Europe",
        "../../etc/passwd",
        "/etc/localtime",
        "UTC\x00",
        None,
        3,
        "x" * 10_000,
    ],
)
def test_zones_that_are_none(tz):
    """F126: refused when defined."""
    with pytest.raises(BadDefinition) as refused:
        Cron("0 3 * * *", tz=tz)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("tz", "near"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Kiew", "Europe/Kiev"),
        ("New York", "America/New_York"),
        ("utc", "UTC"),
        ("kolkata", "Asia/Kolkata"),
    ],
)
def test_a_zone_that_looks_like_another_one(tz, near):
    """F126: near names are suggested, as a file system may or may not tell a from A."""
    try:
        Cron("0 3 * * *", tz=tz)
    except BadDefinition as exc:
        says = str(exc)
    else:
        pytest.skip("this file system takes it")
    assert near in says


def test_a_zone_is_given_by_its_name():
    wrong: list[Any] = [ZoneInfo("Europe/Berlin"), UTC, ["Europe/Berlin"], {}]
    for tz in wrong:
        with pytest.raises(BadDefinition, match="name"):
            Cron("0 3 * * *", tz=tz)


def test_day_and_is_a_truth_value():
    values: list[Any] = ["yes", 1, []]
    for wrong in values:
        with pytest.raises(BadDefinition, match="day_and"):
            Cron("0 0 13 * 5", day_and=wrong)


@pytest.mark.parametrize("offset", ["+03:00", "UTC+3", "MSK"])
def test_an_offset_is_no_zone(offset):
    with pytest.raises(BadDefinition, match="zone"):
        Cron("0 3 * * *", tz=offset)


def without_zones(code: str, tmp_path) -> subprocess.CompletedProcess:
    """Run code where neither the system nor the tzdata package has data."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['tzdata'] = None\n")
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONTZPATH": "", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )


def test_a_machine_without_zones(tmp_path):
    """F126: a clear error when it is defined; UTC works."""
    done = without_zones(
        """
        from datetime import datetime, timezone
        from nextdue import Cron, Every
        print(Cron("0 3 * * *").next(datetime(2026, 12, 1, tzinfo=timezone.utc)).isoformat())
        print(Cron("*/5 3 * * *", tz="UTC").next(datetime(2026, 12, 1, tzinfo=timezone.utc)).isoformat())
        print(Every(months=1, anchor=datetime(2026, 12, 1, tzinfo=timezone.utc)).next(
            datetime(2026, 12, 2, tzinfo=timezone.utc)).isoformat())
        try:
            Cron("0 3 * * *", tz="Europe/Berlin")
        except ValueError as exc:
            print(type(exc).__name__, exc)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["2026-12-01T03:00:00+00:00"] * 2 + ["2027-01-01T00:00:00+00:00"]
    assert lines[3].startswith("BadDefinition")
    assert "Europe/Berlin" in lines[3]
    assert "tzdata" in lines[3]


# Words


@pytest.mark.parametrize(
    ("expr", "day_and", "words"),
    [
        ("0 3 * * *", None, "At 03:00 every day"),
        ("@weekly", None, "At 00:00 on Sunday"),
        ("0 0 13 * 5", None, "At 00:00 on the 13th day of month or on Friday"),
        ("0 0 13 * 5", True, "At 00:00 on the 13th day of month if it's on Friday"),
        ("0 0 */2 * MON", None, "At 00:00 on every second day of month if it's on Monday"),
        ("0 0 */2 * MON", False, "At 00:00 on every second day of month or on Monday"),
        ("0 0 1 * *", False, "At 00:00 every day"),
        ("0 0 1-31 * 5", None, "At 00:00 every day"),
        ("0 0 1-31 * 5", True, "At 00:00 on Friday"),
        ("5-5/2 1 * * *", None, "At 01:05 every day"),
        ("15,45 30 2 * * *", None, "At 02:30:15 and 02:30:45 every day"),
        ("0 0 L * *", None, "At 00:00 on the last day of every month"),
    ],
)
def test_words_say_the_rule_in_force(expr, day_and, words):
    """F013"""
    assert Cron(expr, day_and=day_and).words == words


@pytest.mark.parametrize(
    ("expr", "day_and", "says"),
    [
        ("0 0 13 * 5", None, ["One of both day fields is enough", "once on each date"]),
        ("0 0 13 * 5", True, ["must match both", "once on each date"]),
        ("0 0 */2 * 5", None, ["begins with a star", "once on each date"]),
        ("0 0 1 * *", False, ["One of both day fields is enough", "once on each date"]),
        ("0 0 * * 5", None, ["once on each date"]),
        ("*/5 * 13 * *", None, ["both passes"]),
    ],
)
def test_the_rules_in_force(expr, day_and, says):
    """F013: said where one may be in doubt."""
    rules = Cron(expr, day_and=day_and).rules
    assert len(rules) == len(says)
    for rule, part in zip(rules, says, strict=True):
        assert part in rule


def test_a_range_of_one_value_has_no_use_for_its_step():
    """`5-5/2` isn't `5/2`, which goes on to the end of the field."""
    assert len(between(Cron("5-5/2 1 * * *"), "2026-12-01T00:00", "2026-12-02T00:00")) == 1
    assert len(between(Cron("5/20 1 * * *"), "2026-12-01T00:00", "2026-12-02T00:00")) == 3


# Far away


def test_daylight_saving_time_after_2038():
    """F107: the rules go on where tables of 32 bits end."""
    cron = Cron("0 12 * * *", tz="Europe/Berlin")
    assert coming(cron, "2040-07-01T00:00") == "2040-07-01T10:00"
    assert coming(cron, "2040-01-01T00:00") == "2040-01-01T11:00"
    assert coming(cron, "2100-07-01T00:00") == "2100-07-01T10:00"
    assert coming(Cron("14 3 19 1 *"), "2038-01-18T00:00") == "2038-01-19T03:14"


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"])
@pytest.mark.parametrize("expr", ["* * * * *", "0 0 1 1 *", "0 0 29 2 *", "*/7 * * * * *", "59 23 31 12 *"])
def test_the_end_of_the_calendar(expr, tz):
    """F107: None, never an OverflowError."""
    cron = Cron(expr, tz=tz)
    assert cron.next(datetime.max.replace(tzinfo=UTC)) is None
    now: datetime | None = at("9999-12-29T12:00")
    steps = 0
    if "*/7" in expr or expr.startswith("* "):
        now = at("9999-12-30T22:00")
    while now is not None and steps < 20_000:
        following = cron.next(now)
        assert following is None or now < following
        now, steps = following, steps + 1
    assert now is None
    assert cron.count_ms(to_ms(at("9999-12-01T00:00")), 253_402_300_799_999) >= 0


@pytest.mark.parametrize("tz", ["Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT+12", "Africa/Monrovia"])
def test_the_beginning_of_the_calendar(tz):
    first = Cron("0 0 * * *", tz=tz).next(datetime(1970, 1, 1, tzinfo=UTC))
    assert first is not None
    assert timedelta(0) < first - at("1970-01-01T00:00") <= timedelta(days=1)


# Values


def test_next_takes_any_aware_datetime_and_no_naive_one():
    """F108: a naive datetime is another instant on each machine."""
    cron = Cron("0 12 * * *", tz="Europe/Berlin")
    with pytest.raises(BadTime, match="naive"):
        cron.next(datetime(2026, 12, 1))  # noqa: DTZ001
    with pytest.raises(BadTime):
        cron.next(1_796_126_400)  # type: ignore[arg-type]
    kolkata = datetime(2026, 12, 1, 16, 29, 59, 999_999, tzinfo=ZoneInfo("Asia/Kolkata"))
    assert cron.next(kolkata) == at("2026-12-01T11:00")
    assert cron.next(kolkata + timedelta(microseconds=1)) == at("2026-12-02T11:00")


def test_a_fraction_of_a_second_after_an_occurrence():
    cron = Cron("* * * * * *")
    assert cron.next(at("2026-12-01T00:00:00.001")) == at("2026-12-01T00:00:01")
    assert cron.next(at("2026-12-01T00:00:00.999999")) == at("2026-12-01T00:00:01")


def test_equal_values():
    assert Cron("0 3 * * *", tz="Europe/Berlin") == Cron("0  3 * * *", tz="Europe/Berlin")
    assert hash(Cron("0 3 * * *")) == hash(Cron("0 3 * * *", tz="UTC"))
    assert Cron("0 3 * * *") != Cron("0 3 * * *", tz="Europe/Berlin")
    assert Cron("0 3 13 * 5") != Cron("0 3 13 * 5", day_and=True)
    assert Cron("0 3 * * *") != "0 3 * * *"


def test_its_repr_makes_it_again():
    for cron in (Cron("0 3 * * *"), Cron("@daily", tz="Asia/Tokyo"), Cron("0 3 13 * 5", day_and=True)):
        assert eval(repr(cron), {"Cron": Cron}) == cron


def test_the_machine_s_zone_is_of_no_matter(monkeypatch):
    """F108: the same answer under each TZ."""
    answers = set()
    for name in ("UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"):
        monkeypatch.setenv("TZ", name)
        time.tzset()
        answers.add(Cron("30 2 * * *", tz="Europe/Berlin").next(at("2026-10-24T12:00")))
    monkeypatch.undo()
    time.tzset()
    assert answers == {at("2026-10-25T00:30")}


def test_hours_of_both_nights_are_different_instants():
    """F115: each of the 24 hours from a UTC midnight has an occurrence of its own, under any TZ."""
    for day in ("2026-10-25", "2026-03-29"):
        found = between(Cron("@hourly", tz="Europe/Berlin"), f"{day}T00:00", f"{day}T23:59")
        assert len(found) == 23
        assert {later - one for one, later in pairwise(found)} == {timedelta(hours=1)}


@pytest.mark.parametrize("expr", ["0 0 29 2 1", "0 0 29 2 5#5"])
def test_the_rarest_expressions_over_centuries(expr):
    """Strictly increasing, and counted as they come."""
    found = between(Cron(expr, tz="America/New_York", day_and=True), "1970-01-01T00:00", "2270-01-01T00:00")
    assert len(found) >= 10
    assert {(one.month, one.day) for one in found} == {(2, 29)}


def test_counting_three_years_of_minutes():
    cron = Cron("* * * * *", tz="Europe/Berlin")
    days = (at("2029-12-01T00:00") - at("2026-12-01T00:00")).days
    assert cron.count_ms(to_ms(at("2026-12-01T00:00")), to_ms(at("2029-12-01T00:00"))) == days * 1440
