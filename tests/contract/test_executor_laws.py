"""What ports.Executor promises, kept alike by threads and by the event loop. Real threads, real time."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nextdue import Cancelled, Context, Nextdue
from nextdue.executors.loop import LoopExecutor
from nextdue.executors.several import SeveralExecutors
from nextdue.executors.threads import ThreadExecutor
from nextdue.records import Claim, Ending
from tests.process.harness import until


class Crew:
    """An executor of two slots with its tasks, in the two ways of writing them."""

    def __init__(self, kind: str, nd: Nextdue) -> None:
        self.kind, self.nd = kind, nd
        self.free = threading.Event()
        self.begun: list[int] = []
        self.contexts: list[Context] = []
        self.wakes = 0
        self.said: list[Ending] = []
        self._last = 0
        self._declare()
        definitions = nd._definitions
        make: Any = {"thread": ThreadExecutor, "loop": LoopExecutor}.get(kind)
        if make is not None:
            self.executor: Any = make(2, definitions, self._wake)
        else:
            self.executor = SeveralExecutors({"thread": 8, "loop": 2}, definitions, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def _declare(self) -> None:
        def declare(thread: Any, loop: Any, name: str, **options: Any) -> None:
            self.nd.task(name=name, **options)(thread if self.kind == "thread" else loop)

        def wait(ctx: Context, n: int) -> int:
            self.begun.append(n)
            self.contexts.append(ctx)
            ctx.progress(n, 10, "at it")
            self.free.wait(20)
            if ctx.cancelled():
                raise Cancelled("seen")
            return n

        async def await_(ctx: Context, n: int) -> int:
            self.begun.append(n)
            self.contexts.append(ctx)
            ctx.progress(n, 10, "at it")
            while not self.free.is_set():
                await asyncio.sleep(0.001)
            return n

        def hang(ctx: Context, n: int) -> None:
            self.contexts.append(ctx)
            self.free.wait(20)

        async def hold_out(ctx: Context, n: int) -> None:
            self.contexts.append(ctx)
            while not self.free.is_set():
                with contextlib.suppress(asyncio.CancelledError):  # the worst that a coroutine can do
                    await asyncio.sleep(0.001)

        def fail(n: int) -> None:
            raise KINDS[n]

        async def afail(n: int) -> None:
            await asyncio.sleep(0)
            raise KINDS[n]

        declare(wait, await_, "wait", keep_result=True)
        declare(hang, hold_out, "hang", time_limit=0.05)
        declare(fail, afail, "fail")

    def start(self, name: str, *numbers: int) -> list[Claim]:
        claims = []
        for n in numbers:
            self._last += 1
            claims.append(Claim(self._last, 1, name, f"[{n}]", None, 0, 0, 1, 0, 0))
            self.executor.start(claims[-1])
        self.executor.limit_ms()  # asked by a worker after its starts
        return claims

    def collect(self, count: int = 1) -> list[Ending]:
        """Wait until so many endings were reported in all."""

        def enough() -> bool:
            self.said += self.executor.finished()
            return len(self.said) >= count

        until(enough, 10)
        return self.said


KINDS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), ValueError("plain")]


@pytest.fixture(params=["thread", "loop", "several"])
def crew(request, tmp_path) -> Iterator[Crew]:
    crew = Crew(request.param, Nextdue(tmp_path / "shop.db"))
    yield crew
    crew.free.set()
    crew.executor.close()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("nextdue-")], 10)


def test_claims_start_in_order_and_no_more_than_there_are_slots(crew):
    claims = crew.start("wait", 1, 2, 3, 4)
    until(lambda: len(crew.begun) == 2)
    time.sleep(0.05)
    assert (crew.begun, crew.executor.waiting()) == ([1, 2], 2)
    crew.free.set()
    until(lambda: len(crew.begun) == 4)  # without being asked anything meanwhile
    endings = crew.collect(4)
    assert crew.begun == [1, 2, 3, 4]
    assert {e.claim for e in endings} == set(claims)
    assert sorted((e.kind, e.result) for e in endings) == [("done", str(n)) for n in (1, 2, 3, 4)]
    assert crew.executor.finished() == []
    assert crew.wakes >= 1


def test_what_is_not_started_is_taken_back_and_the_rest_goes_on(crew):
    claims = crew.start("wait", 1, 2, 3, 4)
    until(lambda: len(crew.begun) == 2)
    assert crew.executor.withdraw() == claims[2:]
    assert (crew.executor.waiting(), crew.executor.withdraw()) == (0, [])
    crew.free.set()
    assert {e.claim for e in crew.collect(2)} == set(claims[:2])
    time.sleep(0.02)
    assert crew.begun == [1, 2]


def test_a_lost_claim_is_told_so_and_its_ending_is_not_reported(crew):
    first, second, third = crew.start("wait", 1, 2, 3)
    until(lambda: len(crew.begun) == 2)
    crew.executor.lose(first)
    until(lambda: crew.begun == [1, 2, 3])  # its slot is free at once
    assert [ctx.lost() for ctx in crew.contexts] == [True, False, False]
    crew.free.set()
    assert {e.claim for e in crew.collect(2)} == {second, third}
    time.sleep(0.02)
    assert crew.executor.finished() == []


def test_a_claim_that_is_lost_before_its_start_is_never_started(crew):
    first, second, third, fourth = crew.start("wait", 1, 2, 3, 4)
    until(lambda: len(crew.begun) == 2)
    crew.executor.lose(third)
    crew.free.set()
    assert {e.claim for e in crew.collect(3)} == {first, second, fourth}
    assert crew.begun == [1, 2, 4]


def test_what_goes_on_past_its_time_limit_is_given_up_and_its_slot_replaced(crew):
    """F028: both slots hang; their endings come from outside, two more get the slots, ctx.lost() is true."""
    hung = crew.start("hang", 1, 2)
    until(lambda: len(crew.contexts) == 2)
    assert crew.wakes >= 1  # or the worker would sleep past the limit
    assert 0 <= crew.executor.limit_ms() <= 51
    begun = time.monotonic()
    endings = list(crew.collect(2))
    assert time.monotonic() - begun < 3
    assert [(e.claim in hung, e.kind, e.reason, e.ran_ms) for e in endings] == [(True, "failed", "time_limit", 50)] * 2
    assert "time limit of 0.05 s and still does" in endings[0].message
    assert all(ctx.lost() for ctx in crew.contexts)
    crew.start("wait", 7, 8)
    until(lambda: crew.begun == [7, 8])
    assert crew.executor.limit_ms() is None
    crew.free.set()
    crew.collect(4)
    time.sleep(0.05)
    assert crew.executor.finished() == []


def test_a_cancelled_one_ends_when_it_sees_it(crew):
    first, second = crew.start("wait", 1, 2)
    until(lambda: len(crew.begun) == 2)
    crew.executor.cancel(first)
    if crew.kind == "thread":
        crew.free.set()
        assert {(e.claim, e.kind) for e in crew.collect(2)} == {(first, "cancelled"), (second, "done")}
    else:  # nobody has to look: it ends at its await
        assert [(e.claim, e.kind) for e in crew.collect(1)] == [(first, "cancelled")]
        assert len(crew.begun) == 2
    assert [ctx.cancelled() for ctx in crew.contexts] == [True, False]


def test_progress_is_told_once(crew):
    first, second = crew.start("wait", 1, 2)
    until(lambda: len(crew.begun) == 2)
    time.sleep(0.01)
    assert crew.executor.progress() == [(first, '[[1,10,"at it"]]'), (second, '[[2,10,"at it"]]')]
    assert crew.executor.progress() == []


def test_whatever_is_raised_is_the_task_s_failure(crew):
    """F076: SystemExit, KeyboardInterrupt, GeneratorExit and CancelledError end neither a thread nor the loop."""
    crew.start("fail", *range(len(KINDS)))
    endings = sorted(crew.collect(len(KINDS)), key=lambda e: e.claim.id)
    assert [(e.kind, e.reason) for e in endings] == [("failed", type(exc).__name__) for exc in KINDS]
    crew.start("wait", 1)
    crew.free.set()
    assert crew.collect(len(KINDS) + 1)[-1].kind == "done"


def test_arguments_that_do_not_fit_are_said_to(crew):
    claim = Claim(1, 1, "wait", '["text"]', None, 0, 0, 1, 0, 0)
    crew.executor.start(claim)
    (ending,) = crew.collect(1)
    assert (ending.kind, ending.reason) == ("held", "arguments")


def test_a_closed_one_starts_no_more_and_abandons_what_runs(crew):
    crew.start("hang", 1, 2)
    crew.start("wait", 3)
    until(lambda: len(crew.contexts) == 2)
    begun = time.monotonic()
    crew.executor.close()
    assert time.monotonic() - begun < 2
    crew.free.set()
    time.sleep(0.05)
    assert crew.begun == []


def test_nothing_is_made_before_it_is_needed(tmp_path):
    nd = Nextdue(tmp_path / "shop.db")
    nd.task(name="plain")(lambda: None)
    several = SeveralExecutors({"thread": 3, "loop": 100, "process": 4}, nd._definitions, lambda: None)
    assert several.sizes == {"thread": 3}
    claim = Claim(1, 1, "plain", "[]", None, 0, 0, 1, 0, 0)
    several.cancel(claim)
    several.lose(claim)
    assert not [t for t in threading.enumerate() if t.name.startswith("nextdue-")]
    assert (several.finished(), several.limit_ms(), several.progress(), several.withdraw()) == ([], None, [], [])
    assert (several.waiting(), several.waiting("thread"), several.waiting("loop")) == (0, 0, 0)
    several.close()
