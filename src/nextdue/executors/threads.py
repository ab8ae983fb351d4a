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

from nextdue.executors.call import call
from nextdue.executors.context import Context, Definition, Desk, all_progress, first_limit_ms
from nextdue.records import Claim, Ending


class ThreadExecutor:
    """ports.Executor by threads. `wake` is called from a thread whenever something finished."""

    def __init__(
        self,
        size: int,
        definitions: Mapping[str, Definition],
        wake: Callable[[], None],
        desk: Desk | None = None,
    ) -> None:
        self._definitions, self._wake, self._desk = definitions, wake, desk
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._done: deque[Ending] = deque()
        self._waiting: set[Claim] = set()
        self._contexts: dict[Claim, Context] = {}
        self._limited = any(d.options.time_limit_ms is not None for d in definitions.values())
        self._size = size
        self._threads = 0

    def start(self, claim: Claim) -> None:
        if self._threads < self._size:
            self._spawn()
        self._waiting.add(claim)
        self._queue.put(claim)

    def finished(self) -> list[Ending]:
        endings: list[Ending] = []
        while self._done:
            endings.append(self._done.popleft())
        if self._limited:
            endings += self._expired()
        if self._threads < self._size and self._waiting:
            self._spawn()  # one could not be started when it was needed
        return endings

    def limit_ms(self) -> int | None:
        if not self._limited:
            return None
        return first_limit_ms(list(self._contexts.values()))

    def cancel(self, claim: Claim) -> None:
        if self._take(claim):
            self._done.append(Ending(claim, "cancelled"))  # it needn't be started
            self._wake()
        elif (context := self._contexts.get(claim)) is not None:
            context.ask_to_stop()

    def progress(self) -> list[tuple[Claim, str]]:
        return all_progress(list(self._contexts.items()))

    def waiting(self, kind: str | None = None) -> int:
        return len(self._waiting)

    def withdraw(self) -> list[Claim]:
        claims: list[Claim] = []
        while True:
            try:
                claim = self._queue.get_nowait()
            except Empty:
                return claims
            if claim is not None and self._take(claim):
                claims.append(claim)

    def settled(self, claim: Claim) -> bool:
        context = self._contexts.get(claim)
        return context is not None and context.settled()

    def lose(self, claim: Claim) -> None:
        if self._take(claim):
            return  # whoever takes it from the queue passes it by
        self._give_up(claim)

    def close(self) -> None:
        self.withdraw()
        for _ in range(self._threads):
            self._queue.put(None)

    def _take(self, claim: Claim) -> bool:
        """Whoever takes a claim out of `_waiting` owns it: to run it, or to give it back. False: somebody else does."""
        try:
            self._waiting.remove(claim)
        except KeyError:
            return False
        return True

    def _spawn(self) -> None:
        thread = threading.Thread(target=self._work, name=f"nextdue-{self._threads + 1}", daemon=True)
        with contextlib.suppress(RuntimeError):  # out of memory, or the interpreter ends: finished() tries again
            thread.start()
            self._threads += 1

    def _give_up(self, claim: Claim) -> bool:
        """Take the claim from its thread, which gets a successor; False if it has just ended.

        Whoever takes it out of `_contexts` owns it: this, or the thread at its end.
        """
        context = self._contexts.pop(claim, None)
        if context is None:
            return False
        context.mark_lost()
        self._threads -= 1
        self._spawn()
        return True

    def _work(self) -> None:
        while True:
            claim = self._queue.get()
            if claim is None:
                return
            context = self._contexts[claim] = Context(claim, self._desk, self._wake)
            if not self._take(claim):  # lost or withdrawn before it began
                del self._contexts[claim]
                continue
            definition = self._definitions[claim.name]
            if definition.options.time_limit_ms is not None:
                context.ends_at = time.monotonic() + definition.options.time_limit_ms / 1000
                self._wake()
            ending = call(definition, claim, context)
            if self._contexts.pop(claim, None) is None:
                return  # given up meanwhile; another thread has this one's place
            self._done.append(ending)
            self._wake()

    def _expired(self) -> list[Ending]:
        now = time.monotonic()
        over = [
            c for c, context in list(self._contexts.items()) if context.ends_at is not None and context.ends_at <= now
        ]
        return [_over(c, self._definitions[c.name].options.time_limit_ms or 0) for c in over if self._give_up(c)]


def _over(claim: Claim, limit_ms: int) -> Ending:
    message = (
        f"it ran for over its time limit of {limit_ms / 1000:g} s and still does: a thread can't be killed. "
        "Its end will be ignored"
    )
    return Ending(claim, "failed", ran_ms=limit_ms, reason="time_limit", message=message)
