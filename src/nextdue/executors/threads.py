"""Tasks in threads: a queue, a fixed number of threads, and time limits.

A thread can't be killed. At its time limit the claim is given up and the slot gets another thread; the hung one
ends when its function returns.
"""

import heapq
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
        self._contexts: dict[Claim, Context] = {}
        self._limits: list[tuple[float, int, Claim, Context]] = []
        self._lock = threading.Lock()
        self._size = size
        self._threads = 0
        self._closed = False

    def start(self, claim: Claim) -> None:
        if self._threads < self._size:
            self._spawn()
        self._queue.put(claim)

    def finished(self) -> list[Ending]:
        endings: list[Ending] = []
        while self._done:
            context, ending = self._done.popleft()
            if not context.lost():
                endings.append(ending)
        if self._limits:
            endings += self._expired()
        return endings

    def limit_ms(self) -> int | None:
        with self._lock:
            self._drop_ended()
            if not self._limits:
                return None
            return max(0, int((self._limits[0][0] - time.monotonic()) * 1000) + 1)

    def waiting(self) -> int:
        return self._queue.qsize()

    def withdraw(self) -> list[Claim]:
        claims: list[Claim] = []
        while True:
            try:
                claim = self._queue.get_nowait()
            except Empty:
                return claims
            if claim is not None:
                claims.append(claim)

    def lose(self, claim: Claim) -> None:
        context = self._contexts.get(claim)
        if context is not None:
            context.mark_lost()
            self._spawn()

    def close(self) -> None:
        self._closed = True
        for _ in range(self._threads):
            self._queue.put(None)

    def _spawn(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=f"nextdue-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        while True:
            claim = self._queue.get()
            if claim is None:
                return
            definition = self._definitions[claim.name]
            context = Context(claim)
            self._contexts[claim] = context
            if definition.options.time_limit_ms is not None:
                self._limit(definition.options.time_limit_ms, claim, context)
            ending = call(definition, claim, context)
            del self._contexts[claim]
            self._done.append((context, ending))
            self._wake()
            if context.lost():
                return  # another thread has this one's place

    def _limit(self, limit_ms: int, claim: Claim, context: Context) -> None:
        with self._lock:
            heapq.heappush(self._limits, (time.monotonic() + limit_ms / 1000, claim.id, claim, context))
        self._wake()

    def _expired(self) -> list[Ending]:
        endings: list[Ending] = []
        with self._lock:
            while self._limits and self._limits[0][0] <= time.monotonic():
                _, _, claim, context = heapq.heappop(self._limits)
                if self._contexts.get(claim) is context and not context.lost():
                    context.mark_lost()
                    self._spawn()
                    limit_ms = self._definitions[claim.name].options.time_limit_ms or 0
                    endings.append(_over(claim, limit_ms))
        return endings

    def _drop_ended(self) -> None:
        while self._limits and self._contexts.get(self._limits[0][2]) is not self._limits[0][3]:
            heapq.heappop(self._limits)


def _over(claim: Claim, limit_ms: int) -> Ending:
    message = (
        f"it ran for over its time limit of {limit_ms / 1000:g} s and still does: a thread can't be killed. "
        "Its end will be ignored"
    )
    return Ending(claim, "failed", ran_ms=limit_ms, reason="time_limit", message=message)
