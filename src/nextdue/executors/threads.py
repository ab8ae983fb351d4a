"""Tasks in threads: a queue, a fixed number of threads, and time limits.

A thread can't be killed. At its time limit the claim is given up and the slot gets another thread; the hung one
ends when its function returns.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue

from nextdue.executors.call import Context, Definition, call
from nextdue.records import Claim, Ending


class ThreadExecutor:
    """ports.Executor by threads. `wake` is called from a thread whenever something finished."""

    def __init__(self, size: int, definitions: Mapping[str, Definition], wake: Callable[[], None]) -> None:
        self._definitions, self._wake = definitions, wake
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._done: deque[tuple[Context, Ending]] = deque()
        self._waiting: dict[Claim, Context] = {}
        self._contexts: dict[Claim, Context] = {}
        self._limited = any(d.options.time_limit_ms is not None for d in definitions.values())
        self._size = size
        self._threads = 0

    def start(self, claim: Claim) -> None:
        if self._threads < self._size:
            self._spawn()
        self._waiting[claim] = Context(claim)
        self._queue.put(claim)

    def finished(self) -> list[Ending]:
        endings: list[Ending] = []
        while self._done:
            context, ending = self._done.popleft()
            if not context.lost():
                endings.append(ending)
        if self._limited:
            endings += self._expired()
        return endings

    def limit_ms(self) -> int | None:
        if not self._limited:
            return None
        ends = [context.ends_at for context in list(self._contexts.values()) if not context.lost()]
        nearest = min((end for end in ends if end is not None), default=None)
        return None if nearest is None else max(0, int((nearest - time.monotonic()) * 1000) + 1)

    def waiting(self) -> int:
        return len(self._waiting)

    def withdraw(self) -> list[Claim]:
        claims: list[Claim] = []
        while True:
            try:
                claim = self._queue.get_nowait()
            except Empty:
                return claims
            if claim is not None and self._waiting.pop(claim, None) is not None:
                claims.append(claim)

    def lose(self, claim: Claim) -> None:
        if self._waiting.pop(claim, None) is not None:
            return  # whoever takes it from the queue passes it by
        context = self._contexts.get(claim)
        if context is not None:
            context.mark_lost()
            self._spawn()

    def close(self) -> None:
        self.withdraw()
        for _ in range(self._threads):
            self._queue.put(None)

    def _spawn(self) -> None:
        self._threads += 1
        thread = threading.Thread(target=self._work, name=f"nextdue-{self._threads}", daemon=True)
        with contextlib.suppress(RuntimeError):  # while the interpreter ends, nobody needs another one
            thread.start()

    def _work(self) -> None:
        while True:
            claim = self._queue.get()
            if claim is None:
                return
            context = self._waiting.get(claim)
            if context is None:
                continue
            self._contexts[claim] = context
            if self._waiting.pop(claim, None) is None:  # lost or withdrawn between these lines
                del self._contexts[claim]
                continue
            definition = self._definitions[claim.name]
            if definition.options.time_limit_ms is not None:
                context.ends_at = time.monotonic() + definition.options.time_limit_ms / 1000
                self._wake()
            ending = call(definition, claim, context)
            del self._contexts[claim]
            self._done.append((context, ending))
            self._wake()
            if context.lost():
                return  # another thread has this one's place

    def _expired(self) -> list[Ending]:
        endings: list[Ending] = []
        for claim, context in list(self._contexts.items()):
            if context.ends_at is not None and context.ends_at <= time.monotonic() and not context.lost():
                context.mark_lost()
                self._spawn()
                endings.append(_over(claim, self._definitions[claim.name].options.time_limit_ms or 0))
        return endings


def _over(claim: Claim, limit_ms: int) -> Ending:
    message = (
        f"it ran for over its time limit of {limit_ms / 1000:g} s and still does: a thread can't be killed. "
        "Its end will be ignored"
    )
    return Ending(claim, "failed", ran_ms=limit_ms, reason="time_limit", message=message)
