"""Tasks that come after others which will never be done: held, cancelled, or let go on after all."""

import pytest

from nextdue import Retry
from tests.api.conftest import outcomes, sound
from tests.api.effects.conftest import words

# parents that never will be done


@pytest.fixture
def kill(box, part):
    """Lets a task end otherwise than done, in each way that there is."""

    def kill(how, key=None):
        options = {"key": key} if key else {}
        if how == "expired":
            parent = part.using(delay="1h", expires="30m", **options).enqueue("p")
            return parent, lambda: box.advance("2h")
        parent = part.using(delay="1h", **options).enqueue("p", "die")
        if how == "cancelled":
            return parent, lambda: (parent.cancel(), box.drain())
        return parent, lambda: box.advance("2h")

    return kill


ENDS = ["dead", "cancelled", "expired"]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("early", [True, False])
def test_a_child_of_one_that_ended_badly_is_held(box, part, seen, kill, how, key, early):
    parent, ends = kill(how, key)
    if not early:
        ends()
    child = part.using(after=parent).enqueue("child")
    if early:
        ends()
    box.advance("1 day")
    assert (child.state, child.view().reason) == ("held", "parent")
    assert child.view().message.startswith(f"task #{parent.id}, which it comes after, is ")
    assert "child" not in words(seen)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("early", [True, False])
def test_or_cancelled_with_all_that_comes_after_it(box, part, seen, kill, how, key, early):
    parent, ends = kill(how, key)
    if not early:
        ends()
    children = [part.using(after=parent, if_dead="cancel", key=key and "c").enqueue("child")]
    for _ in range(3):
        children.append(part.using(after=children[-1], if_dead="cancel").enqueue("child"))
    kept = part.using(after=children[-1]).enqueue("child")
    if early:
        ends()
    box.advance("1 day")
    assert [child.state for child in children] == ["cancelled"] * 4
    assert [outcomes(child) for child in children] == [["cancelled"]] * 4
    assert kept.state == "held"
    assert "child" not in words(seen)


def test_why_it_was_cancelled_is_in_the_history(box, part, kill):
    parent, ends = kill("dead")
    child = part.using(after=parent, if_dead="cancel").enqueue("child")
    ends()
    box.advance("1h")
    (run,) = child.runs()
    assert (run.reason, run.message) == ("parent", f"task #{parent.id}, which it comes after, is dead")


@pytest.mark.parametrize("times", [1, 2])
def test_a_parent_that_is_retried_and_done_lets_it_go_on(box, part, seen, times):
    parents = [part.enqueue(f"{n}", "die") for n in range(times)]
    child = part.using(after=parents).enqueue("child")
    box.drain()
    assert child.state == "held"
    part.mended = True
    for n, parent in enumerate(parents):
        assert child.state == "held"
        parent.retry()
        box.drain()
        assert parent.state == "done", n
    assert child.state == "done"
    assert seen[-1] == ("child", [f"{n}" for n in range(times)])


def test_a_parent_that_dies_again_leaves_it_held(box, part):
    parent = part.enqueue("p", "die")
    child = part.using(after=parent).enqueue("child")
    for _ in range(3):
        box.drain()
        assert (parent.state, child.state) == ("dead", "held")
        parent.retry()


def test_one_bad_parent_of_many(box, part, seen):
    good, bad = part.using(delay="1h").enqueue("good"), part.enqueue("bad", "die")
    held = part.using(after=[good, bad]).enqueue("held")
    off = part.using(after=[good, bad], if_dead="cancel").enqueue("off")
    box.drain()
    assert (held.state, off.state) == ("held", "cancelled")
    box.advance("2h")
    assert (held.state, off.state) == ("held", "cancelled")
    part.mended = True
    bad.retry()
    box.drain()
    assert (held.state, seen[-1]) == ("done", ("held", ["good", "bad"]))


def test_the_death_that_a_worker_s_crashes_bring_counts_too(box, part, seen):
    parent = part.enqueue("p")
    child = part.using(after=parent).enqueue("child")
    for _ in range(3):
        box.crash_at("settle", part)
    box.advance("1h")
    assert (parent.state, child.state) == ("dead", "held")


def test_a_dead_parent_may_be_purged(box, nd, part, seen, rows):
    parent = part.enqueue("p", "die")
    child = part.using(after=parent).enqueue("child")
    box.drain()
    rows("DELETE FROM nextdue_task WHERE id = ?", parent.id)
    assert child.state == "held"
    assert sound(nd.path) == []
    child.retry()  # a person's word
    box.drain()
    assert (child.state, seen[-1]) == ("done", ("child", [None]))


def test_a_waiting_parent_that_is_deleted_by_hand(box, nd, part, rows):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("child")
    rows("DELETE FROM nextdue_task WHERE id = ?", parent.id)
    assert child.state == "held"


@pytest.mark.parametrize("if_dead", ["hold", "cancel"])
def test_a_parent_that_was_deleted_between_two_attempts(box, nd, part, rows, if_dead):
    """Its history ends with a failure, and nothing will follow on that."""

    @nd.task(retry=Retry(base=60, jitter=0))
    def fails() -> None:
        raise OSError

    parent = fails.enqueue()
    box.drain()
    rows("DELETE FROM nextdue_task WHERE id = ?", parent.id)
    child = part.using(after=parent, if_dead=if_dead).enqueue("c")
    box.drain()
    assert child.state == {"hold": "held", "cancel": "cancelled"}[if_dead]
