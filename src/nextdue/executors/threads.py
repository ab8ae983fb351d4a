"""Tasks in threads: a line of claims, at most so many threads, and time limits.

A thread can't be killed. At its time limit the claim is given up and the slot gets another thread; the hung one
ends when its function returns.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

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
        self._done: deque[Ending] = deque()
        self._line: deque[Claim] = deque()
        self._contexts: dict[Claim, Context] = {}
        self._idle: list[threading.Lock] = []
        """What those threads wait for that have nothing to do; the last one is woken first, for its caches are warm."""
        self._taking = threading.Lock()
        """Held by who moves a claim out of the line: to its context, or back to the worker; and around `_idle`."""
        self._limited = any(d.options.time_limit_ms is not None for d in definitions.values())
        self._size = size
        self._threads = 0
        self._closed = False

    def start(self, claim: Claim) -> None:
        with self._taking:
            self._line.append(claim)
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            idle.release()
        elif self._threads < self._size:
            self._spawn()

    def finished(self) -> list[Ending]:
        endings: list[Ending] = []
        while self._done:
            endings.append(self._done.popleft())
        if self._limited:
            endings += self._expired()
        if self._line and self._threads < self._size:
            self._spawn()  # one could not be started when it was needed
        return endings

    def limit_ms(self) -> int | None:
        if not self._limited:
            return None
        return first_limit_ms(list(self._contexts.values()))

    def cancel(self, claim: Claim) -> None:
        if self._withdrawn(claim):
            self._done.append(Ending(claim, "cancelled"))  # it needn't be started
            self._wake()
        elif (context := self._contexts.get(claim)) is not None:
            context.ask_to_stop()

    def progress(self) -> list[tuple[Claim, str]]:
        return all_progress(list(self._contexts.items()))

    def waiting(self, kind: str | None = None) -> int:
        return len(self._line)

    def withdraw(self) -> list[Claim]:
        with self._taking:
            claims = list(self._line)
            self._line.clear()
        return claims

    def settled(self, claim: Claim) -> bool:
        context = self._contexts.get(claim)
        return context is not None and context.settled()

    def lose(self, claim: Claim) -> None:
        if not self._withdrawn(claim):
            self._give_up(claim)

    def close(self) -> None:
        with self._taking:
            self._closed = True
            self._line.clear()
            idle, self._idle = self._idle, []
        for one in idle:
            one.release()

    def _withdrawn(self, claim: Claim) -> bool:
        """Take it out of the line; False if a thread has it, or had."""
        with self._taking:
            if claim in self._line:
                self._line.remove(claim)
                return True
        return False

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

    def _take(self, idle: threading.Lock) -> tuple[Claim, Context] | None:
        """The next of the line, waited for; None when there will be no more."""
        while True:
            with self._taking:
                if self._line:
                    claim = self._line.popleft()
                    context = self._contexts[claim] = Context(claim, self._desk, self._wake)
                    return claim, context
                if self._closed:
                    return None
                self._idle.append(idle)
            idle.acquire()

    def _work(self) -> None:
        idle = threading.Lock()
        idle.acquire()
        while (taken := self._take(idle)) is not None:
            claim, context = taken
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
