"""Tasks that come after others: they rest until all of those are done, and say so when one never will be."""

from typing import Any

import pytest

from nextdue import Context
from tests.api.conftest import outcomes
from tests.api.effects.conftest import words

# chains and fans


def test_a_chain_runs_in_its_order(box, part, seen):
    last = part.using(delay="1h").enqueue("0")
    for n in range(1, 20):
        last = part.using(after=last).enqueue(f"{n}")
    box.drain()
    assert seen == []
    assert last.state == "waiting"
    assert last.due is None
    box.advance("1h")
    assert words(seen) == [f"{n}" for n in range(20)]
    assert seen[-1] == ("19", ["18"])


def test_a_fan_in_gets_the_results_in_the_order_of_after(box, part, seen):
    parents = [part.using(delay=10 - n).enqueue(str(n)) for n in range(10)]
    child = part.using(after=[*reversed(parents), parents[3]]).enqueue("child")
    box.advance("5s")
    assert child.state == "waiting"
    box.advance("10s")
    assert seen[-1] == ("child", [str(n) for n in reversed(range(10))])
    assert outcomes(child) == ["done"]


def test_a_fan_out(box, part, seen, nd):
    parent = part.using(delay=60).enqueue("parent")
    children = part.using(after=parent).enqueue_many([(f"{n}",) for n in range(100)])
    box.drain()
    assert {child.state for child in children} == {"waiting"}
    box.advance("2m")
    assert {child.state for child in children} == {"done"}
    assert seen[1:] == [(f"{n}", ["parent"]) for n in range(100)]
    assert part.using(after=parent).enqueue_many([]) == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_parents_that_are_done_before(box, part, seen, when):
    parent = part.enqueue("parent")
    keyed = part.using(key="k").enqueue("keyed")
    box.drain()
    child = part.using(after=[keyed, parent], delay=60).enqueue("child")
    box.drain()
    assert child.state == "waiting"
    assert child.due is not None
    box.advance("2m")
    assert seen[-1] == ("child", ["keyed", "parent"])


def test_its_delay_counts_from_the_put_and_is_kept(box, part, seen):
    parent = part.using(delay="1h").enqueue("parent")
    early = part.using(after=parent, delay="1m").enqueue("early")
    late = part.using(after=parent, delay="2h").enqueue("late")
    box.advance("61m")
    assert (early.state, late.state) == ("done", "waiting")
    box.advance("1h")
    assert late.state == "done"


def test_parents_that_keep_no_result_and_types(box, nd, part, seen):
    bare = nd.task(name="bare")(lambda: 5).enqueue()
    rich = nd.task(name="rich", keep_result=True)(lambda: {"a": [1, None]}).enqueue()
    part.using(after=[bare, rich]).enqueue("child")
    box.drain()
    assert seen == [("child", [None, {"a": [1, None]}])]


def test_a_parent_that_settles_itself(box, nd, part, seen):
    @nd.task(keep_result=True)
    def parent(ctx: Context) -> Any:
        with ctx.finish(result=5):
            pass

    first = parent.enqueue()
    part.using(after=first).enqueue("child")
    box.drain()
    assert seen == [("child", [5])]


def test_a_parent_with_a_next_life(box, nd, part, seen):
    """Done once is done; its next life is another matter."""

    @nd.task(keep_result=True)
    def parent(n: int) -> int:
        if n == 1:
            parent.using(key="p", on_conflict="again", delay="1h").enqueue(2)
        return n

    first = parent.using(key="p").enqueue(1)
    child = part.using(after=first).enqueue("child")
    box.drain()
    assert (child.state, seen) == ("done", [("child", [1])])
    assert first.state == "waiting"
    second = part.using(after=first).enqueue("second")
    box.drain()
    assert second.state == "waiting"
    box.advance("2h")
    assert seen[1:] == [("second", [2])]


def test_a_parent_that_comes_again_by_itself(box, nd, part, seen):
    @nd.task
    def parent(ctx: Context) -> None:
        with ctx.finish(again="1h"):
            pass

    part.using(after=parent.enqueue()).enqueue("child")
    box.drain()
    assert words(seen) == ["child"]


def test_a_schedule_s_task_as_a_parent(box, nd, part, seen):
    @nd.every("1h")
    def hourly() -> None:
        if not seen:
            seen.append("hourly")

    box.drain()
    (row,) = nd.find(name="hourly")
    child = part.using(after=row).enqueue("child")
    box.drain()
    assert child.state in ("waiting", "done")
    box.advance("2h")
    assert child.state == "done"
