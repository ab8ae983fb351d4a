"""One thread writes down what attempts brought, so that those that end together share one commit and its fsync.

It also keeps the event loop free of waits for the disk and for the file's write lock.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from nextdue import Context
from signal_feeds.store import Tx

MOST = 64
"""So many outcomes one transaction holds at most: others must not wait long for the write lock."""
GATHER_S = 0.002
"""So long a commit waits for others to join it. It takes a quarter of the CPU off 10,000 answers of 'not modified', and
makes them 1.07 times as fast with 16 jobs; 5 ms make them slower (bench of 2026-12-01)."""
T = TypeVar("T")


class _Outcome(NamedTuple):
    ctx: Context
    again: datetime
    write: Callable[[Tx], Any]
    loop: asyncio.AbstractEventLoop
    told: "asyncio.Future[Any]"


class Recorder:
    """Settles attempts. `begin` opens a transaction: `with begin() as tx`."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Any]]) -> None:
        self._begin = begin
        self._queue: SimpleQueue[_Outcome | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def record(self, ctx: Context, again: datetime, write: Callable[[Tx], T]) -> T:
        """Call `write(tx)` and set the task's next due to `again`, in one commit; answer what `write` answered.

        `write` may be called twice: where another outcome of the same commit fails, each is written alone.
        Raises LeaseLost, StoreError, and what `write` raises; then nothing was written.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="signal-recorder", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        told: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Outcome(ctx, again, write, loop, told))
        return await told

    def close(self) -> None:
        """End the thread once what it was given is written."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            time.sleep(GATHER_S)
            batch = [first]
            while len(batch) < MOST:
                try:
                    other = self._queue.get_nowait()
                except Empty:
                    break
                if other is None:
                    self._queue.put(None)
                    break
                batch.append(other)
            self._settle(batch)

    def _settle(self, batch: list[_Outcome]) -> None:
        try:
            answers = self._together(batch)
        except BaseException as error:  # whatever it is, nobody may wait for ever
            if len(batch) > 1:
                for one in batch:
                    self._settle([one])
            else:
                _tell(batch, [error])
            return
        _tell(batch, answers)

    def _together(self, batch: list[_Outcome]) -> list[Any]:
        answers = []
        with self._begin() as tx:
            for one in batch:
                with one.ctx.finish(tx=tx, again=one.again):
                    answers.append(one.write(tx))
        return answers


def _tell(batch: list[_Outcome], answers: list[Any]) -> None:
    """Wake the coroutines, each loop once."""
    for loop in {one.loop for one in batch}:
        pairs = [(one.told, answer) for one, answer in zip(batch, answers, strict=True) if one.loop is loop]
        try:
            loop.call_soon_threadsafe(_set, pairs)
        except RuntimeError:  # the worker has ended, and its loop with it: nobody waits any more
            continue


def _set(pairs: list[tuple["asyncio.Future[Any]", Any]]) -> None:
    for told, answer in pairs:
        if told.done():  # its coroutine was cancelled meanwhile
            continue
        if isinstance(answer, BaseException):
            told.set_exception(answer)
        else:
            told.set_result(answer)
