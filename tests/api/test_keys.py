"""A key is unique within its task's name: what a second enqueue answers, for every state of the first."""

import pytest

from nextdue import GiveUp, KeyTaken, Retry


@pytest.fixture
def ways(world, nd):
    """A task that ends as it is told, and what it was told so far."""
    seen: list[str] = []

    @nd.task(retry=Retry(base=60, jitter=0, limit=2))
    def act(how: str) -> None:
        seen.append(how)
        match how:
            case "fail":
                raise ValueError(how)
            case "give up":
                raise GiveUp(how)
            case "again":
                again = act.using(key="k").enqueue("from within")
                seen.append(f"{again.created} {again.state}")

    vars(act)["seen"] = seen
    return act


def first(world, act, state: str):
    """A task with the key `k`, brought into this state."""
    handle = act.using(key="k").enqueue({"dead": "give up", "failing": "fail"}.get(state, "well"))
    if state in ("done", "dead", "failing"):
        world.work()
    elif state == "cancelled":
        assert handle.cancel()
    elif state == "held":
        world.sql("UPDATE nextdue_task SET args = '[1, 2, 3]'")
        world.work()
    elif state == "forgotten":
        world.work()
        world.clock.advance(86_400_000)
    assert handle.state == {"failing": "waiting", "forgotten": "done"}.get(state, state)
    return handle


@pytest.mark.parametrize("state", ["waiting", "failing", "done", "held"])
def test_a_key_in_use_answers_what_exists_and_changes_nothing(world, ways, state):
    """F110, F116."""
    one = first(world, ways, state)
    before = world.sql("SELECT * FROM nextdue_task")
    world.clock.advance(1000)
    two = ways.using(key="k", delay="1h", queue="other", priority=5).enqueue("changed")
    assert (two.created, two.id, two.key, two.state) == (False, one.id, "k", one.state)
    assert world.sql("SELECT * FROM nextdue_task") == before


@pytest.mark.parametrize("state", ["waiting", "failing", "done", "held"])
def test_reject_raises_and_says_who_holds_the_key(world, ways, refuses, state):
    one = first(world, ways, state)
    with refuses(KeyTaken, f"task act: the key 'k' is in use by #{one.id}, which is {one.state}"):
        ways.using(key="k", on_conflict="reject").enqueue("changed")


@pytest.mark.parametrize("state", ["dead", "cancelled", "forgotten"])
@pytest.mark.parametrize("on_conflict", ["ignore", "reject"])
def test_dead_cancelled_and_forgotten_ones_start_a_new_life(world, ways, state, on_conflict):
    first(world, ways, state)
    two = ways.using(key="k", delay="1h", on_conflict=on_conflict, queue="mail", priority=5).enqueue("again!")
    assert (two.created, two.state) == (True, "waiting")
    view = two.view()
    assert (view.attempts, view.crashes, view.args, view.reason, view.message) == (0, 0, '["again!"]', None, None)
    assert (view.due, view.queue, view.priority) == (world.clock.now() + 3_600_001, "mail", 5)
    assert world.count() == 1
    assert world.run(two, "2h") == "done"
    assert ways.seen[-1] == "again!"


def test_a_running_one_answers_running(world, ways):
    ways.using(key="k").enqueue("again")
    world.work()
    assert ways.seen == ["again", "False running"]


def test_a_key_stays_with_its_task_while_it_is_retried(world, ways):
    """F110, F111: it never conflicts with itself, and no lock of its own can outlive it."""
    one = ways.using(key="k").enqueue("fail")
    assert world.run(one) == "waiting"
    assert not ways.using(key="k").enqueue("well").created
    assert world.run(one, "10m") == "dead"
    assert ways.seen == ["fail", "fail"]
    assert [run.key for run in one.runs()] == ["k", "k"]


def test_a_finished_one_holds_its_key_for_as_long_as_it_is_remembered(world, ways):
    """F116."""
    ways.using(key="k", remember="10m").enqueue("well")
    world.work()
    world.clock.advance(599_999)
    assert not ways.using(key="k").enqueue("no").created
    world.clock.advance(1)
    assert ways.using(key="k").enqueue("yes").created
    world.work()
    assert ways.seen == ["well", "yes"]


def test_a_day_is_remembered_by_default(world, ways):
    first(world, ways, "done")
    world.clock.advance(86_399_999)
    assert not ways.using(key="k").enqueue("no").created
    world.clock.advance(1)
    assert ways.using(key="k").enqueue("yes").created


def test_nothing_need_be_remembered(world, ways):
    for _ in range(3):
        assert ways.using(key="k", remember=0).enqueue("well").created
        world.work()
    assert ways.seen == ["well"] * 3


def test_what_is_no_longer_remembered_goes_away(world, ways):
    ways.using(key="k", remember="10m").enqueue("well")
    world.work()
    ways.enqueue("another")
    world.advance("11m")
    assert world.count() == 1
    ways.enqueue("one that settles, and clears up")
    world.work()
    assert world.count() == 0


def test_a_key_is_unique_within_its_name_only(world, nd, ways):
    @nd.task
    def other(): ...

    handles = [ways.using(key="k").enqueue("well"), other.using(key="k").enqueue(), ways.using(key="K").enqueue("well")]
    assert [h.created for h in handles] == [True] * 3
    assert len({h.id for h in handles}) == 3


def test_a_key_is_the_same_in_every_queue(ways):
    assert ways.using(key="k", queue="a").enqueue("well").created
    assert not ways.using(key="k", queue="b").enqueue("well").created


@pytest.mark.parametrize("key", ["k" * 200, "Größe 5/б-й 🎉", "'; DROP TABLE nextdue_task; --", " "])
def test_any_readable_text_is_a_key(world, nd, ways, key):
    one = ways.using(key=key).enqueue("well")
    found = nd.get("act", key)
    assert found is not None
    assert (found.id, found.key) == (one.id, key)
    assert world.run(one) == "done"


def test_a_thousand_times_the_same_key_is_one_row(world, ways):
    """F111."""
    created = [ways.using(key="k").enqueue("well").created for _ in range(1000)]
    assert created == [True] + [False] * 999
    assert world.count() == 1


def test_bad_arguments_do_not_take_the_key(world, ways):
    with pytest.raises(TypeError):
        ways.using(key="k").enqueue(5)
    assert ways.using(key="k").enqueue("well").created
