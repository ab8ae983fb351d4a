"""`nextdue explain`: words, rules, occurrences, and the nights on which the clocks are changed."""

import json
import re

import pytest


def test_autumn(cli):
    """F005 F013: as a person reads it."""
    code, out, err = cli("explain", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-10-24", "--count", "3")
    assert (code, err) == (0, "")
    assert out == (
        "At 02:30 every day (Europe/Berlin).\n"
        "A fixed time of the wall clock: once on each date, where the clocks repeat it\n"
        "the first time, where they skip it at the end of the gap.\n"
        "\n"
        "Europe/Berlin                 UTC\n"
        "Sat 2026-10-24 02:30:00 CEST  2026-10-24 00:30:00\n"
        "Sun 2026-10-25 02:30:00 CEST  2026-10-25 00:30:00  first pass\n"
        "Mon 2026-10-26 02:30:00 CET   2026-10-26 01:30:00\n"
        "\n"
        "On 2026-10-25 the clocks show 02:00 to 03:00 twice: it happens only the first\n"
        "time.\n"
        "\n"
        "On 2027-03-28 the clocks skip 02:00 to 03:00: it happens once at the end of\n"
        "that, at 01:00 UTC.\n"
    )


def explained(cli, *args):
    code, out, err = cli("explain", *args, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_spring(cli):
    data = explained(cli, "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-27 12:00", "--count", "2")
    assert [one["local"] for one in data["next"]] == ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
    assert [one["note"] for one in data["next"]] == ["end of the skipped time", None]
    assert data["next"][0]["due"] == "2027-03-28T01:00:00.000Z"
    assert data["next"][0]["due_ms"] == data["changes"][0]["at_ms"]


@pytest.mark.parametrize(
    ("expr", "notes", "then"),
    [
        ("0,30 2 * * *", ["first pass", "first pass", None], "it happens only the first time."),
        ("*/30 2 * * *", ["first pass", "first pass", "second pass", "second pass", None], "(2 times in each)"),
        ("0 * * * *", [None, None, "first pass", "second pass", None], "(1 time in each)"),
        ("0 12 * * *", [None], "no time in there"),
    ],
)
def test_what_is_repeated(cli, expr, notes, then):
    """F005"""
    at = ("--tz", "Europe/Berlin", "--from", "2026-10-24T23:59:59", "--count", str(len(notes)))
    data = explained(cli, expr, *at)
    assert [one["note"] for one in data["next"]] == notes
    assert then in data["changes"][0]["then"]


@pytest.mark.parametrize(
    ("expr", "then"),
    [
        ("30 2 * * *", "it happens once at the end of that, at 01:00 UTC."),
        ("*/30 2 * * *", "it is left out there (2 times)."),
        ("0 3 * * *", "it has no time in there."),
    ],
)
def test_what_is_skipped(cli, expr, then):
    """F005"""
    data = explained(cli, expr, "--tz", "Europe/Berlin", "--from", "2026-03-28")
    assert data["changes"][0]["says"] == "On 2026-03-29 the clocks skip 02:00 to 03:00"
    assert data["changes"][0]["then"] == then


def test_a_date_that_does_not_exist(cli):
    """F005: Apia's 30 December 2011."""
    data = explained(cli, "0 12 * * *", "--tz", "Pacific/Apia", "--from", "2011-12-29", "--count", "2")
    assert [one["local"][:10] for one in data["next"]] == ["2011-12-29", "2011-12-31"]
    assert data["changes"][0]["says"] == "On 2011-12-30 the clocks skip the whole day"
    assert "doesn't exist" in data["changes"][0]["then"]


def test_the_rule_of_both_day_fields(cli):
    """F013: the rule in force is named."""
    either = cli("explain", "0 0 13 * 5", "--from", "2026-12-31")[1]
    assert "on the 13th day of month or on Friday" in either
    assert "One of both day fields is enough" in either
    both = cli("explain", "0 0 13 * 5", "--day-and", "--from", "2026-12-31", "--count", "1")[1]
    assert "on the 13th day of month if it's on Friday" in both
    assert "A day must match both its fields" in both
    assert "Fri 2027-08-13 00:00:00 UTC" in both


def test_it_fits_in_80_columns(cli):
    args = ("59 9-17/2 LW 2,3,5-8 5L", "--tz", "America/Argentina/ComodRivadavia", "--from", "2026-01-01")
    code, out, _ = cli("explain", *args)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80


def test_without_from_it_begins_now(cli):
    code, out, _ = cli("explain", "@hourly")
    assert code == 0
    assert len(re.findall(r"\d\d:00:00 UTC", out)) == 5


def test_the_end_of_the_calendar(cli):
    """F107"""
    code, out, _ = cli("explain", "@yearly", "--from", "9999-12-31", "--tz", "Asia/Tokyo")
    assert code == 0
    assert "No further occurrence." in out


def test_fields_may_come_as_words(cli):
    assert cli("explain", "0", "3", "*", "*", "*")[1].startswith("At 03:00 every day")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("61 * * * *",), "minute.*61"),
        (("0 0 31 2 *",), "day-of-month"),  # F015
        (("@reboot",), "@reboot"),
        (("0 3 * *",), "4 fields"),
        (("0", "3", "README.md", "docs", "src", "tests", "*"), "in quotes"),
        (("0 3 * * *", "--tz", "Berlin"), "Europe/Berlin"),
        (("0 3 * * *", "--from", "soon"), "--from"),
        (("0 3 * * *", "--from", "1969-01-01"), "1970"),
        (("0 3 * * *", "--count", "0"), "--count"),
        (("0 3 * * *", "--count", "1000000"), "--count"),
        (("\x1b[31m * * * *",), "minute"),
    ],
)
def test_bad_input_is_one_sentence(cli, args, says):
    code, out, err = cli("explain", *args)
    assert (code, out) == (2, "")
    assert err.startswith("nextdue: ")
    assert err.count("\n") == 1
    assert re.search(says, err)
    assert "\x1b" not in err


def test_in_utc_no_time_is_shown_twice(cli):
    _, out, _ = cli("explain", "0 3 * * *", "--from", "2026-12-01", "--count", "1")
    assert out.endswith("\n\nUTC\nTue 2026-12-01 03:00:00 UTC\n")
