"""Tasks that wait for others, beside people, groups and the rest."""

import contextlib
import sqlite3

import pytest

from nextdue import Context, Retry
from tests.api.conftest import outcomes, sound
from tests.api.effects.conftest import words

# what people do with one that waits


def test_a_pause_of_one_that_waits(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    first, second = (part.using(after=parent).enqueue(word) for word in "ab")
    assert first.pause()
    assert second.pause()
    assert second.resume()
    assert second.state == "waiting"
    assert second.due is None
    box.advance("2h")
    assert (first.state, second.state) == ("held", "done")
    assert first.resume()
    box.drain()
    assert first.state == "done"


def test_a_paused_one_whose_parent_dies(box, part, seen):
    """Resumed, it doesn't run as if nothing had been."""
    parent = part.enqueue("p", "die")
    held, off = (part.using(after=parent, if_dead=how).enqueue("c") for how in ("hold", "cancel"))
    held.pause()
    off.pause()
    box.drain()
    held.resume()
    off.resume()
    box.advance("1h")
    assert "c" not in words(seen)
    assert (held.state, held.view().reason) == ("held", "parent")
    assert off.state == "cancelled"


def test_a_cancelled_one_is_gone(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("c")
    assert child.cancel()
    box.advance("2h")
    assert (child.state, words(seen)) == ("cancelled", ["p"])


def test_nobody_hurries_one_that_waits(box, part, seen):
    """run_now and retry are for what is due later, or has ended."""
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("c")
    assert child.run_now() is False
    assert child.retry() is False
    box.drain()
    assert seen == []
    box.advance("2h")
    assert child.state == "done"


def test_a_held_one_that_is_retried_runs_at_a_person_s_word(box, nd, part, seen):
    parent = part.enqueue("p", "die")
    child = part.using(after=parent).enqueue("c")
    box.drain()
    assert child.retry()
    box.drain()
    assert (child.state, seen[-1]) == ("done", ("c", [None]))
    part.mended = True
    parent.retry()
    box.drain()
    assert words(seen) == ["p", "c", "p"]


def test_a_retried_one_can_wait_for_an_event_all_the_same(box, nd, part, seen):
    """Nothing of its parent keeps it from being woken."""

    @nd.task
    def child(ctx: Context) -> None:
        seen.append(ctx.wait_for("go"))

    handle = child.using(after=part.enqueue("p", "die")).enqueue()
    box.drain()
    handle.retry()
    box.drain()
    assert handle.state == "waiting"
    nd.send("go", 5)
    box.drain()
    assert (handle.state, seen[-1]) == ("done", 5)


def test_a_parent_that_is_resumed_or_hurried_is_a_parent_as_before(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    part.using(after=parent).enqueue("c")
    parent.pause()
    box.advance("2h")
    assert seen == []
    parent.resume()
    box.drain()
    assert words(seen) == ["p", "c"]
    parent = part.using(delay="1h").enqueue("q")
    part.using(after=parent).enqueue("d")
    parent.run_now()
    box.drain()
    assert words(seen) == ["p", "c", "q", "d"]


def test_it_is_found_and_seen(box, nd, part):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent).enqueue("c")
    assert {handle.id for handle in nd.find(state="waiting")} == {parent.id, child.id}
    with pytest.raises(TimeoutError):
        child.result(timeout=0)


def test_its_end_is_waited_for(box, part):
    child = part.using(after=part.using(delay="1h").enqueue("p")).enqueue("c")
    assert child.result(timeout="2h") == "c"


def test_it_expires_as_others_do(box, part, seen):
    parent = part.using(delay="1h").enqueue("p")
    child = part.using(after=parent, expires="30m").enqueue("c")
    box.advance("2h")
    assert outcomes(child) == ["expired"]
    assert words(seen) == ["p"]


def test_the_attempts_of_a_child_keep_its_results(box, nd, seen, part):
    @nd.task(retry=Retry(base=60, jitter=0))
    def child(ctx: Context) -> None:
        seen.append(ctx.results)
        if ctx.attempt < 3:
            raise OSError

    child.using(after=part.enqueue("p")).enqueue()
    box.advance("1h")
    assert seen[1:] == [["p"]] * 3


# limits, groups, rates


def test_children_in_a_group_keep_its_limit(box, nd, part):
    @nd.task(limit=1)
    def one(ctx: Context) -> None: ...

    box.takes(one, "10m")
    parent = part.using(delay="1h").enqueue("p")
    handles = [one.using(after=parent, group="g").enqueue() for _ in range(3)]
    box.advance("1h5m")
    assert sorted(handle.state for handle in handles) == ["running", "waiting", "waiting"]
    box.advance("1h")
    assert {handle.state for handle in handles} == {"done"}


def test_a_child_that_waits_takes_no_place_of_its_group(box, nd, part, seen):
    @nd.task(limit=1)
    def one(n: int) -> None:
        seen.append(n)

    waits = one.using(after=part.using(delay="1h").enqueue("p"), group="g").enqueue(1)
    one.using(group="g").enqueue(2)
    box.drain()
    assert (seen, waits.state) == ([2], "waiting")
    one.using(group="g").enqueue(3)
    box.advance("2h")
    assert seen == [2, 3, ("p", []), 1]


def test_a_parent_of_a_group(box, nd, part, seen):
    @nd.task(limit=1)
    def one() -> None: ...

    parents = one.using(group="g").enqueue_many([()] * 3)
    part.using(after=parents).enqueue("c")
    box.drain()
    assert words(seen) == ["c"]


# what check() finds


def test_one_that_waits_for_nothing_is_found(box, nd, part, rows):
    parent = part.using(delay=60).enqueue("p")
    child = part.using(after=parent).enqueue("c")
    rows("DELETE FROM nextdue_mark")
    assert sound(nd.path) == [f"task {child.id}: it waits, and for nothing"]
    rows("DELETE FROM nextdue_task WHERE id = ?", child.id)


def test_one_that_waits_for_nobody_is_found(box, nd, part, rows):
    parent = part.using(delay=60).enqueue("p")
    child = part.using(after=parent).enqueue("c")
    rows("UPDATE nextdue_mark SET waits = 99")
    assert sound(nd.path) == [f"task {child.id}: it waits for task 99, which isn't there"]
    rows("DELETE FROM nextdue_task WHERE id = ?", child.id)


# the price for others


@pytest.mark.parametrize("what", ["delete", "dead", "done"])
def test_foreign_waits_cost_a_task_s_end_nothing(box, nd, part, what):
    """The triggers find marks by an index, however many there are of others."""
    parent = part.using(delay="1 day").enqueue("p")
    plain = [part.using(delay="1 day", key=f"{n}").enqueue("q") for n in range(2)]

    def steps(id):
        count = [0]
        with contextlib.closing(sqlite3.connect(nd.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")

            def progress():
                count[0] += 1

            connection.set_progress_handler(progress, 1)
            if what == "delete":
                connection.execute("DELETE FROM nextdue_task WHERE id = ?", (id,))
            else:
                connection.execute(
                    "UPDATE nextdue_task SET due = NULL, rest = ?, gone_at = ? WHERE id = ?",
                    (what, None if what == "dead" else 1 << 42, id),
                )
            connection.set_progress_handler(None, 0)
        return count[0]

    before = steps(plain[0].id)
    part.using(after=parent).enqueue_many([("c",)] * 10_000)
    after = steps(plain[1].id)
    assert after <= before * 1.5, (before, after)
