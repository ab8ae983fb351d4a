"""Running tasks: what they are given, what they may raise, and what becomes of them."""

import asyncio
import itertools
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

import nextdue  # noqa: F401 (an annotation names it)
from nextdue import BadArguments, Context, GiveUp, Retry, RetryAfter, Snooze
from nextdue.clock import from_ms
from tests.rules.test_task import Nameless, NoText, Raises, TwoArguments

MINUTE = 60_000


@pytest.fixture
def failing(world, nd):
    """Make a task that raises `exc`, enqueue it; (handle, the milliseconds after the start at which it ran)."""

    def make(exc, **retry):
        ran: list[int] = []
        begun = world.clock.now()

        @nd.task(name=f"task {len(nd.tasks)}", retry=Retry(**{"jitter": 0, **retry}))
        def task():
            ran.append(world.clock.now() - begun)
            raise exc

        return task.enqueue(), ran

    return make


# a plain call


def test_a_plain_call_just_runs_the_function(world, nd):
    @nd.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert (add(1), add(1, b=5)) == (3, 6)
    assert not world.path.exists()


def test_a_plain_call_of_a_coroutine_answers_the_coroutine(world, nd):
    @nd.task
    async def add(ctx: Context, a: int, b: int = 2) -> tuple[int, int]:
        return a + b, ctx.attempt

    async def main():
        return await add(1)

    assert (asyncio.run(main()), asyncio.run(add(1, b=5))) == ((3, 1), (6, 1))
    assert not world.path.exists()


def test_coroutines_run_snooze_fail_and_keep_results_like_functions(world, nd):
    @nd.task(keep_result=True, retry=Retry(base=60, jitter=0, limit=2))
    async def task(ctx: Context, what: str) -> str:
        await asyncio.sleep(0)
        match what:
            case "snooze":
                raise Snooze("5m")
            case "fail":
                raise ValueError("no luck")
        return what

    done, later, bad = task.enqueue("good"), task.enqueue("snooze"), task.enqueue("fail")
    world.work()
    assert [(r.outcome, r.result) for r in done.runs()] == [("done", '"good"')]
    due = from_ms(world.clock.now() + 5 * MINUTE + 1)
    assert (later.state, later.view().attempts, later.due) == ("waiting", 0, due)
    assert (bad.view().reason, bad.view().attempts) == ("ValueError", 1)
    assert world.run(bad, 61) == "dead"


def test_a_plain_call_needs_no_context(nd):
    @nd.task
    def attempt(ctx: Context, n: int) -> tuple[int, int, bool, str, object]:
        return n, ctx.attempt, ctx.lost(), ctx.name, ctx.key

    assert attempt(5) == (5, 1, False, "attempt", None)


def test_a_plain_call_raises_what_the_function_raises(nd):
    @nd.task
    def task():
        raise Snooze(5)

    with pytest.raises(Snooze):
        task()


@pytest.mark.parametrize("annotation", [None, Context, "Context", "nextdue.Context"])
def test_the_context_is_the_first_argument_called_ctx_or_annotated_so(world, nd, annotation):
    seen = []

    def named(ctx, n: int) -> None:
        seen.append((type(ctx), n))

    def annotated(c, n: int) -> None:
        seen.append((type(c), n))

    annotated.__annotations__["c"] = annotation
    nd.task(annotated if annotation else named).enqueue(5)
    world.work()
    assert seen == [(Context, 5)]


def test_arguments_come_back_as_their_annotations_say(world, nd):
    seen = []

    @nd.task
    def task(price: Decimal, at: datetime, tags: set[str], *, note: str | None = None) -> None:
        seen.append((price, at, tags, note))

    at = datetime(2026, 12, 1, 12, tzinfo=UTC)
    task.enqueue(Decimal("1.10"), at, {"a"})
    task.enqueue(Decimal("1.10"), at, {"a"}, note="n")
    world.work()
    assert seen == [(Decimal("1.10"), at, {"a"}, None), (Decimal("1.10"), at, {"a"}, "n")]


def test_what_a_task_knows_of_itself(world, nd):
    seen = []

    @nd.task(retry=Retry(base=60, jitter=0))
    def task(ctx: Context) -> None:
        seen.append((ctx.id, ctx.name, ctx.key, ctx.attempt, ctx.crashes, ctx.scheduled_for, ctx.lost()))
        if len(seen) == 1:
            raise Snooze("1h")
        if len(seen) < 4:
            raise ValueError

    handle = task.using(delay="1m", key="k").enqueue()
    due = from_ms(world.clock.now() + MINUTE + 1)
    assert world.run(handle, "3h") == "done"
    same = (handle.id, "task", "k")
    assert seen == [(*same, attempt, 0, due, False) for attempt in (1, 1, 2, 3)]


# ways to end


def test_failures_come_again_ever_later_until_the_limit(world, failing):
    handle, ran = failing(ValueError("no"), base=60, cap=200, limit=5)
    assert world.run(handle, "1d") == "dead"
    waits = [b - a for a, b in itertools.pairwise(ran)]
    assert waits == [MINUTE + 1, 2 * MINUTE + 1, 200_001, 200_001]
    assert [run.outcome for run in handle.runs()] == ["dead"] + ["failed"] * 4
    assert handle.view().attempts == 5


def test_without_a_limit_a_task_never_dies(world, failing):
    handle, ran = failing(ValueError("no"), base=60, cap=3600, limit=None)
    assert world.run(handle, "10d") == "waiting"
    assert len(ran) > 200


def test_twelve_attempts_are_the_default(world, failing):
    handle, ran = failing(ValueError("no"))
    assert world.run(handle, "2d") == "dead"
    assert len(ran) == 12


def test_a_snooze_is_no_attempt(world, failing):
    handle, ran = failing(Snooze("10m"), limit=1)
    assert world.run(handle, "3h") == "waiting"
    assert ran[:3] == [0, 600_001, 1_200_002]
    view = handle.view()
    assert (view.attempts, view.claims, view.reason) == (0, len(ran), None)
    assert {run.outcome for run in handle.runs()} == {"snoozed"}


def test_retry_after_is_an_attempt_with_a_wait_of_its_own(world, failing):
    handle, ran = failing(RetryAfter(7, "HTTP 429"), limit=3)
    assert world.run(handle, "1h") == "dead"
    assert ran == [0, 7001, 14_002]
    assert handle.view().attempts == 3
    assert str(handle.view().message).startswith("RetryAfter: HTTP 429 (test_running.py:")


@pytest.mark.parametrize(
    ("exc", "retry"),
    [
        (GiveUp("enough"), {}),
        (PermissionError("enough"), {"give_up": (PermissionError,)}),
        (PermissionError("enough"), {"give_up": [OSError]}),
        (GiveUp("enough"), {"limit": None}),
    ],
)
def test_giving_up_is_final_at_once(world, failing, exc, retry):
    handle, ran = failing(exc, **retry)
    assert world.run(handle, "1d") == "dead"
    assert ran == [0]
    assert handle.view().attempts == 1
    assert str(handle.view().message).startswith(f"{type(exc).__name__}: enough (test_running.py:")


def test_reasons_are_the_words_by_which_failures_are_counted(world, failing):
    handles = [
        failing(exc, limit=1, reasons={TimeoutError: "timeout", OSError: "io"})[0]
        for exc in (TimeoutError(), ConnectionResetError(), KeyError("k"), GiveUp("x"))
    ]
    world.work()
    assert [h.view().reason for h in handles] == ["timeout", "io", "KeyError", "GiveUp"]
    assert world.sql("SELECT reason, count(*) FROM nextdue_runs GROUP BY 1 ORDER BY 1") == [
        ("GiveUp", 1),
        ("KeyError", 1),
        ("io", 1),
        ("timeout", 1),
    ]


class Later(Snooze):
    def __init__(self) -> None:
        pass


class Busy(RetryAfter):
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    "exc",
    [
        SystemExit(0),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        BaseException("odd"),
        Exception("\ud800"),
        Exception("a\x00b"),
        Exception(b"\xff"),
        TwoArguments("a", object()),
        Raises(RuntimeError("x")),
        Raises(KeyboardInterrupt()),
        NoText(),
        Nameless("x"),
        Busy(),
        ExceptionGroup("many", [ValueError("\ud800")]),
        type("E" * 10_000, (Exception,), {})("x" * 1_000_000),
    ],
    ids=lambda exc: type.__dict__["__name__"].__get__(type(exc))[:20],
)
def test_whatever_a_task_raises_is_recorded_and_comes_again(world, failing, exc):
    """F076, F083, F084: and the tasks beside it are untouched."""
    handle, ran = failing(exc, base=60, limit=2)
    other, _ = failing(Snooze("1h"))
    assert world.run(handle) == "waiting"
    assert (handle.view().attempts, handle.due) == (1, from_ms(world.clock.now() + MINUTE + 1))
    assert other.state == "waiting"
    assert world.run(handle, "2m") == "dead"
    assert len(ran) == 2
    assert 0 < len(str(handle.view().message)) < 10_000


def test_a_snooze_that_forgot_its_delay_waits_a_minute(world, failing):
    handle, ran = failing(Later())
    world.advance("150s")
    assert ran == [0, MINUTE + 1, 2 * MINUTE + 2]
    assert handle.view().attempts == 0


# results


@pytest.mark.parametrize(("keep", "kept"), [(False, None), (True, {"a": [1, 2.5, None]})])
def test_a_result_is_kept_in_the_history_if_wanted(world, nd, keep, kept):
    @nd.task(keep_result=keep)
    def task():
        return {"a": [1, 2.5, None]}

    handle = task.enqueue()
    world.work()
    result = handle.runs()[0].result
    assert (None if result is None else json.loads(result)) == kept


def test_a_result_that_can_not_be_kept_is_said_so_but_repeats_no_effect(world, nd):
    @nd.task(keep_result=True, retry=Retry(limit=1))
    def task():
        return object()

    handle = task.enqueue()
    assert world.run(handle) == "done"
    assert "the result can't be written as JSON" in str(handle.runs()[0].message)


def test_a_result_nobody_wants_may_be_anything(world, nd):
    @nd.task
    def task():
        return object()

    assert world.run(task.enqueue()) == "done"


# what no longer fits


def test_arguments_that_no_longer_fit_are_held_with_a_reason_and_nothing_is_lost(world):
    """F088, F091."""
    old = world.app()
    old.task(name="task")(lambda a, b: None).enqueue(1, "two")
    ran = []
    world.nd.task(name="task")(lambda a: ran.extend([a]))
    assert world.work() == {"held": 1}
    handle = world.nd.find()[0]
    view = handle.view()
    assert (view.state, view.args, view.attempts, view.reason) == ("held", '[1,"two"]', 0, "arguments")
    assert "2 arguments given, it takes (a)" in str(view.message)
    assert world.advance("30d") == {}
    assert (ran, handle.state) == ([], "held")


def test_a_task_nobody_knows_waits_and_nobody_spins(world):
    """F092, F129."""
    new = world.app()
    ran = []
    handle = new.task(name="only new")(lambda: ran.append(1)).enqueue()
    world.nd.task(name="known")(lambda: None)
    assert world.advance("30d") == {}
    assert handle.state == "waiting"
    assert world.advance("1s", new) == {"done": 1}
    assert ran == [1]


def test_annotations_that_can_not_be_used_hold_the_task(world):
    old = world.app()
    handle = old.task(name="task")(lambda x: None).enqueue("a")

    def broken(x: "Nowhere"): ...  # type: ignore[name-defined] # noqa: F821

    world.nd.task(name="task")(broken)
    assert world.work() == {"held": 1}
    assert "annotations can't be resolved" in str(handle.view().message)


def test_a_task_may_put_and_look_at_tasks(world, nd):
    @nd.task
    def parent(n: int) -> None:
        if n:
            parent.enqueue(n - 1)
            with pytest.raises(BadArguments):
                parent.enqueue("x")

    parent.enqueue(3)
    assert world.work() == {"done": 4}


def test_higher_priority_goes_first_then_the_earlier_due(world, nd):
    ran: list[str] = []
    task = nd.task(name="task")(ran.append)
    task.using(priority=-1).enqueue("low")
    task.using(delay=2).enqueue("late")
    task.using(delay=1).enqueue("early")
    task.using(priority=100, delay=3).enqueue("high")
    world.clock.advance(10_000)
    world.work(slots={"thread": 1})
    assert ran == ["high", "early", "late", "low"]


def test_a_claim_counts_whatever_ended_the_one_before(world, nd):
    """Snoozes and failures too, so that a task can refuse to begin twice; a next life begins anew."""
    seen: list[int] = []

    @nd.task(retry=Retry(base=0, jitter=0))
    def work(ctx: Context, n: int) -> None:
        seen.append(ctx.claim)
        if n == 1 and ctx.claim < 3:
            raise Snooze(0) if ctx.claim == 1 else ValueError
        if n == 1:
            work.using(key="k", on_conflict="again").enqueue(2)

    handle = work.using(key="k").enqueue(1)
    world.work()
    assert seen == [1, 2, 3, 1]
    assert handle.view().claims == 1
