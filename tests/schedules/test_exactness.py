"""Counts, ends and passes are exact, whatever happens while an occurrence runs. Each was found by the simulation."""

from datetime import timedelta

from nextdue import Cron, Every, Snooze
from nextdue.sqlite.inspect import check
from tests.schedules.conftest import NOON
from tests.schedules.test_changing import deploy, rows

H, M = timedelta(hours=1), timedelta(minutes=1)


def only(nd):
    (view,) = nd.schedules.list()
    return view


def test_the_last_of_a_count_is_counted(app, box, seen):
    nd = app()
    nd.cron("0 * * * *", name="work", count=2)(lambda: seen.append(1))
    box.advance("5h")
    assert (len(seen), only(nd).state, only(nd).fired) == (2, "ended", 2)
    assert only(nd).last / 1000 == (NOON + 2 * H).timestamp()


def test_f009_ones_that_are_skipped_twice_are_added_up(app, box, seen):
    """F009: two jumps of the clock: the next run knows of all that were missed since the last one."""
    nd = app()
    nd.cron("0 * * * *", missed="skip", name="work")(lambda ctx: seen.append(ctx.missed))
    box.drain()
    for _ in range(2):
        box.step_clock(3 * H + 30 * M)
        box.drain()
    box.advance("1h")
    assert seen == [only(nd).missed_ever] == [7]
    with nd.caller.use() as store:
        assert check(store.database) == []


def test_its_own_jitter_makes_no_occurrence_too_late(app, box, seen):
    nd = app()
    nd.cron("0 * * * *", missed="skip", jitter="30m", name="a")(lambda: seen.append(1))
    nd.cron("0 * * * *", missed_window="1m", jitter="30m", name="b")(lambda: seen.append(1))
    box.advance("10h 45m")
    assert len(seen) == 20


def test_a_snoozed_occurrence_isnt_passed_over(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *", missed="skip")
    def work(ctx):
        seen.append(ctx.scheduled_for - NOON)
        if len(seen) == 1:
            raise Snooze("10m")

    box.advance("1h 30m")
    assert seen == [H, H]
    assert (only(nd).fired, only(nd).missed_ever) == (1, 0)


def test_a_removed_schedule_isnt_tried_again(app, box, seen):
    nd = app()

    @nd.task
    def work():
        seen.append(1)
        nd.schedules.remove(work, "k")
        raise ValueError("no")

    nd.schedules.put(work, Cron("0 * * * *"), key="k")
    box.advance("5h")
    assert (seen, rows(nd)) == ([1], [])


def test_a_change_while_it_runs_begins_its_count_anew(app, box, seen):
    nd = app()

    @nd.task
    def work(word: str):
        seen.append(word)
        if word == "old":
            nd.schedules.put(work, Every("30m", anchor=NOON), key="k", args=("new",), count=2, jitter="2h")

    nd.schedules.put(work, Cron("0 * * * *"), key="k", args=("old",))
    box.advance("12h")
    assert seen == ["old", "new", "new"]
    assert (only(nd).state, only(nd).fired) == ("ended", 2)


def test_a_schedule_that_became_one_without_occurrences_is_over(app, box, seen):
    nd = app()

    @nd.task
    def work():
        seen.append(1)
        nd.schedules.put(work, Cron("0 * * * *"), key="k", ending=NOON)

    nd.schedules.put(work, Cron("0 * * * *"), key="k")
    box.advance("3h")
    assert (seen, only(nd).state) == ([1], "ended")


def test_what_ended_by_its_count_doesnt_come_back_with_its_code(app, box, seen):
    nd = app()

    def work():
        seen.append(1)

    deploy(box, nd, lambda nd: nd.cron("0 * * * *", count=1)(work))
    box.advance("3h")
    deploy(box, nd, lambda nd: nd.task(name="other")(lambda: None))
    deploy(box, nd, lambda nd: nd.cron("0 * * * *", count=1)(work))
    box.advance("3h")
    assert (seen, only(nd).state) == ([1], "ended")


def test_resuming_doesnt_bring_back_what_no_code_declares(app, box, seen):
    nd = app()

    def work():
        seen.append(1)

    deploy(box, nd, lambda nd: nd.cron("0 * * * *")(work))
    assert nd.schedules.pause("work")
    deploy(box, nd, lambda nd: nd.task(name="work")(work))
    nd.schedules.resume("work")
    box.advance("3h")
    assert (seen, only(nd).state) == ([], "orphaned")


def test_a_resumed_schedule_begins_without_the_failures_of_before(app, box, seen):
    nd = app()

    @nd.cron("0 * * * *")
    def work(ctx):
        seen.append(ctx.attempt)
        if len(seen) == 1:
            raise ValueError("no")

    box.advance("1h")
    assert nd.schedules.pause(work)
    assert nd.schedules.resume(work)
    box.advance("1h")
    assert seen == [1, 1]


def test_no_period_goes_on_after_its_ending(app, box, seen):
    nd = app()
    nd.every("1h", ending=NOON + 2 * H, name="work")(lambda: seen.append(box.now - NOON))
    box.takes("work", "30m")
    box.advance("10h")
    assert seen == [timedelta(0), 1.5 * H + timedelta(milliseconds=1)] or len(seen) == 2
    assert only(nd).state == "ended"


def test_a_stop_of_what_runs_forgets_no_change(app, box, seen):
    nd = app()

    @nd.task
    def work(ctx, word: str):
        seen.append(word)
        if word == "old":
            nd.schedules.put(work, Cron("0 * * * *"), key="k", args=("new",))
            nd.get("work", "@k").cancel()
            ctx.progress(1)

    nd.schedules.put(work, Cron("0 * * * *"), key="k", args=("old",))
    box.advance("2h")
    assert seen == ["old", "new"]
