"""A worker whose tasks are real coroutines with a real context and desk, each of whose statements may be the last."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import replace
from types import coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from nextdue.codec import Signature
from nextdue.desk import Desk
from nextdue.executors.context import Context, Definition, all_progress
from nextdue.executors.loop import Run, attempt
from nextdue.records import Claim, Ending
from nextdue.sqlite.store import SqliteStore
from nextdue.testing.crashes import Killed
from nextdue.testing.worlds.crew import Crew, options
from nextdue.testing.worlds.effectjudge import EffectJudge
from nextdue.testing.worlds.executor import Job, SimExecutor
from nextdue.testing.worlds.faults import Gate, Spring
from nextdue.testing.worlds.plays import Life, Play, perform

if TYPE_CHECKING:
    from nextdue.testing.worlds.effectworld import EffectWorld


HOUR_MS = 3_600_000


class Here:
    """An event loop whose threads answer at once: what a coroutine gives to a thread is done here and now."""

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: Any) -> None:
        """Nobody asks any more for what a dead worker raised."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        return self._future(lambda: func(*args))

    def create_task(self, coro: Any, **more: Any) -> Any:
        return self._future(lambda: _through(coro))

    def _future(self, call: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.Future(loop=self)  # type: ignore[arg-type]
        try:
            future.set_result(call())
        except BaseException as exc:
            future.set_exception(exc)
        return future

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Coroutines that are driven in this block are in this loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)  # type: ignore[arg-type]
        try:
            yield
        finally:
            asyncio._set_running_loop(before)


def _through(coro: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coro.send(None)
    except StopIteration as over:
        return over.value
    raise AssertionError("a thread was awaited that has not answered")


@coroutine
def _moment(ms: int) -> Generator[int, None, None]:
    yield ms


class Attempt:
    """One attempt at a play, as plays.Stage."""

    def __init__(self, executor: "Stage", claim: Claim, play: Play) -> None:
        self.executor, self.claim = executor, claim
        self.outside = executor.crew.world.outside
        self.life: Life = executor.crew.judge.life_of(claim)
        self.verb: str | None = None

        async def task(ctx: Context, number: int) -> int:
            return await perform(ctx, play, self)

        definition = Definition(task, Signature(task, 1), executor.options[claim.name], wants_context=True)
        self.context = Context(claim, executor.crew.desk)
        self.coroutine = attempt(Run(claim, definition, self.context))
        self.run = copy_context().run  # as each task of a loop has a context of its own

    def moment(self, ms: int) -> Any:
        return _moment(ms)

    def about_to(self, verb: str) -> None:
        self.verb = verb

    def transaction(self) -> AbstractContextManager[Any]:
        if self.claim.id % 3:
            return nullcontext()
        self.executor.crew.freed = True  # nobody rings, but the commit is seen
        return self.executor.crew.world.foreign()

    def lease_ms(self) -> int:
        return self.executor.options[self.claim.name].lease_ms

    def broken(self, what: str) -> None:
        self.executor.crew.judge.breach(what)

    def holds(self) -> bool:
        return self.executor.crew.judge.holds(self.claim)

    def timed_out(self, event: str) -> None:
        self.executor.crew.judge.timed_out(self.claim, event)

    def heard(self, event: str, data: Any) -> None:
        self.executor.crew.judge.heard(event, data)


class Stage(SimExecutor):
    """ports.Executor on which plays are given."""

    def __init__(self, jobs: dict[int, Job], crew: "EffectCrew") -> None:
        super().__init__(jobs, crew.role.sizes(), crew.clock.monotonic_ms, crew.judge.broken)
        self.crew = crew
        self.options = {name: replace(of, keep_result_ms=HOUR_MS) for name, of in options(crew.role.names).items()}
        self.attempts: dict[Claim, Attempt] = {}
        self.loop = Here()

    def _ending(self, claim: Claim, job: Job) -> Ending | None:
        locked = self.crew.world._locked_for()
        if locked:  # by a foreign program: it waits
            self.active[claim] += locked + 1
            return None
        assert isinstance(job, Play)
        attempt = self.attempts.get(claim)
        if attempt is None and claim in self._heeding:
            self._heeding.discard(claim)
            return Ending(claim, "cancelled", ran_ms=1)
        if attempt is None:
            attempt = self.attempts[claim] = Attempt(self, claim, job)
            self.crew.judge.begins(claim, attempt)
        try:
            ending = self._go_on(attempt)
        finally:
            if attempt.verb is not None:
                self.crew.judge.by_itself(claim, attempt.verb, self.crew.actor.number)
        self.crew.judge.marked(claim)
        if any(gate.sprung for gate in self.crew.gates):
            raise Killed
        return ending

    def _go_on(self, attempt: Attempt) -> Ending | None:
        claim = attempt.claim
        try:
            with self.loop.running():
                if claim in self._heeding:
                    self._heeding.discard(claim)
                    ms = attempt.run(attempt.coroutine.throw, asyncio.CancelledError)
                else:
                    ms = attempt.run(attempt.coroutine.send, None)
        except StopIteration as over:
            self.attempts.pop(claim, None)
            ending: Ending = over.value
            return msgspec.structs.replace(ending, ran_ms=1)  # not what the clock on the wall says
        self.active[claim] += ms
        return None

    def cancel(self, claim: Claim) -> None:
        super().cancel(claim)
        if claim in self.attempts:
            self.attempts[claim].context.ask_to_stop()

    def progress(self) -> list[tuple[Claim, str]]:
        return all_progress([(claim, attempt.context) for claim, attempt in self.attempts.items()])

    def settled(self, claim: Claim) -> bool:
        attempt = self.attempts.get(claim)
        return attempt is not None and attempt.context.settled()

    def lose(self, claim: Claim) -> None:
        if claim in self.attempts:
            self.attempts[claim].context.mark_lost()
            self._leave(claim)
        super().lose(claim)

    def close(self) -> None:
        super().close()
        for claim in list(self.attempts):
            self._leave(claim)
        for gate in self.crew.gates:
            gate.close()
        self.crew.gates = []

    def _leave(self, claim: Claim) -> None:
        with self.loop.running():
            attempt = self.attempts.pop(claim)
            attempt.run(attempt.coroutine.close)


class EffectCrew(Crew):
    """A worker with a desk, whose ring is heard."""

    judge: EffectJudge
    world: "EffectWorld"
    executor: Stage

    def start(self, store: SqliteStore, jobs: dict[int, Job], where: Spring | None) -> None:
        self.gates: list[Gate] = []
        self.desk = Desk(self.world.path, self._desk_store)
        vars(self.desk.connections).update(ring=self._rang)
        vars(self.desk).update(_warned=True)  # of what Foreign does
        super().start(store, jobs, where)

    def _executor(self, jobs: dict[int, Job]) -> Stage:
        return Stage(jobs, self)

    def _desk_store(self) -> SqliteStore:
        store = self.world._store()
        self.gates.append(Gate.of(store, self.world.deaths))
        return store

    def _rang(self) -> None:
        self.freed = True

    def die(self, *, unknown: bool) -> None:
        super().die(unknown=unknown)
        self.executor.close()
