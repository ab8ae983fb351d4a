"""Saying who blocks the event loop: a thread beside it that looks on only while the loop has work.

A loop that waits is inside its selector; so long as it is anywhere else, one coroutine has it and all others stand
still. The selector notes when it was left, and the watch reads that note at most once a second.
"""

import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable

log = logging.getLogger("nextdue")

BLOCKED_S = 1.0
"""How long a coroutine may keep the loop to itself before it is reported."""


class WatchedSelector(selectors.DefaultSelector):
    """A selector that notes since when (monotonic seconds) its loop is busy, and tells it to a sleeping watch."""

    def __init__(self) -> None:
        super().__init__()
        self.busy_since: float | None = None
        self.left = threading.Event()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As in the base class."""
        self.busy_since = None
        ready = super().select(timeout)
        self.busy_since = time.monotonic()
        if not self.left.is_set():
            self.left.set()
        return ready

    def close(self) -> None:
        """As in the base class; the watch needn't sleep any longer."""
        super().close()
        self.left.set()


class Watch:
    """Reports each task that blocks the loop of `thread`, once. `task` names the one that has the loop now.

    Ends with that thread.
    """

    def __init__(self, selector: WatchedSelector, thread: threading.Thread, task: Callable[[], str | None]) -> None:
        self._selector, self._thread, self._task = selector, thread, task
        self._told: set[str] = set()
        threading.Thread(target=self._work, name="nextdue-watch", daemon=True).start()

    def _work(self) -> None:
        while self._thread.is_alive():
            self._selector.left.wait()
            self._selector.left.clear()
            self._thread.join(BLOCKED_S)
            since = self._selector.busy_since
            if since is None:
                continue
            self._thread.join(max(0.0, since + BLOCKED_S - time.monotonic()))
            if self._selector.busy_since == since and self._thread.is_alive():
                self._report()

    def _report(self) -> None:
        who = self._task() or "a coroutine that a task has started beside itself"
        frame = sys._current_frames().get(self._thread.ident or 0)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"
        name = who.partition(" #")[0]
        if name not in self._told:
            self._told.add(name)
            log.warning(
                "%s blocks the event loop for over %g s, at %s: all other coroutines stand still. "
                "Write await asyncio.to_thread(...) for what takes long, or a plain function",
                who, BLOCKED_S, place,
            )  # fmt: skip
