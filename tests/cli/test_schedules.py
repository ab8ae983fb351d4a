"""`nextdue schedules`, and what the other commands say of a schedule's row."""

import json
import sys

import pytest

from nextdue import Every
from nextdue.sqlite import schedules as stored

SHOP = """
    from pathlib import Path
    from nextdue import Nextdue

    nd = Nextdue(Path(__file__).with_name("shop.db"))

    @nd.every("30m")
    def poll(ctx): ...

    @nd.cron("30 2 * * *", tz="Europe/Berlin", jitter="5m", missed="skip")
    def nightly(ctx): ...

    @nd.cron("0 * * * *", key="eu", args=("eu",))
    @nd.cron("15 * * * *", key="us", args=("us",))
    def export(ctx, region: str): ...

    @nd.task
    def receipt(order: int): ...
"""


@pytest.fixture
def shop(shop):
    shop.write(SHOP)
    return shop


@pytest.fixture
def started(shop):
    """As after the start of a worker."""
    begin(shop, lambda module: True)
    return shop


def begin(shop, loaded, schedules=None):
    declared = shop.nd.schedules.declared() if schedules is None else schedules
    with shop.nd.caller.use() as store:
        stored.declare(store, declared, lambda: 0.5, loaded)


def data(cli, *words):
    code, out, err = cli("schedules", *words, "--json")
    assert (code, err) == (0, "")
    return {(found["task"], found["key"]): found for found in json.loads(out)}


def test_what_the_code_declares_is_shown_before_any_worker_has_started(shop, cli):
    code, out, _ = cli("schedules", "shop:nd")
    assert code == 0
    assert out.count(" new  ") == 4
    assert "the next start of a worker puts it into the file" in out
    assert {found["state"] for found in data(cli, "shop:nd").values()} == {"new"}
    assert not shop.path.exists()  # looking makes no file
    code, _, err = cli("schedules", "shop.db")
    assert code == 2
    assert "there is no file" in err


def test_what_the_next_start_of_a_worker_will_do_is_told_in_one_word(started, cli):
    started.nd.schedules.put(started.nd.tasks["receipt"], Every("1h"), args=(1,))
    before = {("export", "eu"), ("export", "us"), ("nightly", "nightly"), ("poll", "poll")}
    code, out, _ = cli("schedules", "shop:nd")
    assert code == 0
    assert "CODE" not in out  # nothing will be done
    assert stand(cli, "shop:nd") == dict.fromkeys(before, "same") | {("receipt", "receipt"): None}
    text = SHOP.replace('every("30m")', 'every("20m")').replace('args=("us",)', 'args=("US",)')
    anew(started, text.replace("def nightly", "def weekly"))
    told = {
        **{("poll", "poll"): "changed", ("export", "us"): "changed", ("export", "eu"): "same"},
        **{("nightly", "nightly"): "gone", ("weekly", "weekly"): "new", ("receipt", "receipt"): None},
    }
    assert stand(cli, "shop:nd") == told
    assert set(stand(cli, "shop.db").values()) == {None}  # the file alone knows no code
    code, out, _ = cli("schedules", "shop:nd")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines() if not line.startswith(" ")][:7] == [
        ["TASK", "KEY", "STATE", "CODE"],
        ["export", "eu", "waiting", "same"],
        ["export", "us", "waiting", "changed"],
        ["nightly", "nightly", "waiting", "gone"],
        ["poll", "poll", "waiting", "changed"],
        ["receipt", "receipt", "waiting", "-"],
        ["weekly", "weekly", "new", "new"],
    ]
    for word in ("new", "changed", "gone"):
        assert f"\n{word}: " in out
    assert max(map(len, out.splitlines())) <= 80
    begin(started, lambda module: module == "shop")
    assert set(stand(cli, "shop:nd").values()) == {"same", "gone", None}
    assert data(cli, "shop:nd")["nightly", "nightly"]["state"] == "orphaned"
    anew(started, SHOP)  # the code of before: what it brings back is another one than the file's
    assert stand(cli, "shop:nd")["nightly", "nightly"] == "changed"


def test_of_a_module_that_isnt_imported_nothing_is_said(started, cli):
    started.write(SHOP, "other.py")  # its own schedules are of module other
    started.sql("UPDATE nextdue_schedule SET source = 'else.where'")
    told = stand(cli, "other:nd")
    assert set(told.values()) == {"changed"}  # whoever starts last has declared them
    started.write(SHOP.replace("def nightly", "def weekly"), "third.py")
    assert stand(cli, "third:nd")["nightly", "nightly"] is None


def test_long_names_leave_room_for_the_word(shop, cli):
    anew(
        shop,
        SHOP
        + f"""
    @nd.cron("30 2 1 1 *", key="{"k" * 60}")
    def {"t" * 60}(ctx): ...
""",
    )
    out = cli("schedules", "shop:nd")[1]
    assert max(map(len, out.splitlines())) <= 80


def anew(shop, text):
    """As after a deploy."""
    shop.nd.close()
    shop.write(text)
    del sys.modules["shop"]


def stand(cli, place):
    return {at: found["code"] for at, found in data(cli, place).items()}


def test_they_are_listed_in_two_lines_of_at_most_80_columns(started, cli):
    code, out, _ = cli("schedules", "shop.db")
    assert code == 0
    assert "TASK     KEY      STATE    NEXT (" in out
    assert "  30 2 * * * Europe/Berlin; jitter 5 min; missed: skip; never ran" in out
    assert "  every 30 min after its end; never ran" in out
    assert max(map(len, out.splitlines())) <= 80
    found = data(cli, "shop.db")
    assert set(found) == {("poll", "poll"), ("nightly", "nightly"), ("export", "eu"), ("export", "us")}
    eu = found["export", "eu"]
    assert eu["state"] == "waiting"
    assert eu["next_ms"] == eu["slot_ms"]
    assert eu["args"] == ["eu"]
    assert 0 < eu["in_ms"] <= 3_600_000
    nightly = found["nightly", "nightly"]
    assert nightly["next_ms"] == nightly["slot_ms"] + 150_000


def test_what_has_been_is_shown(started, cli):
    started.sql(
        "UPDATE nextdue_schedule SET fired = 7, last = 1796126400000, missed = 2, missed_ever = 5 WHERE key = '@eu'"
    )
    out = cli("schedules", "shop.db")[1]
    assert "missed 5" in out
    found = data(cli, "shop.db")["export", "eu"]
    assert (found["fired"], found["last"], found["missed"], found["missed_ever"]) == (
        7,
        "2026-12-01T12:00:00.000Z",
        2,
        5,
    )


def test_a_running_one_tells_what_comes_after_it(started, cli):
    started.sql(
        "UPDATE nextdue_task SET token = (1 << 32) + 1, claims = 1, scheduled_for = coalesce(scheduled_for, due)"
    )
    found = data(cli, "shop.db")
    assert {one["state"] for one in found.values()} == {"running"}
    assert found["poll", "poll"]["next"] is None
    assert found["export", "eu"]["next_ms"] > found["export", "eu"]["slot_ms"]
    out = cli("schedules", "shop.db")[1]
    assert "30 min after its end" in out
    assert "runs now" in out


def test_one_is_paused_and_resumed(started, cli):
    assert cli("schedules", "pause", "shop.db", "nightly") == (
        0,
        "schedule nightly is paused until `nextdue schedules resume nightly`\n",
        "",
    )
    code, out, _ = cli("schedules", "pause", "shop.db", "nightly")
    assert code == 1
    assert "was paused before" in out
    assert data(cli, "shop.db")["nightly", "nightly"]["state"] == "paused"
    assert "paused since" in cli("schedules", "shop.db")[1]
    assert cli("schedules", "resume", "shop.db", "nightly")[0] == 0
    assert cli("schedules", "resume", "shop.db", "nightly")[:2] == (1, "schedule nightly wasn't paused\n")
    assert data(cli, "shop.db")["nightly", "nightly"]["state"] == "waiting"


def test_pausing_its_row_pauses_the_schedule(started, cli):
    number = started.sql("SELECT id FROM nextdue_task WHERE key = '@eu'")[0][0]
    assert cli("pause", "shop.db", number)[0] == 0
    assert data(cli, "shop.db")["export", "eu"]["state"] == "paused"
    assert cli("resume", "shop.db", "--all")[0] == 0
    assert data(cli, "shop.db")["export", "eu"]["state"] == "waiting"
    cli("schedules", "pause", "shop.db", "export", "eu")
    assert cli("resume", "shop.db", number)[0] == 0
    assert data(cli, "shop.db")["export", "eu"]["paused"] is None
    assert cli("resume", "shop.db", number)[0] == 1


def test_a_key_tells_which_of_several(started, cli, monkeypatch):
    code, _, err = cli("schedules", "pause", "shop.db", "export")
    assert code == 2
    assert "there are eu, us" in err
    monkeypatch.setenv("NEXTDUE", "shop.db")
    code, out, _ = cli("schedules", "pause", "export", "us")
    assert (code, out) == (0, "schedule export us is paused until `nextdue schedules resume export us`\n")
    assert [key for (_, key), found in data(cli).items() if found["state"] == "paused"] == ["us"]


def test_one_is_removed_and_it_is_said_that_the_code_brings_it_back(started, cli):
    code, out, _ = cli("schedules", "remove", "shop.db", "nightly")
    assert code == 0
    assert "shop declares it" in out
    assert ("nightly", "nightly") not in data(cli, "shop.db")
    assert data(cli, "shop:nd")["nightly", "nightly"]["state"] == "new"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pause", "shop.db", "nightlie"), "did you mean nightly?"),
        (("pause", "shop.db", "receipt"), "no task 'receipt' has a schedule"),
        (("pause", "shop.db", "export", "uk"), "no schedule with the key 'uk'"),
        (("pause",), "give: nextdue schedules pause"),
        (("shop.db", "nightly"), "give [TARGET], or one of pause, resume, remove"),
        (("remove", "a", "b", "c", "d"), "give: nextdue schedules remove"),
    ],
)
def test_wrong_usage_changes_nothing(started, cli, words, says):
    code, out, err = cli("schedules", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert {found["state"] for found in data(cli, "shop.db").values()} == {"waiting"}


def test_an_orphaned_one_is_shown_and_told_by_the_doctor(started, cli):
    kept = [pair for pair in started.nd.schedules.declared() if pair[0].name != "nightly"]
    begin(started, lambda module: True, kept)
    code, out, _ = cli("schedules", "shop.db")
    assert code == 0
    assert "orphaned: its code declares it no more" in out
    code, out, _ = cli("doctor", "shop.db")
    assert "declared by no code any more, and held: nightly" in out
    number = started.sql("SELECT id FROM nextdue_task WHERE key = '@nightly'")[0][0]
    assert "declares no more" in cli("why", "shop.db", number)[1]
    for verb in ("retry", "cancel"):
        code, out, _ = cli(verb, "shop.db", number)
        assert code == 1
        assert "`nextdue schedules remove nightly`" in out


def test_the_doctor_tells_schedules_that_nobody_serves(started, cli):
    assert ("ok", "4 schedules in force") in findings(cli, "shop:nd")
    started.write(SHOP.replace("def nightly", "def weekly"), "other.py")
    assert ("warn", "of tasks that the application doesn't declare: nightly") in findings(cli, "other:nd")
    started.sql("UPDATE nextdue_task SET due = due - 7200000 WHERE key = '@eu'")
    assert ("warn", "overdue, and started by nobody: export eu") in findings(cli, "shop.db")


def findings(cli, place):
    return {
        (f["level"], f["text"])
        for f in json.loads(cli("doctor", place, "--json")[1])["findings"]
        if f["about"] == "schedules"
    }


def test_the_verbs_for_tasks_say_what_to_do_with_a_schedules_row(started, cli):
    number = started.sql("SELECT id FROM nextdue_task WHERE key = '@nightly'")[0][0]
    code, out, _ = cli("cancel", "shop.db", number)
    assert code == 1
    assert "`nextdue schedules pause nightly` keeps it from running" in out
    code, out, _ = cli("retry", "shop.db", number)
    assert code == 1
    assert "`nextdue run-now` starts one" in out
    assert cli("run-now", "shop.db", number)[:2] == (0, f"nightly #{number} is due now\n")
    cli("schedules", "pause", "shop.db", "nightly")
    code, out, _ = cli("run-now", "shop.db", number)
    assert code == 1
    assert "`nextdue schedules resume nightly`" in out
    assert "Its schedule is paused since" in cli("why", "shop.db", number)[1]
    assert "held (paused)" in cli("ls", "shop.db")[1]


def test_why_and_show_tell_of_the_schedule(started, cli):
    number = started.sql("SELECT id FROM nextdue_task WHERE key = '@eu'")[0][0]
    started.sql(
        "UPDATE nextdue_schedule SET last = 1796126400000, missed = 3, missed_ever = 3, fired = 1 WHERE key = '@eu'"
    )
    out = cli("why", "shop.db", number)[1]
    assert "It is the row of a schedule (0 * * * * UTC), which now stands for" in out
    assert "3 occurrences were missed" in out
    assert "It waits until its time comes" in out
    out = cli("show", "shop.db", number)[1]
    for line in ("schedule       0 * * * * UTC", "declared by    shop", "fired          once, missed 3 times"):
        assert line in out


def test_uninstalling_takes_the_schedules_too(started, cli):
    started.nd.close()
    assert cli("uninstall", "shop.db", "--yes")[0] == 0
    code, _, err = cli("schedules", "shop.db")
    assert code != 0
    assert err


def test_a_paused_queue_is_named(started, cli):
    cli("pause", "shop.db", "--queue", "default")
    assert "queue default paused" in cli("schedules", "shop.db")[1]


def test_one_that_nobody_can_follow_is_told_and_hides_no_other(started, cli):
    with started.nd.caller.use() as store:
        break_ = "UPDATE nextdue_schedule SET plan = ? WHERE name = ?"
        store.database.connection.execute(break_, ("{", "poll"))
        store.database.connection.execute(break_, ('{"cron": "* * * * *", "tz": "Mars/Base"}', "nightly"))
    code, out, _ = cli("schedules", "shop.db")
    assert code == 0
    assert "poll     poll     broken" in out
    assert "broken: nightly: there is no time zone 'Mars/Base'" in out
    assert {key: found["state"] for key, found in data(cli, "shop.db").items() if found["state"] == "broken"} == {
        ("poll", "poll"): "broken",
        ("nightly", "nightly"): "broken",
    }
    code, out, _ = cli("forecast", "shop.db")
    assert code == 0
    assert "export eu" in out
    assert "Broken, so not among them: nightly, poll; `nextdue schedules` says why." in out
    code, out, _ = cli("doctor", "shop.db")
    assert "can't be followed: nightly, poll" in out
    id = data(cli, "shop.db")["nightly", "nightly"]["id"]
    code, out, _ = cli("why", "shop.db", str(id))
    assert code == 0
    assert "Nobody can follow it, so it doesn't run: there is no time zone 'Mars/Base'" in out
    assert cli("schedules", "pause", "shop.db", "nightly")[0] == 0
    code, _, err = cli("schedules", "resume", "shop.db", "nightly")
    assert code == 2
    assert "Mars/Base" in err
    assert cli("schedules", "remove", "shop.db", "nightly")[0] == 0
