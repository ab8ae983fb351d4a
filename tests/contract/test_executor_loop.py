"""What only the event loop does: cancelling, keeping tasks apart, outliving what they do, naming who blocks it."""

import asyncio
import contextvars
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nextdue import Cancelled, Context, Nextdue
from nextdue.executors.inline import InlineExecutor
from nextdue.executors.loop import LoopExecutor
from nextdue.executors.watch import BLOCKED_S
from nextdue.records import Claim, Ending
from tests.process.harness import until


class Stage:
    """Coroutines declared by a test, and a loop of so many slots that runs them."""

    def __init__(self, folder: Path) -> None:
        self.nd = Nextdue(folder / "shop.db")
        self.executor: Any = None
        self._last = 0

    def open(self, size: int = 4) -> Any:
        self.executor = LoopExecutor(size, self.nd._definitions, lambda: None)
        return self.executor

    def start(self, name: str, args: str = "[]") -> Claim:
        if self.executor is None:
            self.open()
        self._last += 1
        claim = Claim(self._last, 1, name, args, None, 0, 0, 1, 0, 0)
        self.executor.start(claim)
        self.executor.limit_ms()  # asked by a worker after its starts
        return claim

    def ending(self, seconds: float = 10) -> Ending:
        endings: list[Ending] = until(self.executor.finished, seconds)
        assert len(endings) == 1
        return endings[0]

    def endings(self, count: int) -> list[Ending]:
        """So many of them, in their order."""
        said: list[Ending] = []

        def enough() -> bool:
            said.extend(self.executor.finished())
            return len(said) >= count

        until(enough)
        return said

    def run(self, name: str, args: str = "[]") -> Ending:
        self.start(name, args)
        return self.ending()


@pytest.fixture
def stage(tmp_path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    if stage.executor is not None:
        stage.executor.close()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("nextdue-")], 10)


def test_a_coroutine_is_cancelled_at_its_time_limit_and_may_clean_up(stage):
    """F028: the token is still ours while it cleans up; its own limit is a failure, with the reason time_limit."""
    heard: list[object] = []

    @stage.nd.task(time_limit=0.05)
    async def long(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            heard.append(ctx.lost())

    claim = stage.start("long")
    ending = stage.ending(2)
    assert (ending.claim, ending.kind, ending.reason) == (claim, "failed", "time_limit")
    assert ending.message == "it ran for over its time limit of 0.05 s and was cancelled"
    assert 100 <= ending.ran_ms < 1000
    assert heard == [False]
    assert stage.executor.limit_ms() is None


def test_what_is_said_at_the_time_limit_counts(stage):
    """A coroutine that ends by itself when it is cancelled is done; one that fails then says why."""

    @stage.nd.task(time_limit=0.02, keep_result=True)
    async def saves() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "saved"
        return "never"

    @stage.nd.task(time_limit=0.02)
    async def fails() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("disk")

    assert (stage.run("saves").kind, stage.run("fails").reason) == ("done", "ValueError")


def test_who_cleans_up_for_longer_is_given_up_but_left_alone(stage):
    """F028: the token is void after a second, and ctx.lost() says so; what cleans up isn't cancelled once more."""
    heard: list[object] = []

    @stage.nd.task(time_limit=0.02)
    async def thorough(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            heard.append(ctx.lost())
            await asyncio.sleep(1.2)
            heard.append(ctx.lost())

    ending = stage.run("thorough")
    assert (ending.reason, ending.ran_ms) == ("time_limit", 20)
    assert "still does" in ending.message
    until(lambda: len(heard) == 2)
    assert heard == [False, True]
    time.sleep(0.02)
    assert stage.executor.finished() == []


def test_extend_moves_the_time_limit(stage):
    @stage.nd.task(time_limit=0.05)
    async def longer(ctx: Context) -> None:
        ctx.extend(5)
        await asyncio.sleep(0.2)

    assert stage.run("longer").kind == "done"


def test_a_cancellation_may_be_cleaned_up_after_undisturbed(stage):
    """Asked twice, thrown once; nextdue.Cancelled ends it in the same way."""
    heard: list[str] = []

    @stage.nd.task
    async def long(ctx: Context) -> None:
        heard.append("begun")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append("told")
            await asyncio.sleep(0.1)
            heard.append("clean")
            raise Cancelled("as asked") from None

    claim = stage.start("long")
    until(lambda: heard)
    stage.executor.cancel(claim)
    until(lambda: "told" in heard)
    stage.executor.cancel(claim)
    ending = stage.ending()
    assert (ending.kind, heard) == ("cancelled", ["begun", "told", "clean"])


def test_who_waits_for_a_slot_is_cancelled_without_a_start(stage):
    begun: list[int] = []
    free = threading.Event()

    @stage.nd.task
    async def one(n: int) -> None:
        begun.append(n)
        while not free.is_set():
            await asyncio.sleep(0.001)

    stage.open(1)
    stage.start("one", "[1]")
    second = stage.start("one", "[2]")
    until(lambda: begun)
    stage.executor.cancel(second)
    assert stage.ending() == Ending(second, "cancelled")
    free.set()
    assert stage.ending().kind == "done"
    assert begun == [1]


def test_who_is_cancelled_at_its_very_start_ends_too(stage):
    """cancel() and lose() at thousands of moments around the first step: each claim has one ending, or none."""

    @stage.nd.task
    async def long(n: int) -> None:
        await asyncio.sleep(60)

    stage.open(10)
    usual = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)
        for n in range(1000):
            first, second = stage.start("long", f"[{n}]"), stage.start("long", f"[{n}]")
            if n % 2:
                until(lambda: not stage.executor.waiting())
            stage.executor.cancel(first)
            stage.executor.lose(second)
            ending = stage.ending()
            assert (ending.claim, ending.kind) == (first, "cancelled")
    finally:
        sys.setswitchinterval(usual)
    assert (stage.executor.finished(), stage.executor.waiting(), stage.executor._running) == ([], 0, {})
    until(lambda: not stage.executor._given_up)


def test_a_cancellation_that_nobody_asked_for_is_a_failure(stage):
    """F076: a task that cancels itself, or awaits something cancelled, has failed; it isn't cancelled."""

    @stage.nd.task
    async def itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    @stage.nd.task
    async def other() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner

    assert [(e.kind, e.reason) for e in (stage.run("itself"), stage.run("other"))] == [("failed", "CancelledError")] * 2


VARIABLE = contextvars.ContextVar("VARIABLE", default="fresh")


def test_each_task_has_context_variables_of_its_own(stage):
    """Also the one that is started by another's end."""
    heard: list[str] = []

    @stage.nd.task
    async def one(n: int) -> None:
        heard.append(VARIABLE.get())
        VARIABLE.set(f"of {n}")
        await asyncio.sleep(0.001)
        heard.append(VARIABLE.get())

    VARIABLE.set("of the caller")
    stage.open(1)
    for n in range(3):
        stage.start("one", f"[{n}]")
    assert len(stage.endings(3)) == 3
    assert heard == ["fresh", "of 0", "fresh", "of 1", "fresh", "of 2"]


def test_nothing_that_a_task_does_ends_the_loop(stage):
    """F076: a coroutine started beside the task raises SystemExit; the task stops the loop; it closes the loop."""

    async def leaves() -> None:
        raise SystemExit(3)

    @stage.nd.task
    async def beside() -> None:
        await asyncio.ensure_future(leaves())

    @stage.nd.task
    async def stops() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)

    @stage.nd.task
    async def closes() -> None:
        asyncio.get_running_loop().close()

    @stage.nd.task
    async def good() -> None:
        await asyncio.sleep(0)

    ends = [stage.run(name) for name in ("beside", "stops", "closes", "good")]
    assert [(e.kind, e.reason) for e in ends] == [
        ("failed", "SystemExit"),
        ("done", None),
        ("failed", "RuntimeError"),
        ("done", None),
    ]


def test_a_hundred_blocking_calls_run_in_threads_of_the_loop(stage):
    """asyncio.to_thread with more calls than there are threads; their exceptions come back."""
    names: set[str] = set()

    def blocking(n: int) -> int:
        names.add(threading.current_thread().name)
        time.sleep(0.002)
        return 10 // (n - 50)

    @stage.nd.task(keep_result=True)
    async def many() -> int:
        answers = await asyncio.gather(*(asyncio.to_thread(blocking, n) for n in range(100)), return_exceptions=True)
        return sum(isinstance(answer, ZeroDivisionError) for answer in answers)

    ending = stage.run("many")
    assert (ending.kind, ending.result) == ("done", "1")
    assert 1 < len(names) <= 32
    assert all(name.startswith("nextdue-blocking-") for name in names)


def test_who_blocks_the_loop_is_named_once(stage, caplog):
    """F027: one line with the task, its id and the place, however often it does that; the others' limits are kept."""

    @stage.nd.task
    async def rude(seconds: float) -> None:
        await asyncio.sleep(0)
        time.sleep(seconds)  # the place

    with caplog.at_level(logging.WARNING, "nextdue"):
        stage.run("rude", f"[{BLOCKED_S * 2.5}]")
        stage.run("rude", f"[{BLOCKED_S * 2.5}]")
    (line,) = [record.getMessage() for record in caplog.records if "event loop" in record.getMessage()]
    assert line.startswith("rude #1 blocks the event loop for over 1 s, at ")
    place = line.partition(", at ")[2].partition(":")
    lines = Path(__file__).read_text("utf-8").splitlines()
    assert place[0] == __file__
    assert "# the place" in lines[int(place[2].partition(":")[0]) - 1]


def test_who_awaits_is_not_named_and_nothing_polls_meanwhile(stage, caplog):
    """F128: while a coroutine only waits, neither the loop nor its watch wakes; nor when nothing runs."""

    @stage.nd.task
    async def waits(seconds: float) -> None:
        await asyncio.sleep(seconds)

    def switches() -> int:
        total = 0
        for thread in threading.enumerate():
            if thread.name in ("nextdue-loop", "nextdue-watch"):
                text = Path(f"/proc/{os.getpid()}/task/{thread.native_id}/status").read_text("utf-8")
                total += int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        return total

    with caplog.at_level(logging.WARNING, "nextdue"):
        stage.start("waits", f"[{BLOCKED_S * 4}]")
        for ends in (False, True):
            time.sleep(BLOCKED_S * 1.2)
            before = switches()
            time.sleep(BLOCKED_S * 2.5)
            assert switches() - before <= 1  # the watch may have had one last look
            assert ends or stage.ending().kind == "done"
    assert caplog.records == []


def test_a_loop_without_a_stop_ends_with_what_it_abandons(stage):
    """close(): what still runs is cancelled and may clean up; generators of coroutines are closed."""
    heard: list[str] = []
    generators: list[Any] = []  # which nobody else would finish

    async def numbers():
        try:
            yield 1
        finally:
            heard.append("generator")

    @stage.nd.task
    async def long() -> None:
        generators.append(numbers())
        await anext(generators[0])
        try:
            heard.append("begun")
            await asyncio.sleep(60)
        finally:
            heard.append("coroutine")

    stage.start("long")
    until(lambda: heard)
    begun = time.monotonic()
    stage.executor.close()
    assert time.monotonic() - begun < 0.5
    assert sorted(heard) == ["begun", "coroutine", "generator"]


def test_a_plain_function_that_answers_a_coroutine_has_failed(tmp_path):
    """A decorator that hides a coroutine: nobody would await it, and nothing would be done."""

    def hiding(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any) -> Any:
            return fn(*args)

        return wrapper

    nd = Nextdue(tmp_path / "shop.db")

    @nd.task
    @hiding
    async def hidden(n: int) -> None: ...

    executor = InlineExecutor(nd._definitions)
    executor.start(Claim(1, 1, "hidden", "[1]", None, 0, 0, 1, 0, 0))
    (ending,) = executor.finished()
    assert (ending.kind, ending.reason) == ("failed", "coroutine")
    assert "write its decorator with async def" in str(ending.message)


def test_inline_runs_coroutines_in_one_loop_even_inside_another(tmp_path):
    """For tests, which may be coroutines themselves."""
    nd = Nextdue(tmp_path / "shop.db")
    loops: list[object] = []

    @nd.task(keep_result=True)
    async def one(n: int) -> int:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return n

    executor = InlineExecutor(nd._definitions)

    def run(n: int) -> Ending:
        executor.start(Claim(n, 1, "one", f"[{n}]", None, 0, 0, 1, 0, 0))
        (ending,) = executor.finished()
        return ending

    async def inside() -> Ending:
        return run(2)

    assert [run(1).result, asyncio.run(inside()).result, run(3).result] == ["1", "2", "3"]
    assert len(set(loops)) == 1
    executor.close()
    executor.close()
