"""Schedules that change: in code, by a deploy, at run time, by hand."""

from datetime import timedelta

import pytest

from nextdue import Context, Cron, Every
from nextdue.sqlite import marks
from tests.schedules.conftest import NOON

H = timedelta(hours=1)


def rows(nd):
    return [(task.key, task.state) for task in nd.find() if task.key and task.key.startswith("@")]


def deploy(box, nd, declare):
    """The same file under other code: a worker stops, the schedules are declared anew, another one starts."""
    for place in box._places:
        place.leave()
    nd.tasks.clear()
    nd._definitions.clear()
    nd.schedules._declared.clear()
    declare(nd)
    box.drain()


def test_f021_a_changed_schedule_is_the_same_row(app, box, seen):
    """F021: every 300 s, every 60 s, hourly: always one row, no run at the old time."""
    nd = app()

    def sync(ctx):
        seen.append(box.now - NOON)

    deploy(box, nd, lambda nd: nd.every(300)(sync))
    assert seen == [timedelta(0)]
    deploy(box, nd, lambda nd: nd.every(60, anchor=NOON)(sync))
    assert rows(nd) == [("@sync", "waiting")]
    box.advance("130s")
    assert seen[1:] == [timedelta(seconds=60), timedelta(seconds=120)]
    deploy(box, nd, lambda nd: nd.cron("0 * * * *")(sync))
    assert rows(nd) == [("@sync", "waiting")]
    box.advance("1h")
    assert seen[3:] == [H]


def test_an_unchanged_schedule_is_left_alone_by_restarts(app, box, seen):
    nd = app()

    def sync(ctx):
        seen.append(box.now - NOON)

    deploy(box, nd, lambda nd: nd.every("1h")(sync))
    for _ in range(5):
        box.advance("10m")
        deploy(box, nd, lambda nd: nd.every("1h")(sync))
    assert seen == [timedelta(0)]


def test_f022_a_schedule_without_its_code_is_orphaned_and_comes_back(app, box, seen):
    """F022: the decorator goes: no run, no spin, and it is shown; it comes back: it goes on."""
    nd = app()

    def sync(ctx):
        seen.append(box.now - NOON)

    deploy(box, nd, lambda nd: nd.cron("0 * * * *")(sync))
    deploy(box, nd, lambda nd: nd.task(name="other")(lambda: None))
    (view,) = nd.schedules.list()
    assert view.state == "orphaned"
    assert rows(nd) == [("@sync", "held")]
    box.advance("5h")
    assert seen == []
    deploy(box, nd, lambda nd: nd.cron("0 * * * *")(sync))
    assert nd.schedules.list()[0].state == "waiting"
    box.advance("1h")
    assert seen == [6 * H]


@pytest.mark.parametrize("new", [{"name": "fetch"}, {"key": "hourly"}])
def test_a_renamed_schedule_begins_and_the_old_one_is_orphaned(app, box, seen, new):
    """The task or the key: never both of them run, and the old one can be forgotten."""
    nd = app()

    def sync(ctx):
        seen.append(box.now - NOON)

    deploy(box, nd, lambda nd: nd.cron("0 * * * *")(sync))
    box.advance("1h")
    deploy(box, nd, lambda nd: nd.cron("0 * * * *", **new)(sync))
    box.advance("2h")
    assert seen == [H, 2 * H, 3 * H]
    states = {(view.name, view.key): view.state for view in nd.schedules.list()}
    renamed = (new.get("name", "sync"), new.get("key", new.get("name", "sync")))
    assert states == {("sync", "sync"): "orphaned", renamed: "waiting"}
    assert nd.schedules.remove("sync")
    box.advance("1h")
    assert len(rows(nd)) == 1
    assert len(seen) == 4


def test_f021_old_and_new_code_that_start_by_turns(app, box, seen):
    """F021: whoever started last has declared it; at each moment one row, and no occurrence of the other plan."""
    nd = app()

    def sync(ctx):
        seen.append(ctx.scheduled_for - NOON)

    for old in (True, False, True, False):
        deploy(box, nd, lambda nd, old=old: nd.cron("0 * * * *" if old else "30 * * * *")(sync))
        assert rows(nd) == [("@sync", "waiting")]
        box.advance("2h")
    assert seen == [n * H + (timedelta(0) if old else H / 2) for n, old in OLD_AND_NEW]


OLD_AND_NEW = [(1, True), (2, True), (2, False), (3, False), (5, True), (6, True), (6, False), (7, False)]


def test_a_program_with_other_modules_orphans_nothing(app, box, seen):
    nd = app()

    def sync(ctx):
        seen.append(1)

    sync.__module__ = "shop.schedules"
    deploy(box, nd, lambda nd: nd.cron("0 * * * *")(sync))
    deploy(box, nd, lambda nd: nd.task(name="sync")(lambda ctx: seen.append(2)))
    assert nd.schedules.list()[0].state == "waiting"
    box.advance("1h")
    assert seen == [2]


def test_code_takes_over_a_key_of_one_that_was_made_at_run_time(app, box, seen):
    nd = app()

    def sync(ctx):
        seen.append(box.now - NOON)

    deploy(box, nd, lambda nd: nd.task(sync))
    nd.schedules.put(nd.tasks["sync"], Every("1d", anchor=NOON + 6 * H))
    nd.schedules.put(nd.tasks["sync"], Every("1d", anchor=NOON + 7 * H), key="other")
    deploy(box, nd, lambda nd: nd.schedule(Every("1d", anchor=NOON + 3 * H))(sync))
    assert [(view.key, view.source is None) for view in nd.schedules.list()] == [("other", True), ("sync", False)]
    box.advance("20h")
    assert seen == [3 * H, 7 * H]


def test_a_schedule_changed_while_it_runs_begins_anew_at_its_end(app, box, seen):
    nd = app()

    @nd.task
    def work(ctx, word: str):
        seen.append((word, ctx.scheduled_for - NOON))
        if word == "old":
            nd.schedules.put(work, Cron("30 * * * *"), key="k", args=("new",))

    nd.schedules.put(work, Cron("0 * * * *"), key="k", args=("old",))
    box.advance("2h")
    assert seen == [("old", H), ("new", H + H / 2)]


def test_a_schedule_removed_while_it_runs_leaves_no_row(app, box, seen):
    nd = app()

    @nd.task
    def work(ctx):
        seen.append(1)
        assert nd.schedules.remove(work, "k")

    nd.schedules.put(work, Cron("0 * * * *"), key="k")
    box.advance("5h")
    assert seen == [1]
    assert rows(nd) == []


def test_a_schedule_paused_while_it_runs_is_held_at_its_end(app, box, seen):
    nd = app()

    @nd.task
    def work(ctx):
        seen.append(1)
        nd.schedules.pause(work, "k")

    nd.schedules.put(work, Cron("0 * * * *"), key="k")
    box.advance("5h")
    assert seen == [1]
    assert nd.schedules.list()[0].state == "paused"
    nd.schedules.resume(work, "k")
    box.advance("1h")
    assert seen == [1, 1]


def test_two_schedules_of_one_key_are_refused(app):
    nd = app()
    decorated = nd.every("1h")(lambda_named("work"))
    with pytest.raises(ValueError, match="two of its schedules have the key 'work'"):
        nd.every("2h")(decorated)


def lambda_named(name):
    def work(): ...

    work.__name__ = name
    return work


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda nd: nd.every(0), "from one second"),
        (lambda nd: nd.every("-5m"), "negative"),
        (lambda nd: nd.every("1000000d"), "to a hundred years"),
        (lambda nd: nd.cron("0 25 * * *"), "hour"),
        (lambda nd: nd.cron("0 0 * * *", tz="Europe/Berln"), "did you mean Europe/Berlin"),
        (lambda nd: nd.cron("@reboot"), "starts"),
        (lambda nd: nd.every("1h", missed="skip"), "misses nothing"),
        (lambda nd: nd.cron("0 0 * * *", missed="never"), "missed must be"),
        (lambda nd: nd.cron("0 0 * * *", starting=NOON, ending=NOON - H), "before it starts"),
        (lambda nd: nd.cron("0 0 * * *", count=0), "count must be"),
        (lambda nd: nd.cron("0 0 * * *", key="x" * 200)(lambda_named("w")), "at most 199"),
        (lambda nd: nd.cron("0 0 * * *", args="x")(lambda_named("w")), "a tuple of arguments"),
        (lambda nd: nd.cron("0 0 * * *", args=(1,))(lambda_named("w")), "takes"),
        (lambda nd: nd.schedule("0 0 * * *"), "a Cron or an Every"),
        (lambda nd: nd.on_demand(0)(lambda_named("w")), "from one second"),
        (lambda nd: nd.on_demand(lambda_named("w")), "its period in brackets"),
        (lambda nd: nd.every(lambda_named("w")), "a period must be a timedelta"),
        (lambda nd: nd.schedules.put(lambda_named("w"), Every("1h")), "only a task can have schedules"),
        (lambda nd: nd.schedules.pause(lambda_named("w")), "only a task can have schedules"),
        (lambda nd: nd.on_demand(60)(lambda_named("w")).using(key="k"), "runs on demand"),
        (lambda nd: nd.task(lambda_named("w")).using(key="@k"), "must not begin with @"),
    ],
)
def test_bad_input_is_refused_when_defined(app, call, says):
    nd = app()
    with pytest.raises((ValueError, TypeError), match=says):
        call(nd)


def test_months_keep_their_day(app, box, seen):
    nd = app()

    @nd.schedule(Every(months=1, anchor=NOON + timedelta(days=30), tz="Europe/Berlin"))
    def rent(ctx):
        seen.append(ctx.scheduled_for.day)

    box.advance(timedelta(days=160))
    assert seen == [31, 31, 28, 31, 30]


BROKEN = {
    "no JSON": "{",
    "no object": "null",
    "nested too deep": "[" * 100_000,
    "of a newer version": '{"moon": "full"}',
    "a field of another kind": '{"period_ms": 1.5}',
    "an expression that isn't one": '{"cron": "nope"}',
    "a zone that isn't known here": '{"cron": "* * * * *", "tz": "Mars/Base"}',
    "no period": '{"period_ms": 0}',
    "a period beyond all time": '{"period_ms": 9000000000000000000}',
    "an anchor beyond all time": '{"period_ms": 1000, "anchor_ms": -9000000000000000000}',
    "months without a day": '{"months": 1}',
    "a negative jitter": '{"period_ms": 1000, "jitter_ms": -1}',
    "no runs": '{"period_ms": 1000, "count": 0}',
}


@pytest.mark.parametrize("attempts", [0, 1])
@pytest.mark.parametrize("plan", BROKEN.values(), ids=BROKEN)
def test_a_plan_that_nobody_can_follow_holds_up_no_other(app, box, seen, plan, attempts):
    """Written by hand, by a newer version or with zones that this machine lacks: it doesn't run, and all else does."""
    nd = app()

    @nd.task
    def broken():
        seen.append("broken")
        raise RuntimeError

    @nd.task
    def sound():
        seen.append("sound")

    nd.schedules.put(broken, Every("1h"))
    nd.schedules.put(sound, Every("1h"))
    with nd.caller.use() as store:
        connection = store.database.connection
        connection.execute("UPDATE nextdue_schedule SET plan = ? WHERE name = 'broken'", (plan,))
        connection.execute("UPDATE nextdue_task SET attempts = ? WHERE name = 'broken'", (attempts,))
    box.advance("30m")
    assert seen == ["sound"]
    states = {view.name: view.state for view in nd.schedules.list()}
    assert states == {"broken": "waiting", "sound": "waiting"}
    nd.schedules.put(broken, Every("1h"))  # put anew it goes on
    box.advance("1m")
    assert seen[1:2] == ["broken"]


@pytest.mark.parametrize("attempts", [0, 1])
@pytest.mark.parametrize("slot", [9 * 10**18, -9 * 10**18, -62135596800001])
def test_a_slot_beyond_all_time_holds_up_no_other(app, box, seen, slot, attempts):
    nd = app()
    for name in ("broken", "sound"):
        nd.schedules.put(nd.task(name=name)(lambda name=name: seen.append(name)), Cron("* * * * *"))
    with nd.caller.use() as store:
        store.database.connection.execute(
            "UPDATE nextdue_task SET scheduled_for = ?, attempts = ? WHERE name = 'broken'", (slot, attempts)
        )
    box.advance("2m")
    assert seen == ["sound"] * 2
    assert {view.state for view in nd.schedules.list()} == {"waiting"}


@pytest.mark.parametrize("value", ["'x'", "9223372036854775807", "x'ff00'"])
@pytest.mark.parametrize("column", ["plan", "fired", "missed", "missed_ever", "last"])
def test_a_value_of_another_type_holds_up_no_other(app, box, seen, column, value):
    nd = app()
    for name in ("broken", "sound"):
        nd.schedules.put(nd.task(name=name)(lambda name=name: seen.append(name)), Cron("* * * * *"))
    with nd.caller.use() as store:
        store.database.connection.execute(f"UPDATE nextdue_schedule SET {column} = {value} WHERE name = 'broken'")
    box.advance("2m")
    assert seen.count("sound") == 2
    assert seen.count("broken") == (0 if column == "plan" else 2)
    assert {view.state for view in nd.schedules.list()} == {"waiting"}


def test_a_schedule_goes_on_when_its_zone_is_known_again(app, box, seen):
    nd = app()
    nd.schedules.put(nd.task(name="work")(lambda: seen.append(box.now - NOON)), Cron("0 * * * *"))
    with nd.caller.use() as store:
        change = "UPDATE nextdue_schedule SET plan = replace(plan, ?, ?)"
        store.database.connection.execute(change, ("UTC", "Mars/Base"))
        box.advance("90m")
        assert seen == []
        (view,) = nd.schedules.list()
        assert "there is no time zone 'Mars/Base'" in view.message
        store.database.connection.execute(change, ("Mars/Base", "UTC"))
    box.advance("1m")
    assert len(seen) == 1


def test_an_occurrence_in_doubt_is_decided_before_a_change_begins(app, box, seen):
    """What may have happened isn't forgotten by a deploy."""
    nd = app()

    def send():
        seen.append("sent")
        if len(seen) == 2:
            raise TimeoutError

    def sync(ctx: Context):
        seen.append(ctx.scheduled_for - NOON)
        ctx.step("mail", send, in_doubt="hold")

    deploy(box, nd, lambda nd: nd.cron("0 * * * *", tz="UTC")(sync))
    box.advance("1h")
    (handle,) = nd.find()
    assert (handle.state, handle.view().reason) == ("held", "in_doubt")
    first = seen[0]
    for _ in range(2):
        deploy(box, nd, lambda nd: nd.cron("30 * * * *", tz="UTC")(sync))
    box.advance("3h")
    assert (handle.state, handle.view().reason) == ("held", "in_doubt")
    with nd.caller.use() as store:
        assert marks.resolve(store, handle.id, "mail", happened=True)
    box.drain()
    assert seen == [first, "sent", first, 3.5 * H, "sent"]  # and one that stands for those that were missed
    assert handle.state == "waiting"
    assert handle.due == NOON + 4.5 * H


@pytest.mark.parametrize("comes", [False, True])
@pytest.mark.parametrize("timeout", ["5h", None])
def test_a_pause_during_a_wait_of_an_occurrence_leaves_it_its_wait(app, box, seen, timeout, comes):
    """It begins nothing while it is paused, and goes on with the occurrence that had begun."""
    nd = app()

    @nd.task
    def work(ctx: Context) -> None:
        slot = ctx.scheduled_for - NOON
        try:
            said = ctx.wait_for(f"go {slot / H:g}", timeout)
        except TimeoutError:
            said = "too late"
        seen.append((slot / H, said, (box.now - NOON) / H))

    nd.schedules.put(work, Cron("0 * * * *"), key="k")
    box.advance("90m")
    assert nd.schedules.pause(work, "k")
    if comes:
        nd.send("go 1", "came")
    box.advance("2h")
    assert seen == []
    assert nd.schedules.resume(work, "k")
    box.drain()
    if comes:
        assert seen == [(1, "came", 3.5)]
    else:
        box.advance("3h")
        assert [said for _, said, _ in seen] == ([] if timeout is None else ["too late"])
        nd.send("go 1", "came")
        box.drain()
        assert [(slot, said) for slot, said, _ in seen] == [(1, "came" if timeout is None else "too late")]
    assert [view.state for view in nd.schedules.list()] == ["waiting"]


def test_a_sleep_of_an_occurrence_that_ends_in_a_pause_goes_on_after_it(app, box, seen):
    """What was missed until that had ended is made up for as ever: once."""
    nd = app()

    @nd.task
    def work(ctx: Context) -> None:
        ctx.sleep("a", "30m")
        seen.append(((ctx.scheduled_for - NOON) / H, (box.now - NOON) / H))

    nd.schedules.put(work, Cron("0 * * * *"), key="k")
    box.advance("70m")
    nd.schedules.pause(work, "k")
    box.advance("5h")
    nd.schedules.resume(work, "k")
    box.advance("3h")
    assert seen[0] == (1, pytest.approx(70 / 60 + 5))
    assert [slot for slot, _ in seen] == [1, 6, 7, 8]
