"""Tasks that are coroutines: one event loop in a thread of its own, so many of them at once.

A coroutine can be cancelled only where it awaits. At its time limit it is; one that goes on all the same is given up
like a hung thread. One that never awaits stops all the others: the watch in watch.py says who it is.

The worker's thread calls the methods of ports.Executor, the loop's thread runs `_admit` and what comes after. They
share dicts and deques, whose single steps are atomic: whoever takes a claim out of `_waiting` or `_running` owns it.
"""

import asyncio
import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from nextdue.executors.call import Unfit, indescribable, invoke, raised, returned, timed
from nextdue.executors.context import Context, Definition, Desk, all_progress, first_limit_ms, running_in_worker
from nextdue.executors.pool import DaemonPool
from nextdue.executors.watch import WatchedSelector, watch
from nextdue.records import Claim, Ending

CLEAN_UP_S = 1.0
"""How long a coroutine may clean up after it was cancelled at its time limit, and all of them when the loop ends."""


class Run:
    """One claim that runs as a coroutine."""

    __slots__ = ("claim", "context", "cut", "definition", "task")

    def __init__(self, claim: Claim, definition: Definition, context: Context) -> None:
        self.claim, self.definition, self.context = claim, definition, context
        self.task: asyncio.Task[None] | None = None
        self.cut = False
        """Whether it was cancelled because its time limit passed."""


async def attempt(run: Run) -> Ending:
    """Run one claim to its ending; never raises."""
    begun = time.monotonic_ns()
    running_in_worker.set(run.claim)  # in a context of its own, as each task of the loop has one
    try:
        try:
            run.context.begin(run.definition)
            ending = returned(run.definition, run.claim, await invoke(run.definition, run.claim, run.context))
        except BaseException as exc:  # SystemExit too: it is the task's failure, and must not end the loop
            ending = _raised(run, exc)
        ending = run.context.concluded(ending)
    except BaseException:  # as in call.call
        ending = indescribable(run.claim)
    return timed(ending, begun)


def _raised(run: Run, exc: BaseException) -> Ending:
    if isinstance(exc, Unfit):
        return exc.ending
    if isinstance(exc, asyncio.CancelledError):
        if run.cut:
            message = f"it ran for over its time limit of {_limit_s(run):g} s and was cancelled"
            return Ending(run.claim, "failed", ran_ms=0, reason="time_limit", message=message)
        if run.context.cancelled():
            return Ending(run.claim, "cancelled", ran_ms=0, message="its cancellation was asked for")
    return raised(run.definition, run.claim, exc)


class LoopExecutor:
    """ports.Executor by an event loop. `wake` is called from its thread whenever something finished."""

    def __init__(
        self,
        size: int,
        definitions: Mapping[str, Definition],
        wake: Callable[[], None],
        desk: Desk | None = None,
    ) -> None:
        self._size, self._definitions, self._wake, self._desk = size, definitions, wake, desk
        self._queue: deque[Claim] = deque()
        self._done: deque[Ending] = deque()
        self._waiting: dict[Claim, Context] = {}
        self._running: dict[Claim, Run] = {}
        self._limited = any(d.options.time_limit_ms is not None for d in definitions.values())
        self._given_up: set[Run] = set()
        """Kept until they end, since a loop alone doesn't keep its tasks alive."""
        self._plain = contextvars.Context()
        self._poked = self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # in the worker's thread

    def start(self, claim: Claim) -> None:
        self._waiting[claim] = Context(claim, self._desk, self._wake)
        self._queue.append(claim)  # handed over by the next question, with the rest of its tick

    def finished(self) -> list[Ending]:
        endings: list[Ending] = []
        while self._done:
            endings.append(self._done.popleft())
        if self._limited:
            endings += self._expired()
        self._hand_over()
        return endings

    def limit_ms(self) -> int | None:
        self._hand_over()
        if not self._limited:
            return None
        return first_limit_ms([run.context for run in list(self._running.values())])

    def cancel(self, claim: Claim) -> None:
        if self._waiting.pop(claim, None) is not None:  # whoever takes it from the queue passes it by
            self._end(Ending(claim, "cancelled"))
            return
        run = self._running.get(claim)
        if run is not None and not run.context.cancelled():  # twice would disturb its cleaning up
            run.context.ask_to_stop()
            self._call(self._interrupt, run)

    def progress(self) -> list[tuple[Claim, str]]:
        return all_progress([(claim, run.context) for claim, run in list(self._running.items())])

    def waiting(self, kind: str | None = None) -> int:
        return len(self._waiting)

    def withdraw(self) -> list[Claim]:
        claims: list[Claim] = []
        while True:
            try:
                claim = self._queue.popleft()
            except IndexError:
                return claims
            if self._waiting.pop(claim, None) is not None:
                claims.append(claim)

    def settled(self, claim: Claim) -> bool:
        run = self._running.get(claim)
        return run is not None and run.context.settled()

    def lose(self, claim: Claim) -> None:
        if self._waiting.pop(claim, None) is None:
            self._give_up(claim)

    def close(self) -> None:
        self.withdraw()
        self._closed = True
        if self._loop is not None and self._thread is not None:
            self._call(self._loop.stop)
            self._thread.join(CLEAN_UP_S * 1.5)  # not for ever: it may be blocked

    def _hand_over(self) -> None:
        """Have the loop look into the queue.

        Once for all that a tick has started: each waking of the loop passes the interpreter lock to it and back, which
        is dearer than the tasks. A worker asks limit_ms() or finished() right after its starts.
        """
        if self._queue and not self._poked and (self._loop is not None or self._begin()):
            self._poked = True
            self._call(self._admit)

    def _begin(self) -> bool:
        try:
            loop = asyncio.SelectorEventLoop(selector := WatchedSelector())
        except OSError:  # out of descriptors: the next question tries again
            return False
        loop.set_default_executor(DaemonPool())
        thread = threading.Thread(target=self._main, args=(loop,), name="nextdue-loop", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # out of memory, or the interpreter ends
            loop.close()
            return False
        self._loop, self._thread = loop, thread
        with contextlib.suppress(RuntimeError):  # the same; without a watch it works all the same
            watch(selector, thread, lambda: self._names(loop))
        return True

    def _call(self, fn: Callable[..., object], *args: object) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(fn, *args, context=self._plain)

    def _expired(self) -> list[Ending]:
        now = time.monotonic()
        endings: list[Ending] = []
        for claim, run in list(self._running.items()):
            if run.context.ends_at is None or run.context.ends_at > now:
                continue
            if not run.cut:
                run.cut = True
                run.context.ends_at = now + CLEAN_UP_S
                self._call(self._interrupt, run)
            elif self._give_up(claim):
                endings.append(_over(run))
        return endings

    def _give_up(self, claim: Claim) -> bool:
        """Take the claim from its coroutine, which is cancelled and loses its slot; False if it has just ended."""
        run = self._running.get(claim)
        if run is None:
            return False
        self._given_up.add(run)
        if self._running.pop(claim, None) is None:
            self._given_up.discard(run)
            return False
        run.context.mark_lost()
        if not run.cut:  # or it is cleaning up
            self._call(self._interrupt, run)
        self._call(self._admit)
        return True

    # in the loop's thread

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._closed:
            try:
                loop.run_forever()
            except BaseException as exc:  # SystemExit of a coroutine that a task has started beside itself
                loop.call_exception_handler({"message": "a callback tried to end the event loop", "exception": exc})
        end(loop)

    def _admit(self) -> None:
        """Start what waits as long as there are slots."""
        assert self._loop is not None
        self._poked = False
        while len(self._running) < self._size:
            try:
                claim = self._queue.popleft()
            except IndexError:
                return
            context = self._waiting.get(claim)
            if context is None:
                continue
            run = Run(claim, self._definitions[claim.name], context)
            # Without the loop's create_task() and a name to be made up: a quarter of what a task costs here. Its first
            # step is queued before others can see it, so that it comes before any cancellation.
            run.task = asyncio.Task(self._work(run), loop=self._loop, name=claim.name, context=self._plain.copy())
            self._running[claim] = run
            if self._waiting.pop(claim, None) is None:  # lost or withdrawn between these lines
                del self._running[claim]
                run.task.cancel()  # before its first step: nothing is called

    async def _work(self, run: Run) -> None:
        limit_ms = run.definition.options.time_limit_ms
        if limit_ms is not None:
            run.context.ends_at = time.monotonic() + limit_ms / 1000
            self._wake()
        ending = await attempt(run)
        if self._running.pop(run.claim, None) is None:
            self._given_up.discard(run)  # its slot is taken
            return
        self._end(ending)
        if self._queue:
            self._admit()

    def _end(self, ending: Ending) -> None:
        self._done.append(ending)
        self._wake()

    def _interrupt(self, run: Run) -> None:
        if run.task is not None:
            run.task.cancel()

    def _names(self, loop: asyncio.AbstractEventLoop) -> str | None:
        """The task whose coroutine is at this moment not letting go of the loop, for the watch."""
        task = asyncio.current_task(loop)
        return next((f"{r.claim.name} #{r.claim.id}" for r in list(self._running.values()) if r.task is task), None)


def end(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what was abandoned, give it a moment to clean up, and let go of the loop."""
    loop.set_exception_handler(lambda loop, context: None)  # nobody waits for these any more
    with contextlib.suppress(BaseException):
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=CLEAN_UP_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _limit_s(run: Run) -> float:
    return (run.definition.options.time_limit_ms or 0) / 1000


def _over(run: Run) -> Ending:
    message = (
        f"it ran for over its time limit of {_limit_s(run):g} s and still does: it goes on although it was "
        "cancelled, or the event loop is blocked. Its end will be ignored"
    )
    ran_ms = run.definition.options.time_limit_ms
    return Ending(run.claim, "failed", ran_ms=ran_ms, reason="time_limit", message=message)
