"""Looking at tasks: what a handle says in every state, finding them again, and taking them back."""

import pytest

from nextdue import BadDefinition, GiveUp, Retry, UnknownTask
from nextdue.clock import from_ms


@pytest.fixture
def act(nd):
    """A task that ends as it is told."""

    @nd.task(retry=Retry(base=60, jitter=0, limit=2, reasons={ValueError: "bad value"}))
    def act(how: str = "well") -> None:
        if how == "fail":
            raise ValueError("no")
        if how == "give up":
            raise GiveUp("enough")
        if how == "look":
            found = nd.find(state="running")[0]
            assert (found.state, found.cancel(), found.state) == ("running", False, "running")
            assert found.due == from_ms(found.view().due)

    return act


def in_state(world, act, state, key="k"):
    using = act.using(key=key) if key else act.using()
    handle = using.enqueue({"dead": "give up"}.get(state, "well"))
    if state in ("done", "dead"):
        world.work()
    if state == "cancelled":
        handle.cancel()
    if state == "held":
        world.sql("UPDATE nextdue_task SET args = '[1, 2, 3]' WHERE id = ?", handle.id)
        world.work()
    return handle


STATES = ("waiting", "done", "dead", "cancelled", "held")


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("state", STATES)
def test_a_handle_says_what_became_of_its_task(world, nd, act, state, key):
    handle = in_state(world, act, state, key)
    assert handle.state == state
    assert (handle.due is None) == (state != "waiting")
    view = handle.view()
    assert (view.id, view.name, view.key, view.state) == (handle.id, "act", key, state)
    found = nd.get(handle.id)
    assert (found.id, found.name, found.key, found.created) == (handle.id, "act", key, False)
    if key:
        assert nd.get("act", key).id == handle.id


def test_a_running_task_shows_the_end_of_its_lease_and_can_not_be_cancelled(world, act):
    handle = act.enqueue("look")
    assert world.run(handle) == "done"


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("state", STATES)
def test_what_waits_is_held_or_dead_can_be_cancelled(world, act, state, key):
    handle = in_state(world, act, state, key)
    before = world.sql("SELECT * FROM nextdue_task")
    stops = state in ("waiting", "held", "dead")
    assert handle.cancel() is (stops or state == "cancelled")
    assert handle.state == ("cancelled" if stops else state)
    if not stops:
        assert world.sql("SELECT * FROM nextdue_task") == before
    assert world.advance("1h") == {}


def test_a_retry_can_be_cancelled(world, act):
    handle = act.enqueue("fail")
    assert world.run(handle) == "waiting"
    assert handle.cancel()
    assert world.advance("1d") == {}
    assert [run.outcome for run in handle.runs()] == ["cancelled", "failed"]


def test_cancelling_says_the_truth_without_a_history_too(world, act):
    nd = world.app(keep_runs=0)
    task = nd.task(name="other")(lambda: None)
    for using in (task.using(), task.using(key="k")):
        assert using.enqueue().cancel() is True
        assert world.advance("1h", nd) == {}


def test_the_history_tells_each_attempt_newest_first(world, act):
    handle = act.enqueue("fail")
    begun = world.clock.now()
    assert world.run(handle, "2m") == "dead"
    last, first = handle.runs()
    assert (first.outcome, first.claim, first.reason) == ("failed", 1, "bad value")
    assert (last.outcome, last.claim, last.reason) == ("dead", 2, "bad value")
    assert {run.scheduled_for for run in (first, last)} == {begun}
    assert (first.ended, last.ended) == (begun, begun + 60_001)
    view = handle.view()
    assert (view.attempts, view.claims, view.reason) == (2, 2, "bad value")
    assert {first.message, last.message, view.message} == {"ValueError: no (test_handles.py:16 in act)"}


def test_without_a_history_a_finished_task_is_gone(world):
    nd = world.app(keep_runs=0)
    handle = nd.task(name="other")(lambda: None).enqueue()
    world.work(nd)
    assert (handle.state, handle.due, handle.runs()) == ("gone", None, [])
    with pytest.raises(UnknownTask, match=r"<other #1> is neither in .*shop.db nor in its run history"):
        handle.view()
    assert nd.get(handle.id) is None


def test_the_history_is_bounded_by_lines_and_by_age(world):
    nd = world.app(keep_runs=3, keep_runs_for="1h")
    task = nd.task(name="other")(lambda: None)
    for _ in range(20):
        task.enqueue()
        world.work(nd)
    assert len(world.sql("SELECT 1 FROM nextdue_runs")) <= 4
    world.clock.advance(3_700_000)
    for _ in range(3):
        task.enqueue()
        world.work(nd)
    oldest = world.sql("SELECT min(ended_ms) FROM nextdue_runs")[0][0]
    assert world.clock.now() - oldest <= 3_600_000


# finding


def test_what_is_not_there_is_none(nd, act):
    act.enqueue()
    for way in ((99,), (0,), (-1,), (2**70,), ("act", "k"), ("other", "k")):
        assert nd.get(*way) is None


@pytest.mark.parametrize("way", [(True,), ("act",), ("act", None), (5, "k"), ("act", 5), (None,), (1.0,), ("", "k")])
def test_what_names_no_task_is_refused(nd, act, way):
    with pytest.raises(BadDefinition, match=r"must|get"):
        nd.get(*way)


def test_tasks_are_found_by_name_queue_and_state_nearest_first(world, nd, act):
    @nd.task(queue="mail")
    def send() -> None: ...

    late = send.using(delay="2h").enqueue()
    soon = send.using(delay="1h").enqueue()
    dead = act.enqueue("give up")
    world.work()
    now = send.enqueue()

    def ids(**which):
        return [h.id for h in nd.find(**which)]

    assert ids() == [now.id, soon.id, late.id, dead.id]
    assert ids(name="send") == [now.id, soon.id, late.id]
    assert ids(queue="mail", limit=2) == [now.id, soon.id]
    assert ids(state="dead") == ids(name="act") == ids(queue="default", state="dead") == [dead.id]
    assert ids(name="send", state="dead") == ids(name="nobody") == ids(queue="nowhere") == []


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ({"state": "finished"}, "there is no state 'finished'; the states are waiting, running, done, dead, cancelled"),
        ({"limit": 0}, "limit must be a whole number from 1, or None, not 0"),
        ({"limit": -1}, "limit must be"),
        ({"limit": "all"}, "limit must be"),
        ({"limit": 2**70}, "limit must be"),
        ({"name": ""}, "a task's name must have"),
        ({"name": "\ud800"}, "lone surrogates"),
        ({"queue": 5}, "a queue's name must be a str"),
    ],
)
def test_what_can_not_be_looked_for_is_refused(nd, which, words):
    with pytest.raises(BadDefinition, match=words):
        nd.find(**which)


def test_a_handle_of_another_program_sees_the_same(world, nd, act):
    handle = act.using(key="k").enqueue()
    other = world.app()
    assert other.get("act", "k").cancel()
    assert handle.state == "cancelled"


def test_closing_loses_nothing_and_the_next_use_opens_again(nd, act):
    handle = act.using(delay="1h").enqueue()
    nd.close()
    nd.close()
    assert handle.state == "waiting"
    assert act.enqueue().id == handle.id + 1


def test_two_handles_of_one_task_are_equal(nd, act):
    handle, other = act.enqueue(), act.enqueue()
    assert nd.get(handle.id) == handle
    assert handle != other
    assert handle != handle.id
    assert len({handle, nd.get(handle.id), other}) == 2


def test_an_application_shows_its_file(nd):
    assert repr(nd) == f"<Nextdue {nd.path}>"
