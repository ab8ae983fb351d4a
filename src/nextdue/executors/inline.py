"""Tasks run at once in the caller's thread, for tests: the same calls and endings, no concurrency."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, TypeVar

from nextdue.executors.call import call
from nextdue.executors.context import Context, Definition, Desk
from nextdue.records import Claim, Ending

if TYPE_CHECKING:
    import asyncio

R = TypeVar("R")


class InlineExecutor:
    """ports.Executor without threads: a claim is run when its ending is asked for.

    Coroutines share one event loop, as in a worker. A caller who is in a loop itself stands still meanwhile.
    """

    def __init__(self, definitions: Mapping[str, Definition], desk: Desk | None = None) -> None:
        self._definitions, self._desk = definitions, desk
        self._queue: list[Claim] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, claim: Claim) -> None:
        self._queue.append(claim)

    def finished(self) -> list[Ending]:
        claims, self._queue = self._queue, []
        return [self._run(claim) for claim in claims]

    def limit_ms(self) -> int | None:
        return 0 if self._queue else None

    def cancel(self, claim: Claim) -> None:
        """Nothing runs while anybody could ask."""

    def progress(self) -> list[tuple[Claim, str]]:
        return []

    def waiting(self, kind: str | None = None) -> int:
        return 0

    def withdraw(self) -> list[Claim]:
        claims, self._queue = self._queue, []
        return claims

    def settled(self, claim: Claim) -> bool:
        return False

    def lose(self, claim: Claim) -> None:
        self._queue = [waiting for waiting in self._queue if waiting != claim]

    def close(self) -> None:
        self._queue.clear()
        if self._loop is not None:
            from nextdue.executors.loop import end

            end(self._loop)
            self._loop = None

    def _run(self, claim: Claim) -> Ending:
        definition, context = self._definitions[claim.name], Context(claim, self._desk)
        if not inspect.iscoroutinefunction(definition.fn):
            return call(definition, claim, context)
        import asyncio

        from nextdue.executors.loop import Run, attempt

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        coroutine = attempt(Run(claim, definition, context))
        if asyncio._get_running_loop() is None:
            return self._loop.run_until_complete(coroutine)
        return _beside(self._loop, coroutine)


def _beside(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[object, object, R]) -> R:
    """A thread has only one running loop; in another thread there is place for a second one."""
    answers: list[R] = []
    thread = threading.Thread(target=lambda: answers.append(loop.run_until_complete(coroutine)))
    thread.start()
    thread.join()
    return answers[0]
