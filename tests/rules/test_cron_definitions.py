"""What is a cron expression in a zone and what is none, and the words in which it is told."""

import os
import subprocess
import sys
import textwrap
from contextlib import suppress
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nextdue import BadDefinition, Cron
from tests.rules.crons import between

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
