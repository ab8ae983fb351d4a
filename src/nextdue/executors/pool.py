"""Threads for the blocking calls of coroutines (asyncio.to_thread) that never hold up the end of the process."""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

SIZE = 32


class DaemonPool(ThreadPoolExecutor):
    """Up to 32 threads, each made when all others are busy.

    The interpreter waits at its end for the threads of a ThreadPoolExecutor, so that a stopped worker would hang for
    as long as an abandoned task blocks one. An event loop accepts no other kind, hence the base class.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._made = self._busy = 0
        self._over = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run fn(*args, **kwargs) in a thread. Raises RuntimeError if there can be none."""
        future: Future[R] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as exc:
                future.set_exception(exc)
            else:
                future.set_result(result)

        with self._lock:
            if self._over:
                raise RuntimeError("the event loop has ended")
            if self._busy >= self._made and self._made < SIZE:
                self._make()
            self._busy += 1
        self._calls.put(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more. Never waits."""
        with self._lock:
            self._over = True
            for _ in range(self._made):
                self._calls.put(None)

    def _make(self) -> None:
        thread = threading.Thread(target=self._work, name=f"nextdue-blocking-{self._made + 1}", daemon=True)
        # With others at work a missing one only means waiting.
        with contextlib.suppress(RuntimeError) if self._made else contextlib.nullcontext():
            thread.start()
            self._made += 1

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            with self._lock:
                self._busy -= 1
