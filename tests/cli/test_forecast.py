"""`nextdue forecast`: what will run, counted and drawn."""

import argparse
import json
import types
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from nextdue import BadTime, Cron, Every
from nextdue.cli import forecast, timeline
from nextdue.cli.schedules import Line
from nextdue.clock import to_ms
from nextdue.schedule import plan_of
from nextdue.sqlite.schedules import ScheduleView
from tests.cli.test_schedules import SHOP, begin

EVE = datetime(2026, 10, 24, 20, tzinfo=UTC)
"""The evening before Berlin's clocks go back."""
NOW = to_ms(EVE)
DAY = 86_400_000


def line(rule, due, *, slot="due", state="waiting", key="a", **more):
    plan = plan_of(rule, **{k: v for k, v in more.items() if k not in ("fired", "attempts")})
    slot = due if slot == "due" else slot
    view = ScheduleView(
        *(
            "work",
            key,
            plan,
            "shop",
            more.get("fired", 0),
            None,
            0,
            0,
            None,
            None,
            1,
            "[]",
            due,
            slot,
            state == "running",
        ),
        *(None, more.get("attempts", 0), None, None, "default", 0),
    )
    return Line(view, state, due if state == "waiting" else None, None)


def foretold(line, now, until):
    coming = forecast._of_schedule(line, now, until)
    assert coming is not None
    return coming


def next_of(rule):
    slot = rule.next_ms(NOW)
    assert slot is not None
    return slot


def by_hand(rule, after, until):
    found = []
    while (after := rule.next_ms(after)) is not None and after <= until:
        found.append(after)
    return found


@pytest.mark.parametrize("expr", ["30 2 * * *", "*/7 * * * *", "* * * * *", "0 0 13 * 5", "15 1-4 * * *"])
@pytest.mark.parametrize("hours", [1, 24, 100, 24 * 40])
def test_occurrences_are_counted_and_drawn_as_they_come(expr, hours):
    rule = Cron(expr, "Europe/Berlin")
    until = NOW + hours * 3_600_000
    slot = rule.next_ms(NOW)
    coming = foretold(line(rule, slot), NOW, until)
    expected = by_hand(rule, NOW, until)
    assert (coming.total, coming.times) == (len(expected), expected[: forecast.TIMES])
    scale = timeline.scale(NOW, until, ZoneInfo("Europe/Berlin"))
    columns = forecast._columns(coming, scale, NOW)
    assert scale.columns <= timeline.COLUMNS
    assert columns == [
        sum(scale.start + n * scale.width <= at < scale.start + (n + 1) * scale.width for at in expected)
        for n in range(scale.columns)
    ]


@pytest.mark.parametrize("minutes", [1, 30])
def test_a_period_from_the_end_is_about(minutes):
    coming = foretold(line(Every(minutes * 60), NOW + 90_000, slot=None), NOW, NOW + DAY)
    expected = list(range(NOW + 90_000, NOW + DAY + 1, minutes * 60_000))
    assert coming.about
    assert (coming.total, coming.times) == (len(expected), expected[: forecast.TIMES])
    columns = forecast._columns(coming, timeline.scale(NOW, NOW + DAY, UTC), NOW)
    assert sum(columns) == len(expected)


def test_what_is_overdue_runs_now_and_once():
    rule = Cron("0 * * * *")
    coming = foretold(line(rule, NOW - 5 * 3_600_000), NOW + 60_000, NOW + 3 * 3_600_000)
    assert coming.times == [NOW + 60_000, *(NOW + n * 3_600_000 for n in (1, 2, 3))]
    skipped = foretold(line(rule, NOW - 5 * 3_600_000, missed="skip"), NOW + 120_000, NOW + 7_200_000)
    assert skipped.times == [NOW + 3_600_000, NOW + 7_200_000]


def test_jitter_ending_count_and_a_running_one():
    rule = Cron("0 * * * *")
    slot = next_of(rule)
    jittered = foretold(line(rule, slot + 300_000, slot=slot), NOW, NOW + 2 * 3_600_000)
    assert jittered.times == [slot + 300_000, slot + 3_600_000]
    assert foretold(line(rule, slot, ending_ms=slot + 3_600_000), NOW, NOW + DAY).total == 2
    assert foretold(line(rule, slot, count=5, fired=2), NOW, NOW + DAY).total == 3
    running = foretold(line(rule, None, slot=slot - 3_600_000, state="running"), NOW, NOW + 3_600_000)
    assert running.times == [slot]
    assert forecast._of_schedule(line(rule, slot, state="paused"), NOW, NOW + DAY) is None


def test_a_night_on_which_clocks_change_is_told():
    found = forecast._changes([line(Cron("30 2 * * *", "Europe/Berlin"), NOW)], "America/New_York", NOW, NOW + 9 * DAY)
    assert [(change.zone, change.by_ms) for change in found] == [
        ("Europe/Berlin", -3_600_000),
        ("America/New_York", -3_600_000),
    ]
    assert (
        forecast._told(found[0], NOW, ZoneInfo("Europe/Berlin"))
        == "Clocks of Europe/Berlin go back by 1 h at Sun 02:00."
    )


def test_the_drawing_of_that_night(capsys):
    """The hour that comes twice has twice the columns, and a mark where it begins again."""
    berlin = ZoneInfo("Europe/Berlin")
    scale = timeline.scale(NOW, NOW + 12 * 3_600_000, berlin)
    counts = [0] * scale.columns
    counts[2], counts[20] = 1, 7
    timeline.draw(scale, [("nightly", counts)], [to_ms(datetime(2026, 10, 25, 1, tzinfo=UTC))], berlin)
    axis, drawn, clocks, _ = capsys.readouterr().out.splitlines()
    assert axis.split() == ["TASK", "22", "23", "00", "01", "02", "02", "03", "04", "05", "06", "07", "08", "09"]
    assert drawn.index("●") == 9 + 2
    assert drawn.index("█") == 9 + 20
    assert clocks.index("▲") == axis.index("02", axis.index("02") + 1)


def test_an_ascii_terminal_gets_ascii(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout", types.SimpleNamespace(encoding="ascii"))
    assert timeline._glyphs() == ".o#^"


@pytest.fixture
def started(shop):
    shop.write(SHOP.replace("0 * * * *", "* * * * *"))
    begin(shop, lambda module: True)
    shop.nd.tasks["receipt"].using(delay="5h", key="42").enqueue(1)
    for n in range(30):
        shop.nd.tasks["receipt"].using(delay="2d").enqueue(n)
    return shop


def test_schedules_and_deferred_tasks_are_told(started, cli):
    code, out, _ = cli("forecast", "shop.db", "--tz", "Europe/Berlin")
    assert code == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("times of Europe/Berlin.")
    words = [found.split() for found in lines[2:7]]
    assert ["1,440", "export", "eu"] in [row[-8:-5] for row in words] or any("1,440" in row for row in words)
    assert any(row[-1] == "deferred" and "42" in row for row in words)
    assert any("about" in row for row in words)
    assert any("30 2 * * * Europe/Berlin" in found for found in lines)
    found = json.loads(cli("forecast", "shop.db", "--hours", "72", "--json")[1])
    counts = {(one["task"], one["key"]): one["count"] for one in found["coming"]}
    assert counts["receipt", None] == 31
    assert counts["export", "eu"] == 3 * 1440
    assert all(len(one["times_ms"]) <= forecast.TIMES for one in found["coming"])


def test_what_is_paused_is_named_and_not_counted(started, cli):
    cli("schedules", "pause", "shop.db", "nightly")
    cli("pause", "shop.db", "--name", "receipt")
    out = cli("forecast", "shop.db", "--hours", "100")[1]
    assert "Paused, so not among them: nightly, receipt (31)." in out
    assert out.count("nightly") == 1


def test_nothing_is_said_plainly(shop, cli):
    shop.nd.tasks["receipt"].using(delay="5h").enqueue(1)
    code, out, _ = cli("forecast", "shop.db", "--hours", "1")
    assert code == 0
    assert "Nothing will run." in out


def test_code_that_no_worker_has_seen_is_foretold(shop, cli):
    shop.write(SHOP)
    code, out, _ = cli("forecast", "shop:nd")
    assert code == 0
    assert "nightly" in out
    assert not shop.path.exists()


def test_many_schedules_are_bounded(shop, cli):
    task = shop.nd.tasks["letter"]
    for n in range(60):
        shop.nd.schedules.put(task, Cron(f"{n} * * * *"), key=f"k{n:02}", args=("Ada",))
    out = cli("forecast", "shop.db")[1]
    assert len(out.splitlines()) < 80
    assert "... and 20 more, from" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--hours", "0"), "--hours must be over 0"),
        (("--hours", "1e9"), "--hours must be over 0"),
        (("--hours", "nan"), "--hours must be over 0"),
        (("--hours", "5", "--until", "07:00"), "not both"),
        (("--until", "tomorrow"), "can't read"),
        (("--until", "25:00"), "can't read"),
        (("--until", "2020-01-01 00:00"), "must be to come"),
        (("--tz", "Europe/Berlim"), "did you mean Europe/Berlin"),
    ],
)
def test_wrong_usage(started, cli, options, says):
    code, out, err = cli("forecast", "shop.db", *options)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(
    ("text", "ahead"),
    [("07:00", timedelta(hours=9)), ("21:00", timedelta(hours=23)), ("2026-10-25T02:30+01:00", timedelta(hours=5.5))],
)
def test_until_is_a_time_of_the_clocks_shown(text, ahead):
    """At 22:00 in Berlin, before the night that has an hour more: 07:00 is ten hours away."""
    asked = argparse.Namespace(hours=None, until=text)
    berlin = ZoneInfo("Europe/Berlin")
    extra = timedelta(hours=1) if "+" not in text else timedelta(0)
    assert forecast._until(asked, NOW, berlin) == to_ms(EVE + ahead + extra)
    with pytest.raises(BadTime):
        forecast._until(argparse.Namespace(hours=None, until="2026-10-24 21:59"), NOW, berlin)


@pytest.mark.parametrize(("hours", "label"), [(0.05, "20:00"), (2, "20:00"), (24, "20"), (24 * 10, "24.10")])
def test_the_axis_says_where_a_drawing_begins(hours, label):
    assert timeline._axis(timeline.scale(NOW, NOW + int(hours * 3_600_000), UTC), UTC).startswith(label)
