"""What the test kit refuses, and what it says."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from nextdue import BadDefinition, BadTime, Nextdue, Retry
from nextdue.testing import NeverEnds, Sandbox
from tests.kit.conftest import NOON

NAIVE = datetime(2030, 6, 1, 13)  # noqa: DTZ001


def test_time_only_goes_forward(box):
    with pytest.raises(BadTime, match="must not be negative"):
        box.advance(timedelta(hours=-1))
    with pytest.raises(BadTime, match="time only goes forward; step_clock"):
        box.at(NOON - timedelta(seconds=1))
    assert box.now == NOON


def test_an_instant_has_a_zone(box, nextdue):
    with pytest.raises(BadTime, match="is naive"):
        box.at(NAIVE)
    with pytest.raises(BadTime, match="is naive"):
        Sandbox(box.folder).use(Nextdue("/nowhere/b.db"), at=NAIVE)


@pytest.mark.parametrize("step", [3600, "1h", None])
def test_a_step_is_a_timedelta(box, step):
    with pytest.raises(BadTime, match="step_clock takes a timedelta"):
        box.step_clock(step)


def test_a_step_stays_within_the_years(box):
    with pytest.raises(BadTime, match=r"leads out of 1970 \.\. 9999"):
        box.step_clock(timedelta(days=-365 * 100))


def test_time_ends_with_the_year_9999(box):
    box.advance(timedelta(days=365 * 20_000))
    assert box.now == datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)


def test_an_unknown_point_is_answered_with_those_there_are(box):
    with pytest.raises(BadDefinition, match="no point 'setle'") as caught:
        box.crash_at("setle")
    for name in ("claim", "renew", "settle", "commit", "enqueue", "replaced"):
        assert f"  {name} " in str(caught.value)


@pytest.mark.parametrize("nth", [0, -1, 1.0, True])
def test_nth_is_a_whole_number(box, nth):
    with pytest.raises(BadDefinition, match="nth must be a whole number from 1"):
        box.crash_at("claim", nth=nth)


def test_a_task_is_a_task_or_its_name(box):
    with pytest.raises(BadDefinition, match="a task or its name"):
        box.crash_at("claim", print)
    with pytest.raises(BadDefinition, match="a task or its name"):
        box.takes(3, "1h")


def test_a_task_that_is_not_there_is_answered_with_those_there_are(box, nd, nextdue):
    for name in ("mail", "export"):
        nd.task(name=name)(lambda: None)
    said = "no application in this sandbox has a task 'mial'; there are export, mail$"
    with pytest.raises(BadDefinition, match=said):
        box.crash_at("claim", "mial")
    with pytest.raises(BadDefinition, match=said):
        box.takes("mial", "1h")
    with pytest.raises(BadDefinition, match="has a task 'other'"):
        box.takes(Nextdue("/nowhere/other.db").task(name="other")(lambda: None), "1h")
    box.takes("mail", "1h")


def test_without_an_application_nothing_can_be_run(nextdue):
    for call in (nextdue.drain, lambda: nextdue.advance("1h"), lambda: nextdue.step_clock(timedelta(0))):
        with pytest.raises(BadDefinition, match=r"say use\(nd\) first"):
            call()


def test_only_applications_can_be_used(nextdue):
    with pytest.raises(BadDefinition, match=r"as in use\(shop.nd\)"):
        nextdue.use("shop.db")


def test_the_clock_is_set_before_anything_happens(box):
    with pytest.raises(BadDefinition, match="give it with the first use"):
        box.use(Nextdue("/nowhere/b.db"), at=NOON)


@pytest.mark.parametrize("limit", [0, "3", True])
def test_a_limit_is_a_whole_number(box, limit):
    with pytest.raises(BadDefinition, match="limit must be"):
        box.drain(limit=limit)


def test_a_task_that_enqueues_itself_for_ever_is_named(box, nd):
    @nd.task
    def again() -> None:
        again.enqueue()

    again.enqueue()
    with pytest.raises(NeverEnds, match=r"after 50 runs there was still something to do \(again 51 times\)"):
        box.drain(limit=50)


def test_a_task_that_fails_for_ever_is_named(box, nd):
    @nd.task(retry=Retry(base=1, cap=1, limit=None))
    def fails() -> None:
        raise ValueError

    fails.enqueue()
    with pytest.raises(NeverEnds, match="give limit="):
        box.advance("1h", limit=20)


def test_just_as_many_runs_as_allowed_are_not_too_many(box, nd, seen):
    mark = nd.task(name="mark")(lambda: seen.append(1))
    mark.enqueue_many([()] * 5)
    assert box.drain(limit=5) == {"done": 5}


def spin() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(1000)


def wait() -> None:
    threading.Event().wait()


def catch() -> None:
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            return


@pytest.mark.parametrize("body", [spin, sleep, wait, catch])
def test_a_task_that_hangs_is_ended_and_named(box, nd, seen, body):
    hang, mark = nd.task(body), nd.task(name="mark")(lambda: seen.append(1))
    hang.enqueue()
    box.patience = 0.2
    begun = time.monotonic()
    with pytest.raises(NeverEnds, match=rf"{body.__name__} #1 ran for over 0.2 s of real time"):
        box.drain()
    assert time.monotonic() - begun < 10
    mark.using(priority=100).enqueue()
    assert box.drain() == {"crashed": 1, "done": 1}


def test_a_task_that_hangs_in_another_thread_is_ended_too(box, nd):
    nd.task(spin).enqueue()
    box.patience = 0.2
    caught: list[BaseException] = []

    def work() -> None:
        try:
            box.drain()
        except NeverEnds as exc:
            caught.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert len(caught) == 1


def test_a_task_can_not_move_the_clock_that_it_runs_by(box, nd):
    said: list[str] = []

    @nd.task
    def meddle() -> None:
        for move in (box.drain, lambda: box.advance("1h"), lambda: box.step_clock(timedelta(hours=1))):
            try:
                move()
            except BadDefinition as exc:
                said.append(str(exc))

    meddle.enqueue()
    assert box.drain() == {"done": 1}
    assert len(said) == 3
    assert all("takes() says how long it runs" in text for text in said)


def test_ctrl_c_in_the_middle_of_a_task_is_the_task_s_failure_and_no_hang(box, nd):
    @nd.task
    def interrupted() -> None:
        raise KeyboardInterrupt

    interrupted.enqueue()
    assert box.drain() == {"failed": 1}
