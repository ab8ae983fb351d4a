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
