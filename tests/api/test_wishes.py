"""What a second enqueue with the same key changes: on_conflict="replace", "earliest", "extend" and "again"."""

import pytest

from nextdue import Retry
from nextdue.clock import from_ms

MODES = ("replace", "earliest", "extend", "again")


@pytest.fixture
def note(nd):
    """A task that says what it was told, and while it runs puts what its text asks for."""
    seen: list[str] = []
    wishes: list[tuple[str, dict]] = []

    @nd.task(retry=Retry(base=60, jitter=0, limit=2))
    def note(text: str) -> None:
        seen.append(text)
        while wishes:
            words, how = wishes.pop(0)
            note.using(key="k", **how).enqueue(words)
        if text == "fails":
            raise ValueError(text)

    vars(note).update(seen=seen, wishes=wishes)
    return note


def due_in(world, handle) -> float:
    return float(handle.view().due - world.clock.now()) / 1000


@pytest.mark.parametrize(
    ("mode", "first", "second", "expected"),
    [
        ("replace", 60, 600, 600),
        ("replace", 600, 60, 60),
        ("earliest", 60, 600, 60),
        ("earliest", 600, 60, 60),
        ("extend", 60, 600, 600),
        ("extend", 600, 60, 600),
        ("again", 60, 600, 60),
    ],
)
def test_a_waiting_task(world, note, mode, first, second, expected):
    """F110: the newest arguments win, the due goes by the mode; "again" has nothing to add to a run to come."""
    one = note.using(key="k", delay=first).enqueue("old")
    two = note.using(key="k", delay=second, on_conflict=mode).enqueue("new")
    assert (two.id, two.created, two.state) == (one.id, False, "waiting")
    assert due_in(world, one) == pytest.approx(expected, abs=0.001)
    world.advance("1h")
    assert note.seen == ["old" if mode == "again" else "new"]


def test_extending_never_goes_beyond_latest(world, note):
    """A debounce that changes for ever still runs."""
    for second in range(0, 600, 5):
        note.using(key="k", delay="30s", on_conflict="extend", latest="2m").enqueue(str(second))
        world.advance("5s")
    assert note.seen
    assert int(note.seen[0]) in (115, 120)
    assert 4 <= len(note.seen) <= 5


@pytest.mark.parametrize("text", ["well", "fails"])
@pytest.mark.parametrize("mode", MODES)
def test_a_running_task_runs_again_with_the_newest_arguments(world, note, mode, text):
    """F109, F110: a change made during the run is not lost, whatever the outcome of that run."""
    note.wishes += [("one", {"on_conflict": mode}), ("two", {"on_conflict": mode, "delay": "10s"})]
    handle = note.using(key="k").enqueue(text)
    world.advance("5m")
    assert note.seen == [text, "two"]
    assert handle.state == "done"
    assert handle.view().attempts == 0
    outcomes = [run.outcome for run in handle.runs()]
    assert outcomes == ["done", "done" if text == "well" else "failed"]


@pytest.mark.parametrize(("mode", "seconds"), [("replace", 10), ("earliest", 0), ("extend", 10), ("again", 0)])
def test_many_wishes_during_one_run_are_joined(world, note, mode, seconds):
    note.wishes += [("one", {"on_conflict": mode}), ("two", {"on_conflict": mode, "delay": "10s"})]
    handle = note.using(key="k").enqueue("well")
    world.work()
    if seconds:
        assert due_in(world, handle) == pytest.approx(seconds, abs=0.002)
    else:
        assert note.seen == ["well", "two"]


@pytest.mark.parametrize("mode", MODES)
def test_a_done_task_starts_anew(world, note, mode):
    """A tombstone guards against the same task twice; who asks for a change or another run has a reason."""
    one = note.using(key="k").enqueue("old")
    world.work()
    two = note.using(key="k", on_conflict=mode).enqueue("new")
    assert (two.id, two.created, two.state) == (one.id, True, "waiting")
    world.work()
    assert note.seen == ["old", "new"]


@pytest.mark.parametrize("mode", MODES)
def test_a_held_task_waits_for_a_person(world, note, mode):
    handle = note.using(key="k").enqueue("old")
    world.sql("UPDATE nextdue_task SET args = '[1, 2, 3]'")
    world.work()
    two = note.using(key="k", on_conflict=mode).enqueue("new")
    assert (two.created, two.state, handle.view().args) == (False, "held", "[1, 2, 3]")


def test_replacing_forgets_the_failures_of_before(world, note):
    handle = note.using(key="k").enqueue("fails")
    world.work()
    assert handle.view().attempts == 1
    note.using(key="k", on_conflict="replace", queue="other", priority=7).enqueue("new")
    view = handle.view()
    assert (view.attempts, view.queue, view.priority) == (0, "other", 7)
    assert from_ms(view.due) == from_ms(world.clock.now())


@pytest.mark.parametrize("mode", ["replace", "earliest", "extend"])
@pytest.mark.parametrize("guest", [False, True])
def test_other_arguments_never_die_untried(world, nd, note, mode, guest):
    """The crashes of the old ones leave them one try, alone; the same arguments get no further one."""
    handle = note.using(key="k").enqueue("poison")
    world.sql("UPDATE nextdue_task SET crashes = 3, claims = 3")
    if guest:
        with nd.transaction() as tx:
            note.using(key="k", on_conflict=mode, tx=tx).enqueue("new")
    else:
        note.using(key="k", on_conflict=mode).enqueue("new")
    assert world.run(handle) == "done"
    assert note.seen == ["new"]
    handle = note.using(key="k", on_conflict="again").enqueue("poison")
    world.sql("UPDATE nextdue_task SET crashes = 3, claims = 3")
    note.using(key="k", on_conflict=mode).enqueue("poison")
    assert world.run(handle) == "dead"


def test_a_cancelled_running_task_forgets_its_next_life_but_hears_a_later_wish(world, nd):
    seen: list[str] = []

    @nd.task
    def work(text: str) -> None:
        seen.append(text)
        if text == "first":
            work.using(key="k", on_conflict="again").enqueue("off")
            assert not nd.get("work", "k").cancel()
        if text == "second":
            assert not nd.get("work", "k").cancel()
            work.using(key="k", on_conflict="again").enqueue("on")

    handle = work.using(key="k").enqueue("first")
    world.work()
    assert (seen, handle.state) == (["first"], "done")
    work.using(key="k", on_conflict="again").enqueue("second")
    world.work()
    assert seen == ["first", "second", "on"]
